# SPDX-License-Identifier: GPL-2.0-only
"""Audit of every instruction in a kernel image that can write the pkey register.

The protection rests on one claim: nothing callable sets the register to a value an attacker
chooses, or leaves it raised. This module disassembles the final image (for UML that includes the C
library it is linked with) and checks the claim on the instructions themselves:

* ``non-constant``: a writer whose value is not a compile-time constant;
* ``unknown-selector``: a writer of some register out of many (an MSR), and it is not plain that it
  is another one than the pkey register: by a number that is a constant, or by a comparison right in
  front of it;
* ``unknown-value``: a constant that is not the register value of a known level;
* ``outlined-helper``: a level-switch helper that exists as a function of its own, although it must
  be inlined everywhere (an out-of-line copy is a gadget that takes the level as an argument);
* ``leaves-raised``: a writer of a raised level from which some path leaves the function without
  passing a write of the default, so that the caller gets the raised level. Of conditions only
  those are understood that ask whether a register has the constant that was put in it on the path:
  so a guard remembers whether it raised;
* ``unwritten-level``: a level nothing writes, meaning the audit looked at a kernel without the
  feature or recognises its instructions no longer; without this rule such an audit would pass;
* ``stale-entry``: an entry of the allow-list that excuses nothing.

``non-constant``, ``unknown-selector`` and ``leaves-raised`` can be excused, function by function
and with a reason, in the allow-list (a TOML file, see configs/audit-um.toml).

How a value is found: walk back from the writer to the definition of the value register, on all ways
that lead there. These are the instruction before, direct jumps in the same function, jump labels,
instructions that alternatives put in place of others at boot, and the exception of an access to an
MSR that does not exist. A place that may be entered in another way ends the search without result:
the start of a function, the target of a call, or an address that a data section or an instruction
holds (switch tables, other exception fixups). Additions and the like of constants are understood,
and that a mask leaves few values of anything. A value must be the same on all ways; a selector may
differ, as long as it selects another register on each. Anything that is not plainly a constant
counts as none, so a mistake is a false alarm and not a pass. (Unless it is about how control gets
somewhere: a switch table of offsets from its own beginning, as in position-independent code, is not
recognised. Kernels are not built with such tables.) A constant that was put in a register
before a call is not good enough either, nor is it before a warning: the callee saves the register
on its stack, and what it restores from there is whatever someone who can write memory left there.
(An interrupt saves registers as well, and may come anywhere. That is not counted here.)

On arm64 all of this is done by simpler means, see audit_arm64. A level has a value for each of the
registers there: ``default-indirect`` is the default level as well.

Not findings, by the threat model: bytes that spell such an instruction inside another one, or in a
place execution never begins at. To use them an attacker must already have diverted control flow,
which the threat model excludes (and other defences look after). Their number is reported for
information. Nor can a disassembly show writes of the register by the host: it restores the value
in a signal frame when a handler returns.
"""

from __future__ import annotations

import bisect
import fnmatch
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redoubt import audit_arm64, reasons
from redoubt.elf import (
    EM_AARCH64,
    EM_X86_64,
    OBJDUMP,
    SHT_NOBITS,
    STT_FILE,
    STT_SECTION,
    Elf,
    Section,
)
from redoubt.errors import RedoubtError

NON_CONSTANT = "non-constant"
UNKNOWN_SELECTOR = "unknown-selector"
UNKNOWN_VALUE = "unknown-value"
OUTLINED_HELPER = "outlined-helper"
LEAVES_RAISED = "leaves-raised"
UNWRITTEN_LEVEL = "unwritten-level"
STALE_ENTRY = "stale-entry"

EXCUSABLE = (NON_CONSTANT, UNKNOWN_SELECTOR, LEAVES_RAISED)

DEFAULT_LEVEL = "default"


# === What can write the register, by instruction set =============================================


@dataclass(frozen=True)
class Writer:
    """A family of instructions that can write the pkey register.

    `value` is the register that holds the value, or None if it comes from memory (then it is never
    a constant). `selector` is a register deciding whether the instruction touches the pkey register
    at all: it does unless the selector is a known constant that fails the test, which is equality
    with `equals`, or having a bit of `bits` set.
    """

    mnemonics: frozenset[str]
    value: str | None
    selector: str | None = None
    equals: int | None = None
    bits: int | None = None

    def selected(self, selectors: frozenset[int] | None) -> bool:
        """True if the instruction may write the pkey register, given all its selector may be."""
        return selectors is None or any(map(self._selects, selectors))

    def certain(self, selectors: frozenset[int] | None) -> bool:
        """True if the instruction writes the pkey register whenever it is executed."""
        if self.selector is None:
            return True
        return selectors is not None and all(map(self._selects, selectors))

    def _selects(self, selector: int) -> bool:
        if self.equals is not None:
            return selector == self.equals
        if self.bits is not None:
            return bool(selector & self.bits)
        return True


@dataclass(frozen=True)
class Isa:
    """How one kind of pkey register is written."""

    machine: int
    objdump: str
    writers: tuple[Writer, ...]
    encoding: bytes = b""


_XRSTOR = Writer(
    mnemonics=frozenset({"xrstor", "xrstor64", "xrstors", "xrstors64"}),
    value=None,
    selector="eax",
    bits=1 << 9,  # the state component of PKRU; the high half of the mask (EDX) has no part in it
)

ISAS: dict[str, Isa] = {
    "x86-pku": Isa(
        machine=EM_X86_64,
        objdump=OBJDUMP[EM_X86_64],
        writers=(Writer(frozenset({"wrpkru"}), value="eax"), _XRSTOR),
        encoding=b"\x0f\x01\xef",
    ),
    "x86-pks": Isa(
        machine=EM_X86_64,
        objdump=OBJDUMP[EM_X86_64],
        writers=(
            # IA32_PKRS; an MSR number that is not a constant may be it.
            Writer(frozenset({"wrmsr", "wrmsrns"}), value="eax", selector="ecx", equals=0x6E1),
            # Numbers and values from memory.
            Writer(frozenset({"wrmsrlist"}), value=None),
        ),
        encoding=b"\x0f\x30",
    ),
    # See audit_arm64. Instructions are not found inside others there.
    "arm64": Isa(machine=EM_AARCH64, objdump=OBJDUMP[EM_AARCH64], writers=()),
}


# === The allow-list ==============================================================================


@dataclass(frozen=True)
class Excuse:
    """One entry of the allow-list: this rule, in this function, for this reason."""

    function: str
    rule: str
    reason: str
    optional: bool


@dataclass(frozen=True)
class Policy:
    """A parsed allow-list file."""

    isa: Isa
    levels: dict[str, int]
    helpers: tuple[str, ...]
    excuses: tuple[Excuse, ...]

    @property
    def default(self) -> int:
        """The register value of the default level."""
        return self.levels[DEFAULT_LEVEL]


