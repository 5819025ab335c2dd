# SPDX-License-Identifier: GPL-2.0-only
"""The queue as commits of git, one for each patch, with the files that arrive with it.

They are made in a repository that holds only the files the queue touches, so it takes seconds and
not minutes. Topics that are left out are left out by git: what others change stays where it is by a
three-way merge, and not by searching for its context. git runs apart from the user's configuration;
only the identity is the user's.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from redoubt.core.errors import RedoubtError
from redoubt.core.git import Git, run
from redoubt.linux import tree
from redoubt.linux.topics import TOUCHED, Patch, Topic, closure, load, read, touched
from redoubt.machine import provenance

# "mm: ", "x86/cpu: ", "arm64: mm: "
_SUBJECT = re.compile(r"[\w./,+-]+(?: [\w./,+-]+)?: \S")
# What git takes for the end of a message.
_END = re.compile(r"diff -|Index: |---(?: \S|\s*$)")


# === Who commits =================================================================================


def author_of(repo: Path, why: str = "mails have an author") -> tuple[str, str]:
    """The user's name and address as git has them; raises RedoubtError if it has none.

    `why` says what they are needed for.
    """
    result = run(
        ["git", "-C", str(repo), "-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"]
    )
    match = re.match(r"^(.+) <(.+)> \d+ [+-]\d+$", result.stdout.strip())
    if result.returncode != 0 or match is None:
        raise RedoubtError(
            f"git does not know who you are, and {why}",
            'git config --global user.name "Your Name" && '
            "git config --global user.email you@example.org",
        )
    return match[1], match[2]


def identity(repo: Path, author: tuple[str, str]) -> dict[str, str]:
    """Author, committer and date for git.

    The date is that of the repository's last commit, so that the same queue gives the same mails.
    """
    seconds = provenance.committed(repo)
    result: dict[str, str] = {}
    for role in ("AUTHOR", "COMMITTER"):
        result[f"GIT_{role}_NAME"], result[f"GIT_{role}_EMAIL"] = author
        if seconds:
            result[f"GIT_{role}_DATE"] = f"@{seconds} +0000"
    return result


# === Messages ====================================================================================


def message(path: Path) -> str:
    """The message of a patch, which is all before its first hunk, or the text of a file COVER.

    Raises RedoubtError unless it has a subject, an empty line and a body that a mail can carry.
    """
    text = TOUCHED.split(read(path), maxsplit=1)[0].strip() + "\n"
    lines = text.split("\n")
    if not lines[0] or lines[0].startswith("["):
        raise RedoubtError(f"{path}: the first line must be the subject, without a [tag]")
    if not _SUBJECT.match(lines[0]):
        raise RedoubtError(f"{path}: the subject must begin with a subsystem, as in 'mm: '")
    if len(lines) < 3 or lines[1] != "" or not lines[2]:
        raise RedoubtError(f"{path}: the subject, an empty line and the body are expected")
    if ends := [line for line in lines if _END.match(line)]:
        raise RedoubtError(f"{path}: git am would end the message at the line '{ends[0]}'")
    return text


# === Files =======================================================================================


def place(source: Path, destination: Path) -> None:
    """Copy a file with its permissions, never writing into an existing one (it may be linked)."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.unlink(missing_ok=True)
    shutil.copy(source, destination)


def pick(pristine: Path, names: Iterable[str], destination: Path) -> None:
    """Copy the named files of the pristine tree; raises RedoubtError if one is not there."""
    for name in sorted(names):
        source = pristine / name
        if not source.is_file() or source.is_symlink():
            raise RedoubtError(f"a patch changes {name}, which is no file of {pristine}")
        place(source, destination / name)


def _add_files(repo: Path, pristine: Path, files: Iterable[str], destination: Path) -> None:
    """Copy files of kernel/; raises RedoubtError for one that is missing, or that Linux has."""
    for name in files:
        source = repo / "kernel" / name
        if not source.is_file():
            raise RedoubtError(f"patches/topics names {name}, but there is no kernel/{name}")
        if os.path.lexists(pristine / name):
            raise RedoubtError(f"kernel/{name}: Linux has this file; change it with a patch")
        place(source, destination / name)


# === Commits =====================================================================================


@dataclass(frozen=True)
class Commit:
    """One patch of a topic as a commit."""

    topic: Topic
    patch: Patch
    id: str


