# SPDX-License-Identifier: GPL-2.0-only
"""From the raw samples of a benchmark to figures: ratios, intervals, counts, verdicts."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.cost import bench, stats
from redoubt.cost.bench import Boot, Series
from redoubt.cost.workloads import (
    BOOT_LIMIT,
    COMPARISONS,
    EVENTS,
    INSTRUCTIONS,
    MOCK,
    TIME,
    VARIANTS,
    WORKLOADS,
    Workload,
)

_UNITS = {TIME: "ns_per_op", MOCK: "mock_ns_per_op", INSTRUCTIONS: "instructions_per_op"}
_WITHOUT_HOST = "_without_host"
# What the part of the kernel is known by: a variant, and the time of programs that it tells.
BASE = "off"
USER_STAT = "user_ns"

# What the project demands; those of a workload's time and instructions are in WORKLOADS.
OFF_LIMIT = 1.01
TAGS_PER_1000 = 6.0
BOUNDED = ("fork", "munmap", "fork-large", "munmap-large", "exit")
SWITCHLESS = ("null-syscall",)
# Pages of the direct map that may be split for reasons of ours, beside what the pool takes.
LARGE_PAGES_LOST = 2

# Figures that stand beside those of operations, in tables of their own.
BOOT_METRIC = "instructions_to_first_program"
LAYOUT = ("direct_map_4k", "direct_map_2m", "direct_map_1g", "pool_blocks")
LOST = "large_pages_lost"

MET, MISSED, UNDECIDED = "met", "missed", "undecided"
NOT_HERE = "not measurable here"

_HALF = 0.5
# The kernel counts how often the level was raised; each is lowered again.
_WRITES_PER_RAISE = 2


def bound(tables: float) -> float:
    """Register writes an operation may take that visits so many page tables.

    Four for each table: in and out of the batching section for its entries, in and out for the
    entry that points to it; and a constant for what does not grow. Nothing for each entry.
    """
    return 4 * tables + 16


@dataclass(frozen=True)
class Figure:
    """One row of the results; docs/json.md has the units and meanings."""

    target: str
    kind: str
    workload: str
    size: int
    variant: str
    metric: str
    value: float
    base: str | None = None
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    mark: str | None = None
    switches_per_op: float | None = None
    limit: float | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Report:
    """A whole run: where it comes from, its figures and the samples they come from.

    `provenance` has the fields of provenance.collect(); `missing` says, by kind, why this machine
    cannot give some figures.
    """

    provenance: dict[str, Any]
    target: str
    seed: int
    rounds: int
    quick: bool
    missing: dict[str, str]
    figures: tuple[Figure, ...]
    boots: tuple[Boot, ...] = field(repr=False)

    @property
    def kinds(self) -> list[str]:
        """The kinds of figures there are, in the order they are shown."""
        have = {figure.kind for figure in self.figures}
        return [kind for kind in (TIME, MOCK, EVENTS, INSTRUCTIONS) if kind in have]

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return {
            **self.provenance,
            "target": self.target,
            "seed": self.seed,
            "rounds": self.rounds,
            "publishable": not self.quick,
            "missing": self.missing,
            "results": [dataclasses.asdict(figure) for figure in self.figures],
            "boots": [boot.as_json() for boot in self.boots],
        }


def collect(
    plan: bench.Plan,
    ways: Sequence[bench.Way],
    origin: dict[str, Any],
    progress: Progress,
    *,
    measure: Callable[[bench.Plan, bench.Way, Progress], list[Boot]] = bench.run,
) -> Report:
    """Measure all that this machine can, and analyse it; `origin` is of provenance.collect().

    Raises RedoubtError as bench.run() does, and if there is nothing it can measure.
    """
    if not any(way.host for way in ways):
        reasons = "; ".join(f"{way.kind}: {way.missing}" for way in ways)
        raise RedoubtError(f"nothing of this can be measured here: {reasons}")
    boots = [boot for way in ways if way.host for boot in measure(plan, way, progress)]
    missing = {way.kind: way.missing for way in ways if not way.host}
    with progress.step("Computing the intervals"):
        found = analyse(plan.target.name, boots, plan.seed)
    return Report(
        origin, plan.target.name, plan.seed, plan.rounds, plan.quick, missing, found, tuple(boots)
    )


def dumps(value: dict[str, Any]) -> str:
    """JSON with one line for each entry of its lists: small, and readable in a diff."""
    parts = []
    for name, one in value.items():
        if isinstance(one, list) and one:
            inner = ",\n".join("    " + json.dumps(entry) for entry in one)
            parts.append(f'  "{name}": [\n{inner}\n  ]')
        else:
            parts.append(f'  "{name}": {json.dumps(one)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


_PROVENANCE = ("machine", "commit", "dirty", "command", "date")


def from_json(value: dict[str, Any]) -> Report:
    """The report that `as_json` wrote; fields it does not know are ignored.

    Raises RedoubtError if it is none.
    """
    names = {one.name for one in dataclasses.fields(Figure)}
    try:
        return Report(
            {name: value[name] for name in _PROVENANCE},
            value["target"], value["seed"], value["rounds"], not value["publishable"],
            dict(value["missing"]),
            tuple(
                Figure(**{name: one for name, one in row.items() if name in names})
                for row in value["results"]
            ),
            tuple(bench.from_json(one) for one in value["boots"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise RedoubtError(f"not the result of a benchmark: {error!r}") from error


# === From samples ================================================================================

Key = tuple[str, str, int]


def _sorted(boots: Iterable[Boot], kind: str) -> dict[Key, list[Series]]:
    """The series by variant, workload and size, in the order of their rounds."""
    found: dict[Key, list[Series]] = {}
    for boot in sorted(boots, key=lambda one: one.round):
        if boot.kind == kind:
            for series in boot.series:
                found.setdefault((boot.variant, series.workload, series.size), []).append(series)
    return found


def per_op(series: Series, work: Workload) -> list[float]:
    """The samples of a boot in ns (or instructions) per operation, what is excluded left out."""
    host = series.host_ns if work.host_excluded else (0,) * len(series.ns)
    return [(ns - out) / series.ops for ns, out in zip(series.ns, host, strict=True)]


def _seed(seed: int, *names: object) -> int:
    """A seed for one comparison, the same in each analysis of the same run."""
    return zlib.crc32(repr((seed, *names)).encode())


def _places(found: dict[Key, list[Series]]) -> list[tuple[Workload, int]]:
    places = {(workload, size) for _, workload, size in found}
    return [
        (work, size) for work in WORKLOADS.values()
        for size in sorted(size for name, size in places if name == work.name)
    ]  # fmt: skip


def analyse(target: str, boots: Sequence[Boot], seed: int) -> tuple[Figure, ...]:
    """All figures of a run; the same for the same boots and seed."""
    events, counts = _events(target, _sorted(boots, EVENTS))
    timed = [
        figure
        for kind in (TIME, MOCK, INSTRUCTIONS)
        for figure in _timed(target, kind, _sorted(boots, kind), seed, counts)
    ]
    counted = _sorted(boots, INSTRUCTIONS)
    return (*timed, *_booted(target, counted), *events, *_layouts(target, counted))


def _timed(
    target: str, kind: str, found: dict[Key, list[Series]], seed: int, counts: dict[Key, float]
) -> list[Figure]:
    figures: list[Figure] = []
    # Only UML has a host, and calls it.
    hosted = any(any(one.host_ns) for series in found.values() for one in series)
    for work, size in _places(found):
        series = {
            name: found[name, work.name, size]
            for name in VARIANTS[kind]
            if (name, work.name, size) in found
        }
        samples = {
            name: [per_op(one, work) for one in those] for name, those in series.items()
        }  # fmt: skip
        metric = _UNITS[kind] + (_WITHOUT_HOST if work.host_excluded and hosted else "")
        figures += _compared(target, kind, work, size, metric, samples, seed, counts)
        for part in WORKLOADS.values():
            if part.kernel_of == work.name and part.on(target) and BASE in series:
                alone = _kernel_part(samples, series[BASE])
                figures += _compared(target, kind, part, size, metric, alone, seed, counts)
    return figures


def _kernel_part(
    samples: dict[str, list[list[float]]], base: list[Series]
) -> dict[str, list[list[float]]]:
    """What the kernel takes of a workload, whose programs do the same in user mode each time.

    The kernel knows by its ticks how much that is: a small error of it, the same in all variants,
    is better than one in each.
    """
    user = statistics.median(ns / one.ops for one in base for ns in one.stats[USER_STAT])
    return {
        name: [[max(value - user, _HALF) for value in boot] for boot in boots]
        for name, boots in samples.items()
    }


def _compared(
    target: str, kind: str, work: Workload, size: int, metric: str,
    samples: dict[str, list[list[float]]], seed: int, counts: dict[Key, float],
) -> Iterator[Figure]:  # fmt: skip
    """The figure of each variant at a place, compared with what it has to be compared with."""
    bases = dict(COMPARISONS)
    noise = _noise(samples, kind, _seed(seed, work.name, size, "noise"))
    for name, boots in samples.items():
        figure = Figure(
            target, kind, work.name, size, name, metric,
            statistics.median(one for boot in boots for one in boot),
            switches_per_op=counts.get((name, work.kernel_of or work.name, size)),
        )  # fmt: skip
        base = None if work.gauge else bases.get(name)
        if base in samples:
            figure = dataclasses.replace(figure, base=base)
            limit = work.limit_at(target, kind, size, name)
            if kind == INSTRUCTIONS:
                figure = _counted(figure, boots, samples[base], noise, limit)
            else:
                one_seed = _seed(seed, work.name, size, name)
                found_ratio = stats.median_ratio(boots, samples[base], seed=one_seed)
                figure = _estimated(figure, found_ratio, noise, limit)
        yield figure


def _noise(samples: dict[str, list[list[float]]], kind: str, seed: int) -> float:
    """How far a kernel differs from itself, as |ln ratio|: what no effect may hide behind."""
    if kind == INSTRUCTIONS:
        # Two boots of one variant agree to the instruction, or nearly; samples of one boot do not,
        # as ticks and what the kernel puts off fall into some of them.
        every = [(boot, boots[0]) for boots in samples.values() for boot in boots]
        return max(
            max(abs(math.log(statistics.median(boot) / statistics.median(first))), _quartiles(boot))
            for boot, first in every
        )
    if not {"pristine", "pristine-b"} <= samples.keys():
        return math.inf
    return stats.median_ratio(samples["pristine-b"], samples["pristine"], seed=seed).spread


def _quartiles(values: list[float]) -> float:
    """How far the middle half of some samples reaches, as ln of the ratio of its ends."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return math.log(high / low)


