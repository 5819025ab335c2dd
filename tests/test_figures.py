# SPDX-License-Identifier: GPL-2.0-only
"""From samples to figures, tables, plots, documents and the page."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import Done

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress, Silent
from redoubt.cost import bench, figures, plots, tables
from redoubt.cost.bench import Boot, Plan, Series, Way
from redoubt.cost.figures import MET, MISSED, UNDECIDED, Figure, Report
from redoubt.cost.stats import Estimate
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MIB, MOCK, TIME, VARIANTS, WORKLOADS
from redoubt.machine import provenance
from redoubt.ship import report
from redoubt.targets import UM

GIB = 1024 * MIB
ROUNDS = 8
# What each variant takes, as a factor of the pristine kernel.
COST = {
    "pristine": 1.0, "pristine-b": 1.0, "off": 1.0, "on-unbatched": 3.0, "on": 1.04, "asi": 1.02,
    "asi-leaving": 1.5,
}  # fmt: skip
ORIGIN: dict[str, Any] = {
    "machine": {"cpu": "A <CPU> & co", "cores": 2, "memory_mib": 4096, "pku": False,
                "kernel": "6.1.0", "compiler": "gcc 12", "qemu": None},
    "commit": "0123456789abcdef", "dirty": False, "command": "redoubt bench --json x",
    "date": "2026-01-02T03:04:05+00:00",
}  # fmt: skip


def series(name: str, size: int, ns: float, *, raised: int = 0, tags: int = 0) -> Series:
    work = WORKLOADS[name]
    noise = [1.0, 1.001, 0.999, 1.0005]
    host = 500_000 if work.host_excluded else 0
    return Series(
        name, size, 2, tuple(round(2 * ns * one) + host for one in noise), (host,) * 4, (0,) * 4,
        (132,) * 4, {"switches_pgtables": (2 * raised,) * 4, "guards_nested": (10,) * 4,
                     "tag_calls": (tags,) * 4, "ptps_tagged": (500,) * 4},
    )  # fmt: skip


def boots(kind: str, rounds: int = ROUNDS) -> Iterator[Boot]:
    places = [("fork", 64 * MIB), ("fork", GIB), ("munmap", GIB), ("vmalloc", 1)]
    for number in range(rounds):
        # Rounds drift apart by far more than what is to be found.
        drift = 1 + number / 10 if kind in (TIME, MOCK) else 1
        for place, name in enumerate(VARIANTS[kind]):
            raised = 5000 if name == "on-unbatched" else 100
            yield Boot(kind, number, place, name, tuple(
                series(workload, size, 1e6 * drift * COST[name], raised=raised, tags=1)
                for workload, size in places
            ))  # fmt: skip


def measure(plan: Plan, way: Way, progress: Progress) -> list[Boot]:
    rounds = {EVENTS: 1, INSTRUCTIONS: 2}.get(way.kind, plan.rounds)
    return list(boots(way.kind, rounds))


WAYS = [Way(TIME, None, "no PKU here"), Way(MOCK, "native"), Way(EVENTS, "emulated"),
        Way(INSTRUCTIONS, "emulated")]  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Report:
    plan = Plan(UM, tuple(WORKLOADS.values()), ROUNDS, 42)
    return figures.collect(plan, WAYS, ORIGIN, Silent(), measure=measure)


METRICS = {MOCK: "mock_ns_per_op", INSTRUCTIONS: "instructions_per_op", EVENTS: "switches_per_op"}


def figure(
    made: Report, kind: str, workload: str, size: int, variant: str, metric: str = ""
) -> Figure:
    place = (kind, workload, size, variant, metric or METRICS[kind])
    (found,) = (
        one for one in made.figures
        if (one.kind, one.workload, one.size, one.variant, one.metric) == place
    )  # fmt: skip
    return found


# === Figures =====================================================================================


def test_ratios_of_one_binary_and_of_the_hooks(made: Report) -> None:
    on, off, again, pristine, unbatched = (
        figure(made, MOCK, "fork", GIB, name)
        for name in ("on", "off", "pristine-b", "pristine", "on-unbatched")
    )
    assert (on.base, on.mark, on.limit, on.verdict) == ("off", "(R)", 1.02, MISSED)
    assert on.ratio == pytest.approx(1.04, abs=0.001)
    assert on.ci_low is not None and on.ci_high is not None
    assert 1.03 < on.ci_low <= on.ratio <= on.ci_high < 1.05
    # 100 times raised, and as often lowered.
    assert on.switches_per_op == 200
    assert (off.base, off.mark, off.limit, off.verdict) == ("pristine", "~", 1.01, MET)
    assert (again.base, again.mark, again.limit) == ("pristine", "~", None)
    assert (pristine.base, pristine.ratio, pristine.mark) == (None, None, None)
    assert unbatched.ratio == pytest.approx(3, abs=0.01)
    # The other size is not demanded.
    assert figure(made, MOCK, "fork", 64 * MIB, "on").limit is None


def test_calls_of_the_host_are_left_out(made: Report) -> None:
    off = figure(made, MOCK, "vmalloc", 1, "off", "mock_ns_per_op_without_host")
    # Drift of the middle rounds, 2 operations a sample.
    assert off.value == pytest.approx(1.35e6, rel=0.01)
    assert figures.per_op(series("vmalloc", 1, 1e6), WORKLOADS["vmalloc"])[0] == 1e6
    fork = dataclasses.replace(series("fork", GIB, 1e6), host_ns=(9,) * 4)
    assert figures.per_op(fork, WORKLOADS["fork"])[0] == 1e6


def test_only_who_has_a_host_leaves_it_out() -> None:
    some = [
        Boot(EVENTS, 0, 0, "on", (series("vmalloc", 1, 1e6, raised=3),)),
        *(
            Boot(INSTRUCTIONS, number, 0, name, (
                dataclasses.replace(series("vmalloc", 1, 1e6), host_ns=(0,) * 4),
            ))
            for number in range(2)
            for name in ("off", "on")
        ),
    ]  # fmt: skip
    found = figures.analyse("x86_64", some, 1)
    counted = {one.metric for one in found if one.kind == INSTRUCTIONS}
    assert counted == {"instructions_per_op"}
    made = Report(ORIGIN, "x86_64", 1, 2, True, {}, found, tuple(some))
    assert tables.table(made, INSTRUCTIONS).rows[0][:2] == ("vmalloc", "1 page")


def test_no_figure_of_one_kind_says_it_is_of_another(made: Report) -> None:
    units = {MOCK: "mock_ns", INSTRUCTIONS: "instructions", TIME: "ns"}
    for one in made.figures:
        if one.kind != EVENTS:
            assert one.metric.startswith(units[one.kind] + "_per_op")
    assert made.kinds == [MOCK, EVENTS, INSTRUCTIONS]


def test_a_gauge_is_compared_with_nothing() -> None:
    some = [
        Boot(
            TIME, number, 0, name, (dataclasses.replace(series("switch", 0, 20), tables=(0,) * 4),)
        )
        for number in range(2)
        for name in ("off", "on")
    ]
    found = figures.analyse("um", some, 1)
    assert [(one.variant, one.value, one.ratio, one.limit) for one in found] == [
        ("off", 20, None, None), ("on", 20, None, None),
    ]  # fmt: skip
    made = Report(ORIGIN, "um", 1, 2, True, {}, found, tuple(some))
    table = tables.table(made, TIME)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["off"], row["A/A"]) == ("20 ns", "-")
    # Only what was measured has a column.
    assert "off/pristine" not in row
    assert "on/off" in row
    assert not plots.plots(made)


def builds(variant: str, number: int, total: int, user: int) -> Boot:
    one = pc("kernbench", 0, total, user_ns=user, system_ns=total - user)
    return Boot(INSTRUCTIONS, number, 0, variant, (one,))


def test_the_part_of_the_kernel_in_a_build() -> None:
    # The ticks of one variant fell into user mode more often: its programs did not do more.
    made = [
        boot
        for number in range(2)
        for boot in (builds("pristine", number, 990, 795), builds("off", number, 1000, 800),
                     builds("on", number, 1010, 870))
    ]  # fmt: skip
    found = {(one.workload, one.variant): one for one in figures.analyse("x86_64", made, 1)}
    assert found["kernbench", "on"].ratio == pytest.approx(1.01)
    part = found["kernbench-system", "on"]
    assert (part.value, part.base, part.mark) == (210, "off", "(R)")
    assert part.ratio == pytest.approx(1.05)
    assert found["kernbench-system", "off"].ratio == pytest.approx(200 / 190)
    # Nothing to know it by.
    without = [boot for boot in made if boot.variant != "off"]
    assert {one.workload for one in figures.analyse("x86_64", without, 1)} == {"kernbench"}


def test_instructions_have_no_interval(made: Report) -> None:
    on = figure(made, INSTRUCTIONS, "fork", GIB, "on")
    assert on.ratio == pytest.approx(1.04, abs=0.001)
    assert (on.ci_low, on.ci_high, on.mark, on.limit) == (None, None, "(R)", None)
    off = figure(made, INSTRUCTIONS, "fork", GIB, "off")
    assert (off.ratio, off.mark) == (1, "~")


def test_boots_that_do_not_repeat_make_instructions_insignificant() -> None:
    one, other = list(boots(INSTRUCTIONS, 1)), list(boots(INSTRUCTIONS, 1))
    off = next(boot for boot in other if boot.variant == "off")
    changed = tuple(
        dataclasses.replace(s, ns=tuple(round(ns * 1.1) for ns in s.ns)) for s in off.series
    )
    other = [dataclasses.replace(boot, round=1, series=changed if boot is off else boot.series)
             for boot in other]  # fmt: skip
    found = figures.analyse("um", [*one, *other], 1)
    on = next(f for f in found if (f.variant, f.workload, f.size) == ("on", "fork", GIB))
    assert on.mark == "~"


def test_events(made: Report) -> None:
    on = figure(made, EVENTS, "fork", GIB, "on")
    # 132 tables in 2 operations, and as many that they are copied from.
    assert (on.value, on.limit, on.verdict) == (200, 4 * 132 + 16, MET)
    unbatched = figure(made, EVENTS, "fork", GIB, "on-unbatched")
    assert (unbatched.value, unbatched.limit) == (10000, None)
    for metric, value, limit in (
        ("tables_per_op", 132, None), ("nested_guards_per_op", 5, None),
        ("switches_per_table", 200 / 132, None), ("tag_operations_per_1000_ptps", 2, 6),
    ):  # fmt: skip
        one = figure(made, EVENTS, "fork", GIB, "on", metric)
        assert (one.value, one.limit, one.verdict) == (value, limit, limit and MET)
    assert figure(made, EVENTS, "vmalloc", 1, "on").limit is None


@pytest.mark.parametrize(
    ("value", "noise", "most", "expected"),
    [
        (1010, 0.0001, 1.01, MET),
        (1011, 0.0001, 1.01, MISSED),
        (1009, 0.002, 1.01, UNDECIDED),
        (1011, 0.002, 1.01, UNDECIDED),
        (1007, 0.002, 1.01, MET),
        # No instruction at all, but for what the clock rounds.
        (1000.3, 0.0001, 1.0, MET),
        (1001, 0.0001, 1.0, MISSED),
        (1000, 0.01, 1.0, UNDECIDED),
        (990, 0.001, 1.0, MET),
    ],
)
def test_verdicts_on_counts(value: float, noise: float, most: float, expected: str) -> None:
    assert figures.judge_count(value, 1000, noise, most) == expected


def pc(name: str, size: int, ns: int, **stats: int) -> Series:
    return Series(name, size, 1, (ns,), (0,), (0,), (0,), {k: (v,) for k, v in stats.items()})


def pc_boots(**on: int) -> list[Boot]:
    """A PC that boots in 100 instructions, and in how many with protection."""
    usual = {"direct_map_4k": 512, "direct_map_2m": 639, "direct_map_1g": 1, "pool_blocks": 0}
    protected = {**usual, "pool_blocks": 2, **on}
    made = []
    for number in range(2):
        for name in VARIANTS[INSTRUCTIONS]:
            layout = protected if name == "on" else usual
            took = protected.get("took", 129) if name == "on" else 100
            counted = {k: v for k, v in layout.items() if k != "took"}
            made.append(Boot(INSTRUCTIONS, number, 0, name, (
                pc("boot", 0, took, **counted), pc("storm", 64, 1000, **counted),
                pc("null-syscall", 0, 500), pc("fork", 64 * MIB, 1010 if name == "on" else 1000),
            )))  # fmt: skip
    return made


def test_limits_of_counts_are_those_of_their_target() -> None:
    found = {
        one.workload: (one.limit, one.verdict)
        for one in figures.analyse("x86_64", pc_boots(), 1)
        if one.variant == "on" and one.metric == "instructions_per_op"
    }
    assert found["fork"] == (1.01, MET)
    assert found["null-syscall"] == (1.0, MET)
    assert found["storm"] == found["boot"] == (None, None)
    assert all(one.limit is None for one in figures.analyse("um", pc_boots(), 1)
               if one.metric == "instructions_per_op")  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "lost", "limit", "verdict"),
    [
        ({}, 0, 4, MET),
        ({"direct_map_2m": 636, "direct_map_4k": 2048}, 3, 4, MET),
        ({"direct_map_2m": 634}, 5, 4, MISSED),
        # One of 1 GiB became 512, of which one became 4 KiB pages.
        ({"direct_map_1g": 0, "direct_map_2m": 639 + 511}, 2, 4, MET),
        ({"direct_map_1g": 0, "direct_map_2m": 639}, 513, 4, MISSED),
        ({"direct_map_2m": 640}, 0, 4, MET),
        ({"direct_map_2m": 636, "pool_blocks": 0}, 3, 2, MISSED),
    ],
)
def test_large_pages_of_the_direct_map(
    changed: dict[str, int], lost: int, limit: int, verdict: str
) -> None:
    found = figures.analyse("x86_64", pc_boots(**changed), 1)
    those = [one for one in found if one.metric == figures.LOST and one.variant == "on"]
    assert [one.workload for one in those] == ["boot", "storm"]
    assert {(one.value, one.limit, one.verdict) for one in those} == {(lost, limit, verdict)}
    assert all(one.limit is None for one in found
               if one.metric == figures.LOST and one.variant != "on")  # fmt: skip


@pytest.mark.parametrize(("took", "verdict"), [(130, MET), (131, MISSED)])
def test_what_a_boot_may_take(took: int, verdict: str) -> None:
    found = figures.analyse("x86_64", pc_boots(took=took), 1)
    (boot,) = [one for one in found if one.metric == figures.BOOT_METRIC]
    assert (boot.value, boot.base, boot.ratio) == (took, "pristine", took / 100)
    assert (boot.limit, boot.verdict) == (1.3, verdict)
    # Without a pristine kernel there is nothing to demand.
    some = [one for one in pc_boots() if one.variant != "pristine"]
    metrics = {one.metric for one in figures.analyse("x86_64", some, 1)}
    assert not {figures.BOOT_METRIC, figures.LOST} & metrics


@pytest.mark.parametrize(("raised", "verdict"), [(0, MET), (1, MISSED)])
def test_a_system_call_switches_nothing(raised: int, verdict: str) -> None:
    one = pc("null-syscall", 0, 1, switches_pgtables=raised, guards_nested=0)
    found = figures.analyse("x86_64", [Boot(EVENTS, 0, 0, "on", (one,))], 1)
    (switches,) = [one for one in found if one.metric == "switches_per_op"]
    assert (switches.limit, switches.verdict) == (0, verdict)


def test_the_tables_of_a_pc() -> None:
    found = figures.analyse("x86_64", pc_boots(direct_map_2m=638), 1)
    made = Report(ORIGIN, "x86_64", 1, 8, False, {TIME: "no clock"}, found, tuple(pc_boots()))
    pages = tables.direct_map(made)
    assert pages is not None
    assert pages.rows[0] == ("pristine", "after boot", "512", "639", "1", "0", "-")
    assert ("on", "after a storm of forks", "512", "638", "1", "2", "1") in pages.rows
    assert tables.counted(made) == [tables.table(made, INSTRUCTIONS), pages]
    demanded = {row[0]: row[1:] for row in tables.targets(made).rows}
    assert demanded["boot, on/pristine"] == ("instructions", "≤ +30 %", "(R) +29.0 %", "met")
    assert demanded["null-syscall, on/off"] == ("instructions", "≤ +0 %", "~ +0.0 %", "met")
    assert demanded["storm 64 processes, large pages lost"] == ("events", "≤ 4", "1", "met")
    rows = {row[0]: row for row in tables.table(made, INSTRUCTIONS).rows}
    assert rows["fork"][-4:] == ("-", "≤ +1 %: met", "~ +0.0 %", "~ +0.0 %")
    # Only where there is such a variant.
    for name, last in (("asi-leaving", "asi/off"), ("asi", "target (on/off)")):
        without = dataclasses.replace(
            made, figures=tuple(one for one in found if not one.variant.startswith(name))
        )
        assert tables.table(without, INSTRUCTIONS).columns[-1] == last
    assert tables.legend(made) == tables.COUNTED_LEGEND
    block = report.benchmark_block(report.Results([("bench-x86_64.json", made)]))
    assert block.count("predict no silicon") == 1
    assert tables.LEGEND not in block
    assert "DirectMap" not in block and "Pages of the direct map" in block
    assert "Pages of the direct map" in report.page(report.Results([("x", made)]))
    assert list(plots.plots(made)) == [f"overhead-{INSTRUCTIONS}"]
    # Against the pristine kernel: no point beside those against off.
    without = dataclasses.replace(
        made, figures=tuple(one for one in found if one.metric != figures.BOOT_METRIC)
    )
    assert plots.plots(without) == plots.plots(made)


def test_too_many_switches_are_told() -> None:
    many = Boot(EVENTS, 0, 0, "on", (series("fork", GIB, 1, raised=273, tags=7),))
    found = {one.metric: one for one in figures.analyse("um", [many], 1)}
    assert (found["switches_per_op"].value, found["switches_per_op"].limit) == (546, 544)
    assert found["switches_per_op"].verdict == MISSED
    assert found["tag_operations_per_1000_ptps"].verdict == MISSED


def test_a_kernel_that_counts_nothing_has_no_events() -> None:
    bare = dataclasses.replace(series("fork", GIB, 1), stats={})
    assert figures.analyse("um", [Boot(EVENTS, 0, 0, "on", (bare,))], 1) == ()


def test_without_a_second_pristine_nothing_is_significant() -> None:
    some = [boot for boot in boots(TIME) if boot.variant != "pristine-b"]
    found = figures.analyse("um", some, 1)
    assert {one.mark for one in found} == {None, "~"}
    assert MET not in {one.verdict for one in found}


# What may not be slower, and what may be neither slower nor faster.
SLOWER, OTHER = (0, 1.02), (1 / 1.01, 1.01)


@pytest.mark.parametrize(
    ("low", "high", "noise", "limits", "expected"),
    [
        (0.99, 1.015, 0.005, SLOWER, MET),
        (1.021, 1.05, 0.005, SLOWER, MISSED),
        (1.01, 1.03, 0.005, SLOWER, UNDECIDED),
        # The method cannot tell 2 % from nothing.
        (0.99, 1.015, 0.03, SLOWER, UNDECIDED),
        (1.021, 1.05, 0.03, SLOWER, MISSED),
        (1.021, 1.05, 0.04, SLOWER, UNDECIDED),
        (0.995, 1.005, 0.001, OTHER, MET),
        (0.95, 0.98, 0.001, OTHER, MISSED),
        (1.02, 1.03, 0.001, OTHER, MISSED),
        (0.98, 1.005, 0.001, OTHER, UNDECIDED),
    ],
)
def test_verdicts(
    low: float, high: float, noise: float, limits: tuple[float, float], expected: str
) -> None:
    assert figures.judge(Estimate((low + high) / 2, low, high), noise, *limits) == expected


def test_a_machine_that_can_measure_nothing() -> None:
    plan = Plan(UM, (WORKLOADS["fork"],), ROUNDS, 1)
    with pytest.raises(RedoubtError, match="measured here: events: no keys; time: no PKU"):
        ways = [Way(EVENTS, None, "no keys"), Way(TIME, None, "no PKU")]
        figures.collect(plan, ways, ORIGIN, Silent(), measure=measure)


# === JSON ========================================================================================


def test_json(made: Report) -> None:
    text = figures.dumps(made.as_json())
    value = json.loads(text)
    # No noise is a number that JSON has not.
    assert value == json.loads(json.dumps(made.as_json(), allow_nan=False))
    # One line for each row and each boot.
    assert len(text.splitlines()) < len(made.figures) + len(made.boots) + 30
    assert {"machine", "commit", "dirty", "command", "date", "target", "seed", "rounds",
            "publishable", "missing", "results", "boots"} == value.keys()  # fmt: skip
    row = {"target", "kind", "workload", "size", "variant", "metric", "value", "base", "ratio",
           "ci_low", "ci_high", "mark", "switches_per_op", "limit", "verdict"}  # fmt: skip
    assert all(one.keys() == row for one in value["results"])
    assert value["missing"] == {TIME: "no PKU here"}


def test_a_report_survives_its_json_and_can_be_computed_again(made: Report) -> None:
    again = figures.from_json(json.loads(figures.dumps(made.as_json())))
    assert again == made
    assert figures.analyse(again.target, again.boots, again.seed) == made.figures
    # Fields may be added.
    value = made.as_json()
    value["results"][0]["later"] = value["later"] = 1
    assert figures.from_json(value) == made


@pytest.mark.parametrize("broken", [{}, {"results": []}, {"results": 3, "machine": {}}])
def test_json_of_something_else(broken: dict[str, Any]) -> None:
    with pytest.raises(RedoubtError, match="not the result of a benchmark"):
        figures.from_json(broken)


# === Tables ======================================================================================


def test_a_table_of_times(made: Report) -> None:
    table = tables.table(made, MOCK)
    assert "nothing was protected" in table.heading
    rows = {row[:2]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    fork = rows["fork", "1 GiB"]
    assert fork["off"] == "1.35 ms"
    assert re.fullmatch(r"\(R\) \+4\.0 % \[\+3\.\d, \+4\.\d\]", fork["on/off"])
    assert fork["A/A"].startswith("~ ")
    assert fork["switches/op"] == "200"
    assert fork["target (on/off)"] == "≤ +2 %: missed (mock)"
    assert rows["fork", "64 MiB"]["target (on/off)"] == ""
    text = tables.text(table)
    assert text[0] == table.heading
    assert len(text) == 3 + len(table.rows)
    # Columns stand below each other.
    column = text[2].index("size")
    assert all(line[column - 2 : column] == "  " for line in text[2:])


def test_tables_of_counts(made: Report) -> None:
    table = tables.table(made, EVENTS)
    rows = {row[:2]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    fork = rows["fork", "1 GiB"]
    assert (fork["switches/op, on"], fork["bound"], fork["tables"]) == ("200", "544", "132")
    assert fork["target"] == "switches ≤ 544: met, tag ops ≤ 6: met"
    assert rows["vmalloc", "1 page"]["bound"] == "-"
    instructions = tables.table(made, INSTRUCTIONS)
    assert "not time" in instructions.heading
    assert instructions.rows[0][2:] == (
        "1 M", "~ +0.0 %", "(R) +200.0 %", "(R) +4.0 %", "200", "", "(R) +2.0 %", "(R) +50.0 %",
    )  # fmt: skip


def test_the_demands_of_the_project(made: Report) -> None:
    rows = {(row[0], row[1]): row for row in tables.targets(made).rows}
    assert rows["fork 1 GiB, on/off", "time, mock"][2] == "≤ +2 %"
    assert rows["fork 1 GiB, on/off", "time, mock"][4] == "missed (mock)"
    assert rows["all of time", "time"][3:] == ("no PKU here", "not measurable here")
    assert rows["fork 1 GiB, switches/op", "events"][2:] == ("≤ 544", "200", "met")
    hooks = rows["all workloads, off/pristine", "time, mock"]
    assert hooks[2:] == ("± 1 %", "4 met", "met (mock)")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1.7, TIME, "1.7 ns"), (999.4, TIME, "999 ns"), (999.6, TIME, "1 µs"),
        (2_500_000, MOCK, "2.5 ms"), (3e9, TIME, "3 s"), (5e12, TIME, "5e+03 s"),
        (120, INSTRUCTIONS, "120"), (2_340_000, INSTRUCTIONS, "2.34 M"),
    ],
)  # fmt: skip
def test_amounts(value: float, kind: str, expected: str) -> None:
    assert tables.amount(value, kind) == expected


# === Plots =======================================================================================


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_plots(made: Report) -> None:
    found = plots.plots(made)
    assert list(found) == [
        f"overhead-{MOCK}", f"size-{MOCK}", f"overhead-{INSTRUCTIONS}", f"size-{INSTRUCTIONS}",
    ]  # fmt: skip
    assert all(min(size_of(png)) > 200 for png in found.values())
    assert plots.overhead(made, MOCK) == found[f"overhead-{MOCK}"]
    one_size = dataclasses.replace(
        made, figures=tuple(one for one in made.figures if one.size == GIB)
    )
    assert plots.by_size(one_size, MOCK) is None


# === README and docs/benchmarks.md ===============================================================


def test_the_tables_of_a_benchmark(made: Report) -> None:
    def block(*found: Report) -> str:
        return report.benchmark_block(report.Results([("bench-um.json", one) for one in found]))

    for said in ("(../results/bench-um.json)", "`redoubt bench --json x`", "commit 0123456789ab;",
                 "| fork | 1 GiB | 1.35 ms |"):  # fmt: skip
        assert said in block(made)
    assert "not publishable" not in block(made)
    assert "not publishable" in block(dataclasses.replace(made, quick=True))
    changed = dataclasses.replace(made, provenance={**ORIGIN, "dirty": True})
    assert "0123456789ab with changes" in block(changed)
    # The tables of two do not run together.
    lines = block(made, made).splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("From [results/")]
    assert len(starts) == 2
    assert (lines[starts[1] - 1], lines[starts[1] - 2][:2]) == ("", "| ")
    assert block(made, made).endswith("|\n")


def test_only_what_is_between_the_markers_changes() -> None:
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    new = report.with_block(text, "new\n", "x")
    assert new == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    assert report.with_block(new, "new\n", "x") == new


@pytest.mark.parametrize(
    "text",
    [
        "nothing", report.BEGIN, report.END, f"{report.END}{report.BEGIN}",
        f"{report.BEGIN}{report.BEGIN}{report.END}", f"{report.BEGIN}{report.END}{report.END}",
        f"{report.END}{report.BEGIN}{report.END}",
    ],
)  # fmt: skip
def test_markers_that_are_not_a_pair(text: str) -> None:
    with pytest.raises(RedoubtError, match=r"docs/some\.md"):
        report.with_block(text, "new", "docs/some.md")


def test_the_digest_has_every_demand() -> None:
    rows = (
        ("fork", "time, mock", "≤ +2 %", "~ +1.0 %", "undecided (mock)"),
        ("munmap", "time, mock", "≤ +1 %", "(R) +3.0 %", "missed (mock)"),
        ("exit", "time, mock", "≤ +1 %", "(R) +4.0 %", "missed (mock)"),
        ("fork, switches/op", "events", "≤ 288", "200", "met"),
        ("all of time", "time", "", "no keys", "not measurable here"),
    )
    demands = tables.Table("targets", "demanded", tables.TARGETS, rows)
    assert list(tables.digest(demands)) == [
        ("time, mock", "3", "0", "fork: ~ +1.0 % (≤ +2 %)",
         "munmap: (R) +3.0 % (≤ +1 %); exit: (R) +4.0 % (≤ +1 %)"),
        ("events", "1", "1", "", ""),
        ("time", "0", "0", "not measurable here: no keys", ""),
    ]  # fmt: skip


def test_the_digest_counts_what_the_tables_say(made: Report) -> None:
    rows = tables.targets(made).rows
    digest = list(tables.digest(tables.targets(made)))
    judged = [row for row in rows if row[-1] != figures.NOT_HERE]
    assert sum(int(row[1]) for row in digest) == len(judged)
    met = [row for row in judged if row[-1].removesuffix(" (mock)") == figures.MET]
    assert sum(int(row[2]) for row in digest) == len(met)
    found = report.Results([("bench-um.json", made)])
    block = report.benchmark_block(found)
    assert all(
        (f"| [{made.target}](../results/bench-um.json) | {row[0]} |" in block) == (row[1] != "0")
        for row in digest
    )
    sentence = f"- {len(met)} of {len(judged)} demands on cost are met, "
    assert sentence in report.readme_block(found)


def test_readme_says_what_protection_and_hooks_change_on_x86_64(made: Report) -> None:
    x86 = dataclasses.replace(
        made,
        target="x86_64",
        figures=(
            Figure("x86_64", INSTRUCTIONS, "fork", 64 << 20, "on", "instructions_per_op", 9.0,
                   "off", 1.004),
            Figure("x86_64", INSTRUCTIONS, "fork", GIB, "on", "instructions_per_op", 9.0,
                   "off", 1.5),
            Figure("x86_64", INSTRUCTIONS, "fault", 64 << 20, "off", "instructions_per_op", 9.0,
                   "pristine", 0.99),
        ),
    )  # fmt: skip
    on, off, _ = report.readme_block(report.Results([("x.json", x86)])).splitlines()
    assert "by +0.4 % in fork: " in on
    assert "by -1.0 % in fault (" in off


def test_the_documents_are_in_step_with_the_results() -> None:
    found = report.load(paths.results_dir())
    for name, block in report.blocks(found).items():
        text = (paths.repo() / name).read_text()
        assert report.with_block(text, block, name) == text, "run redoubt report --readme"
    # And what is committed follows from the samples beside it.
    for _, one in found.benchmarks:
        assert figures.analyse(one.target, one.boots, one.seed) == one.figures


# === The page ====================================================================================

TESTS = [{"target": "um", "variant": "on", "suites": [
    {"name": "kunit <x>", "passed": 7, "failed": 1, "skipped": 2}]}]  # fmt: skip


@pytest.fixture(scope="module")
def page_text(tmp_path_factory: pytest.TempPathFactory, made: Report) -> str:
    where = tmp_path_factory.mktemp("results")
    (where / "bench-um.json").write_text(figures.dumps(made.as_json()))
    (where / "test-long-um.json").write_text(json.dumps(TESTS))
    return report.page(report.load(where))


class Page(HTMLParser):
    """What a page refers to, and which elements it opens and closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "object", "base")
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "srcset", "action", "data", "poster"):
                self.references.append(value or "")
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_no_other_file(page_text: str) -> None:
    page = Page(page_text)
    assert not page.open
    links = [one.removeprefix("#") for one in page.references if one.startswith("#")]
    assert links == page.ids == ["summary", "published", "bench-um.json", "tests"]
    pictures = page.references[len(links) :]
    assert len(pictures) == 4
    assert all(one.startswith("data:image/png;base64,") for one in pictures)
    assert not re.search(r"https?://|@import|url\(", page_text)
    assert "prefers-color-scheme: dark" in page_text
    assert 'name="viewport"' in page_text


