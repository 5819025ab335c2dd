# SPDX-License-Identifier: GPL-2.0-only
"""The topics of the queue: which files of kernel/ and which patches belong together, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from redoubt.core.errors import RedoubtError
from redoubt.linux import tree

# Where the changes of a file begin: its names before and after.
TOUCHED = re.compile(r"^--- ([^\t\n]+).*\n\+\+\+ ([^\t\n]+).*\n@@ ", re.MULTILINE)


@dataclass(frozen=True)
class Topic:
    """One topic of the queue: its files under kernel/ and its patches, in order."""

    name: str
    local: bool
    files: tuple[str, ...]
    patches: tuple[Path, ...]

    def concerns(self, architectures: Sequence[str]) -> bool:
        """Does it change anything but files of other architectures, by their names in arch/?

        Raises RedoubtError as `touched` does.
        """
        names = {*self.files, *(name for patch in self.patches for name in touched(patch))}
        places = [PurePosixPath(name).parts for name in names]
        return any(
            place[0] != "arch" or len(place) < 3 or place[1] in architectures for place in places
        )


def load(repo: Path) -> list[Topic]:
    """The topics of patches/topics in order, with their patches from patches/series.

    Raises RedoubtError for a malformed file, a patch of no topic, and patches out of order.
    """
    listing = repo / "patches" / "topics"
    names: list[tuple[str, bool]] = []
    files: dict[str, list[str]] = {}
    for number, line in enumerate(read(listing).splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        where = f"{listing}:{number}"
        if words[0] == "topic":
            if len(words) not in (2, 3) or words[2:] not in ([], ["local"]):
                raise RedoubtError(f"{where}: expected 'topic NAME' or 'topic NAME local'")
            if words[1] in files:
                raise RedoubtError(f"{where}: topic {words[1]} stands here twice")
            names.append((words[1], len(words) == 3))
            files[words[1]] = []
        elif len(words) > 1 or not names:
            raise RedoubtError(f"{where}: expected the path of one file, below a topic")
        elif any(words[0] in known for known in files.values()):
            raise RedoubtError(f"{where}: {words[0]} is introduced twice")
        else:
            files[names[-1][0]].append(words[0])
    patches = _series(repo, [name for name, _ in names])
    result = [Topic(name, local, tuple(files[name]), patches[name]) for name, local in names]
    seen_local = ""
    for topic in result:
        if topic.local:
            seen_local = topic.name
        elif seen_local:
            # Its patches may have been made on top of the local ones.
            raise RedoubtError(f"{listing}: topic {topic.name} follows the local {seen_local}")
    return result


def part(repo: Path, names: list[str]) -> tree.Queue:
    """The part of the queue that some topics are, in the order of the series.

    Raises RedoubtError if there is no topic of a name, and as `load` does.
    """
    known = load(repo)
    missing = set(names) - {topic.name for topic in known}
    if missing:
        raise RedoubtError(f"patches/topics has no topic {', '.join(sorted(missing))}")
    chosen = [topic for topic in known if topic.name in names]
    return tree.Queue(
        repo / "kernel",
        tuple(sorted(file for topic in chosen for file in topic.files)),
        tuple(patch for topic in chosen for patch in topic.patches),
    )


def _series(repo: Path, names: list[str]) -> dict[str, tuple[Path, ...]]:
    """The patches of each topic; raises RedoubtError unless they stand in the topics' order."""
    listing = repo / "patches" / "series"
    found: dict[str, list[Path]] = {name: [] for name in names}
    last = 0
    for number, line in enumerate(read(listing).splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        where = f"{listing}:{number}"
        topic = PurePosixPath(words[0]).parts[0]
        if len(words) > 1:
            raise RedoubtError(f"{where}: patches are applied with -p1 and no other option")
        if topic not in found:
            raise RedoubtError(f"{where}: {words[0]} belongs to no topic of patches/topics")
        if names.index(topic) < last:
            raise RedoubtError(f"{where}: {words[0]} stands behind a later topic")
        last = names.index(topic)
        path = repo / "patches" / words[0]
        if not path.is_file():
            raise RedoubtError(f"{where}: there is no patches/{words[0]}")
        found[topic].append(path)
    return {name: tuple(items) for name, items in found.items()}


def touched(patch: Path) -> set[str]:
    """The files a patch changes; raises RedoubtError if it adds or removes one."""
    found: set[str] = set()
    for pair in TOUCHED.findall(read(patch)):
        for name in pair:
            parts = PurePosixPath(name.strip()).parts
            if name.strip() == "/dev/null":
                raise RedoubtError(f"{patch} adds or removes a file; new files belong in kernel/")
            if len(parts) < 2 or ".." in parts or parts[0] == "/":
                raise RedoubtError(f"{patch} names a file that -p1 cannot resolve: {name}")
            found.add(str(PurePosixPath(*parts[1:])))
    if not found:
        raise RedoubtError(f"{patch} changes no file")
    return found


def read(path: Path) -> str:
    """The text of a file, whatever bytes it has. Raises RedoubtError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise RedoubtError(f"cannot read {path}: {error.strerror}") from error
