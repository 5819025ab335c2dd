# SPDX-License-Identifier: GPL-2.0-only
"""Tables of published figures with ours beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from redoubt.cost import published, tables
from redoubt.cost.figures import MET, MISSED, UNDECIDED
from redoubt.cost.published import Place, Source
from redoubt.cost.published import Row as Published
from redoubt.cost.tables import Row, Table
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MOCK, WORKLOADS
from redoubt.trial.asi import exits

if TYPE_CHECKING:
    from redoubt.ship.report import Results

COLUMNS = (
    "published", "ours", "published change", "kind", "our change", "register writes/op", "verdict",
    "file",
)  # fmt: skip
LEGEND = (
    "A figure of ours is met if it is not above the published change, and decided as a demand is, "
    "with the change that the pristine kernel shows against itself (A/A); a published change below "
    "zero demands none. All published figures are times. Ours are of the kind that the row names: "
    "instructions show how much longer the code is, and a mock about what it takes, and no silicon "
    "has confirmed either. In brackets behind the writes of the pkey register: the part of the "
    "operation that they alone take."
)
NOT_YET = "not measured yet"


def compared(results: Results) -> list[Table]:
    """A table for each source, the figures of ours beside each of its rows."""
    return [
        Table("published", _heading(source), COLUMNS, tuple(_rows(source, results)))
        for source in published.load()
    ]


def verdicts(made: list[Table]) -> dict[str, int]:
    """How many of our figures are met, undecided, or missed."""
    ends = [row[-2].removesuffix(" (mock)") for table in made for row in table.rows]
    return {name: ends.count(name) for name in (MET, UNDECIDED, MISSED)}


def _heading(source: Source) -> str:
    return f"{source.by}, “{source.title}” ({source.machine}; {source.method})"


def _rows(source: Source, results: Results) -> Iterator[Row]:
    for row in source.rows:
        for place in row.ours:
            start = (row.name, f"{place.target}: {place.title}".removesuffix(": "), _change(row))
            for end in _beside(row, place, results):
                yield (*start, *end)


def _change(row: Published) -> str:
    text = f"{row.percent:+g} %" if row.percent else "~0 %"
    if row.throughput:
        text += f" (time {tables.change(row.ratio)})"
    return text if row.before is None else f"{text} ({row.before:+g} %)"


def _beside(row: Published, place: Place, results: Results) -> Iterator[Row]:
    """Kind, change, writes of the register, verdict and file of each of our figures at a place."""
    found: list[Row] = []
    if place.workload:
        found = list(_benchmarks(row, place, results))
    elif place.mapped_in:
        found = list(_linear_maps(row, place, results))
    elif not place.lacking:
        found = list(_counts(place, results))
    if found:
        yield from found
        return
    lacking = place.lacking
    if place.workload and not WORKLOADS[place.workload].on(place.target):
        lacking = f"{place.target} has no such workload"
    yield ("-", "-", "-", f"not here: {lacking}" if lacking else NOT_YET, "-")


def _benchmarks(row: Published, place: Place, results: Results) -> Iterator[Row]:
    newest: dict[str, tuple[str, Row]] = {}
    for file, report in results.benchmarks:
        date = report.provenance["date"]
        for figure in place.figures(report):
            if figure.kind in newest and newest[figure.kind][0] > date:
                continue
            writes = tables.count(figure.switches_per_op)
            alone = published.writes_alone(figure, report)
            if alone is not None:
                writes += f" ({tables.change(1 + alone)})"
            change = tables.cell(figure)
            if again := published.control(figure, report):
                change += f", A/A {tables.interval(again)}"
            verdict = published.judge_beside(row, figure, report)
            verdict += " (mock)" if figure.kind == MOCK else ""
            newest[figure.kind] = date, (
                tables.SHORT[figure.kind], change, writes,
                verdict, file,
            )  # fmt: skip
    for _, cells in newest.values():
        yield cells


def _linear_maps(row: Published, place: Place, results: Results) -> Iterator[Row]:
    for one in results.linear_maps:
        for measured in one.rows:
            if (measured.memory_gib, measured.mapped_in) == (place.memory_gib, place.mapped_in):
                verdict = MET if measured.ratio <= row.most else MISSED
                change = tables.change(measured.ratio)
                yield (tables.SHORT[INSTRUCTIONS], change, "-", verdict, one.file)


def _counts(place: Place, results: Results) -> Iterator[Row]:
    for run in results.runs:
        fields = run.provenance
        if fields.get("target") != place.target:
            continue
        if place.exits and run.kind == "cpus" and fields["cpus"] == 1:
            words = _exits(place.exits, fields)
        elif place.flushes and run.kind == "targets":
            words = _flushes(place.flushes, fields)
        else:
            continue
        if words:
            yield (tables.SHORT[EVENTS], words, "-", "-", run.file)


def _exits(operation: str, fields: dict[str, Any]) -> str:
    for row in fields["rows"]:
        if (row["operation"], row["way"]) == (operation, exits.ON):
            left = sum(row[reason] for reason in exits.REASONS) / row["times"]
            return f"{tables.count(left)} exits, {tables.count(row['ibpb'] / row['times'])} IBPBs"
    return ""


def _flushes(operation: str, fields: dict[str, Any]) -> str:
    for one in fields["targets"]:
        if one["operation"] == operation:
            return f"{100 * one['share']:.2f} % of the flushes without the pool"
    return ""
