# SPDX-License-Identifier: GPL-2.0-only
"""Our documentation, built by the kernel's own rules, and what these find wrong with it.

Sphinx builds the directories that our documents are in, with the comments (kernel-doc) that they
take from the code. kernel-doc then looks at the comments in all our files, with all its warnings.

What counts is as in `lint`: all of a file of ours, and the lines that a patch changed. As only
some directories are built, a reference into another one is not resolved, and a finding: our
documents name other files instead.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_lines, run_logged
from redoubt.core.progress import Progress
from redoubt.ship.lint import Finding, Lines, our_lines

# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = ".htmldocs-*"

# Where, in the words of Sphinx, docutils or kernel-doc, stands before or behind the severity:
#   FILE:LINE: WARNING: text        FILE: WARNING: text        WARNING: FILE:LINE text
#   DOCUMENT:LINE: FILE:LINE: WARNING: text (what the document takes from the file)
_SAID = re.compile(
    r"^(?P<where>.*?)\b(?:WARNING|ERROR|SEVERE|CRITICAL|Warning|Error): (?P<text>.*)$"
)
_READING = re.compile(r"^(?:reading sources|writing output)\.\.\. *(?P<how_far>\S.*)$")
_DIRECTIVE = re.compile(r"^\.\.\s+kernel-doc::\s*(\S+)")


@dataclass(frozen=True)
class Report:
    """What was found; `old` is on lines of Linux, or on no line, and does not count.

    `pages` are the documents as built, `files` the number of files whose comments were read.
    """

    findings: tuple[Finding, ...]
    old: tuple[str, ...]
    pages: tuple[Path, ...]
    files: int

    @property
    def ok(self) -> bool:
        """True if nothing was found in what is ours."""
        return not self.findings


def render(report: Report) -> list[str]:
    """The report as lines for a person."""
    return [
        *map(str, report.findings),
        *map(str, report.pages),
        f"docs: {len(report.pages)} documents, comments of {report.files} files:"
        f" {len(report.findings)} findings ({len(report.old)} more that are not ours)",
    ]


def sphinx() -> Path:
    """The program of Sphinx that was installed with this tool.

    Raises RedoubtError if there is none.
    """
    program = Path(sys.executable).with_name("sphinx-build")
    if not program.exists():
        raise RedoubtError(
            f"{program}: not found, which builds the documentation",
            "make setup, or: pip install -e '.[docs]'",
        )
    return program


def judge(lines: Iterable[str], tree: Path, ours: Lines) -> tuple[list[Finding], list[str]]:
    """The findings on what is ours, and all else that was warned of, each once."""
    place = re.compile(re.escape(f"{tree}/") + r"(?P<file>[^\s:]+)(?::(?P<line>\d+))?")
    findings: dict[Finding, None] = {}
    old: dict[str, None] = {}
    for line in lines:
        said = _SAID.match(line)
        if not said:
            continue
        text = said["text"]
        where = next(reversed(list(place.finditer(said["where"]))), None)
        if not where and (where := place.match(text)):
            text = text[where.end() :].lstrip(": ")
        if where and (
            where["file"] in ours.added
            or (where["line"] and ours.has(where["file"], int(where["line"])))
        ):
            findings[Finding(where["file"], int(where["line"] or 1), "docs", text)] = None
        else:
            old[line.strip()] = None
    return list(findings), list(old)


def _directories(tree: Path, documents: Iterable[str]) -> list[str]:
    """The directories, below Documentation, to build for some documents; each has an index."""
    found: dict[str, None] = {}
    for name in documents:
        # The index of everything is left out: building that takes long.
        above = [d for d in Path(name).parents if len(d.parts) > 1]
        place = next((d for d in above if (tree / d / "index.rst").is_file()), None)
        if not place:
            raise RedoubtError(
                f"{name}: no index.rst there or above, so nobody finds it",
                "move it to a directory of Documentation that has one",
            )
        found[str(Path(*place.parts[1:]))] = None
    return list(found)


def _missing(tree: Path, documents: Iterable[str]) -> Iterator[Finding]:
    """Files that our documents take comments from, and which do not exist: nobody warns of them."""
    for name in documents:
        for number, line in enumerate((tree / name).read_text().splitlines(), 1):
            if (wanted := _DIRECTIVE.match(line)) and not (tree / wanted[1]).is_file():
                yield Finding(name, number, "docs", f"there is no {wanted[1]}")


def _build(
    tree: Path, directories: Iterable[str], program: Path, scratch: Path, progress: Progress
) -> list[str]:
    """Build directories of the documentation in `scratch`; what was printed."""
    lines: list[str] = []

    def keep(line: str) -> None:
        lines.append(line)
        if reading := _READING.match(line):
            progress.detail(reading["how_far"])

    run_logged(
        ["make", "-C", tree, f"O={scratch}", "htmldocs", f"SPHINXDIRS={' '.join(directories)}",
         f"SPHINXBUILD={program}", f"PYTHON3={sys.executable}"],
        paths.build_dir() / "log" / "htmldocs.log",
        what="building the documentation",
        # -v makes it say how far it is.
        env={"LC_ALL": "C.UTF-8", "SPHINXOPTS": "-v"},
        on_line=keep,
    )  # fmt: skip
    return lines


def _comments(tree: Path, files: Iterable[str]) -> list[str]:
    """What kernel-doc says of the comments in some files."""
    lines: list[str] = []
    ended = run_lines(
        [sys.executable, tree / "tools" / "docs" / "kernel-doc", "-none", "-Wall",
         *(tree / name for name in files)],
        lines.append,
        env={"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    if ended.code:
        raise RedoubtError(f"kernel-doc failed ({ended}):\n" + "\n".join(lines[-10:]))
    return lines


def check(tree: Path, progress: Progress, *, repo: Path | None = None) -> Report:
    """Build the documents of our materialised tree into <build>/htmldocs, and judge them.

    Raises RedoubtError if Sphinx is missing, fails, or leaves one of them out.
    """
    program = sphinx()
    tree = tree.resolve()
    ours = our_lines(tree, repo or paths.repo())
    names = sorted(ours.added | ours.changed.keys())
    documents = [n for n in names if n.startswith("Documentation/") and n.endswith(".rst")]
    sources = [n for n in names if n.endswith((".c", ".h"))]
    kept = paths.build_dir() / "htmldocs"
    pages: list[Path] = []
    said: list[str] = []
    directories = _directories(tree, documents)
    if directories:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with (
            progress.step(f"Building the documentation ({', '.join(directories)})"),
            tempfile.TemporaryDirectory(dir=kept.parent, prefix=UNFINISHED[:-1]) as name,
        ):
            said += _build(tree, directories, program, Path(name), progress)
            output = Path(name) / "Documentation" / "output"
            for page in (
                Path(n).relative_to("Documentation").with_suffix(".html") for n in documents
            ):
                if not (output / page).is_file():
                    raise RedoubtError(f"Sphinx did not write {page}")
                pages.append(kept / page)
            if kept.exists():
                kept.rename(Path(name) / "old")
            output.rename(kept)
    with progress.step("Checking the comments"):
        said += _comments(tree, sources)
    findings, old = judge(said, tree, ours)
    return Report(
        tuple(sorted([*findings, *_missing(tree, documents)])),
        tuple(old),
        tuple(pages),
        len(sources),
    )
