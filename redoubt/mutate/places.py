# SPDX-License-Identifier: GPL-2.0-only
"""Where memory with a key is written or asked, and code with a choice of which place is missing.

Places are found by their text, in the files of kernel/ and in what the patches add to others; C is
not parsed. Each becomes a choice by number, which kpkeys_mutant.h makes, and no line moves.
"""

from __future__ import annotations

import fnmatch
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from redoubt.core.diff import hunks
from redoubt.core.errors import RedoubtError
from redoubt.linux import topics, tree
from redoubt.targets import Target

GUARD, SCOPE, CLASS, WRITER = "guard", "scope", "class", "writer"
RAISE, LOWER, BARRIER, RESTART = "raise", "lower", "barrier", "restart"
BATCH, LEDGER, FIXUP, KEY = "batch", "ledger", "fixup", "key"
ASK, ROOT, LINK, FLUSH = "ask", "root", "link", "flush"
PIN, TASK = "pin", "task"
# Kinds of asi_places.py begin like this. The first is of parts of conditions.
ISOLATION = "asi-"
CLAUSE = ISOLATION + "if"


def name_of(place: Mapping[str, Any]) -> str:
    """What a place is called, whatever line it stands on."""
    return "{file}:{function}:{kind}:{number}".format_map(place)


def _one_line(code: str) -> str:
    return " ".join(code.replace("\\\n", "\n").split())


@dataclass(frozen=True)
class Site:
    """A place that can be taken out.

    `line` counts from 1, and so does `number`, which tells places of one kind in a function apart.
    From offset `start` in the text of the file there is `removed`, for which `replacement` would
    have to stand.
    """

    file: str
    line: int
    kind: str
    function: str
    number: int
    start: int
    removed: str
    replacement: str

    @property
    def name(self) -> str:
        """As of name_of()."""
        return name_of(vars(self))

    @property
    def text(self) -> str:
        """What stands there, in one line."""
        return _one_line(self.removed)

    @property
    def mutated(self) -> str:
        """What stands there without it, in one line."""
        return _one_line(self.replacement)

    def matches(self, pattern: str) -> bool:
        """Is a pattern of the shell the file, the end of its path, the function or the name?"""
        return any(
            fnmatch.fnmatchcase(name, pattern) for name in (self.file, self.function, self.name)
        ) or fnmatch.fnmatchcase(self.file, f"*/{pattern}")


# === What can be taken out =======================================================================

# Macros that raise the level, write and lower it, and what they write with.
_WRITERS = {
    "__write_entry": "WRITE_ONCE(*({}), {})",
    "__write_entry_raised": "WRITE_ONCE(*({}), {})",
    "__xchg_entry": "xchg_relaxed({}, {})",
}


def comment(code: str) -> str:
    """No code, with what was there for those who read it, as the next ones have it."""
    return f"/* {code.replace('/*', '').replace('*/', '')} */"


def zero(code: str) -> str:
    """Zero: success, or no bits."""
    return f"0 {comment(code)}"


def yes(code: str) -> str:
    """That something may be, or is so."""
    return f"true {comment(code)}"


def no(code: str) -> str:
    """That it may not be, or is not so."""
    return f"false {comment(code)}"


def _never(code: str) -> str:
    return f"-1 {comment(code)}"


def _unchecked_root(code: str) -> str:
    return f"({code.partition('(')[2][:-1]})->pgd"


def _unchecked_bits(code: str) -> str:
    return f"({_arguments(code.partition('(')[2][:-1])[0]})"


def _claimed_mm(code: str) -> str:
    return f"({code.partition('(')[2][:-1]})->mm"


def _raw(code: str) -> str:
    name, _, rest = code.partition("(")
    return _WRITERS[name].format(*_arguments(rest[:-1]))


@dataclass(frozen=True)
class Rule:
    """What to look for: a pattern, so many pairs of brackets behind it, and what to leave.

    With `alone`, only as a statement of its own.
    """

    kind: str
    pattern: str
    brackets: int
    leave: Callable[[str], str]
    alone: bool = False


