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
import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from redoubt.image import code_tables
from redoubt.image.audit import x86_insn
from redoubt.image.audit.policy import DEFAULT_LEVEL, Policy, Writer
from redoubt.image.audit.site import Site
from redoubt.image.audit.walk import NOTHING, Visited
from redoubt.image.disassembly import LINE, Function, disassemble, functions
from redoubt.image.elf import Elf

_BRANCH_LINE = re.compile(
    r"^\s*([0-9a-f]+):\t(?:\w+ )*?(call|j[a-z]+|loop[a-z]*)\s+([0-9a-f]+) <", re.MULTILINE
)
# An address in a register, by whatever name: perhaps that of an instruction, to be jumped to.
_TAKEN_LINE = re.compile(
    r"\t(?:lea|mov|movabs|push)[lq]?\s+(?:\$0x([0-9a-f]+)|\S+\(%rip\),\S+\s+# ([0-9a-f]+) <)"
)
# Code that belongs to the functions that jump there, or to those it is copied over.
_ANNEXES = (".altinstr_aux", ".altinstr_replacement")
# States looked at in search of a value, beyond which it counts as unknown.
_MOST_STATES = 4000
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

# LKGS of a register. Older disassemblers do not know it, and what they make of the bytes behind it
# may swallow further instructions.
_LKGS = re.compile(rb"\xf2[\x40-\x4f]?\x0f\x00[\xf0-\xf7]")


def _mend(elf: Elf, objdump: str, function: Function) -> None:
    """Disassemble a function again behind the instructions that objdump does not know."""
    section = next((one for one in elf.sections if one.name == function.section), None)
    at = 0
    while section is not None and at < len(function.lines):
        line = function.lines[at]
        at += 1
        match = LINE.match(line)
        if match is None or "(bad)" not in line:
            continue
        address = int(match[1], 16)
        found = _LKGS.match(section.data, address - section.address)
        if not found:
            continue
        behind = address + len(found[0])
        end = function.end or section.address + section.size
        options = (f"--start-address={behind:#x}", f"--stop-address={end:#x}")
        again = [one for one in disassemble(objdump, elf.path, *options) if LINE.match(one)]
        function.lines[at - 1 :] = [f"{address:x}:\tlkgs\n", *again]


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
    errors: dict[int, str] = field(default_factory=dict)


# Number of a function (its start) and of an instruction in it.
_Place = tuple[int, int]