def _counted(
    figure: Figure,
    boots: list[list[float]],
    base: list[list[float]],
    noise: float,
    limit: float | None,
) -> Figure:
    """A ratio without an interval: it is exact up to `noise`."""
    value, before = statistics.median(boots[0]), statistics.median(base[0])
    ratio = value / before
    exact = stats.Estimate(ratio, ratio, ratio)
    verdict = None if limit is None else judge_count(value, before, noise, limit)
    return dataclasses.replace(
        figure, ratio=ratio, mark=stats.mark(exact, noise), limit=limit, verdict=verdict
    )


def judge_count(value: float, base: float, noise: float, most: float) -> str:
    """Whether instructions are within `most` times those of `base`: MET, MISSED, or UNDECIDED.

    What is less than half an instruction per operation is the clock's rounding and counts as none.
    UNDECIDED is what lies within `noise` (|ln ratio|) of the limit.
    """
    excess, doubt = value - most * base, noise * base
    if abs(excess) < _HALF and doubt < _HALF:
        return MET
    if excess + doubt <= 0:
        return MET
    return MISSED if excess > doubt else UNDECIDED


def _estimated(figure: Figure, found: stats.Estimate, noise: float, limit: float | None) -> Figure:
    least = 0.0
    if figure.variant == "off":
        least, limit = 1 / OFF_LIMIT, OFF_LIMIT
    return dataclasses.replace(
        figure, ratio=found.ratio, ci_low=found.low, ci_high=found.high,
        mark=stats.mark(found, noise), limit=limit,
        verdict=None if limit is None else judge(found, noise, least, limit),
    )  # fmt: skip


