# SPDX-License-Identifier: GPL-2.0-only
"""The audit, on small images made here: each rule broken, and the same code with it kept."""

from __future__ import annotations

import json
import platform
import shutil
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.image import code_tables
from redoubt.image.audit import audit
from redoubt.image.audit.policy import Rule
from redoubt.image.elf import SHF_ALLOC, SHF_EXEC, Elf, Section
from redoubt.targets import TARGETS, Target

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("gcc"),
    reason="needs gcc for x86-64",
)

DEFAULT = 0x55555558
PGTABLES = 0x55555550

FLAGS = ["-O2", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fcf-protection=none"]

# A function that raises and lowers again, so that every image writes all levels.
GOOD = """
    .type good, @function
good:
    mov $0x55555550, %eax
    xor %ecx, %ecx
    xor %edx, %edx
    wrpkru
    movq $1, (%rdi)
    mov $0x55555558, %eax
    wrpkru
    ret
"""

POLICY = """
isa = "x86-pku"
helpers = ["kpkeys_set_level", "arch_kpkeys_*"]
[levels]
default = 0x55555558
pgtables = 0x55555550
"""


def allow(tmp_path: Path, extra: str = "", base: str = POLICY) -> Path:
    """An allow-list file: the basic policy and more."""
    path = tmp_path / "allow.toml"
    path.write_text(base + extra)
    return path


def entry(function: str, rule: str, reason: str = "tested", more: str = "") -> str:
    """One entry of an allow-list."""
    return f'[[allow]]\nfunction = "{function}"\nrule = "{rule}"\nreason = "{reason}"\n{more}\n'


def several(names: str, more: str = "") -> str:
    """One entry for several functions."""
    rule = f'rule = "{Rule.NON_CONSTANT}"'
    return f'[[allow]]\nfunctions = {names}\n{rule}\nreason = "shared"\n{more}\n'


def image(tmp_path: Path, assembly: str, *flags: str) -> Path:
    """A static executable of the assembly, the good function included."""
    source = tmp_path / "image.S"
    text = f".text\n.globl _start\n_start: ret\n{GOOD}\n{assembly}\n"
    source.write_text(text + ".section .note.GNU-stack\n")
    return link(tmp_path, source, *flags)


def link(tmp_path: Path, source: Path, *flags: str) -> Path:
    """Compile and link without the C library."""
    result = tmp_path / "image"
    subprocess.run(
        ["gcc", *FLAGS, *flags, "-o", str(result), str(source)],
        check=True,
    )
    return result


def function(name: str, body: str) -> str:
    """An assembly function."""
    return f".type {name}, @function\n{name}:\n{body}\n"


def broken(report: audit.Report) -> list[tuple[str, str | None]]:
    """Rule and function of each finding."""
    return [(finding.rule, finding.function) for finding in report.findings]


def run(tmp_path: Path, assembly: str, extra: str = "") -> audit.Report:
    """Audit an image of the assembly."""
    return audit.audit(image(tmp_path, assembly), allow(tmp_path, extra))


def test_a_balanced_function_is_clean(tmp_path: Path) -> None:
    report = run(tmp_path, "")
    assert report.ok and not report.cleared and report.embedded == 0
    assert [(site.function, site.value, site.level) for site in report.sites] == [
        ("good", PGTABLES, "pgtables"),
        ("good", DEFAULT, "default"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "mov %edi, %eax; wrpkru; ret",
        "mov (%rdi), %eax; wrpkru; ret",
        "wrpkru; ret",
        "mov $0x55555558, %eax; or %edi, %eax; wrpkru; ret",
        "mov $0x55555558, %eax; mov $1, %al; wrpkru; ret",
        "mov $0x55555558, %eax; call good; wrpkru; ret",
        # The callee saves %ebx in memory, where it can be changed.
        "mov $0x55555558, %ebx; call good; mov %ebx, %eax; wrpkru; ret",
        "mov $0x55555558, %eax; rdtsc; wrpkru; ret",
        "mov $0x55555558, %eax; xchg %eax, %edi; wrpkru; ret",
        # A direct branch enters between the constant and the write.
        "test %edi, %edi; je 1f; mov $0x55555558, %eax; 1: wrpkru; ret",
        # A switch table enters there.
        "jmp *table(,%rdi,8); mov $0x55555558, %eax; 1: wrpkru; ret\n"
        ".section .rodata; .balign 8; table: .quad 1b; .text",
        # An exception-table-like entry, relative to itself, enters there.
        "mov $0x55555558, %eax; 1: wrpkru; ret\n"
        '.section .fixups, "a"; .balign 4; .long 1b - .; .text',
    ],
)
def test_a_value_that_may_vary_needs_an_entry(tmp_path: Path, body: str) -> None:
    assembly = function("odd", body)
    assert broken(run(tmp_path, assembly)) == [(Rule.NON_CONSTANT, "odd")]
    report = run(tmp_path, assembly, entry("odd", Rule.NON_CONSTANT, "restores on return"))
    assert report.ok
    assert [site.excuse for site in report.sites if site.function == "odd"] == [
        "restores on return"
    ]


@pytest.mark.parametrize(("words", "is_offset"), [(b"PNPC10F\0", False), (b"\1NPC10F\0", True)])
def test_the_end_of_a_text_is_no_offset(words: bytes, is_offset: bool) -> None:
    start = 0xFFFFFFFF81847000
    target = start + 4 + int.from_bytes(words[4:], "little")
    code = Section(1, ".text", 1, SHF_ALLOC | SHF_EXEC, target - 64, 128, 0, 0, 1, bytes(128))
    # The word behind it is one, so that this might be a table.
    data = words + struct.pack("<i", code.address - start - 8)
    rodata = Section(2, ".rodata", 1, SHF_ALLOC, start, len(data), 0, 0, 4, data)
    elf = cast(Elf, SimpleNamespace(sections=[code, rodata]))
    found = code_tables._offsets(elf, rodata, {target}, ((), ()))
    assert found == ({target} if is_offset else set())


@pytest.mark.parametrize(
    "body",
    [
        "mov $0x55555558, %eax; wrpkru; ret",
        "movabs $0x55555558, %rax; wrpkru; ret",
        "mov $0x55555558, %eax; xor %ecx, %ecx; cltd; wrpkru; ret",
        "mov $0x55555558, %eax; rdrand %ecx; wrpkru; ret",
        "mov $0x55555558, %ebx; nop; mov %ebx, %eax; wrpkru; ret",
        "mov $0x55555558, %eax; mov %rdi, 8(%rsi); cmp %eax, %edi; jne 1f; wrpkru; 1: ret",
    ],
)
def test_a_plain_constant_is_recognised(tmp_path: Path, body: str) -> None:
    report = run(tmp_path, function("plain", body))
    assert [site.value for site in report.sites if site.function == "plain"] == [DEFAULT]


def test_a_constant_of_no_level_is_a_finding_that_no_entry_excuses(tmp_path: Path) -> None:
    assembly = function("zero", "xor %eax, %eax; wrpkru; ret")
    report = run(tmp_path, assembly)
    assert broken(report) == [(Rule.UNKNOWN_VALUE, "zero")]
    assert [site.value for site in report.sites if site.function == "zero"] == [0]
    with pytest.raises(RedoubtError, match="rule of allow entry zero"):
        run(tmp_path, assembly, entry("zero", Rule.UNKNOWN_VALUE))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("kpkeys_set_level", True),
        ("kpkeys_set_level.constprop.0", True),
        ("kpkeys_set_level.part.12.isra.3", True),
        ("__pfx_kpkeys_set_level", True),
        ("arch_kpkeys_write", True),
        ("arch_kpkeys_write.cold", True),
        ("my_kpkeys_set_level", False),
        ("kpkeys_set_level_test", False),
    ],
)
def test_a_helper_outside_its_callers_is_a_finding(tmp_path: Path, name: str, bad: bool) -> None:
    report = run(tmp_path, f'.type "{name}", @function\n"{name}": ret\n')
    assert broken(report) == ([(Rule.OUTLINED_HELPER, name)] if bad else [])


