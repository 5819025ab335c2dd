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

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.cost import tables
from redoubt.cost.figures import MET
from redoubt.cost.tables import Table
from redoubt.cost.workloads import EVENTS
from redoubt.linux import source
from redoubt.linux.source import Source
from redoubt.linux.topics import Topic
from redoubt.ship import commits, report, threats
from redoubt.ship.report import Results
from redoubt.ship.threats import Model

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
    parts = [commits.message(place / "COVER").splitlines()]
    for topic in chosen:
        if topic != alone:
            subject, _, text = commits.message(repo / "patches" / topic.name / "COVER").partition(
                "\n\n"
            )
            parts.append([*_heading(subject), *text.splitlines()])
    parts.append([*_heading("Base"), *_base(base)])
    if any(topic.name == _PAGE_TABLES for topic in chosen):
        model = threats.load(repo)
        parts.append([*_heading("Known ways around it"), *_open(model)])
        parts.append([*_heading("Out of scope"), *_out_of_scope(model)])
    parts.append([*_heading("Tests"), *_tests(results)])
    parts.append([*_heading("Costs"), *_costs(results)])
    lines = []
    for line in (line for part in parts for line in (*part, "")):
        lines.append(line.translate(_ASCII).rstrip())
        if not lines[-1].isascii():
            raise RedoubtError(f"a cover letter is ASCII; it cannot have this line: {line}")
    return "\n".join(lines)


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
    )


def _heading(title: str) -> list[str]:
    return [title, "=" * len(title), ""]


def _filled(text: str, begin: str = "") -> list[str]:
    """A paragraph, or one point of a list if it is to `begin` with a dash."""
    return textwrap.wrap(
        # A number and its unit stay together.
        " ".join(text.split()).replace(" %", f"{_FIXED}%"),
        _TEXT_WIDTH,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_long_words=False,
        break_on_hyphens=False,
    )


# === Base ========================================================================================


def _base(base: Source) -> Iterator[str]:
    if base.path == paths.build_dir() / "src":
        yield f"base-version: Linux {base.version}, Debian's package {source.PACKAGE}"
        why = "There is no base-commit, as a package has no history."
    else:
        yield f"base-version: Linux {base.version}, a tree given as LINUX_SRC"
        why = "There is no base-commit, as nothing else is known of that tree."
    yield ""
    yield from _filled(
        f"{why} It may differ from the tag of this version; the index lines of the mails name the "
        "blobs they were made on."
    )


# === Limits ======================================================================================


def _open(model: Model) -> Iterator[str]:
    """The ways around that are open."""
    found = [one for one in model.bypasses if one.status == threats.OPEN]
    if not found:
        yield "None."
    for one in found:
        yield from _filled(f"{one.title}: {one.why}", "- ")


def _out_of_scope(model: Model) -> Iterator[str]:
    for one in model.out_of_scope:
        yield from _filled(f"{one.title}: {one.why}", "- ")


# === Tests =======================================================================================


def _tests(results: Results) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    failed: list[str] = []
    # Packages are nobody's business there.
    runs = [one for one in results.runs if one.kind != report.PACKAGES]
    for one in runs:
        verdict = "" if one.ok else " It failed."
        yield from _filled(f"results/{one.file}: {one.words}.{verdict}", "- ")
    if runs:
        yield ""
    for run in results.tests:
        commit = f", last changed by commit {run.commit[:12]}" if run.commit else ""
        yield f"results/{run.file}{commit}"
        for entry in run.entries:
            place = (entry["target"], entry["variant"])
            suites = [one for one in entry["suites"] if not one["name"].startswith(_TOOL)]
            counts = [sum(one[name] for one in suites) for name in ("passed", "failed", "skipped")]
            rows.append((*place, *map(str, counts)))
            failed += [f"{' '.join(place)}: {one['name']}" for one in suites if one["failed"]]
    if not rows:
        yield "No results."
        return
    yield ""
    columns = ("target", "protection", "passed", "failed", "skipped")
    what = (
        "Tests of the kernel, in KUnit and outside of it; skipped are mostly those that only one "
        "of on and off can run; no kernel was booted for '-'."
    )
    yield from tables.text(Table("tests", what, columns, tuple(rows)), _TEXT_WIDTH)
    yield ""
    yield "Failed:" if failed else "None failed."
    for name in failed:
        yield from _filled(name, "- ")


# === Costs =======================================================================================


def _costs(results: Results) -> Iterator[str]:
    if not (results.benchmarks or results.linear_maps):
        yield "Nothing was measured."
    for legend in dict.fromkeys(tables.legend(found) for _, found in results.benchmarks):
        yield from (*_filled(legend), "")
    for name, found in results.benchmarks:
        yield from _origin(name, found.provenance)
        if found.quick:
            yield from ("", tables.NOT_PUBLISHABLE)
        for one in tables.counted(found):
            # Switches stand beside everything else.
            if one.heading != tables.heading(EVENTS, found.target):
                narrow = tables.only(one, _COLUMNS) if _COLUMNS[0] in one.columns else one
                yield from ("", *tables.text(narrow, WIDTH))
        yield from ("", *_demands(tables.targets(found)), "")
    for linear in results.linear_maps:
        yield from _origin(linear.file, linear.provenance)
        yield from ("", *tables.text(report.linear_map_table(linear), WIDTH), "")


def _origin(name: str, provenance: dict[str, object]) -> Iterator[str]:
    """Where a result comes from; the command in a line of its own, however long."""
    yield from _filled(f"results/{name}, on {report.origin(provenance)}:")
    yield f"    {provenance['command']}"


def _demands(one: Table) -> Iterator[str]:
    """What this project demands, and every demand that is not met."""
    rows = [dict(zip(one.columns, row, strict=True)) for row in one.rows]
    mocked = sum(row["verdict"] == _MOCKED for row in rows)
    others = [row for row in rows if row["verdict"] not in (MET, _MOCKED)]
    how = f", {mocked} of them with a mock" if mocked else ""
    yield f"Of {len(rows)} demands, {len(rows) - len(others)} are met{how}."
    for row in others:
        limit = f" demanded {row['demanded']}," if row["demanded"] else ""
        text = f"{row['target']} ({row['kind']}):{limit} found {row['found']}: {row['verdict']}"
        yield from _filled(text, "- ")