# In front of a value, and neither of a prototype nor of a definition.
_VALUE = r"(?:(?<=[=|&] )|(?<=[(!])|(?<=return ))"

# Macros that are an entry of the exception table.
_EXTABLE = ("_ASM_EXTABLE_PKS", "_ASM_EXTABLE_KPKEYS")

_RULES = (
    Rule(GUARD, r"\bguard(?=\(kpkeys_)", 2, comment, alone=True),
    # What follows is a statement or a block, which remains.
    Rule(SCOPE, r"\bscoped_(?:guard|class)(?=\(kpkeys_)", 1, comment),
    Rule(CLASS, r"\bCLASS(?=\(kpkeys_)", 2, comment, alone=True),
    Rule(WRITER, rf"\b(?:{'|'.join(_WRITERS)})(?=\()", 1, _raw),
    Rule(RAISE, r"\bkpkeys_raise(?=\()", 1, comment, alone=True),
    # Also where an interrupt ends that came in between.
    Rule(RAISE, r"\bx86_write_pkrs(?=\(PKRS_(?:PGTABLES|STATE|CRED)\))", 1, comment, alone=True),
    Rule(
        RAISE,
        r"\barm64_write_por_el1(?=\(POR_EL1_(?:PGTABLES|STATE|CRED)\))",
        1,
        comment,
        alone=True,
    ),
    Rule(LOWER, r"\barm64_write_por_el1(?=\(POR_EL1_DEFAULT\))", 1, comment, alone=True),
    Rule(LOWER, r"\bx86_write_pkrs(?=\(PKRS_DEFAULT\))", 1, comment, alone=True),
    # Behind the write of the register, in one statement with it.
    Rule(BARRIER, r'"isb\\n"', 0, lambda _: '""'),
    # In assembly: where a CPU starts or changes to another exception level.
    Rule(LOWER, r"(?<=\t)msr\tREG_POR_EL1, \w+", 0, comment),
    Rule(LOWER, r"(?<=^\t)kpkeys_write_level POR_EL1_DEFAULT, \S+", 0, comment),
    Rule(BARRIER, r"(?<=^\t)isb(?=$)", 0, comment),
    # Where code goes back to that was interrupted in a write of the register.
    Rule(
        RESTART,
        r"\b(?:x86_pks_restart_write|kpkeys_restart_lowering)(?=\()",
        1,
        comment,
        alone=True,
    ),
    Rule(BATCH, r"\bkpkeys_batch_(?:begin|end|pause|resume)(?=\()", 1, comment, alone=True),
    Rule(LEDGER, r"\bkpkeys_ledger_(?:push|pop|clear)(?=\()", 1, comment, alone=True),
    Rule(FIXUP, rf"\b(?:{'|'.join(_EXTABLE)})(?=\()", 1, comment),
    # The handler, which no longer knows them.
    Rule(FIXUP, r"(?<=[=!]= )EX_TYPE_(?:PKS|KPKEYS)\b", 0, _never),
    Rule(KEY, rf"{_VALUE}(?:arch_)?set_memory_pkey(?=\()", 1, zero),
    Rule(
        KEY,
        r"\b(?:kpkeys_hardened_pgtables_add|kpkeys_region_set_early|kvm_mmu_cache_hold_page_tables)"
        r"(?=\()",
        1,
        comment,
        alone=True,
    ),
    # Questions whether something may be mapped, moved, linked or freed, or enter a pool as it is.
    Rule(
        ASK,
        rf"{_VALUE}kpkeys_(?:may_map|mappings_search|mappings_offered|region_set_kind|region_link|"
        r"is_guest_entry)(?=\()",
        1,
        yes,
    ),
    # Whether what is written is state.
    Rule(ASK, r"(?<=!)kpkeys_is_state(?=\()", 1, yes),
    # Whether credentials may be written or used, and whether a pointer leads to an object at all.
    Rule(
        ASK,
        rf"{_VALUE}kpkeys_(?:cred_is_(?:mine|shared_with|unused|usable)|cred_may_write|object_is|"
        r"task_is_near|task_is_here)(?=\()",
        1,
        yes,
    ),
    Rule(ASK, rf"{_VALUE}kpkeys_regs_differ(?=\()", 1, no),
    # Whether a copy is between ordinary memory and a secret of the owner.
    Rule(ASK, rf"{_VALUE}kpkeys_secret_(?:is_of|may_copy|run_may_change)(?=\()", 1, yes),
    Rule(ASK, r"(?:(?<=\|\| )|(?<=\|\|\n\t    ))kpkeys_is_secret(?=\()", 1, no),
    Rule(ASK, rf"{_VALUE}test_bit(?=\(\w+, region->linked\))", 1, no),
    Rule(ASK, rf"{_VALUE}kpkeys_mappings_hold_still(?=\()", 1, no),
    Rule(ROOT, rf"{_VALUE}kpkeys_root(?=\()", 1, _unchecked_root),
    Rule(ROOT, rf"{_VALUE}kpkeys_root_bits(?=\()", 1, _unchecked_bits),
    Rule(ROOT, r"\bkpkeys_root_release(?=\()", 1, comment, alone=True),
    Rule(ROOT, rf"{_VALUE}kpkeys_root_release(?=\()", 1, yes),
    # The caller then writes the entry itself.
    Rule(LINK, rf"{_VALUE}(?:kpkeys_link_table|kpkeys_clear_link)(?=\()", 1, no),
    Rule(LINK, r"\bkpkeys_(?:note|unlink)_table(?=\()", 1, comment, alone=True),
    # What keeps credentials that a task has.
    Rule(PIN, r"\bkpkeys_cred_(?:un)?pin(?=\()", 1, comment, alone=True),
    # What is noted of a task, and compared with it.
    Rule(
        TASK,
        r"\bkpkeys_(?:cred_adopt|cred_share|regs_check|regs_save|task_(?:set_mm|leave_stack)|verify_mm)"
        r"(?=\()",
        1,
        comment,
        alone=True,
    ),
    Rule(TASK, rf"{_VALUE}kpkeys_task_mm(?=\()", 1, _claimed_mm),
    # What pages that change hands wait for.
    Rule(FLUSH, r"\b(?:kpkeys_pool_flush|synchronize_rcu_expedited)(?=\()", 1, comment, alone=True),
)

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINE = re.compile(r"#\s*define\s+(\w+)")
# A function begins in the first column; labels do so too, and have no bracket.
_FUNCTION = re.compile(
    r"SYM_\w+_START\w*\((\w+)|\s*\.macro\s+(\w+)|(?=[A-Za-z_])[^;={}]*?\b(\w+)\("
)


