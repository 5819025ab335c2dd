# SPDX-License-Identifier: GPL-2.0-only
"""What the page tables of an x86-64 CPU reach, read from outside in the memory they lie in.

The format is that of Intel's manual, volume 3A, chapter "Paging": 4 or 5 levels of tables of 512
entries, of which some at levels 2 and 3 map 2 MiB and 1 GiB at once. Protection keys are not looked
at. Memory is an array with a row of 512 words for each page frame, from physical address 0 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redoubt.core.errors import RedoubtError

Memory = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

PAGE_SHIFT = 12
PAGE_SIZE = 1 << PAGE_SHIFT
ENTRIES = 512

_PRESENT, _WRITABLE, _LARGE, _GLOBAL = (np.uint64(1 << bit) for bit in (0, 1, 7, 8))
ADDRESS = 0x000F_FFFF_FFFF_F000
# Bits of the address that have to be 0 in an entry that maps more than a page; bit 12 is PAT.
_MUST_BE_0 = {2: np.uint64(0x001F_E000), 3: np.uint64(0x3FFF_E000)}
_LARGEST = 3
_LEVELS = (4, 5)
# In words; there may be as many bad entries as there are entries.
_TOLD = 20


def load(file: Path) -> Memory:
    """The memory of a machine that is kept in a file.

    Raises RedoubtError if it is not a number of whole pages.
    """
    size = file.stat().st_size
    if not size or size % PAGE_SIZE:
        raise RedoubtError(f"{file} is no memory of a machine: it has {size} bytes")
    return np.memmap(file, dtype="<u8", mode="r").reshape(-1, ENTRIES)


@dataclass(frozen=True)
class Leaves:
    """The entries that map memory, a column for each property.

    `address` is the first virtual address through which the entry is reached, there may be more:
    see `Walk.addresses`. `frame` is the number of the first of so many `pages`. `kernel` is whether
    the address is in the upper half, `writable` whether all entries on the way to it are. `depth`
    and `table` say in which table of the walk the entry is, `column` which of its entries it is and
    `entry` where in memory: page frame * 512 + column. A table that is reached in both halves, or
    by writable and by other ways, has its entries listed for each.
    """

    address: NDArray[np.uint64]
    frame: Index
    pages: Index
    kernel: Mask
    writable: Mask
    is_global: Mask
    depth: Index
    table: Index
    column: Index
    entry: Index


@dataclass(frozen=True)
class _Tables:
    """The tables of a level: page frames, the first address of each, and ways to get there.

    A way leads by entry `column` of the table `parent`, of the level above, to the table `child`.
    """

    frame: Index
    base: NDArray[np.uint64]
    kernel: Mask
    writable: Mask
    child: Index
    parent: Index
    column: Index


class Walk:
    """The tables below a root, see `walk`.

    `tables` is the number of page frames that are tables, `problems` has what is wrong with some of
    them, in words, and `bad` counts these.
    """

    def __init__(self, memory: Memory, root: int, levels: int) -> None:
        self.memory_pages = len(memory)
        self.root = root
        self.levels = levels
        self.problems: list[str] = []
        self.bad = 0
        # The root is a table of its own level, to which no way leads.
        nowhere = np.zeros(0, dtype=np.int64)
        top = _Tables(
            frame=np.array([root >> PAGE_SHIFT]), base=np.zeros(1, dtype=np.uint64),
            kernel=np.zeros(1, dtype=bool), writable=np.ones(1, dtype=bool),
            child=nowhere, parent=nowhere, column=nowhere,
        )  # fmt: skip
        self._tables = [top]
        found = [self._descend(memory, depth) for depth in range(levels)]
        columns = ([getattr(one, field.name) for one in found] for field in fields(Leaves))
        self.leaves = Leaves(*map(np.concatenate, columns))
        self.tables = self._count()

    def _shift(self, depth: int) -> int:
        """The bits of an address below those that choose an entry of a table."""
        return PAGE_SHIFT + 9 * (self.levels - depth - 1)

    def _descend(self, memory: Memory, depth: int) -> Leaves:
        """What the tables of a level map; those that they lead to are the next level's."""
        level = self.levels - depth
        here = self._tables[depth]
        entries = memory[here.frame]
        row, column = np.nonzero(entries & _PRESENT)
        entry = entries[row, column]
        frame = ((entry & np.uint64(ADDRESS)) >> np.uint64(PAGE_SHIFT)).astype(np.int64)
        base = here.base[row] + (column.astype(np.uint64) << np.uint64(self._shift(depth)))
        kernel = column >= ENTRIES // 2 if depth == 0 else here.kernel[row]
        writable = here.writable[row] & (entry & _WRITABLE).astype(bool)
        where = here.frame[row] * ENTRIES + column

        large = (entry & _LARGE).astype(bool) if level > 1 else np.zeros(len(entry), dtype=bool)
        sound = np.ones(len(entry), dtype=bool)
        if level > _LARGEST:
            sound &= self._check(large, level, where, entry, "is large, at this level")
        if level in _MUST_BE_0:
            crooked = large & (entry & _MUST_BE_0[level]).astype(bool)
            sound &= self._check(crooked, level, where, entry, "maps to no multiple of its size")
        ends = large if level > 1 else ~large
        outside = ~ends & (frame >= len(memory))
        sound &= self._check(outside, level, where, entry, "leads to a table that is not in memory")

        if level > 1:
            on = ~ends & sound
            # The same table may be reached millions of times: once for all ways that do not differ.
            key = frame[on] << 2 | kernel[on].astype(np.int64) << 1 | writable[on]
            _, first, child = np.unique(key, return_index=True, return_inverse=True)
            self._tables.append(
                _Tables(
                    frame[on][first], base[on][first], kernel[on][first], writable[on][first],
                    child, row[on], column[on],
                )
            )  # fmt: skip
        leaf = ends & sound
        pages, count = ENTRIES ** (level - 1), int(leaf.sum())
        return Leaves(
            address=self._canonical(base[leaf]), frame=frame[leaf] & ~np.int64(pages - 1),
            pages=np.full(count, pages), kernel=kernel[leaf], writable=writable[leaf],
            is_global=(entry[leaf] & _GLOBAL).astype(bool), depth=np.full(count, depth),
            table=row[leaf], column=column[leaf], entry=where[leaf],
        )  # fmt: skip

    def _check(
        self, wrong: Mask, level: int, where: Index, entry: NDArray[np.uint64], what: str
    ) -> Mask:
        """Note entries that are wrong; returns which are not."""
        indices = np.flatnonzero(wrong)
        self._note(
            len(indices),
            (
                f"entry {where[index] % ENTRIES} of the table of level {level} at "
                f"{where[index] // ENTRIES << PAGE_SHIFT:#x} {what}: {entry[index]:#x}"
                for index in indices
            ),
        )
        return ~wrong

    def _note(self, count: int, problems: Iterable[str]) -> None:
        self.bad += count
        self.problems += islice(problems, max(0, _TOLD - len(self.problems)))

    def _count(self) -> int:
        """The number of tables. None may be one at two levels: that is a loop, or half of one."""
        frames = [np.unique(tables.frame) for tables in self._tables]
        everything, count = np.unique(np.concatenate(frames), return_counts=True)
        for frame in everything[count > 1]:
            levels = [str(self.levels - at) for at, some in enumerate(frames) if frame in some]
            where = " and at level ".join(levels)
            self._note(1, [f"the table at {int(frame) << PAGE_SHIFT:#x} is one at level {where}"])
        return len(everything)

    def _canonical(self, address: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Addresses with the highest bit that counts in all above it."""
        above = np.uint64(64 - self._shift(-1))
        return ((address << above).view(np.int64) >> above.view(np.int64)).view(np.uint64)

    def reached(self, which: Mask) -> Mask:
        """Which page frames of memory some of the leaves map."""
        first = np.minimum(self.leaves.frame[which], self.memory_pages)
        after = np.minimum(first + self.leaves.pages[which], self.memory_pages)
        ends = self.memory_pages + 1
        begun = np.bincount(first, minlength=ends) - np.bincount(after, minlength=ends)
        reached: Mask = np.cumsum(begun)[: self.memory_pages] > 0
        return reached

    def outside(self) -> int:
        """The number of leaves that map what is no memory, such as devices."""
        beyond = self.leaves.frame + self.leaves.pages > self.memory_pages
        return self.entries(beyond)

    def entries(self, which: Mask) -> int:
        """The number of leaves, each counted once however often it is reached."""
        return len(np.unique(self.leaves.entry[which]))

    def addresses(self, frame: int, limit: int) -> list[int]:
        """Virtual addresses at which a page frame is mapped, the first `limit` of them."""
        leaves = self.leaves
        after = frame - leaves.frame
        which = np.flatnonzero((after >= 0) & (after < leaves.pages))

        def every() -> Iterator[int]:
            for index in which:
                depth = int(leaves.depth[index])
                offset = int(leaves.column[index]) << self._shift(depth)
                offset += int(after[index]) << PAGE_SHIFT
                for base in self._bases(depth, int(leaves.table[index])):
                    yield int(self._canonical(np.array([base + offset], dtype=np.uint64))[0])

        return list(islice(every(), limit))

    def _bases(self, depth: int, table: int) -> Iterator[int]:
        """All addresses, but for their upper bits, of the first entry of a table."""
        if not depth:
            yield 0
            return
        here = self._tables[depth]
        for way in np.flatnonzero(here.child == table):
            offset = int(here.column[way]) << self._shift(depth - 1)
            for base in self._bases(depth - 1, int(here.parent[way])):
                yield base + offset


def walk(memory: Memory, root: int, levels: int) -> Walk:
    """Follow the tables below the one at the physical address `root`.

    Raises RedoubtError if there cannot be one.
    """
    if levels not in _LEVELS:
        raise RedoubtError(f"page tables have 4 or 5 levels, not {levels}")
    if root % PAGE_SIZE or not 0 <= root < len(memory) * PAGE_SIZE:
        raise RedoubtError(f"there is no page table at {root:#x}: it is not a page of the memory")
    return Walk(memory, root, levels)
