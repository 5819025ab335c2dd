# SPDX-License-Identifier: GPL-2.0-only
"""The queue as mails: one commit per topic, for `git am` on the pristine tree.

Each is signed off by the user. A cover letter goes before them if there is a text for it; whom the
mails go to is written beside them, or into them.

`export` makes the commits in a scratch repository that holds only the files the topics touch, so it
takes a second and not minutes; the mails are the same. `check` takes the mails back: `git am` puts
them on a pristine tree and the result has to equal pristine plus kernel/ plus patches/ (without
local topics) byte for byte, built anew without git; and each prefix of the series can be handed to
a builder as a real source tree. How the mails look can be judged by a checker, too.

git runs apart from the user's configuration; only the identity is the user's.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.git import Git, run
from redoubt.linux import tree
from redoubt.linux.topics import Topic, load, read, touched
from redoubt.ship import recipients as recipients_module
from redoubt.ship.lint import Finding
from redoubt.ship.recipients import Recipients

# Blob names as long as the kernel's, and nothing that depends on the version of git.
_FORMAT = ("-n", "--no-renames", "--abbrev=12", "--no-signature")
# The first paragraph of a text is its subject, the rest stands before the list of mails.
_WITH_COVER = ("--cover-letter", "--cover-from-description=subject")

COVER_LETTER = "0000-cover-letter.patch"
RECIPIENTS = "recipients"
_MAILS = "[0-9][0-9][0-9][0-9]-*.patch"

# "mm: ", "x86/cpu: ", "arm64: mm: "
_SUBJECT = re.compile(r"[\w./,+-]+(?: [\w./,+-]+)?: \S")
# What git takes for the end of a message.
_END = re.compile(r"diff -|Index: |---(?: \S|\s*$)")

_MAIL_TOUCHED = re.compile(r"^diff --git a/(\S+) b/(\S+)$", re.MULTILINE)


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


def _identity(repo: Path, author: tuple[str, str]) -> dict[str, str]:
    """Author, committer and date for git.

    The date is that of the repository's last commit, so that the same queue gives the same mails.
    """
    last = run(["git", "-C", str(repo), "log", "-1", "--format=%ct"])
    seconds = last.stdout.strip() if last.returncode == 0 else ""
    result: dict[str, str] = {}
    for role in ("AUTHOR", "COMMITTER"):
        result[f"GIT_{role}_NAME"], result[f"GIT_{role}_EMAIL"] = author
        if seconds:
            result[f"GIT_{role}_DATE"] = f"@{seconds} +0000"
    return result


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


def place(source: Path, destination: Path) -> None:
    """Copy a file with its permissions, never writing into an existing one (it may be linked)."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.unlink(missing_ok=True)
    shutil.copy(source, destination)


def pick(pristine: Path, names: set[str], destination: Path) -> None:
    """Copy the named files of the pristine tree; raises RedoubtError if one is not there."""
    for name in sorted(names):
        source = pristine / name
        if not source.is_file() or source.is_symlink():
            raise RedoubtError(f"a patch changes {name}, which is no file of {pristine}")
        place(source, destination / name)


def _add_files(repo: Path, pristine: Path, topic: Topic, destination: Path) -> None:
    """Copy the files a topic introduces; raises RedoubtError for one that is missing or no news."""
    for name in topic.files:
        source = repo / "kernel" / name
        if not source.is_file():
            raise RedoubtError(f"patches/topics names {name}, but there is no kernel/{name}")
        if os.path.lexists(pristine / name):
            raise RedoubtError(f"kernel/{name}: Linux has this file; change it with a patch")
        place(source, destination / name)


def _exported(repo: Path) -> list[Topic]:
    """The topics that become mails, which is all but the local ones."""
    chosen = [topic for topic in load(repo) if not topic.local]
    if not chosen:
        raise RedoubtError(f"{repo}/patches/topics has no topic to export")
    return chosen


def message(path: Path) -> str:
    """The text of a mail from a file COVER: its subject, an empty line, and its body.

    Raises RedoubtError if a mail could not carry it.
    """
    text = read(path).strip() + "\n"
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


def _message(repo: Path, topic: Topic) -> str:
    """The commit message of a topic, not signed off; raises RedoubtError as `message` does."""
    return message(repo / "patches" / topic.name / "COVER")


# === Export ======================================================================================


