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

import bisect
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from iced_x86 import Decoder, FlowControl, Instruction, Mnemonic, Register

from redoubt.image import code_tables
from redoubt.image.audit import x86_insn
from redoubt.image.audit.policy import DEFAULT_LEVEL, Policy, Writer
from redoubt.image.audit.site import Site
from redoubt.image.audit.walk import NOTHING, Visited
from redoubt.image.audit.x86_insn import Step
from redoubt.image.elf import STT_FILE, STT_FUNC, STT_SECTION, Elf

# Code that belongs to the functions that jump there, or to those it is copied over.
_ANNEXES = (".altinstr_aux", ".altinstr_replacement")
# States looked at in search of a value, beyond which it counts as unknown.
_MOST_STATES = 4000
_FAULT = struct.Struct("<iii")
# EX_TYPE_WRMSR, EX_TYPE_RDMSR and the like that put an error code in a register.
_MSR_FAULTS = {8: Mnemonic.WRMSR, 9: Mnemonic.RDMSR, 10: Mnemonic.WRMSR, 11: Mnemonic.RDMSR}
_SAFE_TYPES = (10, 11)
_TAKES = (Mnemonic.LEA, Mnemonic.MOV, Mnemonic.PUSH)


@dataclass(frozen=True)
class _Function:
    """A function, or the code between two symbols, and the bytes of it."""

    name: str
    section: str
    start: int
    code: bytes

    def insns(self) -> list[Instruction]:
        """Its instructions."""
        return list(Decoder(64, self.code, ip=self.start))


def _functions(elf: Elf) -> Iterator[_Function]:
    """All code of an image, cut at its symbols. Of several names a function's counts."""
    names: dict[int, dict[int, str]] = {}
    for symbol in sorted(elf.symbols, key=lambda one: one.type == STT_FUNC):
        if symbol.type not in (STT_FILE, STT_SECTION) and symbol.name:
            names.setdefault(symbol.section, {})[symbol.value] = symbol.name
    for section in elf.sections:
        if not (section.alloc and section.executable):
            continue
        end = section.address + len(section.data)
        cuts = {section.address: section.name} | names.get(section.index, {})
        starts = sorted(start for start in cuts if section.address <= start < end)
        for start, behind in zip(starts, [*starts[1:], end], strict=True):
            data = section.data[start - section.address : behind - section.address]
            yield _Function(cuts[start], section.name, start, data)


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
    alternatives: list[code_tables.Alternative] = field(default_factory=list)
    labels: dict[int, int] = field(default_factory=dict)
    errors: dict[int, int] = field(default_factory=dict)


# Number of a function (its start) and of an instruction in it.
_Place = tuple[int, int]