def closing(text: str, opening: int) -> int:
    """The offset behind the bracket that belongs to the one at `opening`, or -1."""
    depth = 0
    for offset in range(opening, len(text)):
        if text[offset] == "(":
            depth += 1
        elif text[offset] == ")":
            depth -= 1
            if not depth:
                return offset + 1
    return -1


def _arguments(text: str) -> list[str]:
    """The arguments of a call with two, without its brackets."""
    depth = 0
    for offset, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            return [text[:offset].strip(), text[offset + 1 :].strip()]
    raise RedoubtError(f"two arguments expected: {text}")


def _end(text: str, rule: Rule, match: re.Match[str]) -> int:
    """Where that which the rule takes out ends, or -1 if this is something else."""
    end = match.end()
    for _ in range(rule.brackets):
        end = closing(text, end) if text[end : end + 1] == "(" else -1
        if end < 0:
            return -1
    if rule.alone:
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not before or before.strip() or text[end : end + 1] != ";":
            return -1
    return end


def function(lines: list[str], index: int) -> str:
    """The macro or function that a line (from 0) is in, found upwards."""
    top = index
    while top and lines[top - 1].endswith("\\"):
        top -= 1
    if match := _DEFINE.match(lines[top]):
        return match[1]
    for line in reversed(lines[:index]):
        if (match := _FUNCTION.match(line)) and not line.endswith(";"):
            return match[match.lastindex or 0]
    return "-"