@dataclass(frozen=True)
class Commits:
    """A repository with commits on its branch main, from `base` on; `all` are those made there."""

    git: Git
    base: str
    all: tuple[Commit, ...]

    def only(self, topics: Collection[Topic]) -> tuple[Commit, ...]:
        """Leave out what is of other topics, and check out the rest as the branch main.

        A file NAME.without-TOPIC beside a patch NAME.patch says what is different without a topic:
        it is applied in the place of hunks that conflict, and on top of others.

        Raises RedoubtError if a patch conflicts without a topic that its own does not need.
        """
        chosen = [commit for commit in self.all if commit.topic in topics]
        if chosen == list(self.all[: len(chosen)]):
            self.git("checkout", "-q", "-B", "main", chosen[-1].id)
            return tuple(chosen)
        self.git("checkout", "-q", "-B", "main", self.base)
        absent = {commit.topic.name for commit in self.all if commit.topic not in topics}
        return tuple(self._pick(commit, absent) for commit in chosen)

    def _pick(self, commit: Commit, absent: Collection[str]) -> Commit:
        """A commit on top of what is checked out, where some topics are absent."""
        git = self.git
        path = commit.patch.path
        variants = [path.with_suffix(f".without-{name}") for name in sorted(absent)]
        variants = [variant for variant in variants if variant.is_file()]
        conflicts = set(applied(git, commit.id))
        if open_ones := conflicts - {name for variant in variants for name in touched(variant)}:
            git("reset", "-q", "--hard")
            raise RedoubtError(
                f"{commit.patch} conflicts in {', '.join(sorted(open_ones))} where "
                f"{', '.join(sorted(absent))} are left out",
                "name what the topic needs in patches/topics, or say in "
                f"{path.stem}.without-TOPIC what is different without",
            )
        for variant in variants:
            git("apply", "--index", str(variant))
        git("commit", "-q", "-C", commit.id)
        return Commit(commit.topic, commit.patch, git("rev-parse", "HEAD").strip())


def unmerged(git: Git) -> tuple[str, ...]:
    """The files that conflict."""
    return tuple(git("diff", "--name-only", "--diff-filter=U").splitlines())


def applied(git: Git, commit: str) -> tuple[str, ...]:
    """Apply a commit to what is checked out, by a three-way merge, and commit nothing.

    Hunks that conflict are left out; returns their files.
    """
    git.ended("cherry-pick", "--no-commit", commit)
    conflicts = unmerged(git)
    if conflicts:
        git("reset", "-q", "--hard")
        git.ended("cherry-pick", "--no-commit", "-X", "ours", commit)
        for file in unmerged(git):
            # There is no such file.
            git("rm", "-q", "-f", "--", file)
    return conflicts


def chosen(repo: Path, names: Collection[str]) -> list[Topic]:
    """The topics of these names that leave the repository, and those they need; all if none.

    Raises RedoubtError if there is no such topic, or none at all.
    """
    known = [topic for topic in load(repo) if not topic.local]
    if not known:
        raise RedoubtError(f"{repo}/patches/topics has no topic to export")
    return closure(known, names) if names else known


def make(pristine: Path, work: Path, repo: Path, author: tuple[str, str]) -> Commits:
    """Commit all topics that are not local in `work`, a new directory, on the files they touch.

    Each commit is signed off by the author. Raises RedoubtError for a patch that does not apply
    exactly, a message that a mail cannot carry, and a queue that contradicts itself.
    """
    topics = chosen(repo, ())
    names = {name for topic in topics for patch in topic.patches for name in touched(patch)}
    if ours := names & {name for topic in topics for name in topic.files}:
        raise RedoubtError(f"a patch changes {min(ours)}, a file of kernel/")
    work.mkdir()
    pick(pristine, names, work)
    git = Git(work, identity(repo, author))
    base = git.start()
    done: list[Commit] = []
    for topic in topics:
        for patch in topic.mails:
            text = message(patch.path)
            if patch.changes:
                tree.apply_series(work, [patch.path])
            _add_files(repo, pristine, patch.files, work)
            git.commit(git.signed(text, author))
            done.append(Commit(topic, patch, git("rev-parse", "HEAD").strip()))
    return Commits(git, base, tuple(done))
