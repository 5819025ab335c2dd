# SPDX-License-Identifier: GPL-2.0-only
"""Exits of the restricted address space: reading what a guest counted, and judging it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redoubt import asi, exits
from redoubt.errors import RedoubtError
from redoubt.exits import Report, Row
from redoubt.targets import UM, X86_64


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
    assert {reason: n for reason, n in rows[-1].exits.items() if n} == {
        "exit_fault": 90,
        "exit_switch_mm": 20,
    }
    assert not list(exits.judge(rows))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (line("threads", switch=1), "threads: {'exit_switch_mm': 1}, expected none"),
        (line("fork", unrestricted=2), "fork: user mode was not restricted 2 times"),
        (
            line("cow-fault", fault=exits.FEW + 1),
            "cow-fault: {'exit_fault': 17}, expected 16 at most",
        ),
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
    assert text[-2].split() == ["fork", "10", "90", "20", "0", "0", "0", "0"]
    assert text[-1] == "WRONG: so it is"
    value = Report(rows, ()).as_json()
    assert value["ok"] and value["rows"][-1]["exit_fault"] == 90
    assert not replace(Report(rows, ()), problems=("x",)).ok
    assert Row("x", 1, {}).exits == dict.fromkeys(exits.REASONS, 0)


def test_only_who_has_isolation_is_asked() -> None:
    asi.needs(X86_64)
    with pytest.raises(RedoubtError, match="um has no address space isolation"):
        asi.needs(UM)
