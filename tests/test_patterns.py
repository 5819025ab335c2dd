# SPDX-License-Identifier: GPL-2.0-only
"""What is searched for in memory: that it is found wherever it is, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from redoubt.trial.oracle import patterns
from redoubt.trial.oracle.patterns import PAGES, WORDS, Words


@pytest.fixture
def memory() -> Words:
    return np.random.default_rng(1).integers(0, 1 << 64, (5000, WORDS), dtype=np.uint64)


@pytest.fixture
def both() -> list[Words]:
    return [patterns.pattern(0x1234, number) for number in (0, 1)]


def test_the_words_are_those_of_splitmix64() -> None:
    """Computed here one after the other, as its authors do; the published ones for seed 0."""

    def following(seed: int, count: int) -> list[int]:
        words, mask = [], (1 << 64) - 1
        for _ in range(count):
            seed = (seed + 0x9E3779B97F4A7C15) & mask
            x = seed
            x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
            x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
            words.append(x ^ (x >> 31))
        return words

    assert following(0, 2) == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    for seed in (0, 1, (1 << 64) - 1):
        words = following(seed, 2 * PAGES * WORDS)
        assert patterns.pattern(seed, 0).reshape(-1).tolist() == words[: PAGES * WORDS]
        assert patterns.pattern(seed, 1).reshape(-1).tolist() == words[PAGES * WORDS :]


def test_all_pages_differ(both: list[Words]) -> None:
    assert len(np.unique(np.concatenate(both).reshape(-1))) == 2 * PAGES * WORDS


def test_nothing_is_found_where_nothing_is(memory: Words, both: list[Words]) -> None:
    for found in patterns.find(memory, both):
        assert found.frames == ((),) * PAGES
        assert not found.whole
        assert found.stray == {}


def test_pages_in_any_order(memory: Words, both: list[Words]) -> None:
    # Also the first and the last of all.
    where = [4999, 0, 17, 16, 2100, 2101, 4095, 4096]
    for page, frame in enumerate(where):
        memory[frame] = both[1][page]
    other, found = patterns.find(memory, both)
    assert found.frames == tuple((frame,) for frame in where)
    assert found.whole and not other.whole
    assert found.stray == {} == other.stray


def test_a_copy_is_found_as_well(memory: Words, both: list[Words]) -> None:
    memory[10:18] = both[0]
    memory[3000] = both[0][2]
    found, _ = patterns.find(memory, both)
    assert found.frames[2] == (12, 3000)


def test_one_page_that_is_missing(memory: Words, both: list[Words]) -> None:
    memory[10:18] = both[0]
    memory[13, 511] ^= np.uint64(1)
    found, _ = patterns.find(memory, both)
    assert found.frames[3] == () and not found.whole
    assert found.stray == {13: WORDS - 1}


def test_a_page_in_another_order_is_not_whole(memory: Words, both: list[Words]) -> None:
    memory[10] = np.roll(both[0][0], 1)
    found, _ = patterns.find(memory, both)
    assert found.frames[0] == ()
    assert found.stray == {10: WORDS}


def test_pieces_in_other_places(memory: Words, both: list[Words]) -> None:
    memory[10:18] = both[0]
    memory[40, 3:13] = both[0][5, 100:110]
    memory[41, 200] = both[1][0, 0]
    # At its own place in a page, but alone; and all of a page, but moved.
    memory[42, 7] = both[0][1, 7]
    memory.reshape(-1)[50 * WORDS + 1 : 51 * WORDS + 1] = both[1][6]
    first, second = patterns.find(memory, both)
    assert first.whole
    assert first.stray == {40: 10, 42: 1}
    assert second.stray == {41: 1, 50: WORDS - 1, 51: 1}
