# SPDX-License-Identifier: GPL-2.0-only
"""Is each place that lets page tables be written tested? Kernels without one of them, judged.

One kernel is built that can do without each place, and linked anew for each. What notices is asked,
the cheapest first, until something does. What nothing notices is a survivor: it needs a test, or a
reason in configs/mutate/*.toml.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from redoubt.core import paths, reasons
from redoubt.core.errors import GuestError, RedoubtError
from redoubt.linux import build, tree
from redoubt.linux.version import version_of
from redoubt.machine import boot, guest, host, kernels
from redoubt.mutate import places
from redoubt.mutate.places import Site, Source
from redoubt.suite import boots, isolation
from redoubt.suite.run import Item, Run
from redoubt.trial import attack, check, experiment, ktap, lifecycle
from redoubt.trial.asi import asi, exits
from redoubt.trial.asi import isolation as attempts
from redoubt.trial.oracle import oracle, pagewalk, patterns

# A change here forgets all verdicts.
_FORMAT = 2
# What it is called for make, and where: its objects are in <build>/<target>/mutants.
KIND = "mutants"
_CUT = "[ cut here ]"
# What KUnit asks with whether memory is protected: such a violation is as it should be.
_ASKED = "ip copy_to_kernel_nofault"
_HEADER = Path(__file__).with_name("kpkeys_mutant.h")

NOTICED, SURVIVED = "noticed", "survived"
# No mutant: the place is not compiled.
SAME = "no difference"

# Seconds that a boot may take, by host: many mutants hang, which is waited for.
PATIENCE_S = {host.NATIVE: 40.0, host.EMULATED: 100.0}

_NUMBER = "mm/kpkeys/mutant.c"
# The object that tells which place is missing.
_CONSTANT = f"""\
// SPDX-License-Identifier: GPL-2.0-only
#include <linux/export.h>
#include <linux/kpkeys_mutant.h>
#include <{places.MISSING.removeprefix("include/")}>

const int kpkeys_mutant = KPKEYS_MUTANT_MISSING;
EXPORT_SYMBOL(kpkeys_mutant);
"""
_MAKEFILE = "mm/kpkeys/Makefile"


@dataclass(frozen=True)
class Verdict:
    """What came of a kernel: what noticed, and its words in one line.

    `seconds` is what judging took.
    """

    outcome: str
    by: str = ""
    words: str = ""
    seconds: float = 0.0


# Builds the kernel without a place, or as it is, and judges it. Raises RedoubtError if it cannot.
Judge = Callable[[Site | None], Verdict]


@dataclass(frozen=True)
class Result:
    """The verdict on one mutant; `known` if it is from an earlier run.

    `commit` is that of the repository when it was judged, None if there is none.
    """

    site: Site
    verdict: Verdict
    known: bool = False
    commit: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/mutation.md."""
        names = ("file", "line", "function", "kind", "number", "text", "mutated")
        return {
            **{name: getattr(self.site, name) for name in names},
            **asdict(self.verdict),
            "seconds": round(self.verdict.seconds, 1),
            "commit": self.commit,
        }


# Is told of each result when it is there, its number, and how many seconds all others will take:
# None if there is nothing to go by.
Show = Callable[[Result, int, float | None], None]


# === Which =======================================================================================


def chosen(
    sites: Sequence[Site], only: Sequence[str], sample: int | None, seed: int
) -> tuple[Site, ...]:
    """The places that match one of the patterns, all if there is none; so many of them at random.

    Raises RedoubtError if a pattern matches none.
    """
    for pattern in only:
        if not any(site.matches(pattern) for site in sites):
            raise RedoubtError(
                f"no place matches '{pattern}', neither by file nor by function",
                "redoubt mutate TARGET --list shows them all",
            )
    left = [site for site in sites if not only or any(site.matches(one) for one in only)]
    if sample is not None and sample < len(left):
        picked = set(random.Random(seed).sample(range(len(left)), sample))
        left = [site for number, site in enumerate(left) if number in picked]
    return tuple(left)


# === Verdicts of earlier runs ====================================================================


