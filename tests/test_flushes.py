# SPDX-License-Identifier: GPL-2.0-only
"""Flushes of pages under KeyIDs: reading what a guest counted, and judging it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from guests import machine, say

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.machine.kernels import Workbench
from redoubt.targets import X86_64, X86_64_MKTME, Target, get_variant
from redoubt.trial.mktme import flushes
from redoubt.trial.mktme.flushes import AGAIN, FIRST, OFF, ON, Report, Row


def line(operation: str, phase: str, got: int, lost: int, **other: int) -> str:
    counts = {
        "instructions": 50, "flushed_for_keyid": got, "flushed_when_freed": lost,
        "flushed_ranges": got + lost, "flushed_all": 0, "pool_hits": 0,
        "pool_misses": got, "pool_pages": -3,
    } | other  # fmt: skip
    words = " ".join(f"{name}={count}" for name, count in counts.items())
    return f"@flushes: operation={operation} phase={phase} times=10 {words}"


BARE = tuple(line(name, phase, 100, 100) for name in ("fault", "build-like", "churn-5/8")
             for phase in flushes.PHASES)  # fmt: skip
POOLED = (
    line("fault", FIRST, 10, 0, pool_hits=90),
    line("fault", AGAIN, 0, 0, pool_hits=100),
    line("build-like", FIRST, 10, 0, pool_hits=90),
    line("build-like", AGAIN, 2, 0, pool_hits=98),
    line("churn-5/8", AGAIN, 20, 20, pool_hits=80, pool_refused=20),
)


def test_instructions_are_of_each_time() -> None:
    report = Report((*flushes.parse(BARE, OFF), *flushes.parse(POOLED)), ())
    assert list(flushes.render_instructions(report))[1].split() == ["fault", "5", "5"]


def test_rows() -> None:
    rows = flushes.parse(["Run /init", *POOLED, "@flushes: operation=half phase=first times=3"])
    assert len(rows) == len(POOLED)
    assert replace(rows[0], counts={}) == Row({}, "fault", FIRST, 10, ON)
    assert (rows[-1].flushed, rows[-1].counts["pool_refused"]) == (40, 20)
    assert "pool_pages" not in rows[-1].counts
    assert not list(flushes.judge(rows))


@pytest.mark.parametrize(
    ("lines", "way", "said"),
    [
        (POOLED[1:2], ON, "nothing was counted first"),
        (POOLED, OFF, "fault: 90 pages came from a pool that is off"),
        (
            (*POOLED, line("fork", FIRST, 3, 3, pool_misses=5)),
            ON,
            "fork: 3 pages were flushed to get a KeyID, 5 had to be",
        ),
        ((*POOLED, line("fork", FIRST, 0, 0)), ON, "fork: no memory under a KeyID was allocated"),
    ],
)
def test_what_must_not_be(lines: Sequence[str], way: str, said: str) -> None:
    assert said in list(flushes.judge(flushes.parse(lines, way)))


def test_aims() -> None:
    """A target is of what is done again, and one that is missed is said to be."""
    report = Report((*flushes.parse(BARE, OFF), *flushes.parse(POOLED)), ())
    assert [(aim.operation, aim.share, aim.met) for aim in report.aims] == [
        ("build-like", 0.01, True),
        ("churn-5/8", 0.2, False),
    ]
    assert report.ok
    assert report.as_json()["targets"][1]["met"] is False
    text = list(flushes.render(report))
    assert "MISSED: churn-5/8: 20.00% of the flushes are left, at most 5% were aimed at" in text
    assert text[1].split() == ["fault", "first", "10", "200", "10", "5.00%", "10", "0", "0"]


def made(target: Target = X86_64_MKTME) -> Workbench:
    return Workbench(machine(target).build, Path(), "emulated")


def test_both_ways_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    booted = say(monkeypatch, BARE, POOLED)
    report = flushes.run(made(), get_variant(X86_64_MKTME, "on"), 10, Silent())
    assert report.ok
    assert {row.way for row in report.rows} == {OFF, ON}
    assert all("mktme_anon=1" in one.args and one.count_instructions for one, _ in booted)
    assert [OFF in one.args for one, _ in booted] == [True, False]


def test_a_guest_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, BARE, outcome="panic")
    with pytest.raises(RedoubtError, match="6 operations were counted"):
        flushes.run(made(), get_variant(X86_64_MKTME, "on"), 10, Silent())


def test_other_machines_have_none() -> None:
    with pytest.raises(RedoubtError, match="no memory under KeyIDs"):
        flushes.run(made(X86_64), get_variant(X86_64, "on"), 10, Silent())
