# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own checkers over what we add: checkpatch --strict, W=1 and sparse.

A file of kernel/ is ours to its last line. In a file that Linux has, a finding counts if it stands
on a line that differs from the pristine file; those on other lines are kept apart, as `old`.

checkpatch sees a patch the way a reviewer will, as a mail with three lines of context. The stored
patches have one, which leaves it guessing, so the mail is made anew from the copies that quilt
keeps of the files before each patch.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths, reasons
from redoubt.core.diff import hunks
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_lines
from redoubt.linux.build import cached, environment
from redoubt.ship import writers

# FILE_PATH_CHANGES: asks for MAINTAINERS, which a queue outside of Linux has no entry in. Who is to
# maintain the new files is for those to say who send the mails, and those who take them.
_IGNORED = "FILE_PATH_CHANGES"
# What is about the message of a mail, and said of the last file in it.
_OF_MESSAGE = ("COMMIT_", "MISSING_SIGN_OFF", "NO_AUTHOR_SIGN_OFF", "FROM_SIGN_OFF_MISMATCH")

# sparse 0.6.4 does not know this keyword, and the kernel takes gcc's word that it is there.
_SPARSE = "sparse -D__typeof_unqual__=__typeof__"

# file:line: WARNING:TYPE: message
_CHECKPATCH = re.compile(
    r"^(?P<file>.*?):(?P<line>\d+): (?:ERROR|WARNING|CHECK):(?P<text>\w+: .*)$"
)
# gcc and sparse: file:line:column: warning: message; kernel-doc: Warning: file:line message
_COMPILER = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+):(?:\d+:)? (?P<text>(?:fatal )?(?:warning|error): .*)$"
)
_KERNEL_DOC = re.compile(
    r"^(?P<text>(?:Warning|Error): )(?P<file>[^\s:]+):(?P<line>\d+) (?P<rest>.*)$"
)
_ARCH = re.compile(r"^# Linux/(\S+) ", re.MULTILINE)
_STEP = re.compile(r"^\s+(CC|CHECK)\s+(\S+)")


# === The report ==================================================================================


@dataclass(frozen=True, order=True)
class Finding:
    """What a checker says of a line; `file` is a path in the kernel tree or a patch's name."""

    file: str
    line: int
    tool: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.tool}: {self.text}"


@dataclass(frozen=True)
class Report:
    """Everything that was found, and how much was looked at.

    `old` are findings on lines of Linux, which do not count. `unbuilt` are sources of ours that
    the configuration does not build, so that only checkpatch has seen them.
    """

    findings: tuple[Finding, ...]
    old: tuple[Finding, ...]
    unbuilt: tuple[str, ...]
    files: int
    patches: int
    objects: int

    @property
    def ok(self) -> bool:
        """True if nothing was found on our lines."""
        return not self.findings


def render(report: Report) -> list[str]:
    """The report as lines for a person."""
    lines = [str(finding) for finding in report.findings]
    lines += [f"{name}: not built in this configuration" for name in report.unbuilt]
    lines.append(
        f"lint: {report.files} files, {report.patches} patches, {report.objects} objects:"
        f" {len(report.findings)} findings ({len(report.old)} more on lines of Linux)"
    )
    return lines


# === Lines of ours ===============================================================================


@dataclass(frozen=True)
class Lines:
    """The lines of the tree that are ours: whole files, or the changed lines of a file."""

    added: frozenset[str]
    changed: dict[str, frozenset[int]]

    def has(self, name: str, line: int) -> bool:
        """True if that line is ours."""
        return name in self.added or line in self.changed.get(name, ())

    def touches(self, name: str) -> bool:
        """True if the file has a line of ours."""
        return name in self.added or name in self.changed