def test_the_page_says_where_everything_comes_from(page_text: str) -> None:
    text = Page(page_text).text
    for said in (
        "redoubt bench --json x", "0123456789abcdef", "A <CPU> & co, 2 cores", "8 rounds, seed 42",
        tables.HEADINGS[MOCK], tables.HEADINGS[EVENTS], tables.HEADINGS[INSTRUCTIONS],
        "kunit <x>", "7 passed, 1 failed, 2 skipped", "no PKU here", "not measurable here",
        "on a CPU whose protection keys enforce", "nothing is protected in such a run",
        "Exact, and the same on any machine", "an instruction is not a unit of time",
    ):  # fmt: skip
        assert said in text
    assert tables.NOT_PUBLISHABLE not in text


def test_attacks_come_first() -> None:
    suites = [
        {"name": name, "passed": 7, "failed": 0, "skipped": 2} for name in ("kunit", "attacks")
    ]
    tests = report.Tests("t.json", None, [{"target": "um", "variant": "on", "suites": suites}])
    page = Page(report.page(report.Results(tests=[tests])))
    assert page.ids == ["summary", "attacks", "tests"]
    assert "7 end as expected, 0 do not" in page.text


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("(R) +3.1 %", ""), ("(I) -3.1 %", "better"), ("≤ +10 %: met", "better"),
        ("≤ +10 %: met (mock)", "better"), ("≤ +10 %: missed (mock)", "worse"),
        ("missed", "worse"), ("failed", "worse"), ("passed", "better"), ("undecided", ""),
    ],
)  # fmt: skip
def test_only_a_missed_demand_is_red(text: str, tone: str) -> None:
    assert report._tone(text) == tone


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-1, 3, [-10, 0, 10]),
        (-7, 40, [-10, -5, 0, 5, 10, 20, 50]),
        (20, 300, [-10, 0, 20, 50, 100, 200, 500]),
    ],
)
def test_an_axis_has_a_mark_beyond_each_end(low: float, high: float, expected: list[int]) -> None:
    assert plots.ticks(low, high) == expected


