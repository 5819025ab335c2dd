# SPDX-License-Identifier: GPL-2.0-only
"""The queue as mails: one for each patch, for `git am` on the pristine tree.

Each is signed off by the user. A cover letter goes before them if there is a text for it.

`check` takes the mails back: `git am` puts them on a pristine tree and the result has to equal
pristine plus kernel/ plus patches/ (without local topics) byte for byte, and each prefix of the
series can be handed to a builder as a real source tree. Each topic has to stand alone with those it
needs. How the mails look can be judged by a checker, too.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.git import Git, run
from redoubt.linux import topics as topics_module
from redoubt.linux.topics import Topic, read
from redoubt.ship import commits
from redoubt.ship.commits import Commit, Commits, pick, place
from redoubt.ship.lint import Finding

# Blob names as long as the kernel's, and nothing that depends on the version of git.
_FORMAT = ("-n", "--no-renames", "--abbrev=12", "--no-signature")
# The first paragraph of a text is its subject, the rest stands before the list of mails.
_WITH_COVER = ("--cover-letter", "--cover-from-description=subject")

COVER_LETTER = "0000-cover-letter.patch"
_MAILS = "[0-9][0-9][0-9][0-9]-*.patch"

_MAIL_TOUCHED = re.compile(r"^diff --git a/(\S+) b/(\S+)$", re.MULTILINE)


# === Trees =======================================================================================


@contextmanager
def _scratch(near: Path | None = None, at: Path | None = None) -> Iterator[Path]:
    """A directory that is gone afterwards.

    It is `.redoubt-series` in `at` if that is given, the same each time. Otherwise it has a random
    name, beside `near` if that is given and writable (so that files can be linked).
    """
    if at is not None:
        fixed = at / ".redoubt-series"
        shutil.rmtree(fixed, ignore_errors=True)  # of a run that was killed
        fixed.mkdir(parents=True)
        try:
            yield fixed
        finally:
            shutil.rmtree(fixed, ignore_errors=True)
        return
    parent = None
    if near is not None:
        beside = Path(os.path.realpath(near)).parent
        parent = beside if os.access(beside, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".redoubt-series-", dir=parent) as name:
        yield Path(name)


# === Export ======================================================================================


def export(
    pristine: Path,
    out: Path,
    *,
    repo: Path | None = None,
    topics: Collection[str] = (),
    author: tuple[str, str] | None = None,
    letter: str | None = None,
) -> list[Path]:
    """Write the queue to `out` as mails for `git am`; returns what is written, in order.

    With `topics` only those and what they need. The author is the user (name, address) unless
    given, and signs each mail off. `letter` is subject and text of a cover letter; without it there
    is none.

    What an earlier run wrote is replaced, and only once everything new is there. Raises
    RedoubtError for a patch that does not apply exactly or has no message, a topic that needs more
    than it says, and a queue that contradicts itself.
    """
    repo = repo or paths.repo()
    wanted = commits.chosen(repo, topics)
    with _scratch() as scratch:
        made = commits.make(pristine, scratch / "tree", repo, author or commits.author_of(repo))
        made.only(wanted)
        mails = scratch / "mails"
        options = list(_FORMAT)
        if letter is not None:
            made.git("config", "branch.main.description", letter)
            options += _WITH_COVER
        made.git("format-patch", "-q", "-o", str(mails), *options, made.base)
        return _publish(sorted(mails.iterdir()), out)


def _publish(mails: list[Path], out: Path) -> list[Path]:
    """Replace the mails in `out` by new ones."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        fresh: list[Path] = []
        for mail in mails:
            new = out / f".{mail.name}.new"
            shutil.copyfile(mail, new)
            fresh.append(new)
        for old in out.glob(_MAILS):
            old.unlink(missing_ok=True)
        return [new.replace(out / mail.name) for new, mail in zip(fresh, mails, strict=True)]
    except OSError as error:
        raise RedoubtError(f"cannot write the mails to {out}: {error.strerror}") from error


def sending(pristine: Path, mails: Path) -> str:
    """The command that sends mails to those whom the kernel's MAINTAINERS name."""
    ask = f"cd {pristine} && scripts/get_maintainer.pl --nogit --nogit-fallback --norolestats"
    return (
        f"git send-email --dry-run --to-cmd='{ask} --no-l --no-r'"
        f" --cc-cmd='{ask} --no-m' {mails}/*.patch"
    )


# === Check =======================================================================================


