# SPDX-License-Identifier: GPL-2.0-only
"""The documentation of a small tree: a stand-in for the kernel's make htmldocs and kernel-doc."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from conftest import Sandbox, write_tree

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.ship import htmldocs
from redoubt.ship.lint import Lines

OURS = Lines(
    frozenset({"Documentation/mm/ours.rst", "mm/ours.c"}),
    {"Documentation/mm/index.rst": frozenset({3}), "include/linux/theirs.h": frozenset({7})},
)

# Prints what is in warnings, and writes a page for each document; notes what it was called with.
MAKEFILE = """
htmldocs:
	@echo "reading sources... [ 50%] index .. ours"
	@cat $(CURDIR)/warnings
	@echo "$(SPHINXDIRS) $(SPHINXBUILD) $(PYTHON3)" > $(CURDIR)/called
	@for d in $(SPHINXDIRS); do mkdir -p $(O)/Documentation/output/$$d; \\
	for f in $(CURDIR)/Documentation/$$d/*.rst; do \\
	echo page > $(O)/Documentation/output/$$d/$$(basename $$f .rst).html; done; done
	@! test -e $(CURDIR)/broken
	@! test -e $(CURDIR)/forgetful || rm $(O)/Documentation/output/mm/ours.html
"""

# A comment with BAD in it is one.
KERNEL_DOC = """
import sys
assert sys.argv[1:3] == ["-none", "-Wall"]
for name in sys.argv[3:]:
    for number, line in enumerate(open(name), 1):
        if "BAD" in line:
            print(f"Warning: {name}:{number} bad comment")
        if "DIE" in line:
            sys.exit(1)
"""


class Tree:
    """A tree with one document, one source and one patch of an index and a header."""

    def __init__(self, top: Path) -> None:
        self.tree, self.repo = top / "tree", top / "repo"
        ours = {"Documentation/mm/ours.rst": "Ours\n", "mm/ours.c": "/** x */\n"}
        self.files = {
            **ours,
            "Makefile": MAKEFILE,
            "warnings": "",
            "tools/docs/kernel-doc": KERNEL_DOC,
            "Documentation/mm/index.rst": "theirs\n\n   ours\n",
            "include/linux/theirs.h": "/* BAD */\n",
            ".pc/applied-patches": "a.patch\n",
            ".pc/a.patch/Documentation/mm/index.rst": "theirs\n\n",
            ".pc/a.patch/include/linux/theirs.h": "/* BAD */\n",
        }
        write_tree(self.tree, self.files)
        write_tree(self.repo / "kernel", ours)

    def edit(self, name: str, text: str) -> None:
        write_tree(self.tree, {name: text})

    def check(self) -> htmldocs.Report:
        return htmldocs.check(self.tree, Silent(), repo=self.repo)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(htmldocs, "sphinx", lambda: Path("/sphinx-build"))
    return Tree(tmp_path)


def left() -> list[str]:
    return sorted(file.name for file in paths.build_dir().iterdir())


def test_judge_knows_where_a_finding_stands() -> None:
    lines = [
        "WARNING: dot(1) not found, for better output quality install graphviz",
        "/t/Documentation/mm/ours.rst:7: WARNING: Title underline too short.",
        "",
        "The pool",
        "checking consistency... /t/Documentation/mm/ours.rst: WARNING: document isn't included",
        "/t/Documentation/mm/ours:9: /t/mm/ours.c:38: WARNING: Inline emphasis [docutils]",
        "/t/Documentation/mm/ours:9: /t/mm/theirs.c:5: WARNING: Inline emphasis [docutils]",
        "WARNING: /t/mm/ours.c:43 Excess function parameter 'nope' description in 'f'",
        "WARNING: /t/mm/ours.c:43 Excess function parameter 'nope' description in 'f'",
        "Warning: /t/include/linux/theirs.h:7 struct member 'a' not described in 's'",
        "Warning: /t/include/linux/theirs.h:8 struct member 'b' not described in 's'",
        "/t/Documentation/mm/index.rst:3: WARNING: toctree contains reference to nothing",
        "/t/Documentation/mm/index.rst:2: WARNING: undefined label: 'l', see /t/mm/ours.c:1",
        "/elsewhere/mm/ours.c:1: WARNING: of another tree",
    ]
    findings, old = htmldocs.judge(lines, Path("/t"), OURS)
    assert [(f.file, f.line, f.text) for f in findings] == [
        ("Documentation/mm/ours.rst", 7, "Title underline too short."),
        ("Documentation/mm/ours.rst", 1, "document isn't included"),
        ("mm/ours.c", 38, "Inline emphasis [docutils]"),
        ("mm/ours.c", 43, "Excess function parameter 'nope' description in 'f'"),
        ("include/linux/theirs.h", 7, "struct member 'a' not described in 's'"),
        ("Documentation/mm/index.rst", 3, "toctree contains reference to nothing"),
    ]
    assert old == [lines[0], lines[6], lines[10], lines[12], lines[13]]


