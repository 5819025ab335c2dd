# SPDX-License-Identifier: GPL-2.0-only
"""What is searched for in the memory of a machine, and where in it that lies.

Patterns come of a seed, word by word; guest/lib/pattern.c makes the same ones inside. Nothing but
the pattern itself looks like it, wherever the seed is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

PAGES = 8
WORDS = 512  # Words of 8 bytes in a page.

# Of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

# Words by their low bits: most of memory is told apart by one look into a table that fits a cache.
_BITS = 22
_CHUNK = 1 << 21


def pattern(seed: int, number: int) -> Words:
    """The pattern of that number: `PAGES` rows of `WORDS` words."""
    first = number * PAGES * WORDS + 1
    count = np.arange(first, first + PAGES * WORDS, dtype=np.uint64)
    x = np.uint64(seed) + count * np.uint64(_STEP)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    return (x ^ (x >> np.uint64(31))).reshape(PAGES, WORDS)


@dataclass(frozen=True)
class Found:
    """Where a pattern lies in memory.

    `frames` has for each page of it the numbers of the page frames that hold it whole; `stray` the
    number of its words in other places, aligned to 8 bytes, by the page frame.
    """

    frames: tuple[tuple[int, ...], ...]
    stray: dict[int, int]

    @property
    def whole(self) -> bool:
        """Is all of it somewhere?"""
        return all(self.frames)


def find(memory: Words, patterns: Sequence[Words]) -> list[Found]:
    """Where each pattern lies in all of memory, `WORDS` words a row."""
    flat = memory.reshape(-1)
    wanted = np.concatenate([one.reshape(-1) for one in patterns])
    order = np.argsort(wanted)
    ordered = wanted[order]
    places, which = _occurrences(flat, ordered)
    which = order[which]

    # In place: at the same offset of a page as in the pattern's.
    pages, frames = which // WORDS, places // WORDS
    aligned = which % WORDS == places % WORDS
    pairs, counts = np.unique(
        np.stack((pages[aligned], frames[aligned])), axis=1, return_counts=True
    )
    whole: dict[int, list[int]] = defaultdict(list)
    for page, frame in pairs[:, counts == WORDS].T.tolist():
        whole[page].append(frame)

    stray: list[dict[int, int]] = [defaultdict(int) for _ in patterns]
    for page, frame in zip(pages.tolist(), frames.tolist(), strict=True):
        if frame not in whole[page]:
            stray[page // PAGES][frame] += 1
    return [
        Found(
            tuple(tuple(whole[number * PAGES + page]) for page in range(PAGES)), dict(stray[number])
        )
        for number in range(len(patterns))
    ]


def _occurrences(flat: Words, ordered: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of words that are among the ordered ones, and which of these each is."""
    mask = np.uint64((1 << _BITS) - 1)
    likely = np.zeros(1 << _BITS, dtype=bool)
    likely[(ordered & mask).astype(np.int64)] = True
    places, which = [], []
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        near = np.flatnonzero(likely[(chunk & mask).astype(np.int64)])
        index = np.minimum(np.searchsorted(ordered, chunk[near]), ordered.size - 1)
        same = ordered[index] == chunk[near]
        places.append(near[same] + start)
        which.append(index[same])
    return np.concatenate(places), np.concatenate(which)