class _Code:
    """The functions of interest and what is known about how control enters them."""

    def __init__(self, functions: list[_Function], ways: _Ways) -> None:
        self.insns: dict[int, list[Instruction]] = {}
        self.functions = sorted(functions, key=lambda function: function.start)
        self.starts = [function.start for function in self.functions]
        self.by_start = {function.start: function for function in self.functions}
        self.places: dict[int, _Place] = {}
        for function in self.functions:
            self.insns[function.start] = function.insns()
            for at, insn in enumerate(self.insns[function.start]):
                self.places[insn.ip] = (function.start, at)
        self.ways = ways
        self.over: dict[int, list[code_tables.Alternative]] = {}
        self.behind: dict[int, list[code_tables.Alternative]] = {}
        self.replaces: dict[int, list[code_tables.Alternative]] = {}
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
                self.leaves.setdefault(self.insn(last).ip, []).append(alternative.end)

    def insn(self, place: _Place) -> Instruction:
        """The instruction at a place."""
        return self.insns[place[0]][place[1]]

    def _last(self, alternative: code_tables.Alternative) -> _Place | None:
        """The last instruction of a replacement."""
        first = self.places.get(alternative.other)
        if first is None:
            return None
        start, at = first
        insns = self.insns[start]
        while at + 1 < len(insns) and insns[at + 1].ip < alternative.other_end:
            at += 1
        return start, at

    def owner(self, place: _Place) -> _Function:
        """The function that an instruction is part of; of a replacement, where it is put."""
        function = self.by_start[place[0]]
        if function.section == ".altinstr_replacement":
            address = self.insn(place).ip
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
        return self.functions[at] if insns and address <= insns[-1].ip else None

    def _before(self, place: _Place, depth: int = 0) -> list[_Place] | None:
        """The instructions from which control may get to this one, None if not all are known."""
        start, at = place
        function = self.by_start[start]
        address = self.insn(place).ip
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
            if x86_insn.warns(previous):
                return None
            if not x86_insn.ends(previous) or previous.ip in self.ways.labels:
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
            elif not x86_insn.ends(self.insn(last)):
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

    def values(self, place: _Place, register: int) -> frozenset[int] | None:
        """All 32-bit constants `register` may hold before an instruction, None if unknown.

        All ways to the instruction are followed back, each to a constant; if that fails on one of
        them nothing is known.
        """
        found: set[int] = set()
        seen: set[tuple[_Place, int, tuple[Step, ...]]] = set()
        todo: list[tuple[_Place, int, tuple[Step, ...]]] = []

        def reach(there: _Place, family: int, steps: tuple[Step, ...]) -> bool:
            """Go on with what is before this instruction; False if that is unknown."""
            before = self._before(there)
            if before is None:
                masked = x86_insn.masked(steps)
                found.update(masked or ())
                return masked is not None
            for one in before:
                if (one, family, steps) not in seen:
                    seen.add((one, family, steps))
                    todo.append((one, family, steps))
            return len(seen) <= _MOST_STATES

        if not reach(place, x86_insn.whole(register), ()):
            return None
        while todo:
            here, family, steps = todo.pop()
            insn = self.insn(here)
            changed = self.ways.errors.get(insn.ip)
            if x86_insn.keeps(insn, family, changed):
                if not reach(here, family, steps):
                    return None
                continue
            for source, done in x86_insn.sources(insn, family) or [(None, ())]:
                if source is not None:
                    if not reach(here, source, done + steps):
                        return None
                elif (masked := x86_insn.masked(done + steps)) is not None:
                    found |= masked
                else:
                    return None
        # Nothing at all: no way begins anywhere, so that one that is not understood must exist.
        return frozenset(found) or None

    def constant(self, place: _Place, register: int) -> int | None:
        """The 32-bit constant in `register` before an instruction, None if it is not one."""
        values = self.values(place, register)
        return next(iter(values)) if values is not None and len(values) == 1 else None

    def compared(self, place: _Place, register: int, number: int) -> bool:
        """True if control gets to an instruction only where `register` was compared with `number`.

        Directly before, and was something else. What is in between could change the register.
        """
        address = self.insn(place).ip
        goals = {address, *(one.start for one in self.replaces.get(address, ()))}
        before = self._before(place)
        return bool(before) and all(
            self._differs(one, goals, register, number) for one in before or ()
        )

    def _differs(self, jump: _Place, goals: set[int], register: int, number: int) -> bool:
        """True if this is a jump to or past `goals` after a comparison that finds a difference."""
        start, at = jump
        insn = self.insn(jump)
        if at == 0 or insn.ip in self.ways.jumps or insn.ip in self.ways.entries:
            return False
        jumps_there = x86_insn.target(insn) in goals
        falls_there = any(self.insn(one).ip in goals for one in self._after(jump))
        if (insn.mnemonic, jumps_there, falls_there) not in (
            (Mnemonic.JE, False, True),
            (Mnemonic.JNE, True, False),
        ):
            return False
        compare = self.insns[start][at - 1]
        return (
            compare.mnemonic == Mnemonic.CMP
            and x86_insn.register(compare, 0) == register
            and x86_insn.immediate(compare, 1) == number
        )

    def way_out(self, place: _Place, goals: set[int]) -> int | None:
        """Where control may leave after an instruction without passing one of `goals`.

        The address of the instruction that leaves (a return, a jump elsewhere or by pointer), None
        if there is none. Paths stay in the function, its `.cold` part included. Of conditions only
        this is understood: that a register is not what it is compared with, as a constant was put
        in it on the path. Otherwise, if two branches always go the same way, a path that mixes them
        counts too.
        """
        visited = Visited()
        home = self.owner(place)
        todo = [(after, NOTHING) for after in self._after(place)]
        while todo:
            here, before = todo.pop()
            insn = self.insn(here)
            known = visited.enter(insn.ip, before)
            if known is None:
                continue
            for alternative in self.over.get(insn.ip, ()):
                other = self.places.get(
                    alternative.other
                    if alternative.other < alternative.other_end
                    else alternative.end
                )
                if other is None:
                    return insn.ip
                todo.append((other, known))
            if insn.ip in goals:
                continue
            known = x86_insn.behind(insn, known, self.ways.errors.get(insn.ip))
            targets = []
            if x86_insn.jumps(insn) and not (insn.mnemonic == Mnemonic.JE and known.differs):
                targets.append(x86_insn.target(insn))
            if insn.ip in self.ways.labels:
                targets.append(self.ways.labels[insn.ip])
            for target in targets:
                there = None if target is None else self.places.get(target)
                if there is None or not self._same(self.by_start[there[0]], home):
                    return insn.ip
                todo.append((there, known))
            if x86_insn.returns(insn):
                return insn.ip
            # A jump label's jump may be a no-operation, and a warning goes on behind it.
            ends = x86_insn.ends(insn) and insn.flow_control != FlowControl.EXCEPTION
            ends = ends or (insn.mnemonic == Mnemonic.JNE and known.differs)
            if not ends or insn.ip in self.ways.labels:
                todo += [(after, known) for after in self._after(here)]
        return None

    def _after(self, place: _Place) -> list[_Place]:
        """The next instruction, if there is one."""
        start, at = place
        behind = self.leaves.get(self.insn(place).ip)
        if behind is not None:
            return [self.places[end] for end in behind if end in self.places]
        return [(start, at + 1)] if at + 1 < len(self.insns[start]) else []


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
            known = there is not None and code.insn(there).mnemonic == _MSR_FAULTS.get(kind)
            if known and not data & ~0xFFF:
                code.ways.jumps.setdefault(place + 4 + fixup, set()).add(address)
                if kind in _SAFE_TYPES:
                    code.ways.errors[address] = Register.RAX + (data >> 8)
                found.add(place + 4)
    return frozenset(found)


