# SPDX-License-Identifier: GPL-2.0-only
"""Where address space isolation flushes, maps, clears, decides and leaves.

Its own code is read for statements and conditions, and other code for the hooks that it has there.
Places of page tables, of which it has some as well, stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from redoubt.mutate import places
from redoubt.mutate.places import CLAUSE, ISOLATION, Found, Rule, Site, Source
from redoubt.mutate.places import comment as _comment
from redoubt.mutate.places import no as _no
from redoubt.mutate.places import yes as _yes
from redoubt.mutate.places import zero as _zero
from redoubt.targets import Target
from redoubt.trial.asi import asi

FLUSH, MAP, CLEAR, MARK, EXIT, CR3, ASK, LIMIT = (
    ISOLATION + kind for kind in ("flush", "map", "clear", "mark", "exit", "cr3", "ask", "limit")
)

# === What can be taken out =======================================================================


def _inside(code: str) -> str:
    return f"({code.partition('(')[2][:-1]})"


def _movable(code: str) -> str:
    return f"MIGRATE_MOVABLE {_comment(code)}"


def _calls(kind: str, *names: str, first: str = "") -> Rule:
    """Statements that call one of these, if the first argument begins as told."""
    pattern = rf"(?<!\w)(?:{'|'.join(names)})(?=\({first})"
    return Rule(kind, pattern, 1, _comment, alone=True)


# In the code of isolation itself.
_OWN = (
    _calls(
        FLUSH, "flush_tlb_kernel_range", "flush_tlb_all", "flush_tlb_local", "invlpg",
        "invpcid_flush_one", "smp_call_function_many", "switch_mm_irqs_off", "cpumask_clear_cpu",
        "indirect_branch_prediction_barrier", "x86_clear_cpu_buffers", "asi_flush_predictors",
        "asi_flush_data", "asi_invalidate", "ephmap_make_stale",
    ),
    # Notes to flush later.
    _calls(
        FLUSH, "(?:raw|this)_cpu_(?:write|or|and)",
        first=r"(?:asi_stale|asi_left|cpu_tlbstate\.invalidate_other)",
    ),
    _calls(
        MAP, "arch_asi_set", "asi_sync_locked", "asi_sync_direct_map", "asi_spread_pgds",
        "asi_set_blocks", "asi_set_type", "clone_pgd_range", "set_pgd", "set_pmd", "set_pte",
        "pagefault_disable",
    ),
    _calls(MAP, "WRITE_ONCE", first=r"\*(?:asi_restricted_pgd|kernel_to_user_pgdp)\("),
    _calls(CLEAR, "asi_clear_pages", "clear_page", "asi_clean", "memset", "take", "note"),
    _calls(CLEAR, "static_branch_enable", first="&asi_clea"),
    _calls(EXIT, "asi_enter_counted", "asi_before_exit", "asi_load_cr3", "native_write_cr3"),
    # Which NMI has to enter again.
    _calls(EXIT, "raw_cpu_write", first=r"asi_interrupted\."),
    _calls(LIMIT, "atomic_long_(?:add|sub)", first=r"[^;]*&dirty->nr"),
    Rule(LIMIT, r"atomic_long_read\(&dirty->nr\) \+ \(1L << order\) <= asi_dirty_max", 0, _yes),
    Rule(CR3, r"(?:(?<=return )|(?<=\| )|(?<=~))asi_cr3_bits(?=\()", 1, _zero),
    Rule(CR3, r"(?:(?<=return )|(?<=[|?] ))ASI_(?:CR3|PCID)_RESTRICTED\b", 0, _zero),
    Rule(CR3, r"(?<=& ~)CR3_NOFLUSH\b", 0, _zero),
    Rule(MARK, r"\b__GFP_SENSITIVE\b", 0, _zero),
    Rule(MARK, r"\bis_migrate_sensitive(?=\(asi_get_type\(page\)\))", 1, _no),
    Rule(MARK, r"(?<=return )asi_compatible(?=\()", 1, _yes),
    # Questions whether a process may see something in a window.
    Rule(ASK, r"(?<=!)ephmap_may_read(?=\()", 1, _yes),
    Rule(ASK, r"(?<=return )vfsuid_eq_kuid(?=\()", 1, _yes),
    Rule(ASK, r"(?<=return )noted & KNOWN\b", 0, _yes),
    Rule(ASK, r"(?<== )bytes_in\(page\) == buf->len\b", 0, _yes),
)  # fmt: skip

# In front of a value, and neither of a prototype nor of a definition.
_VALUE = r"(?<![\w*])(?<!void )(?<!bool )(?<!int )(?<!long )"

# In other code.
_HOOKS = (
    Rule(MARK, rf"{_VALUE}(?:asi_compatible|asi_make_fit)(?=\()", 1, _yes),
    Rule(MARK, rf"{_VALUE}(?:asi_is_sensitive|asi_needs_block|asi_convert)(?=\()", 1, _no),
    Rule(MARK, rf"{_VALUE}asi_pcp_type(?=\()", 1, _movable),
    Rule(MARK, rf"{_VALUE}asi_unreserved_type(?=\()", 1, _inside),
    Rule(MARK, r"\b__GFP_SENSITIVE\b", 0, _zero),
    Rule(MARK, r"\bmt == MIGRATE_UNMOVABLE_SENSITIVE\b", 0, _no),
    _calls(LIMIT, "asi_account_holes"),
    Rule(LIMIT, rf"{_VALUE}asi_unusable_holes(?=\()", 1, _zero),
    Rule(LIMIT, rf"{_VALUE}asi_may_serve(?=\()", 1, _yes),
    Rule(ASK, rf"{_VALUE}asi_(?:enabled|requested)(?=\(\))", 1, _no),
    Rule(ASK, rf"{_VALUE}asi_pipe_is_clean(?=\()", 1, _yes),
    Rule(
        CLEAR,
        rf"{_VALUE}asi_(?:must_clear|is_clean|may_defer|clears|gives_clean)(?=\()",
        1,
        _no,
    ),
    # Of a page that was not clean before.
    Rule(CLEAR, r"\bcopied < len\b", 0, _no),
    Rule(CLEAR, r"(?<=if \()asi_clean_all(?=\()", 1, _zero),
    _calls(CLEAR, "asi_clean_all", "asi_pipe_share", "asi_pipe_forget"),
    _calls(
        MAP, "asi_init", "asi_block_init", "asi_set_user_pgd", "asi_pgd_ctor", "asi_map_ldt",
        "asi_unmap_ldt", "asi_sync_global_pgds", "sync_restricted", "ephmap_free",
    ),
    _calls(EXIT, "asi_enter", "asi_exit", "irqentry_nmi_(?:enter|exit)_asi"),
    Rule(EXIT, r"(?<=if \()asi_fault(?=\()", 1, _no),
    Rule(EXIT, r"(?<== )asi_switch_mm(?=\()", 1, _zero),
    _calls(
        FLUSH, "asi_switched_mm", "asi_invalidate", "asi_invalidate_all", "__asi_flush_tlb_local",
        "__asi_flush_tlb_one_user",
    ),
    Rule(FLUSH, rf"{_VALUE}(?:asi_has_pcid|asi_restricted)(?=\(\))", 1, _no),
    Rule(CR3, rf"{_VALUE}asi_restricted_pcid(?=\()", 1, _zero),
    Rule(CR3, rf"{_VALUE}asi_strip_cr3(?=\()", 1, _inside),
)  # fmt: skip

# === Conditions ==================================================================================

_IF = re.compile(r"^\t+(?:\} else |else )?if (?=\()", re.MULTILINE)
_ANSWER = re.compile(r"^\t+(?:return|(?:const )?bool \w+ =)\s", re.MULTILINE)
_ELVIS = re.compile(r"\s\?\s*:")
# Assertions, and loops that fault memory in.
_NO_CONDITION = re.compile(r"WARN_ON|fault_in")
# Whether isolation is on at all or possible, what failed, whether a copy is at its end, and what a
# walk of page tables finds.
_NO_CLAUSE = re.compile(
    r"!?asi_enabled\(\)|!asi_requested\(\)|!asi_has_pcid\(\)|!?IS_(?:ENABLED|ALIGNED)\(.*"
    r"|!?(?:b(?:\[nr\])?\.)?(?:pt|p4d|pud|pmd|page|err|addr|to|from|vto|window|asi_pgd|mm|nr|why"
    r"|left|done)|(?:done < bytes|copied < n)"
    r"|.*(?:_none|_leaf|_present)\(.*|.*\b(?:pgtable_l5_enabled|arch_asi_populate)\(.*"
    r"|page_group_by_mobility_disabled|pageblock_order < PMD_ORDER|!asi_settle_zone\(zone\)"
    # More is flushed than was asked for.
    r"|!\(asi_flushes & .*",
    re.DOTALL,
)
# Functions that allocate page tables, look on, choose flushes, or keep a reserve.
_NO_GUARD = re.compile(
    r"asi_make_p[4um]d|ephmap_make_tables|ephmap_fault_in|arch_asi_(?:choose_)?flushes"
    r"|asi_needed_flushes|asi_flush_parse|asi_check_boottime_disable|asi_init"
    r"|asi_assert_restricted|asi_count_mapped|arch_asi_aliases|asi_count_free"
    r"|ephmap_(?:begin|end)_writing"
)

# From where to where a part of a condition goes.
_Span = tuple[int, int]


def _trimmed(text: str, start: int, end: int) -> _Span:
    """A part without space and brackets around it, nor a hint how likely it is."""
    while True:
        while text[start].isspace():
            start += 1
        while text[end - 1].isspace():
            end -= 1
        hint = re.compile(r"(?:(?:un)?likely)?(?=\()").match(text, start, end)
        if not hint or places.closing(text, hint.end()) != end:
            return start, end
        start, end = hint.end() + 1, end - 1


def _split(text: str, start: int, end: int, operator: str) -> list[_Span]:
    """The parts between an operator that stands in no brackets."""
    depth, parts, begin = 0, [], start
    for offset in range(start, end):
        depth += (text[offset] in "([{") - (text[offset] in ")]}")
        if not depth and text.startswith(operator, offset, end):
            parts.append((begin, offset))
            begin = offset + len(operator)
    return [*parts, (begin, end)]


def chains(text: str, start: int, end: int) -> Iterator[tuple[str, list[_Span]]]:
    """The operators of a condition, each with those of its operands that have none themselves.

    One without an operator is alone.
    """
    start, end = _trimmed(text, start, end)
    for operator in ("||", "&&"):
        parts = [_trimmed(text, *part) for part in _split(text, start, end, operator)]
        if len(parts) > 1:
            nested = [list(chains(text, *part)) for part in parts]
            yield operator, [spans[0] for (known, spans), *_ in nested if not known]
            yield from (one for inner in nested for one in inner if one[0])
            return
    yield "", [(start, end)]


def _answers(operator: str, clauses: Sequence[_Span], branch: bool) -> Iterator[tuple[_Span, bool]]:
    """What each part says in a mutant.

    A branch is not taken, and no part of it is asked. An answer has less to ask, or is yes.
    """
    if operator == "&&":
        yield from ((one, bool(number) or not branch) for number, one in enumerate(clauses))
    elif branch:
        yield from ((one, False) for one in clauses)
    else:
        yield from ((one, True) for one in clauses[-1:])


def _conditions(text: str) -> Iterator[tuple[int, int, bool]]:
    """From where to where all conditions go, and whether there is a branch behind it."""
    for match in _IF.finditer(text):
        yield match.end() + 1, places.closing(text, match.end()) - 1, True
    for match in _ANSWER.finditer(text):
        end = text.index(";", match.end())
        (_, asked), *more = _split(text, match.end(), end, " ?")
        # With nothing between "?" and ":" it is the answer itself, and no truth value.
        if not _ELVIS.match(text, asked, end):
            # One of two, as of a branch.
            yield match.end(), asked, bool(more)


def _clauses(text: str) -> Iterator[Found]:
    for start, end, branch in _conditions(text):
        if _NO_CONDITION.search(text, start, end):
            continue
        for operator, spans in chains(text, start, end):
            if not operator and not branch:
                continue
            judged = [one for one in spans if not _NO_CLAUSE.fullmatch(text, *one)]
            for span, said in _answers(operator, judged, branch):
                code = text[slice(*span)]
                yield Found(span[0], CLAUSE, code, (_yes if said else _no)(code))


# === Where to look ===============================================================================

_FILES = re.compile(
    r"mm/asi/\w+\.[ch]|include/linux/asi\w*\.h|arch/x86/mm/asi\w*\.c|arch/x86/include/asm/asi\.h"
)
_FUNCTIONS = re.compile(r"_*(?:arch_)?(?:asi|ephmap)_\w+|sync_restricted")
# Files that look on, and let tests do so.
_OBSERVERS = ("mm/asi/audit.c", "arch/x86/mm/asi_debug.c")


def find(
    file: str, text: str, lines: Collection[int] | None, taken: Collection[Site] = ()
) -> list[Site]:
    """The places of isolation in the text of a file, in its lines if they are told.

    Where one is `taken`, there is no other.
    """
    if file in _OBSERVERS:
        return []
    split = text.split("\n")

    def own(found: Found) -> bool:
        line = text.count("\n", 0, found.start)
        if lines is not None and line + 1 not in lines:
            return False
        function = places.function(split, line)
        mine = _FILES.fullmatch(file) or _FUNCTIONS.fullmatch(function)
        return bool(mine) and not _NO_GUARD.fullmatch(function)

    free: list[Found] = []
    inside = [found for found in chain(places.matches(text, _OWN), _clauses(text)) if own(found)]
    outside = [found for found in places.matches(text, _HOOKS) if not own(found)]
    spans = [(site.start, site.start + len(site.removed)) for site in taken]
    for found in chain(inside, () if _FILES.fullmatch(file) else outside):
        start, end = found.start, found.start + len(found.removed)
        if all(end <= other or behind <= start for other, behind in spans):
            spans.append((start, end))
            free.append(found)
    return places.numbered(file, text, free, lines)


def sites(found: Mapping[str, Source], target: Target) -> Iterator[Site]:
    """All places in these files, file by file: those of isolation if a target has it."""
    if not asi.possible(target):
        yield from places.sites(found)
        return
    for file in sorted(found):
        source = found[file]
        before = places.find(file, source.text, source.lines)
        more = find(file, source.text, source.lines, before)
        yield from sorted((*before, *more), key=lambda site: site.start)