def test_data_may_have_a_helpers_name(tmp_path: Path) -> None:
    assert run(tmp_path, ".data\narch_kpkeys_enabled_key: .quad 0\n.text\n").ok


RAISE = "mov $0x55555550, %eax; xor %ecx, %ecx; xor %edx, %edx; wrpkru;"
LOWER = "mov $0x55555558, %eax; xor %ecx, %ecx; xor %edx, %edx; wrpkru;"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"{RAISE} ret", True),
        (f"{LOWER} {RAISE} ret", True),
        (f"{RAISE} jmp good", True),
        # The write of the default stands later in memory, but no path leads there.
        (f"{RAISE} ret; 1: {LOWER} ret", True),
        (f"{RAISE} {LOWER} ret", False),
        # It stands earlier in memory, and a path leads there.
        (f"jmp 2f; 1: {LOWER} ret; 2: {RAISE} jmp 1b", False),
        # One path lowers and one does not: an early return.
        (f"{RAISE} test %edi, %edi; jne 1f; {LOWER} 1: ret", True),
        (f"{RAISE} test %edi, %edi; jne 1f; {LOWER} ret; 1: {LOWER} ret", False),
        (f"{RAISE} 1: test %edi, %edi; jne 1b; {LOWER} ret", False),
        # By a jump through a pointer, or a conditional jump to another function.
        (f"{RAISE} test %edi, %edi; jne 1f; jmp *%rdi; 1: {LOWER} ret", True),
        (f"{RAISE} test %edi, %edi; jne good; {LOWER} ret", True),
        # Not leaving at all is fine.
        (f"{RAISE} test %edi, %edi; jne 1f; ud2; 1: jmp 1b", False),
        (f"{RAISE} call good; {LOWER} ret", False),
        # A warning returns.
        (f"{RAISE} test %edi, %edi; jne 1f; {LOWER} ret; 1: ud2; ret", True),
        (f"{RAISE} test %edi, %edi; jne 1f; 2: {LOWER} ret; 1: ud2; jmp 2b", False),
    ],
)
def test_a_raised_level_may_not_outlive_its_function(tmp_path: Path, body: str, left: bool) -> None:
    assembly = function("leaver", body)
    report = run(tmp_path, assembly)
    assert broken(report) == ([(Rule.LEAVES_RAISED, "leaver")] if left else [])
    if left:
        assert run(tmp_path, assembly, entry("leaver", Rule.LEAVES_RAISED)).ok