@dataclass(frozen=True)
class Report:
    """What the check saw.

    `different` are files on which the mails and our tree disagree; `alone` the topics that stand
    alone with those they need, and `entangled` what is wrong with the others; `built` the topics,
    or the patches, up to which a prefix was built; `full` tells whether git had the whole pristine
    tree or the touched files. `findings` are those of a checker of mails, None if there was none.
    """

    mails: tuple[Path, ...]
    files: int
    different: tuple[str, ...]
    built: tuple[str, ...]
    full: bool
    findings: tuple[Finding, ...] | None = None
    alone: tuple[str, ...] = ()
    entangled: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if the mails give our tree, look as they should, and topics stand alone."""
        return not self.different and not self.findings and not self.entangled

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "ok": self.ok,
            "mails": [mail.name for mail in self.mails],
            "files": self.files,
            "different": list(self.different),
            "alone": list(self.alone),
            "entangled": list(self.entangled),
            "built": list(self.built),
            "full": self.full,
            "findings": None if self.findings is None else [asdict(one) for one in self.findings],
        }


def render(report: Report) -> list[str]:
    """The report as lines of text."""
    lines = [f"DIFFERS {name}" for name in report.different]
    lines += [f"ENTANGLED {text}" for text in report.entangled]
    lines += [str(finding) for finding in report.findings or ()]
    where = "the whole pristine tree" if report.full else "the files they touch"
    lines.append(
        f"{len(report.mails)} mails applied with git am to {where}: {report.files} files compared, "
        f"{len(report.different)} differ from our tree"
    )
    if report.alone:
        lines.append(f"topics that stand alone, with those they need: {', '.join(report.alone)}")
    if report.built:
        lines.append(f"prefixes built: {', '.join(report.built)}")
    if report.findings is not None:
        lines.append(f"checkpatch --strict: {len(report.findings)} findings")
    if report.different:
        lines.append("series: the mails do not give our tree")
    elif report.entangled:
        lines.append("series: a topic needs more than it says")
    elif report.findings:
        lines.append("series: the mails are not fit to be sent")
    else:
        lines.append("series: clean")
    return lines


def check(
    pristine: Path,
    out: Path,
    *,
    build: Callable[[Path, Commit], bool | None] | None,
    each: bool = False,
    repo: Path | None = None,
    topics: Collection[str] = (),
    full: bool = False,
    work_in: Path | None = None,
    letter: str | None = None,
    judge: Callable[[Sequence[Path]], tuple[Finding, ...]] | None = None,
) -> Report:
    """Apply the mails in `out` to pristine and compare with our tree; then build the prefixes.

    They are those of `topics` and what these need, all if there are none. `letter` is what the
    cover letter has to say. `judge` is a checker of how mails look.

    `build` is called with a source tree and the last commit in it, once per topic, or for `each`
    mail; the tree is one directory that grows, so that a builder which keeps its objects rebuilds
    little. A builder that leaves a prefix out returns False, and the report does not name it. The
    tree may be hard-linked with pristine: build out of tree, never change it.
    It stands in `work_in`, at the same path in each run, if that is given: ccache looks at paths.
    With `full`, git am works on all of pristine (a minute) instead of on the touched files.

    Raises RedoubtError if git am refuses a mail, or with the builder's error and the topic's name.
    Different files are not an error but in the report; then nothing is built.
    """
    repo = repo or paths.repo()
    # Nobody sees these commits, so they can be anyone's.
    author = ("Redoubt", "redoubt@localhost")
    wanted = commits.chosen(repo, topics)
    mails = sorted(set(out.glob(_MAILS)) - {out / COVER_LETTER}) if out.is_dir() else []
    if not mails:
        raise RedoubtError(f"there are no mails in {out}", "export the series first")
    with _scratch(pristine, work_in) as scratch:
        made = commits.make(pristine, scratch / "expected", repo, author)
        alone, entangled = _separate(made, wanted)
        ours = made.only(wanted)
        expected = made.git.directory

        work = scratch / "tree"
        if full:
            copy_tree(pristine, work, link=False)
        else:
            work.mkdir()
            mailed = {
                name
                for mail in mails
                for pair in _MAIL_TOUCHED.findall(read(mail))
                for name in pair
            }
            pick(pristine, {name for name in mailed if (pristine / name).is_file()}, work)
        git = Git(work, commits.identity(repo, author))
        base = git.start()
        git("am", "-q", *(str(mail.resolve()) for mail in mails))
        taken = git("rev-list", "--reverse", f"{base}..HEAD").split()
        if len(taken) != len(ours):
            raise RedoubtError(f"{len(ours)} patches, but the mails make {len(taken)} commits")
        different = ["cover letter"] if letter and not _says(out / COVER_LETTER, letter) else []
        different += [
            f"message of {mine.patch}"
            for mine, commit in zip(ours, taken, strict=True)
            if not _carries(git, commit, commits.message(mine.patch.path))
        ]
        files = {
            name
            for one, first in ((git, base), (made.git, made.base))
            for name in one("diff", "-z", "--no-renames", "--name-only", first, "HEAD").split("\0")
            if name
        }
        if full:
            files |= _names(work) | _names(pristine)
        for name in sorted(files):
            own = expected / name
            if not _same(work / name, own if os.path.lexists(own) else pristine / name):
                different.append(name)
        found = judge(mails) if judge else None
        built: list[str] = []
        if build is not None and not different:
            prefix = scratch / "prefix"
            copy_tree(pristine, prefix, link=True)
            for mine, after, commit in zip(ours, (*ours[1:], None), taken, strict=True):
                _advance(git, commit, work, prefix)
                if not each and after and after.topic == mine.topic:
                    continue
                name = str(mine.patch) if each else mine.topic.name
                try:
                    done = build(prefix, mine)
                except RedoubtError as error:
                    raise RedoubtError(
                        f"the series up to {name} does not stand alone: {error}"
                    ) from error
                if done is not False:
                    built.append(name)
        return Report(
            tuple(mails), len(files), tuple(different), tuple(built), full, found, alone, entangled
        )


def _separate(made: Commits, wanted: Sequence[Topic]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The topics that stand alone with those they need, and why others do not."""
    alone, entangled = [], []
    for topic in wanted:
        try:
            made.only(topics_module.closure(wanted, [topic.name]))
        except RedoubtError as error:
            entangled.append(error.message)
        else:
            alone.append(topic.name)
    return tuple(alone), tuple(entangled)


