# SPDX-License-Identifier: GPL-2.0-only
"""Exits of the restricted address space: reading what a guest counted, and judging it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.targets import UM, X86_64
from redoubt.trial.asi import asi, exits
from redoubt.trial.asi.exits import Report, Row


def line(operation: str, *, fault: int = 0, switch: int = 0, **other: int) -> str:
    left = fault + switch
    counts = {
        "enter": left, "reenter": 0, "exit_fault": fault, "exit_switch_mm": switch, "ibpb": left,
        "verw": left, "l1d": left, "unrestricted": 0,
    } | other  # fmt: skip
    words = " ".join(f"{name}={count}" for name, count in counts.items())
    return f"@exits: operation={operation} times=10 {words}"


GOOD = (
    *(line(operation) for operation in exits.NEVER),
    *(line(operation, fault=exits.FEW) for operation in exits.SELDOM),
    line("fork", fault=90, switch=20),
)


def test_rows() -> None:
    rows = exits.parse(["Run /init", *GOOD, "@exits: operation=half times=3", "exits: no"])
    assert [row.operation for row in rows] == [*exits.NEVER, *exits.SELDOM, "fork"]
    assert rows[-1].times == 10
    left = {reason: n for reason, n in rows[-1].exits.items() if n}
    assert left == {"exit_fault": 90, "exit_switch_mm": 20}
    assert not list(exits.judge(rows))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (line("threads", switch=1), "threads: {'exit_switch_mm': 1}, expected none"),
        (line("fork", unrestricted=2), "fork: user mode was not restricted 2 times"),
        (line("cow-fault", fault=17), "cow-fault: {'exit_fault': 17}, expected 16 at most"),
        (line("fork", fault=3, switch_mm=2), "fork: 3 flushes ibpb, expected 5"),
        (line("fork", fault=3, ibpb=2), "fork: 2 flushes ibpb, expected 3"),
        (line("fork", fault=3, reenter=1), "fork: 3 flushes verw, expected 4"),
    ],
)
def test_what_must_not_be(more: str, said: str) -> None:
    assert said in list(exits.judge(exits.parse([*GOOD, more])))


def test_what_was_not_counted() -> None:
    rows = exits.parse(GOOD)
    assert list(exits.judge(rows[1:])) == [f"{exits.NEVER[0]} was not counted"]
    operations = (*exits.NEVER, *exits.SELDOM)
    (said,) = exits.judge(exits.parse([line(operation) for operation in operations]))
    assert "no operation has left" in said


def test_for_people_and_others() -> None:
    rows = exits.parse(GOOD)
    text = list(exits.render(Report(rows, ("so it is",))))
    assert text[-2].split() == ["fork", "asi=on", "10", "90", "20", "0", "0", "0"]
    assert text[-1] == "WRONG: so it is"
    value = Report(rows, ()).as_json()
    assert value["ok"] and value["rows"][-1]["exit_fault"] == 90
    assert not replace(Report(rows, ()), problems=("x",)).ok
    assert Row({}, "x", 1).exits == dict.fromkeys(exits.REASONS, 0)


# === In other ways, and what it takes ============================================================


def test_without_isolation_nothing_leaves() -> None:
    lines = [
        f"@exits: operation={name} times=10 nr_tlb_local_flush_one=7 ipi=0"
        for name in (*exits.NEVER, *exits.SELDOM)
    ]
    rows = exits.parse(lines, exits.OFF)
    assert not list(exits.judge(rows))
    assert list(exits.judge(rows[:-1])) == [f"{exits.SELDOM[-1]} was not counted"]
    assert rows[0].events == {"CR3 writes": 0, "INVLPGs": 0.7, "IPIs": 0, "IBPBs": 0}
    # There are no exits to be shown.
    assert len(list(exits.render(Report(rows, ())))) == 1


def leaving(fault: int, ephmap: int = 0) -> tuple[Row, ...]:
    others = (name for name in exits.NEVER if name not in exits.FILES)
    lines = [
        *map(line, others),
        *(line(name, fault=10_000) for name in exits.SELDOM),
        *(line(name, fault=fault, ephmap=ephmap) for name in exits.FILES),
    ]
    return exits.parse(lines, exits.LEAVING)


def test_without_windows_files_leave() -> None:
    assert not list(exits.judge(leaving(10)))
    for rows in (leaving(9), leaving(10, ephmap=1)):
        said = list(exits.judge(rows))
        assert [words.partition(":")[0] for words in said] == list(exits.FILES)
    # With windows that is wrong.
    said = list(exits.judge([replace(row, way=exits.ON) for row in leaving(10)]))
    assert [words.partition(":")[0] for words in said] == [*exits.SELDOM, *exits.FILES]


@pytest.mark.parametrize(
    ("fault", "ephmap", "way", "wrong"),
    [
        (1, 20, exits.ON, False),
        (2, 20, exits.ON, True),
        (0, 9, exits.ON, True),
        (20, 0, exits.LEAVING, False),
    ],
)
def test_threads_on_several_cpus_have_windows(
    fault: int, ephmap: int, way: str, wrong: bool
) -> None:
    rows = exits.parse([line(exits.THREADS, fault=fault, ephmap=ephmap)], way)
    assert bool(list(exits.judge_threads(rows))) == wrong


def test_threads_have_to_be_counted() -> None:
    assert list(exits.judge_threads(())) == [f"{exits.THREADS} was not counted"]


def test_what_takes_time_elsewhere() -> None:
    (row,) = exits.parse(
        [line("fork", fault=30, switch=20, switch_mm=5, ibpb=55, ephmap_page=3, ipi=10)]
    )
    # Left by a fault and entered again: two writes. Those of no process are not isolation's alone.
    assert row.events == {"CR3 writes": 8, "INVLPGs": 0.3, "IPIs": 1, "IBPBs": 5.5}
    head, text = exits.render_events(Report((row,), ()))
    assert head.split()[-2:] == ["IPIs", "IBPBs"]
    assert text.split() == ["fork", "asi=on", "5", "8", "0.3", "1", "5.5"]


def test_only_who_has_isolation_is_asked() -> None:
    asi.needs(X86_64)
    with pytest.raises(RedoubtError, match="um has no address space isolation"):
        asi.needs(UM)
