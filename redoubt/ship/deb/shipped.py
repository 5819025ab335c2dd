# SPDX-License-Identifier: GPL-2.0-only
"""What is shipped: a tree without what is local, its options, and what must not be in there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.linux import build, distro, topics, tree
from redoubt.linux.own import Own
from redoubt.targets import TARGETS, Target

DISTRO = "distro"
SMALL = "small"
CONFIGS = (DISTRO, SMALL)
_OPTION = re.compile(r"^(?:menu)?config (\w+)$", re.MULTILINE)
# What a header says that other files define.
_DECLARED = re.compile(r"^(?!static|typedef|return)\w[\w \t*]*?\b(\w+)\(", re.MULTILINE)


def queue(repo: Path) -> tree.Queue:
    """The part of the queue that is shipped: all topics but the local ones.

    It is copied: packages would carry links to somewhere here.
    """
    names = [topic.name for topic in topics.load(repo) if not topic.local]
    return replace(topics.part(repo, names), copied=True)


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
        names = ", ".join(CONFIGS)
        raise RedoubtError(f"unknown configuration '{config}'", f"one of: {names}; or a file")
    if config == DISTRO:
        return (*target.shipped, "deb-distro")
    return (*target.fragments, *target.shipped, *target.small)


def base(target: Target, config: str, progress: Progress, mine: Own | None = None) -> Path | None:
    """The configuration that the fragments are merged into; None for the smallest there is.

    Raises RedoubtError if the distribution's cannot be had.
    """
    if mine:
        return mine.file
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
    words = {word for topic in topics.load(repo) if topic.local for word in _words(repo, topic)}
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


def rules(
    target: Target, config: str, repo: Path, base: Path | None, mine: Own | None = None
) -> Rules:
    """The rules for the packages of a target; `base` is what base() returned.

    The user alone decides on the options of a configuration of the user's.
    """
    if mine:
        return Rules((mine.fragment(target, packed=True),), (), local_words(repo))
    return Rules(
        tuple(build.fragment(name) for name in fragments(target, config)),
        only_for_tests(target, config, base),
        local_words(repo),
    )
