# SPDX-License-Identifier: GPL-2.0-only
"""The queue as a branch of git: the pristine kernel, and one commit for each patch.

`make` keeps a repository with the branches `base`, which is the pristine kernel, and `redoubt`. To
move the queue to another kernel is to rebase: that kernel becomes the branch `onto`, and `git
rebase` stops at the first patch that conflicts, for a maintainer to go on with git alone.
`rehearse` goes over all patches instead, keeps nothing and needs no repository of the whole kernel.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.git import Git, failed
from redoubt.core.progress import Progress
from redoubt.linux.source import Source
from redoubt.ship import commits, series

# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = ".branch-*"
NAME = "redoubt"
# The branch as it was made here, to know whether somebody has worked on it since.
_MADE = "refs/redoubt/made"

APPLIES = "applies"
THERE = "there already"
CONFLICTS = "conflicts"


@dataclass(frozen=True)
class Outcome:
    """What became of a patch on another kernel, and the files that conflict."""

    patch: str
    verdict: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Branch:
    """A branch that was made: its patches, or at which it has stopped and what is still to come."""

    where: Path
    version: str
    patches: tuple[str, ...]
    stopped: Outcome | None = None
    left: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if all patches are on the branch."""
        return self.stopped is None


def render(branch: Branch) -> Iterator[str]:
    """What was made, as lines of text, with what to do next."""
    count = len(branch.patches)
    if branch.stopped is None:
        yield f"{branch.where}: {count} patches on Linux {branch.version}, on the branch {NAME}"
        return
    done = count - len(branch.left) - 1
    yield f"{done} of {count} patches are on Linux {branch.version}; this one conflicts:"
    yield f"    {branch.stopped.patch}"
    yield from (f"        {file}" for file in branch.stopped.files)
    if branch.left:
        yield "still to come:"
        yield from (f"    {patch}" for patch in branch.left)
    yield f"mend the files in {branch.where}, git add them, and: git rebase --continue"