def _carries(git: Git, commit: str, message: str) -> bool:
    """Is that the message of the commit, signed off by its author?"""
    name, mailbox, text = git("log", "-1", "--format=%an%n%ae%n%B", commit).split("\n", 2)
    return text.strip() == git.signed(message, (name, mailbox)).strip()


def _says(cover: Path, letter: str) -> bool:
    """Is that the cover letter with this subject and text?"""
    if not cover.is_file():
        return False
    head, _, body = read(cover).partition("\n\n")
    subject, _, text = letter.strip().partition("\n\n")
    # A long subject is folded.
    headers = re.sub(r"\n(?=[ \t])", "", head) + "\n"
    return f"] {subject}\n" in headers and body.startswith(text)


def _names(directory: Path) -> set[str]:
    """All files below a directory, by relative path; git's own left out."""
    found: set[str] = set()
    for top, subdirectories, files in os.walk(directory):
        if Path(top) == directory:
            subdirectories[:] = [name for name in subdirectories if name != ".git"]
            files = [name for name in files if name != ".git"]
        links = [name for name in subdirectories if os.path.islink(os.path.join(top, name))]
        found.update(os.path.relpath(os.path.join(top, name), directory) for name in files + links)
    return found


def _same(one: Path, other: Path) -> bool:
    """True if both are the same: content and right to execute, or where a link points."""
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and os.readlink(one) == os.readlink(other)
    if not one.is_file() or not other.is_file():
        return False
    if (one.stat().st_mode ^ other.stat().st_mode) & 0o100:
        return False
    return one.read_bytes() == other.read_bytes()


def copy_tree(source: Path, destination: Path, *, link: bool) -> None:
    """Copy a source tree; with `link`, by hard links where the file system grants them."""
    ways = [["-l"], []] if link else [[]]
    for way in ways:
        result = run(["cp", "-a", "--reflink=auto", *way, f"{source}/.", str(destination)])
        if result.returncode == 0:
            _drop_git(destination)
            return
        shutil.rmtree(destination, ignore_errors=True)
    words = result.stderr.strip().splitlines()
    raise RedoubtError(f"cannot copy {source}: {words[0] if words else 'cp failed'}")


def _advance(git: Git, commit: str, work: Path, prefix: Path) -> None:
    """Bring the prefix tree from the commit before to `commit`, replacing files, never in place."""
    git("checkout", "-q", commit)
    changed = git("diff-tree", "-r", "-z", "--no-commit-id", "--name-only", commit).split("\0")
    for name in filter(None, changed):
        if (work / name).exists():
            place(work / name, prefix / name)
        else:
            (prefix / name).unlink(missing_ok=True)


def _drop_git(directory: Path) -> None:
    """Remove the repository a copied tree brought along, if it is one."""
    git = directory / ".git"
    if git.is_dir() and not git.is_symlink():
        shutil.rmtree(git)
    else:
        git.unlink(missing_ok=True)
