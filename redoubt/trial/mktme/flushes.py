# SPDX-License-Identifier: GPL-2.0-only
"""How many pages are flushed from the caches, if all anonymous memory is under a KeyID.

Counts of the kernel, of a guest with one CPU on which nothing else runs, with the pool of free
pages under KeyIDs and without. What a flush takes no emulator tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from redoubt.core.progress import Progress
from redoubt.machine.kernels import Workbench
from redoubt.targets import Variant
from redoubt.trial import experiment
from redoubt.trial.mktme import mktme

TIMES = 10_000
KEYID = 1
# What is compared: without the pool, and with it.
OFF, ON = "mktme_pool=off", "pool"
WAYS = {OFF: (OFF,), ON: ()}
# With nothing in the pool, and then the same again.
FIRST, AGAIN = "first", "again"
PHASES = FIRST, AGAIN
# Pages that got a KeyID, and that lost it: each was flushed.
FLUSHED = "flushed_for_keyid", "flushed_when_freed"
RANGES, WHOLE = "flushed_ranges", "flushed_all"
HITS, MISSES, REFUSED, RETURNED = "pool_hits", "pool_misses", "pool_refused", "pool_returned"
INSTRUCTIONS = "instructions"
COUNTERS = (INSTRUCTIONS, *FLUSHED, RANGES, WHOLE, HITS, MISSES, REFUSED, RETURNED)
# Of what the same operation flushes without the pool: for the beginning of a name.
TARGETS = {"build-like": 0.01, "churn": 0.05}

_TIMEOUT = 1800.0


@dataclass(frozen=True)
class Row(experiment.Row):
    """What was counted while an operation was done so many `times` in one of WAYS."""

    operation: str
    phase: str
    times: int
    way: str = ON

    @property
    def flushed(self) -> int:
        """How many pages were flushed, one by one or with all others."""
        return sum(self.counts[name] for name in FLUSHED)


@dataclass(frozen=True)
class Aim:
    """At most this share of flushes was to be left of an operation, and is."""

    operation: str
    share: float
    allowed: float

    @property
    def met(self) -> bool:
        """Was it reached?"""
        return self.share <= self.allowed


@dataclass(frozen=True)
class Report(experiment.Report[Row]):
    """All rows, what was wrong in words, and what was aimed at."""

    @property
    def aims(self) -> tuple[Aim, ...]:
        """What was aimed at, of what is done again: reached or not."""
        bare = {row.operation: row for row in self.rows if (row.way, row.phase) == (OFF, AGAIN)}
        return tuple(
            Aim(row.operation, row.flushed / bare[row.operation].flushed, allowed)
            for row in self.rows
            for name, allowed in TARGETS.items()
            if (row.way, row.phase) == (ON, AGAIN)
            and row.operation.startswith(name)
            and row.operation in bare
            and bare[row.operation].flushed
        )

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        targets = [asdict(aim) | {"met": aim.met} for aim in self.aims]
        return super().as_json() | {"targets": targets}


def parse(lines: Sequence[str], way: str = ON) -> tuple[Row, ...]:
    """All operations on a console."""
    words = ("operation", "phase", "times")
    return tuple(
        Row({name: counts.get(name, 0) for name in COUNTERS}, operation, phase, int(times), way)
        for (operation, phase, times), counts in experiment.said("flushes", words, lines)
    )


def judge(rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with what was counted in one way: else the shares say nothing."""
    for phase in PHASES:
        if not any(row.phase == phase for row in rows):
            yield f"nothing was counted {phase}"
    for row in rows:
        hits, misses, got = row.counts[HITS], row.counts[MISSES], row.counts[FLUSHED[0]]
        if row.way == OFF and hits:
            yield f"{row.operation}: {hits} pages came from a pool that is off"
        if got < misses:
            yield f"{row.operation}: {got} pages were flushed to get a KeyID, {misses} had to be"
        if not hits + misses:
            yield f"{row.operation}: no memory under a KeyID was allocated"


def run(made: Workbench, variant: Variant, times: int, progress: Progress) -> Report:
    """Count in a guest for each way.

    Raises RedoubtError if the target has no KeyIDs, or a guest does not get to its end.
    """
    mktme.needs(made.build.target)
    machines = {
        way: replace(made.machine(variant, f"mktme_anon={KEYID}", *args), count_instructions=True)
        for way, args in WAYS.items()
    }
    found = experiment.count(
        machines, ["/bin/flushes", str(times)], parse, judge,
        title="Counting pages that are flushed", timeout=_TIMEOUT, progress=progress,
    )  # fmt: skip
    return Report(*found)


_CAUSES = {MISSES: "not in the pool", REFUSED: "not taken", RETURNED: "given back"}


def render(report: Report) -> Iterator[str]:
    """For people: pages that were flushed with the pool and without, and why with it."""
    bare = {(row.operation, row.phase): row.flushed for row in report.rows if row.way == OFF}
    rows = []
    for row in report.rows:
        if row.way == ON:
            without = bare.get((row.operation, row.phase), 0)
            share = f"{row.flushed / without:.2%}" if without else "-"
            causes = (row.counts[name] for name in _CAUSES)
            rows.append((row.operation, row.phase, row.times, without, row.flushed, share, *causes))
    head = ("operation", "phase", "times", OFF, ON, "left", *_CAUSES.values())
    yield from experiment.table(head, rows, texts=2)
    for aim in report.aims:
        yield (
            f"{'met' if aim.met else 'MISSED'}: {aim.operation}: {aim.share:.2%} of the flushes "
            f"are left, at most {aim.allowed:.0%} were aimed at"
        )
    yield from experiment.wrong(report.problems)


def render_instructions(report: Report) -> Iterator[str]:
    """For people: instructions for each time that it is done, when it is done again."""
    again = {
        (row.operation, row.way): f"{row.counts[INSTRUCTIONS] / row.times:.5g}"
        for row in report.rows
        if row.phase == AGAIN
    }
    rows = [
        (operation, *(again.get((operation, way), "-") for way in WAYS))
        for operation in dict.fromkeys(name for name, _ in again)
    ]
    yield from experiment.table(("instructions each, again", *WAYS), rows)
    yield "Of a kernel that checks itself; the emulation writes to a page instead of flushing it."
