# SPDX-License-Identifier: GPL-2.0-only
"""The queue on another kernel: what of it applies, patch by patch and file by file.

Each patch is merged into the other tree's files by a 3-way merge: from the file as our own kernel
has it with all earlier patches, to the same with this patch, and to the file of the other tree
with what became of the earlier patches there. Hunks in conflict leave the other tree as it is, so
that later patches can be judged; what is said of the same file from then on is less sure.

This is about text. What merges need not build, and what builds need not protect: docs/porting.md.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from redoubt.core import git, paths
from redoubt.core.errors import NoSpaceError, RedoubtError
from redoubt.core.progress import Progress
from redoubt.linux import topics, tree
from redoubt.linux.source import Source
from redoubt.ship import series

# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = "port/.port-*"
# Tells what we wrote, and what of it somebody has worked on since.
STAMP = ".redoubt-port"

# What becomes of the changes of one file, or of a whole patch.
APPLIES = "applies"  # as it is: at the same lines, which have the same neighbours
MERGES = "merges"
THERE = "there already"
CONFLICTS = "conflicts"
MISSING = "missing"
VERDICTS = (APPLIES, MERGES, THERE, CONFLICTS, MISSING)


# === The report ==================================================================================


@dataclass(frozen=True)
class File:
    """What becomes of a patch's changes of one file.

    `lines` is where hunks are in conflict: lines of the other tree's file as the earlier patches
    leave it. `after` is the earlier patch of which a conflict in this file was left out, if any.
    """

    name: str
    verdict: str
    lines: tuple[int, ...] = ()
    after: str = ""


@dataclass(frozen=True)
class Patch:
    """What becomes of a patch; `name` is that in the series."""

    name: str
    files: tuple[File, ...]

    @property
    def verdict(self) -> str:
        """The worst of any file; what is partly there already has to be merged."""
        found = {file.verdict for file in self.files}
        for verdict in (MISSING, CONFLICTS):
            if verdict in found:
                return verdict
        return found.pop() if len(found) == 1 else MERGES


@dataclass(frozen=True)
class Topic:
    """What becomes of a topic: its patches, and `new` files; the names of some may be `taken`."""

    name: str
    patches: tuple[Patch, ...]
    new: int
    taken: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What becomes of the queue for Linux `base` on another one; `out` has the merged patches."""

    base: str
    other: Source
    out: Path
    topics: tuple[Topic, ...]

    @property
    def patches(self) -> tuple[Patch, ...]:
        """All patches, in order."""
        return tuple(patch for topic in self.topics for patch in topic.patches)

    @property
    def ok(self) -> bool:
        """True if nothing has to be done by hand to have a queue that applies."""
        bad = any(patch.verdict in (CONFLICTS, MISSING) for patch in self.patches)
        return not bad and not any(topic.taken for topic in self.topics)

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/porting.md."""
        return {
            "ok": self.ok,
            "base": self.base,
            "onto": self.other.version,
            "tree": str(self.other.path),
            "output": str(self.out),
            "topics": [
                {
                    "topic": topic.name,
                    "new": topic.new,
                    "taken": list(topic.taken),
                    "patches": [
                        {
                            "patch": patch.name,
                            "verdict": patch.verdict,
                            "files": [
                                {
                                    "file": file.name,
                                    "verdict": file.verdict,
                                    "lines": list(file.lines),
                                    "after": file.after or None,
                                }
                                for file in patch.files
                            ],
                        }
                        for patch in topic.patches
                    ],
                }
                for topic in self.topics
            ],
        }


def _count(verdicts: Iterable[str]) -> str:
    found = list(verdicts)
    return ", ".join(f"{each} {found.count(each)}" for each in VERDICTS if each in found)


def _remarks(patch: Patch) -> Iterator[str]:
    """What is to be said of single files."""
    for file in patch.files:
        text = f"{file.verdict:13}  {file.name}"
        if file.lines:
            where = ", ".join(map(str, file.lines))
            text += f": hunks {len(file.lines)}, at line {where} there"
        if file.after:
            text += f"; less sure after the conflict of {file.after}"
        if file.verdict not in (APPLIES, MERGES) or file.after:
            yield text


def render(report: Report) -> Iterator[str]:
    """The report as lines of text: each patch, and each file of which more is to be said."""
    there = f"Linux {report.other.version}"
    yield f"The queue for Linux {report.base} on {there} in {report.other.path}:"
    for topic in report.topics:
        yield ""
        yield f"{topic.name}: {_count(patch.verdict for patch in topic.patches) or 'no patches'}"
        yield from (f"    kernel/{name}: {there} has a file of this name" for name in topic.taken)
        for patch in topic.patches:
            name = PurePosixPath(patch.name).name
            counts = _count(file.verdict for file in patch.files)
            yield f"    {patch.verdict:13}  {name} (files: {counts})"
            yield from (f"        {line}" for line in _remarks(patch))
    patches = report.patches
    files = [file.verdict for patch in patches for file in patch.files]
    new = sum(topic.new for topic in report.topics)
    taken = sum(len(topic.taken) for topic in report.topics)
    yield ""
    yield f"patches {len(patches)}: {_count(patch.verdict for patch in patches)}"
    yield f"files {len(files)}, counted once for each patch: {_count(files)}"
    yield f"new files {new}: names that are taken {taken}"
    yield f"The merged queue is in {report.out}."
    if CONFLICTS in files:
        yield "Conflicts are in its patches, with markers; later patches are merged without them."
    if MISSING in files:
        yield "Changes of files that are missing are beside its patches, in .patch.missing."
    yield "All this is about text: what merges need not build, and what builds need not protect."


# === Patches =====================================================================================


def _sections(patch: Path) -> tuple[str, dict[str, str]]:
    """The header of a patch, and its changes by file, in order."""
    topics.touched(patch)  # Refuses what is no change of a file.
    text = patch.read_bytes().decode("utf-8", "surrogateescape")
    starts = list(topics.TOUCHED.finditer(text))
    sections: dict[str, str] = {}
    for this, following in zip(starts, [*starts[1:], None], strict=True):
        name = str(PurePosixPath(*PurePosixPath(this[2].strip()).parts[1:]))
        part = text[this.start() : following.start() if following else len(text)]
        sections[name] = sections.get(name, "") + part
    return text[: starts[0].start()], sections


def _difference(scratch: Path, name: str, old: bytes, new: bytes) -> str:
    """The changes of a file as the stored patches have them, which is as quilt makes them."""
    (scratch / "old").write_bytes(old)
    (scratch / "new").write_bytes(new)
    command = ["diff", "-a", "-p", "-U1", "--label", f"a/{name}", "--label", f"b/{name}"]
    try:
        result = subprocess.run(
            [*command, "old", "new"],
            cwd=scratch,
            capture_output=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError as missing:
        raise RedoubtError("diff is missing", "apt-get install diffutils") from missing
    if result.returncode > 1:
        raise RedoubtError(f"diff failed: {result.stderr.decode(errors='replace').strip()}")
    return result.stdout.decode("utf-8", "surrogateescape")


def _applies(scratch: Path, name: str, section: str, old: bytes, new: bytes) -> bool:
    """Do the changes of a file, exactly as they are stored, make `new` of `old`?"""
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        file = Path(place) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(old)
        (scratch / "patch").write_bytes(section.encode("utf-8", "surrogateescape"))
        try:
            tree.apply_series(Path(place), [scratch / "patch"])
        except NoSpaceError:
            raise
        except RedoubtError:
            return False
        return file.read_bytes() == new


# === Merging =====================================================================================


@dataclass(frozen=True)
class _Merged:
    """A merged file: with `marked` conflicts at `lines`, and with theirs where there is one."""

    marked: bytes
    resolved: bytes
    lines: tuple[int, ...]


def _conflicts(marked: bytes, labels: tuple[str, str, str]) -> Iterator[int]:
    """The lines, in the file without our side and the markers, at which conflicts stand."""
    theirs, base, ours = labels
    begin, middle, end = (
        f"{mark * 7} {label}".encode()
        for mark, label in (("<", theirs), ("|", base), (">", ours))
    )  # fmt: skip
    line, counting = 1, True
    for text in (text.rstrip(b"\r") for text in marked.split(b"\n")):
        if text == begin:
            yield line
        elif text == middle:
            counting = False
        elif text == end:
            counting = True
        elif counting:
            line += 1


def _merge(
    scratch: Path, theirs: bytes, base: bytes, ours: bytes, labels: tuple[str, str, str]
) -> _Merged:
    """Merge what leads from `base` to `ours` into `theirs`; labels are those of the three."""
    results = []
    words = [word for label in labels for word in ("-L", label)]
    for style in ("--zdiff3", "--ours"):
        for name, text in (("theirs", theirs), ("base", base), ("ours", ours)):
            (scratch / name).write_bytes(text)
        result = git.Git(scratch).ended(
            "merge-file", "-q", style, *words, "theirs", "base", "ours"
        )  # fmt: skip
        # The number of conflicts, or that it went wrong.
        if result.returncode > 127:
            raise git.failed("merge-file", result)
        results.append((scratch / "theirs").read_bytes())
        if result.returncode == 0:
            break
    marked, resolved = results[0], results[-1]
    return _Merged(marked, resolved, tuple(_conflicts(marked, labels)) if results[1:] else ())


@dataclass
class _Merger:
    """The other tree's files, into which patches are merged one after the other.

    `ours` is our own tree with the patches so far, `theirs` the files of the other tree (None: not
    there), `troubled` the patch that was the first to conflict in a file. `written` are the merged
    patches by name.
    """

    scratch: Path
    ours: Path
    base: str
    onto: str
    theirs: dict[str, bytes | None]
    troubled: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)

    def merge(self, name: str, patch: Path) -> Patch:
        """Merge a patch; raises RedoubtError if it does not apply exactly to our own tree."""
        header, sections = _sections(patch)
        before = {file: (self.ours / file).read_bytes() for file in sections}
        tree.apply_series(self.ours, [patch])
        files: list[File] = []
        text, missing = "", ""
        for file, section in sections.items():
            verdict, merged = self._merge_file(name, file, section, before[file])
            files.append(verdict)
            text += merged
            missing += section if verdict.verdict == MISSING else ""
        if text:
            self.written[name] = header + text
        if missing:
            self.written[f"{name}.missing"] = header + missing
        return Patch(name, tuple(files))

    def _merge_file(self, patch: str, name: str, section: str, base: bytes) -> tuple[File, str]:
        """Merge a patch's changes of one file; returns them as they are to be there."""
        theirs, ours = self.theirs[name], (self.ours / name).read_bytes()
        after = self.troubled.get(name, "")
        if theirs is None:
            return File(name, MISSING), ""
        labels = (f"Linux {self.onto}", f"Linux {self.base}, before the patch", patch)
        merged = _merge(self.scratch, theirs, base, ours, labels)
        self.theirs[name] = merged.resolved
        if merged.lines:
            self.troubled.setdefault(name, patch)
            marked = _difference(self.scratch, name, theirs, merged.marked)
            return File(name, CONFLICTS, merged.lines, after), marked
        if merged.resolved == theirs:
            return File(name, THERE, (), after), ""
        if _applies(self.scratch, name, section, theirs, merged.resolved):
            return File(name, APPLIES, (), after), section
        fresh = _difference(self.scratch, name, theirs, merged.resolved)
        return File(name, MERGES, (), after), fresh


