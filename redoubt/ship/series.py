# SPDX-License-Identifier: GPL-2.0-only
"""The queue as mails: one for each patch, for `git am` on the pristine tree.

Each is signed off by the user. A cover letter goes before them if there is a text for it.

`check` takes the mails back: `git am` puts them on a pristine tree and the result has to equal
pristine plus kernel/ plus patches/ (without local topics) byte for byte, and each prefix of the
series can be handed to a builder as a real source tree. Each topic has to stand alone with those it
needs. How the mails look can be judged by a checker, too.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.git import Git, run
from redoubt.linux import topics as topics_module
from redoubt.linux import tree
from redoubt.linux.topics import Topic, read
from redoubt.ship import commits
from redoubt.ship.commits import Commit, Commits, pick
from redoubt.ship.lint import Finding

# Blob names as long as the kernel's, and nothing that depends on the version of git.
_FORMAT = ("-n", "--no-renames", "--abbrev=12", "--no-signature")
# The first paragraph of a text is its subject, the rest stands before the list of mails.
_WITH_COVER = ("--cover-letter", "--cover-from-description=subject")

COVER_LETTER = "0000-cover-letter.patch"
_MAILS = "[0-9][0-9][0-9][0-9]-*.patch"

_MAIL_TOUCHED = re.compile(r"^diff --git a/(\S+) b/(\S+)$", re.MULTILINE)
# The author of commits that no one sees.
_NOBODY = ("Redoubt", "redoubt@localhost")


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
    with tempfile.TemporaryDirectory(prefix="redoubt-series-") as name:
        scratch = Path(name)
        made = commits.make(pristine, scratch / "tree", repo, author or commits.author_of(repo))
        made.only(wanted)
        mails = scratch / "mails"
        options = list(_FORMAT)
        if letter is not None:
            made.git("config", "branch.main.description", letter)
            options += _WITH_COVER
        made.git("format-patch", "-q", "-o", str(mails), *options, made.base)
        return _publish(sorted(mails.iterdir()), out)


def export_emulator(
    pristine: Path,
    patches: Sequence[Path],
    out: Path,
    *,
    repo: Path | None = None,
    author: tuple[str, str] | None = None,
) -> list[Path]:
    """Write the emulator's patches to `out` as mails for `git am` on QEMU, as `export` does.

    Raises RedoubtError for a patch that does not apply exactly or has no message.
    """
    repo = repo or paths.repo()
    author = author or commits.author_of(repo)
    with tempfile.TemporaryDirectory(prefix="redoubt-series-") as scratch:
        work, mails = Path(scratch) / "tree", Path(scratch) / "mails"
        work.mkdir()
        names = tree.touched_by(tree.Queue(pristine, (), tuple(patches)))
        # Some are new.
        pick(pristine, (name for name in names if (pristine / name).exists()), work)
        git = Git(work, commits.identity(repo, author))
        base = git.start()
        for patch in patches:
            text = commits.message(patch)
            tree.apply_series(work, [patch])
            git.commit(git.signed(text, author))
        git("format-patch", "-q", "-o", str(mails), *_FORMAT, base)
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
        return {"ok": self.ok, **asdict(self), "mails": [mail.name for mail in self.mails]}


def render(report: Report) -> Iterator[str]:
    """The report as lines of text."""
    yield from (f"DIFFERS {name}" for name in report.different)
    yield from (f"ENTANGLED {text}" for text in report.entangled)
    yield from (str(finding) for finding in report.findings or ())
    where = "the whole pristine tree" if report.full else "the files they touch"
    yield (
        f"{len(report.mails)} mails applied with git am to {where}: {report.files} files compared, "
        f"{len(report.different)} differ from our tree"
    )
    if report.alone:
        yield f"topics that stand alone, with those they need: {', '.join(report.alone)}"
    if report.built:
        yield f"prefixes built: {', '.join(report.built)}"
    if report.findings is not None:
        yield f"checkpatch --strict: {len(report.findings)} findings"
    if report.different:
        yield "series: the mails do not give our tree"
    elif report.entangled:
        yield "series: a topic needs more than it says"
    elif report.findings:
        yield "series: the mails are not fit to be sent"
    else:
        yield "series: clean"


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
    It stands in `work_in` (the build directory if none), at the same path in each run: ccache looks
    at paths. With `full`, git am works on all of pristine (a minute) instead of on what is touched.

    Raises RedoubtError if git am refuses a mail, or with the builder's error and the topic's name.
    Different files are not an error but in the report; then nothing is built.
    """
    repo = repo or paths.repo()
    wanted = commits.chosen(repo, topics)
    mails = sorted(set(out.glob(_MAILS)) - {out / COVER_LETTER})
    if not mails:
        raise RedoubtError(f"there are no mails in {out}", "export the series first")
    with _emptied((work_in or paths.build_dir()) / ".redoubt-series") as scratch:
        made = commits.make(pristine, scratch / "expected", repo, _NOBODY)
        alone, entangled = _separate(made, wanted)
        ours = made.only(wanted)
        git, base, taken = _taken(pristine, mails, scratch / "tree", made.git.identity, full=full)
        if len(taken) != len(ours):
            raise RedoubtError(f"{len(ours)} patches, but the mails make {len(taken)} commits")
        steps = list(zip(ours, taken, strict=True))
        # What our commits change of the files that the mails are applied to, and what they add.
        changed = dict(_files(made.git, "HEAD").items() - _files(made.git, made.base).items())
        expected, found = _files(git, base) | changed, _files(git, "HEAD")
        names = sorted(expected | found)
        different = ["cover letter"] if letter and not _says(out / COVER_LETTER, letter) else []
        different += [
            f"message of {mine.patch}"
            for mine, commit in steps
            if not _carries(git, commit, commits.message(mine.patch.path))
        ]
        different += [name for name in names if expected.get(name) != found.get(name)]
        findings = judge(mails) if judge else None
        built: list[str] = []
        if build is not None and not different:
            built = _built(git, steps, pristine, build, each=each)
    return Report(
        tuple(mails), len(names), tuple(different), tuple(built), full, findings, alone, entangled
    )