def _limited(figure: Figure, limit: float) -> Figure:
    """The figure with a demand on its ratio, or its value without one, that it meets or misses."""
    number = figure.value if figure.ratio is None else figure.ratio
    return dataclasses.replace(figure, limit=limit, verdict=MET if number <= limit else MISSED)


def judge(found: stats.Estimate, noise: float, least: float, most: float) -> str:
    """Whether a ratio lies between two limits: MET, MISSED, or UNDECIDED.

    It is decided only if the whole interval says so. It is met only if `noise` (|ln ratio|) is
    smaller than what the limit permits, and missed only by more than noise.
    """
    if (found.low > most or found.high < least) and abs(math.log(found.ratio)) > noise:
        return MISSED
    if least <= found.low and found.high <= most and noise < math.log(most):
        return MET
    return UNDECIDED


# === Boot and direct map =========================================================================


def _booted(target: str, found: dict[Key, list[Series]]) -> list[Figure]:
    """What a boot takes until its first program, against the pristine kernel."""
    on, pristine = (found.get((name, "boot", 0)) for name in ("on", "pristine"))
    if not on or not pristine:
        return []
    value, base = (statistics.median(ns for one in boots for ns in one.ns)
                   for boots in (on, pristine))  # fmt: skip
    ratio = value / base
    figure = Figure(
        target, INSTRUCTIONS, "boot", 0, "on", BOOT_METRIC, value, "pristine", ratio,
        mark="(R)" if ratio > 1 else "(I)",
    )  # fmt: skip
    return [_limited(figure, BOOT_LIMIT)]