def _text(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return []


def changed_lines(before: Path, after: Path) -> frozenset[int]:
    """The numbers, from 1, of the lines of `after` that are not in `before`; either may not exist.

    Where lines were only taken away, the two lines around the gap stand in for them.
    """
    nothing = Path(os.devnull)
    found: set[int] = set()
    for _, new in hunks(*(file if file.exists() else nothing for file in (before, after))):
        found.update(new or {new.start - 1, new.start})
    return frozenset(found)


def _applied(tree: Path) -> list[str]:
    """The names of the patches quilt has applied, in order."""
    try:
        return (tree / ".pc" / "applied-patches").read_text().split()
    except FileNotFoundError as error:
        raise RedoubtError(
            f"{tree} has no patches applied by quilt", "run: redoubt tree"
        ) from error


def _kept(tree: Path, patch: str) -> list[str]:
    """The files a patch touches, of which quilt keeps what they were before."""
    top = tree / ".pc" / patch
    return sorted(
        str(file.relative_to(top))
        for file in top.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    )


def our_lines(tree: Path, repo: Path) -> Lines:
    """The lines of our materialised tree that are ours.

    Raises RedoubtError if the tree has no patches applied.
    """
    kernel = repo / "kernel"
    added = frozenset(
        str(file.relative_to(kernel))
        for file in kernel.rglob("*")
        if file.is_file() and (tree / file.relative_to(kernel)).exists()
    )
    changed: dict[str, frozenset[int]] = {}
    for patch in _applied(tree):
        for name in _kept(tree, patch):
            # The first patch that touches a file keeps the pristine one.
            if name not in changed:
                changed[name] = changed_lines(tree / ".pc" / patch / name, tree / name)
    return Lines(added, changed)


# === checkpatch ==================================================================================


def _need(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program):
            raise RedoubtError(f"{program}: not found", f"run: {paths.prerequisites('lint')}")


def permitted(file: Path) -> dict[str, frozenset[str]]:
    """Types of findings that count in no mail, by the file they are on, from a TOML file.

    Several entries may permit findings of one file.

    Raises RedoubtError if an entry has no reason.
    """
    if not file.is_file():
        return {}
    found: dict[str, frozenset[str]] = {}
    raw = reasons.read(file, "the permitted findings")
    for entry in reasons.tables(
        file, raw, "permitted", {"files": list, "types": list, "reason": str}, ()
    ):
        for name in entry["files"]:
            found[name] = found.get(name, frozenset()) | frozenset(entry["types"])
    return found


@dataclass(frozen=True)
class _Checkpatch:
    """checkpatch.pl of a tree, which writes to `home` if anywhere."""

    tree: Path
    home: Path
    permitted: Mapping[str, frozenset[str]]

    def run(self, cwd: Path, *arguments: str | Path) -> Iterator[Finding]:
        """The findings that are not permitted.

        Raises RedoubtError if the script does not run.
        """
        lines: list[str] = []
        ended = run_lines(
            ["perl", self.tree / "scripts" / "checkpatch.pl", "--strict", "--no-tree", "--terse",
             "--no-summary", "--show-types", "--showfile", "--color=never", "--ignore", _IGNORED,
             *arguments],
            lines.append,
            cwd=cwd,
            # It reads a .checkpatch.conf there.
            env={"HOME": str(self.home), "LC_ALL": "C"},
        )  # fmt: skip
        # Names that may be written in camel case, kept for the next time: not in the tree.
        for cache in cwd.glob(".checkpatch-camelcase.*"):
            cache.unlink()
        matches = [match for line in lines if (match := _CHECKPATCH.match(line))]
        if ended.code and not matches:
            raise RedoubtError(
                f"checkpatch failed (exit {ended.code}):\n" + "\n".join(lines[-10:]),
                f"it needs perl: {paths.prerequisites('lint')}",
            )
        for match in matches:
            if match["text"].split(":")[0] not in self.permitted.get(match["file"], ()):
                yield Finding(match["file"], int(match["line"]), "checkpatch", match["text"])

    def mail(self, file: Path, name: str, *options: str) -> Iterator[Finding]:
        """The findings on one mail; `name` is what those on its message are reported for."""
        for finding in self.run(self.home, *options, file.resolve()):
            # Of the message it says the name of the mail, of the first or last file, or none.
            of_message = finding.text.startswith(_OF_MESSAGE)
            if of_message or Path(finding.file).name in ("", file.name):
                finding = Finding(name, 1, finding.tool, finding.text)
            yield finding


@contextmanager
def _checkpatch(tree: Path, repo: Path) -> Iterator[_Checkpatch]:
    with tempfile.TemporaryDirectory(prefix="redoubt-lint-") as home:
        yield _Checkpatch(tree, Path(home), permitted(repo / "configs" / "lint.toml"))


def check_mails(tree: Path, mails: Iterable[Path]) -> tuple[Finding, ...]:
    """What checkpatch finds in mails that are to be sent: they have to be signed off, too.

    `tree` is any kernel tree, of which the script is taken; nothing is written there.
    Raises RedoubtError if perl is missing, or the script does not run.
    """
    _need("perl")
    with _checkpatch(tree, paths.repo()) as checkpatch:
        return tuple(one for mail in mails for one in checkpatch.mail(mail, mail.name))


def mail(tree: Path, patch: str, text: str) -> str:
    """A patch of the queue as a mail with the usual context.

    `text` is the stored patch, of which the message is taken; the difference comes from the tree.
    """
    message, *_ = re.split(r"^(?:---|diff|Index:) ?.*$", text, maxsplit=1, flags=re.MULTILINE)
    message = message.strip()
    subject, _, body = message.removeprefix("Subject:").strip().partition("\n")
    applied = _applied(tree)
    later = applied[applied.index(patch) + 1 :]
    parts = [f"Subject: [PATCH] {subject}\n\n{body.strip()}\n---\n"]
    for name in _kept(tree, patch):
        after = next((f for p in later if (f := tree / ".pc" / p / name).exists()), tree / name)
        before = tree / ".pc" / patch / name
        parts.append(f"diff --git a/{name} b/{name}\n")
        parts += difflib.unified_diff(_text(before), _text(after), f"a/{name}", f"b/{name}")
    return "".join(parts)


def _check_sources(tree: Path, repo: Path, added: Sequence[str]) -> Iterator[Finding]:
    with _checkpatch(tree, repo) as checkpatch:
        for name in added:
            yield from checkpatch.run(tree, "-f", name)
        for patch in _applied(tree):
            text = (repo / "patches" / patch).read_text(errors="replace")
            file = checkpatch.home / patch.replace("/", "-")
            file.write_text(mail(tree, patch, text))
            yield from checkpatch.mail(file, f"patches/{patch}", "--no-signoff")


# === W=1 and sparse ==============================================================================


@contextmanager
def _copy(build_dir: Path) -> Iterator[Path]:
    """A copy of a build directory without the linked kernels.

    W=1 changes the compiler's flags, so that in the directory itself the next build would compile
    those objects again.
    """

    def linked(directory: str, names: list[str]) -> list[str]:
        if Path(directory) != build_dir:
            return []
        return [n for n in names if n.startswith(("vmlinux", ".tmp_vmlinux", "linux", ".lint-"))]

    with tempfile.TemporaryDirectory(prefix=".lint-", dir=build_dir.parent) as scratch:
        copy = Path(scratch) / "build"
        shutil.copytree(build_dir, copy, symlinks=True, ignore=linked)
        yield copy


def parse(lines: Iterable[str], tree: Path) -> Iterator[Finding]:
    """What gcc, sparse and kernel-doc found, as they print it; paths relative to the tree."""
    for line in lines:
        match = _COMPILER.match(line) or _KERNEL_DOC.match(line)
        if not match:
            continue
        name = os.path.normpath(match["file"])
        if name.startswith(f"{tree}/"):
            name = name[len(str(tree)) + 1 :]
        text = match["text"] + match.groupdict().get("rest", "")
        yield Finding(name, int(match["line"]), "make W=1 C=2", text)


def _compile(
    tree: Path, copy: Path, arch: str, cross_compile: str, objects: Sequence[str]
) -> list[str]:
    """Compile and check objects anew; the output.

    Raises RedoubtError if one does not compile, or one of the checkers was not run on one.
    """
    for name in objects:
        (copy / name).unlink()
    compiler = cached(f"{cross_compile}gcc")
    lines: list[str] = []
    ended = run_lines(
        ["make", "-C", tree, f"O={copy}", f"ARCH={arch}", f"CC={compiler}",
         f"CROSS_COMPILE={cross_compile}", "W=1", "C=2", f"CHECK={_SPARSE}", "--output-sync=target",
         "--keep-going", f"-j{os.cpu_count() or 1}", *objects],
        lines.append,
        env=environment(),
    )  # fmt: skip
    seen = {(m[1], Path(m[2]).with_suffix("")) for line in lines if (m := _STEP.match(line))}
    missed = [
        f"{name} ({step})"
        for name in objects
        for step in ("CC", "CHECK")
        if (step, Path(name).with_suffix("")) not in seen
    ]
    if ended.code or missed:
        what = ["not done: " + ", ".join(missed)] if missed else []
        raise RedoubtError(
            f"make W=1 C=2 failed (exit {ended.code}):\n" + "\n".join([*lines[-15:], *what])
        )
    return lines


def _check_objects(
    tree: Path, build_dir: Path, cross_compile: str, sources: Sequence[str]
) -> tuple[list[Finding], list[str]]:
    """The findings on what a build compiles of some sources, and the objects looked at."""
    config = build_dir / ".config"
    if not config.is_file():
        raise RedoubtError(f"{build_dir} is not a kernel's build directory", "run: redoubt build")
    arch = _ARCH.search(config.read_text())
    if not arch:
        raise RedoubtError(f"{config} does not say which architecture it is for")
    objects = [n[:-1] + "o" for n in sources if (build_dir / (n[:-1] + "o")).exists()]
    if not objects:
        raise RedoubtError(f"{build_dir} has no object of ours", "run: redoubt build")
    with _copy(build_dir) as copy:
        lines = _compile(tree, copy, arch[1], cross_compile, objects)
    return list(parse(lines, tree)), objects


def _check_writers(tree: Path, repo: Path) -> Iterator[Finding]:
    """Stores to page tables that nobody has found to be right, and those that are no more."""
    found = writers.stores(tree, writers.candidates(tree), tree / writers.SEMANTIC_PATCH)
    right = writers.known(repo / "configs" / "writers.toml")
    for place in sorted(found.keys() - right.keys()):
        file, function = place.split(":")
        yield Finding(
            file, found[place], "spatch", f"store to a page table entry in {function}(), unguarded?"
        )
    for place in sorted(right.keys() - found.keys()):
        yield Finding("configs/writers.toml", 0, "spatch", f"{place} stores nothing any more")


# === Everything ==================================================================================


def lint(tree: Path, builds: Mapping[Path, str], *, repo: Path | None = None) -> Report:
    """Check what we add to Linux.

    `tree` is our materialised tree, `builds` are directories with finished builds of it and the
    prefixes of their compilers; none is changed.
    Without builds nothing is compiled, which W=1 and sparse need.
    Raises RedoubtError if a checker is missing or an object does not compile.
    """
    _need("perl", "spatch", *(["sparse"] if builds else []))
    repo = repo or paths.repo()
    tree = tree.resolve()
    ours = our_lines(tree, repo)
    added = sorted(ours.added)
    findings = {*_check_sources(tree, repo, added), *_check_writers(tree, repo)}
    sources = sorted(n for n in ours.added | ours.changed.keys() if n.endswith(".c"))
    # A finding in a header comes once for each object that includes it.
    compiled: set[Finding] = set()
    objects: list[str] = []
    for directory, cross_compile in builds.items():
        found, looked_at = _check_objects(tree, directory.resolve(), cross_compile, sources)
        compiled |= {f for f in found if ours.touches(f.file)}
        objects += looked_at
    return Report(
        tuple(sorted({*findings, *(f for f in compiled if ours.has(f.file, f.line))})),
        tuple(sorted(f for f in compiled if not ours.has(f.file, f.line))),
        tuple(n for n in sources if n[:-1] + "o" not in objects),
        len(added),
        len(_applied(tree)),
        len(objects),
    )