KEPT = "cmp $-1, %rbx; je 1f;"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        # What a guard remembers: a value where it raised, or that it did not.
        ("mov $0x55555558, %ebx;" + KEPT, False),
        ("mov $-1, %rbx;" + KEPT, True),
        ("mov %esi, %ebx;" + KEPT, True),
        ("mov $5, %eax; mov %rax, %rbx;" + KEPT, False),
        ("mov $5, %eax; inc %rax; mov %esi, (%rdi); je 1f;", False),
        ("mov $-1, %rax; inc %rax; mov %esi, (%rdi); je 1f;", True),
        ("mov $5, %ebx; test %rbx, %rbx; jne 2f; ret; 2:", False),
        ("mov $0, %ebx; test %rbx, %rbx; jne 2f; ret; 2:", True),
        # On each of two paths.
        ("mov $5, %ebx; test %edi, %edi; je 2f; mov $6, %ebx; 2:" + KEPT, False),
        ("mov $5, %ebx; test %edi, %edi; je 2f; mov $-1, %rbx; 2:" + KEPT, True),
        # Something else may be in the register by then, or in the flags.
        ("mov $5, %ebx; pop %rbx;" + KEPT, True),
        ("mov $5, %ebx; mov $1, %bl;" + KEPT, True),
        ("mov $5, %ebx; call good;" + KEPT, True),
        ("mov $5, %ebx; cpuid;" + KEPT, True),
        ("mov $5, %ebx; xchg %rbx, (%rdi);" + KEPT, True),
        ("mov $5, %ebx; cmp $-1, %rbx; add %esi, %edi; je 1f;", True),
        ("mov $5, %ebx; cmp $-1, %rbx; addl $1, (%rdi); je 1f;", True),
        ("mov $5, %ebx; cmp $-1, %bl; je 1f;", True),
        ("movq $5, (%rsp); cmpq $-1, (%rsp); je 1f;", True),
        ("mov $5, %ebx; cmp %rsi, %rbx; je 1f;", True),
        # And what leaves it alone.
        ("mov $5, %ebx; lock cmpxchg %rcx, (%rdi);" + KEPT, False),
        ("mov $5, %eax; lock cmpxchg %rcx, (%rdi); cmp $-1, %rax; je 1f;", True),
        ("mov $5, %ebx; rep movsq;" + KEPT, False),
        ("mov $5, %ecx; rep movsq; cmp $-1, %rcx; je 1f;", True),
        ("mov $5, %eax; xchg %ax, %ax; cmp $-1, %rax; je 1f;", False),
        # Round and round with another value each time, and out at last.
        ("mov $0, %ebx; 2: inc %rbx; cmp $200, %rbx; je 1f; jmp 2b;", True),
        ("mov $0, %ebx; 2: inc %rbx; cmp $200, %rbx; jne 2b;", False),
    ],
)
def test_a_guard_that_remembers_whether_it_raised(tmp_path: Path, body: str, left: bool) -> None:
    report = run(tmp_path, function("guard", f"{RAISE} {body} {LOWER} 1: ret"))
    assert broken(report) == ([(Rule.LEAVES_RAISED, "guard")] if left else [])


def test_the_cold_part_belongs_to_its_function(tmp_path: Path) -> None:
    cold = (
        '.section .text.unlikely, "ax"\n.type "split.cold", @function\n'
        f'"split.cold": {LOWER} ret\n.text\n'
    )
    body = function("split", f'{RAISE} test %edi, %edi; jne "split.cold"; {LOWER} ret')
    assert run(tmp_path, body + cold).ok
    other = body.replace("split.cold", "other.cold") + cold.replace("split.cold", "other.cold")
    assert broken(run(tmp_path, other)) == [(Rule.LEAVES_RAISED, "split")]


@pytest.mark.parametrize(("end", "left"), [(LOWER, False), ("nop;", True)])
def test_functions_may_share_a_part(tmp_path: Path, end: str, left: bool) -> None:
    part = f'.type "other.part.0", @function\n"other.part.0": {end} test %edi, %edi; {LOWER} ret\n'
    if left:
        part = part.replace(LOWER, f"jne 1f; {LOWER} 1:")
    report = run(tmp_path, function("sharer", f'{RAISE} jmp "other.part.0"') + part)
    assert broken(report) == ([(Rule.LEAVES_RAISED, "sharer")] if left else [])


def test_an_entry_covers_the_compilers_copies_and_only_its_rule(tmp_path: Path) -> None:
    assembly = '.type "odd.isra.0", @function\n"odd.isra.0": mov %edi, %eax; wrpkru; ret\n'
    assert run(tmp_path, assembly, entry("odd", Rule.NON_CONSTANT)).ok
    assert broken(run(tmp_path, assembly, entry("odd", Rule.LEAVES_RAISED))) == [
        (Rule.NON_CONSTANT, "odd.isra.0"),
        (Rule.STALE_ENTRY, "odd"),
    ]


def test_an_entry_that_excuses_nothing_is_stale_unless_optional(tmp_path: Path) -> None:
    assert broken(run(tmp_path, "", entry("gone", Rule.NON_CONSTANT))) == [
        (Rule.STALE_ENTRY, "gone")
    ]
    assert broken(run(tmp_path, "", entry("good", Rule.LEAVES_RAISED))) == [
        (Rule.STALE_ENTRY, "good")
    ]
    assert run(tmp_path, "", entry("gone", Rule.NON_CONSTANT, more="optional = true")).ok


@pytest.mark.parametrize(
    ("body", "clean"),
    [
        ("mov $0xee, %eax; xor %edx, %edx; xrstor (%rdi); ret", True),
        ("mov $0xee, %eax; xor %edx, %edx; xrstor64 (%rdi); ret", True),
        ("mov $0x2ee, %eax; xor %edx, %edx; xrstor (%rdi); ret", False),
        ("mov $-1, %eax; xor %edx, %edx; xrstors (%rdi); ret", False),
        ("mov (%rsi), %eax; xor %edx, %edx; xrstor64 (%rdi); ret", False),
    ],
)
def test_xrstor_counts_if_its_mask_may_hold_the_register(
    tmp_path: Path, body: str, clean: bool
) -> None:
    report = run(tmp_path, function("fpu", body))
    assert broken(report) == ([] if clean else [(Rule.NON_CONSTANT, "fpu")])
    assert [site.function for site in report.cleared] == (["fpu"] if clean else [])