@dataclass(frozen=True)
class Found:
    """What a place is to be: from offset `start` on, `removed` gets a `replacement`."""

    start: int
    kind: str
    removed: str
    replacement: str


def matches(text: str, rules: Iterable[Rule]) -> Iterator[Found]:
    """What rules find in a text, outside of comments."""
    comments = [match.span() for match in _COMMENT.finditer(text)]
    for rule in rules:
        for match in re.finditer(rule.pattern, text, re.MULTILINE):
            if any(start <= match.start() < end for start, end in comments):
                continue
            end = _end(text, rule, match)
            if end >= 0:
                removed = text[match.start() : end]
                yield Found(match.start(), rule.kind, removed, rule.leave(removed))


def numbered(
    file: str, text: str, found: Iterable[Found], lines: Collection[int] | None
) -> list[Site]:
    """What was found in the text of a file: all, or what begins in one of these lines."""
    split = text.split("\n")
    counts: Counter[tuple[str, str]] = Counter()
    sites = []
    for one in sorted(found, key=lambda one: one.start):
        index = text.count("\n", 0, one.start)
        if lines is not None and index + 1 not in lines:
            continue
        # One such macro in terms of another, or where they are defined; and constants.
        if (one.kind in (WRITER, FIXUP) or one.kind.startswith(ISOLATION)) and _DEFINE.match(
            split[index]
        ):
            continue
        where = function(split, index)
        counts[where, one.kind] += 1
        number = counts[where, one.kind]
        sites.append(
            Site(
                file, index + 1, one.kind, where, number, one.start, one.removed, one.replacement
            )
        )  # fmt: skip
    return sites


def find(file: str, text: str, lines: Collection[int] | None = None) -> list[Site]:
    """The places in the text of a file: all, or those that begin in one of these lines."""
    return numbered(file, text, matches(text, _RULES), lines)


# === Choices =====================================================================================

HEADER = "include/linux/kpkeys_mutant.h"
# Defines the number: the object that has it, and files of assembly, are made anew for each.
MISSING = "include/linux/kpkeys_mutant_missing.h"
# The lines of a file are counted as before.
_HEAD = "#include <linux/kpkeys_mutant.h>\n#line 1\n"
_ASM_HEAD = f"#ifdef __ASSEMBLER__\n#include <{MISSING.removeprefix('include/')}>\n#endif\n{_HEAD}"
_ASM = "asm volatile("
# In a header, as the kernel marks where it ends.
_FOR_ASSEMBLER = re.compile(
    r"^#ifdef __ASSEMBLER__$.*?^#(?:else|endif) /\* !?__ASSEMBLER__ \*/$", re.M | re.S
)


def _is_assembly(text: str, site: Site) -> bool:
    return site.file.endswith(".S") or any(
        match.start() < site.start < match.end() for match in _FOR_ASSEMBLER.finditer(text)
    )


def _called(code: str) -> tuple[str, str, str]:
    """What a call of a macro is of, what stands in its brackets, and what is behind them."""
    name = code.partition("(")[0]
    end = closing(code, len(name))
    return name, code[len(name) + 1 : end - 1], code[end:]


