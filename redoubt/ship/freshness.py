# SPDX-License-Identifier: GPL-2.0-only
"""How far each file of results/ is behind the code: configs/results.toml says what it may be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from redoubt.core import reasons
from redoubt.core.errors import RedoubtError
from redoubt.cost import tables
from redoubt.cost.tables import Table
from redoubt.linux import topics
from redoubt.machine import provenance
from redoubt.ship import origins
from redoubt.ship.origins import NONE, Origin
from redoubt.targets import TARGETS, Target

# In the repository.
FILE = Path("configs", "results.toml")
# Keys of [measures]: files that decide any figure, and those of a verb that has no key.
_EACH, _OTHER = "each", "other"
# No kernel is built of these.
_NOT_BUILT = (
    "kernel/Documentation", "kernel/samples", "kernel/scripts", "kernel/tools",
    "patches/series", "patches/topics", "patches/*COVER", "patches/*/docs-*", "patches/*.without-*",
)  # fmt: skip


@dataclass(frozen=True)
class Older:
    """A measurement that may be older than the distance, or tell less: and why.

    It is that of one `commit`, or of NONE; another one of the same `file` has to be fresh.
    """

    file: str
    commit: str
    reason: str

    def permits(self, origin: Origin) -> bool:
        """Is this the measurement?"""
        return (self.file, self.commit) == (origin.file, origin.commit)


@dataclass(frozen=True)
class Config:
    """All of configs/results.toml, which explains it."""

    distance: int
    built_for: Mapping[str, Sequence[str]]
    measures: Mapping[str, Sequence[str]]
    again: Mapping[str, str]
    older: tuple[Older, ...]

    def permits(self, origin: Origin) -> Older | None:
        """The reason why a result may be older, if there is one."""
        return next((one for one in self.older if one.permits(origin)), None)


_TABLES = {"built_for": list, "measures": list, "again": str}


def config(repo: Path) -> Config:
    """Read the file of a repository; raises RedoubtError if it is missing or damaged."""
    file = repo / FILE
    raw = reasons.read(file, "how old results may be,")
    known = {"distance": int, "reason": str, **dict.fromkeys(_TABLES, dict), "older": list}
    wrong = [name for name, kind in known.items() if type(raw.get(name, kind())) is not kind]
    wrong += [name for name in ("distance", "reason") if not raw.get(name)]
    wrong += raw.keys() - known.keys()
    for name, kind in _TABLES.items() if not wrong else ():
        wrong += [one for one, value in raw.get(name, {}).items() if type(value) is not kind]
    measures = raw.get("measures", {})
    wrong += [name for name in (_EACH, _OTHER) if not wrong and name not in measures]
    if wrong:
        raise RedoubtError(f"{file}: {wrong[0]} is missing, unknown, or not as it has to be")
    older = tuple(
        Older(name, str(commit), entry["reason"])
        for entry in reasons.tables(file, raw, "older", {"reason": str, "files": dict}, ())
        for name, commit in entry["files"].items()
    )
    return Config(raw["distance"], raw.get("built_for", {}), measures, raw.get("again", {}), older)


# === The code that decides a figure ==============================================================


def decides(repo: Path, known: Config, verb: str, names: Sequence[str]) -> list[str]:
    """The files that decide what a verb measures on targets, all if none are named, for git.

    A file that was taken away since, and that nothing is known of, is one of them.
    """
    targets = [TARGETS[name] for name in names if name in TARGETS] or list(TARGETS.values())
    built = {name for target in targets for name in target.architectures}
    arches = {target.arch for target in targets}
    paths = ["kernel", "patches", *known.measures[_EACH]]
    paths += known.measures.get(verb, known.measures[_OTHER])
    for target in targets:
        paths += [f"configs/kernel/{name}.config" for name in _fragments(target)]
        paths += ["emulator"] if target.emulator and target.emulator.ours else []
    # Mails have all of them.
    without = [*_NOT_BUILT] if names else []
    for topic in topics.load(repo):
        if not arches & set(known.built_for.get(topic.name, arches)):
            without += [f"patches/{topic.name}", *(f"kernel/{name}" for name in topic.files)]
            continue
        for patch in topic.mails:
            if not replace(topic, mails=(patch,)).concerns(sorted(built)):
                without.append(f"patches/{patch}")
    for arch in sorted((repo / "kernel" / "arch").glob("*")):
        if arch.name not in built:
            without.append(f"kernel/arch/{arch.name}")
    return [*dict.fromkeys(paths), *(f":(exclude){name}" for name in without)]


def _fragments(target: Target) -> list[str]:
    """All that configures a kernel of a target, in one way or another."""
    flavours = (name for names in target.flavours.values() for name in names)
    return sorted({
        *target.tested, *target.bench, *target.bench_keys, *target.bench_mock, *target.shipped,
        *target.small, *flavours,
    })  # fmt: skip


# === How far each is behind ======================================================================


@dataclass(frozen=True)
class Found:
    """A result, how many commits it is `behind` if that is known, and what is wrong with it.

    `older` says why that may be; `again` is the command that measures it again, if one is known.
    """

    origin: Origin
    behind: int | None
    wrong: tuple[str, ...]
    older: Older | None
    again: str


@dataclass(frozen=True)
class Report:
    """All results. `unknown` says why nobody can tell how far they are behind; else it is empty.

    `problems` are lines about what is not as it has to be, each with the command that mends it.
    """

    found: tuple[Found, ...]
    distance: int
    unknown: str
    problems: tuple[tuple[str, str], ...]
    summary: str

    @property
    def ok(self) -> bool:
        """True if nothing is wrong that may not be, as far as that is known."""
        return not self.problems


def judge(repo: Path, directory: Path) -> Report:
    """Compare the results of a directory with the history of a repository."""
    known = config(repo)
    unknown = untold(repo)

    @cache
    def behind(commit: str, verb: str, names: Sequence[str]) -> int | None:
        if provenance.git(repo, "merge-base", "--is-ancestor", commit, "HEAD") is None:
            return None
        since, paths = f"{commit}..HEAD", decides(repo, known, verb, names)
        count = provenance.git(repo, "rev-list", "--count", since, "--", *paths)
        if count is None:
            raise RedoubtError(f"git cannot count the commits since {commit[:12]}")
        return int(count)

    found = []
    for file in origins.results(directory):
        origin = origins.read(file.name, _read(file))
        wrong, counts = list(origin.lacks), list[int]()
        for commit in origin.commits if not unknown else ():
            count = behind(commit, origin.verb, origin.targets)
            if count is None:
                wrong.append(f"commit {commit[:12]} is not in this history")
            else:
                counts.append(count)
        most = max(counts, default=None)
        if most is not None and most > known.distance:
            wrong.append(f"{most} commits behind this code, more than {known.distance}")
        again = known.again.get(origin.file) or origin.again
        found.append(Found(origin, most, tuple(wrong), known.permits(origin), again))
    if not found:
        raise RedoubtError(f"no results in {directory}")
    those = [one.origin for one in found]
    problems = (*_problems(found), *_excuses(known, found))
    return Report(tuple(found), known.distance, unknown, problems, line(those, known))


def _read(file: Path) -> object:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise RedoubtError(f"cannot read {file}: {error}") from error


def untold(repo: Path) -> str:
    """Why the history of a repository cannot be asked, or nothing if it can."""
    if provenance.git(repo, "rev-parse", "HEAD") is None:
        return "this is no git repository, or git cannot read it"
    if provenance.git(repo, "rev-parse", "--is-shallow-repository") != "false":
        return "this clone has only a part of the history: git fetch --unshallow"
    return ""


def _problems(found: Sequence[Found]) -> Iterator[tuple[str, str]]:
    for one in found:
        if one.wrong and not one.older:
            yield f"{one.origin.file}: {'; '.join(one.wrong)}", one.again


def _excuses(known: Config, found: Sequence[Found]) -> Iterator[tuple[str, str]]:
    """Measurements that the configuration permits to be older, and that are no more."""
    for older in known.older:
        if not any(older.permits(one.origin) for one in found):
            yield f"{FILE}: results/ has no {older.file} of commit {older.commit}", ""


# === In words ====================================================================================


def line(found: Sequence[Origin], known: Config) -> str:
    """One sentence on some results for documents: the same as long as these files are the same.

    It counts commits in no history, as the commit that has the sentence would change them.
    """
    dated = sorted((one.date, one.commit) for one in found if one.date and one.commits)
    if not dated:
        return ""
    fresh = sum(not known.permits(one) for one in found)
    (begin, first), (end, last) = dated[0], dated[-1]
    return (
        f"Measured on commits {first} ({begin}) to {last} ({end}): {fresh} of {len(found)} files "
        f"of results/ are at most {known.distance} commits behind the code that decides them "
        f"(`redoubt results`); {FILE} says why the others are older."
    )


def render(report: Report) -> list[str]:
    """The report as lines for a person."""
    behind = "commits behind: those since that changed what decides the figures"
    rows = tuple(
        (
            one.origin.file, one.origin.verb, ", ".join(one.origin.targets) or NONE,
            one.origin.date or NONE, one.origin.commit,
            "?" if report.unknown else NONE if one.behind is None else str(one.behind),
            "listed as older" if one.older else _soon(one, report.distance),
        )
        for one in report.found
    )  # fmt: skip
    columns = ("file", "kind", "target", "date", "commit", "behind", "")
    lines = [text.rstrip() for text in tables.text(Table("results", behind, columns, rows))]
    if older := [one for one in report.found if one.older]:
        lines += ["", f"Listed in {FILE}:"]
    for one in older:
        told = "; ".join(one.wrong) or "nothing wrong" + (
            " but not judged" if report.unknown else " yet"
        )
        reason = " ".join(one.older.reason.split()) if one.older else ""
        lines.append(f"{one.origin.file}: {told} ({reason})")
    lines += ["", *problems(report)]
    if report.unknown:
        lines.append(not_judged(report))
    lines.append(report.summary)
    return lines


def _soon(one: Found, distance: int) -> str:
    """How many more commits a result bears, if it is a fifth of the distance or less."""
    left = distance - (one.behind or 0)
    return f"bears {left} more" if 0 <= left <= distance // 5 else ""


def not_judged(report: Report) -> str:
    """Why nothing can be said of how old the results are."""
    return f"cannot tell how far results/ is behind the code: {report.unknown}"


def problems(report: Report) -> list[str]:
    """A line for each problem, and the command that mends it below it."""
    return [
        text
        for problem, again in report.problems
        for text in (problem, *([f"    {again}"] if again else []))
    ]
