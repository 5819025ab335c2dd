# SPDX-License-Identifier: GPL-2.0-only
"""The one statistical method of the benchmark: a ratio of medians and its interval.

docs/measuring.md says why this one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 4000
# With fewer boots a bootstrap of boots says nothing.
FEWEST_ROUNDS = 2

Samples = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Estimate:
    """A ratio (dimensionless, 1 = no change) and its confidence interval at LEVEL."""

    ratio: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """The largest change the interval permits, as |ln ratio|: 0.01 is about 1 %."""
        return max(abs(math.log(self.low)), abs(math.log(self.high)))


def _array(samples: Samples, name: str) -> NDArray[np.float64]:
    if len({len(boot) for boot in samples}) != 1:
        raise ValueError(f"{name}: every boot must have the same number of samples")
    array = np.asarray(samples, dtype=np.float64)
    if array.shape[0] < FEWEST_ROUNDS or array.shape[1] < 1:
        raise ValueError(f"{name}: too few boots or samples: {array.shape}")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{name}: a sample is not a positive number")
    return array


def median_ratio(
    numerator: Samples, denominator: Samples, *, seed: int, resamples: int = RESAMPLES
) -> Estimate:
    """The ratio of two medians, with an interval that knows about boots and rounds.

    Row i of both holds the samples (positive, one unit) of the boot of round i. Rounds are drawn
    with replacement, the same for both as their boots ran next to each other; then samples within
    each boot. The interval is the percentile interval of the ratio of the medians of what was
    drawn. Two-stage bootstrap of clustered data: Davison and Hinkley, Bootstrap Methods and their
    Application, 1997, section 3.8; percentile interval: Efron and Tibshirani, An Introduction to
    the Bootstrap, 1993, chapter 13. Deterministic for a given seed.

    Raises ValueError for fewer than two rounds, boots of different sizes, different numbers of
    rounds, or a sample that is not a positive number.
    """
    top = _array(numerator, "numerator")
    bottom = _array(denominator, "denominator")
    if top.shape[0] != bottom.shape[0]:
        raise ValueError(f"rounds are not paired: {top.shape[0]} and {bottom.shape[0]}")
    rng = np.random.default_rng(seed)
    rounds = rng.integers(top.shape[0], size=(resamples, top.shape[0]))
    ratios = _drawn_medians(top, rounds, rng) / _drawn_medians(bottom, rounds, rng)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return Estimate(float(np.median(top) / np.median(bottom)), float(low), float(high))


def _drawn_medians(
    samples: NDArray[np.float64], rounds: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """The median of each draw of boots (`rounds`), with samples drawn anew within each boot."""
    within = rng.integers(samples.shape[1], size=(*rounds.shape, samples.shape[1]))
    drawn = samples[rounds[:, :, None], within]
    return np.asarray(np.median(drawn.reshape(len(rounds), -1), axis=1))


def mark(estimate: Estimate, noise: float) -> str:
    """(R) for a regression, (I) for an improvement, ~ if it may be neither.

    `noise` is the spread (|ln ratio|) of the unchanged kernel against itself: an effect that is
    not larger is none, whatever its own interval says.
    """
    if abs(math.log(estimate.ratio)) <= noise:
        return "~"
    if estimate.low > 1:
        return "(R)"
    if estimate.high < 1:
        return "(I)"
    return "~"
