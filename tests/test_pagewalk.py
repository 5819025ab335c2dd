# SPDX-License-Identifier: GPL-2.0-only
"""Page tables built by hand, of 4 and 5 levels, sound and not: what is said that they reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from redoubt.core.errors import RedoubtError
from redoubt.trial.oracle import pagewalk
from redoubt.trial.oracle.pagewalk import Memory, Walk

PRESENT, WRITABLE, USER, LARGE, GLOBAL, PAT = 1, 2, 4, 1 << 7, 1 << 8, 1 << 12
NX, KEY = 1 << 63, 5 << 59
RW = PRESENT | WRITABLE
PAGES = 2048
# Addresses of the upper half, with 4 and with 5 levels.
DIRECT = {4: 0xFFFF_8880_0000_0000, 5: 0xFF11_0000_0000_0000}
TEXT = 0xFFFF_FFFF_8100_0000


@dataclass
class Machine:
    """A memory of 8 MiB, and tables in it that are made as they are needed, from page 1 on."""

    levels: int
    memory: Memory = field(default_factory=lambda: np.zeros((PAGES, 512), dtype=np.uint64))
    used: int = 1

    def table(self, address: int, level: int, flags: int = RW) -> int:
        """The page frame of the table of a level that translates an address."""
        frame = 1
        for above in range(self.levels, level, -1):
            at = self.index(address, above)
            if not self.memory[frame, at]:
                self.used += 1
                self.memory[frame, at] = self.used << 12 | flags
            frame = int(self.memory[frame, at]) >> 12 & 0xF_FFFF_FFFF
        return frame

    def index(self, address: int, level: int) -> int:
        return address >> (12 + 9 * (level - 1)) & 511

    def put(self, address: int, entry: int, level: int = 1, flags: int = RW) -> int:
        """Write the entry of an address in a table of a level; returns the table's page frame."""
        frame = self.table(address, level, flags)
        self.memory[frame, self.index(address, level)] = entry
        return frame

    def walk(self) -> Walk:
        return pagewalk.walk(self.memory, 1 << 12, self.levels)


@pytest.fixture(params=[4, 5])
def machine(request: pytest.FixtureRequest) -> Machine:
    return Machine(request.param)


def reached(walk: Walk, *, kernel: bool) -> list[int]:
    return [int(at) for at in np.flatnonzero(walk.reached(walk.leaves.kernel == kernel))]


def test_a_page_of_each_half(machine: Machine) -> None:
    direct = DIRECT[machine.levels]
    machine.put(0x40_1000, 1000 << 12 | PRESENT | USER)
    machine.put(direct + 0x1234_5000, 1001 << 12 | RW | NX | KEY)
    walk = machine.walk()
    assert reached(walk, kernel=False) == [1000]
    assert reached(walk, kernel=True) == [1001]
    assert walk.addresses(1000, 9) == [0x40_1000]
    assert walk.addresses(1001, 9) == [direct + 0x1234_5000]
    assert walk.addresses(1002, 9) == []
    assert (walk.bad, walk.problems) == (0, [])
    assert walk.tables == 1 + 2 * (machine.levels - 1)
    assert [int(one) for one in walk.leaves.address] == [0x40_1000, direct + 0x1234_5000]
    assert list(walk.leaves.writable) == [False, True]


def test_the_ends_of_each_half(machine: Machine) -> None:
    half = 1 << (11 + 9 * machine.levels)
    for at, frame in (
        (0, 100),
        (half - 4096, 101),
        ((1 << 64) - half, 102),
        ((1 << 64) - 4096, 103),
    ):
        machine.put(at, frame << 12 | PRESENT)
    walk = machine.walk()
    assert reached(walk, kernel=False) == [100, 101]
    assert reached(walk, kernel=True) == [102, 103]
    assert walk.addresses(102, 9) == [(1 << 64) - half]
    assert walk.addresses(103, 9) == [(1 << 64) - 4096]


def test_what_is_not_present_is_not_reached(machine: Machine) -> None:
    machine.put(0x1000, 1000 << 12 | WRITABLE | USER)
    # All tables on the way are there, but one of them no more.
    machine.put(DIRECT[machine.levels], 1001 << 12 | RW, flags=WRITABLE)
    walk = machine.walk()
    assert not walk.reached(np.ones(len(walk.leaves.frame), dtype=bool)).any()


