# SPDX-License-Identifier: GPL-2.0-only
"""The tool's own tests, by pytest."""

from __future__ import annotations

import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from redoubt.core import paths
from redoubt.core.process import run_lines
from redoubt.suite.run import Item, Run, Skipped
from redoubt.trial.case import FAILED, PASSED, SKIPPED, Case


def unit(run: Run) -> Iterator[Item]:
    """Run the tool's own tests that boot nothing."""
    marks = "not guest and not network" + (" and not slow" if run.quick else "")
    # They share nothing but time.
    yield _pytest(run, "tool", "Testing the tool", marks, "-n", "auto")


def guests(run: Run) -> Iterator[Item]:
    """Run the tool's own tests that boot the kernel which is built by now."""
    yield _pytest(run, "tool, with guests", "Testing the tool with guests", "guest")


def _pytest(run: Run, label: str, title: str, marks: str, *options: str) -> Item:
    if not (paths.repo() / "tests").is_dir():
        raise Skipped(Item(label, "-", 0, 0, 1, "an installed tool has no tests of its own"))
    with (
        run.progress.step(title),
        tempfile.TemporaryDirectory(prefix="redoubt-") as name,
    ):
        report = Path(name) / "junit.xml"
        lines: list[str] = []
        ended = run_lines(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o",
             "console_output_style=classic", f"--junitxml={report}", "-m", marks, "-rs", *options,
             "tests"],
            lines.append,
            cwd=paths.repo(),
        )  # fmt: skip
        if not report.exists():
            said = "\n".join((f"pytest left no report ({ended})", *lines[-20:]))
            return Item(label, "-", 0, 1, 0, said)
        counts: Counter[str] = Counter()
        root = ElementTree.parse(report).getroot()
        for suite in root.iter("testsuite"):
            for kind in ("tests", "failures", "errors", "skipped"):
                counts[kind] += int(suite.get(kind, 0))
        total, skipped = counts["tests"], counts["skipped"]
        failed = counts["failures"] + counts["errors"]
        if not total or (ended.code and not failed):
            failed += 1
        detail = "\n".join(lines[-40:]) if failed else ""
        if skipped and not failed:
            detail = "\n".join(line for line in lines if line.startswith("SKIPPED"))
        return Item(
            label, "-", max(0, total - failed - skipped), failed, skipped, detail,
            cases=tuple(map(_case, root.iter("testcase"))),
        )  # fmt: skip


def _case(test: ElementTree.Element) -> Case:
    name = f"{test.get('classname')}.{test.get('name')}"
    for kind, outcome in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        if (found := test.find(kind)) is not None:
            return Case(name, outcome, found.get("message", ""))
    return Case(name, PASSED)