@contextmanager
def _emptied(directory: Path) -> Iterator[Path]:
    """A directory that is gone afterwards; of a run that was killed there may be one."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _taken(
    pristine: Path, mails: Sequence[Path], work: Path, identity: Mapping[str, str], *, full: bool
) -> tuple[Git, str, list[str]]:
    """Apply mails in `work`; returns the repository, its first commit and those of the mails."""
    if full:
        copy_tree(pristine, work, link=False)
    else:
        work.mkdir()
        pairs = (pair for mail in mails for pair in _MAIL_TOUCHED.findall(read(mail)))
        pick(pristine, {name for pair in pairs for name in pair if (pristine / name).is_file()},
             work)  # fmt: skip
    git = Git(work, identity)
    base = git.start()
    git("am", "-q", *(str(mail.resolve()) for mail in mails))
    return git, base, git("rev-list", "--reverse", f"{base}..HEAD").split()


def _files(git: Git, commit: str) -> dict[str, str]:
    """The files of a commit by name, each with its mode and the name of its content."""
    entries = filter(None, git("ls-tree", "-r", "-z", commit).split("\0"))
    return {name: content for content, _, name in (entry.partition("\t") for entry in entries)}


def _built(
    git: Git,
    mailed: Sequence[tuple[Commit, str]],
    pristine: Path,
    build: Callable[[Path, Commit], bool | None],
    *,
    each: bool,
) -> list[str]:
    """Build after each topic, or each mail; returns the names of what was built."""
    prefix = git.directory.with_name("prefix")
    copy_tree(pristine, prefix, link=True)
    last = {mine.topic.name: mine for mine, _ in mailed}
    built = []
    for mine, commit in mailed:
        changed = git("diff-tree", "-r", "-z", "--no-commit-id", "--name-only", commit)
        names = filter(None, changed.split("\0"))
        # git replaces files and never writes into them: other links keep what they have. The others
        # stay as old as they are, so that make has nothing to do for them.
        git(f"--work-tree={prefix}", "checkout", "-q", commit, "--", *names)
        if not each and mine is not last[mine.topic.name]:
            continue
        name = str(mine.patch) if each else mine.topic.name
        try:
            done = build(prefix, mine)
        except RedoubtError as error:
            raise RedoubtError(f"the series up to {name} does not stand alone: {error}") from error
        if done is not False:
            built.append(name)
    return built


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


def _drop_git(directory: Path) -> None:
    """Remove the repository a copied tree brought along, if it is one."""
    git = directory / ".git"
    if git.is_dir() and not git.is_symlink():
        shutil.rmtree(git)
    else:
        git.unlink(missing_ok=True)