def export(
    pristine: Path,
    out: Path,
    *,
    repo: Path | None = None,
    author: tuple[str, str] | None = None,
    letter: str | None = None,
    ask: Callable[[Path], Recipients] | None = None,
    address: bool = False,
) -> list[Path]:
    """Write the queue to `out` as mails for `git am`; returns what is written, in order.

    The author is the user (name, address) unless given, and signs each mail off. `letter` is
    subject and text of a cover letter; without it there is none. `ask` tells the recipients of a
    mail, which are written to a file beside the mails, or into them if they are to `address`.

    What an earlier run wrote is replaced, and only once everything new is there. Raises
    RedoubtError for a patch that does not apply exactly, a topic without message or without effect,
    a queue that contradicts itself, and as `ask` does.
    """
    repo = repo or paths.repo()
    author = author or author_of(repo)
    identity = _identity(repo, author)
    chosen = _exported(repo)
    with _scratch() as scratch:
        work = scratch / "tree"
        work.mkdir()
        git = Git(work, identity)
        names = {name for topic in chosen for patch in topic.patches for name in touched(patch)}
        ours = {name for topic in chosen for name in topic.files}
        if names & ours:
            raise RedoubtError(f"a patch changes {sorted(names & ours)[0]}, a file of kernel/")
        pick(pristine, names, work)
        base = git.start()
        for topic in chosen:
            text = _message(repo, topic)
            if topic.patches:
                tree.apply_series(work, list(topic.patches))
            _add_files(repo, pristine, topic, work)
            if not git("status", "--porcelain", "--ignored").strip():
                raise RedoubtError(f"topic {topic.name} changes nothing")
            git.commit(git.signed(text, author))
        mails = scratch / "mails"
        options = list(_FORMAT)
        if letter is not None:
            git("config", "branch.main.description", letter)
            options += _WITH_COVER
        git("format-patch", "-q", "-o", str(mails), *options, base)
        if ask:
            _add_recipients(mails, ask, address)
        return _publish(sorted(mails.iterdir()), out)


def _add_recipients(mails: Path, ask: Callable[[Path], Recipients], address: bool) -> None:
    """Write whom each mail goes to, the cover letter to all of them: into the mails, or beside."""
    every = sorted(mails.iterdir())
    found = {mail.name: ask(mail) for mail in every if mail.name != COVER_LETTER}
    found[COVER_LETTER] = recipients_module.together(found.values())
    if not address:
        ordered = {mail.name: found[mail.name] for mail in every}
        (mails / RECIPIENTS).write_text(recipients_module.listing(ordered), encoding="utf-8")
        return
    for mail in every:
        text = recipients_module.address(read(mail), found[mail.name])
        mail.write_text(text, encoding="utf-8", errors="surrogateescape")


