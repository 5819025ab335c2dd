# SPDX-License-Identifier: GPL-2.0-only
"""The text of a cover letter.

The prose of a topic stands in patches/TOPIC/COVER, that of the whole series in patches/COVER. The
rest comes from configs/threat-model.toml and from the files of results/, so that it says what runs
have shown and nothing else; the list of mails and the diffstat are git's.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from redoubt.core.errors import RedoubtError
from redoubt.cost import tables
from redoubt.cost.figures import MET, Report
from redoubt.cost.tables import Table
from redoubt.linux import source
from redoubt.linux.source import Source
from redoubt.linux.topics import Topic
from redoubt.linux.version import base_of
from redoubt.ship import commits, freshness, report, templates, threats
from redoubt.ship.report import Results

WITHOUT_RESULTS = "an installed tool has no results, which the cover letter tells"

# Mails are read in a terminal, and answered to.
WIDTH = 75
_TEXT_WIDTH = 72

# A space at which no line is broken.
_FIXED = "\u00a0"
# git declares no character set for a cover letter.
_SPELLED = {"µ": "u", "≤": "<=", "±": "+-", "\u2212": "-", "\u00d7": "x", "…": "..."}
_ASCII = str.maketrans({**_SPELLED, _FIXED: " "})

# Of the tables of a benchmark. A switch for each entry is there to compare with; nobody boots so.
_COLUMNS = ("workload", "size", "off/pristine", "on/off", "switches/op")

# The topic that the threat model is about, most of all.
_PAGE_TABLES = "kpkeys"
_MOCKED = f"{MET} (mock)"
# Suites that are about the tool.
_TOOL = "tool"


def letter(repo: Path, base: Source, names: Collection[str] = ()) -> str:
    """Subject and text of the cover letter of a repository, the same for the same files.

    With `names` it is that of these topics and those they need: of one topic its own, with the
    results that tell about it. Raises RedoubtError if a file it is made of is missing or not as
    expected, or has a character that a cover letter cannot carry.
    """
    chosen = commits.chosen(repo, names)
    asked = [topic for topic in chosen if topic.name in names]
    alone = asked[0] if len(asked) == 1 else None
    place = repo / "patches" / alone.name if alone else repo / "patches"
    results = _about(report.load(repo / "results"), asked)
    counts, failed = _tests(results)
    text = templates.render(
        "cover.txt.j2",
        message=commits.message(place / "COVER").strip(),
        needed=[_needed(repo, topic) for topic in chosen if topic != alone],
        base=base,
        packaged=source.is_packaged(base.path),
        commit=base_of(base.path),
        package=source.PACKAGE,
        model=threats.load(repo) if any(one.name == _PAGE_TABLES for one in chosen) else None,
        results=results,
        measured=freshness.line(results.origins, freshness.config(repo)),
        counts=counts,
        failed=failed,
        width=WIDTH,
        text_width=_TEXT_WIDTH,
        tables=tables,
        filled=_filled,
        origin=report.origin,
        shown=_shown,
        demands=_demands,
    )
    lines = [line.rstrip() for line in text.translate(_ASCII).splitlines()]
    if wrong := [line for line in lines if not line.isascii()]:
        raise RedoubtError(f"a cover letter is ASCII; it cannot have this line: {wrong[0]}")
    return "\n".join(lines) + "\n"


def _needed(repo: Path, topic: Topic) -> tuple[str, str]:
    subject, _, text = commits.message(repo / "patches" / topic.name / "COVER").partition("\n\n")
    return subject, text.strip()


def _about(results: Results, asked: Sequence[Topic]) -> Results:
    """The results that tell about these topics; all if there are none."""
    patterns = [pattern for topic in asked for pattern in topic.results]

    def wanted(name: str) -> bool:
        return not asked or any(fnmatch(name, pattern) for pattern in patterns)

    return replace(
        results,
        benchmarks=[one for one in results.benchmarks if wanted(one[0])],
        linear_maps=[one for one in results.linear_maps if wanted(one.file)],
        tests=[one for one in results.tests if wanted(one.file)],
        runs=[one for one in results.runs if wanted(one.file)],
        origins=[one for one in results.origins if wanted(one.file)],
    )


def _filled(text: str, begin: str = "") -> str:
    """A paragraph, or one point of a list if it is to `begin` with a dash."""
    return textwrap.fill(
        # A number and its unit stay together.
        " ".join(text.split()).replace(" %", f"{_FIXED}%"),
        _TEXT_WIDTH,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _tests(results: Results) -> tuple[Table, list[str]]:
    """How many tests of the kernel passed, by target and variant; and the suites that failed."""
    rows: list[tuple[str, ...]] = []
    failed: list[str] = []
    for entry in (entry for run in results.tests for entry in run.entries):
        place = (entry["target"], entry["variant"])
        suites = [one for one in entry["suites"] if not one["name"].startswith(_TOOL)]
        counts = [sum(one[name] for one in suites) for name in ("passed", "failed", "skipped")]
        rows.append((*place, *map(str, counts)))
        failed += [f"{' '.join(place)}: {one['name']}" for one in suites if one["failed"]]
    columns = ("target", "protection", "passed", "failed", "skipped")
    what = (
        "Tests of the kernel, in KUnit and outside of it; skipped are mostly those that only one "
        "of on and off can run; no kernel was booted for '-'."
    )
    return Table("tests", what, columns, tuple(rows)), failed


def _shown(found: Report) -> list[Table]:
    """The tables of a benchmark, those of its workloads with few columns."""
    return [
        tables.only(one, _COLUMNS) if _COLUMNS[0] in one.columns else one
        for one in report.shown(found)
    ]


def _demands(found: Report) -> Iterator[str]:
    """What this project demands, and every demand that is not met."""
    one = tables.targets(found)
    rows = [dict(zip(one.columns, row, strict=True)) for row in one.rows]
    mocked = sum(row["verdict"] == _MOCKED for row in rows)
    others = [row for row in rows if row["verdict"] not in (MET, _MOCKED)]
    how = f", {mocked} of them with a mock" if mocked else ""
    yield f"Of {len(rows)} demands, {len(rows) - len(others)} are met{how}."
    for row in others:
        limit = f" demanded {row['demanded']}," if row["demanded"] else ""
        text = f"{row['target']} ({row['kind']}):{limit} found {row['found']}: {row['verdict']}"
        yield _filled(text, "- ")