def _choice(text: str, site: Site, number: int) -> tuple[int, int, str]:
    """From where to where the text changes for a place, and what stands there then."""
    start, end, code = site.start, site.start + len(site.removed), site.removed
    asked = f"KPKEYS_MUTANT({number})"
    name, inside, behind = _called(code) if "(" in code else (code, "", "")
    if _is_assembly(text, site):
        said = f"KPKEYS_MUTANT_INSN({number}, {code})"
    elif site.kind == GUARD:
        said = f"KPKEYS_MUTANT_CLASS({number}, {inside}, __UNIQUE_ID(guard)){behind}"
    elif site.kind == CLASS:
        said = f"KPKEYS_MUTANT_CLASS({number}, {inside}){behind}"
    elif site.kind == SCOPE:
        var = ", __UNIQUE_ID(scope)" if name == "scoped_guard" else ""
        said = f"KPKEYS_MUTANT_SCOPE({number}, {inside}{var})"
    elif site.kind == BARRIER or (site.kind == FIXUP and name in _EXTABLE):
        # The statement is there twice, as neither a part of it nor an entry in a table can be
        # chosen.
        start = text.rindex(_ASM, 0, start)
        end = closing(text, start + len(_ASM) - 1)
        whole = text[start:end]
        without = text[start : site.start] + text[site.start + len(code) : end]
        # Of two copies only one may have the line breaks.
        said = f"({{ if ({asked}) {_one_line(without)}; else {whole}; }})"
    elif name in _WRITERS and _WRITERS[name].startswith("WRITE_ONCE"):
        said = f"({{ if ({asked}) {site.mutated}; else {code}; }})"
    elif site.kind == CLAUSE:
        # Whatever the type of the clause.
        said = (
            f"({asked} || ({code}))"
            if site.mutated == yes(site.text)
            else f"(!{asked} && ({code}))"
        )
    elif site.replacement == comment(code):
        said = f"KPKEYS_MUTANT_CALL({number}, {code})"
    else:
        said = f"({asked} ? {site.mutated} : {code})"
    return start, end, said


def chosen(text: str, sites: Mapping[int, Site]) -> str:
    """The text of a file with these places, each of which is missing if its number is chosen.

    Raises RedoubtError if that is not the text that they were found in.
    """
    assembly = any(_is_assembly(text, site) for site in sites.values())
    for number, site in sorted(sites.items(), key=lambda one: -one[1].start):
        if text[site.start : site.start + len(site.removed)] != site.removed:
            raise RedoubtError(f"{site.file} has changed since {site.name} was found in it")
        start, end, said = _choice(text, site, number)
        text = text[:start] + said + text[end:]
    return (_ASM_HEAD if assembly else _HEAD) + text


def compiled(images: Iterable[Path]) -> frozenset[int]:
    """The numbers of the places that are in these images and modules, told by kpkeys_mutant.h."""
    return frozenset(
        int(number)
        for image in images
        for number in re.findall(rb"\bkpkeys mutant (\d+)\0", image.read_bytes())
    )


# === Where to look ===============================================================================


@dataclass(frozen=True)
class Source:
    """A file as it is in our tree, and which of its lines are ours: all if None."""

    text: str
    lines: frozenset[int] | None = None


def added(before: Path, after: Path) -> frozenset[int]:
    """The lines (from 1) of a file that the other one has not: those that a patch would add."""
    return frozenset(line for hunk in hunks(before, after) for line in hunk.new)


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "surrogateescape")


def _concerns(file: str, target: Target) -> bool:
    """Is a file compiled for a target, as far as its path tells?"""
    place = PurePosixPath(file)
    if place.suffix not in (".c", ".h", ".S") or place.stem.endswith("_test"):
        return False
    parts = place.parts
    if "tests" in parts:
        return False
    if parts[0] != "arch":
        return True
    # UML's part of another architecture is UML's.
    return ("um" if parts[2] == "um" else parts[1]) == target.architectures[0]


def sources(target: Target, pristine: Path, repo: Path) -> dict[str, Source]:
    """The files of our tree that protect the page tables of a target.

    Not among them are tests, and topics that are never exported. Raises RedoubtError if a patch
    does not apply, or diff is missing.
    """
    result = {}
    for topic in topics.load(repo):
        for file in topic.files if not topic.local else ():
            if _concerns(file, target):
                result[file] = Source(_read(repo / "kernel" / file))
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        copies = Path(name)
        for file in tree.patched(pristine, tree.queue(repo), copies):
            # A local patch may change what is of kernel/.
            if _concerns(file, target) and file not in result:
                text = _read(copies / file)
                result[file] = Source(text, added(pristine / file, copies / file))
    return result


def sites(found: Mapping[str, Source]) -> Iterator[Site]:
    """All places in these files, file by file."""
    for file in sorted(found):
        yield from find(file, found[file].text, found[file].lines)