def tried(version: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What a rehearsal has shown, as lines of text."""
    for one in outcomes:
        if one.verdict != APPLIES:
            yield f"{one.verdict.upper()} {one.patch}"
            yield from (f"    {file}" for file in one.files)
    counts = [
        f"{sum(one.verdict == verdict for one in outcomes)} {verdict}"
        for verdict in (APPLIES, THERE, CONFLICTS)
    ]
    yield f"{len(outcomes)} patches on Linux {version}: {', '.join(counts)}"


# === A repository of the whole kernel ============================================================


def make(
    pristine: Source,
    where: Path,
    progress: Progress,
    *,
    repo: Path | None = None,
    topics: Collection[str] = (),
    onto: Source | None = None,
) -> Branch:
    """Make the branch in the repository `where`, which is made if there is none.

    With `topics` it has only those and what they need. Raises RedoubtError if somebody has worked
    on the branch or is in the middle of a rebase, as `series.export` does, and as git does.
    """
    repo = repo or paths.repo()
    author = commits.author_of(repo, "commits have an author")
    identity = commits.identity(repo, author)
    names = [str(patch) for topic in commits.chosen(repo, topics) for patch in topic.mails]
    with tempfile.TemporaryDirectory(prefix="redoubt-") as scratch:
        with progress.step("Making the commits"):
            mails = series.export(
                pristine.path, Path(scratch) / "mails", repo=repo, topics=topics, author=author
            )
        if not where.exists():
            _start(where, identity)
        git = Git(where, identity)
        _check_idle(git)
        with progress.step(f"Taking Linux {pristine.version} for the base"):
            base = _imported(git, pristine, "base")
        with progress.step(f"Applying {len(mails)} patches"):
            git("checkout", "-q", "-B", NAME, base)
            git("am", "-q", *map(str, mails))
            git("update-ref", _MADE, NAME)
    if onto is None:
        return Branch(where, pristine.version, tuple(names))
    with progress.step(f"Taking Linux {onto.version} to rebase on"):
        target = _imported(git, onto, "onto")
    with progress.step(f"Rebasing onto Linux {onto.version}"):
        ended = git.ended("rebase", "-q", "--onto", target, base, NAME)
        stopped_at = where / ".git" / "rebase-merge" / "msgnum"
        # What rerere remembers how to mend needs nobody.
        while ended.returncode and stopped_at.is_file() and not commits.unmerged(git):
            before = stopped_at.read_text()
            ended = git.ended("-c", "core.editor=true", "rebase", "--continue")
            if stopped_at.is_file() and stopped_at.read_text() == before:
                raise failed("rebase", ended)
    if ended.returncode and not stopped_at.is_file():
        raise failed("rebase", ended)
    if ended.returncode:
        number = int(stopped_at.read_text())
        stopped = Outcome(names[number - 1], CONFLICTS, commits.unmerged(git))
        return Branch(where, onto.version, tuple(names), stopped, tuple(names[number:]))
    git("update-ref", _MADE, NAME)
    return Branch(where, onto.version, tuple(names))


def _start(where: Path, identity: dict[str, str]) -> None:
    """Make an empty repository."""
    where.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where.parent, prefix=UNFINISHED[:-1]) as name:
        fresh = Path(name) / "branch"
        fresh.mkdir()
        git = Git(fresh, identity)
        git("init", "-q", "-b", "base", "--template=")
        for option, value in (
            ("core.autocrlf", "false"),
            ("feature.manyFiles", "true"),
            ("merge.conflictStyle", "zdiff3"),
            ("rerere.enabled", "true"),
            ("rerere.autoUpdate", "true"),
        ):
            git("config", option, value)
        fresh.rename(where)


def _check_idle(git: Git) -> None:
    """Raise RedoubtError if the branch is not ours to make anew."""
    where = git.directory
    if not (where / ".git").is_dir():
        raise RedoubtError(f"{where} is no repository of git", "give another --output")
    if any((where / ".git" / name).exists() for name in ("rebase-merge", "rebase-apply")):
        raise RedoubtError(
            f"a rebase is going on in {where}",
            f"git -C {where} rebase --continue, or rebase --abort",
        )
    tip, made = (
        git.ended("rev-parse", "-q", "--verify", ref).stdout
        for ref in (f"refs/heads/{NAME}", _MADE)
    )
    if tip and tip != made:
        raise RedoubtError(
            f"the branch {NAME} in {where} was changed since it was made",
            f"keep it: git -C {where} branch -m {NAME} mine",
        )
    if tip and git("status", "--porcelain").strip():
        raise RedoubtError(f"{where} has changes that are in no commit", "commit or stash them")


def _imported(git: Git, source: Source, branch: str) -> str:
    """The commit of a kernel, as a branch: that of its own repository, or of its files."""
    ref = f"refs/heads/{branch}"
    if branch != "base" and (source.path / ".git").exists():
        git("fetch", "-q", "--depth=1", str(source.path), "HEAD")
        git("update-ref", ref, "FETCH_HEAD")
        return git("rev-parse", ref).strip()
    # An index of its own: what is known of the tree's files makes the next time fast.
    index = git.directory / ".git" / f"index-{hashlib.sha256(bytes(source.path)).hexdigest()[:12]}"
    there = {
        "GIT_DIR": str(git.directory / ".git"),
        "GIT_WORK_TREE": str(source.path),
        "GIT_INDEX_FILE": str(index),
    }
    away = Git(source.path, {**git.identity, **there})
    # Ignore rules of the kernel's own .gitignore must not hide a file.
    away("add", "-A", "-f", ".")
    tree = away("write-tree")
    if git.ended("rev-parse", "-q", "--verify", f"{ref}^{{tree}}").stdout != tree:
        new = git("commit-tree", tree.strip(), "-m", f"Linux {source.version}").strip()
        git("update-ref", ref, new)
    return git("rev-parse", ref).strip()


# === A rehearsal =================================================================================


def rehearse(
    pristine: Source, other: Source, *, repo: Path | None = None, topics: Collection[str] = ()
) -> tuple[Outcome, ...]:
    """Apply each patch to another kernel, with git's three-way merge, and say what comes of it.

    Hunks that conflict leave the other kernel as it is, so that later patches can be judged. Only
    files of the queue's names are looked at: a file that was renamed there is missing. Raises
    RedoubtError as `commits.make` does.
    """
    repo = repo or paths.repo()
    wanted = commits.chosen(repo, topics)
    with tempfile.TemporaryDirectory(prefix="redoubt-") as scratch:
        made = commits.make(
            pristine.path, Path(scratch) / "tree", repo, ("Redoubt", "redoubt@localhost")
        )
        chosen = made.only(wanted)
        git = made.git
        # With the files of ours: their names may be taken there.
        names = git("ls-files").splitlines()
        git("checkout", "-q", "--detach", made.base)
        for name in names:
            if (other.path / name).is_file():
                commits.place(other.path / name, git.directory / name)
            else:
                (git.directory / name).unlink(missing_ok=True)
        git.commit(f"Linux {other.version}")
        return tuple(_rehearsed(git, commit, other) for commit in chosen)


def _rehearsed(git: Git, commit: commits.Commit, other: Source) -> Outcome:
    """Apply one commit on top of what is checked out, and commit what of it does not conflict."""
    name = str(commit.patch)
    files = commits.applied(git, commit.id)
    changes = bool(git("diff", "--cached", "--name-only").strip())
    if changes:
        git("commit", "-q", "-C", commit.id)
    git("reset", "-q", "--hard")
    if files:
        shown = [
            file if os.path.lexists(other.path / file) else f"{file}: missing" for file in files
        ]
        return Outcome(name, CONFLICTS, tuple(shown))
    return Outcome(name, APPLIES if changes else THERE)
