# SPDX-License-Identifier: GPL-2.0-only
"""What decoded x86-64 instructions do to registers.

A register stands for all of its parts and is named by the whole; only the low 32 bits of what it
holds are looked at. A value that is not understood may be anything.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from iced_x86 import (
    ConditionCode,
    FlowControl,
    Instruction,
    InstructionInfoFactory,
    MemorySize,
    Mnemonic,
    OpAccess,
    OpKind,
    Register,
    RegisterExt,
    RflagsBits,
)

from redoubt.image.audit.walk import Known

_INFO = InstructionInfoFactory()
_WRITTEN = (OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE)
_JUMPS = (
    FlowControl.UNCONDITIONAL_BRANCH,
    FlowControl.INDIRECT_BRANCH,
    FlowControl.CONDITIONAL_BRANCH,
)
# Nothing else runs before the next one. That a callee preserves a register does not count: it does
# so in memory, where it can be changed.
_QUIET = (FlowControl.NEXT, FlowControl.RETURN, *_JUMPS)
_HIGH_BYTES = (Register.AH, Register.CH, Register.DH, Register.BH)

WORD = 0xFFFFFFFF
# Bits of an unknown number that a mask leaves, beyond which a value counts as unknown.
_MOST_BITS = 10

# Something done to a value on its way: the name of the operation and its constant.
Step = tuple[str, int]
_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "mul": operator.mul,
    "shr": operator.rshift,
}
# Where a value comes from, and what is done to it there; None is a value that is not known.
Source = tuple[int | None, tuple[Step, ...]]


def whole(register: Any) -> int:
    """The register that this is a part of."""
    return RegisterExt.full_register(register)


def jumps(insn: Instruction) -> bool:
    """Is it a jump, conditional or not?"""
    return insn.flow_control in _JUMPS


def target(insn: Instruction) -> int | None:
    """The address a direct branch goes to, else None."""
    near = insn.op_count and insn.op0_kind == OpKind.NEAR_BRANCH64
    return insn.near_branch_target if near else None


def warns(insn: Instruction) -> bool:
    """Does much else happen before control gets to the next one, as behind a warning?"""
    return insn.flow_control == FlowControl.EXCEPTION or insn.mnemonic == Mnemonic.HLT


def returns(insn: Instruction) -> bool:
    """Does it return from a function, an interrupt or a system call?"""
    return insn.flow_control == FlowControl.RETURN


def ends(insn: Instruction) -> bool:
    """Does control never get to the next one by itself?"""
    return returns(insn) or warns(insn) or insn.flow_control in _JUMPS[:2]


def register(insn: Instruction, operand: int) -> Any:
    """The register that an operand is, else NONE."""
    there = operand < insn.op_count and insn.op_kind(operand) == OpKind.REGISTER
    return insn.op_register(operand) if there else Register.NONE


def immediate(insn: Instruction, operand: int) -> int | None:
    """The low half of an operand that is a constant."""
    if operand < insn.op_count and is_immediate(insn.op_kind(operand)):
        return insn.immediate(operand) & WORD
    return None


def is_immediate(kind: int) -> bool:
    """Is an operand of this kind a constant?"""
    return OpKind.IMMEDIATE8 <= kind <= OpKind.IMMEDIATE32TO64


def take(value: int, steps: tuple[Step, ...]) -> int:
    """The value after the steps, in 32 bits."""
    for operation, by in steps:
        value = _OPERATIONS[operation](value, by) & WORD
    return value


def masked(steps: tuple[Step, ...]) -> frozenset[int] | None:
    """All that may become of an unknown value, if the first step leaves few bits of it."""
    if not steps or steps[0][0] != "and" or steps[0][1].bit_count() > _MOST_BITS:
        return None
    mask = part = steps[0][1]
    found = {0}
    while part:
        found.add(part)
        part = (part - 1) & mask
    return frozenset(take(value, steps[1:]) for value in found)


def _constant(value: int) -> Source:
    """Nothing is left of anything, and a number added."""
    return None, (("and", 0), ("add", value & WORD))


_ALONE: Mapping[int, Step] = {
    Mnemonic.INC: ("add", 1),
    Mnemonic.DEC: ("add", WORD),
    Mnemonic.NOT: ("xor", WORD),
    Mnemonic.NEG: ("mul", WORD),
}
_WITH_NUMBER = {Mnemonic.ADD: "add", Mnemonic.AND: "and", Mnemonic.OR: "or", Mnemonic.XOR: "xor"}


def sources(insn: Instruction, wanted: int) -> list[Source]:
    """Where the low 32 bits of a register come from, if `insn` is what wrote the register.

    These are alternatives; the empty list says that nothing is known.
    """
    written = register(insn, 0)
    if whole(written) != wanted:
        return []
    conditional = insn.condition_code != ConditionCode.NONE
    if RegisterExt.is_gpr8(written) and conditional and written not in _HIGH_BYTES:
        return [(wanted, (("and", ~0xFF & WORD), ("or", bit))) for bit in (0, 1)]
    if not (RegisterExt.is_gpr32(written) or RegisterExt.is_gpr64(written)):
        return []
    name = insn.mnemonic
    if insn.op_count == 1:
        return [(wanted, (_ALONE[name],))] if name in _ALONE else []
    if insn.op_count != 2:
        return []
    number = immediate(insn, 1)
    other = register(insn, 1)
    origin = whole(other) if RegisterExt.is_gpr32(other) or RegisterExt.is_gpr64(other) else None
    if name == Mnemonic.MOVZX:
        narrow = RegisterExt.is_gpr8(other) or insn.memory_size == MemorySize.UINT8
        known = RegisterExt.is_gpr(other) and other not in _HIGH_BYTES
        return [(whole(other) if known else None, (("and", 0xFF if narrow else 0xFFFF),))]
    if name in (Mnemonic.MOV, Mnemonic.MOVSXD):
        return [_constant(number)] if number is not None else [(origin, ())]
    if conditional:
        return [(wanted, ()), (origin, ())] if origin else []
    if name == Mnemonic.LEA:
        return _address(insn)
    if origin == wanted:
        same: Mapping[int, list[Source]] = {
            Mnemonic.XOR: [_constant(0)],
            Mnemonic.SUB: [_constant(0)],
            Mnemonic.SBB: [_constant(0), _constant(WORD)],
            Mnemonic.ADD: [(wanted, (("mul", 2),))],
        }
        return same.get(name, [])
    if number is None:
        return []
    if name in _WITH_NUMBER:
        return [(wanted, ((_WITH_NUMBER[name], number),))]
    if name == Mnemonic.SUB:
        return [(wanted, (("add", -number & WORD),))]
    if name == Mnemonic.SHL and number < 32:
        return [(wanted, (("mul", 1 << number),))]
    if name == Mnemonic.SHR and number < 32 and RegisterExt.is_gpr32(written):
        return [(wanted, (("shr", number),))]
    return []


def _address(insn: Instruction) -> list[Source]:
    """Where an address comes from, if it is computed of one register."""
    base, index = insn.memory_base, insn.memory_index
    if base and index and base != index:
        return []
    times = (1 if base else 0) + (insn.memory_index_scale if index else 0)
    if not RegisterExt.is_gpr(base or index):
        return []
    return [(whole(base or index), (("mul", times), ("add", insn.memory_displacement & WORD)))]


def _differ(insn: Instruction, held: Mapping[int, int]) -> bool:
    """Does this comparison, or test of a register for zero, certainly find a difference?"""
    first = register(insn, 0)
    value = held.get(whole(first))
    if value is None or not (RegisterExt.is_gpr32(first) or RegisterExt.is_gpr64(first)):
        return False
    if insn.mnemonic == Mnemonic.TEST:
        return register(insn, 1) == first and value != 0
    number = immediate(insn, 1)
    return number is not None and number != value


def _written(insn: Instruction) -> set[int]:
    return {
        whole(used.register)
        for used in _INFO.info(insn).used_registers()
        if used.access in _WRITTEN
    }


def keeps(insn: Instruction, one: int, changed: int | None = None) -> bool:
    """True if the instruction certainly leaves a register alone.

    `changed` is another one that the handler of its exception writes.
    """
    quiet = insn.flow_control in _QUIET and insn.mnemonic not in (Mnemonic.INVALID, Mnemonic.HLT)
    return quiet and changed != one and one not in _written(insn)


def behind(insn: Instruction, known: Known, changed: int | None = None) -> Known:
    """The knowledge behind an instruction, of that before it; `changed` as of keeps()."""
    before = dict(known.held)
    written = whole(register(insn, 0))
    result = None
    origins = sources(insn, written) if written else []
    if len(origins) == 1:
        source, steps = origins[0]
        if source is None:
            result = next(iter(values)) if len(values := masked(steps) or ()) == 1 else None
        elif source in before:
            result = take(before[source], steps)
    held = {one: value for one, value in before.items() if keeps(insn, one, changed)}
    if result is not None:
        held[written] = result
    if insn.mnemonic in (Mnemonic.CMP, Mnemonic.TEST):
        differs = _differ(insn, before)
    elif insn.flow_control in _QUIET and not insn.rflags_modified & RflagsBits.ZF:
        differs = known.differs
    else:
        # The flags are of the result, and one whose low half is not zero is not zero.
        differs = bool(result) and bool(insn.rflags_written & RflagsBits.ZF)
    return Known(frozenset(held.items()), differs)