def test_an_image_without_the_feature_does_not_pass(tmp_path: Path) -> None:
    source = tmp_path / "none.S"
    source.write_text(".text\n.globl _start\n_start: ret\n")
    report = audit.audit(link(tmp_path, source), allow(tmp_path))
    assert broken(report) == [(Rule.UNWRITTEN_LEVEL, None)] * 2
    assert not report.sites


def test_embedded_bytes_are_counted_and_no_finding(tmp_path: Path) -> None:
    report = run(tmp_path, function("hidden", "mov $0xef010f, %esi; ret"))
    assert report.ok and report.embedded == 1


def test_the_guard_pattern_as_a_compiler_makes_it(tmp_path: Path) -> None:
    source = tmp_path / "guard.c"
    source.write_text(
        """
        #define WRITE(value) __asm__ volatile("wrpkru" :: "a"(value), "c"(0), "d"(0) : "memory")
        int enabled; unsigned int shadow;
        void set(unsigned long *p, unsigned long v, int stop);
        void leak(unsigned long *p, unsigned long v);
        void set(unsigned long *p, unsigned long v, int stop)
        {
            int raised = 0;
            if (enabled && shadow != 1) {
                WRITE(0x55555550);
                raised = 1;
            }
            *p = v;
            if (!stop)
                p[1] = v;
            if (raised)
                WRITE(0x55555558);
        }
        #ifdef LEAK
        void leak(unsigned long *p, unsigned long v)
        {
            WRITE(0x55555550);
            *p = v;
        }
        #endif
        void _start(void) { }
        """
    )
    assert audit.audit(link(tmp_path, source), allow(tmp_path)).ok
    leaking = audit.audit(link(tmp_path, source, "-DLEAK"), allow(tmp_path))
    assert broken(leaking) == [(Rule.LEAVES_RAISED, "leak")]


PKS = 'isa = "x86-pks"\nhelpers = ["kpkeys_set_level"]\n[levels]\ndefault = 8\n'
PKS_LOWER = function("lower", "mov $0x6e1, %ecx; mov $8, %eax; xor %edx, %edx; wrmsr; ret")


def run_pks(tmp_path: Path, assembly: str, *flags: str, extra: str = "") -> audit.Report:
    """Audit an image for PKS of the assembly, and a function that lowers."""
    return audit.audit(
        image(tmp_path, PKS_LOWER + assembly, *flags), allow(tmp_path, extra, base=PKS)
    )


def test_the_pks_table_looks_at_the_number_of_the_msr(tmp_path: Path) -> None:
    other = function("other", "mov $0x10, %ecx; mov %edi, %eax; wrmsr; ret")
    loose = function("loose", "mov %edi, %ecx; mov $8, %eax; wrmsr; ret")
    report = run_pks(tmp_path, other + loose)
    assert report.ok
    assert [(site.function, site.value) for site in report.sites] == [("lower", 8), ("loose", 8)]
    assert [site.function for site in report.cleared] == ["other"]
    free = function("free", "mov $0x6e1, %ecx; mov %edi, %eax; wrmsr; ret")
    assert broken(run_pks(tmp_path, free)) == [(Rule.NON_CONSTANT, "free")]


def test_an_instruction_at_the_end_of_the_address_space_is_seen(tmp_path: Path) -> None:
    """Where a kernel is linked, addresses have as many digits as there is room for."""
    report = run_pks(tmp_path, "", "-Wl,-Ttext=0xffffffff81000000")
    assert [(site.function, site.value) for site in report.sites] == [("lower", 8)]
    assert report.sites[0].address >= 0xFFFFFFFF81000000


@pytest.mark.parametrize(
    ("body", "cleared"),
    [
        # Reading another register leaves the number as it is.
        ("mov $0x10, %ecx; rdmsr; or $1, %eax; wrmsr; ret", True),
        ("mov $0x10, %ecx; cpuid; wrmsr; ret", False),
        ("mov $0x10, %ecx; rdtscp; wrmsr; ret", False),
    ],
)
def test_what_reads_a_register_writes_others(tmp_path: Path, body: str, cleared: bool) -> None:
    report = run_pks(tmp_path, function("other", body))
    assert report.ok == cleared
    assert [site.function for site in report.cleared] == (["other"] if cleared else [])


@pytest.mark.parametrize(
    ("places", "enters"), [("1b - ., 2b - .", False), ("2b - ., 1b - .", True)]
)
def test_an_exception_enters_where_it_is_mended(tmp_path: Path, places: str, enters: bool) -> None:
    """The place where it may happen is in the table as well, and is no place to go."""
    body = (
        "mov $0x10, %ecx; mov %edi, %eax; 1: wrmsr; 2: ret\n"
        f'.section __ex_table, "a"; .balign 4; .long {places}, 0; .text'
    )
    assert run_pks(tmp_path, function("other", body)).ok is not enters


def test_a_value_for_a_register_nobody_knows_may_be_excused(tmp_path: Path) -> None:
    other = function("other", "mov %edi, %ecx; xor %eax, %eax; wrmsr; ret")
    assert broken(run_pks(tmp_path, other)) == [(Rule.UNKNOWN_SELECTOR, "other")]
    excused = entry("other", Rule.UNKNOWN_SELECTOR, "not of this register")
    report = run_pks(tmp_path, other, extra=excused)
    assert report.ok and [site.certain for site in report.sites] == [True, False]
    assert "1 of a register that is not known" in "\n".join(audit.render(report))
    # That it may write any register excuses no write of this one.
    certain = function("other", "mov $0x6e1, %ecx; mov %edi, %eax; wrmsr; ret")
    report = run_pks(tmp_path, certain, extra=excused)
    assert broken(report) == [(Rule.NON_CONSTANT, "other"), (Rule.STALE_ENTRY, "other")]


