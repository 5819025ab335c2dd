# SPDX-License-Identifier: GPL-2.0-only
"""KUnit results from a console, by the kernel's own parser (tools/testing/kunit)."""

from __future__ import annotations

import importlib
import io
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redoubt.trial.case import FAILED, PASSED, SKIPPED, Case

_FAILED = "EXPECTATION FAILED at "
_VERSION = "KTAP version 1"
# Lines of one failed test that are worth repeating.
_DIAGNOSTICS = 12
# Where a suite begins that debugfs runs: indented as in a whole run, after the time.
_RUN = re.compile(rf"^((?:\[[^]]*\] )?) {{4}}{_VERSION}$")
# Where a suite or a test with parameters begins, and where any test ends.
_BEGIN = re.compile(r"^(?:\[[^]]*\] )? *# Subtest: (\S+)$")
_END = re.compile(r"^(?:\[[^]]*\] )? *(?:not )?ok \d+ (?:- )?([^\s#]+)")
# A suite or a test that is named and not run.
_LISTED = re.compile(r"^(?:\[[^]]*\] )?([\w-]+(?:\.\S+)?)$")


@dataclass(frozen=True)
class Suite:
    """The counts of one test suite, the names of what failed in it, and what was said of that.

    So many of those that `failed` said nothing themselves: `malformed`. They are errors in the
    format, or tests without a result. `cases` are the tests that said how they ended.
    """

    name: str
    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()
    malformed: int = 0
    cases: tuple[Case, ...] = field(default=(), compare=False)


def listed(console: Sequence[str]) -> list[str]:
    """The tests that a kernel names when it is told to list and not to run them."""
    lines = itertools.dropwhile(lambda line: not line.endswith(_VERSION), console)
    matches = itertools.takewhile(bool, map(_LISTED.match, itertools.islice(lines, 1, None)))
    return [match[1] for match in matches if match and "." in match[1]]


@contextmanager
def _parser(kernel: Path) -> Iterator[Any]:
    """The parser of a kernel tree. It is no package, so it needs to be on the path."""
    directory = str(kernel / "tools/testing/kunit")
    sys.path.insert(0, directory)
    try:
        yield importlib.import_module("kunit_parser"), importlib.import_module("kunit_printer")
    finally:
        sys.path.remove(directory)


def _tests(test: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each test that has none within it, by its name."""
    name = f"{path}.{test.name}" if path else str(test.name)
    if not test.subtests:
        yield name, test
    for sub in test.subtests:
        yield from _tests(sub, name)


def _failures(test: Any) -> list[tuple[str, list[str]]]:
    """The name of each test that failed, and its diagnostic lines."""
    return [
        (name, one.log) for name, one in _tests(test) if one.counts.failed or one.counts.crashed
    ]


def _cases(suite: Any) -> tuple[Case, ...]:
    outcomes = {"SUCCESS": PASSED, "SKIPPED": SKIPPED, "FAILURE": FAILED, "TEST_CRASHED": FAILED}
    cases = []
    for name, one in _tests(suite):
        if one is not suite and (outcome := outcomes.get(one.status.name)):
            # One that passed provokes what it tests: its lines are no reason for anything.
            why = () if outcome == PASSED else one.log[:_DIAGNOSTICS]
            name = name.removeprefix(f"{suite.name}.")
            cases.append(Case(name, outcome, "\n".join(map(str.strip, why))))
    return tuple(cases)


def unfinished(console: Sequence[str]) -> tuple[str, str] | None:
    """The suite whose end is not on a console, and where in it the console ends.

    That is where a kernel hung or died: KUnit names a test only when it has ended.
    """
    running: list[str] = []
    last = ""
    for line in console:
        if match := _BEGIN.match(line):
            running.append(match[1])
            last = ""
        elif running and (match := _END.match(line)):
            last = match[1]
            if last == running[-1]:
                running.pop()
    if not running:
        return None
    return running[0], ".".join(running) + (f", after {last}" if last else ", in its first test")


def parse_runs(kernel: Path, console: Sequence[str]) -> list[Suite]:
    """The suites in a console log that were run one by one through debugfs.

    Each prints what it would print within a whole run. No such suite counts as a failure.
    """
    runs: list[list[str]] = []
    for line in console:
        if match := _RUN.match(line):
            runs.append([match[1] + _VERSION, match[1] + "1..1"])
        if runs:
            runs[-1].append(line)
    return [suite for run in runs or [[]] for suite in parse(kernel, run)]


def parse(kernel: Path, console: Sequence[str]) -> list[Suite]:
    """The suites in a console log.

    A crash, an error in the format, a suite without tests and a log without any KTAP count as a
    failure.
    """
    with _parser(kernel) as (parser, printer):
        test = parser.parse_run_tests(list(console), printer.Printer(False, io.StringIO()))
    suites = []
    for sub in test.subtests:
        counts = sub.counts
        failed = counts.failed + counts.crashed + counts.errors
        if counts.total() == 0:
            failed += 1
        found = _failures(sub)
        suites.append(
            Suite(
                sub.name, counts.passed, failed, counts.skipped,
                tuple(name for name, _ in found),
                tuple(line.strip() for _, log in found for line in log[:_DIAGNOSTICS]),
                counts.errors + counts.crashed,
                _cases(sub),
            )
        )  # fmt: skip
    if not any(suite.failed for suite in suites) and any(_FAILED in line for line in console):
        # KUnit forgets what failed in a test that is skipped afterwards.
        suites.append(Suite("kunit", 0, 1, 0, ("an expectation failed in a skipped test",)))
    if not suites:
        suites.append(Suite("kunit", 0, 1, 0, ("no test results on the console",)))
    elif test.counts.errors > sum(sub.counts.errors for sub in test.subtests):
        suites.append(Suite("kunit", 0, 1, 0, ("the test results are malformed",), (), 1))
    return suites


def incomplete(suites: Sequence[Suite]) -> bool:
    """Is a result missing, and nothing failed? Each later test of the suite is an error then."""
    failed = sum(suite.failed for suite in suites)
    return failed > 0 and failed == sum(suite.malformed for suite in suites)
