# SPDX-License-Identifier: GPL-2.0-only
"""What is made of the counters of a guest with address space isolation."""

from __future__ import annotations

import pytest
from guests import ended

from redoubt.core.errors import RedoubtError
from redoubt.trial.asi import conversions
from redoubt.trial.asi.conversions import Report, Row


def look(allocated: int, converted: int, stalls: int = 0) -> list[str]:
    """What a guest prints of /proc/vmstat and of the counters of isolation."""
    return [
        "nr_free_pages 4711",
        f"pgalloc_dma {allocated // 2}",
        f"pgalloc_normal {allocated - allocated // 2}",
        f"allocstall_normal {stalls}",
        "oom_kill 0",
        f"to_sensitive {converted}",
        f"to_ordinary {2 * converted}",
        f"flushes {converted}",
        "refused 3",
        "exhausted 0",
    ]


def counted(*looks: list[str], isolated: bool = True, **how: int) -> list[Row]:
    lines = ["pgalloc_normal 99", *(line for one in looks for line in [*one, "something else"])]
    return list(conversions.rows_of(ended(lines, **how), 256, isolated))


def test_differences_are_counted() -> None:
    rows = counted(look(100, 5), look(2100, 6), look(4100, 10, 7))
    assert [row.workload for row in rows] == list(conversions.WORKLOADS)
    assert [row.allocated_pages for row in rows] == [2000, 2000]
    assert [row.stalls for row in rows] == [0, 7]
    assert rows[0].counts == {
        "to_sensitive": 1, "to_ordinary": 2, "flushes": 1, "refused": 0, "exhausted": 0,
    }  # fmt: skip
    assert [row.per_1000 for row in rows] == [pytest.approx(1.5), pytest.approx(6)]


def test_without_isolation_only_allocations_are_counted() -> None:
    row, _ = counted(look(0, 0), look(10, 0), look(20, 0), isolated=False)
    assert (row.allocated_pages, row.counts) == (10, {})
    text = list(conversions.render(Report((row,), ("so it is",))))
    assert "off" in text[1]
    assert text[-1] == "WRONG: so it is"


@pytest.mark.parametrize(
    ("looks", "status"),
    [
        ((look(0, 0), look(10, 0)), 0),
        ((look(0, 0), look(10, 0), look(20, 0)), 1),
        ((look(0, 0), look(0, 0), look(0, 0)), 0),
    ],
    ids=["half", "status", "no counters"],
)
def test_what_did_not_count_is_no_result(looks: tuple[list[str], ...], status: int) -> None:
    with pytest.raises(RedoubtError):
        counted(*looks, status=status)


def test_what_is_wrong_is_told_in_json() -> None:
    row = Row(dict.fromkeys(conversions.EVENTS, 1), 256, "stress", True, 1000, 0, 0)
    written = Report((row,), ("a complaint",)).as_json()
    assert not written["ok"]
    assert written["rows"][0]["to_sensitive"] == 1
    assert {"memory_mb", "workload", "asi", "allocated_pages", "stalls", "oom_kills"} < set(
        written["rows"][0]
    )