def test_a_quick_run_is_marked_on_the_page(made: Report) -> None:
    only = tuple(one for one in made.figures if one.kind == EVENTS)
    quick = dataclasses.replace(made, quick=True, figures=only)
    assert tables.NOT_PUBLISHABLE in Page(report.page(report.Results([("x", quick)]))).text


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"results": []}', '[{"target": "um"}]'])
def test_results_that_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(RedoubtError, match="no results"):
        report.load(tmp_path)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(RedoubtError, match=r"x\.json"):
        report.load(tmp_path)


# Files of tests/results, and what is said of them.
DATA = Path(__file__).with_name("results")
RUNS = {
    "stress-um.json": "um (on), 1.5 minutes of stress-ng in 3 rounds: 9 checks of up to 70 page "
    "table pages, violations: 0, pages lost: 1",
    "mutate-um.json": "um, 3 of 5 places taken out: 2 noticed, 1 survived",
    "deb-x86_64-small.json": "x86_64, configuration small: linux-image-7 of 9 bytes; booted, "
    "protection active",
    "attack-arm64-plain.json": "leaked-level off: succeeded 20 times, on: blocked 20 times; "
    "sleeping-fault off: succeeded 20 times, on: blocked 20 times on arm64, flavour plain",
    "exits-x86_64.json": "x86_64 (on), 1 CPU: exits for each operation with asi=on: fork 1",
    "conversions-x86_64.json": "x86_64 (on): pageblocks that changed their kind with asi=on: 7 for "
    "1000 pages that were allocated in 112 MiB (stress), 2 allocations reclaimed",
    "flushes-x86_64-mktme.json": "x86_64-mktme (on), 256 MiB: flushes that the pool leaves: "
    "build-like 0.00%, churn-5/8 20.00% (missed)",
    "selftests-x86_64-bpf.json": "x86_64 (on), 2 of the kernel's tests: 7 parts pass on the "
    "pristine kernel as well; differs: bpf/ksyms, bpf/libarena parallel",
}