def large_pages_lost(layout: dict[str, float], pristine: dict[str, float]) -> float:
    """Large pages of the direct map that `pristine` has and `layout` has not.

    One of 1 GiB that became 512 of 2 MiB is one.
    """
    split = max(0.0, pristine["direct_map_1g"] - layout["direct_map_1g"])
    small = pristine["direct_map_2m"] + 512 * split - layout["direct_map_2m"]
    return split + max(0.0, small)


def _layouts(target: str, found: dict[Key, list[Series]]) -> list[Figure]:
    """The pages of the direct map after boot and after a storm; what is lost of them, and may be.

    Only boots that count instructions have a pristine kernel to compare with.
    """
    figures = []
    for workload in ("boot", "storm"):
        series = {
            (name, size): one[0] for (name, work, size), one in found.items() if work == workload
        }
        for (name, size), one in series.items():
            layout = {metric: float(one.stats[metric][-1]) for metric in LAYOUT}
            figures += [
                Figure(target, EVENTS, workload, size, name, metric, value)
                for metric, value in layout.items()
            ]
            pristine = series.get(("pristine", size))
            if pristine is None or name == "pristine":
                continue
            before = {metric: float(pristine.stats[metric][-1]) for metric in LAYOUT}
            lost = large_pages_lost(layout, before)
            figure = Figure(target, EVENTS, workload, size, name, LOST, lost, "pristine")
            if name == "on":
                figure = _limited(figure, LARGE_PAGES_LOST + layout["pool_blocks"])
            figures.append(figure)
    return figures


# === Events ======================================================================================


def _events(target: str, found: dict[Key, list[Series]]) -> tuple[list[Figure], dict[Key, float]]:
    """The exact counts, and of these the switches per operation by place."""
    figures: list[Figure] = []
    switches: dict[Key, float] = {}
    for work, size in _places(found):
        for name in VARIANTS[EVENTS]:
            series = found.get((name, work.name, size), [])
            counts = _per_op(series)
            if "switches_pgtables" not in counts:
                continue
            writes = _WRITES_PER_RAISE * counts["switches_pgtables"]
            switches[name, work.name, size] = writes
            # Fork visits a table and its copy; unmapping empties a table and comes back to free it.
            tables = work.visits * counts["tables"]
            calls, pages = counts.get("tag_calls"), counts.get("ptps_tagged")
            values: dict[str, float | None] = {
                "switches_per_op": writes,
                "nested_guards_per_op": counts.get("guards_nested"),
                "tables_per_op": tables,
                "switches_per_table": writes / tables if tables else None,
                "tag_operations_per_op": calls,
                "tag_operations_per_1000_ptps": 1000 * calls / pages
                if calls is not None and pages else None,
            }  # fmt: skip
            figures += [
                _bounded(
                    Figure(target, EVENTS, work.name, size, name, metric, value,
                           switches_per_op=writes),
                    tables,
                )
                for metric, value in values.items()
                if value is not None
            ]  # fmt: skip
    return figures, switches


def _per_op(series: list[Series]) -> dict[str, float]:
    """Tables, and the statistics that all samples have, per operation."""
    ops = sum(one.ops * len(one.ns) for one in series)
    counted = [{"tables": one.tables, **one.stats} for one in series]
    names = set.intersection(*map(set, counted)) if counted else set()
    return {name: sum(sum(one[name]) for one in counted) / ops for name in names}


def _bounded(figure: Figure, tables: float) -> Figure:
    """The figure with what the project demands of it, if it does."""
    if figure.variant != "on":
        return figure
    if figure.metric == "switches_per_op" and figure.workload in BOUNDED and tables:
        return _limited(figure, bound(tables))
    if figure.metric == "switches_per_op" and figure.workload in SWITCHLESS:
        return _limited(figure, 0)
    if figure.metric == "tag_operations_per_1000_ptps" and figure.workload == "fork":
        return _limited(figure, TAGS_PER_1000)
    return figure
