# SPDX-License-Identifier: GPL-2.0-only
"""Tables in a kernel image that say how control gets about, and addresses that its data hold."""

from __future__ import annotations

import re
import struct
from collections.abc import Container
from dataclasses import dataclass

from redoubt.image.elf import SHT_NOBITS, Elf, Section

# Sections that say something about instructions, and are not where anybody takes an address to go.
# What `.altinstructions` says is understood.
_DESCRIPTIONS = (".orc_unwind_ip", ".orc_unwind", "__bug_table", ".altinstructions")
# Sections of all kinds of data; and how many words away from an offset another one is, there.
_MIXED = (".rodata", ".data", ".init.data")
_NEAR = 4
# Two words, of which the second looks like an offset, and is the end of a text.
_TEXT = re.compile(rb"[ -~]{5,7}\0+")
_ALTERNATIVE = struct.Struct("<iiIBB")
_ARM64_ALTERNATIVE = struct.Struct("<iiHBB")
_LABEL = struct.Struct("<iiq")
_POINTER = struct.Struct("<Q")
_OFFSET = struct.Struct("<i")


@dataclass(frozen=True)
class Alternative:
    """Instructions from `start` to `end` that may be overwritten by those of another place."""

    start: int
    end: int
    other: int
    other_end: int


def alternatives(elf: Elf) -> list[Alternative]:
    """The table of instructions that are replaced at boot, by what the CPU can do."""
    found: list[Alternative] = []
    for section in elf.sections:
        if section.name == ".altinstructions":
            # Two offsets relative to themselves, 32 bits of conditions, the two lengths.
            for place, (original, other, _, length, other_length) in section.records(_ALTERNATIVE):
                start, there = place + original, place + 4 + other
                found.append(Alternative(start, start + length, there, there + other_length))
    return found


def arm64_alternatives(elf: Elf) -> tuple[set[int], list[Alternative]]:
    """The instructions of an arm64 image that boot may make NOPs, and those that it may replace.

    What a function would put there is not known: nothing, then.
    """
    none = {one.value for one in elf.symbols if one.name == "alt_cb_patch_nops"}
    nops: set[int] = set()
    others: list[Alternative] = []
    for section in elf.sections:
        if section.name == ".altinstructions":
            for place, (original, by, _, length, by_length) in section.records(_ARM64_ALTERNATIVE):
                start, other = place + original, place + 4 + by
                if other in none:
                    nops.update(range(start, start + length, 4))
                else:
                    others.append(Alternative(start, start + length, other, other + by_length))
    return nops, others


def _label_table(elf: Elf) -> tuple[int, int]:
    """Where the table of jump labels begins and ends; nowhere if there is none."""
    bounds = {
        symbol.name: symbol.value
        for symbol in elf.symbols
        if symbol.name in ("__start___jump_table", "__stop___jump_table")
    }
    return bounds.get("__start___jump_table", 0), bounds.get("__stop___jump_table", 0)


def labels(elf: Elf) -> dict[int, int]:
    """The jump labels, by address: where they go if they do not go on behind themselves."""
    found: dict[int, int] = {}
    start, stop = _label_table(elf)
    for section in elf.sections:
        if section.address <= start < stop <= section.address + len(section.data):
            for place in range(start, stop - _LABEL.size + 1, _LABEL.size):
                code, target, _ = _LABEL.unpack_from(section.data, place - section.address)
                found[place + code] = place + 4 + target
    return found


def references(elf: Elf, wanted: set[int], known: Container[int]) -> set[int]:
    """The addresses of `wanted` that a data section holds, as a pointer or relative to itself.

    Except for the offsets at the places `known`, of which more is known.
    """
    found: set[int] = set()
    labels = range(*_label_table(elf))
    for section in elf.sections:
        if not section.alloc or section.code or section.type == SHT_NOBITS:
            continue
        if section.name not in _DESCRIPTIONS:
            found |= _pointers(section, wanted)
            found |= _offsets(elf, section, wanted, (labels, known))
    return found


def _pointers(section: Section, wanted: set[int]) -> set[int]:
    """The addresses of `wanted` that this section holds as a pointer."""
    return {pointer for _, (pointer,) in section.records(_POINTER) if pointer in wanted}


def _offsets(
    elf: Elf, section: Section, wanted: set[int], known: tuple[Container[int], Container[int]]
) -> set[int]:
    """The addresses of `wanted` that this section holds relative to the place, if not `known`."""
    found: set[int] = set()
    code = [range(one.address, one.address + one.size) for one in elf.sections if one.code]
    targets = [place + offset for place, (offset,) in section.records(_OFFSET)]

    for number, target in enumerate(targets):
        place = section.address + 4 * number
        if target not in wanted or any(place in part for part in known):
            continue
        # Of an exception table's entries: where to go on, not where it may happen.
        if section.name == "__ex_table" and number % 3 == 0:
            continue
        # Where all kinds of data are, some of them look like an offset. Those that are stand in
        # tables, near others.
        near = [
            *targets[max(number - _NEAR, 0) : number],
            *targets[number + 1 : number + 1 + _NEAR],
        ]
        if section.name in _MIXED:
            if not any(one in part for one in near for part in code):
                continue
            if _TEXT.fullmatch(section.data[4 * max(number - 1, 0) : 4 * number + 4]):
                continue
        found.add(target)
    return found
