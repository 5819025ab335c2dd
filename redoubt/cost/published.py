# SPDX-License-Identifier: GPL-2.0-only
"""Figures that others have published, and which of ours stand beside them."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.cost import workloads
from redoubt.cost.figures import MET, MISSED, UNDECIDED, Figure, Report, judge
from redoubt.cost.stats import Estimate
from redoubt.cost.workloads import EVENTS, TIMED, WORKLOADS, Workload
from redoubt.targets import TARGETS

# What tells the price of writing the register, see configs/bench.toml.
_GAUGE = "switch"
# What everything is compared with.
_BASES = ("pristine", "off")


@dataclass(frozen=True)
class Place:
    """Where a figure of ours is, as configs/published.toml has it, which explains the fields."""

    target: str
    workload: str = ""
    size: int = 0
    variant: str = "on"
    note: str = ""
    memory_gib: int = 0
    mapped_in: str = ""
    exits: str = ""
    flushes: str = ""
    lacking: str = ""

    def figures(self, report: Report) -> list[Figure]:
        """The figures of this place, one for each kind that is no count of events."""
        if report.target != self.target or not self.workload:
            return []
        place = (self.workload, self.size, self.variant)
        return [
            one for one in report.figures
            if (one.workload, one.size, one.variant) == place
            and one.kind != EVENTS and one.ratio is not None
        ]  # fmt: skip

    @property
    def title(self) -> str:
        """What is measured there, for people."""
        if self.workload:
            name = WORKLOADS[self.workload].title(self.size)
            return f"{name} ({self.note})" if self.note else name
        if self.mapped_in:
            return f"{self.memory_gib} GiB in {self.mapped_in}"
        return self.exits or self.flushes


@dataclass(frozen=True)
class Row:
    """A published change in percent, of time or of throughput; `before` is without batches."""

    name: str
    percent: float
    ours: tuple[Place, ...]
    before: float | None = None
    throughput: bool = False

    @property
    def ratio(self) -> float:
        """How many times as long an operation takes."""
        ratio = 1 + self.percent / 100
        return 1 / ratio if self.throughput else ratio

    @property
    def most(self) -> float:
        """How many times as long ours may take: less than no change is noise of those who say it.

        Where all is the better the less it is, as of the linear map, that is what is demanded.
        """
        gain = any(place.mapped_in for place in self.ours)
        return self.ratio if gain else max(self.ratio, 1)


@dataclass(frozen=True)
class Source:
    """A message with published figures, by whom, of which machine and how."""

    by: str
    title: str
    machine: str
    method: str
    rows: tuple[Row, ...]


def _places(entry: dict[str, Any]) -> Iterator[Place]:
    fields = {name: value for name, value in entry.items() if name != "targets"}
    if "size" in fields:
        fields["size"] = workloads.in_bytes(fields["size"])
    for target in entry["targets"]:
        yield Place(target, **fields)


def load(file: Path | None = None) -> tuple[Source, ...]:
    """All that is published, in the order it is shown."""
    file = file or paths.repo() / "configs" / "published.toml"
    found = tomllib.loads(file.read_text(encoding="utf-8"))["sources"]
    return tuple(
        Source(
            one["by"], one["in"], one["machine"], one["method"],
            tuple(
                Row(**row | {"ours": tuple(p for entry in row["ours"] for p in _places(entry))})
                for row in one["rows"]
            ),
        )
        for one in found
    )  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A published change of time where a figure of ours is: its variant, and workload and size."""

    variant: str
    place: tuple[str, int]
    percent: float


def points(target: str) -> list[Point]:
    """What is published beside the workloads of a target, without batches as well."""
    return [
        Point(variant, (place.workload, place.size), percent)
        for source in load() for row in source.rows for place in row.ours
        if place.target == target and place.workload
        for variant, percent in (
            (place.variant, 100 * (row.ratio - 1)), ("on-unbatched", row.before)
        )
        if percent is not None
    ]  # fmt: skip


# === Verdicts ====================================================================================


# === Measuring them again ========================================================================


def works(target: str, sources: Sequence[Source]) -> tuple[Workload, ...]:
    """The workloads of a target beside published figures, in their sizes alone, and the gauge.

    Raises UsageError if there are none.
    """
    sizes: dict[str, set[int]] = {}
    for place in places(target, sources):
        if place.workload:
            work = WORKLOADS[place.workload]
            sizes.setdefault(work.kernel_of or work.name, set()).add(place.size)
    if not sizes:
        there = {place.target for place in places("", sources) if place.workload}
        raise UsageError(
            f"no workload of {target} stands beside a published one",
            "targets: " + ", ".join(name for name in TARGETS if name in there),
        )
    return tuple(
        work if name == _GAUGE else _only(work, sizes[name])
        for name, work in WORKLOADS.items()
        if name in sizes or name == _GAUGE
    )


def _only(work: Workload, wanted: set[int]) -> Workload:
    def kept(sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(size for size in sizes if size in wanted)

    return dataclasses.replace(work, sizes=kept(work.sizes), emulated=kept(work.emulated))


def variants(target: str, sources: Sequence[Source]) -> tuple[str, ...]:
    """The variants of a target that are needed for it: those, and all they are compared with."""
    wanted = {place.variant for place in places(target, sources) if place.workload}
    if "on" in wanted:
        wanted.add("on-unbatched")
    return (*_BASES, *sorted(wanted))


def places(target: str, sources: Sequence[Source]) -> list[Place]:
    """The places on a target; on all if that is empty."""
    return [
        place for source in sources for row in source.rows for place in row.ours
        if target in ("", place.target)
    ]  # fmt: skip


# === Verdicts ====================================================================================


def judge_beside(row: Row, figure: Figure, report: Report) -> str:
    """Is a figure of ours not above the published one: MET, MISSED, or UNDECIDED?"""
    assert figure.ratio is not None
    if figure.ci_low is None or figure.ci_high is None:
        # A count is exact, but for what is marked as no larger than samples of one boot differ.
        over = UNDECIDED if figure.mark == "~" else MISSED
        return MET if figure.ratio <= row.most else over
    again = control(figure, report)
    noise = _estimate(again).spread if again else math.inf
    return judge(_estimate(figure), noise, 0, row.most)


def _estimate(figure: Figure) -> Estimate:
    assert figure.ratio is not None and figure.ci_low is not None and figure.ci_high is not None
    return Estimate(figure.ratio, figure.ci_low, figure.ci_high)


def control(figure: Figure, report: Report) -> Figure | None:
    """What the pristine kernel differs from itself where a figure is, if that was measured."""
    place = (figure.kind, figure.workload, figure.size, "pristine-b")
    same = (
        one for one in report.figures
        if (one.kind, one.workload, one.size, one.variant) == place
    )  # fmt: skip
    return next(same, None)


def writes_alone(figure: Figure, report: Report) -> float | None:
    """The part of an operation without protection that writes of the register alone take.

    None where no time was measured, or nobody said how long such a write takes.
    """
    price = {
        one.variant: one.value
        for one in report.figures
        if one.kind == figure.kind and one.workload == _GAUGE
    }
    if figure.kind not in TIMED or not {"on", "off"} <= price.keys():
        return None
    if figure.switches_per_op is None or figure.ratio is None:
        return None
    # The gauge writes twice.
    each = (price["on"] - price["off"]) / 2
    return each * figure.switches_per_op / (figure.value / figure.ratio)