def _file(place: Path) -> bytes | None:
    """The contents of a file, or None if there is none of this name."""
    return place.read_bytes() if place.is_file() and not place.is_symlink() else None


def port(
    pristine: Source, other: Source, out: Path, progress: Progress, *, repo: Path | None = None
) -> Report:
    """Merge the queue of `pristine` onto another tree, and write what comes out to `out`.

    What an earlier run wrote there is replaced. Both trees are only read. Raises RedoubtError if
    the queue does not apply to `pristine`, and if `out` has something else in it.
    """
    repo = repo or paths.repo()
    out = out.resolve()
    _check_free(out, (pristine.path, other.path))
    chosen = topics.load(repo)
    names = {n for topic in chosen for patch in topic.patches for n in topics.touched(patch)}
    with (
        progress.step(f"Merging the queue onto Linux {other.version}"),
        tempfile.TemporaryDirectory(prefix="redoubt-") as place,
    ):
        scratch = Path(place)
        ours = scratch / "tree"
        ours.mkdir()
        series.pick(pristine.path, names, ours)
        theirs = {name: _file(other.path / name) for name in names}
        merger = _Merger(scratch, ours, pristine.version, other.version, theirs)
        merged: list[Topic] = []
        for topic in chosen:
            patches = []
            for patch in topic.patches:
                progress.detail(patch.name)
                patches.append(merger.merge(str(patch.relative_to(repo / "patches")), patch))
            taken = tuple(name for name in topic.files if os.path.lexists(other.path / name))
            merged.append(Topic(topic.name, tuple(patches), len(topic.files), taken))
        report = Report(pristine.version, other, out, tuple(merged))
        _publish(merger.written | {"series": _series(report, merger.written)}, out)
    return report


