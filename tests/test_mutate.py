# SPDX-License-Identifier: GPL-2.0-only
"""Places that let page tables be written, taken out one at a time, and what is said of that."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import REAL_BUILD, Done, write_tree

from redoubt.core import paths
from redoubt.core.errors import GuestError, Interrupted, NoSpaceError, RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import build, source, topics, tree
from redoubt.linux.build import Build
from redoubt.machine import guest, host, kernels
from redoubt.mutate import asi_places
from redoubt.mutate import judge as mutate
from redoubt.mutate import places as mutants
from redoubt.mutate.judge import NOTICED, SAME, SURVIVED, Kept, Report, Result, Verdict
from redoubt.mutate.places import Site
from redoubt.suite import boots, isolation
from redoubt.suite.run import Item, Run
from redoubt.targets import ARM64, TARGETS, UM, X86_64, Target

Call = Callable[..., Done]

# === Places in small texts =======================================================================

GUARD = "\tguard(kpkeys_hardened_pgtables)();\n"
# Lines are counted as if it were not there.
HEAD = "#include <linux/kpkeys_mutant.h>\n#line 1\n"
ASM_HEAD = f"#ifdef __ASSEMBLER__\n#include <linux/kpkeys_mutant_missing.h>\n#endif\n{HEAD}"


def only(text: str) -> Site:
    (site,) = mutants.find("mm/x.c", text)
    return site


@pytest.mark.parametrize(
    ("kind", "text", "mutated", "chosen"),
    [
        ("guard", GUARD, "/* guard(kpkeys_hardened_pgtables)() */",
         "\tKPKEYS_MUTANT_CLASS(7, kpkeys_hardened_pgtables, __UNIQUE_ID(guard))();\n"),
        ("guard",
         "#define set_pud(p) do {\t\\\n\tguard(kpkeys_hardened_pgtables)();\t\\\n} while (0)\n",
         "/* guard(kpkeys_hardened_pgtables)() */", "#define set_pud(p) do {\t\\\n"
         "\tKPKEYS_MUTANT_CLASS(7, kpkeys_hardened_pgtables, __UNIQUE_ID(guard))();\t\\\n"
         "} while (0)\n"),
        ("scope", "\tscoped_guard(kpkeys_hardened_pgtables) {\n\t\twrite();\n\t}\n",
         "/* scoped_guard(kpkeys_hardened_pgtables) */",
         "\tKPKEYS_MUTANT_SCOPE(7, kpkeys_hardened_pgtables, __UNIQUE_ID(scope)) {\n"
         "\t\twrite();\n\t}\n"),
        ("scope", "\tscoped_class(kpkeys_pool_level, level, pool)\n\t\tpool->x = 1;\n",
         "/* scoped_class(kpkeys_pool_level, level, pool) */",
         "\tKPKEYS_MUTANT_SCOPE(7, kpkeys_pool_level, level, pool)\n\t\tpool->x = 1;\n"),
        ("class", "\tCLASS(kpkeys_pool_level, level)(pool);\n",
         "/* CLASS(kpkeys_pool_level, level)(pool) */",
         "\tKPKEYS_MUTANT_CLASS(7, kpkeys_pool_level, level)(pool);\n"),
        ("writer", "\t__write_entry(p,\n\t\t      pte(a, b));\n", "WRITE_ONCE(*(p), pte(a, b))",
         "\t({ if (KPKEYS_MUTANT(7)) WRITE_ONCE(*(p), pte(a, b)); "
         "else __write_entry(p,\n\t\t      pte(a, b)); });\n"),
        ("writer", "\treturn __pte(__xchg_entry(&pte_val(*p), 0));\n",
         "xchg_relaxed(&pte_val(*p), 0)",
         "\treturn __pte((KPKEYS_MUTANT(7) ? xchg_relaxed(&pte_val(*p), 0) : "
         "__xchg_entry(&pte_val(*p), 0)));\n"),
        ("raise", "\tif (on)\n\t\tkpkeys_raise(KPKEYS_LVL_PGTABLES);\n",
         "/* kpkeys_raise(KPKEYS_LVL_PGTABLES) */",
         "\tif (on)\n\t\tKPKEYS_MUTANT_CALL(7, kpkeys_raise(KPKEYS_LVL_PGTABLES));\n"),
        ("raise", "\tif (raised)\n\t\tx86_write_pkrs(PKRS_PGTABLES);\n",
         "/* x86_write_pkrs(PKRS_PGTABLES) */",
         "\tif (raised)\n\t\tKPKEYS_MUTANT_CALL(7, x86_write_pkrs(PKRS_PGTABLES));\n"),
        ("lower", "\tif (raised)\n\t\tx86_write_pkrs(PKRS_DEFAULT);\n",
         "/* x86_write_pkrs(PKRS_DEFAULT) */",
         "\tif (raised)\n\t\tKPKEYS_MUTANT_CALL(7, x86_write_pkrs(PKRS_DEFAULT));\n"),
        ("barrier", '\tasm volatile("msr\\n"\n\t    "isb\\n"\n\t    : : (x));\n', '""',
         '\t({ if (KPKEYS_MUTANT(7)) asm volatile("msr\\n" : : (x)); else '
         'asm volatile("msr\\n"\n\t    "isb\\n"\n\t    : : (x)); });\n'),
        ("batch", "\tkpkeys_batch_pause();\n", "/* kpkeys_batch_pause() */",
         "\tKPKEYS_MUTANT_CALL(7, kpkeys_batch_pause());\n"),
        ("fixup",
         '\tasm volatile("1: mov\\n2:\\n" _ASM_EXTABLE_PKS(EX_PKS_MOV, pte)\n\t    : : (x));\n',
         "/* _ASM_EXTABLE_PKS(EX_PKS_MOV, pte) */",
         '\t({ if (KPKEYS_MUTANT(7)) asm volatile("1: mov\\n2:\\n" : : (x)); else '
         'asm volatile("1: mov\\n2:\\n" _ASM_EXTABLE_PKS(EX_PKS_MOV, pte)\n\t    : : (x)); '
         "});\n"),
        ("fixup", "\tif (ex->type != EX_TYPE_KPKEYS)\n", "-1 /* EX_TYPE_KPKEYS */",
         "\tif (ex->type != (KPKEYS_MUTANT(7) ? -1 /* EX_TYPE_KPKEYS */ : EX_TYPE_KPKEYS))\n"),
        ("key", "\tint err = set_memory_pkey(addr(page),\n\t\t\tPKEY);\n",
         "0 /* set_memory_pkey(addr(page), PKEY) */",
         "\tint err = (KPKEYS_MUTANT(7) ? 0 /* set_memory_pkey(addr(page), PKEY) */ : "
         "set_memory_pkey(addr(page),\n\t\t\tPKEY));\n"),
        ("key", "\treturn arch_set_memory_pkey(addr, nr, key);\n",
         "0 /* arch_set_memory_pkey(addr, nr, key) */",
         "\treturn (KPKEYS_MUTANT(7) ? 0 /* arch_set_memory_pkey(addr, nr, key) */ : "
         "arch_set_memory_pkey(addr, nr, key));\n"),
        ("key", "\tkpkeys_hardened_pgtables_add(page);\n",
         "/* kpkeys_hardened_pgtables_add(page) */",
         "\tKPKEYS_MUTANT_CALL(7, kpkeys_hardened_pgtables_add(page));\n"),
        ("ask", "\tif (!kpkeys_may_map(pte_pfn(pte), 1, yes))\n",
         "true /* kpkeys_may_map(pte_pfn(pte), 1, yes) */",
         "\tif (!(KPKEYS_MUTANT(7) ? true /* kpkeys_may_map(pte_pfn(pte), 1, yes) */ : "
         "kpkeys_may_map(pte_pfn(pte), 1, yes)))\n"),
        ("ask", "\tif (kpkeys_mappings_hold_still())\n",
         "false /* kpkeys_mappings_hold_still() */",
         "\tif ((KPKEYS_MUTANT(7) ? false /* kpkeys_mappings_hold_still() */ : "
         "kpkeys_mappings_hold_still()))\n"),
        ("root", "\tload(kpkeys_root(get(mm)), mm);\n", "(get(mm))->pgd",
         "\tload((KPKEYS_MUTANT(7) ? (get(mm))->pgd : kpkeys_root(get(mm))), mm);\n"),
        ("root", "\tcr3 |= kpkeys_root_bits(kern_pcid(asid), MASK);\n", "(kern_pcid(asid))",
         "\tcr3 |= (KPKEYS_MUTANT(7) ? (kern_pcid(asid)) : "
         "kpkeys_root_bits(kern_pcid(asid), MASK));\n"),
        ("root", "\tif (!kpkeys_root_release(pgd))\n", "true /* kpkeys_root_release(pgd) */",
         "\tif (!(KPKEYS_MUTANT(7) ? true /* kpkeys_root_release(pgd) */ : "
         "kpkeys_root_release(pgd)))\n"),
        ("link", "\tif (!kpkeys_link_table(mm, p, x, pfn(a), LEVEL))\n",
         "false /* kpkeys_link_table(mm, p, x, pfn(a), LEVEL) */",
         "\tif (!(KPKEYS_MUTANT(7) ? false /* kpkeys_link_table(mm, p, x, pfn(a), LEVEL) */ : "
         "kpkeys_link_table(mm, p, x, pfn(a), LEVEL)))\n"),
        ("link", "\tkpkeys_unlink_table(true, pfn);\n", "/* kpkeys_unlink_table(true, pfn) */",
         "\tKPKEYS_MUTANT_CALL(7, kpkeys_unlink_table(true, pfn));\n"),
        ("ask", "\tif (test_bit(first, region->linked)) {\n",
         "false /* test_bit(first, region->linked) */",
         "\tif ((KPKEYS_MUTANT(7) ? false /* test_bit(first, region->linked) */ : "
         "test_bit(first, region->linked))) {\n"),
        ("flush", "\tkpkeys_pool_flush();\n", "/* kpkeys_pool_flush() */",
         "\tKPKEYS_MUTANT_CALL(7, kpkeys_pool_flush());\n"),
    ],
)  # fmt: skip
def test_what_is_taken_out(kind: str, text: str, mutated: str, chosen: str) -> None:
    site = only(text)
    assert (site.kind, site.mutated) == (kind, mutated)
    assert mutants.chosen(text, {7: site}) == HEAD + chosen


@pytest.mark.parametrize(("kind", "code"), [("lower", "msr\tREG_POR_EL1, x0"), ("barrier", "isb")])
def test_an_instruction_in_assembly_is_taken_out(kind: str, code: str) -> None:
    text = f"SYM_FUNC_START(cpu_setup)\n\tmov\tx0, #1\n\t{code}\n\tret\n"
    (site,) = mutants.find("arch/arm64/mm/proc.S", text)
    assert (site.kind, site.function, site.text) == (kind, "cpu_setup", " ".join(code.split()))
    assert mutants.chosen(text, {7: site}) == (
        f"{ASM_HEAD}"
        f"SYM_FUNC_START(cpu_setup)\n\tmov\tx0, #1\n\tKPKEYS_MUTANT_INSN(7, {code})\n\tret\n"
    )


def test_a_macro_of_assembly_in_a_header_is_found() -> None:
    text = (
        "#ifdef __ASSEMBLER__\n\t.macro\twrite_level por, tmp\n\tisb\n\t.endm\n"
        "#else /* !__ASSEMBLER__ */\nint f(void);\n#endif /* __ASSEMBLER__ */\n"
    )
    (site,) = mutants.find("arch/arm64/include/asm/x.h", text)
    assert (site.kind, site.function) == ("barrier", "write_level")
    assert mutants.chosen(text, {7: site}) == ASM_HEAD + text.replace(
        "isb", "KPKEYS_MUTANT_INSN(7, isb)"
    )


def test_the_assembler_leaves_out_one_instruction(tmp_path: Path) -> None:
    header = Path(mutants.__file__).with_name("kpkeys_mutant.h")
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux" / "stringify.h").write_text("#define __stringify(x...) #x\n")
    source = tmp_path / "a.S"
    for missing, left in {1: b"\2\0", 2: b"\1", 3: b"\1\2\0"}.items():
        source.write_text(
            f'#define KPKEYS_MUTANT_MISSING {missing}\n#include "{header}"\n'
            "KPKEYS_MUTANT_INSN(1, .byte 1)\nKPKEYS_MUTANT_INSN(2, .byte 2, 0)\n"
        )
        image = tmp_path / "a.o"
        subprocess.run(["gcc", "-c", f"-I{tmp_path}", source, "-o", image], check=True)
        dumped = tmp_path / "text"
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", image, dumped], check=True)
        assert dumped.read_bytes() == left
        assert mutants.compiled([image]) == {1, 2}


def test_each_place_of_a_file_has_its_number() -> None:
    text = "void f(void)\n{\n" + GUARD + GUARD + "\tkpkeys_raise(1);\n}\n"
    first, second, third = mutants.find("mm/x.c", text)
    assert mutants.chosen(text, {3: first, 12: third, 4: second}) == HEAD + (
        "void f(void)\n{\n"
        "\tKPKEYS_MUTANT_CLASS(3, kpkeys_hardened_pgtables, __UNIQUE_ID(guard))();\n"
        "\tKPKEYS_MUTANT_CLASS(4, kpkeys_hardened_pgtables, __UNIQUE_ID(guard))();\n"
        "\tKPKEYS_MUTANT_CALL(12, kpkeys_raise(1));\n}\n"
    )


# As the kernel has it, with a level that is counted instead of raised.
KERNEL = """\
#include <stdio.h>
#define CONFIG_KPKEYS_HARDENED_PGTABLES
#define asm_inline __asm__
#define __cleanup(f) __attribute__((cleanup(f)))
#define __PASTE(a, b) a##b
#define PASTE(a, b) __PASTE(a, b)
#define __UNIQUE_ID(p) PASTE(p, __COUNTER__)
static int level;
typedef int class_kpkeys_level_t;
static void class_kpkeys_level_destructor(int *old) { if (*old != -1) level = *old; }
static int class_kpkeys_level_constructor(void) { return level++; }
#include "HEADER"
const int kpkeys_mutant = NUMBER;
static void guarded(void)
{
	KPKEYS_MUTANT_CLASS(1, kpkeys_level, __UNIQUE_ID(guard))();
	printf("%d", level);
}
static void raise(void) { level++; }
int main(void)
{
	guarded();
	KPKEYS_MUTANT_SCOPE(2, kpkeys_level, __UNIQUE_ID(scope))
		printf("%d", level);
	KPKEYS_MUTANT_SCOPE(3, kpkeys_level, var) {
		printf("%d", level);
		if (level >= 0)
			break;
		printf("not here");
	}
	if (!level)
		KPKEYS_MUTANT_CALL(4, raise());
	else
		printf("not here");
	printf("%d", level + (KPKEYS_MUTANT(5) ? 0 : 1));
	return 0;
}
"""


@pytest.mark.parametrize(
    ("number", "says"),
    [(0, "1112"), (1, "0112"), (2, "1012"), (3, "1102"), (4, "1111"), (5, "1111"), (6, "1112")],
)
def test_one_place_is_missing_and_no_other(tmp_path: Path, number: int, says: str) -> None:
    header = Path(mutants.__file__).with_name("kpkeys_mutant.h")
    code = KERNEL.replace("HEADER", str(header)).replace("NUMBER", str(number))
    (tmp_path / "x.c").write_text(code)
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", "x", "x.c"], cwd=tmp_path, check=True)
    assert subprocess.check_output([tmp_path / "x"], text=True) == says
    assert mutants.compiled([tmp_path / "x"]) == {1, 2, 3, 4, 5}


def test_images_tell_what_was_compiled(tmp_path: Path) -> None:
    image, module = tmp_path / "vmlinux", tmp_path / "x.ko"
    image.write_bytes(b"\0GCC: 12\0kpkeys mutant 3\0kpkeys mutant 40\0")
    module.write_bytes(b"xkpkeys mutant 5\0 kpkeys mutant 6 kpkeys mutant 7\0")
    assert mutants.compiled([image, module]) == {3, 40, 7}
    assert mutants.compiled([]) == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        # Of other things.
        "\tguard(mutex)(&lock);\n",
        "\tscoped_guard(spinlock_irqsave, &lock) {\n",
        "\tkpkeys_assert_current_default();\n",
        "\tkpkeys_lower();\n",
        # Talk of it.
        "/* guard(kpkeys_hardened_pgtables)(); */\n",
        "/*\n * set_memory_pkey() - Set a key.\n *\tkpkeys_raise(level);\n */\n",
        "/*\n\tkpkeys_raise(level);\n*/\n",
        "\t// __write_entry(p, v);\n",
        # Definitions and prototypes.
        "DEFINE_CLASS(kpkeys_pool_level, int, kpkeys_lower(), 0, void)\n",
        "#define __write_entry_raised(entryp, entry)\t__write_entry(entryp, entry)\n",
        "int set_memory_pkey(unsigned long addr, int numpages, int pkey);\n",
        "static inline int set_memory_pkey(unsigned long addr, int n, int pkey)\n{\n}\n",
        "\tKUNIT_STATIC_STUB_REDIRECT(set_memory_pkey, addr, numpages, pkey);\n",
        "static __always_inline void kpkeys_raise(const int level)\n{\n}\n",
        "void kpkeys_hardened_pgtables_add(void *table);\n",
        "#define _ASM_EXTABLE_PKS(op, reg)\t\\\n\tX(EX_TYPE_PKS)\n",
        "\tcase EX_TYPE_PKS:\n",
        # Half of it.
        "\tguard(kpkeys_hardened_pgtables);\n",
        "\tkpkeys_raise(level\n",
    ],
)
def test_what_is_no_place(text: str) -> None:
    assert mutants.find("mm/x.c", text) == []


@pytest.mark.parametrize(
    ("head", "function"),
    [
        ("static inline void set_pte(pte_t *p, pte_t v)\n{\n", "set_pte"),
        ("static void\npti_clone_pgtable(unsigned long a,\n\t\tint b)\n{\n", "pti_clone_pgtable"),
        ("__ref void *alloc_low_pages(int nr)\n{\nagain:\n\tfoo(1);\n", "alloc_low_pages"),
        ("int one(void)\n{\n}\n\nint two(int (*f)(void))\n{\n#ifdef X\n", "two"),
        ("#define set_pud(p, v) do {\t\\\n", "set_pud"),
        ("int declared(void);\n", "-"),
    ],
)
def test_the_function_it_is_in(head: str, function: str) -> None:
    assert only(head + GUARD).function == function


def test_places_of_a_function_are_counted_and_keep_their_names_on_other_lines() -> None:
    text = "void f(void)\n{\n" + GUARD + GUARD + "\tkpkeys_raise(1);\n}\nvoid g(void)\n{\n" + GUARD
    sites = mutants.find("mm/x.c", text)
    names = ["mm/x.c:f:guard:1", "mm/x.c:f:guard:2", "mm/x.c:f:raise:1", "mm/x.c:g:guard:1"]
    assert [site.name for site in sites] == names
    assert [site.line for site in sites] == [3, 4, 5, 9]
    later = mutants.find("mm/x.c", "/* more */\n\f\n" + text)
    assert [site.name for site in later] == names
    assert [site.line for site in later] == [5, 6, 7, 11]


def test_only_lines_of_ours_count(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    text = "void f(void)\n{\n\tkpkeys_batch_begin();\n}\n"
    before.write_text(text)
    text = text.replace("}\n", "\tkpkeys_batch_pause();\n}\n").replace("{\n", "{\n" + GUARD)
    after.write_text(text)
    lines = mutants.added(before, after)
    assert lines == {3, 5}
    assert [site.kind for site in mutants.find("mm/x.c", text, lines)] == ["guard", "batch"]
    assert mutants.added(after, after) == frozenset()


def test_what_moves_behind_a_line_of_linux_does_not_make_it_ours(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text("\n\tcount();\n\tkpkeys_batch_end();\n\n")
    after.write_text("\n\tkpkeys_batch_end();\n\tcount();\n\n")
    assert mutants.added(before, after) == {3}


def test_a_file_that_is_not_there_has_no_lines_of_ours(tmp_path: Path) -> None:
    (tmp_path / "after").write_text("")
    with pytest.raises(RedoubtError, match="No such file"):
        mutants.added(tmp_path / "before", tmp_path / "after")


def test_another_text_is_not_mutated() -> None:
    with pytest.raises(RedoubtError, match=r"mm/x\.c has changed"):
        mutants.chosen("\n" + GUARD, {1: only(GUARD)})


@pytest.mark.parametrize(
    ("pattern", "good"),
    [
        ("arch/um/kernel/mem.c", True), ("arch/um/*", True), ("mem.c", True),
        ("kernel/mem.c", True),
        ("pgd_alloc", True), ("pgd_*", True), ("arch/um/kernel/mem.c:pgd_alloc:guard:1", True),
        ("em.c", False), ("pgd", False), ("guard", False), ("", False),
    ],
)  # fmt: skip
def test_patterns(pattern: str, good: bool) -> None:
    (site,) = mutants.find("arch/um/kernel/mem.c", "void pgd_alloc(void)\n{\n" + GUARD)
    assert site.matches(pattern) == good


# === Places in our tree ==========================================================================

PRISTINE = Path(os.environ.get("LINUX_SRC") or REAL_BUILD / "src")
on_source = pytest.mark.skipif(
    not (PRISTINE / "Kbuild").exists(), reason="no source: redoubt source"
)
each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)


@pytest.fixture(scope="module")
def real() -> Callable[[Target], dict[str, mutants.Source]]:
    found = {}

    def sources(target: Target) -> dict[str, mutants.Source]:
        if target.name not in found:
            found[target.name] = mutants.sources(target, PRISTINE, paths.repo())
        return found[target.name]

    return sources


Real = Callable[[Target], dict[str, mutants.Source]]


@pytest.mark.guest
@on_source
@each_target
def test_choices_of_ours_are_as_good_c_as_before(real: Real, target: Target) -> None:
    found = real(target)
    sites = list(asi_places.sites(found, target))
    assert len(sites) > 30
    assert len({site.name for site in sites}) == len(sites)
    assert all(site.function != "-" for site in sites)
    for file in {site.file for site in sites}:
        before = found[file].text
        here = {number: site for number, site in enumerate(sites, 1) if site.file == file}
        after = mutants.chosen(before, here)
        head = ASM_HEAD if "KPKEYS_MUTANT_INSN(" in after else HEAD
        assert after.startswith(head)
        assert after.count("\n") == before.count("\n") + head.count("\n"), file
        asked = re.findall(r"KPKEYS_MUTANT(?:_\w+)?\((\d+)", after)
        assert sorted(map(int, asked)) == sorted(here), file
        # Neither half a bracket, nor half a comment.
        bare, was = (re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL) for text in (after, before))
        assert bare.count("*/") == was.count("*/"), file
        for pair in ("()", "{}"):
            assert bare.count(pair[0]) - bare.count(pair[1]) == was.count(pair[0]) - was.count(
                pair[1]
            ), file
        assert bare.count('"') % 2 == was.count('"') % 2, file


def counted(text: str) -> Counter[str]:
    """Words of places in a text, by nothing but counting."""
    words = {
        "guard": r"(?<!scoped_)guard\(kpkeys_hardened_pgtables\)\(\);",
        "scope": r"scoped_(guard|class)\(kpkeys",
        "class": r"(?<!DEFINE_)CLASS\(kpkeys_pool_level, level\)",
        "writer": r"^(?!.*#define).*\b(__write_entry|__write_entry_raised|__xchg_entry)\(",
        "batch": r"\bkpkeys_batch_\w+\(\);",
    }
    code = "\n".join(line for line in text.splitlines() if not line.startswith(" *"))
    return Counter({kind: len(re.findall(word, code, re.M)) for kind, word in words.items()})


@pytest.mark.guest
@on_source
@each_target
def test_no_place_is_overlooked(real: Real, target: Target) -> None:
    """Counts in the patches and in kernel/, without applying or understanding anything."""
    expected: Counter[str] = Counter()
    for topic in topics.load(paths.repo()):
        others = {"um", "x86", "arm64"} - {target.architectures[0]}
        if topic.local or topic.name.removeprefix("kpkeys-") in others:
            continue
        for patch in topic.patches:
            lines = patch.read_text().splitlines()
            ours = [one for one in lines if "kpkeys" in one or one.startswith("+")]
            expected += counted("\n".join(one[1:] for one in ours if one.startswith("+")))
            expected -= counted("\n".join(one[1:] for one in ours if one.startswith("-")))
        for name in topic.files:
            if topic.name == "asi" and target.architectures[0] != "x86":
                continue
            if name.endswith((".c", ".h")) and "test" not in name:
                expected += counted((paths.repo() / "kernel" / name).read_text())
    have = Counter(site.kind for site in mutants.sites(real(target)))
    assert expected["guard"] > 5
    assert {kind: have[kind] for kind in expected} == dict(expected)


@pytest.mark.guest
@on_source
def test_places_of_each_target(real: Real) -> None:
    functions = {
        target.name: {f"{one.kind} {one.function}" for one in mutants.sites(real(target))}
        for target in TARGETS.values()
    }
    shared = {
        "class kpkeys_pool_take_locked",
        "raise kpkeys_set_level",
        "key kpkeys_block_set_key",
        "batch filemap_map_pages",
    }
    for name, some in {
        "um": {"guard set_pte", "guard pgd_alloc", "guard mark_synced", "guard pmd_mkuptodate"},
        "x86_64": {
            "guard native_set_pte", "guard pti_clone_pgtable", "fixup __lazy_set_pte",
            "fixup x86_pks_fault", "guard x86_pks_lazy_write", "key protect_trampoline",
            "batch ephmap_begin_writing", "raise x86_pks_return_to_raised",
            "ledger x86_pks_return_to_raised", "restart x86_pks_enter",
        },
        "arm64": {
            "writer set_pmd", "writer set_swapper_pgd", "scope contpte_convert", "guard fill_pte",
            "fixup __lazy_wrprotect", "scope arm64_kpkeys_lazy_write",
            "lower arm64_kpkeys_switch", "barrier arm64_write_por_el1",
            "lower __cpu_setup", "lower __finalise_el2", "restart arm64_kpkeys_return_to_raised",
            "fixup __arm64_kpkeys_lazy_abort", "writer ___ptep_get_and_clear_anysz",
        },
    }.items():  # fmt: skip
        assert (some | shared) - functions[name] == set()
    files = {
        target.name: {one.file for one in mutants.sites(real(target))}
        for target in TARGETS.values()
    }
    assert {name for name in files["um"] if name.startswith("arch/")} == {
        "arch/um/include/asm/pgalloc.h", "arch/um/include/asm/pgtable-4level.h",
        "arch/um/include/asm/pgtable.h", "arch/um/kernel/kpkeys.c", "arch/um/kernel/mem.c",
        "arch/um/kernel/tlb.c",
    }  # fmt: skip
    assert not any("/um/" in name or "arm64" in name for name in files["x86_64"])
    assert not any("/um/" in name or "x86" in name for name in files["arm64"])
    for names in files.values():
        assert not any("test" in name or "vuln" in name or "bench" in name for name in names)


# === The engine ==================================================================================


def site_of(function: str, file: str = "mm/x.c") -> Site:
    (site,) = mutants.find(file, f"void {function}(void)\n{{\n{GUARD}")
    return site


A, B, C = (site_of(name) for name in "abc")
WHOLE = Verdict(SURVIVED)


class Fake:
    """Judges by the function, and remembers whom."""

    def __init__(self, **verdicts: Verdict) -> None:
        self.verdicts = verdicts
        self.asked: list[str] = []

    def __call__(self, site: Site | None) -> Verdict:
        name = site.function if site else "whole"
        self.asked.append(name)
        if name == getattr(self, "interrupted", None):
            raise Interrupted
        return self.verdicts.get(name, WHOLE if not site else Verdict(NOTICED, "boot", "it died"))


def test_the_kernel_as_it_is_comes_first_and_then_each(tmp_path: Path) -> None:
    judge = Fake(b=Verdict(SURVIVED))
    told: list[tuple[str, int]] = []
    results = mutate.judge_all(
        [A, B, C], judge, Kept(tmp_path, "1"),
        lambda result, number, _: told.append((result.site.function, number)),
    )  # fmt: skip
    assert judge.asked == ["whole", "a", "b", "c"]
    assert [result.verdict.outcome for result in results] == [NOTICED, SURVIVED, NOTICED]
    assert told == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("outcome", [NOTICED, SAME])
def test_a_kernel_that_does_not_pass_as_it_is(tmp_path: Path, outcome: str) -> None:
    judge = Fake(whole=Verdict(outcome, "boot", "WARNING: no"))
    for _ in range(2):
        with pytest.raises(RedoubtError, match=r"does not pass as it is.*boot: WARNING: no") as no:
            mutate.judge_all([A], judge, Kept(tmp_path, "1"))
        assert no.value.hint and "redoubt test" in no.value.hint
    # Not kept either: it is mended by now, perhaps.
    assert judge.asked == ["whole", "whole"]
    mutate.judge_all([A], Fake(), Kept(tmp_path, "1"))


def test_an_interruption_loses_one_mutant(tmp_path: Path) -> None:
    judge = Fake()
    judge.interrupted = "b"  # type: ignore[attr-defined]
    with pytest.raises(Interrupted):
        mutate.judge_all([A, B, C], judge, Kept(tmp_path, "1"))
    assert judge.asked == ["whole", "a", "b"]

    judge = Fake()
    results = mutate.judge_all([A, B, C], judge, Kept(tmp_path, "1"))
    assert judge.asked == ["b", "c"]
    assert [result.known for result in results] == [True, False, False]
    assert results[0].verdict.words == "it died"

    judge = Fake()
    assert all(result.known for result in mutate.judge_all([C, A], judge, Kept(tmp_path, "1")))
    assert judge.asked == []
    # Of another kernel, nothing is known.
    mutate.judge_all([A], judge, Kept(tmp_path, "2"))
    assert judge.asked == ["whole", "a"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"outcome": "fine"}', '{"colour": 1}'])
def test_a_verdict_that_is_damaged_is_none(tmp_path: Path, text: str) -> None:
    kept = Kept(tmp_path, "1")
    kept.put(A, WHOLE)
    (file,) = tmp_path.iterdir()
    assert kept.get(A) == WHOLE
    file.write_text(text)
    assert kept.get(A) is None


def test_another_mutation_is_another_verdict(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "1")
    kept.put(A, WHOLE)
    assert kept.get(B) is None
    assert kept.get(None) is None
    assert kept.get(replace(A, replacement="")) is None


def test_the_estimate_counts_what_is_left_to_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0, 5, *(time for start in (100, 200, 300, 400) for time in (start, start + 30))])
    kept = Kept(tmp_path, "1")
    kept.put(B, WHOLE)
    monkeypatch.setattr(mutate.time, "monotonic", lambda: next(clock))
    left: list[float | None] = []

    def note(result: Result, number: int, left_s: float | None) -> None:
        left.append(left_s)

    results = mutate.judge_all([A, B, C], Fake(), kept, note)
    assert left == [30, 30, 0]
    assert [result.verdict.seconds for result in results] == [30, 0, 30]
    kept.put(B, WHOLE)
    mutate.judge_all([B, site_of("d")], Fake(), kept, note)
    # Before the first is judged nobody knows.
    assert left[3:] == [None, 0]
    mutate.judge_all([A], Fake(), kept, note)
    assert left[-1] == 0


def test_choosing() -> None:
    sites = [site_of(name, f"mm/{name}.c") for name in "abcdefgh"]
    assert mutate.chosen(sites, [], None, 0) == tuple(sites)
    assert [one.function for one in mutate.chosen(sites, ["b.c", "h"], None, 0)] == ["b", "h"]
    with pytest.raises(RedoubtError, match="no place matches 'nix'"):
        mutate.chosen(sites, ["a", "nix"], None, 0)
    some = mutate.chosen(sites, [], 3, 7)
    assert len(some) == 3
    assert some == mutate.chosen(sites, [], 3, 7)
    assert list(some) == sorted(some, key=sites.index)
    assert len({mutate.chosen(sites, [], 3, seed) for seed in range(10)}) > 1
    assert mutate.chosen(sites, [], 100, 7) == tuple(sites)


# === Reasons =====================================================================================

ENTRY = """
[[survivor]]
file = "mm/x.c"
function = "a"
kind = "guard"
reason = "nobody calls it"
"""


def loaded(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / "mutate.toml"
    file.write_text(text)
    return mutate.load_reasons(file)


def test_reasons(tmp_path: Path) -> None:
    assert loaded(tmp_path, "# none\n") == {}
    assert loaded(tmp_path, ENTRY + ENTRY + "number = 2\n") == {
        A.name: "nobody calls it",
        "mm/x.c:a:guard:2": "nobody calls it",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[allow]]\nfile = 'a'\n", "nothing else"),
        ("survivor = [1]\n", "must be a list of tables"),
        (ENTRY.replace('kind = "guard"', ""), "lacks kind"),
        (ENTRY + "optional = true\n", "an unknown key optional"),
        (ENTRY.replace("nobody calls it", " "), "reason of an entry of survivor is no text"),
        (ENTRY + "number = true\n", "number of an entry of survivor is no number"),
        (ENTRY + ENTRY, "two survivors mm/x.c:a:guard:1"),
    ],
)
def test_reasons_that_are_not_well_formed(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RedoubtError, match=r"mutate\.toml") as caught:
        loaded(tmp_path, text)
    assert says in caught.value.message


@each_target
def test_each_target_has_its_file(target: Target) -> None:
    mutate.load_reasons(paths.repo() / "configs" / "mutate" / f"{target.name}.toml")


def report(*reasons: str, **outcomes: str) -> Report:
    results = tuple(
        Result(site_of(name), Verdict(outcome, "boot" if outcome == NOTICED else ""))
        for name, outcome in outcomes.items()
    )
    return Report("um", (A, B, C), results, dict.fromkeys(reasons, "why"))


@pytest.mark.parametrize(
    ("made", "ok", "says"),
    [
        (report(a=NOTICED, b=NOTICED, c=SAME), True, "0 unexpected, 0 stale"),
        (report(A.name, a=SURVIVED), True, "1 of 3 places taken out: 0 noticed, 1 survived"),
        (report(a=SURVIVED), False, "SURVIVED, without a reason: mm/x.c:3 a (guard)"),
        (report(A.name, a=NOTICED), False, f"STALE reason for {A.name}: noticed by boot"),
        (report(A.name, a=SAME), False, f"STALE reason for {A.name}: no difference"),
        (report("mm/x.c:z:guard:1", a=NOTICED), False, "mm/x.c:z:guard:1: there is no such place"),
        # Those that were not judged this time are not told about.
        (report(B.name, a=NOTICED), True, "0 unexpected, 0 stale"),
        (report(), False, "0 of 3 places"),
    ],
)  # fmt: skip
def test_what_passes(made: Report, ok: bool, says: str) -> None:
    assert made.ok == ok
    assert says in "\n".join(mutate.render(made))
    assert made.as_json()["ok"] == ok


def test_a_survivor_is_told_with_all_there_is() -> None:
    lines = mutate.render(report(B.name, a=SURVIVED, b=SURVIVED))
    assert lines[:2] == [
        "SURVIVED, without a reason: mm/x.c:3 a (guard)",
        "    guard(kpkeys_hardened_pgtables)()  ->  /* guard(kpkeys_hardened_pgtables)() */",
    ]
    assert lines[2] == "survived: mm/x.c:3 b (guard)"
    assert lines[4] == "    why"
    told = json.loads(json.dumps(report(B.name, a=NOTICED, b=SURVIVED).as_json()))
    assert [(one["function"], one["reason"]) for one in told["mutants"]] == [
        ("a", None), ("b", "why"),
    ]  # fmt: skip
    assert told["mutants"][0] | {"seconds": 0} == {
        "file": "mm/x.c", "line": 3, "function": "a", "kind": "guard", "number": 1,
        "text": "guard(kpkeys_hardened_pgtables)()",
        "mutated": "/* guard(kpkeys_hardened_pgtables)() */",
        "outcome": "noticed", "by": "boot", "words": "", "seconds": 0,
        "commit": None, "reason": None,
    }  # fmt: skip


def test_results_are_added_to_those_of_other_places(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    assert [one.site for one in mutate.added(file, "um", (A, B, C), report(b=SAME).results)] == [B]
    before = report(a=NOTICED, b=SURVIVED, c=SAME).as_json() | {"commit": "old"}
    # One that tells its own commit, one of an older file, and one that is something else by now.
    before["mutants"][0]["commit"] = "older"
    del before["mutants"][1]["commit"]
    before["mutants"][2]["text"] = "guard(others)()"
    file.write_text(json.dumps(before))
    results = mutate.added(file, "um", (A, B, C), ())
    assert [(one.site, one.verdict.outcome, one.commit, one.known) for one in results] == [
        (A, NOTICED, "older", True), (B, SURVIVED, "old", True),
    ]  # fmt: skip
    results = mutate.added(file, "um", (A, C), report(c=NOTICED).results)
    assert [(one.site, one.verdict.by) for one in results] == [(A, "boot"), (C, "boot")]
    with pytest.raises(RedoubtError, match="is about um, not x86_64"):
        mutate.added(file, "x86_64", (A,), ())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mutants": [{}]}', '{"mutants": 1}'])
def test_no_results_to_add_to(tmp_path: Path, text: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    with pytest.raises(RedoubtError, match="no results of redoubt mutate"):
        mutate.added(file, "um", (A,), ())


# === What notices ================================================================================


def test_the_first_that_notices_is_the_last_that_is_asked() -> None:
    asked = []

    def items() -> Iterator[Item]:
        for name, failed, detail in (
            ("boot", 0, ""),
            ("kpkeys_pool (1 CPU)", 2, "\nfailed: kpkeys_pool.grows\nlog\n"),
            ("attacks", 1, "never"),
        ):
            asked.append(name)
            yield Item(name, "on", 1, failed, 0, detail)

    assert mutate._ask(items()) == Verdict(
        NOTICED, "kpkeys_pool (1 CPU), on", "failed: kpkeys_pool.grows"
    )
    assert asked == ["boot", "kpkeys_pool (1 CPU)"]


CUT = "------------[ cut here ]------------"
ASKED = "kpkeys: violation: write to 0x1, ip copy_to_kernel_nofault+0x18/0x80, kunit_try_catch"


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        # Those of the kernel come first.
        ("7 operations\n[    1.0] kpkeys: violation: x\nWARNING: later",
         "[    1.0] kpkeys: violation: x"),
        # What KUnit asked for is none.
        (f"failed: kpkeys_batch.nests; log: x\n{ASKED}", "failed: kpkeys_batch.nests; log: x"),
        # The first line of a warning says nothing.
        (f"splats:\n{CUT}\nWARNING: at begin_writing+0x1", "WARNING: at begin_writing+0x1"),
        (f"{CUT}\nlog", CUT),
    ],
)  # fmt: skip
def test_words_of_a_failure(detail: str, words: str) -> None:
    failed = Item("checker", "on", 0, 1, 0, detail)
    assert mutate._ask(iter([failed])).words == words


def test_a_machine_that_does_not_start_was_noticed_and_a_full_disk_is_none() -> None:
    def items(error: RedoubtError) -> Iterator[Item]:
        yield Item("boot", "on", 1, 0, 0)
        raise error

    told = mutate._ask(items(GuestError("the emulated machine did not start (x)\nmore")))
    assert told == Verdict(NOTICED, "start", "the emulated machine did not start (x)")
    for error in (NoSpaceError("full"), RedoubtError("qemu: not found")):
        with pytest.raises(RedoubtError, match=error.message):
            mutate._ask(items(error))


def test_nothing_noticed() -> None:
    assert mutate._ask(iter([Item("boot", "on", 1, 0, 0)])) == Verdict(SURVIVED)


def test_what_is_asked_the_cheapest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def item(name: str) -> Item:
        return Item(name, "on", 1, 0, 0)

    def kunit(run: object, made: object, variant: object, cpus: int = 1) -> Iterator[Item]:
        yield item(f"KUnit {variant.name} {cpus}")  # type: ignore[attr-defined]

    monkeypatch.setattr(boots, "boot_alone", lambda *_: item("boot"))
    monkeypatch.setattr(boots, "without_keys", lambda *_: iter([item("no keys")]))
    monkeypatch.setattr(boots, "odd_cpu", lambda *_: iter([item("odd CPU")]))
    monkeypatch.setattr(boots, "kunit", kunit)
    monkeypatch.setattr(boots, "running", lambda *_: item("later"))
    monkeypatch.setattr(boots, "checks", lambda *_: iter([item("checks")]))
    monkeypatch.setattr(boots, "attacks", lambda *_: iter([item("attacks")]))
    monkeypatch.setattr(boots, "other_way", lambda _, __, way: iter([item(way.name)]))
    made = kernels.Workbench(Build(ARM64, Path("d"), Path("i"), Path("v")), Path("p"), "emulated")
    run = Run(ARM64, "auto", False, Silent())
    ways = [way.name for way in ARM64.ways]
    assert [one.name for one in boots.noticing(run, made)] == [
        "boot", "no keys", "odd CPU", "KUnit on 1", "KUnit on 2", "KUnit on-unbatched 1", "later",
        "checks", "attacks", *ways,
    ]  # fmt: skip
    assert ways


# === Trees and kernels ===========================================================================

PATCH = """\
mm: guard