class _Code:
    """The functions of interest and what is known about how control enters them."""

    def __init__(self, functions: list[Function], ways: _Ways) -> None:
        self.insns: dict[int, list[x86_insn.Insn]] = {}
        self.functions = sorted(functions, key=lambda function: function.start)
        self.starts = [function.start for function in self.functions]
        self.by_start = {function.start: function for function in self.functions}
        self.places: dict[int, _Place] = {}
        for function in self.functions:
            parsed = (x86_insn.parse(line) for line in function.lines)
            insns = [insn for insn in parsed if insn is not None]
            self.insns[function.start] = insns
            for at, insn in enumerate(insns):
                self.places[insn.address] = (function.start, at)
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
                self.leaves.setdefault(self.insn(last).address, []).append(alternative.end)

    def insn(self, place: _Place) -> x86_insn.Insn:
        """The instruction at a place."""
        return self.insns[place[0]][place[1]]

    def _last(self, alternative: code_tables.Alternative) -> _Place | None:
        """The last instruction of a replacement."""
        first = self.places.get(alternative.other)
        if first is None:
            return None
        start, at = first
        insns = self.insns[start]
        while at + 1 < len(insns) and insns[at + 1].address < alternative.other_end:
            at += 1
        return start, at

    def owner(self, place: _Place) -> Function:
        """The function that an instruction is part of; of a replacement, where it is put."""
        function = self.by_start[place[0]]
        if function.section == ".altinstr_replacement":
            address = self.insn(place).address
            for alternative in self.ways.alternatives:
                if alternative.other <= address < alternative.other_end:
                    return self.function_at(alternative.start) or function
        return function

    def function_at(self, address: int) -> Function | None:
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
        address = self.insn(place).address
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
            if not x86_insn.ENDS.match(previous.mnemonic) or previous.address in self.ways.labels:
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
            elif not x86_insn.ENDS.match(self.insn(last).mnemonic):
                found.append(last)
        for source in self.ways.jumps.get(address, ()):
            origin = self.places.get(source)
            if origin is None or not self._same(self.by_start[origin[0]], function):
                return None
            found.append(origin)
        # What nothing leads to is reached in a way that is not understood.
        return found or None

    @staticmethod
    def _same(one: Function, other: Function) -> bool:
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
        seen: set[tuple[_Place, x86_insn.Family, tuple[x86_insn.Step, ...]]] = set()
        todo: list[tuple[_Place, x86_insn.Family, tuple[x86_insn.Step, ...]]] = []

        def reach(there: _Place, family: x86_insn.Family, steps: tuple[x86_insn.Step, ...]) -> bool:
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

        if not reach(place, x86_insn.FAMILY[register], ()):
            return None
        while todo:
            here, family, steps = todo.pop()
            insn = self.insn(here)
            changed = self.ways.errors.get(insn.address)
            if x86_insn.keeps(insn, family, changed):
                if not reach(here, family, steps):
                    return None
                continue
            for source, done in x86_insn.sources(insn, family) or [("", ())]:
                now = done + steps
                if isinstance(source, int):
                    found.add(x86_insn.take(source, now))
                elif source:
                    if not reach(here, x86_insn.FAMILY[source], now):
                        return None
                else:
                    masked = x86_insn.masked(now)
                    if masked is None:
                        return None
                    found |= masked
        # Nothing at all: no way begins anywhere, so that one that is not understood must exist.
        return frozenset(found) or None

    def constant(self, place: _Place, register: str) -> int | None:
        """The 32-bit constant in `register` before an instruction, None if it is not one."""
        values = self.values(place, register)
        return next(iter(values)) if values is not None and len(values) == 1 else None

    def compared(self, place: _Place, register: str, number: int) -> bool:
        """True if control gets to an instruction only where `register` was compared with `number`.

        Directly before, and was something else. What is in between could change the register.
        """
        address = self.insn(place).address
        goals = {address, *(one.start for one in self.replaces.get(address, ()))}
        before = self._before(place)
        return bool(before) and all(
            self._differs(one, goals, register, number) for one in before or ()
        )

    def _differs(self, jump: _Place, goals: set[int], register: str, number: int) -> bool:
        """True if this is a jump to or past `goals` after a comparison that finds a difference."""
        start, at = jump
        insn = self.insn(jump)
        if at == 0 or insn.address in self.ways.jumps or insn.address in self.ways.entries:
            return False
        jumps_there = insn.target in goals
        falls_there = any(self.insn(one).address in goals for one in self._after(jump))
        if (insn.mnemonic, jumps_there, falls_there) not in (
            ("je", False, True),
            ("jne", True, False),
        ):
            return False
        compare = self.insns[start][at - 1]
        return (
            compare.mnemonic in ("cmp", "cmpl")
            and compare.operands[-1] == f"%{register}"
            and (match := x86_insn.IMMEDIATE.match(compare.operands[0])) is not None
            and int(match[1], 16) & x86_insn.WORD == number
        )

    def way_out(self, place: _Place, goals: set[int]) -> int | None:
        """Where control may leave after an instruction without passing one of `goals`.

        The address of the instruction that leaves (a return, a jump elsewhere or by pointer), None
        if there is none. Paths stay in the function, its `.cold` part included. Of conditions only
        this is understood: that a register is not what it is compared with, as a constant was put
        in it on the path. Otherwise, if two branches always go the same way, a path that mixes them
        counts too.
        """
        visited: Visited[x86_insn.Family] = Visited()
        home = self.owner(place)
        todo = [(after, NOTHING) for after in self._after(place)]
        while todo:
            here, before = todo.pop()
            insn = self.insn(here)
            known = visited.enter(insn.address, before)
            if known is None:
                continue
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
            known = x86_insn.behind(insn, known, self.ways.errors.get(insn.address))
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
            if x86_insn.RETURNS.match(insn.mnemonic):
                return insn.address
            # A jump label's jump may be a no-operation, and a warning goes on behind it.
            ends = x86_insn.ENDS.match(insn.mnemonic) and not insn.mnemonic.startswith("ud")
            ends = ends or (insn.mnemonic == "jne" and known.differs)
            if not ends or insn.address in self.ways.labels:
                todo += [(after, known) for after in self._after(here)]
        return None

    def _after(self, place: _Place) -> list[_Place]:
        """The next instruction, if there is one."""
        start, at = place
        behind = self.leaves.get(self.insn(place).address)
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
                    code.ways.errors[address] = _NUMBERED[data >> 8]
                found.add(place + 4)
    return frozenset(found)


def _code(elf: Elf, objdump: str, mnemonics: Collection[str]) -> _Code:
    """The functions of an image that have one of these instructions, and all ways into them."""
    hint = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(mnemonics))) + r")\b")
    kept: list[Function] = []
    others: list[Function] = []
    ways = _Ways(alternatives=code_tables.alternatives(elf), labels=code_tables.labels(elf))
    for function in functions(disassemble(objdump, elf.path)):
        if any("(bad)" in line for line in function.lines):
            _mend(elf, objdump, function)
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
            others.append(function)
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
    if not writer.certain(selectors) and value not in levels:
        # Of some other register, most likely, and nothing that a level has to do with.
        value = None
    site = Site(
        address=insn.address,
        function=code.owner(place).name,
        section=code.by_start[place[0]].section,
        instruction=insn.text,
        value=value,
        level=None if value is None else levels.get(value),
        # A mask selects the pkey register among others; a number selects one.
        certain=writer.equals is None or writer.certain(selectors),
    )
    return site, excluded or not writer.selected(selectors)


def sites(elf: Elf, policy: Policy) -> tuple[list[Site], list[Site]]:
    """What can write the pkey register, and instructions of the same kinds that write another."""
    writers = {name: writer for writer in policy.isa.writers for name in writer.mnemonics}
    levels = {value: name for name, value in policy.levels.items()}
    code = _code(elf, policy.isa.objdump, writers)
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
