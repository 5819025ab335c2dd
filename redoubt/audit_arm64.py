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


def way_out(
    lines: Sequence[str], start: int, lowered: Container[int], labels: Mapping[int, int]
) -> int | None:
    """Where a path from `start` leaves the function without passing one of `lowered`, if one does.

    `labels` are the jump labels: by the address of one, where it may go as well. Conditions are not
    understood, and a jump to another function counts as leaving.
    """
    there = {int(match[1], 16): match for line in lines if (match := _LINE.match(line))}
    seen: set[int] = set()
    todo = [start]
    while todo:
        address = todo.pop()
        if address in seen or address in lowered:
            continue
        seen.add(address)
        match = there.get(address)
        if match is None or match[2] in _LEAVING:
            return address
        if match[2] in _DYING:
            continue
        if address in labels:
            todo.append(labels[address])
        branch = _BRANCH.search(match[0])
        # A call comes back.
        if branch and branch[1] != "bl":
            todo.append(int(branch[2], 16))
        if not branch or branch[1] != "b" or address in labels:
            todo.append(address + 4)
    return None


def writes(lines: Sequence[str], entered: Container[int]) -> Iterator[Write]:
    """The writes in a function; `entered` are addresses that control can come to by a jump."""
    insns = list(_parsed(lines))
    for at, insn in enumerate(insns):
        if insn.mnemonic != "msr" or insn.operands[0] not in _REGISTERS:
            continue
        yield Write(insn.address, insn.text, _constant(insns, at, entered))