def test_rendering_and_json_say_what_was_found(tmp_path: Path) -> None:
    report = run(
        tmp_path,
        function("odd", "wrpkru; ret") + function("kept", "wrpkru; ret"),
        entry("kept", Rule.NON_CONSTANT, "kept because"),
    )
    text = "\n".join(audit.render(report))
    assert "FINDING non-constant" in text and "odd: wrpkru" in text
    assert "allowed: kept because" in text and "0x55555550 (pgtables)" in text
    assert text.endswith("audit: 1 findings")
    assert audit.render(run(tmp_path, ""))[-1] == "audit: clean"
    data = json.loads(json.dumps(report.as_json()))
    assert data["ok"] is False and data["findings"][0]["rule"] == Rule.NON_CONSTANT
    assert {site["function"] for site in data["sites"]} == {"good", "odd", "kept"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("isa = ", "not valid TOML"),
        (POLICY.replace("x86-pku", "z80"), "isa must be one of: arm64, x86-pks, x86-pku"),
        (POLICY.replace("default =", "base ="), "levels must give"),
        (POLICY.replace("helpers", "helper"), "unknown key helper"),
        (POLICY.replace('["kpkeys_set_level", "arch_kpkeys_*"]', "[]"), "helpers must list"),
        (POLICY + entry("f", "non-constant", " "), "reason of an entry of allow is no text"),
        (POLICY + entry("f", "whatever"), "rule of allow entry f"),
        (POLICY + entry("", "non-constant"), "function of an entry of allow is no text"),
        (POLICY + entry("f", "non-constant", more="why = 1"), "an unknown key why"),
        (POLICY + entry("f", "non-constant", more='optional = "yes"'), "true or false"),
        (POLICY + entry("f", "non-constant") * 2, "two entries for f"),
        (POLICY + several("[]"), "must list some"),
        (POLICY + several('"odd"'), "functions of an entry of allow is no list"),
        (POLICY + several('["odd", ""]'), "must list some"),
        (POLICY + several('["odd"]', 'function = "odd"'), "either function or functions"),
        (POLICY + several('["even", "odd"]') + several('["odd"]'), "two entries for odd"),
    ],
)
def test_a_bad_allow_list_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RedoubtError, match=message):
        audit.audit(image(tmp_path, ""), allow(tmp_path, base=text))


def test_an_image_that_cannot_be_audited_is_refused(tmp_path: Path) -> None:
    good = image(tmp_path, "")
    with pytest.raises(RedoubtError, match="cannot read the audit's allow-list"):
        audit.audit(good, tmp_path / "none.toml")
    with pytest.raises(RedoubtError, match=r"cannot read .*none"):
        audit.audit(tmp_path / "none", allow(tmp_path))
    text = tmp_path / "text"
    text.write_text("not an ELF file")
    with pytest.raises(RedoubtError, match="not a 64-bit little-endian ELF"):
        audit.audit(text, allow(tmp_path))
    cut = tmp_path / "cut"
    cut.write_bytes(good.read_bytes()[:-200])
    with pytest.raises(RedoubtError, match=r"damaged|truncated"):
        audit.audit(cut, allow(tmp_path))
    subprocess.run(["strip", str(good)], check=True)
    with pytest.raises(RedoubtError, match="has no symbols"):
        audit.audit(good, allow(tmp_path))


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_the_allow_list_of_a_target_is_well_formed(target: Target) -> None:
    path = Path(__file__).resolve().parents[1] / "configs" / "audit" / target.audit
    policy = audit.load_policy(path)
    levels = {
        "default": 0x555556A8, "pgtables": 0x55555680, "state": 0x55555608, "cred": 0x55555488,
        "secret": 0x55555288,
    }  # fmt: skip
    if target.arch == "arm64":
        levels = {
            "default": 0x11117, "pgtables": 0x11557, "state": 0x15517, "cred": 0x51517,
            "secret": 0x511517,
        }  # fmt: skip
    assert policy.levels == levels
    assert "kpkeys_set_level" in policy.helpers


@pytest.mark.parametrize(
    ("body", "cleared"),
    [
        ("mov (%rdi), %ecx; cmpl $0x6e1, %ecx; je 1f; wrmsr; 1: ret", True),
        ("mov (%rdi), %ecx; cmpl $0x6e1, %ecx; jne 1f; jmp 2f; 1: wrmsr; 2: ret", True),
        # The write is where they are equal.
        ("mov (%rdi), %ecx; cmpl $0x6e1, %ecx; jne 1f; wrmsr; 1: ret", False),
        ("mov (%rdi), %ecx; cmpl $0x6e1, %ecx; je 1f; jmp 2f; 1: wrmsr; 2: ret", False),
        ("mov (%rdi), %ecx; cmpl $0x6e1, %ecx; je 1f; 1: wrmsr; ret", False),
        # Another number, another register, a part of it.
        ("mov (%rdi), %ecx; cmpl $0x6e2, %ecx; je 1f; wrmsr; 1: ret", False),
        ("mov (%rdi), %ecx; cmpl $0x6e1, %edx; je 1f; wrmsr; 1: ret", False),
        ("mov (%rdi), %rcx; cmp $0x6e1, %cx; je 1f; wrmsr; 1: ret", False),
        ("mov (%rdi), %rcx; cmp $0x6e1, %rcx; je 1f; wrmsr; 1: ret", False),
        ("mov (%rdi), %ecx; cmpl $0x6e1, (%rdi); je 1f; wrmsr; 1: ret", False),
        # Something in between.
        ("mov (%rdi), %ecx; cmpl $0x6e1, %ecx; je 1f; mov (%rdi), %ecx; wrmsr; 1: ret", False),
        ("mov (%rdi), %ecx; cmpl $0x6e1, %ecx; mov (%rdi), %ecx; je 1f; wrmsr; 1: ret", False),
        # Another way to the write, or to the jump.
        ("jmp 2f; cmpl $0x6e1, %ecx; je 1f; 2: wrmsr; 1: ret", False),
        ("jmp 2f; cmpl $0x6e1, %ecx; 2: je 1f; wrmsr; 1: ret", False),
    ],
)
def test_a_comparison_in_front_of_the_write_clears_it(
    tmp_path: Path, body: str, cleared: bool
) -> None:
    report = run_pks(tmp_path, function("any", body))
    assert broken(report) == ([] if cleared else [(Rule.UNKNOWN_SELECTOR, "any")])
    assert [site.function for site in report.cleared] == (["any"] if cleared else [])