def _publish(mails: list[Path], out: Path) -> list[Path]:
    """Replace the mails in `out`, and what belongs to them, by new ones."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        fresh: list[Path] = []
        for mail in mails:
            new = out / f".{mail.name}.new"
            shutil.copyfile(mail, new)
            fresh.append(new)
        for old in (*out.glob(_MAILS), out / RECIPIENTS):
            old.unlink(missing_ok=True)
        return [new.replace(out / mail.name) for new, mail in zip(fresh, mails, strict=True)]
    except OSError as error:
        raise RedoubtError(f"cannot write the mails to {out}: {error.strerror}") from error


# === Check =======================================================================================


@dataclass(frozen=True)
class Report:
    """What the check saw.

    `different` are files on which the mails and our tree disagree; `built` the topics up to which
    a prefix was built; `full` tells whether git had the whole pristine tree or the touched files.
    `findings` are those of a checker of mails, None if there was none.
    """

    mails: tuple[Path, ...]
    files: int
    different: tuple[str, ...]
    built: tuple[str, ...]
    full: bool
    findings: tuple[Finding, ...] | None = None

    @property
    def ok(self) -> bool:
        """True if the mails give our tree, and look as they should."""
        return not self.different and not self.findings

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "ok": self.ok,
            "mails": [mail.name for mail in self.mails],
            "files": self.files,
            "different": list(self.different),
            "built": list(self.built),
            "full": self.full,
            "findings": None if self.findings is None else [asdict(one) for one in self.findings],
        }


def render(report: Report) -> list[str]:
    """The report as lines of text."""
    lines = [f"DIFFERS {name}" for name in report.different]
    lines += [str(finding) for finding in report.findings or ()]
    where = "the whole pristine tree" if report.full else "the files they touch"
    lines.append(
        f"{len(report.mails)} mails applied with git am to {where}: {report.files} files compared, "
        f"{len(report.different)} differ from our tree"
    )
    if report.built:
        lines.append(f"prefixes built: {', '.join(report.built)}")
    if report.findings is not None:
        lines.append(f"checkpatch --strict: {len(report.findings)} findings")
    if report.different:
        lines.append("series: the mails do not give our tree")
    elif report.findings:
        lines.append("series: the mails are not fit to be sent")
    else:
        lines.append("series: clean")
    return lines


def check(
    pristine: Path,
    out: Path,
    *,
    build: Callable[[Path, str], bool | None] | None,
    repo: Path | None = None,
    full: bool = False,
    work_in: Path | None = None,
    letter: str | None = None,
    judge: Callable[[Sequence[Path]], tuple[Finding, ...]] | None = None,
) -> Report:
    """Apply the mails in `out` to pristine and compare with our tree; then build the prefixes.

    `letter` is what the cover letter has to say. `judge` is a checker of how mails look.

    `build` is called with a source tree and the name of the last topic in it, once per topic; the
    tree is one directory that grows from topic to topic, so that a builder which keeps its objects
    rebuilds little. A builder that leaves a prefix out returns False, and the report does not name
    it. The tree may be hard-linked with pristine: build out of tree, never change it.
    It stands in `work_in`, at the same path in each run, if that is given: ccache looks at paths.
    With `full`, git am works on all of pristine (a minute) instead of on the touched files.

    Raises RedoubtError if git am refuses a mail, or with the builder's error and the topic's name.
    Different files are not an error but in the report; then nothing is built.
    """
    repo = repo or paths.repo()
    # Nobody sees these commits, so they can be anyone's.
    identity = _identity(repo, ("Redoubt", "redoubt@localhost"))
    chosen = _exported(repo)
    mails = sorted(set(out.glob(_MAILS)) - {out / COVER_LETTER}) if out.is_dir() else []
    if not mails:
        raise RedoubtError(f"there are no mails in {out}", "export the series first")
    with _scratch(pristine, work_in) as scratch:
        expected = scratch / "expected"
        names = {name for topic in chosen for patch in topic.patches for name in touched(patch)}
        expected.mkdir()
        pick(pristine, names, expected)
        tree.apply_series(expected, [patch for topic in chosen for patch in topic.patches])
        for topic in chosen:
            _add_files(repo, pristine, topic, expected)

        work = scratch / "tree"
        mailed = {
            name for mail in mails for pair in _MAIL_TOUCHED.findall(read(mail)) for name in pair
        }
        if full:
            copy_tree(pristine, work, link=False)
        else:
            work.mkdir()
            pick(pristine, {name for name in mailed if (pristine / name).is_file()}, work)
        git = Git(work, identity)
        base = git.start()
        git("am", "-q", *(str(mail.resolve()) for mail in mails))
        commits = git("rev-list", "--reverse", f"{base}..HEAD").split()
        if len(commits) != len(chosen):
            raise RedoubtError(f"{len(chosen)} topics, but the mails make {len(commits)} commits")
        different = ["cover letter"] if letter and not _says(out / COVER_LETTER, letter) else []
        different += [
            f"message of topic {topic.name}"
            for topic, commit in zip(chosen, commits, strict=True)
            if not _carries(git, commit, _message(repo, topic))
        ]
        changed = git("diff", "-z", "--no-renames", "--name-only", base, "HEAD").split("\0")
        files = _names(expected) | set(filter(None, changed))
        if full:
            files |= _names(work) | _names(pristine)
        for name in sorted(files):
            ours = expected / name
            if not _same(work / name, ours if os.path.lexists(ours) else pristine / name):
                different.append(name)
        found = judge(mails) if judge else None
        built: list[str] = []
        if build is not None and not different:
            prefix = scratch / "prefix"
            copy_tree(pristine, prefix, link=True)
            for topic, commit in zip(chosen, commits, strict=True):
                _advance(git, commit, work, prefix)
                try:
                    done = build(prefix, topic.name)
                except RedoubtError as error:
                    raise RedoubtError(
                        f"the series up to topic {topic.name} does not stand alone: {error}"
                    ) from error
                if done is not False:
                    built.append(topic.name)
        return Report(tuple(mails), len(files), tuple(different), tuple(built), full, found)


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
    for place, subdirectories, files in os.walk(directory):
        if Path(place) == directory:
            subdirectories[:] = [name for name in subdirectories if name != ".git"]
            files = [name for name in files if name != ".git"]
        links = [name for name in subdirectories if os.path.islink(os.path.join(place, name))]
        found.update(
            os.path.relpath(os.path.join(place, name), directory) for name in files + links
        )
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
