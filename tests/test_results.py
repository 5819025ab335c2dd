# SPDX-License-Identifier: GPL-2.0-only
"""Results in the formats of other tools, and the time that is left of a run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import REAL_BUILD

from redoubt.suite import as_junit, as_ktap
from redoubt.suite.pace import Left, Pace
from redoubt.suite.run import Item
from redoubt.trial import ktap
from redoubt.trial.case import FAILED, PASSED, SKIPPED, Case

CASES = (Case("one", PASSED), Case("two.#3\n", FAILED, "Expected 1\x1b\n< 2"), Case("x", SKIPPED))
ITEMS = [
    Item("tool", "-", 7, 0, 0, "", "-", seconds=3.21),
    Item("kpkeys pool (1 CPU)", "on", 1, 1, 1, "failed: two\nlog: f", "um", CASES),
    Item("attacks", "on", 0, 0, 2, "no\nkeys", "um"),
    Item("boot", "off", 1, 0, 0, "", "x86_64"),
]


def test_ktap() -> None:
    assert (
        as_ktap.render("um", ITEMS).decode()
        == """\
KTAP version 1
1..3
  KTAP version 1
  # Subtest: um -
  1..1
  ok 1 tool
ok 1 um -
  KTAP version 1
  # Subtest: um on
  1..2
    KTAP version 1
    # Subtest: kpkeys pool (1 CPU)
    1..3
    ok 1 one
    # Expected 1
    # < 2
    not ok 2 two. 3
    ok 3 x # SKIP
  # failed: two
  # log: f
  not ok 1 kpkeys pool (1 CPU)
  ok 2 attacks # SKIP no
not ok 2 um on
  KTAP version 1
  # Subtest: x86_64 off
  1..1
  ok 1 boot
ok 3 x86_64 off
"""
    )


@pytest.mark.guest
@pytest.mark.skipif(
    not (REAL_BUILD / "src/tools/testing/kunit/kunit_parser.py").exists(),
    reason="no source: redoubt source",
)
def test_the_kernels_own_parser_reads_it() -> None:
    text = as_ktap.render("um", ITEMS).decode()
    suites = ktap.parse(REAL_BUILD / "src", text.splitlines())
    assert [(one.name, one.passed, one.failed, one.skipped) for one in suites] == [
        ("um -", 1, 0, 0), ("um on", 1, 1, 2), ("x86_64 off", 1, 0, 0),
    ]  # fmt: skip
    assert not any(one.malformed for one in suites)
    names = [case.name for case in suites[1].cases]
    assert names == [*(f"kpkeys pool (1 CPU).{name}" for name in ("one", "two. 3", "x")), "attacks"]
    assert [case.outcome for case in suites[1].cases] == [PASSED, FAILED, SKIPPED, SKIPPED]


def test_junit() -> None:
    root = ElementTree.fromstring(as_junit.render("um", ITEMS))
    assert root.tag == "testsuites"
    assert [root.get(name) for name in ("tests", "failures", "skipped")] == ["6", "1", "2"]
    suites = {suite.attrib["name"]: suite for suite in root}
    assert list(suites) == ["tool", "kpkeys pool (1 CPU)", "attacks", "boot"]
    assert suites["tool"].attrib["time"] == "3.2"
    assert [test.attrib for test in suites["tool"].iter("testcase")] == [
        {"classname": "um.tool", "name": "tool"}
    ]
    pool = suites["kpkeys pool (1 CPU)"]
    assert [pool.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    one, two, skipped = pool.iter("testcase")
    assert one.attrib == {"classname": "um.on.kpkeys pool (1 CPU)", "name": "one"}
    assert not list(one)
    (failure,) = two
    assert (failure.tag, failure.get("message")) == ("failure", "Expected 1?")
    # XML has no escape character, and a file with one is refused.
    assert failure.text == "Expected 1?\n< 2"
    assert [child.tag for child in skipped] == ["skipped"]
    assert pool.findtext("system-out") == "failed: two\nlog: f"
    (attacks,) = suites["attacks"].iter("testcase")
    assert attacks[0].get("message") == "no"


def test_a_failure_that_no_case_tells_is_told() -> None:
    """A kernel dies in its third test: two have passed, and the suite has failed."""
    item = Item("pool", "on", 2, 1, 0, "died", "um", (CASES[0], CASES[0]))
    root = ElementTree.fromstring(as_junit.render("um", [item]))
    assert [root.get(name) for name in ("tests", "failures")] == ["3", "1"]
    assert root.findtext("testsuite/testcase/failure") == "died"
    text = as_ktap.render("um", [item]).decode()
    assert text.endswith("  # died\n  not ok 1 pool\nnot ok 1 um on\n")


def test_nothing_is_a_result_as_well() -> None:
    assert as_ktap.render("um", []) == b"KTAP version 1\n1..0\n"
    assert ElementTree.fromstring(as_junit.render("um", [])).get("tests") == "0"


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [(PASSED, (2, 0, 1)), (FAILED, (2, 1, 0)), (SKIPPED, (0, 0, 1)), (SKIPPED, (0, 0, 0))],
)
def test_how_an_item_ended(outcome: str, counts: tuple[int, int, int]) -> None:
    assert Item("x", "on", *counts).outcome == outcome
    assert replace(ITEMS[0], failed=1).outcome == FAILED


# === The time that is left =======================================================================


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path))
    return tmp_path


def run(build: Path, at_once: int, **seconds: float) -> None:
    made = Pace(list(seconds), at_once)
    for step, took in seconds.items():
        made.spend(step, took, True)
        made.end(step)
    made.keep()


def test_what_is_left(build: Path) -> None:
    assert Pace(["a"], 1).left() is None
    run(build, 1, a=100, b=200)
    pace = Pace(["a", "b"], 2)
    # The longest one is alone in the end.
    assert pace.left() == Left(200, False)
    assert Pace(["a", "b"], 1).left() == Left(300, False)
    pace.spend("b", 150, True)
    assert pace.left() == Left(100, False)
    # A step that takes longer than the last time has no more to go, as far as is known.
    pace.spend("a", 500, True)
    assert pace.left() == Left(50, False)
    pace.end("b")
    assert pace.left() == Left(0, False)
    pace.end("a")
    assert pace.left() is None
    assert Pace(["a", "new"], 1).left() == Left(100, True)


def test_what_is_remembered(build: Path) -> None:
    run(build, 1, a=100, b=200)
    pace = Pace(["a", "b", "c"], 1)
    pace.spend("a", 1, False)
    pace.end("a")
    pace.spend("b", 7, True)
    pace.end("b")
    # One that broke off took no time that tells something.
    pace.spend("c", 5, True)
    pace.keep()
    assert Pace(["a"], 1).left() == Left(100, False)
    assert Pace(["b"], 1).left() == Left(7, False)
    assert Pace(["c"], 1).left() is None


@pytest.mark.parametrize("text", ["", "[1]", '{"a": "x"}', '{"a": [1]}', "3"])
def test_a_record_that_is_none(build: Path, text: str) -> None:
    (build / "log").mkdir()
    (build / "log/steps.json").write_text(text)
    assert Pace(["a"], 1).left() is None
    run(build, 1, a=5)
    assert Pace(["a"], 1).left() == Left(5, False)


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (Left(20, False), "less than a minute left"),
        (Left(20, True), "more than a minute left"),
        (Left(95, False), "about 2 min left"),
        (Left(3600, True), "more than 60 min left"),
    ],
)
def test_words(left: Left, says: str) -> None:
    assert str(left) == says