def _code(elf: Elf, mnemonics: Collection[int]) -> _Code:
    """The functions of an image that have one of these instructions, and all ways into them."""
    kept: list[_Function] = []
    others: list[_Function] = []
    ways = _Ways(alternatives=code_tables.alternatives(elf), labels=code_tables.labels(elf))
    for function in _functions(elf):
        wanted = function.section in _ANNEXES
        for insn in function.insns():
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
    ways.entries |= code_tables.references(elf, set(code.places), _mended(elf, code))
    return code


def _site(
    code: _Code, place: _Place, writer: Writer, levels: Mapping[int, str]
) -> tuple[Site, bool]:
    """The writer at this place, and whether it is one of another register; `levels` by value."""
    insn = code.insn(place)
    selectors, value, excluded = None, None, False
    # WRMSRNS has a form with explicit operands. Nothing needs that to be understood.
    if writer.equals is None or not insn.op_count:
        if writer.selector:
            selector = getattr(Register, writer.selector.upper())
            selectors = code.values(place, selector)
            # Unknown, but not this one.
            excluded = writer.equals is not None and code.compared(place, selector, writer.equals)
        if writer.value:
            value = code.constant(place, getattr(Register, writer.value.upper()))
    if not writer.certain(selectors) and value not in levels:
        # Of some other register, most likely, and nothing that a level has to do with.
        value = None
    site = Site(
        address=insn.ip,
        function=code.owner(place).name,
        section=code.by_start[place[0]].section,
        instruction=x86_insn.text(insn),
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
    for place in code.places.values():
        writer = writers.get(code.insn(place).mnemonic)
        if writer is not None:
            site, other = _site(code, place, writer, levels)
            (cleared if other else found).append(site)
    lowered = {site.address for site in found if site.certain and site.level == DEFAULT_LEVEL}
    for at, site in enumerate(found):
        if site.level not in (None, DEFAULT_LEVEL):
            found[at] = replace(site, left=code.way_out(code.places[site.address], lowered))
    return found, cleared