@pytest.mark.parametrize(("level", "pages"), [(2, 512), (3, 1 << 18)])
def test_large_pages(machine: Machine, level: int, pages: int) -> None:
    base = DIRECT[machine.levels]
    machine.put(base, RW | LARGE | GLOBAL | PAT | NX, level)
    walk = machine.walk()
    assert (walk.bad, walk.entries(walk.leaves.is_global)) == (0, 1)
    # One of 1 GiB is larger than this memory.
    assert reached(walk, kernel=True) == list(range(min(pages, PAGES)))
    assert list(walk.leaves.pages) == [pages]
    assert walk.outside() == int(pages > PAGES)
    assert walk.addresses(300, 9) == [base + 300 * 4096]


def test_bit_7_of_the_last_level_is_no_size(machine: Machine) -> None:
    machine.put(0x1000, 3 << 12 | RW | LARGE)
    walk = machine.walk()
    assert (reached(walk, kernel=False), walk.bad) == ([3], 0)


@pytest.mark.parametrize(("level", "entry"), [(2, 1 << 13), (3, 1 << 21), (3, 1 << 29)])
def test_a_large_page_at_a_wrong_address(machine: Machine, level: int, entry: int) -> None:
    machine.put(0, entry | RW | LARGE, level)
    walk = machine.walk()
    assert walk.bad == 1
    assert "no multiple of its size" in walk.problems[0]
    assert reached(walk, kernel=False) == []


def test_no_level_has_larger_pages(machine: Machine) -> None:
    for level in range(4, machine.levels + 1):
        machine.memory[:] = 0
        machine.used = 1
        machine.put(0, RW | LARGE, level)
        walk = machine.walk()
        assert walk.bad == 1
        assert f"level {level}" in walk.problems[0] and "is large" in walk.problems[0]
        assert reached(walk, kernel=False) == []


def test_a_mistake_that_is_hidden_well(machine: Machine) -> None:
    """One page among thousands that are mapped as they should be, by an entry no one looks for."""
    base, secret = DIRECT[machine.levels], 1500
    for frame in range(1024, PAGES):
        if frame != secret:
            machine.put(base + frame * 4096, frame << 12 | RW)
    assert secret not in reached(machine.walk(), kernel=True)
    # Where nobody expects memory: among the kernel's modules.
    where = 0xFFFF_FFFF_C012_3000
    machine.put(where, secret << 12 | RW | NX)
    walk = machine.walk()
    assert secret in reached(walk, kernel=True)
    assert walk.addresses(secret, 9) == [where]


def test_all_ways_to_a_page(machine: Machine) -> None:
    base = DIRECT[machine.levels]
    machine.put(base, RW | LARGE, 2)
    machine.put(TEXT, 70 << 12 | PRESENT)
    machine.put(0x7000, 70 << 12 | PRESENT | USER)
    walk = machine.walk()
    assert sorted(walk.addresses(70, 9)) == [0x7000, base + 70 * 4096, TEXT]
    assert len(walk.addresses(70, 2)) == 2
    both = walk.reached(walk.leaves.writable) & walk.reached(~walk.leaves.writable)
    assert list(np.flatnonzero(both)) == [70]


def test_a_table_above_that_forbids_writing(machine: Machine) -> None:
    machine.put(TEXT, 70 << 12 | RW, flags=PRESENT)
    assert list(machine.walk().leaves.writable) == [False]


def test_a_table_of_two_ways_that_differ(machine: Machine) -> None:
    base = DIRECT[machine.levels]
    last = machine.put(base, 70 << 12 | RW | GLOBAL)
    # The same table for the next 2 MiB, where nothing can be written; and for user mode.
    machine.put(base + (1 << 21), last << 12 | PRESENT, 2)
    machine.put(0, last << 12 | RW, 2)
    walk = machine.walk()
    assert sorted(walk.addresses(70, 9)) == [0, base, base + (1 << 21)]
    assert list(np.flatnonzero(walk.reached(walk.leaves.kernel & ~walk.leaves.writable))) == [70]
    assert list(np.flatnonzero(walk.reached(walk.leaves.kernel & walk.leaves.writable))) == [70]
    assert reached(walk, kernel=False) == [70]
    # One entry, and one table, whichever way.
    assert walk.entries(walk.leaves.is_global) == 1
    assert walk.tables == machine.used