@dataclass(frozen=True)
class Kept:
    """Verdicts on the same inputs, a file each; one that cannot be read does not exist."""

    directory: Path
    inputs: str

    def _file(self, site: Site | None) -> Path:
        what = "" if site is None else f"{site.name}\n{site.start}\n{site.replacement}"
        known = hashlib.sha256(f"{_FORMAT}\n{self.inputs}\n{what}".encode())
        return self.directory / f"{known.hexdigest()[:32]}.json"

    def get(self, site: Site | None) -> Verdict | None:
        """The verdict on a mutant, or on the kernel as it is."""
        try:
            verdict = Verdict(**json.loads(self._file(site).read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return verdict if verdict.outcome in (NOTICED, SURVIVED, SAME) else None

    def put(self, site: Site | None, verdict: Verdict) -> None:
        """Keep a verdict, whole or not at all."""
        file = self._file(site)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(verdict)))
        partial.rename(file)


def added(file: Path, target: str, sites: Sequence[Site], judged: Sequence[Result]) -> list[Result]:
    """What was judged and what a result file has of other places, in the order of the places.

    A place that is no more, or has another text, is left out. Raises RedoubtError if the file is no
    such result, or one of another target.
    """
    found = {result.site.name: result for result in judged}
    try:
        before = json.loads(file.read_text()) if file.exists() else {"mutants": []}
        if before.get("target", target) != target:
            raise RedoubtError(f"{file} is about {before['target']}, not {target}")
        exist = {(site.name, site.text): site for site in sites}
        for one in before["mutants"]:
            site = exist.get((places.name_of(one), one["text"]))
            if site and site.name not in found:
                verdict = Verdict(one["outcome"], one["by"], one["words"], one["seconds"])
                commit = one.get("commit", before.get("commit"))
                found[site.name] = Result(site, verdict, True, commit)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RedoubtError(
            f"{file} has no results of redoubt mutate to add to: {error!r}"
        ) from error
    return [found[site.name] for site in sites if site.name in found]


# === Judging =====================================================================================


def judge_all(
    sites: Sequence[Site],
    judge: Judge,
    kept: Kept,
    show: Show = lambda result, number, left_s: None,
) -> list[Result]:
    """Judge the kernel as it is, then without each of the places, unless that was done before.

    Raises RedoubtError if the kernel as it is does not pass, which would make everything look
    noticed.
    """
    whole = kept.get(None)
    if whole is None:
        whole = _timed(judge, None)
        if whole.outcome != SURVIVED:
            raise RedoubtError(
                f"the kernel does not pass as it is, so nothing can be told from mutants: "
                f"{whole.by}: {whole.words}",
                "mend that first; redoubt test tells more",
            )
        kept.put(None, whole)
    known = {site.name: kept.get(site) for site in sites}
    pending = sum(verdict is None for verdict in known.values())
    spent: list[float] = []
    results = []
    for number, site in enumerate(sites, 1):
        verdict = known[site.name]
        if verdict is None:
            verdict = _timed(judge, site)
            kept.put(site, verdict)
            spent.append(verdict.seconds)
        results.append(Result(site, verdict, known[site.name] is not None))
        left = sum(spent) / len(spent) * (pending - len(spent)) if spent else None
        show(results[-1], number, left if pending else 0.0)
    return results


def _timed(judge: Judge, site: Site | None) -> Verdict:
    started = time.monotonic()
    return replace(judge(site), seconds=time.monotonic() - started)


# === Reasons =====================================================================================


def load_reasons(path: Path) -> dict[str, str]:
    """Why nothing notices that some places are missing, by their names, from a file.

    Tables `survivor` with `file`, `function`, `kind`, `reason`, and `number` unless it is 1. Raises
    RedoubtError naming the key at fault.
    """
    raw = reasons.read(path, "the known survivors")
    if set(raw) - {"survivor"}:
        raise RedoubtError(f"{path}: tables [[survivor]] are expected, and nothing else")
    types = {"file": str, "function": str, "kind": str, "number": int, "reason": str}
    found: dict[str, str] = {}
    for entry in reasons.tables(path, raw, "survivor", types, {"number"}):
        name = places.name_of({"number": 1, **entry})
        if name in found:
            raise RedoubtError(f"{path}: two survivors {name}")
        found[name] = entry["reason"].strip()
    return found


