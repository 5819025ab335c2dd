# SPDX-License-Identifier: GPL-2.0-only
"""Whether the queue applies to a kernel: each patch, tried by patch on copies of its files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.linux import tree
from redoubt.linux.source import Source
from redoubt.linux.topics import touched
from redoubt.linux.tree import Queue

# From the best to the worst.
APPLIES = "applies"
OFFSET = "at an offset"
FUZZ = "with fuzz"
THERE = "there already"
FAILS = "fails"
# With the words for several.
_VERDICTS = {
    APPLIES: "apply exactly", OFFSET: OFFSET, FUZZ: FUZZ, THERE: THERE, FAILS: "fail",
}  # fmt: skip

# As many names of files say enough.
_SHOWN = 5

_FILE = re.compile(r"^(?:patching|checking) file (.+)$")
_LOST = re.compile(r"^can't find file to patch")
# A file that has the changes is skipped as a whole.
_SKIPPED = re.compile(r"^\d+ out of \d+ hunks? ignored")
_HUNK = re.compile(r"^(Hunk #\d+ (?:succeeded at .*(?:offset|fuzz)|FAILED).*?)\.?$")


@dataclass(frozen=True)
class Outcome:
    """A patch on a kernel: a verdict, and for each file that is concerned what patch says of it."""

    patch: str
    verdict: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The queue on a kernel, in comparison with another one that it was made for.

    `taken` are files of kernel/ whose names the new kernel has itself. `as_before` are patches that
    fare no better on the old one. `differing` of the `files` that the queue changes are not the
    same in both.
    """

    old: str
    new: str
    outcomes: tuple[Outcome, ...]
    taken: tuple[str, ...]
    as_before: frozenset[str]
    differing: tuple[str, ...]
    files: int

    @property
    def ok(self) -> bool:
        """True if `tree.materialise` takes the new kernel: all applies, exactly where it says."""
        return not self.taken and all(one.verdict == APPLIES for one in self.outcomes)


def compare(old: Source, new: Source, ours: Queue) -> Report:
    """Try a queue on two kernels, of which the first is the one that it should apply to."""
    before = {one.patch: one.verdict for one in outcomes(old.path, ours)}
    found = tuple(outcomes(new.path, ours))
    names = [name for name in tree.touched_by(ours) if name not in ours.files]
    return Report(
        old.version,
        new.version,
        found,
        tuple(name for name in ours.files if (new.path / name).exists()),
        frozenset(one.patch for one in found if one.verdict == before[one.patch] != APPLIES),
        tuple(name for name in names if not _same(old.path / name, new.path / name)),
        len(names),
    )


def _same(one: Path, other: Path) -> bool:
    if not (one.is_file() and other.is_file()):
        return one.is_file() == other.is_file()
    return one.read_bytes() == other.read_bytes()


def outcomes(kernel: Path, ours: Queue) -> Iterator[Outcome]:
    """Try each patch of a queue on a kernel, in order, and say how it fares.

    A patch that fails is applied as far as it goes, so that later ones can be judged: they may fail
    for the lack of it.
    """
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        scratch = Path(name)
        tree.copy_touched(kernel, ours, scratch)
        for patch in ours.patches:
            yield _tried(scratch, patch)


def _tried(scratch: Path, patch: Path) -> Outcome:
    name = f"{patch.parent.name}/{patch.name}"
    missing = sorted(file for file in touched(patch) if not (scratch / file).is_file())
    ended, lines = tree.run_patch(scratch, patch, "--dry-run")
    if ended.code and not missing:
        reverse, _ = tree.run_patch(scratch, patch, "--dry-run", "--fuzz=0", "--reverse")
        if not reverse.code:
            return Outcome(name, THERE)
    tree.run_patch(scratch, patch, "--reject-file=-")
    notes = tuple(_notes(lines))
    text = "\n".join(notes)
    if ended.code:
        return Outcome(name, FAILS, (*(f"{file}: missing" for file in missing), *notes))
    verdict = FUZZ if "fuzz" in text else OFFSET if notes else APPLIES
    return Outcome(name, verdict, notes)


def _notes(lines: Sequence[str]) -> Iterator[str]:
    """The hunks that patch did not apply as they are, each with its file."""
    file = ""
    for line in lines:
        if match := _FILE.match(line):
            file = match[1]
        elif _LOST.match(line):
            file = ""
        elif file and _SKIPPED.match(line):
            yield f"{file}: {THERE}"
        elif match := _HUNK.match(line):
            yield f"{file}: {match[1]}"


def render(report: Report) -> Iterator[str]:
    """The report as lines of text, with what to do next."""
    for one in report.outcomes:
        if one.verdict != APPLIES:
            before = f" (on Linux {report.old} as well)" if one.patch in report.as_before else ""
            yield f"{one.verdict}: {one.patch}{before}"
            yield from (f"    {note}" for note in one.notes)
    if report.taken:
        yield f"files of kernel/ that Linux {report.new} has: {len(report.taken)}"
        yield from (f"    {name}" for name in report.taken[:_SHOWN])
        yield from ["    ..."] if len(report.taken) > _SHOWN else []
    count = len(report.differing)
    yield f"{count} of the {report.files} files that the patches change differ from {report.old}"
    counts = [
        f"{number} {several}"
        for verdict, several in _VERDICTS.items()
        if (number := sum(one.verdict == verdict for one in report.outcomes))
    ]
    yield f"{len(report.outcomes)} patches on Linux {report.new}: {', '.join(counts)}"
