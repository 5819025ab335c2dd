# SPDX-License-Identifier: GPL-2.0-only
"""Places of address space isolation: what is found in small texts, and in our tree."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import REAL_BUILD

from redoubt.core import paths
from redoubt.mutate import asi_places, places
from redoubt.mutate.places import CLAUSE, ISOLATION, Site
from redoubt.targets import ARM64, UM, X86_64, X86_64_MKTME, X86_64_PCID

OWN, OTHER = "mm/asi/core.c", "mm/page_alloc.c"
HEAD = "#include <linux/kpkeys_mutant.h>\n#line 1\n"


def found(text: str, file: str = OWN, function: str = "f") -> list[Site]:
    return asi_places.find(file, f"static bool {function}(int x)\n{{\n{text}}}\n", None)


def said(text: str, file: str = OWN, function: str = "f") -> list[tuple[str, str]]:
    return [(site.text, site.mutated.partition(" ")[0]) for site in found(text, file, function)]


# === Conditions ==================================================================================


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        # A branch that is not taken.
        ("\tif (a)\n\t\tb();\n", [("a", "false")]),
        ("\tif (unlikely(!f(x, (y))))\n\t\tb();\n", [("!f(x, (y))", "false")]),
        ("\t} else if (likely(x->y[0])) {\n", [("x->y[0]", "false")]),
        # One reason less for it.
        ("\tif (a || f(b ||\n\t    c) || (d & e))\n\t\treturn false;\n",
         [("a", "false"), ("f(b || c)", "false"), ("d & e", "false")]),
        # None, or what else it takes left out.
        ("\tif (a && !b && c)\n\t\td();\n", [("a", "false"), ("!b", "true"), ("c", "true")]),
        ("\tif (a && (b || c))\n\t\td();\n", [("a", "false"), ("b", "false"), ("c", "false")]),
        # An answer that asks less.
        ("\treturn a && f(b) &&\n\t       c == d;\n",
         [("a", "true"), ("f(b)", "true"), ("c == d", "true")]),
        ("\tbool own = a && b;\n", [("a", "true"), ("b", "true")]),
        # Whatever else is asked, it is yes.
        ("\treturn a || b || c;\n", [("c", "true")]),
        ("\treturn a && (likely(b) || c);\n", [("a", "true"), ("c", "true")]),
        ("\treturn a ? b : c;\n", [("a", "false")]),
        ("\treturn a && b ? c : d;\n", [("a", "false"), ("b", "true")]),
        # Neither of them, nor a condition.
        ("\treturn f(a || b);\n\tx = a || b;\n\twhile (a && b)\n\t\tc();\n", []),
        # What is asserted, what failed, and whether isolation is on.
        ("\tif (WARN_ON_ONCE(a || b))\n\t\treturn NULL;\n", []),
        ("\tif (!page || pmd_none(*pmd))\n\t\treturn NULL;\n", []),
        ("\tif (!asi_enabled() || a)\n\t\treturn NULL;\n", [("a", "false")]),
        ("\treturn asi_enabled() && a;\n", [("a", "true")]),
        # The first that is judged decides whether a branch is taken.
        ("\tif (page && a && b)\n\t\tc();\n", [("a", "false"), ("b", "true")]),
    ],
)  # fmt: skip
def test_parts_of_conditions(text: str, parts: list[tuple[str, str]]) -> None:
    assert said(text) == parts
    assert {site.kind for site in found(text)} <= {CLAUSE}


def test_a_part_becomes_a_choice_of_no_type() -> None:
    text = "bool f(void)\n{\n\tif (p ||\n\t    q)\n\t\treturn x && y;\n}\n"
    sites = dict(enumerate(asi_places.find(OWN, text, None), 1))
    assert places.chosen(text, sites) == HEAD + (
        "bool f(void)\n{\n\tif ((!KPKEYS_MUTANT(1) && (p)) ||\n\t    (!KPKEYS_MUTANT(2) && (q)))\n"
        "\t\treturn (KPKEYS_MUTANT(3) || (x)) && (KPKEYS_MUTANT(4) || (y));\n}\n"
    )


@pytest.mark.parametrize(
    ("number", "says"),
    [(0, "01010"), (1, "01010"), (2, "11010"), (3, "01111"), (4, "01000")],
)
def test_what_a_compiler_makes_of_it(tmp_path: Path, number: int, says: str) -> None:
    text = (
        "static char *none;\nstatic int f(int a)\n{\n\tif (none || a < 0)\n\t\treturn 0;\n"
        "\tif (a > 0 && a != 2)\n\t\treturn 0;\n\treturn 1;\n}\n"
    )
    sites = dict(enumerate(asi_places.find(OWN, text, None), 1))
    assert [site.text for site in sites.values()] == ["none", "a < 0", "a > 0", "a != 2"]
    (tmp_path / "x.c").write_text(
        f"#include <stdio.h>\n#define KPKEYS_MUTANT(n) ({number} == (n))\n"
        f"{places.chosen(text, sites).removeprefix(HEAD)}"
        'int main(void)\n{\n\tfor (int i = -1; i < 4; i++)\n\t\tprintf("%d", f(i));\n}\n'
    )
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", "x", "x.c"], cwd=tmp_path, check=True)
    assert subprocess.check_output([tmp_path / "x"], text=True) == says


# === Statements and values =======================================================================


@pytest.mark.parametrize(
    ("kind", "text", "mutated"),
    [
        ("flush", "\tflush_tlb_kernel_range(a,\n\t\t\t       b);\n", "/*"),
        ("flush", "\tthis_cpu_write(asi_left, true);\n", "/*"),
        ("flush", "\traw_cpu_or(asi_stale[true], BIT(pcid));\n", "/*"),
        ("map", "\tarch_asi_set(addr, asi_is_ordinary(addr));\n", "/*"),
        ("map", "\tWRITE_ONCE(*asi_restricted_pgd(pgdp), pgd);\n", "/*"),
        ("clear", "\t\tclear_page(page_address(page + i));\n", "/*"),
        ("clear", "\tstatic_branch_enable(&asi_clear_key);\n", "/*"),
        ("exit", "\tasi_load_cr3(cr3 & ~asi_cr3_bits());\n", "/*"),
        ("exit", "\traw_cpu_write(asi_interrupted.regs, NULL);\n", "/*"),
        ("limit", "\tatomic_long_add(1L << order, &dirty->nr);\n", "/*"),
        ("cr3", "\treturn cr3 & ~asi_cr3_bits();\n", "0"),
        ("cr3", "\treturn asi_cr3_bits();\n", "0"),
        ("cr3", "\tx = y ? ASI_PCID_RESTRICTED : 0;\n", "0"),
        ("mark", "\t*kind = is_migrate_sensitive(asi_get_type(page));\n", "false"),
        ("ask", "\treturn noted & KNOWN ? noted & MASK : SHARED;\n", "true"),
        ("ask", "\tbool stuck = !ephmap_may_read(file, iter);\n", "true"),
    ],
)  # fmt: skip
def test_what_is_taken_out_of_its_own_code(kind: str, text: str, mutated: str) -> None:
    (site,) = found(text)
    assert (site.kind, site.mutated.partition(" ")[0]) == (ISOLATION + kind, mutated)
    # Other code does the same for its own reasons, unless the function is one of isolation.
    assert not [one for one in found(text, OTHER) if one.kind == site.kind]
    assert [one.kind for one in found(text, OTHER, "asi_take_free")] == [site.kind]


@pytest.mark.parametrize(
    ("kind", "text", "mutated"),
    [
        ("mark", "\tif (!asi_compatible(a, b))\n", "true"),
        ("mark", "\t    !asi_make_fit(start, end, gfp)) {\n", "true"),
        ("mark", "\t\tmigratetype = asi_pcp_type(migratetype);\n", "MIGRATE_MOVABLE"),
        ("mark", "\tmove(page, asi_unreserved_type(ac->type));\n", "(ac->type)"),
        ("mark", "\tpage = alloc_page(gfp | __GFP_SENSITIVE);\n", "0"),
        ("mark", "\tif (asi_convert(zone, order, gfp, type))\n", "false"),
        ("ask", "\tif (pti || asi_requested())\n", "false"),
        ("ask", "\t\tpage_count(page) == 1 && asi_pipe_is_clean(page)\n", "true"),
        ("clear", "\tbool init = old || (!defer && asi_must_clear(page));\n", "false"),
        ("clear", "\tif (asi_clean_all()) {\n", "0"),
        ("clear", "\tasi_clean_all();\n", "/*"),
        ("exit", "\tasi_exit(ASI_EXIT_KEXEC);\n", "/*"),
        ("exit", "\tif (asi_fault(regs, code, address)) {\n", "false"),
        ("exit", "\trestricted = asi_switch_mm(prev, next);\n", "0"),
        ("flush", "\tif (asi_has_pcid())\n", "false"),
        ("flush", "\tasi_switched_mm(restricted);\n", "/*"),
        ("cr3", "\treturn ret | asi_restricted_pcid();\n", "0"),
        ("cr3", "\tif (asi_strip_cr3(__read_cr3()) != x)\n", "(__read_cr3())"),
        ("map", "\tasi_set_user_pgd(pgdp, pgd);\n", "/*"),
    ],
)  # fmt: skip
def test_what_is_taken_out_of_other_code(kind: str, text: str, mutated: str) -> None:
    (site,) = found(text, OTHER)
    assert (site.kind, site.mutated.partition(" ")[0]) == (ISOLATION + kind, mutated)


@pytest.mark.parametrize(
    "text",
    [
        "void asi_exit(enum asi_switch reason);\n",
        "static inline void asi_set_user_pgd(pgd_t *pgdp, pgd_t pgd)\n{\n}\n",
        "bool asi_requested(void);\n",
        "static __always_inline bool asi_has_pcid(void)\n{\n}\n",
        "#define GFP_HIGHUSER\t(GFP_USER | __GFP_SENSITIVE)\n",
        "#define asi_pcp_type(migratetype)\t\tMIGRATE_MOVABLE\n",
        " * asi_clears() and __GFP_SENSITIVE\n",
        "/* asi_exit(); */\n",
        "\t/*\n\t * So asi_clears().\n\t */\n",
        "\treturn copy ? : root;\n",
        "\treturn copy ?: root;\n",
    ],
)
def test_what_is_no_place(text: str) -> None:
    head = "/*\n" if text.startswith(" *") else ""
    tail = " */\n" if head else ""
    for file in (OWN, OTHER):
        assert asi_places.find(file, head + text + tail, None) == []


def test_observers_and_boot_have_none() -> None:
    text = "\tif (a)\n\t\tset_pgd(b, c);\n"
    assert found(text)
    assert not found(text, "mm/asi/audit.c")
    assert not found(text, function="asi_make_p4d")


def test_only_lines_of_ours_count_and_no_place_is_two() -> None:
    text = "static bool asi_f(int x)\n{\n\tif (!kpkeys_may_map(pfn, 1, yes))\n\t\tinvlpg(1);\n}\n"
    before = places.find(OWN, text)
    assert [site.text for site in before] == ["kpkeys_may_map(pfn, 1, yes)"]
    assert [one.text for one in asi_places.find(OWN, text, None, before)] == ["invlpg(1)"]
    assert asi_places.find(OWN, text, {3}, before) == []
    assert [one.line for one in asi_places.find(OTHER, text, {3}, ())] == [3]


def test_targets_without_isolation_have_no_such_places() -> None:
    sources = {OWN: places.Source("void asi_f(void)\n{\n\tkpkeys_raise(1);\n\tinvlpg(1);\n}\n")}
    for target, kinds in (
        (X86_64, ["raise", "asi-flush"]), (X86_64_PCID, ["raise", "asi-flush"]),
        (X86_64_MKTME, ["raise"]), (ARM64, ["raise"]), (UM, ["raise"]),
    ):  # fmt: skip
        assert [site.kind for site in asi_places.sites(sources, target)] == kinds


def test_one_pattern_selects_them_wherever_they_are() -> None:
    (site,) = found("\tif (!asi_compatible(a, b))\n", OTHER)
    assert site.matches("*asi*") and site.matches("*:asi-*") and site.matches("*:asi-mark:*")
    (other,) = places.find(OTHER, "void f(void)\n{\n\tkpkeys_raise(1);\n}\n")
    assert not other.matches("*asi*")


# === In our tree =================================================================================

PRISTINE = Path(os.environ.get("LINUX_SRC") or REAL_BUILD / "src")


@pytest.mark.guest
@pytest.mark.skipif(not (PRISTINE / "Kbuild").exists(), reason="no source: redoubt source")
def test_places_of_our_tree() -> None:
    sources = places.sources(X86_64, PRISTINE, paths.repo())
    every = asi_places.sites(sources, X86_64)
    sites = [one for one in every if one.kind.startswith(ISOLATION)]
    assert len({one.name for one in sites}) == len(sites) > 250
    kinds = Counter(one.kind for one in sites)
    wanted = ("flush", "map", "clear", "mark", "exit", "cr3", "ask", "limit", "if")
    assert all(kinds[ISOLATION + kind] > 2 for kind in wanted)
    have = {(one.function, one.kind, one.text) for one in sites}
    for some in (
        ("ephmap_close", "asi-flush", "invlpg(map->addr + i * PAGE_SIZE)"),
        ("asi_to_sensitive", "asi-flush", "flush_tlb_kernel_range(start, end)"),
        ("asi_clear_pages", "asi-clear", "clear_page(page_address(page + i))"),
        ("__free_pages_prepare", "asi-clear", "asi_must_clear(page)"),
        ("__asi_copy_folio_from_iter_atomic", "asi-if", "!ephmap_may_know(file)"),
        ("ephmap_may_know", "asi-if", "current_cred() != current_real_cred()"),
        ("asi_fault", "asi-if", "error_code & (X86_PF_PROT | X86_PF_USER)"),
        ("arch_exit_to_user_mode", "asi-exit", "asi_enter()"),
        ("brd_insert_page", "asi-mark", "__GFP_SENSITIVE"),
        ("asi_cr3_bits", "asi-cr3", "ASI_PCID_RESTRICTED"),
        ("sync_restricted", "asi-map", "asi_sync_direct_map(start, start + PUD_SIZE)"),
    ):  # fmt: skip
        assert some in have
    assert not any("test" in one.file or "debug" in one.file or "vuln" in one.file for one in sites)