def test_a_table_that_is_shared_a_million_times(machine: Machine) -> None:
    """As the shadow of what KASAN does not watch: no end of addresses for one page."""
    base = DIRECT[machine.levels]
    machine.put(base, 70 << 12 | PRESENT)
    for level in (1, 2, 3):
        above = machine.table(base, level + 1)
        machine.memory[above, :] = machine.memory[above, machine.index(base, level + 1)]
    machine.memory[machine.table(base, 1), :] = 70 << 12 | PRESENT
    walk = machine.walk()
    assert len(walk.leaves.frame) == 512 * (2 if machine.levels == 4 else 1)
    assert reached(walk, kernel=True) == [70]
    assert len(walk.addresses(70, 1000)) == 1000
    assert walk.bad == 0


def test_a_table_that_contains_itself(machine: Machine) -> None:
    machine.memory[1, 300] = 1 << 12 | RW
    walk = machine.walk()
    assert walk.bad == 1
    every = " and at level ".join(str(level) for level in range(machine.levels, 0, -1))
    assert walk.problems == [f"the table at 0x1000 is one at level {every}"]
    # What it maps in the end is the table.
    assert reached(walk, kernel=True) == [1]


def test_a_loop_of_several_tables(machine: Machine) -> None:
    machine.put(0, 70 << 12 | RW)
    last = machine.table(0, 1)
    machine.memory[last, 5] = 2 << 12 | RW
    machine.memory[machine.table(0, 2), 9] = 2 << 12 | RW
    walk = machine.walk()
    assert walk.bad == 1
    assert "the table at 0x2000 is one at level" in walk.problems[0]


def test_tables_that_are_not_in_memory(machine: Machine) -> None:
    machine.put(0x1000, 70 << 12 | RW)
    where = machine.put(1 << 21, PAGES << 12 | RW, 2)
    machine.memory[1, 400] = 0x000F_FFFF_FFFF_F000 | RW
    walk = machine.walk()
    assert walk.bad == 2
    assert "entry 400 of the table of level" in walk.problems[0]
    assert f"entry 1 of the table of level 2 at {where << 12:#x} leads to" in walk.problems[1]
    assert reached(walk, kernel=False) == [70]


def test_what_is_mapped_and_no_memory(machine: Machine) -> None:
    machine.put(DIRECT[machine.levels], 0xFEE0_0000 | RW)
    machine.put(0, PAGES << 12 | RW)
    walk = machine.walk()
    assert (walk.outside(), walk.bad) == (2, 0)
    assert not walk.reached(np.ones(2, dtype=bool)).any()


def test_no_end_of_mistakes_is_cut_short(machine: Machine) -> None:
    machine.memory[1, :] = 0x0001_0000_0000_0000 | RW
    walk = machine.walk()
    assert (walk.bad, len(walk.problems)) == (512, 20)


@pytest.mark.parametrize("root", [-4096, 4097, PAGES * 4096])
def test_no_table_at_all(machine: Machine, root: int) -> None:
    with pytest.raises(RedoubtError, match="no page table at"):
        pagewalk.walk(machine.memory, root, machine.levels)


@pytest.mark.parametrize("levels", [3, 6])
def test_other_numbers_of_levels(levels: int) -> None:
    with pytest.raises(RedoubtError, match="4 or 5 levels"):
        pagewalk.walk(np.zeros((2, 512), dtype=np.uint64), 0, levels)


def test_memory_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "memory"
    file.write_bytes(bytes(4096) + (0x1234).to_bytes(8, "little") + bytes(4088))
    assert pagewalk.load(file).shape == (2, 512)
    assert pagewalk.load(file)[1, 0] == 0x1234


@pytest.mark.parametrize("size", [0, 4095, 8193])
def test_a_file_that_is_no_memory(tmp_path: Path, size: int) -> None:
    file = tmp_path / "memory"
    file.write_bytes(bytes(size))
    with pytest.raises(RedoubtError, match=f"it has {size} bytes"):
        pagewalk.load(file)
