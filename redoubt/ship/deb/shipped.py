# SPDX-License-Identifier: GPL-2.0-only
"""What is shipped: a tree without what is local, its options, and what must not be in there.

Everything in this tree is a file: packages would carry links to somewhere here. Only files whose
text is another get a new age, so that a build in it is continued.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.linux import build, distro, topics, tree
from redoubt.linux.source import version_of
from redoubt.ship import commits, series
from redoubt.targets import TARGETS, Target

DISTRO = "distro"
SMALL = "small"
CONFIGS = (DISTRO, SMALL)
# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = ".shipped-*"

_STAMP = ".redoubt-shipped"
_OPTION = re.compile(r"^(?:menu)?config (\w+)$", re.MULTILINE)
# What a header says that other files define.
_DECLARED = re.compile(r"^(?!static|typedef|return)\w[\w \t*]*?\b(\w+)\(", re.MULTILINE)


# === The tree ====================================================================================


def _local(repo: Path) -> list[topics.Topic]:
    return [topic for topic in topics.load(repo) if topic.local]


def queue(repo: Path) -> tree.Queue:
    """The part of the queue that is shipped: all topics but the local ones."""
    names = [topic.name for topic in topics.load(repo) if not topic.local]
    return topics.part(repo, names)


def copied(pristine: Path, ours: tree.Queue, dest: Path, progress: Progress) -> Path:
    """Make `dest` a copy of `pristine` with the queue applied to it; quick when it is that already.

    Raises RedoubtError if a patch does not apply exactly, a file of the queue is one that Linux
    has, or somebody changed the copy.
    """
    base = f"{version_of(pristine)} in {pristine}"
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=dest.parent, prefix=UNFINISHED[:-1]) as name:
        scratch = Path(name)
        placed = _placed(dest, base)
        if placed is None:
            with progress.step("Copying the kernel"):
                series.copy_tree(pristine, scratch / "tree", link=False)
                if dest.exists():
                    dest.rename(scratch / "old")
                _remember(scratch / "tree", base, [])
                (scratch / "tree").rename(dest)
            placed = []
        with progress.step("Applying the patches"):
            files = _changes(pristine, ours, scratch / "files")
            # Until all of them are there: whatever may be.
            _remember(dest, base, sorted({*placed, *files}))
            for file in files:
                _replace(scratch / "files" / file, dest / file)
            for file in set(placed) - set(files):
                if (pristine / file).is_file():
                    _replace(pristine / file, dest / file)
                else:
                    (dest / file).unlink(missing_ok=True)
            _remember(dest, base, files)
    return dest


def _changes(pristine: Path, ours: tree.Queue, into: Path) -> list[str]:
    """Make the files that differ from the pristine ones; returns their names."""
    into.mkdir()
    touched = tree.patched(pristine, ours, into)
    for file in ours.files:
        if (pristine / file).exists():
            raise RedoubtError(f"kernel/{file} is a file that Linux has")
        commits.place(ours.kernel / file, into / file)
    return sorted({*touched, *ours.files})


def _replace(source: Path, destination: Path) -> None:
    if not destination.is_file() or destination.read_bytes() != source.read_bytes():
        commits.place(source, destination)


def _remember(dest: Path, base: str, files: Sequence[str]) -> None:
    partial = dest / (_STAMP + ".partial")
    partial.write_text(json.dumps({"base": base, "files": list(files)}))
    partial.rename(dest / _STAMP)


def _placed(dest: Path, base: str) -> list[str] | None:
    """The files that an earlier run changed, or None if there is no copy of `base`."""
    try:
        stamp = json.loads((dest / _STAMP).read_text())
    except (OSError, ValueError):
        return None
    if stamp["base"] != base:
        return None
    files: list[str] = stamp["files"]
    since = (dest / _STAMP).stat().st_mtime_ns
    changed = {str(Path(name).relative_to(dest)) for name in tree.newer(str(dest), since)}
    if foreign := sorted(changed - set(files)):
        raise RedoubtError(
            f"{dest}, of which packages are made, was changed:\n"
            + "\n".join(f"    {name}" for name in foreign[:10]),
            f"drop that: rm -r {dest}",
        )
    return files


# === The options =================================================================================


def needs_packages(target: Target) -> None:
    """Raise RedoubtError if there are none for the target."""
    if not target.debian:
        names = ", ".join(one.name for one in TARGETS.values() if one.debian)
        raise RedoubtError(f"there are no packages for {target.name}", f"targets: {names}")


def fragments(target: Target, config: str) -> tuple[str, ...]:
    """The configuration fragments of a shipped kernel.

    Raises RedoubtError, naming those there are, if there is no configuration of that name.
    """
    if config not in CONFIGS:
        raise RedoubtError(f"unknown configuration '{config}'", f"one of: {', '.join(CONFIGS)}")
    if config == DISTRO:
        return (*target.shipped, "deb-distro")
    return (*target.fragments, *target.shipped, *target.small)


def base(target: Target, config: str, progress: Progress) -> Path | None:
    """The configuration that the fragments are merged into; None for the smallest there is.

    Raises RedoubtError if the distribution's cannot be had.
    """
    return distro.configuration(target, progress, modules=True) if config == DISTRO else None


def _merged(names: Sequence[str]) -> dict[str, str]:
    return {
        option: value
        for name in names
        for option, value in build.options(build.fragment(name).read_text()).items()
    }


def only_for_tests(target: Target, config: str, base: Path | None = None) -> tuple[str, ...]:
    """The options that kernels built for tests have on, and shipped ones must not.

    What `base` has on and no fragment of ours names is the choice of the distribution.
    """
    theirs = build.options(base.read_text()) if base else {}
    shipped = theirs | _merged(fragments(target, config))
    return tuple(
        sorted(
            option
            for option, value in _merged(target.ours).items()
            if value != "n" and shipped.get(option, "n") == "n"
        )
    )


# === What must not be there ======================================================================


def local_words(repo: Path) -> tuple[str, ...]:
    """Words that give away what is local: its options, directories and functions.

    A word that has another one in it is left out.
    """
    words = {word for topic in _local(repo) for word in _words(repo, topic)}
    return tuple(sorted(word for word in words if not any(one in word for one in words - {word})))


def _words(repo: Path, topic: topics.Topic) -> Iterator[str]:
    """The words of a topic: those of the directories that it has a Kconfig in."""
    own = {
        PurePosixPath(name).parent for name in topic.files if PurePosixPath(name).name == "Kconfig"
    }
    for place in own:
        yield place.name
        yield from _OPTION.findall((repo / "kernel" / place / "Kconfig").read_text())
    for name in topic.files:
        path = PurePosixPath(name)
        if path.parent in own and path.suffix == ".h":
            yield from _DECLARED.findall((repo / "kernel" / name).read_text())


@dataclass(frozen=True)
class Rules:
    """What is expected of a package: files of options, options that are off, words not there."""

    fragments: tuple[Path, ...]
    off: tuple[str, ...]
    absent: tuple[str, ...]


def rules(target: Target, config: str, repo: Path, base: Path | None) -> Rules:
    """The rules for the packages of a target; `base` is what base() returned."""
    return Rules(
        tuple(build.fragment(name) for name in fragments(target, config)),
        only_for_tests(target, config, base),
        local_words(repo),
    )