# === The result ==================================================================================


def _series(report: Report, written: Mapping[str, str]) -> str:
    """The series file of the merged queue."""
    lines = [f"# The queue for Linux {report.base}, merged onto Linux {report.other.version}."]
    for patch in report.patches:
        lines.append(patch.name if patch.name in written else f"# {patch.name}: {patch.verdict}")
    return "\n".join(lines) + "\n"


def _sum(files: Mapping[str, bytes]) -> str:
    known = hashlib.sha256()
    for name, data in sorted(files.items()):
        known.update(f"{len(data)} {name}\n".encode() + data)
    return known.hexdigest()


def _check_free(out: Path, trees: Iterable[Path]) -> None:
    """Raise RedoubtError unless what is to be written can replace what is there."""
    for each in trees:
        if out.is_relative_to(each.resolve()):
            raise RedoubtError(f"{out} is in {each}, which is only read", "give another --output")
    if not os.path.lexists(out):
        return
    if not out.is_dir():
        raise RedoubtError(f"{out} is no directory", "give another --output")
    if not any(out.iterdir()):
        return
    if not (out / STAMP).is_file():
        raise RedoubtError(
            f"{out} has files in it that redoubt port has not written", "give another --output"
        )
    files = {
        str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()
    }
    if files.pop(STAMP).decode(errors="replace").strip() != _sum(files):
        raise RedoubtError(
            f"{out} was changed since redoubt port has written it",
            "give another --output, or drop what was changed: rm -r " + shlex.quote(str(out)),
        )


def _publish(texts: Mapping[str, str], out: Path) -> None:
    """Put files into place, all of them or none."""
    files = {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=out.parent, prefix=PurePosixPath(UNFINISHED).name[:-1]
    ) as place:
        fresh = Path(place) / "new"
        for name, data in (files | {STAMP: f"{_sum(files)}\n".encode()}).items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(data)
        if out.exists():
            out.rename(Path(place) / "old")
        fresh.rename(out)
