# SPDX-License-Identifier: GPL-2.0-only
"""What in an arm64 image writes the register behind protection keys, and to which value.

A level switch puts its value together right in front of the write: MOV, and MOVKs of the same
register. Anything else counts as no constant, and so does a sequence into which control can come
from elsewhere: as the target of a branch, a call or a jump label. A mistake is a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from redoubt.image import code_tables
from redoubt.image.audit.policy import DEFAULT_LEVEL, Policy
from redoubt.image.audit.site import Site
from redoubt.image.audit.walk import NOTHING, Known, Visited
from redoubt.image.disassembly import Function, disassemble, functions
from redoubt.image.elf import Elf

# What is written, as an old disassembler calls it and a new one: POR_EL1, PIR_EL1 in its place, and
# for the mock TPIDR2_EL0.
_REGISTERS = frozenset(
    {"s3_0_c10_c2_4", "por_el1", "s3_0_c10_c2_3", "pir_el1", "s3_3_c13_c0_5", "tpidr2_el0"}
)
_LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)(?:\s+([^/]*?))?\s*(?://.*)?$")
_BRANCH = re.compile(r"\t(bl?|b\.\w+|cbn?z|tbn?z)\s+(?:\S+,\s+)*([0-9a-f]+) <")
# Behind these the function is over, or the kernel.
_LEAVING = frozenset({"ret", "retaa", "retab", "br", "eret"})
_DYING = frozenset({"brk", "udf"})
_IMMEDIATE = re.compile(r"^#(-?(?:0x[0-9a-f]+|\d+))$")
_SHIFT = re.compile(r"^lsl #(\d+)$")
_64_BITS = (1 << 64) - 1
_NAMED = re.compile(r"\b[xw](\d+)\b")
_CHANGES_ANYTHING = re.compile(r"^(?:bl|blr[a-z]*|svc|hvc|smc|nop|\.inst|udf)$")
# Apart from the base of an address that moves on. Others may write any register that they name.
_WRITES_NONE = re.compile(
    r"^(?:cmp|cmn|tst|stu?r[bh]?|stp|stlr[bh]?|msr|cbn?z|tbn?z|b|b\.\w+|[id]sb|dmb|prfu?m|tlbi|bti)$"
)
_KEEPS_FLAGS = re.compile(
    r"^(?:movk?|stu?r[bh]?|stp|ldu?r[bh]?|ldp|cbn?z|tbn?z|b|b\.\w+|[id]sb|dmb|adrp?|cas[a-z]*"
    r"|ldar[bh]?|stlr[bh]?|lda?xr|stl?xr|add|sub|and|orr|eor|ls[lr])$"
)


@dataclass(frozen=True)
class Write:
    """A write of such a register; `value` is None if it is not a constant."""

    address: int
    instruction: str
    value: int | None


@dataclass(frozen=True)
class _Insn:
    address: int
    mnemonic: str
    operands: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.mnemonic} {', '.join(self.operands)}"


def branch_targets(lines: Sequence[str]) -> Iterator[int]:
    """Where direct branches and calls of these lines of disassembly go."""
    for line in lines:
        if match := _BRANCH.search(line):
            yield int(match[2], 16)


def _parsed(lines: Sequence[str]) -> Iterator[_Insn]:
    for line in lines:
        if match := _LINE.match(line):
            operands = tuple(one.strip() for one in (match[3] or "").split(",") if one.strip())
            yield _Insn(int(match[1], 16), match[2], operands)


def _immediate(insn: _Insn) -> int | None:
    match = _IMMEDIATE.match(insn.operands[1]) if len(insn.operands) > 1 else None
    return int(match[1], 0) & _64_BITS if match else None


def _constant(insns: Sequence[_Insn], at: int, entered: Container[int]) -> int | None:
    """What the write at this index writes, if that is put together right in front of it."""
    register = insns[at].operands[1]
    value = known = 0
    while at and insns[at].address not in entered:
        at -= 1
        insn = insns[at]
        immediate = _immediate(insn)
        if immediate is None or insn.operands[0] != register:
            return None
        if insn.mnemonic == "mov" and len(insn.operands) == 2:
            return value | (immediate & ~known)
        shift = _SHIFT.match(insn.operands[2]) if len(insn.operands) == 3 else None
        if insn.mnemonic != "movk" or (len(insn.operands) == 3 and not shift):
            return None
        place = int(shift[1]) if shift else 0
        value |= (immediate << place) & ~known
        known |= 0xFFFF << place
    return None


def _behind(match: re.Match[str], known: Known) -> Known:
    """What is known behind an instruction, of what is known before it; registers by number."""
    mnemonic, text = match[2], match[3] or ""
    # What boot may have put there is not looked at; and a function called may change anything.
    if _CHANGES_ANYTHING.match(mnemonic):
        return NOTHING
    held = dict(known.held)
    insn = _Insn(int(match[1], 16), mnemonic, tuple(one.strip() for one in text.split(",")))
    named = [int(number) for number in _NAMED.findall(text)]
    first = held.get(named[0]) if named else None
    immediate = _immediate(insn)
    value = None
    if mnemonic == "mov" and len(insn.operands) == 2:
        value = immediate if len(named) == 1 else held.get(named[-1])
    elif mnemonic == "movk" and first is not None and immediate is not None:
        shift = _SHIFT.match(insn.operands[-1])
        place = int(shift[1]) if shift else 0
        value = first & ~(0xFFFF << place) | immediate << place
    differs = known.differs and _KEEPS_FLAGS.match(mnemonic) is not None
    if mnemonic in ("cmp", "cmn") and first is not None and immediate is not None:
        word = _64_BITS if insn.operands[0].startswith("x") else _64_BITS >> 32
        other = immediate if mnemonic == "cmp" else -immediate
        differs = len(insn.operands) == 2 and (first - other) & word != 0
    if not _WRITES_NONE.match(mnemonic) or "!" in text or "]," in text:
        for one in named:
            held.pop(one, None)
    if value is not None:
        # A write of the lower half clears the upper one.
        held[named[0]] = value if insn.operands[0].startswith("x") else value & _64_BITS >> 32
    return Known(frozenset(held.items()), differs)


def way_out(
    lines: Sequence[str], start: int, lowered: Container[int], labels: Mapping[int, int]
) -> int | None:
    """Where a path from `start` leaves the function without passing one of `lowered`, if one does.

    `labels` are the jump labels: by the address of one, where it may go as well. Of conditions only
    those of registers are understood that hold a constant, put there on the path. A jump to another
    function counts as leaving.
    """
    there = {int(match[1], 16): match for line in lines if (match := _LINE.match(line))}
    visited = Visited()
    todo = [(start, NOTHING)]
    while todo:
        address, before = todo.pop()
        if address in lowered:
            continue
        known = visited.enter(address, before)
        if known is None:
            continue
        match = there.get(address)
        if match is None or match[2] in _LEAVING:
            return address
        if match[2] in _DYING:
            continue
        if address in labels:
            todo.append((labels[address], known))
        known = _behind(match, known)
        branch = _BRANCH.search(match[0])
        # A call comes back.
        if branch and branch[1] != "bl" and not (branch[1] == "b.eq" and known.differs):
            todo.append((int(branch[2], 16), known))
        ends = branch and (branch[1] == "b" or (branch[1] == "b.ne" and known.differs))
        if not ends or address in labels:
            todo.append((address + 4, known))
    return None


def writes(lines: Sequence[str], entered: Container[int]) -> Iterator[Write]:
    """The writes in a function; `entered` are addresses that control can come to by a jump."""
    insns = list(_parsed(lines))
    for at, insn in enumerate(insns):
        if insn.mnemonic != "msr" or insn.operands[0] not in _REGISTERS:
            continue
        yield Write(insn.address, insn.text, _constant(insns, at, entered))


def sites(elf: Elf, policy: Policy) -> list[Site]:
    """The writers in an image."""
    found = list(functions(disassemble(elf.path)))
    labels = code_tables.labels(elf)
    entered = set(labels.values())
    for function in found:
        entered.update(branch_targets(function.lines))
    levels = {value: name for name, value in policy.levels.items()}
    return [site for function in found for site in _sites(function, entered, labels, levels)]


def _sites(
    function: Function,
    entered: Container[int],
    labels: Mapping[int, int],
    levels: Mapping[int, str],
) -> Iterator[Site]:
    """Those in a function; `entered` as of writes(), `labels` of way_out(), `levels` by value."""
    written = [
        (write, None if write.value is None else levels.get(write.value))
        for write in writes(function.lines, entered)
    ]
    lowered = {write.address for write, level in written if _is_default(level)}
    for write, level in written:
        raised = level is not None and not _is_default(level)
        yield Site(
            address=write.address,
            function=function.name,
            section=function.section,
            instruction=write.instruction,
            value=write.value,
            level=level,
            left=way_out(function.lines, write.address + 4, lowered, labels) if raised else None,
        )


def _is_default(level: str | None) -> bool:
    """Is it the default level, of whichever register?"""
    return level is not None and level.split("-")[0] == DEFAULT_LEVEL