def test_documents_are_built_and_put_in_place(tree: Tree) -> None:
    report = tree.check()
    assert report.ok
    where = paths.build_dir() / "htmldocs" / "mm"
    assert report.pages == (where / "index.html", where / "ours.html")
    assert all(page.read_text() == "page\n" for page in report.pages)
    # Once for both documents, with the Python that Sphinx is installed for.
    assert (tree.tree / "called").read_text() == f"mm /sphinx-build {sys.executable}\n"
    assert left() == ["htmldocs", "log"]
    assert htmldocs.render(report)[-1].startswith("docs: 2 documents, comments of 2 files: 0 ")


def test_what_is_wrong_with_ours_counts(tree: Tree) -> None:
    tree.edit("warnings", f"{tree.tree}/Documentation/mm/ours.rst:1: WARNING: too short\n")
    tree.edit("mm/ours.c", "int a;\n/** BAD */\n")
    tree.edit("include/linux/theirs.h", "/* BAD */\n/* BAD */\n")
    report = tree.check()
    assert not report.ok
    assert [str(finding) for finding in report.findings] == [
        "Documentation/mm/ours.rst:1: docs: too short",
        "include/linux/theirs.h:2: docs: bad comment",
        "mm/ours.c:2: docs: bad comment",
    ]
    assert len(report.old) == 1


def test_comments_of_a_file_that_does_not_exist(tree: Tree) -> None:
    # The kernel's own build says so, but not in which document, and ends well.
    tree.edit(
        "Documentation/mm/ours.rst",
        "Ours\n\n.. kernel-doc:: mm/ours.c\n\n.. kernel-doc:: mm/gone.c\n",
    )
    (finding,) = tree.check().findings
    assert str(finding) == "Documentation/mm/ours.rst:5: docs: there is no mm/gone.c"


def test_a_document_that_was_left_out_is_an_error(tree: Tree) -> None:
    tree.edit("forgetful", "")
    with pytest.raises(RedoubtError, match=r"did not write mm/ours\.html"):
        tree.check()
    assert left() == ["log"]


def test_a_document_that_no_index_can_name_is_an_error(tree: Tree) -> None:
    (tree.tree / "Documentation/mm/index.rst").unlink()
    tree.edit("Documentation/index.rst", "of everything\n")
    with pytest.raises(RedoubtError, match=r"no index\.rst there or above"):
        tree.check()


def test_what_was_built_before_survives_a_failure(tree: Tree) -> None:
    tree.check()
    tree.edit("broken", "")
    with pytest.raises(RedoubtError, match="building the documentation failed") as raised:
        tree.check()
    assert str(paths.build_dir() / "log" / "htmldocs.log") in str(raised.value.hint)
    assert left() == ["htmldocs", "log"]


def test_a_kernel_doc_that_fails_is_an_error(tree: Tree) -> None:
    tree.edit("mm/ours.c", "DIE\n")
    with pytest.raises(RedoubtError, match="kernel-doc failed"):
        tree.check()


def test_it_says_how_far_it_is(tree: Tree) -> None:
    steps: list[str] = []

    class Watching:
        def step(self, title: str) -> AbstractContextManager[None]:
            steps.append(title)
            return nullcontext()

        def detail(self, text: str) -> None:
            steps.append(text)

        def note(self, text: str) -> None:
            steps.append(text)

    htmldocs.check(tree.tree, Watching(), repo=tree.repo)
    assert steps == [
        "Building the documentation (mm)",
        "[ 50%] index .. ours",
        "Checking the comments",
    ]


def test_without_sphinx_nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(htmldocs.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(RedoubtError, match="sphinx-build: not found") as raised:
        htmldocs.sphinx()
    assert "make setup" in str(raised.value.hint)
    (tmp_path / "sphinx-build").touch()
    assert htmldocs.sphinx() == tmp_path / "sphinx-build"


def test_the_documentation_alone_has_no_targets(sandbox: Sandbox) -> None:
    ended = sandbox.run("lint", "--docs", "um")
    assert ended.code == 2
    assert "--docs checks no objects" in ended.err