--- a/mm/memory.c
+++ b/mm/memory.c
@@ -10,2 +10,3 @@
 int line9;
+	guard(kpkeys_hardened_pgtables)();
 int line10;
--- a/mm/mmap.c
+++ b/mm/mmap.c
@@ -1 +1,2 @@
 int map;
+	kpkeys_batch_begin();
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return write_tree(
        tmp_path / "repo",
        {
            "kernel/mm/kpkeys/Makefile": "obj-y := core.o\n",
            "kernel/mm/kpkeys/core.c": "void core(void)\n{\n\tkpkeys_raise(1);\n}\n",
            "kernel/mm/kpkeys/core_test.c": "void test(void)\n{\n\tkpkeys_raise(1);\n}\n",
            "patches/topics": "topic one\n0001-guard.patch\n"
            "\tmm/kpkeys/Makefile\n\tmm/kpkeys/core.c\n\tmm/kpkeys/core_test.c\n",
            "patches/series": "one/0001-guard.patch\n",
            "patches/one/0001-guard.patch": PATCH,
        },
    )


@pytest.fixture
def shop(
    repo: Path, kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> mutate.Workshop:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(guest, "programs", lambda *_: tmp_path)
    found = mutants.sources(UM, kernel, repo)
    run = Run(UM, "auto", False, Silent())
    return mutate.Workshop(run, host.EMULATED, kernel, found, tuple(mutants.sites(found)), repo)


def places(shop: mutate.Workshop) -> list[Site]:
    return list(mutants.sites(shop.sources))


def state(made: Path) -> dict[str, tuple[str, int]]:
    """The text and age of everything, as make sees it."""
    return {
        str(file.relative_to(made)): (file.read_text(), file.stat().st_mtime_ns)
        for file in made.rglob("*")
        if file.is_file() and file.name != tree.STAMP
    }


def test_from_mutant_to_mutant_nothing_but_a_number_differs(
    shop: mutate.Workshop, repo: Path
) -> None:
    queue = state(repo)
    found = places(shop)
    assert [site.kind for site in found] == ["raise", "guard", "batch"]
    whole = state(shop.tree(None))
    assert "KPKEYS_MUTANT_CALL(1, kpkeys_raise(1));" in whole["mm/kpkeys/core.c"][0]
    assert "KPKEYS_MUTANT_CLASS(2, " in whole["mm/memory.c"][0]
    assert "KPKEYS_MUTANT_CALL(3, " in whole["mm/mmap.c"][0]
    assert whole["mm/kpkeys/Makefile"][0] == "obj-y := core.o\nobj-y += mutant.o\n"
    assert "#define KPKEYS_MUTANT(nr)" in whole["include/linux/kpkeys_mutant.h"][0]
    number = "include/linux/kpkeys_mutant_missing.h"
    before = whole
    for count, site in (*enumerate(found, 1), (2, found[1])):
        after = state(shop.tree(site))
        assert after[number][0] == f"#define KPKEYS_MUTANT_MISSING {count}\n"
        assert {name for name in whole if after[name] != before[name]} == {number}
        assert after[number][1] > before[number][1]
        before = after
    last = state(shop.tree(None))
    assert {name: text for name, (text, _) in last.items()} == {
        name: text for name, (text, _) in whole.items()
    }
    # The repository is not what was mutated, nor is what others build from.
    assert state(repo) == queue
    assert {file.name for file in paths.build_dir().iterdir()} <= {
        ".locks", "log", "mutants", "tree-mutants"
    }  # fmt: skip


def test_an_edit_while_it_runs_does_not_get_into_mutants(shop: mutate.Workshop, repo: Path) -> None:
    (repo / "kernel/mm/kpkeys/core.c").write_text("int edited;\n")
    assert "edited" not in (shop.tree(places(shop)[1]) / "mm/kpkeys/core.c").read_text()


def test_verdicts_are_kept_for_the_same_kernel_and_tests(
    shop: mutate.Workshop, repo: Path, kernel: Path
) -> None:
    def again(host: str = shop.host, target: Target = UM) -> str:
        run = replace(shop.run, target=target)
        return mutate.Workshop(run, host, kernel, shop.sources, (), repo).kept().inputs

    first = shop.kept().inputs
    assert again() == first
    assert again("native") != first
    assert again(target=X86_64) != first
    (repo / "kernel/mm/kpkeys/core_test.c").write_text("int better;\n")
    second = again()
    assert second != first
    (repo / "patches/one/0001-guard.patch").write_text(PATCH.replace("mm: guard", "mm: more"))
    assert again() not in (first, second)
    names = {file.name for file in mutate._judging(UM.fragments + UM.ours)}
    assert {"um.config", "kunit.config", "stress.c", "boots.py", "lifecycle.py"} <= names
    assert {"isolation.py", "exits.py", "oracle.py"} <= names
    assert b"KPKEYS_MUTANT_CLASS" in shop.files[mutants.HEADER]


class Make:
    """Builds an image that has these places, all if there are none."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.error = ""
        self.has: tuple[int, ...] = (1, 2, 3)
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def __call__(
        self, target: Target, source: Path, kind: str, fragments: tuple[str, ...], _: object
    ) -> Build:
        self.asked.append((kind, fragments))
        if self.error:
            raise RedoubtError(self.error, "see the log")
        image = self.directory / "linux"
        image.write_bytes(b"".join(b"\0kpkeys mutant %d\0" % number for number in self.has))
        return Build(target, self.directory, image, image)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    (tmp_path / "objects").mkdir()
    fake = Make(tmp_path / "objects")
    monkeypatch.setattr(build, "compile_kernel", fake)
    return fake


def judged(
    shop: mutate.Workshop, monkeypatch: pytest.MonkeyPatch, *items: Item
) -> Callable[[Site | None], Verdict]:
    monkeypatch.setattr(boots, "noticing", lambda *_: iter(items))
    return shop


def test_a_mutant_is_built_as_the_suite_builds_it_and_judged(
    shop: mutate.Workshop, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = judged(shop, monkeypatch, Item("boot", "on", 1, 0, 0))
    assert judge(None) == Verdict(SURVIVED)
    # With what looks on as well.
    looking = replace(UM, observers=("linear-map-stats",))
    judge = judged(replace(shop, run=replace(shop.run, target=looking)), monkeypatch)
    judge(None)
    assert make.asked == [
        ("mutants", (*UM.fragments, *UM.ours)),
        ("mutants", (*UM.fragments, "linear-map-stats", *UM.ours)),
    ]
    judge = judged(shop, monkeypatch, Item("boot", "on", 0, 1, 0, "BUG: died\nmore"))
    assert judge(places(shop)[0]) == Verdict(NOTICED, "boot, on", "BUG: died")


@pytest.mark.parametrize(
    ("target", "kind", "asked"),
    [
        (X86_64, None, ["tables", "isolation"]),
        (X86_64, "guard", ["tables"]),
        (X86_64, "asi-flush", ["isolation"]),
        # It has none.
        (UM, None, ["tables"]),
    ],
)
def test_who_is_asked_depends_on_the_place(
    shop: mutate.Workshop, make: Make, monkeypatch: pytest.MonkeyPatch,
    target: Target, kind: str | None, asked: list[str],
) -> None:  # fmt: skip
    seen: list[str] = []

    def by(name: str) -> Callable[..., Iterator[Item]]:
        def noticing(*_: object) -> Iterator[Item]:
            seen.append(name)
            yield Item(name, "on", 1, 0, 0)

        return noticing

    monkeypatch.setattr(boots, "noticing", by("tables"))
    monkeypatch.setattr(isolation, "noticing", by("isolation"))
    site = replace(places(shop)[0], kind=kind) if kind else None
    judge = replace(shop, run=replace(shop.run, target=target), sites=(site,) if site else ())
    monkeypatch.setattr(mutate.Workshop, "tree", lambda *_: Path("tree"))
    assert judge(site) == Verdict(SURVIVED)
    assert seen == asked


def test_what_is_not_compiled_is_not_booted(
    shop: mutate.Workshop, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.has = (2, 3)

    def booted(*_: object) -> Iterator[Item]:
        raise AssertionError("booted")

    monkeypatch.setattr(boots, "noticing", booted)
    assert shop(places(shop)[0]) == Verdict(SAME)
    with pytest.raises(AssertionError, match="booted"):
        shop(places(shop)[1])


def test_a_build_that_fails_is_an_error(shop: mutate.Workshop, make: Make) -> None:
    make.error = "building um (mutants) failed (exit 2)"
    for site in (None, places(shop)[0]):
        with pytest.raises(RedoubtError, match="building um"):
            shop(site)


# === The command =================================================================================


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernel: Path, repo: Path
) -> Callable[[Fake], None]:
    """The command with two places, a fake judge and a policy of its own."""
    sites = [A, B]
    monkeypatch.setattr(source, "obtain", lambda _: source.Source(kernel, "7.3.4"))
    monkeypatch.setattr(mutants, "sources", lambda *_: {})
    monkeypatch.setattr(mutants, "sites", lambda _: iter(sites))
    monkeypatch.setattr(host, "lacking", lambda *_: None)
    monkeypatch.setattr(host, "pick", lambda *_: host.EMULATED)
    write_tree(repo, {"configs/mutate/um.toml": ENTRY})
    monkeypatch.setattr(paths, "repo", lambda: repo)

    def fake(judge: Fake) -> None:
        def made(*_: object) -> Fake:
            judge.kept = lambda: Kept(tmp_path / "kept", "1")  # type: ignore[attr-defined]
            return judge

        monkeypatch.setattr(mutate, "Workshop", made)

    return fake


def test_the_command(call: Call, command: Callable[[Fake], None], tmp_path: Path) -> None:
    command(Fake(a=Verdict(SURVIVED)))
    file = tmp_path / "result.json"
    done = call("mutate", "um", "--json", str(file))
    assert (done.code, done.err) == (0, "")
    assert "[2/2] mm/x.c:3 b (guard): noticed by boot: it died\n" in done.out
    assert done.out.endswith("1 noticed, 1 survived, 0 no difference; "
                             "0 unexpected, 0 stale reasons\n")  # fmt: skip
    told = json.loads(file.read_text())
    assert (told["target"], told["ok"], told["mutants"][0]["reason"]) == (
        "um", True, "nobody calls it",
    )  # fmt: skip
    assert "commit" in told

    done = call("mutate", "um", "--only", "a")
    assert "[1/1, known] mm/x.c:3 a (guard): survived\n" in done.out
    assert (done.code, "1 of 2 places" in done.out) == (0, True)


def test_the_command_adds_to_a_file(
    call: Call, command: Callable[[Fake], None], tmp_path: Path
) -> None:
    command(Fake(a=Verdict(SURVIVED)))
    file = tmp_path / "result.json"
    for name in ("b", "a"):
        done = call("mutate", "um", "--only", name, "--json", str(file), "--add")
        assert done.code == 0
    assert "2 of 2 places taken out: 1 noticed, 1 survived" in done.out
    told = json.loads(file.read_text())["mutants"]
    assert [(one["function"], one["outcome"]) for one in told] == [("a", SURVIVED), ("b", NOTICED)]

    file.write_text("{")
    done = call("mutate", "um", "--json", str(file), "--add")
    assert (done.code, file.read_text()) == (1, "{")
    assert call("mutate", "um", "--add").code == 2


def test_the_command_fails_for_what_is_not_expected(
    call: Call, command: Callable[[Fake], None]
) -> None:
    command(Fake(b=Verdict(SURVIVED)))
    done = call("mutate", "um")
    assert done.code == 1
    assert "SURVIVED, without a reason: mm/x.c:3 b (guard)" in done.out
    assert f"STALE reason for {A.name}: noticed by boot" in done.out


def test_the_command_only_lists(call: Call, command: Callable[[Fake], None]) -> None:
    judge = Fake()
    command(judge)
    done = call("mutate", "um", "--list")
    assert done.code == 0
    assert done.out.startswith("mm/x.c:3  a  guard 1: guard(kpkeys_hardened_pgtables)()  ->  /* g")
    assert done.out.endswith("\n\n2 of 2 places\n")
    assert judge.asked == []
    one = call("mutate", "um", "--list", "--sample", "1", "--seed", "3")
    assert one.err == "seed 3\n"
    assert one.out.endswith("\n\n1 of 2 places\n")
    assert call("mutate", "um", "--list", "--only", "z").code == 2
    assert "judges nothing" in call("mutate", "um", "--list", "--json", "x.json").err