def load_policy(path: Path) -> Policy:
    """Read an allow-list; raises RedoubtError naming the key at fault.

    Keys: `isa`; table `levels` (name = register value, `default` among them); `helpers`, glob
    patterns of functions that must not exist; tables `allow` with `function` (or `functions`, those
    that share a reason), `rule`, `reason` and optionally `optional = true` for an entry that may
    excuse nothing (compilers and configurations differ). A list is short for an entry for each of
    its functions: all of them must have something to excuse.
    """
    raw = reasons.read(path, "the audit's allow-list")

    def bad(what: str) -> RedoubtError:
        return RedoubtError(f"{path}: {what}")

    unknown = sorted(set(raw) - {"isa", "levels", "helpers", "allow"})
    if unknown:
        raise bad(f"unknown key {', '.join(unknown)}")
    if raw.get("isa") not in ISAS:
        raise bad(f"isa must be one of: {', '.join(sorted(ISAS))}")
    levels = raw.get("levels")
    if (
        not isinstance(levels, dict)
        or not all(type(value) is int for value in levels.values())
        or DEFAULT_LEVEL not in levels
    ):
        raise bad(f"levels must give each level its register value, '{DEFAULT_LEVEL}' among them")
    helpers = raw.get("helpers")
    if (
        not isinstance(helpers, list)
        or not helpers
        or not all(isinstance(name, str) for name in helpers)
    ):
        raise bad("helpers must list the functions that have to be inlined")
    entries = raw.get("allow", [])
    if not isinstance(entries, list):
        raise bad("allow must be a list of tables ([[allow]])")
    excuses = tuple(excuse for entry in entries for excuse in _excuses(entry, bad))
    keys = [(excuse.function, excuse.rule) for excuse in excuses]
    for key in keys:
        if keys.count(key) > 1:
            raise bad(f"two entries for {key[0]} and rule {key[1]}")
    return Policy(ISAS[raw["isa"]], dict(levels), tuple(helpers), excuses)


def _excuses(entry: Any, bad: Any) -> Iterator[Excuse]:
    """One `[[allow]]` table, checked: an excuse for each function; `bad` makes the error."""
    known = {"function", "functions", "rule", "reason", "optional"}
    if not isinstance(entry, dict) or not set(entry) <= known:
        raise bad(f"an allow entry has the keys {', '.join(sorted(known))} and no others")
    if "function" in entry and "functions" in entry:
        raise bad("an allow entry has either function or functions")
    functions = entry.get("functions", [entry.get("function")])
    if (
        not isinstance(functions, list)
        or not functions
        or not all(isinstance(function, str) and function for function in functions)
    ):
        raise bad("an allow entry lacks its function")
    function = functions[0]
    if entry.get("rule") not in EXCUSABLE:
        raise bad(f"rule of allow entry {function} must be one of: {', '.join(EXCUSABLE)}")
    reason = entry.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise bad(f"allow entry {function} gives no reason")
    optional = entry.get("optional", False)
    if not isinstance(optional, bool):
        raise bad(f"optional of allow entry {function} must be true or false")
    for function in functions:
        yield Excuse(function, entry["rule"], reason.strip(), optional)


# === The report ==================================================================================


@dataclass(frozen=True)
class Site:
    """One instruction that can write the pkey register.

    `value` is the constant written, None if it is not a constant. `certain` is false if it may be
    that another register is written. `excuse` is the reason from the allow-list if a rule was
    excused here.
    """

    address: int
    function: str
    section: str
    instruction: str
    value: int | None
    level: str | None
    excuse: str | None = None
    certain: bool = True


@dataclass(frozen=True)
class Finding:
    """One broken rule. `function` and `address` say where, as far as that makes sense."""

    rule: str
    message: str
    function: str | None = None
    address: int | None = None


