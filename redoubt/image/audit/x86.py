# SPDX-License-Identifier: GPL-2.0-only
"""What in an x86-64 image writes the pkey register, to which value, and what follows.

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
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, Register

from redoubt.image import code_tables
from redoubt.image.audit import walk, x86_insn
from redoubt.image.audit.policy import DEFAULT_LEVEL, Policy, Writer
from redoubt.image.audit.site import Site
from redoubt.image.audit.walk import Known
from redoubt.image.audit.x86_insn import Step
from redoubt.image.code_tables import Alternative
from redoubt.image.elf import Elf
from redoubt.image.functions import Function, functions

# Code that belongs to the functions that jump there, or to those it is copied over.
_ANNEXES = (".altinstr_aux", ".altinstr_replacement")
# States looked at in search of a value, beyond which it counts as unknown.
_MOST_STATES = 4000
_FAULT = struct.Struct("<iii")
# EX_TYPE_WRMSR, EX_TYPE_RDMSR and the like that put an error code in a register.
_MSR_FAULTS = {8: Mnemonic.WRMSR, 9: Mnemonic.RDMSR, 10: Mnemonic.WRMSR, 11: Mnemonic.RDMSR}
_SAFE_TYPES = (10, 11)
_TAKES = (Mnemonic.LEA, Mnemonic.MOV, Mnemonic.PUSH)

# Before the instruction at an address, the value of a register, and what is done to it from there
# on. Without a register it may be any value.
_Steps = tuple[Step, ...]
_Wanted = tuple[int, int | None, _Steps]


def _decoded(function: Function) -> list[Instruction]:
    return list(Decoder(64, function.code, ip=function.start))


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
    alternatives: list[Alternative] = field(default_factory=list)
    labels: dict[int, int] = field(default_factory=dict)
    errors: dict[int, int] = field(default_factory=dict)


class _Unknown(Exception):
    """Control may get to an instruction in a way that is not understood."""


class _Code:
    """The instructions of the functions of interest, and what leads from one to another."""

    def __init__(self, functions: list[Function], ways: _Ways) -> None:
        self.ways = ways
        self.insns: dict[int, Instruction] = {}
        self.functions: dict[int, Function] = {}
        # The instruction in front of another one of the same function.
        self.previous: dict[int, Instruction] = {}
        for function in sorted(functions, key=lambda function: function.start):
            insns = _decoded(function)
            self.insns |= {insn.ip: insn for insn in insns}
            self.functions |= dict.fromkeys((insn.ip for insn in insns), function)
            self.previous |= {insn.ip: before for before, insn in pairwise(insns)}
        self.over: dict[int, list[Alternative]] = {}
        self.behind: dict[int, list[Alternative]] = {}
        self.replaces: dict[int, list[Alternative]] = {}
        # The last instruction of each replacement, and where control goes behind it.
        self.leaves: dict[int, list[int]] = {}
        for alternative in ways.alternatives:
            self.over.setdefault(alternative.start, []).append(alternative)
            self.behind.setdefault(alternative.end, []).append(alternative)
            if alternative.other < alternative.other_end:
                self.replaces.setdefault(alternative.other, []).append(alternative)
            if (last := self._last(alternative)) is not None:
                self.leaves.setdefault(last.ip, []).append(alternative.end)

    def _last(self, alternative: Alternative) -> Instruction | None:
        """The last instruction of a replacement."""
        last, address = None, alternative.other
        while address < alternative.other_end and address in self.insns:
            last = self.insns[address]
            address = last.next_ip
        return last

    def owner(self, address: int) -> Function:
        """The function that an instruction is part of; of a replacement, where it is put."""
        function = self.functions[address]
        if function.section == ".altinstr_replacement":
            for alternative in self.ways.alternatives:
                if alternative.other <= address < alternative.other_end:
                    return self.functions.get(alternative.start, function)
        return function

    def _before(self, address: int, depth: int = 0) -> list[Instruction]:
        """The instructions from which control may get to this one.

        Raises _Unknown if not all are known.
        """
        if address not in self.insns or address in self.ways.entries or depth > 8:
            raise _Unknown
        if replaced := self.replaces.get(address):
            starts = [alternative.start for alternative in replaced]
            return [one for start in starts for one in self._before(start, depth + 1)]
        found: list[Instruction] = []
        function = self.functions[address]
        previous = self.previous.get(address)
        if previous is not None:
            if x86_insn.warns(previous):
                raise _Unknown
            if not x86_insn.ends(previous) or previous.ip in self.ways.labels:
                found.append(previous)
        elif not function.name.endswith(".cold") and function.section not in _ANNEXES:
            raise _Unknown
        for alternative in self.behind.get(address, ()):
            last = self._last(alternative)
            if alternative.other == alternative.other_end:
                found += self._before(alternative.start, depth + 1)
            elif last is None:
                raise _Unknown
            elif not x86_insn.ends(last):
                found.append(last)
        for source in self.ways.jumps.get(address, ()):
            if not self._within(source, function):
                raise _Unknown
            found.append(self.insns[source])
        if not found:
            raise _Unknown
        return found

    def _within(self, address: int, function: Function) -> bool:
        """True if an instruction is of a function, or of a part of it, as far as one can tell."""
        there = self.functions.get(address)
        return there is not None and (
            there.name.removesuffix(".cold") == function.name.removesuffix(".cold")
            or there.section in _ANNEXES
            or function.section in _ANNEXES
        )

    def _goes_on(self, address: int, function: Function) -> bool:
        """True if a path of a function goes on at an instruction, perhaps in a part of others too.

        GCC 14 splits ends off that are the same in some functions, which jump there.
        """
        there = self.functions.get(address)
        return self._within(address, function) or (there is not None and ".part." in there.name)

    def _origins(self, address: int, register: int, steps: _Steps) -> Iterator[_Wanted]:
        """What makes the value that is wanted before an instruction, on all ways that lead there.

        No register is a value that nothing is known of.
        """
        try:
            before = self._before(address)
        except _Unknown:
            yield address, None, steps
            return
        for insn in before:
            if x86_insn.keeps(insn, register, self.ways.errors.get(insn.ip)):
                yield insn.ip, register, steps
            else:
                for source, done in x86_insn.sources(insn, register) or [(None, ())]:
                    yield insn.ip, source, done + steps

    def values(self, address: int, register: int) -> frozenset[int] | None:
        """All 32-bit constants `register` may hold before an instruction, None if unknown.

        All ways to the instruction are followed back, each to a constant; if that fails on one of
        them nothing is known.
        """
        found: set[int] = set()
        todo: list[_Wanted] = [(address, x86_insn.whole(register), ())]
        seen = set(todo)
        while todo:
            here, wanted, steps = todo.pop()
            if wanted is None:
                masked = x86_insn.masked(steps)
                if masked is None:
                    return None
                found |= masked
                continue
            new = {one for one in self._origins(here, wanted, steps) if one not in seen}
            seen |= new
            todo += new
            if len(seen) > _MOST_STATES:
                return None
        # Nothing at all: no way begins anywhere, so that one that is not understood must exist.
        return frozenset(found) or None

    def constant(self, address: int, register: int) -> int | None:
        """The 32-bit constant in `register` before an instruction, None if it is not one."""
        values = self.values(address, register)
        return next(iter(values)) if values is not None and len(values) == 1 else None

    def compared(self, address: int, register: int, number: int) -> bool:
        """True if control gets to an instruction only where `register` was compared with `number`.

        Directly before, and was something else. What is in between could change the register.
        """
        goals = {address, *(one.start for one in self.replaces.get(address, ()))}
        try:
            before = self._before(address)
        except _Unknown:
            return False
        return all(self._differs(one, goals, register, number) for one in before)

    def _differs(self, jump: Instruction, goals: set[int], register: int, number: int) -> bool:
        """True if this is a jump to or past `goals` after a comparison that finds a difference."""
        compare = self.previous.get(jump.ip)
        if compare is None or jump.ip in self.ways.jumps or jump.ip in self.ways.entries:
            return False
        jumps_there = x86_insn.target(jump) in goals
        falls_there = any(one in goals for one in self._after(jump))
        return (
            (jump.mnemonic, jumps_there, falls_there)
            in ((Mnemonic.JE, False, True), (Mnemonic.JNE, True, False))
            and compare.mnemonic == Mnemonic.CMP
            and x86_insn.register(compare, 0) == register
            and x86_insn.immediate(compare, 1) == number
        )

    def way_out(self, address: int, goals: set[int]) -> int | None:
        """Where control may leave after an instruction without passing one of `goals`.

        The address of the instruction that leaves (a return, a jump elsewhere or by pointer), None
        if there is none. Paths stay in the function, its `.cold` part and parts that functions
        share included. Of conditions only this is understood: that a register is not what it is
        compared with, as a constant was put in it on the path. Otherwise, if two branches always go
        the same way, a path that mixes them counts too.
        """
        home = self.owner(address)

        def ahead(here: int, known: Known) -> list[tuple[int, Known]] | None:
            found = [
                (one.end if one.other == one.other_end else one.other, known)
                for one in self.over.get(here, ())
            ]
            if any(other not in self.insns for other, _ in found):
                return None
            if here in goals:
                return found
            insn = self.insns[here]
            known = x86_insn.behind(insn, known, self.ways.errors.get(here))
            targets = [self.ways.labels[here]] if here in self.ways.labels else []
            if x86_insn.jumps(insn) and not (insn.mnemonic == Mnemonic.JE and known.differs):
                if (there := x86_insn.target(insn)) is None:
                    return None
                targets.append(there)
            if x86_insn.returns(insn) or not all(self._goes_on(one, home) for one in targets):
                return None
            # A jump label's jump may be a no-operation, and a warning goes on behind it.
            ends = x86_insn.ends(insn) and insn.flow_control != FlowControl.EXCEPTION
            ends = ends or (insn.mnemonic == Mnemonic.JNE and known.differs)
            if not ends or here in self.ways.labels:
                targets += self._after(insn)
            return found + [(target, known) for target in targets]

        return walk.way_out(self._after(self.insns[address]), ahead)

    def _after(self, insn: Instruction) -> list[int]:
        """Where the next instruction is, if there is one."""
        if behind := self.leaves.get(insn.ip):
            return [end for end in behind if end in self.insns]
        following = self.functions.get(insn.next_ip)
        return [insn.next_ip] if following is self.functions[insn.ip] else []


def _mended(elf: Elf, code: _Code) -> frozenset[int]:
    """Add to the ways of `code` how an access to an MSR that does not exist goes on.

    Returns the places in the exception table that said so.
    """
    found: set[int] = set()
    for section in elf.sections:
        if section.name != "__ex_table":
            continue
        for place, (fault, fixup, data) in section.records(_FAULT):
            address, kind = place + fault, data & 0xFF
            insn = code.insns.get(address)
            if insn is not None and insn.mnemonic == _MSR_FAULTS.get(kind) and not data & ~0xFFF:
                code.ways.jumps.setdefault(place + 4 + fixup, set()).add(address)
                if kind in _SAFE_TYPES:
                    code.ways.errors[address] = Register.RAX + (data >> 8)
                found.add(place + 4)
    return frozenset(found)


def _code(elf: Elf, mnemonics: Collection[int]) -> _Code:
    """The functions of an image that have one of these instructions, and all ways into them."""
    kept: list[Function] = []
    others: list[Function] = []
    ways = _Ways(alternatives=code_tables.alternatives(elf), labels=code_tables.labels(elf))
    for function in functions(elf):
        wanted = function.section in _ANNEXES
        for insn in _decoded(function):
            name = insn.mnemonic
            wanted = wanted or name in mnemonics
            if (there := x86_insn.target(insn)) is not None:
                if insn.flow_control == FlowControl.CALL:
                    ways.entries.add(there)
                else:
                    ways.jumps.setdefault(there, set()).add(insn.ip)
            elif name in _TAKES:
                # An address in a register, perhaps that of an instruction, to be jumped to.
                if insn.is_ip_rel_memory_operand:
                    ways.entries.add(insn.ip_rel_memory_address)
                last = insn.op_count - 1
                if x86_insn.is_immediate(insn.op_kind(last)):
                    ways.entries.add(insn.immediate(last))
        (kept if wanted else others).append(function)
    for address, there in ways.labels.items():
        ways.jumps.setdefault(there, set()).add(address)
    # The other half of a function split in hot and cold matters for the paths through it, and the
    # function whose instructions others replace.
    halves = {function.name.removesuffix(".cold") for function in kept}
    kept += [function for function in others if function.name.removesuffix(".cold") in halves]
    code = _Code(kept, ways)
    ways.entries |= code_tables.references(elf, set(code.insns), _mended(elf, code))
    return code


def _site(
    code: _Code, insn: Instruction, writer: Writer, levels: Mapping[int, str]
) -> tuple[Site, bool]:
    """This writer, and whether it is one of another register; `levels` by value."""
    selectors, value, excluded = None, None, False
    # WRMSRNS has a form with explicit operands. Nothing needs that to be understood.
    if writer.equals is None or not insn.op_count:
        if writer.selector:
            selector = getattr(Register, writer.selector.upper())
            selectors = code.values(insn.ip, selector)
            # Unknown, but not this one.
            excluded = writer.equals is not None and code.compared(insn.ip, selector, writer.equals)
        if writer.value:
            value = code.constant(insn.ip, getattr(Register, writer.value.upper()))
    if not writer.certain(selectors) and value not in levels:
        # Of some other register, most likely, and nothing that a level has to do with.
        value = None
    site = Site(
        address=insn.ip,
        function=code.owner(insn.ip).name,
        section=code.functions[insn.ip].section,
        instruction=f"{insn:g}",
        value=value,
        level=None if value is None else levels.get(value),
        # A mask selects the pkey register among others; a number selects one.
        certain=writer.equals is None or writer.certain(selectors),
    )
    return site, excluded or not writer.selected(selectors)


def sites(elf: Elf, policy: Policy) -> tuple[list[Site], list[Site]]:
    """What can write the pkey register, and instructions of the same kinds that write another."""
    writers: dict[int, Writer] = {
        getattr(Mnemonic, name.upper()): writer
        for writer in policy.isa.writers
        for name in writer.mnemonics
    }
    levels = {value: name for name, value in policy.levels.items()}
    code = _code(elf, writers)
    found: list[Site] = []
    cleared: list[Site] = []
    for insn in code.insns.values():
        if writer := writers.get(insn.mnemonic):
            site, other = _site(code, insn, writer, levels)
            (cleared if other else found).append(site)
    lowered = {site.address for site in found if site.certain and site.level == DEFAULT_LEVEL}
    for at, site in enumerate(found):
        if site.level not in (None, DEFAULT_LEVEL):
            found[at] = replace(site, left=code.way_out(site.address, lowered))
    return found, cleared
