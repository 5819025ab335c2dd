# SPDX-License-Identifier: GPL-2.0-only
"""Whether a tree has our patches already: it is known by the files that arrive with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from redoubt.core.errors import RedoubtError
from redoubt.linux import debian, topics
from redoubt.linux.version import commit_of


@dataclass(frozen=True)
class Applied:
    """The topics of which a tree has files: how many of them, and of how many.

    It is `whole` with all files of all topics but the local ones, which are not exported.
    """

    topics: tuple[tuple[str, int, int], ...]
    whole: bool

    def __str__(self) -> str:
        shown = [
            name if there == of else f"{name} ({there} of {of} files)"
            for name, there, of in self.topics
        ]
        return ", ".join(shown)


def found(tree: Path, repo: Path) -> Applied | None:
    """The topics of a repository that a tree has at least one added file of; None if none."""
    counts = [
        (topic, sum((tree / file).exists() for file in topic.files), len(topic.files))
        for topic in topics.load(repo)
        if topic.files
    ]
    some = tuple((topic.name, there, of) for topic, there, of in counts if there)
    whole = all(there == of for topic, there, of in counts if not topic.local)
    return Applied(some, whole) if some else None


def needs_none(tree: Path, version: str, repo: Path) -> None:
    """Raise RedoubtError if a tree of this version has our patches, with how to get one without."""
    there = found(tree, repo)
    if not there:
        return
    much = "our patches already" if there.whole else "a part of our patches already"
    hint = debian.WITHOUT_KERNEL
    if commit_of(tree):
        tag = "v" + version.removesuffix(".0")
        hint = f"a tree without them: git -C {tree} worktree add /path/to/linux {tag}"
    raise RedoubtError(f"{tree} has {much}: {there}", hint)