@pytest.mark.parametrize(
    "body",
    [
        # A join of differing constants, and of the same.
        "mov $0x10, %ecx; test %edi, %edi; je 1f; mov $0x11, %ecx; 1: wrmsr; ret",
        "test %edi, %edi; je 1f; mov $0x10, %ecx; jmp 2f; 1: mov $0x10, %ecx; 2: wrmsr; ret",
        # A loop that leaves the number as it is.
        "mov $0x10, %ecx; 1: wrmsr; dec %edi; jne 1b; ret",
        # A loop over constants: whichever was in the register, it is replaced by one of two.
        "mov $0x10, %ecx; 1: wrmsr; mov $0x20, %ecx; dec %edi; jne 1b; ret",
        "mov $0x10, %ecx; test %edi, %edi; je 1f; wrmsr; 1: ret",
        # Computed from constants.
        "mov $0x10, %eax; lea 0x20(%rax), %ecx; wrmsr; ret",
        "mov $0x10, %eax; lea 0x20(,%rax,4), %ecx; wrmsr; ret",
        "mov $0x10, %ecx; add $1, %ecx; or $0x100, %ecx; shl $1, %ecx; sub $1, %ecx; wrmsr; ret",
        "mov $0x10, %ecx; inc %ecx; not %ecx; dec %ecx; wrmsr; ret",
        "mov $0x10, %ecx; mov $0x11, %eax; test %edi, %edi; cmove %eax, %ecx; wrmsr; ret",
        "xor %ecx, %ecx; test %edi, %edi; sete %cl; add $0x186, %ecx; wrmsr; ret",
        "cmp $1, %edi; sbb %ecx, %ecx; and $4, %ecx; add $0x186, %ecx; wrmsr; ret",
        # A mask or a narrow load leaves few values of what is not known.
        "and $3, %edi; lea 0x186(%rdi), %ecx; wrmsr; ret",
        "movzbl (%rdi), %ecx; add $0xc0010200, %ecx; wrmsr; ret",
        "movzbl %dil, %ecx; add $0x700, %ecx; wrmsr; ret",
    ],
)
def test_a_number_that_is_another_on_all_ways_is_cleared(tmp_path: Path, body: str) -> None:
    report = run_pks(tmp_path, function("other", body))
    assert report.ok and {site.function for site in report.cleared} == {"other"}


@pytest.mark.parametrize(
    "body",
    [
        # The argument, or something from memory.
        "mov %edi, %ecx; wrmsr; ret",
        "mov (%rdi), %ecx; wrmsr; ret",
        "wrmsr; ret",
        # On one way it is not known.
        "mov %esi, %ecx; test %edi, %edi; je 1f; mov $0x11, %ecx; 1: wrmsr; ret",
        "mov $0x10, %ecx; 1: wrmsr; mov (%rsi), %ecx; dec %edi; jne 1b; ret",
        "mov $0x10, %ecx; test %edi, %edi; cmove %esi, %ecx; wrmsr; ret",
        "mov $0x10, %ecx; test %edi, %edi; cmove (%rsi), %ecx; wrmsr; ret",
        # One of several is the pkey register.
        "mov $0x10, %ecx; test %edi, %edi; je 1f; mov $0x6e1, %ecx; 1: wrmsr; ret",
        "mov $0x6e0, %ecx; test %edi, %edi; je 1f; inc %ecx; 1: wrmsr; ret",
        "and $3, %edi; lea 0x6e0(%rdi), %ecx; wrmsr; ret",
        "movzwl (%rdi), %ecx; wrmsr; ret",
        # A loop that counts is not followed to its end.
        "mov $0x10, %ecx; 1: wrmsr; inc %ecx; dec %edi; jne 1b; ret",
        # Kept across a call, in memory of the callee, or across a warning.
        "mov $0x10, %ebx; call good; mov %ebx, %ecx; wrmsr; ret",
        "mov $0x10, %ecx; ud2; wrmsr; ret",
        # What nothing is known to lead to.
        "mov $0x10, %ecx; jmp *%rdi; wrmsr; ret",
        # Into the middle, by a call, a pointer, or an address that was taken.
        "mov $0x10, %ecx; 1: wrmsr; ret; call 1b",
        "mov $0x10, %ecx; 1: wrmsr; ret; lea 1b(%rip), %rax",
        "mov $0x10, %ecx; 1: wrmsr; ret; mov $1b, %eax",
        "mov $0x10, %ecx; 1: wrmsr; ret\n.section .rodata; .balign 8; .quad 1b; .text",
    ],
)
def test_a_number_that_may_be_the_registers_needs_an_entry(tmp_path: Path, body: str) -> None:
    assembly = function("gadget", "mov %esi, %eax;" + body)
    assert broken(run_pks(tmp_path, assembly)) == [(Rule.UNKNOWN_SELECTOR, "gadget")]
    excused = run_pks(tmp_path, assembly, extra=entry("gadget", Rule.UNKNOWN_SELECTOR))
    assert excused.ok and not excused.cleared