def run_of(name: str) -> dict[str, Any]:
    return {**ORIGIN, **json.loads((DATA / name).read_text())}


def test_runs_of_other_commands(tmp_path: Path) -> None:
    for name in RUNS:
        (tmp_path / name).write_text(json.dumps(run_of(name)))
    found = report.load(tmp_path)
    assert {one.file: one.words for one in found.runs} == RUNS
    text = Page(report.page(found)).text
    assert all(words in text for words in RUNS.values())
    wrong = {one.file for one in found.runs if not one.ok}
    assert wrong == {"stress-um.json", "selftests-x86_64-bpf.json"}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_which_something_is_missing(tmp_path: Path, name: str) -> None:
    left = run_of(name)
    del left["target"]
    (tmp_path / name).write_text(json.dumps(left))
    with pytest.raises(RedoubtError, match="is damaged"):
        report.load(tmp_path)


# === Provenance ==================================================================================


def test_where_a_result_comes_from() -> None:
    found = provenance.collect(["bench", "a b"])
    assert found["command"] == "redoubt bench 'a b'"
    assert found["machine"]["cores"] >= 1
    assert isinstance(found["machine"]["pku"], bool)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found["date"])


@pytest.mark.parametrize(
    ("argument", "public"),
    [
        ("results/x.json", "results/x.json"),
        ("/repo/results/x.json", "results/x.json"),
        ("--json=/repo/results/x.json", "--json=results/x.json"),
        ("/home/me/x.json", "x.json"),
        ("--json=/home/me/x.json", "--json=x.json"),
        ("../me/x.json", "x.json"),
        ("/repo/../home/x.json", "x.json"),
        ("/dev/stdout", "/dev/stdout"),
        ("init=/bin/sh", "init=/bin/sh"),
        ("kpkeys_pool.*", "kpkeys_pool.*"),
    ],
)
def test_a_command_is_kept_without_paths_of_the_machine(argument: str, public: str) -> None:
    assert provenance.public(argument, Path("/repo")) == public


