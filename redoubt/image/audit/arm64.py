# SPDX-License-Identifier: GPL-2.0-only
"""What in an arm64 image writes the register behind protection keys, and to which value.

A level switch puts its value together right in front of the write: MOV, and MOVKs of the same
register. Anything else counts as no constant, and so does a sequence into which control can come
from elsewhere: as the target of a branch, a call or a jump label. A mistake is a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import capstone

from redoubt.image import code_tables
from redoubt.image.audit import walk
from redoubt.image.audit.policy import DEFAULT_LEVEL, Policy
from redoubt.image.audit.site import Site
from redoubt.image.audit.walk import NOTHING, Known
from redoubt.image.elf import Elf
from redoubt.image.functions import Function, functions

# POR_EL1, as a disassembler calls it and as one that knows it.
_REGISTERS = ("s3_0_c10_c2_4", "por_el1")
_BRANCH = re.compile(r"^(?:bl?|bc?\.\w+|cbn?z|tbn?z)$")
# Behind these the function is over, or the kernel.
_LEAVING = frozenset({"ret", "retaa", "retab", "br", "eret"})
_DYING = frozenset({"brk", "udf"})
_IMMEDIATE = re.compile(r"^\w+, #(-?\w+)(?:, lsl #\d+)?$")
_64_BITS = (1 << 64) - 1
_NAMED = re.compile(r"\b[xw](\d+)\b")
# Among them data.
_CHANGES_ANYTHING = re.compile(r"^(?:bl|blr[a-z]*|svc|hvc|smc|\.byte|udf)$")
# Apart from the base of an address that moves on. Others may write any register that they name.
_WRITES_NONE = re.compile(
    r"^(?:cmp|cmn|tst|stu?r[bh]?|stp|stlr[bh]?|msr|cbn?z|tbn?z|b|b\.\w+|[id]sb|dmb|prfu?m|tlbi|bti)$"
)
_KEEPS_FLAGS = re.compile(
    r"^(?:nop|movk?|stu?r[bh]?|stp|ldu?r[bh]?|ldp|cbn?z|tbn?z|b|b\.\w+|[id]sb|dmb|adrp?|cas[a-z]*"
    r"|ldar[bh]?|stlr[bh]?|lda?xr|stl?xr|add|sub|and|orr|eor|ls[lr])$"
)


class Insn(NamedTuple):
    """An instruction, with its operands as text."""

    address: int
    mnemonic: str
    text: str

    @property
    def operands(self) -> list[str]:
        """The operands, and what is behind the last one, as a shift."""
        return self.text.split(", ")

    @property
    def target(self) -> int | None:
        """Where a direct branch or call goes."""
        if not _BRANCH.match(self.mnemonic):
            return None
        return int(self.operands[-1].removeprefix("#"), 0)

    @property
    def immediate(self) -> int | None:
        """The second operand, if it is a constant, and nothing but a shift is behind it."""
        match = _IMMEDIATE.match(self.text)
        return int(match[1], 0) & _64_BITS if match else None

    @property
    def shift(self) -> int:
        """By how much the constant is shifted."""
        return int(self.text.rpartition(", lsl #")[2]) if ", lsl #" in self.text else 0

    @property
    def writes(self) -> bool:
        """Does it write such a register?"""
        return self.mnemonic == "msr" and self.operands[0] in _REGISTERS


def decoded(function: Function) -> list[Insn]:
    """The instructions of a function; data in it and what is not known is `.byte`."""
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    # Go on behind what it does not know.
    decoder.skipdata = True
    found = decoder.disasm_lite(function.code, function.start)
    return [Insn(address, mnemonic, text) for address, _, mnemonic, text in found]


def constant(insns: Sequence[Insn], at: int, entered: Container[int]) -> int | None:
    """What the write at this index writes, if that is put together right in front of it.

    `entered` are addresses that control can come to by a jump.
    """
    register = insns[at].operands[1]
    first = at
    while insns[first].mnemonic != "mov":
        if not first or insns[first].address in entered:
            return None
        first -= 1
        if insns[first].mnemonic not in ("mov", "movk") or insns[first].operands[0] != register:
            return None
    known = NOTHING
    for insn in insns[first:at]:
        known = _behind(insn, known)
    return next((value for _, value in known.held), None)


def _behind(insn: Insn, known: Known) -> Known:
    """What is known behind an instruction, of what is known before it; registers by number."""
    # A function called may change anything.
    if _CHANGES_ANYTHING.match(insn.mnemonic):
        return NOTHING
    held = dict(known.held)
    named = [int(number) for number in _NAMED.findall(insn.text)]
    first = held.get(named[0]) if named else None
    immediate = insn.immediate
    mask = _64_BITS if insn.text.startswith("x") else _64_BITS >> 32
    value = None
    if insn.mnemonic == "mov" and len(insn.operands) == 2:
        value = immediate if len(named) == 1 else held.get(named[-1])
    elif insn.mnemonic == "movk" and first is not None and immediate is not None:
        value = first & ~(0xFFFF << insn.shift) | immediate << insn.shift
    differs = known.differs and _KEEPS_FLAGS.match(insn.mnemonic) is not None
    if insn.mnemonic in ("cmp", "cmn") and first is not None and immediate is not None:
        other = immediate if insn.mnemonic == "cmp" else -immediate
        differs = len(insn.operands) == 2 and (first - other) & mask != 0
    if not _WRITES_NONE.match(insn.mnemonic) or "!" in insn.text or "]," in insn.text:
        for one in named:
            held.pop(one, None)
    if value is not None:
        # A write of the lower half clears the upper one.
        held[named[0]] = value & mask
    return Known(frozenset(held.items()), differs)


def _behind_all(insns: Sequence[Insn], known: Known) -> Known:
    """The same behind some instructions, and nothing behind none: they are not known."""
    if not insns:
        return NOTHING
    for insn in insns:
        known = _behind(insn, known)
    return known


def _common(one: Known, other: Known) -> Known:
    return Known(one.held & other.held, one.differs and other.differs)


def way_out(
    insns: Sequence[Insn],
    start: int,
    lowered: Container[int],
    labels: Mapping[int, int],
    replaced: Mapping[int, Sequence[Insn]] = MappingProxyType({}),
) -> int | None:
    """Where a path from `start` leaves the function without passing one of `lowered`, if one does.

    `labels` are jump labels and the like: by the address, where it may go as well. `replaced` has
    what boot may put in place of some instructions, empty if that is not known. Of conditions only
    those of registers are understood that hold a constant, put there on the path. A jump to another
    function counts as leaving.
    """
    there = {insn.address: insn for insn in insns}

    def ahead(address: int, known: Known) -> list[tuple[int, Known]] | None:
        if address in lowered:
            return []
        insn = there.get(address)
        if insn is None or insn.mnemonic in _LEAVING:
            return None
        if insn.mnemonic in _DYING:
            return []
        found = [(labels[address], known)] if address in labels else []
        before, known = known, _behind(insn, known)
        if (others := replaced.get(address)) is not None:
            known = _common(known, _behind_all(others, before))
            found += [(one.target, known) for one in others if one.target and one.mnemonic != "bl"]
        # A call comes back.
        target = None if insn.mnemonic == "bl" else insn.target
        if target is not None and not (insn.mnemonic == "b.eq" and known.differs):
            found.append((target, known))
        ends = insn.mnemonic == "b" or (insn.mnemonic == "b.ne" and known.differs)
        if not ends or address in labels:
            found.append((address + 4, known))
        return found

    return walk.way_out([start], ahead)


def sites(elf: Elf, policy: Policy) -> list[Site]:
    """The writers in an image."""
    nops, alternatives = code_tables.arm64_alternatives(elf)
    replaced = {
        address: decoded(Function("", "", one.other, elf.code(one.other, one.other_end)))
        for one in alternatives
        for address in range(one.start, one.end, 4)
    }
    labels = code_tables.labels(elf) | {address: address + 4 for address in nops}
    entered = set(labels.values())
    writing: list[tuple[Function, list[Insn]]] = []
    for function in functions(elf):
        insns = decoded(function)
        entered.update(there for insn in insns if (there := insn.target) is not None)
        if any(insn.writes for insn in insns):
            writing.append((function, insns))
    levels = {value: name for name, value in policy.levels.items()}
    found: list[Site] = []
    for function, insns in writing:
        found += _sites(function, insns, entered, (labels, replaced), levels)
    return found


def _sites(
    function: Function,
    insns: Sequence[Insn],
    entered: Container[int],
    patched: tuple[Mapping[int, int], Mapping[int, Sequence[Insn]]],
    levels: Mapping[int, str],
) -> Iterator[Site]:
    """Those in a function; `entered` is of constant(), `patched` of way_out(), levels by value."""
    values = {at: constant(insns, at, entered) for at, insn in enumerate(insns) if insn.writes}
    named = {at: None if value is None else levels.get(value) for at, value in values.items()}
    lowered = {insns[at].address for at, level in named.items() if level == DEFAULT_LEVEL}
    for at, value in values.items():
        insn, level = insns[at], named[at]
        raised = level not in (None, DEFAULT_LEVEL)
        yield Site(
            address=insn.address,
            function=function.name,
            section=function.section,
            instruction=f"{insn.mnemonic} {insn.text}",
            value=value,
            level=level,
            left=way_out(insns, insn.address + 4, lowered, *patched) if raised else None,
        )