@dataclass(frozen=True)
class Report:
    """What the audit saw.

    `cleared` are instructions of a kind that can write the register but which, by a constant
    selector, do not. `embedded` counts the encoding's occurrences that are not an instruction.
    """

    image: Path
    sites: tuple[Site, ...]
    cleared: tuple[Site, ...]
    findings: tuple[Finding, ...]
    embedded: int
    levels: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if no rule is broken."""
        return not self.findings

    def as_json(self) -> dict[str, Any]:
        """The report as plain values, addresses and values as hexadecimal strings."""

        def site(item: Site) -> dict[str, Any]:
            return {
                "address": f"{item.address:#x}",
                "function": item.function,
                "section": item.section,
                "instruction": item.instruction,
                "value": None if item.value is None else f"{item.value:#x}",
                "level": item.level,
                "excuse": item.excuse,
                "certain": item.certain,
            }

        return {
            "image": str(self.image),
            "ok": self.ok,
            "sites": [site(item) for item in self.sites],
            "cleared": [site(item) for item in self.cleared],
            "findings": [
                {
                    "rule": item.rule,
                    "function": item.function,
                    "address": None if item.address is None else f"{item.address:#x}",
                    "message": item.message,
                }
                for item in self.findings
            ],
            "embedded": self.embedded,
        }


def render(report: Report, *, sites: bool = True) -> list[str]:
    """The report as lines of text: the sites (unless told not to), the findings, the verdict."""
    lines: list[str] = []
    if sites:
        rows = [
            (f"{site.address:x}", _value_text(site), site.function, site.instruction)
            for site in report.sites
        ]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        for row, site in zip(rows, report.sites, strict=True):
            text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
            lines.append(f"{text}  {row[3]}" + (f"  allowed: {site.excuse}" if site.excuse else ""))
        lines.extend(
            f"{site.address:x}  {site.function}: {site.instruction} leaves the register alone"
            for site in report.cleared
        )
    for finding in report.findings:
        where = "" if finding.address is None else f"{finding.address:x} "
        lines.append(f"FINDING {finding.rule}: {where}{finding.message}")
    certain = [site for site in report.sites if site.certain]
    count = len(certain)
    functions = len({site.function for site in certain})
    constant = sum(site.value is not None for site in certain)
    others = len(report.sites) - count
    lines.append(
        f"{count} writers of the pkey register in {functions} functions: {constant} constant, "
        f"{count - constant} not; {len(report.cleared)} cleared by their mask; "
        + (f"{others} of a register that is not known; " if others else "")
        + f"{report.embedded} embedded byte sequences (not instructions)"
    )
    lines.append("audit: clean" if report.ok else f"audit: {len(report.findings)} findings")
    return lines


def _value_text(site: Site) -> str:
    if site.value is None:
        return "not constant" if site.certain else "any register"
    return f"{site.value:#010x} ({site.level or 'unknown'})"


# === Disassembly =================================================================================


@dataclass(frozen=True)
class _Insn:
    address: int
    mnemonic: str
    operands: tuple[str, ...]
    text: str

    @property
    def target(self) -> int | None:
        """The address a direct branch goes to, else None."""
        if not self.operands or not _is_branch(self.mnemonic):
            return None
        match = _TARGET.match(self.operands[0])
        return int(match[1], 16) if match else None


@dataclass
class _Function:
    name: str
    section: str
    start: int
    lines: list[str]
    end: int = 0


_HEAD = re.compile(r"^([0-9a-f]+) <(.*)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
# Sixteen digits, the colon and the tab.
_ADDRESS_WIDTH = 18
_TARGET = re.compile(r"^([0-9a-f]+)(?: <.*>)?$")
_BRANCH_LINE = re.compile(
    r"^\s*([0-9a-f]+):\t(?:\w+ )*?(call|j[a-z]+|loop[a-z]*)\s+([0-9a-f]+) <", re.MULTILINE
)
# An address in a register, by whatever name: perhaps that of an instruction, to be jumped to.
_TAKEN_LINE = re.compile(
    r"\t(?:lea|mov|movabs|push)[lq]?\s+(?:\$0x([0-9a-f]+)|\S+\(%rip\),\S+\s+# ([0-9a-f]+) <)"
)
_SEGMENTS = ("cs", "ds", "es", "fs", "gs", "ss")
_PREFIXES = frozenset(
    {"bnd", "notrack", "lock", "rep", "repz", "repnz", "data16", "addr32", *_SEGMENTS}
)
_COMPILER_SUFFIX = re.compile(r"\.(?:cold|part\.\d+|isra\.\d+|constprop\.\d+|lto_priv\.\d+)$")


def base_name(symbol: str) -> str:
    """The function a symbol was made from: without the suffixes a compiler adds to a copy."""
    symbol = symbol.removeprefix("__pfx_")
    while True:
        shorter = _COMPILER_SUFFIX.sub("", symbol)
        if shorter == symbol:
            return symbol
        symbol = shorter


def _is_branch(mnemonic: str) -> bool:
    return mnemonic.startswith(("j", "loop")) or mnemonic.removesuffix("q") == "call"


def _operands(text: str) -> tuple[str, ...]:
    """Split AT&T operands at the commas outside parentheses."""
    parts: list[str] = []
    depth = 0
    current = ""
    for char in text:
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
            continue
        depth += (char == "(") - (char == ")")
        current += char
    if current.strip():
        parts.append(current.strip())
    return tuple(parts)


def _parse(line: str) -> _Insn | None:
    """One line of disassembly, or None if it is none."""
    match = _LINE.match(line)
    if match is None:
        return None
    text = " ".join(match[2].split())
    words = text.split(" # ")[0].split()
    while len(words) > 1 and (words[0] in _PREFIXES or words[0].startswith("rex")):
        words.pop(0)
    if not words:
        return None
    return _Insn(int(match[1], 16), words[0], _operands(" ".join(words[1:])), text)


def _disassemble(objdump: str, image: Path, *options: str) -> Iterator[str]:
    """Lines of `objdump -d`; raises RedoubtError if it cannot be run or fails."""
    command = [objdump, "-d", "-w", "--no-show-raw-insn", *options, str(image)]
    environment = {**os.environ, "LC_ALL": "C"}
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="surrogateescape",
                env=environment,
            )
        except FileNotFoundError as missing:
            raise RedoubtError(
                f"{objdump} is missing, the audit disassembles with it",
                # Debian names the package after what stands in front of the program's name.
                "apt-get install " + "-".join(["binutils", *objdump.split("-")[:-1]]),
            ) from missing
        with process:
            yield from process.stdout or ()
        if process.returncode != 0:
            errors.seek(0)
            raise RedoubtError(f"{objdump} failed on {image}: {errors.read().strip()}")


def _functions(lines: Iterable[str]) -> Iterator[_Function]:
    """Cut a disassembly into functions, one per symbol."""
    section = ""
    current: _Function | None = None
    for line in lines:
        # Addresses of the kernel fill their column: nothing is before them.
        if line[:1] in " \t" or ":\t" in line[:_ADDRESS_WIDTH]:
            if current is not None:
                current.lines.append(line)
            continue
        line = line.rstrip("\n")
        if line.startswith("Disassembly of section "):
            section = line.removeprefix("Disassembly of section ").removesuffix(":")
        elif match := _HEAD.match(line):
            start = int(match[1], 16)
            if current is not None:
                current.end = start if current.section == section else 0
                yield current
            current = _Function(match[2], section, start, [])
    if current is not None:
        yield current


# LKGS of a register. Older disassemblers do not know it, and what they make of the bytes behind it
# may swallow further instructions.
_LKGS = re.compile(rb"\xf2[\x40-\x4f]?\x0f\x00[\xf0-\xf7]")


def _mend(elf: Elf, objdump: str, function: _Function) -> None:
    """Disassemble a function again behind the instructions that objdump does not know."""
    section = next((one for one in elf.sections if one.name == function.section), None)
    at = 0
    while section is not None and at < len(function.lines):
        line = function.lines[at]
        at += 1
        match = _LINE.match(line)
        if match is None or "(bad)" not in line:
            continue
        address = int(match[1], 16)
        found = _LKGS.match(section.data, address - section.address)
        if not found:
            continue
        behind = address + len(found[0])
        end = function.end or section.address + section.size
        options = (f"--start-address={behind:#x}", f"--stop-address={end:#x}")
        again = [one for one in _disassemble(objdump, elf.path, *options) if _LINE.match(one)]
        function.lines[at - 1 :] = [f"{address:x}:\tlkgs\n", *again]


# === Values and paths ============================================================================

_FAMILIES = [
    *(frozenset({f"r{x}x", f"e{x}x", f"{x}x", f"{x}l", f"{x}h"}) for x in "abcd"),
    *(frozenset({f"r{x}", f"e{x}", x, f"{x}l"}) for x in ("si", "di", "bp", "sp")),
    *(frozenset({f"r{n}", f"r{n}d", f"r{n}w", f"r{n}b"}) for n in range(8, 16)),
]
_FAMILY = {name: family for family in _FAMILIES for name in family}
# Registers whose plain write sets the whole (32-bit writes clear the upper half).
_WHOLE = frozenset(
    [f"{p}{x}x" for p in "re" for x in "abcd"]
    + [f"{p}{x}" for p in "re" for x in ("si", "di", "bp", "sp")]
    + [f"r{n}{s}" for n in range(8, 16) for s in ("", "d")]
)

# Instructions that write no register but their last operand (flags aside), and those that write
# none at all. An instruction in neither list may write anything.
_WRITES_LAST = re.compile(
    r"^(?:movabs|movz[bwl][wlq]|movs[bwl][wlq]|movslq|movzbl|mov[bwlq]?|lea[wlq]?|add[bwlq]?"
    r"|sub[bwlq]?|and[bwlq]?|or[bwlq]?|xor[bwlq]?|not[bwlq]?|neg[bwlq]?|inc[bwlq]?|dec[bwlq]?"
    r"|sh[lr][bwlq]?|sa[lr][bwlq]?|ro[lr][bwlq]?|set[a-z]{1,3}|cmov[a-z]{1,3}|pop[wlq]?|adc[bwlq]?"
    r"|sbb[bwlq]?|bsf|bsr|bswap|popcnt|tzcnt|lzcnt|rol|ror|bt[src][wlq]?)$"
)
_WRITES_NONE = re.compile(
    r"^(?:cmp[bwlq]?|test[bwlq]?|bt[wlq]?|push[wlq]?|nop[wlq]?|wrpkru|lfence|mfence|sfence|pause"
    r"|endbr64|j[a-z]+|xrstors?(?:64)?|wrmsr|wrmsrns|lkgs|clac|stac|cli|sti|prefetch[a-z0-9]*"
    r"|swapgs|verw|invlpg|wbinvd|serialize)$"
)
# Sections that say something about instructions, and are not where anybody takes an address to go.
# What `.altinstructions` says is understood.
_DESCRIPTIONS = (".orc_unwind_ip", ".orc_unwind", "__bug_table", ".altinstructions")
# Sections of all kinds of data; and how many words away from an offset another one is, there.
_MIXED = (".rodata", ".data", ".init.data")
_NEAR = 4
# Code that belongs to the functions that jump there, or to those it is copied over.
_ANNEXES = (".altinstr_aux", ".altinstr_replacement")

# Those that write these registers, whatever their operands.
_WRITES_FIXED = {
    **dict.fromkeys(("rdmsr", "rdtsc", "rdpmc", "xgetbv", "rdpkru"), ("eax", "edx")),
    **dict.fromkeys(("cltd", "cqto"), ("edx",)),
    **dict.fromkeys(("cltq", "cwtl"), ("eax",)),
    "cpuid": ("eax", "ebx", "ecx", "edx"),
    "rdtscp": ("eax", "ecx", "edx"),
    **dict.fromkeys(("movsb", "movsw", "movsl", "movsq"), ("ecx", "esi", "edi")),
    **dict.fromkeys(("stos", "stosb", "stosw", "stosl", "stosq"), ("ecx", "edi")),
}
# These write all of their operands, and the last one EAX as well.
_EXCHANGES = re.compile(r"^(?:xchg|xadd|cmpxchg)[bwlq]?$")
_ENDS = re.compile(r"^(?:ret[a-z]*|jmp[a-z]*|iret[a-z]*|sysret[a-z]*|ud[012][a-z]*|hlt)$")
_RETURNS = re.compile(r"^(?:ret[a-z]*|iret[a-z]*|sysret[a-z]*)$")

_WORD = 0xFFFFFFFF
_LOW_BYTE = frozenset(
    [f"{x}l" for x in "abcd"] + ["sil", "dil", "bpl", "spl"] + [f"r{n}b" for n in range(8, 16)]
)
# Of a shift by one binutils say nothing up to 2.40, and "$1" later.
_IMMEDIATE = re.compile(r"^\$(-?0x[0-9a-f]+|1)$")
# disp(base), disp(base,index,scale), disp(,index,scale)
_ADDRESS = re.compile(r"^(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+),([1248]))?\)$")
_MOVES = frozenset({"mov", "movl", "movq", "movabs", "movslq", "cltq"})
_ZERO_EXTENDS = {"movzbl": 0xFF, "movzbq": 0xFF, "movzwl": 0xFFFF, "movzwq": 0xFFFF}

# Bounds on the search, beyond which a value counts as unknown: states looked at, and bits of an
# unknown number that a mask leaves.
_MOST_STATES = 4000
_MOST_BITS = 10

# Something done to a value on its way: the name of the operation and its constant.
_Step = tuple[str, int]


def _take(value: int, steps: tuple[_Step, ...]) -> int:
    """What becomes of a value by the steps, in 32 bits."""
    for what, by in steps:
        match what:
            case "add":
                value += by
            case "and":
                value &= by
            case "or":
                value |= by
            case "xor":
                value ^= by
            case "mul":
                value *= by
            case "shr":
                value >>= by
        value &= _WORD
    return value


def _masked(steps: tuple[_Step, ...]) -> frozenset[int] | None:
    """All that may become of an unknown value, if the first step leaves few bits of it."""
    if not steps or steps[0][0] != "and" or steps[0][1].bit_count() > _MOST_BITS:
        return None
    mask = part = steps[0][1]
    found = {0}
    while part:
        found.add(part)
        part = (part - 1) & mask
    return frozenset(_take(value, steps[1:]) for value in found)


def _sources(insn: _Insn, family: frozenset[str]) -> list[tuple[str | int, tuple[_Step, ...]]]:
    """Where the low 32 bits of a register come from, if `insn` is what wrote the register.

    Each source is a register's name or a constant, with what is done to it. They are alternatives;
    the empty list says that nothing is known.
    """
    name = insn.mnemonic
    target = insn.operands[-1].removeprefix("%")
    old = next(iter(family))
    if name.startswith("set") and target in _LOW_BYTE:
        return [(old, (("and", 0xFFFFFF00), ("or", bit))) for bit in (0, 1)]
    if target not in _WHOLE:
        return []
    first = insn.operands[0]
    immediate = _IMMEDIATE.match(first)
    number = int(immediate[1], 16) & _WORD if immediate else None
    register = first.removeprefix("%") if first.startswith("%") else None
    whole = register if register in _WHOLE else None
    if len(insn.operands) == 1:
        alone: dict[str, tuple[_Step, ...]] = {
            "inc": (("add", 1),),
            "dec": (("add", _WORD),),
            "not": (("xor", _WORD),),
            "neg": (("mul", _WORD),),
            "shl": (("mul", 2),),
        }
        steps = alone.get(name.rstrip("lq") if name not in alone else name)
        return [(old, steps)] if steps else []
    if len(insn.operands) != 2:
        return []
    plain = re.sub(r"^(add|sub|and|or|xor|shl|shr|lea|sbb)[lq]$", r"\1", name)
    if plain in _MOVES:
        if number is not None:
            return [(number, ())]
        return [(whole, ())] if whole else []
    if name in _ZERO_EXTENDS:
        mask = (("and", _ZERO_EXTENDS[name]),)
        if register in _LOW_BYTE or (register in _FAMILY and _ZERO_EXTENDS[name] == 0xFFFF):
            return [(register or "", mask)]
        return [("", mask)]
    if name.startswith("cmov"):
        return [(old, ()), (whole, ())] if whole else []
    if whole and whole in family:
        if plain in ("xor", "sub"):
            return [(0, ())]
        if plain == "sbb":
            return [(0, ()), (_WORD, ())]
        if plain == "add":
            return [(old, (("mul", 2),))]
    if plain == "lea":
        address = _ADDRESS.match(first)
        if not address:
            return []
        base, index = address[2], address[3]
        if base and index and base != index:
            return []
        times = (1 if base else 0) + (int(address[4]) if index else 0)
        by = int(address[1] or "0", 16) & _WORD
        origin = (base or index or "").removeprefix("%")
        if origin not in _WHOLE:
            return []
        return [(origin, (("mul", times), ("add", by)) if times != 1 else (("add", by),))]
    if number is None:
        return []
    if plain in ("add", "and", "or", "xor"):
        return [(old, ((plain, number),))]
    if plain == "sub":
        return [(old, (("add", -number & _WORD),))]
    if plain == "shl" and number < 32:
        return [(old, (("mul", 1 << number),))]
    if plain == "shr" and number < 32 and target.startswith("e"):
        return [(old, (("shr", number),))]
    return []


@dataclass(frozen=True)
class _Known:
    """What is known on a path: low 32 bits of registers, and that no equality is in the flags."""

    held: frozenset[tuple[frozenset[str], int]] = frozenset()
    differs: bool = False


_NOTHING = _Known()
# So much may be known in one place, on different paths; beyond that nothing is.
_MOST_KNOWN = 64

_KEEPS_FLAGS = re.compile(
    r"^(?:j[a-z]+|mov[a-z]*|lea[lq]?|push[a-z]*|nop[a-z]*|xchg|cmov[a-z]+|set[a-z]+|not[lq]?"
    r"|wrmsr|rdmsr|wrpkru|rdpkru|[lsm]fence)$"
)
_COMPARES = re.compile(r"^(?:cmp|test)[lq]?$")
_RESULT_IN_FLAGS = re.compile(r"^(?:inc|dec|add|sub|and|or|xor|neg)[lq]?$")


def _differ(insn: _Insn, held: Mapping[frozenset[str], int]) -> bool:
    """Does this comparison, or test of a register for zero, certainly find a difference?"""
    first, second = insn.operands
    register = second.removeprefix("%")
    if register not in _WHOLE:
        return False
    value = held.get(_FAMILY[register])
    if value is None:
        return False
    if insn.mnemonic.startswith("test"):
        return first == second and value != 0
    immediate = _IMMEDIATE.match(first)
    return immediate is not None and int(immediate[1], 16) & _WORD != value


@dataclass(frozen=True)
class _Alternative:
    """Instructions from `start` to `end` that may be overwritten by those of another place."""

    start: int
    end: int
    other: int
    other_end: int


@dataclass
class _Ways:
    """How control gets about in an image, other than from one instruction to the next.

    `jumps` has for an address where direct jumps to it are; `entries` are addresses reached in a
    way of which no more is known: by a call, or from a pointer. `labels` are the jump labels, by
    address: where they go if they do not go on behind themselves. `errors` has the register that
    the handler of an instruction's exception changes.
    """

    jumps: dict[int, set[int]] = field(default_factory=dict)
    entries: set[int] = field(default_factory=set)
    alternatives: list[_Alternative] = field(default_factory=list)
    labels: dict[int, int] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


# Number of a function (its start) and of an instruction in it.
_Place = tuple[int, int]


class _Code:
    """The functions of interest and what is known about how control enters them."""

    def __init__(self, functions: list[_Function], ways: _Ways) -> None:
        self.insns: dict[int, list[_Insn]] = {}
        self.functions = sorted(functions, key=lambda function: function.start)
        self.starts = [function.start for function in self.functions]
        self.by_start = {function.start: function for function in self.functions}
        self.places: dict[int, _Place] = {}
        for function in self.functions:
            parsed = (_parse(line) for line in function.lines)
            insns = [insn for insn in parsed if insn is not None]
            self.insns[function.start] = insns
            for at, insn in enumerate(insns):
                self.places[insn.address] = (function.start, at)
        self.ways = ways
        self.over: dict[int, list[_Alternative]] = {}
        self.behind: dict[int, list[_Alternative]] = {}
        self.replaces: dict[int, list[_Alternative]] = {}
        for alternative in ways.alternatives:
            self.over.setdefault(alternative.start, []).append(alternative)
            self.behind.setdefault(alternative.end, []).append(alternative)
            if alternative.other < alternative.other_end:
                self.replaces.setdefault(alternative.other, []).append(alternative)
        # The last instruction of each replacement, and where control goes behind it.
        self.leaves: dict[int, list[int]] = {}
        for alternative in ways.alternatives:
            last = self._last(alternative)
            if last is not None:
                self.leaves.setdefault(self._insn(last).address, []).append(alternative.end)

    def _insn(self, place: _Place) -> _Insn:
        return self.insns[place[0]][place[1]]

    def mnemonic(self, place: _Place) -> str:
        """What the instruction does."""
        return self._insn(place).mnemonic

    def _last(self, alternative: _Alternative) -> _Place | None:
        """The last instruction of a replacement."""
        first = self.places.get(alternative.other)
        if first is None:
            return None
        start, at = first
        insns = self.insns[start]
        while at + 1 < len(insns) and insns[at + 1].address < alternative.other_end:
            at += 1
        return start, at

    def owner(self, place: _Place) -> _Function:
        """The function that an instruction is part of; of a replacement, where it is put."""
        function = self.by_start[place[0]]
        if function.section == ".altinstr_replacement":
            address = self._insn(place).address
            for alternative in self.ways.alternatives:
                if alternative.other <= address < alternative.other_end:
                    return self.function_at(alternative.start) or function
        return function

    def function_at(self, address: int) -> _Function | None:
        """The function of interest that has an instruction at `address`."""
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0:
            return None
        insns = self.insns[self.starts[at]]
        return self.functions[at] if insns and address <= insns[-1].address else None

    def _before(self, place: _Place, depth: int = 0) -> list[_Place] | None:
        """The instructions from which control may get to this one, None if not all are known."""
        start, at = place
        function = self.by_start[start]
        address = self._insn(place).address
        if address in self.ways.entries or depth > 8:
            return None
        found: list[_Place] = []
        if replaced := self.replaces.get(address):
            for alternative in replaced:
                original = self.places.get(alternative.start)
                before = None if original is None else self._before(original, depth + 1)
                if before is None:
                    return None
                found += before
            return found
        if at > 0:
            previous = self.insns[start][at - 1]
            if previous.mnemonic.startswith("ud") or previous.mnemonic == "hlt":
                return None  # A warning goes on behind it, after much else was done.
            if not _ENDS.match(previous.mnemonic) or previous.address in self.ways.labels:
                found.append((start, at - 1))
        elif not function.name.endswith(".cold") and function.section not in _ANNEXES:
            return None
        for alternative in self.behind.get(address, ()):
            last = self._last(alternative)
            if alternative.other == alternative.other_end:
                original = self.places.get(alternative.start)
                instead = None if original is None else self._before(original, depth + 1)
                if instead is None:
                    return None
                found += instead
            elif last is None:
                return None
            elif not _ENDS.match(self._insn(last).mnemonic):
                found.append(last)
        for source in self.ways.jumps.get(address, ()):
            origin = self.places.get(source)
            if origin is None or not self._same(self.by_start[origin[0]], function):
                return None
            found.append(origin)
        # What nothing leads to is reached in a way that is not understood.
        return found or None

    @staticmethod
    def _same(one: _Function, other: _Function) -> bool:
        """True if these are parts of one function, as far as one can tell."""
        return (
            one.name.removesuffix(".cold") == other.name.removesuffix(".cold")
            or one.section in _ANNEXES
            or other.section in _ANNEXES
        )

    def values(self, place: _Place, register: str) -> frozenset[int] | None:
        """All 32-bit constants `register` may hold before an instruction, None if unknown.

        All ways to the instruction are followed back, each to a constant; if that fails on one of
        them nothing is known.
        """
        found: set[int] = set()
        seen: set[tuple[_Place, frozenset[str], tuple[_Step, ...]]] = set()
        todo: list[tuple[_Place, frozenset[str], tuple[_Step, ...]]] = []

        def reach(there: _Place, family: frozenset[str], steps: tuple[_Step, ...]) -> bool:
            """Go on with what is before this instruction; False if that is unknown."""
            before = self._before(there)
            if before is None:
                masked = _masked(steps)
                found.update(masked or ())
                return masked is not None
            for one in before:
                if (one, family, steps) not in seen:
                    seen.add((one, family, steps))
                    todo.append((one, family, steps))
            return len(seen) <= _MOST_STATES

        if not reach(place, _FAMILY[register], ()):
            return None
        while todo:
            here, family, steps = todo.pop()
            insn = self._insn(here)
            if self._keeps(insn, family):
                if not reach(here, family, steps):
                    return None
                continue
            known = insn.operands and _WRITES_LAST.match(insn.mnemonic)
            sources = _sources(insn, family) if known else []
            for source, done in sources or [("", ())]:
                now = done + steps
                if isinstance(source, int):
                    found.add(_take(source, now))
                elif source:
                    if not reach(here, _FAMILY[source], now):
                        return None
                else:
                    masked = _masked(now)
                    if masked is None:
                        return None
                    found |= masked
        # Nothing at all: no way begins anywhere, so that one that is not understood must exist.
        return frozenset(found) or None

    def _keeps(self, insn: _Insn, family: frozenset[str]) -> bool:
        """True if the instruction certainly leaves the register alone."""
        # No call: a register the callee preserves it preserves in memory, where it can be changed.
        if self.ways.errors.get(insn.address) in family:
            return False
        if _WRITES_NONE.match(insn.mnemonic):
            return True
        if fixed := _WRITES_FIXED.get(insn.mnemonic):
            return family.isdisjoint(fixed)
        if _EXCHANGES.match(insn.mnemonic):
            written = {one.removeprefix("%") for one in insn.operands}
            if insn.mnemonic.startswith("cmp"):
                written.add("eax")
            # Exchanged with itself, AX is how two bytes say that there is nothing to do.
            return written == {"ax"} or family.isdisjoint(written)
        if not _WRITES_LAST.match(insn.mnemonic):
            return False
        target = insn.operands[-1] if insn.operands else ""
        if not insn.operands:
            return False
        return not target.startswith("%") or target[1:] not in family

    def constant(self, place: _Place, register: str) -> int | None:
        """The 32-bit constant in `register` before an instruction, None if it is not one."""
        values = self.values(place, register)
        return next(iter(values)) if values is not None and len(values) == 1 else None

    def compared(self, place: _Place, register: str, number: int) -> bool:
        """True if control gets to an instruction only where `register` was compared with `number`.

        Directly before, and was something else. What is in between could change the register.
        """
        address = self._insn(place).address
        goals = {address, *(one.start for one in self.replaces.get(address, ()))}
        before = self._before(place)
        return bool(before) and all(
            self._differs(one, goals, register, number) for one in before or ()
        )

    def _differs(self, jump: _Place, goals: set[int], register: str, number: int) -> bool:
        """True if this is a jump to or past `goals` after a comparison that finds a difference."""
        start, at = jump
        insn = self._insn(jump)
        if at == 0 or insn.address in self.ways.jumps or insn.address in self.ways.entries:
            return False
        jumps_there = insn.target in goals
        falls_there = any(self._insn(one).address in goals for one in self._after(jump))
        if (insn.mnemonic, jumps_there, falls_there) not in (
            ("je", False, True),
            ("jne", True, False),
        ):
            return False
        compare = self.insns[start][at - 1]
        return (
            compare.mnemonic in ("cmp", "cmpl")
            and compare.operands[-1] == f"%{register}"
            and (match := _IMMEDIATE.match(compare.operands[0])) is not None
            and int(match[1], 16) & _WORD == number
        )

    def way_out(self, place: _Place, goals: set[int]) -> int | None:
        """Where control may leave after an instruction without passing one of `goals`.

        The address of the instruction that leaves (a return, a jump elsewhere or by pointer), None
        if there is none. Paths stay in the function, its `.cold` part included. Of conditions only
        this is understood: that a register is not what it is compared with, as a constant was put
        in it on the path. Otherwise, if two branches always go the same way, a path that mixes them
        counts too.
        """
        seen: dict[int, set[_Known]] = {}
        home = self.owner(place)
        todo = [(after, _NOTHING) for after in self._after(place)]
        while todo:
            here, known = todo.pop()
            insn = self._insn(here)
            before = seen.setdefault(insn.address, set())
            if len(before) >= _MOST_KNOWN:
                known = _NOTHING
            if known in before or _NOTHING in before:
                continue
            before.add(known)
            for alternative in self.over.get(insn.address, ()):
                other = self.places.get(
                    alternative.other
                    if alternative.other < alternative.other_end
                    else alternative.end
                )
                if other is None:
                    return insn.address
                todo.append((other, known))
            if insn.address in goals:
                continue
            known = self._behind(insn, known)
            targets = []
            if insn.mnemonic.startswith(("j", "loop")) and not (
                insn.mnemonic == "je" and known.differs
            ):
                targets.append(insn.target)
            if insn.address in self.ways.labels:
                targets.append(self.ways.labels[insn.address])
            for target in targets:
                there = None if target is None else self.places.get(target)
                if there is None or not self._same(self.by_start[there[0]], home):
                    return insn.address
                todo.append((there, known))
            if _RETURNS.match(insn.mnemonic):
                return insn.address
            # A jump label's jump may be a no-operation, and a warning goes on behind it.
            ends = _ENDS.match(insn.mnemonic) and not insn.mnemonic.startswith("ud")
            ends = ends or (insn.mnemonic == "jne" and known.differs)
            if not ends or insn.address in self.ways.labels:
                todo += [(after, known) for after in self._after(here)]
        return None

    def _behind(self, insn: _Insn, known: _Known) -> _Known:
        """What is known behind an instruction, of what is known before it."""
        before = dict(known.held)
        target = insn.operands[-1].removeprefix("%") if insn.operands else ""
        family = _FAMILY.get(target)
        result = None
        if family and _WRITES_LAST.match(insn.mnemonic):
            sources = _sources(insn, family)
            source, steps = sources[0] if len(sources) == 1 else ("", ())
            if isinstance(source, int):
                value: int | None = source
            else:
                value = before.get(_FAMILY[source]) if source else None
            result = None if value is None else _take(value, steps)
        held = {one: value for one, value in before.items() if self._keeps(insn, one)}
        if family and result is not None:
            held[family] = result
        if _KEEPS_FLAGS.match(insn.mnemonic):
            differs = known.differs
        elif _COMPARES.match(insn.mnemonic):
            differs = _differ(insn, before)
        else:
            # What is not zero in the low half is not zero.
            differs = bool(result) and _RESULT_IN_FLAGS.match(insn.mnemonic) is not None
        return _Known(frozenset(held.items()), differs)

    def _after(self, place: _Place) -> list[_Place]:
        """The next instruction, if there is one."""
        start, at = place
        behind = self.leaves.get(self._insn(place).address)
        if behind is not None:
            return [self.places[end] for end in behind if end in self.places]
        return [(start, at + 1)] if at + 1 < len(self.insns[start]) else []


def _alternatives(elf: Elf) -> list[_Alternative]:
    """The table of instructions that are replaced at boot, by what the CPU can do."""
    found: list[_Alternative] = []
    for section in elf.sections:
        if section.name != ".altinstructions":
            continue
        # Two offsets relative to themselves, 32 bits of conditions, the two lengths.
        for at in range(0, len(section.data) - _ALTERNATIVE.size + 1, _ALTERNATIVE.size):
            original, other, _, length, other_length = _ALTERNATIVE.unpack_from(section.data, at)
            start = section.address + at + original
            there = section.address + at + 4 + other
            found.append(_Alternative(start, start + length, there, there + other_length))
    return found


_ALTERNATIVE = struct.Struct("<iiIBB")
_LABEL = struct.Struct("<iiq")


_FAULT = struct.Struct("<iii")
# EX_TYPE_WRMSR, EX_TYPE_RDMSR and the like that put an error code in a register.
_MSR_FAULTS = {8: "wrmsr", 9: "rdmsr", 10: "wrmsr", 11: "rdmsr"}
_SAFE_TYPES = (10, 11)
# Registers by their number.
_NUMBERED = (
    "eax",
    "ecx",
    "edx",
    "ebx",
    "esp",
    "ebp",
    "esi",
    "edi",
    *(f"r{n}" for n in range(8, 16)),
)


def _mended(elf: Elf, code: _Code) -> frozenset[int]:
    """Add to the ways of `code` how an access to an MSR that does not exist goes on.

    Returns the places in the exception table that said so.
    """
    found: set[int] = set()
    for section in elf.sections:
        if section.name != "__ex_table":
            continue
        for at in range(0, len(section.data) - _FAULT.size + 1, _FAULT.size):
            fault, fixup, data = _FAULT.unpack_from(section.data, at)
            place = section.address + at
            address, kind = place + fault, data & 0xFF
            there = code.places.get(address)
            known = there is not None and code.mnemonic(there) == _MSR_FAULTS.get(kind)
            if known and not data & ~0xFFF:
                code.ways.jumps.setdefault(place + 4 + fixup, set()).add(address)
                if kind in _SAFE_TYPES:
                    code.ways.errors[address] = _NUMBERED[data >> 8]
                found.add(place + 4)
    return frozenset(found)


def _label_table(elf: Elf) -> tuple[int, int]:
    """Where the table of jump labels begins and ends; nowhere if there is none."""
    bounds = {
        symbol.name: symbol.value
        for symbol in elf.symbols
        if symbol.name in ("__start___jump_table", "__stop___jump_table")
    }
    return bounds.get("__start___jump_table", 0), bounds.get("__stop___jump_table", 0)


def _labels(elf: Elf) -> dict[int, int]:
    """The jump labels, by address: where they go if they do not go on behind themselves."""
    found: dict[int, int] = {}
    start, stop = _label_table(elf)
    for section in elf.sections:
        if section.address <= start < stop <= section.address + len(section.data):
            for place in range(start, stop - _LABEL.size + 1, _LABEL.size):
                code, target, _ = _LABEL.unpack_from(section.data, place - section.address)
                found[place + code] = place + 4 + target
    return found


def _references(elf: Elf, wanted: set[int], known: Container[int]) -> set[int]:
    """The addresses of `wanted` that a data section holds, as a pointer or relative to itself.

    Except for the offsets at the places `known`, of which more is known.
    """
    found: set[int] = set()
    labels = range(*_label_table(elf))
    for section in elf.sections:
        if not section.alloc or section.executable or section.type == SHT_NOBITS:
            continue
        if section.name not in _DESCRIPTIONS:
            found |= _pointers(section, wanted)
            found |= _offsets(elf, section, wanted, (labels, known))
    return found


def _pointers(section: Section, wanted: set[int]) -> set[int]:
    """The addresses of `wanted` that this section holds as a pointer."""
    data = section.data
    words = struct.iter_unpack("<Q", data[: len(data) // 8 * 8])
    return {pointer for (pointer,) in words if pointer in wanted}


def _offsets(
    elf: Elf, section: Section, wanted: set[int], known: tuple[Container[int], Container[int]]
) -> set[int]:
    """The addresses of `wanted` that this section holds relative to the place, if not `known`."""
    found: set[int] = set()
    code = [
        range(one.address, one.address + one.size)
        for one in elf.sections
        if one.alloc and one.executable
    ]
    data = section.data
    offsets = [offset for (offset,) in struct.iter_unpack("<i", data[: len(data) // 4 * 4])]

    def leads_to_code(number: int) -> bool:
        address = section.address + 4 * number + offsets[number]
        return any(address in part for part in code)

    for number, offset in enumerate(offsets):
        place = section.address + 4 * number
        if place + offset not in wanted or any(place in part for part in known):
            continue
        # Of an exception table's entries: where to go on, not where it may happen.
        if section.name == "__ex_table" and number % 3 == 0:
            continue
        # Where all kinds of data are, some of them look like an offset. Those that are stand in
        # tables, near others.
        near = range(max(number - _NEAR, 0), min(number + _NEAR + 1, len(offsets)))
        if section.name in _MIXED and not any(
            leads_to_code(other) for other in near if other != number
        ):
            continue
        found.add(place + offset)
    return found


# === The audit ===================================================================================


def audit(vmlinux: Path, allow: Path) -> Report:
    """Audit the image `vmlinux` by the allow-list `allow`.

    Raises RedoubtError if either cannot be used (missing, stripped, another architecture);
    broken rules are not errors but findings in the report.
    """
    policy = load_policy(allow)
    elf = Elf(vmlinux)
    if elf.machine != policy.isa.machine:
        raise RedoubtError(f"{vmlinux} is for another machine than {allow.name} describes")
    names = {
        symbol.name
        for symbol in elf.symbols
        if symbol.type not in (STT_FILE, STT_SECTION)
        and symbol.section < len(elf.sections)
        and elf.sections[symbol.section].executable
    }
    if not names:
        raise RedoubtError(
            f"{vmlinux} has no symbols, so nothing in it has a name", "audit the unstripped image"
        )
    cleared: list[Site] = []
    raised: dict[int, int] = {}
    if policy.isa.machine == EM_AARCH64:
        sites, raised = _sites_arm64(elf, vmlinux, policy)
    else:
        sites, cleared, raised = _sites(elf, vmlinux, policy)
    findings, used, excused = _judge(policy, sites, raised, names)
    stale = [
        Finding(
            STALE_ENTRY,
            f"{excuse.function}: allow-list entry for {excuse.rule} excuses nothing; remove it",
            excuse.function,
        )
        for excuse in policy.excuses
        if excuse not in used and not excuse.optional
    ]
    occurrences = spelled = 0
    if policy.isa.encoding:
        occurrences = sum(
            section.data.count(policy.isa.encoding)
            for section in elf.sections
            if section.alloc and section.executable
        )
        spelled = sum(
            site.instruction.split()[-1] in policy.isa.writers[0].mnemonics
            for site in (*sites, *cleared)
        )
    return Report(
        image=vmlinux,
        sites=tuple(excused),
        cleared=tuple(cleared),
        findings=(*findings, *stale),
        embedded=max(occurrences - spelled, 0),
        levels=policy.levels,
    )


def _sites(elf: Elf, image: Path, policy: Policy) -> tuple[list[Site], list[Site], dict[int, int]]:
    """Writers, cleared writers, and by address those that leave their level raised: where."""
    writers = {name: writer for writer in policy.isa.writers for name in writer.mnemonics}
    hint = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(writers))) + r")\b")
    kept: list[_Function] = []
    colds: list[_Function] = []
    ways = _Ways(alternatives=_alternatives(elf), labels=_labels(elf))
    for function in _functions(_disassemble(policy.isa.objdump, image)):
        if any("(bad)" in line for line in function.lines):
            _mend(elf, policy.isa.objdump, function)
        body = "".join(function.lines)
        for address, mnemonic, target in _BRANCH_LINE.findall(body):
            if mnemonic == "call":
                ways.entries.add(int(target, 16))
            else:
                ways.jumps.setdefault(int(target, 16), set()).add(int(address, 16))
        ways.entries.update(int(one or other, 16) for one, other in _TAKEN_LINE.findall(body))
        if hint.search(body) or function.section in _ANNEXES:
            kept.append(function)
        else:
            colds.append(function)
    for address, there in ways.labels.items():
        ways.jumps.setdefault(there, set()).add(address)
    # The other half of a function split in hot and cold matters for the paths through it, and the
    # function whose instructions others replace.
    halves = {function.name.removesuffix(".cold") for function in kept}
    kept += [function for function in colds if function.name.removesuffix(".cold") in halves]
    code = _Code(kept, ways)
    ways.entries |= _references(elf, set(code.places), _mended(elf, code))

    by_value = {value: name for name, value in policy.levels.items()}
    sites: list[Site] = []
    cleared: list[Site] = []
    defaults: set[int] = set()
    for function in code.functions:
        for at, insn in enumerate(code.insns[function.start]):
            writer = writers.get(insn.mnemonic)
            if writer is None:
                continue
            place = (function.start, at)
            selectors, value = None, None
            # WRMSRNS has a form with explicit operands. Nothing needs that to be understood.
            implicit = not (writer.equals is not None and insn.operands)
            if writer.selector and implicit:
                selectors = code.values(place, writer.selector)
            if writer.value and implicit:
                value = code.constant(place, writer.value)
            # Unknown, but not this one.
            excluded = (
                writer.selector is not None
                and writer.equals is not None
                and implicit
                and code.compared(place, writer.selector, writer.equals)
            )
            # A mask selects the pkey register among others; a number selects one.
            certain = writer.equals is None or writer.certain(selectors)
            if not writer.certain(selectors) and value not in by_value:
                # Of some other register, most likely, and nothing that a level has to do with.
                value = None
            site = Site(
                address=insn.address,
                function=code.owner(place).name,
                section=function.section,
                instruction=insn.text,
                value=value,
                level=None if value is None else by_value.get(value),
                certain=certain,
            )
            other = excluded or not writer.selected(selectors)
            (cleared if other else sites).append(site)
            if certain and site.level == DEFAULT_LEVEL:
                defaults.add(site.address)
    raised: dict[int, int] = {}
    for site in sites:
        if site.level not in (None, DEFAULT_LEVEL):
            way_out = code.way_out(code.places[site.address], defaults)
            if way_out is not None:
                raised[site.address] = way_out
    return sites, cleared, raised


def _sites_arm64(elf: Elf, image: Path, policy: Policy) -> tuple[list[Site], dict[int, int]]:
    """Writers of an arm64 image, and by address those that leave their level raised: where."""
    functions = list(_functions(_disassemble(policy.isa.objdump, image)))
    labels = _labels(elf)
    entered = set(labels.values())
    for function in functions:
        entered.update(audit_arm64.branch_targets(function.lines))
    by_value = {value: name for name, value in policy.levels.items()}
    sites: list[Site] = []
    raised: dict[int, int] = {}
    for function in functions:
        written = [
            Site(
                address=write.address,
                function=function.name,
                section=function.section,
                instruction=write.instruction,
                value=write.value,
                level=None if write.value is None else by_value.get(write.value),
            )
            for write in audit_arm64.writes(function.lines, entered)
        ]
        defaults = {site.address for site in written if _is_default(site.level)}
        for site in written:
            if site.level is None or _is_default(site.level):
                continue
            out = audit_arm64.way_out(function.lines, site.address + 4, defaults, labels)
            if out is not None:
                raised[site.address] = out
        sites += written
    return sites, raised


def _is_default(level: str | None) -> bool:
    """Is it the default level, of whichever register?"""
    return level is not None and level.split("-")[0] == DEFAULT_LEVEL


def _judge(
    policy: Policy, sites: list[Site], raised: dict[int, int], names: set[str]
) -> tuple[list[Finding], set[Excuse], list[Site]]:
    """Apply the rules: findings, the excuses that were needed, the sites with their excuse."""
    excuses = {(excuse.function, excuse.rule): excuse for excuse in policy.excuses}
    findings: list[Finding] = []
    used: set[Excuse] = set()
    result: list[Site] = []
    for site in sites:
        rule, message = None, ""
        if site.value is None and not site.certain:
            rule = UNKNOWN_SELECTOR
            message = f"{site.function}: {site.instruction} may be of the pkey register"
        elif site.value is None:
            rule = NON_CONSTANT
            message = f"{site.function}: {site.instruction} writes a value that is not a constant"
        elif site.level is None:
            rule = UNKNOWN_VALUE
            message = f"{site.function}: {site.value:#x} is the register value of no level"
        elif site.address in raised:
            rule = LEAVES_RAISED
            message = (
                f"{site.function}: raises to level {site.level}, and a path leaves the function at "
                f"{raised[site.address]:x} without a write of the default"
            )
        excuse = excuses.get((base_name(site.function), rule)) if rule else None
        if excuse is not None:
            used.add(excuse)
            site = Site(**{**vars(site), "excuse": excuse.reason})
        elif rule is not None:
            findings.append(Finding(rule, message, site.function, site.address))
        result.append(site)
    for name in sorted(names):
        if any(fnmatch.fnmatchcase(base_name(name), pattern) for pattern in policy.helpers):
            findings.append(
                Finding(
                    OUTLINED_HELPER,
                    f"{name}: this helper exists as a function; it must be inlined everywhere",
                    name,
                )
            )
    written = {site.level for site in sites if site.certain}
    findings.extend(
        Finding(
            UNWRITTEN_LEVEL,
            f"nothing writes level {level} ({value:#x}): is this a kernel with the feature?",
        )
        for level, value in policy.levels.items()
        if level not in written
    )
    return findings, used, result
