# SPDX-License-Identifier: GPL-2.0-only
"""Prices of single operations, and what is predicted by them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.cost import prices
from redoubt.cost.figures import Figure, Report
from redoubt.cost.prices import Price
from redoubt.trial.asi import exits

SAID = [
    "@price: flush-page ops=10 ns=1000,800,900",
    "@price: ibpb absent: Operation not supported",
    "@price: counter ticks=250 ns=100",
    "@price: done",
]
KNOWN = {
    "off": {"switch": {"ns": 2.0, "ticks": 5.0}, "flush-page": {"ns": 90.0, "ticks": 225.0}},
    "on": {"switch": {"ns": 42.0, "ticks": 105.0}},
}
TIMES = {
    "fork 64 MiB": {"off": 400000.0, "on": 404000.0, "asi": 500000.0},
    "munmap 64 MiB": {"off": 400000.0},
    "pipe": {"off": 5000.0, "on": 5000.0},
}


def report(target: str = "x86_64") -> Report:
    """Counts of register writes."""
    made = (
        ("fork", 64 << 20, "on", "switches_per_op", 208.0),
        ("fork", 64 << 20, "on-unbatched", "switches_per_op", 65680.0),
        ("fork", 64 << 20, "on", "tables_per_op", 68.0),
        ("munmap", 64 << 20, "on", "switches_per_op", 250.0),
        # A gauge, and no operation.
        ("switch", 0, "on", "switches_per_op", 2.0),
    )
    figures = tuple(
        Figure(target, "events", name, size, variant, metric, value)
        for name, size, variant, metric, value in made
    )
    return Report({}, target, 1, 8, False, {}, figures, ())


def test_medians_in_ns_and_ticks() -> None:
    assert prices.parse(["something else", *SAID]) == {"flush-page": Price(90.0, 225.0)}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (SAID[:-1], "has no end"),
        ([], "has no end"),
        (SAID[:2] + SAID[3:], "how fast the counter is"),
        ([*SAID[:1], *SAID], "makes no sense: flush-page"),
        (["@price: flush-page ops=0 ns=1", *SAID], "makes no sense"),
        (["@price: flush-page ops=1 ns=", *SAID], "makes no sense"),
        (["@price: counter ticks=1 ns=0", *SAID], "makes no sense"),
    ],
)
def test_a_list_that_makes_no_sense(lines: list[str], why: str) -> None:
    with pytest.raises(RedoubtError, match=why):
        prices.parse(lines)


def test_a_register_write_is_half_of_what_protection_adds() -> None:
    assert prices.register_write(KNOWN) == (20.0, 50.0)
    assert prices.register_write({"on": KNOWN["on"]}) is None
    # The CPU has no keys.
    assert prices.register_write({"on": KNOWN["off"], "off": KNOWN["off"]}) is None


def test_a_prediction_beside_what_was_measured() -> None:
    assert prices.writes(report()) == {"fork 64 MiB": 208.0, "munmap 64 MiB": 250.0}
    made = prices.predicted(prices.writes(report()), KNOWN, TIMES)
    # 208 writes of 20 ns, and 4 µs that were measured.
    assert made.rows == (("fork 64 MiB", "208", "4160", "4000", "+1.0 %", "+1.0 %"),)


def test_tables_of_a_machine() -> None:
    value: dict[str, Any] = {"target": "x86_64", "silicon": True, "prices": KNOWN, "times": TIMES}
    priced, compared = prices.tables_of(value, [report("arm64"), report()])
    assert [row[1:] for row in priced.rows] == [("20.0", "50"), ("90.0", "225")]
    assert "WRMSR" in priced.rows[0][0] and "INVLPG" in priced.rows[1][0]
    assert compared.rows[0][0] == "fork 64 MiB"
    # Times of a virtual machine say nothing; nor do counts of another target.
    assert prices.tables_of({**value, "silicon": False}, [report()]) == [priced]
    assert prices.tables_of(value, [report("arm64")]) == [priced]
    # Results of an older image have no prices.
    del value["prices"]
    assert prices.tables_of(value, [report()]) == []


EXITS = (
    exits.Row({"exit_fault": 10, "enter": 10, "ibpb": 10}, "fault", 10),
    exits.Row({"nr_tlb_local_flush_one": 20}, "tmpfs-read", 10),
    exits.Row({"exit_fault": 9}, "fault", 10, exits.OFF),
)


def test_a_prediction_for_isolation() -> None:
    known = {"off": {"flush-page": {"ns": 90.0}, "load-root": {"ns": 200.0}, "ibpb": {"ns": 1e3}}}
    made = prices.isolated(EXITS, known).rows
    # An exit and an entry of 200 ns, and 1 µs; two pages of 90 ns.
    assert made == (("fault", "2", "0", "1", "1400"), ("tmpfs-read", "0", "2", "0", "180"))
    # With PCIDs, on a CPU that needs no barrier.
    made = prices.isolated(EXITS, {"off": {"keep-root": {"ns": 50.0}, "load-root": {"ns": 200.0}}})
    assert made.rows[0][-1] == "100"
    assert prices.isolated(EXITS, {}).rows == ()


def test_exits_that_are_kept_are_understood() -> None:
    kept = json.loads((paths.repo() / "results" / "exits-x86_64.json").read_text())
    events = {(row.operation, row.way): row.events for row in exits.rows_from_json(kept)}
    assert events["null-syscall", exits.ON]["CR3 writes"] == 0
    assert events["tmpfs-read", exits.LEAVING]["CR3 writes"] >= 2
    two = json.loads((paths.repo() / "results" / "exits-x86_64-2.json").read_text())
    assert exits.rows_from_json(two) == ()


def test_counts_that_are_kept_are_understood() -> None:
    kept = json.loads((paths.repo() / "results" / "bench-x86_64.json").read_text())
    figures = tuple(Figure(**row) for row in kept["results"])
    found = prices.writes(Report({}, "x86_64", 1, 8, False, {}, figures, ()))
    assert found["fork 64 MiB"] == 208 and found["vmalloc 256 pages"] == 6


def test_the_program_on_this_machine(tmp_path: Path) -> None:
    guest = paths.repo() / "guest"
    subprocess.run(
        ["make", "-s", "-C", guest, f"O={tmp_path}", "W=all", tmp_path / "prices"], check=True
    )
    done = subprocess.run([tmp_path / "prices"], capture_output=True, text=True, check=True)
    found = prices.parse(done.stdout.splitlines())
    # No name is unknown; a kernel without the benchmark has no prices.
    assert found.keys() <= prices.TITLES.keys()
    said = {line.split()[1] for line in done.stdout.splitlines()}
    assert said == {*prices.TITLES, "counter", "done"}
