# SPDX-License-Identifier: GPL-2.0-only
"""The statistics of the benchmark, on data whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from redoubt.cost import stats
from redoubt.cost.stats import Estimate, mark, median_ratio

ROUNDS, SAMPLES = 8, 5


def measured(
    rng: np.random.Generator, ratio: float, *, drift: float, boot: float, sample: float
) -> tuple[list[list[float]], list[list[float]]]:
    """Two variants in paired rounds: relative spreads by round, by boot and by sample."""
    rounds = rng.normal(0, drift, (ROUNDS, 1))

    def variant(median: float) -> list[list[float]]:
        spread = (
            rounds + rng.normal(0, boot, (ROUNDS, 1)) + rng.normal(0, sample, (ROUNDS, SAMPLES))
        )
        return (median * np.exp(spread)).tolist()  # type: ignore[no-any-return]

    return variant(1000 * ratio), variant(1000)


def coverage(ratio: float, *, drift: float, boot: float, sample: float) -> float:
    rng = np.random.default_rng(11)
    hits = 0
    for seed in range(200):
        top, bottom = measured(rng, ratio, drift=drift, boot=boot, sample=sample)
        found = median_ratio(top, bottom, seed=seed, resamples=400)
        hits += found.low <= ratio <= found.high
    return hits / 200


@pytest.mark.parametrize(
    ("drift", "boot", "sample"), [(0.03, 0.01, 0.01), (0, 0.01, 0.01), (0, 0.02, 0.002)]
)
def test_the_interval_holds_the_truth_about_as_often_as_it_says(
    drift: float, boot: float, sample: float
) -> None:
    # 200 draws of a probability of 0.95 fall below 0.90 once in a thousand times.
    assert coverage(1.05, drift=drift, boot=boot, sample=sample) >= 0.90


def test_samples_of_one_boot_are_not_taken_for_boots() -> None:
    # Boots differ by 2 %, samples of a boot hardly: 40 samples are worth 8 boots.
    top, bottom = measured(np.random.default_rng(3), 1, drift=0, boot=0.02, sample=0.0001)
    found = median_ratio(top, bottom, seed=1)
    as_if_independent = 1.96 * 1.25 * 0.02 * math.sqrt(2 / (ROUNDS * SAMPLES))
    assert (found.high - found.low) / 2 > 1.5 * as_if_independent


def test_what_a_round_has_in_common_is_no_noise() -> None:
    rng = np.random.default_rng(5)
    top, bottom = measured(rng, 1.03, drift=0.1, boot=0.002, sample=0.002)
    paired = median_ratio(top, bottom, seed=1)
    # The same boots, paired with those of other rounds.
    apart = median_ratio(top, [*bottom[3:], *bottom[:3]], seed=1)
    assert paired.high - paired.low < (apart.high - apart.low) / 2


def test_the_ratio_is_that_of_the_medians() -> None:
    found = median_ratio([[2, 4, 900], [2, 4, 6]], [[1, 2, 3], [1, 2, 3]], seed=1)
    assert found.ratio == 2
    same = median_ratio([[3.0] * 4] * 4, [[2.0] * 4] * 4, seed=1)
    assert (same.ratio, same.low, same.high) == (1.5, 1.5, 1.5)


def test_a_seed_gives_the_same_interval_again() -> None:
    top, bottom = measured(np.random.default_rng(1), 1, drift=0, boot=0.01, sample=0.01)
    assert median_ratio(top, bottom, seed=7) == median_ratio(top, bottom, seed=7)
    assert median_ratio(top, bottom, seed=7) != median_ratio(top, bottom, seed=8)


@pytest.mark.parametrize(
    ("top", "bottom", "message"),
    [
        ([[1.0], [2.0]], [[1.0], [2.0], [3.0]], "not paired"),
        ([[1.0, 2.0], [1.0]], [[1.0], [1.0]], "same number of samples"),
        ([[1.0]], [[1.0]], "too few"),
        ([[], []], [[1.0], [1.0]], "too few"),
        ([[0.0], [1.0]], [[1.0], [1.0]], "positive"),
        ([[1.0], [1.0]], [[math.nan], [1.0]], "positive"),
        ([[1.0], [1.0]], [[math.inf], [1.0]], "positive"),
    ],
)
def test_data_that_is_none(top: list[list[float]], bottom: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        median_ratio(top, bottom, seed=1)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "noise", "expected"),
    [
        (1.05, 1.03, 1.07, 0.01, "(R)"),
        (0.95, 0.93, 0.97, 0.01, "(I)"),
        (1.05, 0.99, 1.11, 0.01, "~"),
        (0.95, 0.90, 1.00, 0.01, "~"),
        # Its own interval is sure, and the method is not: A/A shows as much of a difference.
        (1.05, 1.03, 1.07, 0.06, "~"),
        (0.95, 0.93, 0.97, 0.06, "~"),
        (1.0, 1.0, 1.0, 0.0, "~"),
        # Without A/A nothing is significant.
        (9.0, 8.0, 10.0, math.inf, "~"),
    ],
)
def test_marks(ratio: float, low: float, high: float, noise: float, expected: str) -> None:
    assert mark(Estimate(ratio, low, high), noise) == expected


def test_the_spread_is_the_farther_end() -> None:
    assert Estimate(1, 0.98, 1.01).spread == pytest.approx(-math.log(0.98))
    assert Estimate(1, 0.999, 1.01).spread == pytest.approx(math.log(1.01))


def test_a_kernel_against_itself_is_seldom_an_effect() -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for seed in range(100):
        same = measured(rng, 1, drift=0.01, boot=0.01, sample=0.01)
        noise = median_ratio(*same, seed=seed, resamples=400).spread
        other = measured(rng, 1, drift=0.01, boot=0.01, sample=0.01)
        wrong += mark(median_ratio(*other, seed=seed, resamples=400), noise) != "~"
    assert wrong <= 3


def test_an_effect_is_found() -> None:
    rng = np.random.default_rng(4)
    spread = {"drift": 0.02, "boot": 0.003, "sample": 0.005}
    noise = median_ratio(*measured(rng, 1, **spread), seed=1).spread
    assert mark(median_ratio(*measured(rng, 1.05, **spread), seed=1), noise) == "(R)"
    assert mark(median_ratio(*measured(rng, 0.95, **spread), seed=1), noise) == "(I)"
    assert stats.LEVEL == 0.95
