# SPDX-License-Identifier: GPL-2.0-only
"""Published figures, and those of ours that stand beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Done

from redoubt.cli.common import Task
from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.cost import bench, figures, plots, published, tables
from redoubt.cost.bench import Plan, Way
from redoubt.cost.figures import MET, MISSED, UNDECIDED, Figure, Report
from redoubt.cost.published import Place
from redoubt.cost.published import Row as Published
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MIB, MOCK, TIME, WORKLOADS
from redoubt.ship import published as beside
from redoubt.ship import report
from redoubt.targets import TARGETS
from redoubt.trial.asi import exits

ORIGIN: dict[str, Any] = {
    "machine": {"cpu": "A CPU", "cores": 2, "memory_mib": 4096, "pku": False, "kernel": "6.1.0",
                "compiler": "gcc 12"},
    "commit": "0123456789abcdef", "dirty": False, "command": "redoubt bench um",
    "date": "2026-01-02T03:04:05+00:00",
}  # fmt: skip
FORK = Place("um", "fork", 1024 * MIB)
PLACES = [place for source in published.load() for row in source.rows for place in row.ours]


def a_figure(kind: str = MOCK, ratio: float = 1.02, **changed: Any) -> Figure:
    one = Figure("um", kind, "fork", 1024 * MIB, "on", "x_per_op", 1000 * ratio, "off", ratio)
    return replace(one, mark="(R)", **changed)


def a_report(*figures: Figure, target: str = "um", **origin: Any) -> Report:
    return Report({**ORIGIN, **origin}, target, 1, 8, False, {}, figures, ())


def again(kind: str, low: float, high: float) -> Figure:
    return replace(a_figure(kind, 1.0), variant="pristine-b", ci_low=low, ci_high=high)


# === The file ====================================================================================


def test_the_file_has_what_was_published() -> None:
    rows = {row.name: row for source in published.load() for row in source.rows}
    for name, percent, before in (
        ("kernbench, system", 3.2, 4.2), ("fork 1 GiB, h:0", 3.35, 221),
        ("fork 1 GiB, h:1", 7.0, 283), ("munmap 1 GiB, h:0", -0.3, 17),
        ("munmap 1 GiB, h:1", 8.1, 173), ("vmalloc fix_size_alloc_test, p:1", 12.6, 15.5),
        ("vmalloc fix_size_alloc_test, p:4", 9.1, 39), ("vm_map_ram_test", 27, 31),
        ("fio randread on tmpfs", -13.1, None), ("native kernel build", 7.6, None),
        ("native kernel build, without IBPB", 5.0, None), ("kernel build in a guest", 5.8, None),
        ("kernel build", 20, None),
    ):  # fmt: skip
        assert (rows[name].percent, rows[name].before) == (percent, before)
    assert all(source.by and source.title and source.method for source in published.load())
    assert all(row.ours for row in rows.values())


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_each_place_is_one_where_something_can_stand(place: Place) -> None:
    assert place.target in TARGETS
    told = [place.workload, place.mapped_in, place.exits, place.flushes, place.lacking]
    assert len([one for one in told if one]) == 1
    if place.workload:
        work = WORKLOADS[place.workload]
        counted = TARGETS[place.target].emulator
        assert work.on(place.target)
        assert place.size in (work.emulated if counted else work.sizes)
        assert place.variant in {variant.name for variant in TARGETS[place.target].variants}


def test_a_share_of_throughput_is_time_as_well() -> None:
    assert Published("x", -13.1, (), throughput=True).ratio == pytest.approx(1.151, abs=0.001)
    assert Published("x", 7.6, ()).ratio == pytest.approx(1.076)


def test_a_gain_is_demanded_only_where_it_is_the_point() -> None:
    assert Published("munmap", -0.3, (FORK,)).most == 1
    linear_map = Place("arm64", memory_gib=1, mapped_in="pages")
    assert Published("map", -33, (linear_map,)).most == pytest.approx(0.67)
    assert Published("vmalloc", 9.1, (FORK,)).most == pytest.approx(1.091)


# === Verdicts ====================================================================================


@pytest.mark.parametrize(
    ("ratio", "low", "high", "control", "verdict"),
    [
        (1.02, 1.01, 1.03, (0.99, 1.01), MET),
        (1.02, 1.01, 1.04, (0.99, 1.01), UNDECIDED),
        # The kernel differs from itself by as much as may be.
        (1.02, 1.01, 1.03, (0.9, 1.01), UNDECIDED),
        (1.06, 1.05, 1.07, (0.99, 1.01), MISSED),
        (1.06, 1.05, 1.07, (0.9, 1.01), UNDECIDED),
        (1.06, 1.03, 1.09, (0.99, 1.01), UNDECIDED),
    ],
)
def test_times_are_decided_by_their_intervals(
    ratio: float, low: float, high: float, control: tuple[float, float], verdict: str
) -> None:
    row = Published("fork", 3.35, (FORK,))
    one = a_figure(MOCK, ratio, ci_low=low, ci_high=high)
    made = a_report(one, again(MOCK, *control), again(TIME, 1, 1))
    assert published.judge_beside(row, one, made) == verdict
    # Without a pristine kernel nobody knows.
    alone = published.judge_beside(row, one, a_report(one))
    assert alone == UNDECIDED


@pytest.mark.parametrize(
    ("ratio", "mark", "percent", "verdict"),
    [
        (1.03, "(R)", 3.35, MET), (1.04, "(R)", 3.35, MISSED), (1.04, "~", 3.35, UNDECIDED),
        (1.001, "(R)", -0.3, MISSED), (1.0, "~", -0.3, MET), (0.99, "(I)", -2, MET),
    ],
)  # fmt: skip
def test_counts_are_decided_by_themselves(
    ratio: float, mark: str, percent: float, verdict: str
) -> None:
    one = replace(a_figure(INSTRUCTIONS, ratio), mark=mark)
    assert published.judge_beside(Published("x", percent, (FORK,)), one, a_report(one)) == verdict


def test_what_writes_of_the_register_take_alone() -> None:
    one = a_figure(MOCK, 1.1, switches_per_op=6.0)
    gauge = replace(a_figure(MOCK), workload="switch", size=0, ratio=None)
    prices = {"off": 1.0, "on": 51.0}
    price = [replace(gauge, variant=name, value=value) for name, value in prices.items()]
    # 6 writes of 25 each, of an operation of 1000.
    assert published.writes_alone(one, a_report(one, *price)) == pytest.approx(0.15)
    assert published.writes_alone(one, a_report(one)) is None
    assert published.writes_alone(a_figure(MOCK), a_report(one, *price)) is None
    # An instruction is no time.
    counted = [replace(figure, kind=INSTRUCTIONS) for figure in (one, *price)]
    assert published.writes_alone(counted[0], a_report(*counted)) is None


# === The tables ==================================================================================


def found(*benchmarks: tuple[str, Report], **others: Any) -> report.Results:
    return report.Results(list(benchmarks), **others)


def rows(results: report.Results, name: str, target: str = "um") -> list[tuple[str, ...]]:
    return [
        row for table in beside.compared(results) for row in table.rows
        if row[0] == name and row[1].startswith(target)
    ]  # fmt: skip


def test_each_row_is_there_whatever_was_measured() -> None:
    nothing = beside.compared(found())
    assert [table.columns for table in nothing] == [beside.COLUMNS] * len(published.load())
    shown = [row for table in nothing for row in table.rows]
    assert len(shown) == len(PLACES)
    for row, place in zip(shown, PLACES, strict=True):
        expected = f"not here: {place.lacking}" if place.lacking else beside.NOT_YET
        assert row[-2:] == (expected, "-")
    assert beside.verdicts(nothing) == {MET: 0, UNDECIDED: 0, MISSED: 0}


def test_a_time_beside_a_published_one() -> None:
    one = a_figure(MOCK, 1.02, ci_low=1.01, ci_high=1.03, switches_per_op=6.0)
    other = replace(one, variant="off", kind=EVENTS)
    results = found(("bench-um.json", a_report(one, again(MOCK, 0.99, 1.01), other)))
    assert rows(results, "fork 1 GiB, h:0") == [
        ("fork 1 GiB, h:0", "um: fork 1 GiB", "+3.35 % (+221 %)", "time, mock",
         "(R) +2.0 % [+1.0, +3.0], A/A [-1.0, +1.0]", "6", "met (mock)", "bench-um.json")
    ]  # fmt: skip
    assert beside.verdicts(beside.compared(results))[MET] == 1


def test_of_several_results_the_newest_counts() -> None:
    old, new = (a_figure(INSTRUCTIONS, ratio) for ratio in (1.5, 1.01))
    results = [
        ("a.json", a_report(new, date="2026-02-01")), ("b.json", a_report(old, date="2026-01-01")),
    ]  # fmt: skip
    for order in (results, results[::-1]):
        (row,) = rows(found(*order), "fork 1 GiB, h:0")
        assert row[-1] == "a.json"
    # Another kind is no newer one.
    timed = a_figure(TIME, 1.01, ci_low=1.0, ci_high=1.02)
    both = found(*results, ("c.json", a_report(timed, date="2026-03-01")))
    assert [row[3] for row in rows(both, "fork 1 GiB, h:0")] == ["instructions", "time"]


def test_a_share_of_throughput_beside_a_time() -> None:
    one = replace(a_figure(INSTRUCTIONS, 1.001), target="x86_64", workload="fio-randread",
                  size=64 * MIB, variant="asi")  # fmt: skip
    results = found(("x.json", a_report(one, target="x86_64")))
    (row, _) = rows(results, "fio randread on tmpfs", "x86_64")
    assert row[2:7] == (
        "-13.1 % (time +15.1 %)", "instructions", "(R) +0.1 %", "-", MET,
    )  # fmt: skip


def test_exits_and_flushes_stand_beside_as_events(tmp_path: Path) -> None:
    counted = {"times": 50, "way": exits.ON, "ibpb": 100, **dict.fromkeys(exits.REASONS, 0)}
    rows_of = [{**counted, "operation": name, "exit_fault": 25}
               for name in ("tmpfs-read", "build-like")]  # fmt: skip
    common = {**ORIGIN, "ok": True, "variant": "on"}
    for name, value in {
        "exits-x86_64.json": {"target": "x86_64", "cpus": 1, "rows": rows_of},
        "exits-x86_64-2.json": {"target": "x86_64", "cpus": 2, "rows": rows_of},
        "flushes-x86_64-mktme.json": {
            "target": "x86_64-mktme", "memory_mb": 1,
            "targets": [{"operation": "build-like", "share": 0.0125, "met": True}],
        },
    }.items():  # fmt: skip
        (tmp_path / name).write_text(json.dumps({**common, **value}))
    results = report.load(tmp_path)
    assert rows(results, "fio randread on tmpfs", "x86_64")[1][3:] == (
        "events", "0.50 exits, 2 IBPBs", "-", "-", "exits-x86_64.json",
    )  # fmt: skip
    assert len(rows(results, "native kernel build", "x86_64")) == 2
    assert rows(results, "kernel build", "x86_64-mktme")[1][3:] == (
        "events", "1.25 % of the flushes without the pool", "-", "-", "flushes-x86_64-mktme.json",
    )  # fmt: skip


def test_the_linear_map_stands_beside() -> None:
    results = report.load(paths.results_dir())
    (table,) = [one for one in beside.compared(results) if "linear map" in one.heading]
    of_pages = [row for row in results.linear_maps[0].rows if row.mapped_in == "pages"]
    shown = [row for row in table.rows if row[-1] == results.linear_maps[0].file]
    assert [row[4] for row in shown] == [tables.change(one.ratio) for one in of_pages]
    assert {row[-2] for row in shown} == {MET}


def test_the_page_begins_with_it() -> None:
    one = a_figure(MOCK, 1.02, ci_low=1.01, ci_high=1.03)
    results = found(("bench-um.json", a_report(one, again(MOCK, 0.99, 1.01))))
    block = report.benchmark_block(results)
    assert block.startswith("## Published beside ours\n\n1 of our figures are met, 0 are undecided")
    row = block.index("| met (mock) | [bench-um](../results/bench-um.json) |")
    assert row < block.index("## Demands") < block.index("From [results/bench-um.json]")
    page = report.page(results)
    assert page.index('id="published"') < page.index('id="bench-um.json"')


def test_published_points_stand_in_the_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    points = published.points("um")
    assert [(one.variant, one.percent) for one in points if one.place == ("vm_map_ram", 1)] == [
        ("on", pytest.approx(27)), ("on-unbatched", 31),
    ]  # fmt: skip
    isolated = [one for one in published.points("x86_64") if one.variant == "asi"]
    assert ("kernbench", 0) in {one.place for one in isolated}
    # How much less is done in a time is how much longer it takes.
    assert pytest.approx(15.07, abs=0.01) in [one.percent for one in isolated]

    def drawn(*figures: Figure) -> list[bytes]:
        made = [plots.overhead(a_report(*figures), MOCK)]
        with monkeypatch.context() as patch:
            patch.setattr(published, "points", lambda _: [])
            return [*made, plots.overhead(a_report(*figures), MOCK)]

    one = a_figure(MOCK, 1.02, ci_low=1.01, ci_high=1.03)
    with_points, without = drawn(one)
    assert with_points != without
    # Nothing is published of this, or of this variant.
    for other in (replace(one, workload="exit", size=64 * MIB), replace(one, variant="off")):
        with_points, without = drawn(other)
        assert with_points == without


# === Measuring them again ========================================================================


def test_exactly_what_stands_beside_is_measured() -> None:
    works = {work.name: work for work in published.works("um", published.load())}
    assert works["fork"].sizes == (1024 * MIB,)
    assert works["vmalloc"].sizes == (1, 4, 16, 64, 256)
    assert works["vm_map_ram"].sizes == (1,)
    # The price of a write of the register.
    assert works["switch"].sizes
    # A part is measured with the whole.
    assert works["kernbench"].sizes == (0,)
    assert not {"fault", "mprotect", "fork-large", "kernbench-system"} & works.keys()
    assert published.variants("um", published.load()) == (
        "pristine", "off", "on", "on-unbatched",
    )  # fmt: skip

    counted = {work.name: work for work in published.works("x86_64", published.load())}
    assert counted["fork"].emulated == counted["fork"].sizes == (1024 * MIB,)
    assert counted["fio-randread"].emulated == (64 * MIB,)
    variants = published.variants("x86_64", published.load())
    assert {"asi", "on", "on-unbatched"} < {*variants}
    assert "asi-leaving" not in variants


@pytest.mark.parametrize("target", ["um", "x86_64", "arm64"])
def test_every_row_of_a_target_gets_its_figure(target: str) -> None:
    kind = INSTRUCTIONS if TARGETS[target].emulator else MOCK
    asked = {
        (spec.workload, spec.size, variant)
        for work in published.works(target, published.load())
        for variant in published.variants(target, published.load())
        for spec in work.specs(kind, variant)
    }
    wanted = {(WORKLOADS[place.workload].kernel_of or place.workload, place.size, place.variant)
              for place in PLACES if place.target == target and place.workload}  # fmt: skip
    assert wanted
    assert wanted <= asked


def test_a_target_of_which_nothing_is_published() -> None:
    with pytest.raises(UsageError, match="no workload of x86_64-mktme") as caught:
        published.works("x86_64-mktme", published.load())
    assert caught.value.hint == "targets: um, x86_64, arm64"


def test_one_command_measures_them(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Plan] = []

    def collect(plan: Plan, *_: Any) -> Report:
        plans.append(plan)
        return a_report(a_figure(INSTRUCTIONS), target="x86_64")

    monkeypatch.setattr(bench, "ways", lambda target: [Way(INSTRUCTIONS, "emulated")])
    monkeypatch.setattr(figures, "collect", collect)
    monkeypatch.setattr(Task, "boots", lambda *_: None)
    assert call("bench", "--published", "x86_64").code == 0
    (plan,) = plans
    assert plan.works == published.works("x86_64", published.load())
    assert [one.name for one in plan.target.variants] == [
        *published.variants("x86_64", published.load())
    ]
    for more in ("fork", "--variant=on"):
        done = call("bench", "--published", "x86_64", more)
        assert done.code == 2
        assert "--published says itself" in done.err
    assert call("bench", "--published", "x86_64-mktme").code == 2
    assert len(plans) == 1