@dataclass(frozen=True)
class Report:
    """What a run found: `sites` are all there are, `results` are of those that were judged.

    `reasons` are as of load_reasons().
    """

    target: str
    sites: tuple[Site, ...]
    results: tuple[Result, ...]
    reasons: Mapping[str, str]

    def of(self, outcome: str) -> list[Result]:
        """The results with one outcome."""
        return [result for result in self.results if result.verdict.outcome == outcome]

    @property
    def unexpected(self) -> list[Result]:
        """Survivors without a reason."""
        return [one for one in self.of(SURVIVED) if one.site.name not in self.reasons]

    @property
    def stale(self) -> dict[str, str]:
        """Names of reasons for what is no survivor, with what it is instead."""
        exist = {site.name for site in self.sites}
        found = {name: "there is no such place" for name in self.reasons if name not in exist}
        for result in self.results:
            verdict, name = result.verdict, result.site.name
            if name in self.reasons and verdict.outcome != SURVIVED:
                found[name] = verdict.outcome + (f" by {verdict.by}" if verdict.by else "")
        return found

    @property
    def ok(self) -> bool:
        """True if something was judged, and each survivor and each reason is right."""
        return bool(self.results) and not self.unexpected and not self.stale

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/mutation.md."""
        return {
            "target": self.target,
            "ok": self.ok,
            "sites": len(self.sites),
            "mutants": [
                one.as_json() | {"reason": self.reasons.get(one.site.name)} for one in self.results
            ],
            "stale": [{"name": name, "is": what} for name, what in self.stale.items()],
        }


def render(report: Report) -> list[str]:
    """The report as lines of text."""
    lines = []
    for title, results in (
        ("SURVIVED, without a reason", report.unexpected),
        ("survived", [one for one in report.of(SURVIVED) if one not in report.unexpected]),
        ("no difference", report.of(SAME)),
    ):
        for result in results:
            site = result.site
            lines.append(f"{title}: {site.file}:{site.line} {site.function} ({site.kind})")
            lines.append(f"    {site.text}  ->  {site.mutated}")
            if told := report.reasons.get(site.name) or result.verdict.words:
                lines.append(f"    {told}")
    lines += [f"STALE reason for {name}: {what}" for name, what in report.stale.items()]
    counts = {outcome: len(report.of(outcome)) for outcome in (NOTICED, SURVIVED, SAME)}
    lines.append(
        f"{len(report.results)} of {len(report.sites)} places taken out: "
        + ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        + f"; {len(report.unexpected)} unexpected, {len(report.stale)} stale reasons"
    )
    return lines


# === Building and booting ========================================================================


@dataclass
class Workshop:
    """Builds and judges: call it as a Judge.

    It works on copies of the kernel/ and patches/ of a repository as they are when it is opened.
    All `sites`, found in `sources`, are a choice in them. The tree is <build>/tree-mutants, which
    no other command looks at. Raises RedoubtError if the series names a patch that does not exist.
    """

    run: Run
    host: str
    pristine: Path
    sources: Mapping[str, Source]
    sites: tuple[Site, ...]
    repo: Path

    def __post_init__(self) -> None:
        ours = tree.queue(self.repo)
        self.files = {name: (ours.kernel / name).read_bytes() for name in ours.files}
        self.files[places.HEADER] = _HEADER.read_bytes()
        self.patches = {
            f"{patch.parent.name}/{patch.name}": patch.read_bytes() for patch in ours.patches
        }

    @property
    def place(self) -> Path:
        """Where the copies are, and what was found out."""
        return paths.build_dir() / "mutants"

    def kept(self) -> Kept:
        """The verdicts of earlier runs with the same kernel and the same ways to judge it."""
        known = hashlib.sha256()
        target = self.run.target
        version = version_of(self.pristine)
        for text in (target.name, *target.kunit_later, self.host, str(self.pristine), version):
            known.update(f"{text}\n".encode())
        for name, data in (*self.files.items(), *self.patches.items()):
            known.update(f"{name} {len(data)}\n".encode() + data)
        for file in _judging(target.tested):
            known.update(f"{file.name}\n".encode() + file.read_bytes())
        return Kept(self.place / target.name, known.hexdigest())

    def tree(self, site: Site | None) -> Path:
        """The tree without a place, or as it is; what did not change stays as old as it was.

        Raises RedoubtError if it cannot be made.
        """
        files = {
            **self.files,
            _NUMBER: _bytes(_CONSTANT),
            places.MISSING: _bytes(f"#define KPKEYS_MUTANT_MISSING {self._number(site)}\n"),
            _MAKEFILE: self.files[_MAKEFILE] + _bytes(f"obj-y += {Path(_NUMBER).stem}.o\n"),
        }
        changes = []
        for name in sorted({one.file for one in self.sites}):
            before = self.sources[name].text
            here = {self._number(one): one for one in self.sites if one.file == name}
            after = places.chosen(before, here)
            if name in files:
                files[name] = _bytes(after)
            else:
                changes.append(_diff(name, before, after))
        patches = {**self.patches, "places.patch": _bytes("".join(changes))}
        _sync(self.place / "kernel", files)
        _sync(self.place / "patches", patches)
        queue = tree.Queue(
            self.place / "kernel",
            tuple(sorted(files)),
            tuple(self.place / "patches" / name for name in patches),
        )
        return tree.materialise(
            self.pristine,
            paths.build_dir() / "tree-mutants",
            part=queue,
            progress=self.run.progress,
        )

    def _number(self, site: Site | None) -> int:
        """What a kernel without a place has in its object; 0 for that with all."""
        return self.sites.index(site) + 1 if site else 0

    def __call__(self, site: Site | None) -> Verdict:
        """Build the kernel without a place, or as it is, and ask what notices."""
        target, progress = self.run.target, self.run.progress
        built = build.compile_kernel(target, self.tree(site), KIND, target.tested, progress)
        if site and self._number(site) not in places.compiled((built.vmlinux, *built.modules)):
            return Verdict(SAME)
        programs = guest.programs(progress, target.cross_compile)
        made = kernels.Workbench(built, programs, self.host)
        return _ask(self._noticing(site, made))

    def _noticing(self, site: Site | None, made: kernels.Workbench) -> Iterator[Item]:
        """What has to notice that a place is missing; all of it for the kernel as it is."""
        isolating = site and site.kind.startswith(places.ISOLATION)
        if not isolating:
            yield from boots.noticing(self.run, made)
        if isolating or (not site and asi.possible(self.run.target)):
            yield from isolation.noticing(self.run, made)


def _judging(fragments: Sequence[str]) -> list[Path]:
    """The files that a verdict depends on, beside those of the kernel."""
    guests = paths.repo() / "guest"
    programs = sorted(
        file
        for file in guests.rglob("*")
        # What an installed kernel does is asked of no mutant.
        if file.is_file() and file.parent != guests / "installed"
    )
    modules = (
        attack, boot, boots, check, experiment, ktap, lifecycle, places, isolation, asi, exits,
        attempts, oracle, pagewalk, patterns,
    )  # fmt: skip
    return [
        *(build.fragment(name) for name in fragments),
        *programs,
        *(Path(str(module.__file__)) for module in modules),
    ]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _diff(file: str, before: str, after: str) -> str:
    """A patch with one line of context, as all of ours."""
    one, other = ([line + "\n" for line in text.split("\n")[:-1]] for text in (before, after))
    return "".join(difflib.unified_diff(one, other, f"a/{file}", f"b/{file}", n=1))


def _sync(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a directory, without touching one that is right."""
    for name, data in files.items():
        file = directory / name
        if not file.is_file() or file.read_bytes() != data:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def _told_most(detail: str) -> str:
    """One line of a detail: the first complaint of a kernel, or the first line."""
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    complaints = [line for line in lines if boot.is_complaint(line) and _ASKED not in line]
    # What a warning is about comes behind its first line.
    telling = [line for line in complaints if _CUT not in line]
    return next(iter(telling or complaints or lines), "")


def _ask(items: Iterator[Item]) -> Verdict:
    """What the first of these items says that failed; those behind it are not asked."""
    try:
        for item in items:
            if item.failed:
                return Verdict(NOTICED, f"{item.name}, {item.variant}", _told_most(item.detail))
    except GuestError as error:
        return Verdict(NOTICED, "start", error.message.splitlines()[0])
    return Verdict(SURVIVED)