@pytest.mark.parametrize(
    ("section", "words", "enters"),
    [
        (".rodata", "1b - .", False),  # By chance: there are many words.
        (".rodata", "1b - ., 2b - .", True),
        (".rodata", "2b - ., 0x12345678, 0x12345678, 1b - .", True),
        (".rodata", "2b - ., 1, 2, 3, 4, 5, 6, 1b - .", False),
        (".mytable", "1b - .", True),
    ],
)
def test_offsets_stand_in_tables(tmp_path: Path, section: str, words: str, enters: bool) -> None:
    body = (
        "2: mov $0x10, %ecx; mov %esi, %eax; 1: wrmsr; ret\n"
        f'.section {section}, "a"; .balign 16; .skip 64; .long {words}; .skip 64; .text'
    )
    report = run_pks(tmp_path, function("other", body))
    assert broken(report) == ([(Rule.UNKNOWN_SELECTOR, "other")] if enters else [])


def test_a_list_of_registers_in_memory_needs_an_entry(tmp_path: Path) -> None:
    report = run_pks(tmp_path, function("list", ".byte 0xf3, 0x0f, 0x01, 0xc6; ret"))
    assert broken(report) == [(Rule.NON_CONSTANT, "list")]


def test_another_function_may_jump_in_with_any_number(tmp_path: Path) -> None:
    body = function("gadget", "mov $0x10, %ecx; .Linside: wrmsr; ret")
    assert run_pks(tmp_path, body).ok
    report = run_pks(tmp_path, body + function("caller", "mov %edi, %ecx; jmp .Linside"))
    assert broken(report) == [(Rule.UNKNOWN_SELECTOR, "gadget")]


def test_a_value_that_is_the_same_on_all_ways_is_a_constant(tmp_path: Path) -> None:
    join = "test %edi, %edi; je 1f; mov ${}, %eax; jmp 2f; 1: mov ${}, %eax; 2: wrpkru; ret"
    assert run(tmp_path, function("both", join.format("0x55555558", "0x55555558"))).ok
    report = run(tmp_path, function("both", join.format("0x55555558", "0x55555550")))
    assert broken(report) == [(Rule.NON_CONSTANT, "both")]


def test_a_number_is_followed_from_the_cold_part(tmp_path: Path) -> None:
    cold = (
        '.section .text.unlikely, "ax"\n.type "split.cold", @function\n'
        '"split.cold": wrmsr; ret\n.text\n'
    )
    body = 'mov ${}, %ecx; test %edi, %edi; jne "split.cold"; ret'
    assert run_pks(tmp_path, function("split", body.format("0x10")) + cold).ok
    report = run_pks(tmp_path, function("split", body.replace("${}", "%esi")) + cold)
    assert broken(report) == [(Rule.UNKNOWN_SELECTOR, "split.cold")]


def alternative(original: str, other: str, after: str) -> str:
    """Instructions that others may replace, as ALTERNATIVE() of the kernel makes them."""
    return f"""
    771: {original}
    772: .skip -(((6651f-6641f)-(772b-771b)) > 0) * ((6651f-6641f)-(772b-771b)), 0x90
    773:
    .section .altinstructions, "a"
    .long 771b - ., 6641f - ., 0x00000001
    .byte 773b - 771b, 6651f - 6641f
    .section .altinstr_replacement, "ax"
    6641: {other}
    6651:
    .text
    {after}
    """