def test_no_repository(tmp_path: Path) -> None:
    assert provenance.commit(tmp_path) == (None, None)
    (tmp_path / "file").touch()
    assert provenance.last_commit(tmp_path / "file") is None


def test_the_name_of_a_cpu(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Fast: 3 GHz\n\nmodel name\t: Other\n")
    assert provenance.cpu_model(file) == "Fast: 3 GHz"
    file.write_text("processor : 0\n")
    assert provenance.cpu_model(file)
    assert provenance.cpu_model(tmp_path / "none") == provenance.cpu_model(file)


# === The command line ============================================================================


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Plan]:
    """A machine on which everything is measured at once."""
    plans: list[Plan] = []

    def run(plan: Plan, way: Way, progress: Progress) -> list[Boot]:
        plans.append(plan)
        return measure(plan, way, progress)

    real = figures.collect
    monkeypatch.setattr(bench, "ways", lambda target: WAYS)
    monkeypatch.setattr(figures, "collect", lambda *words: real(*words, measure=run))
    monkeypatch.setattr(paths, "results_dir", lambda: tmp_path / "results")
    (tmp_path / "results").mkdir()
    return plans


def test_bench_and_report(call: Callable[..., Done], fake: list[Plan], tmp_path: Path) -> None:
    file = tmp_path / "results" / "bench-um.json"
    done = call(
        "bench", "um", "fork", "munmap", "--seed", "3", "--json", str(file),
        "--kind", "time", "--kind", "events", "--kind", "instructions",
    )  # fmt: skip
    assert (done.code, fake[0].seed, fake[0].rounds) == (0, 3, 8)
    assert [work.name for work in fake[0].works] == ["fork", "munmap"]
    for kind in (MOCK, EVENTS, INSTRUCTIONS):
        assert tables.HEADINGS[kind] in done.out
    assert tables.LEGEND in done.out
    assert tables.NOT_PUBLISHABLE not in done.out
    assert json.loads(file.read_text())["publishable"] is True
    names = {one.name for one in file.parent.iterdir()}
    assert names == {"bench-um.json"} | {
        f"bench-um-{which}-{kind}.png" for which in ("overhead", "size")
        for kind in (MOCK, INSTRUCTIONS)
    }  # fmt: skip

    page = tmp_path / "page.html"
    done = call("report", "--out", str(page))
    assert (done.code, done.out) == (0, f"{page}\n")
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("how", [["--quick"], ["--rounds", "4"]])
def test_few_rounds_are_not_publishable(
    call: Callable[..., Done], fake: list[Plan], tmp_path: Path, how: list[str]
) -> None:
    file = tmp_path / "x.json"
    done = call("bench", "um", *how, "--kind", "time", "--json", str(file))
    assert done.code == 0
    assert fake[0].rounds in (2, 4)
    assert tables.NOT_PUBLISHABLE in done.out
    assert json.loads(file.read_text())["publishable"] is False
    assert tables.HEADINGS[EVENTS] not in done.out


def test_readme_needs_a_result(call: Callable[..., Done], fake: list[Plan]) -> None:
    done = call("report", "--readme")
    assert done.code == 1
    assert "no results" in done.err


def test_an_unknown_workload_starts_nothing(call: Callable[..., Done], fake: list[Plan]) -> None:
    done = call("bench", "um", "spoon")
    assert done.code == 2
    assert "unknown workload 'spoon'" in done.err
    assert not fake
