# SPDX-License-Identifier: GPL-2.0-only
"""The queue by topics: which patches belong together, and which files arrive with each of them.

patches/topics has the order of all patches. Those that change files of Linux are also in
patches/series, for quilt, which takes no patch without a hunk: a patch that only adds files of
kernel/ is a message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from redoubt.core.errors import RedoubtError
from redoubt.linux import tree

# Where the changes of a file begin: its names before and after.
TOUCHED = re.compile(r"^--- ([^\t\n]+).*\n\+\+\+ ([^\t\n]+).*\n@@ ", re.MULTILINE)


@dataclass(frozen=True)
class Patch:
    """One patch: its message, with hunks if it `changes` files, and the `files` it adds."""

    path: Path
    changes: bool
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


@dataclass(frozen=True)
class Topic:
    """One topic of the queue, and the earlier topics it needs.

    `results` are patterns of the files in results/ that tell about it.
    """

    name: str
    local: bool = False
    needs: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    mails: tuple[Patch, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it adds."""
        return tuple(file for patch in self.mails for file in patch.files)

    @property
    def patches(self) -> tuple[Path, ...]:
        """Its patches that change files."""
        return tuple(patch.path for patch in self.mails if patch.changes)

    def concerns(self, architectures: Sequence[str]) -> bool:
        """Does it change kernels of these architectures, by their names in arch/?

        tools/ has programs that no kernel is built of.
        """
        names = {*self.files, *(name for patch in self.patches for name in touched(patch))}
        places = [PurePosixPath(name).parts for name in names]
        return any(
            place[0] != "tools"
            and (place[0] != "arch" or len(place) < 3 or place[1] in architectures)
            for place in places
        )


def load(repo: Path) -> list[Topic]:
    """The topics of patches/topics in order.

    Raises RedoubtError for a malformed file, a patch that does not exist, a topic that needs a
    later or a local one, and a patches/series that says something else.
    """
    listing = repo / "patches" / "topics"
    topics: list[Topic] = []
    for number, line in enumerate(read(listing).splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            if words[0] == "topic":
                topics.append(_head(words, topics))
            elif not topics:
                raise RedoubtError("expected 'topic NAME'")
            else:
                topics[-1] = _more(repo, topics, line[0].isspace(), words)
        except RedoubtError as error:
            raise RedoubtError(f"{listing}:{number}: {error.message}") from error
    for patch in (patch for topic in topics for patch in topic.mails):
        if not patch.changes and not patch.files:
            raise RedoubtError(f"{patch} changes no file, and none arrives with it")
    _check_series(repo, topics)
    return topics


def _head(words: list[str], topics: list[Topic]) -> Topic:
    if len(words) not in (2, 3) or words[2:] not in ([], ["local"]):
        raise RedoubtError("expected 'topic NAME' or 'topic NAME local'")
    if any(words[1] == known.name for known in topics):
        raise RedoubtError(f"topic {words[1]} stands here twice")
    local = len(words) == 3
    if not local and topics and topics[-1].local:
        # Its patches may have been made on top of the local ones.
        raise RedoubtError(f"topic {words[1]} follows the local {topics[-1].name}")
    return Topic(words[1], local)


def _more(repo: Path, topics: list[Topic], indented: bool, words: list[str]) -> Topic:
    """The last topic with what another line says of it."""
    topic, word = topics[-1], words[0]
    if not indented and word == "needs":
        known = {one.name for one in topics[:-1] if topic.local or not one.local}
        if missing := set(words[1:]) - known:
            raise RedoubtError(f"{topic.name} needs {', '.join(sorted(missing))}, no earlier topic")
        return replace(topic, needs=(*topic.needs, *words[1:]))
    if not indented and word == "results":
        return replace(topic, results=(*topic.results, *words[1:]))
    if len(words) > 1:
        raise RedoubtError("expected a patch, or the path of one file below it")
    if not indented:
        return replace(topic, mails=(*topic.mails, _patch(repo, topic, word)))
    if not topic.mails:
        raise RedoubtError(f"{word} arrives with no patch")
    if any(word in one.files for one in topics):
        raise RedoubtError(f"{word} is introduced twice")
    *before, last = topic.mails
    return replace(topic, mails=(*before, replace(last, files=(*last.files, word))))


def _patch(repo: Path, topic: Topic, name: str) -> Patch:
    if not name.endswith(".patch") or "/" in name:
        raise RedoubtError(f"expected the name of a patch, not {name}")
    path = repo / "patches" / topic.name / name
    if any(path == known.path for known in topic.mails):
        raise RedoubtError(f"{name} stands here twice")
    if not path.is_file():
        raise RedoubtError(f"patches/topics names {topic.name}/{name}, which does not exist")
    return Patch(path, bool(TOUCHED.search(read(path))))


def _check_series(repo: Path, topics: Sequence[Topic]) -> None:
    """Raise RedoubtError unless patches/series has the patches with hunks, in the same order."""
    listing = repo / "patches" / "series"
    wanted = [str(patch) for topic in topics for patch in topic.mails if patch.changes]
    found = tree.series(repo)
    if found == wanted:
        return
    if missing := [name for name in wanted if name not in found]:
        raise RedoubtError(f"{listing} lacks {missing[0]}, which patches/topics has")
    if more := [name for name in found if name not in wanted]:
        raise RedoubtError(f"{listing} has {more[0]}, which is no patch of patches/topics to push")
    raise RedoubtError(f"{listing} and patches/topics have the patches in different orders")


def closure(topics: Sequence[Topic], names: Collection[str]) -> list[Topic]:
    """The topics of these names and those they need, in order."""
    if missing := set(names) - {topic.name for topic in topics}:
        raise RedoubtError(
            f"patches/topics has no topic {', '.join(sorted(missing))}",
            f"topics: {', '.join(topic.name for topic in topics)}",
        )
    wanted = set(names)
    # Needs are earlier topics.
    for topic in reversed(topics):
        if topic.name in wanted:
            wanted.update(topic.needs)
    return [topic for topic in topics if topic.name in wanted]


def part(repo: Path, names: list[str]) -> tree.Queue:
    """The part of the queue that some topics are, without those they need, in order."""
    known = load(repo)
    chosen = [topic for topic in closure(known, names) if topic.name in names]
    return tree.Queue(
        repo / "kernel",
        tuple(sorted(file for topic in chosen for file in topic.files)),
        tuple(patch for topic in chosen for patch in topic.patches),
    )


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
    """The text of a file, whatever bytes it has."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise RedoubtError(f"cannot read {path}: {error.strerror}") from error