@pytest.mark.parametrize(
    ("body", "clean"),
    [
        # What does not touch the number, whichever is there.
        ("mov $0x10, %ecx;" + alternative("nop", "lfence", "wrmsr; ret"), True),
        # Each defines it.
        (alternative("mov $0x10, %ecx", "mov $0x11, %ecx", "wrmsr; ret"), True),
        (alternative("mov $0x10, %ecx", "mov $0x6e1, %ecx", "wrmsr; ret"), False),
        (alternative("mov $0x10, %ecx", "mov %edi, %ecx", "wrmsr; ret"), False),
        (alternative("mov $0x10, %ecx", "", "wrmsr; ret"), False),
        ("mov $0x11, %ecx;" + alternative("mov $0x10, %ecx", "", "wrmsr; ret"), True),
        # A replacement that does not go on behind.
        (alternative("mov $0x10, %ecx", "jmp 1f", "wrmsr; 1: ret"), True),
        (alternative("mov $0x10, %ecx", "jmp 1f", "1: wrmsr; ret"), False),
        # The writer is in the replacement.
        ("mov $0x10, %ecx;" + alternative("wrmsr", "ds wrmsr", "ret"), True),
        ("mov $0x10, %ecx;" + alternative("wrmsr", "wrmsrns", "ret"), True),
        ("mov $0x10, %ecx;" + alternative("wrmsr", "mov $0x6e1, %ecx; wrmsr", "ret"), False),
        ("mov $0x10, %ecx;" + alternative("wrmsr", "mov %esi, %ecx; wrmsrns", "ret"), False),
    ],
)
def test_replaced_instructions_count_as_well(tmp_path: Path, body: str, clean: bool) -> None:
    assembly = function("patched", "mov %esi, %eax;" + body)
    # Entries of this table are packed: the next one is at an odd place.
    more = function("more", "mov $0x10, %ecx;" + alternative("nop", "lfence", "wrmsr; ret"))
    for text in (assembly + more, more + assembly):
        report = run_pks(tmp_path, text)
        assert {name for _, name in broken(report)} == (set() if clean else {"patched"})


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"{RAISE}" + alternative("nop", "lfence", f"{LOWER} ret"), False),
        (f"{RAISE}" + alternative("nop", "ret", f"{LOWER} ret"), True),
        (f"{RAISE}" + alternative("jmp 1f", "nop", f"ret; 1: {LOWER} ret"), True),
        (f"{RAISE}" + alternative("nop", "jmp 1f", f"{LOWER} ret; 1: ret"), True),
        (f"{RAISE}" + alternative("nop", "jmp 1f", f"{LOWER} ret; 1: {LOWER} ret"), False),
        # An empty replacement has no instructions, and those of the next one are not its own.
        (
            f"{RAISE}"
            + alternative("nop", "", alternative("nop", "lfence; jmp 1f", f"{LOWER} ret; 1: ret")),
            True,
        ),
        (
            f"{RAISE} jmp 3f; 1: {LOWER} ret; 2: {LOWER} ret\n"
            '.section .altinstr_aux, "ax"\n3: testb $1, (%rdi); jne 1b; jmp 2b\n.text',
            False,
        ),
        (
            f"{RAISE} jmp 3f; 1: {LOWER} ret; 2: ret\n"
            '.section .altinstr_aux, "ax"\n3: testb $1, (%rdi); jne 1b; jmp 2b\n.text',
            True,
        ),
    ],
)
def test_paths_lead_through_replacements(tmp_path: Path, body: str, left: bool) -> None:
    report = run(tmp_path, function("leaver", body))
    assert broken(report) == ([(Rule.LEAVES_RAISED, "leaver")] if left else [])


def label(target: str) -> str:
    """A jump label: an instruction that does nothing, or jumps to the target."""
    return f"""
    881: nopl 0(%rax, %rax)
    .section .labels, "aw"
    .long 881b - ., {target} - .
    .quad 0
    .text
    """


LABELS = """
    .section .labels, "aw"
    .globl __start___jump_table, __stop___jump_table
    __start___jump_table: .previous
"""
LABELS_END = """
    .section .labels, "aw"
    __stop___jump_table:
    .text
"""


def test_a_jump_label_is_a_jump_that_may_be_there(tmp_path: Path) -> None:
    def with_labels(body: str) -> str:
        return LABELS + function("labelled", body) + LABELS_END

    good = "mov $0x10, %ecx;" + label("1f") + "mov $0x11, %ecx; 1: wrmsr; ret"
    assert run_pks(tmp_path, with_labels(good)).ok
    bad = "mov %esi, %eax; mov %esi, %ecx;" + label("1f") + "mov $0x11, %ecx; 1: wrmsr; ret"
    report = run_pks(tmp_path, with_labels(bad))
    assert broken(report) == [(Rule.UNKNOWN_SELECTOR, "labelled")]
    lowered = RAISE + label("1f") + f"{LOWER} ret; 1: {LOWER} ret"
    assert run(tmp_path, with_labels(lowered)).ok
    report = run(tmp_path, with_labels(RAISE + label("1f") + f"{LOWER} ret; 1: ret"))
    assert broken(report) == [(Rule.LEAVES_RAISED, "labelled")]


@pytest.mark.parametrize(
    ("kind", "clean"),
    [
        (9, True),  # EX_TYPE_RDMSR
        (11 | 6 << 8, True),  # EX_TYPE_RDMSR_SAFE, with the error in ESI
        (11 | 1 << 8, False),  # The same in ECX
        (17, False),  # Another type: who knows what it does
    ],
)
def test_an_msr_that_does_not_exist_is_no_obstacle(tmp_path: Path, kind: int, clean: bool) -> None:
    body = (
        "mov $0x10, %ecx; 1: rdmsr; xor %esi, %esi; 2: mov %edi, %eax; wrmsr; ret\n"
        f'.section __ex_table, "a"; .balign 4; .long 1b - ., 2b - ., {kind}; .text'
    )
    report = run_pks(tmp_path, function("other", body))
    assert broken(report) == ([] if clean else [(Rule.UNKNOWN_SELECTOR, "other")])


@pytest.mark.parametrize("number", ["$0x10", "%esi"])
def test_an_instruction_the_disassembler_does_not_know_hides_nothing(
    tmp_path: Path, number: str
) -> None:
    # LKGS %edi, which some assemblers do not know either.
    body = f".byte 0xf2, 0x0f, 0x00, 0xf7; mov {number}, %ecx; mov %esi, %eax; wrmsr; ret"
    report = run_pks(tmp_path, function("switch", body) + function("next", "ret"))
    assert broken(report) == ([] if "$" in number else [(Rule.UNKNOWN_SELECTOR, "switch")])
    assert [site.function for site in report.cleared] == (["switch"] if "$" in number else [])


def test_an_entry_may_name_several_functions(tmp_path: Path) -> None:
    assembly = function("odd", "wrpkru; ret") + function("even", "wrpkru; ret")
    report = run(tmp_path, assembly, several('["odd", "even"]'))
    assert report.ok
    assert {site.function for site in report.sites if site.excuse == "shared"} == {"odd", "even"}
    # Each of them must have something to excuse.
    report = run(tmp_path, assembly, several('["odd", "even", "gone"]'))
    assert broken(report) == [(Rule.STALE_ENTRY, "gone")]
    assert run(tmp_path, assembly, several('["odd", "even", "gone"]', "optional = true")).ok
