# SPDX-License-Identifier: GPL-2.0-only
"""lint on a small tree of its own: real compiler, stand-ins for checkpatch and sparse."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import write_tree

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.ship import lint

needs_tools = pytest.mark.skipif(
    not all(shutil.which(name) for name in ("gcc", "make", "perl", "sparse", "spatch")),
    reason="needs gcc, make, perl, sparse and spatch (scripts/prerequisites lint)",
)
needs_perl = pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")

PRISTINE = "int old(int a)\n{\n\tint old_unused;\n\treturn a;\n}\n"
PATCHED = PRISTINE + "int new(int a)\n{\n\tint new_unused;\n\treturn a;\n}\n"
PATCH = "mm: touch\n\nBecause.\n--- a/mm/touched.c\n+++ b/mm/touched.c\n@@ -5 +5,2 @@\n }\n+\n"

# It compiles as Kbuild does, as far as lint looks: what it prints, and where objects go.
MAKEFILE = """
%.o:
\t@echo "  CC      $@"; gcc -Wall -c -o $(O)/$@ $(CURDIR)/$*.c
\t@echo "  CHECK   $*.c"
"""

# Finds one thing: the word BAD in a file or an added line. Of a patch it leaves a file behind.
CHECKPATCH = r"""
my $patch = !grep { $_ eq "-f" } @ARGV;
open(my $left, ">", ".left") if $patch;
my $name = my $file = $ARGV[-1];
my ($bad, $line) = (0, 0);
open(my $in, "<", $file) or die "cannot open $file\n";
while (<$in>) {
    $line++;
    if (/^\+\+\+ b\/(\S+)/) { $name = $1; next; }
    if (/^@@ -\S+ \+(\d+)/) { $line = $1 - 1; next; }
    $line-- if $patch && /^-/;
    if (/BAD/ && (!$patch || /^\+/)) { print "$name:$line: ERROR:BADNESS: bad\n"; $bad = 1; }
    print "$name:$line: WARNING:COMPLEX_MACRO: macro\n" if /MACRO/;
    print ":7: WARNING:LONG: message\n" if /^LONG/;
}
exit $bad;
"""


class Tree:
    """A tree with one added file (mm/added.c) and one patch on mm/touched.c."""

    def __init__(self, top: Path) -> None:
        self.repo, self.tree, self.build = top / "repo", top / "tree", top / "b" / "um"
        write_tree(
            top,
            {
                "repo/kernel/mm/added.c": "int added;\n",
                "repo/patches/topic/0001-a.patch": PATCH,
                "tree/Makefile": MAKEFILE,
                "tree/scripts/checkpatch.pl": CHECKPATCH,
                "tree/.pc/applied-patches": "topic/0001-a.patch\n",
                "tree/.pc/topic/0001-a.patch/mm/touched.c": PRISTINE,
                "tree/mm/touched.c": PATCHED,
                "b/um/.config": "#\n# Linux/um 7.3.4 Kernel Configuration\n",
                "b/um/mm/added.o": "object",
                "b/um/mm/touched.o": "object",
            },
        )
        self.added, self.touched = self.repo / "kernel/mm/added.c", self.tree / "mm/touched.c"
        (self.tree / "mm" / "added.c").symlink_to(self.added)

    def permit(self, name: str) -> None:
        text = f'[[permitted]]\nfiles = ["{name}"]\ntypes = ["COMPLEX_MACRO"]\nreason = "why"\n'
        write_tree(self.repo, {"configs/lint.toml": text})

    def lint(self) -> lint.Report:
        return lint.lint(self.tree, {self.build: ""}, repo=self.repo)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@needs_tools
def test_only_new_lines_of_a_touched_file_count(tree: Tree) -> None:
    report = tree.lint()
    assert [(f.file, f.line) for f in report.findings] == [("mm/touched.c", 8)]
    assert "new_unused" in report.findings[0].text
    assert [(f.file, f.line) for f in report.old] == [("mm/touched.c", 3)]
    assert not report.ok
    assert (report.files, report.patches, report.objects) == (1, 1, 2)


@needs_tools
def test_every_line_of_an_added_file_counts(tree: Tree) -> None:
    tree.touched.write_text(PRISTINE + "int new(void);\n")
    assert tree.lint().ok
    tree.added.write_text("static int never_called(void)\n{\n\treturn 0; /* BAD */\n}\n")
    found = {(f.file, f.line, f.tool) for f in tree.lint().findings}
    assert found == {("mm/added.c", 3, "checkpatch"), ("mm/added.c", 1, "make W=1 C=2")}


@needs_tools
def test_checkpatch_sees_the_patch(tree: Tree) -> None:
    tree.touched.write_text(PRISTINE + "int new; /* BAD */\n")
    (finding,) = tree.lint().findings
    assert (finding.file, finding.line, finding.tool) == ("mm/touched.c", 6, "checkpatch")


@needs_tools
def test_what_is_permitted_is_permitted_in_that_file_only(tree: Tree) -> None:
    tree.touched.write_text(PRISTINE + "/* MACRO */\n")
    tree.added.write_text("/* MACRO */\n")
    found = [(f.file, f.line) for f in tree.lint().findings]
    assert found == [("mm/added.c", 1), ("mm/touched.c", 6)]
    tree.permit("mm/added.c")
    assert [(f.file, f.line) for f in tree.lint().findings] == [("mm/touched.c", 6)]
    # Of a patch as well.
    tree.permit("mm/touched.c")
    assert [(f.file, f.line) for f in tree.lint().findings] == [("mm/added.c", 1)]


@needs_tools
def test_the_build_directory_is_left_alone(tree: Tree) -> None:
    before = {file: file.stat().st_mtime_ns for file in tree.build.rglob("*")}
    tree.lint()
    assert {file: file.stat().st_mtime_ns for file in tree.build.rglob("*")} == before
    assert list(tree.build.parent.iterdir()) == [tree.build]


@needs_tools
def test_a_checker_that_did_not_run_is_an_error(tree: Tree) -> None:
    text = (tree.tree / "Makefile").read_text()
    (tree.tree / "Makefile").write_text(text.replace("CHECK ", "SKIPPED "))
    with pytest.raises(RedoubtError, match=r"not done: mm/added.o \(CHECK\)"):
        tree.lint()


@needs_tools
def test_a_file_that_does_not_compile_is_an_error(tree: Tree) -> None:
    tree.added.write_text("int added(\n")
    with pytest.raises(RedoubtError, match="W=1 C=2 failed"):
        tree.lint()


@needs_tools
def test_a_source_that_is_not_built_is_named(tree: Tree) -> None:
    (tree.build / "mm" / "added.o").unlink()
    report = tree.lint()
    assert report.unbuilt == ("mm/added.c",)
    assert "mm/added.c: not built in this configuration" in lint.render(report)


@needs_tools
def test_a_broken_checkpatch_is_an_error(tree: Tree) -> None:
    (tree.tree / "scripts" / "checkpatch.pl").write_text('die "no";')
    with pytest.raises(RedoubtError, match="checkpatch failed"):
        tree.lint()


def test_a_missing_checker_is_named(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint.shutil, "which", lambda name: None if name == "sparse" else name)
    with pytest.raises(RedoubtError, match="sparse: not found"):
        tree.lint()


@needs_tools
def test_no_build_no_lint(tree: Tree) -> None:
    (tree.build / ".config").unlink()
    with pytest.raises(RedoubtError, match="not a kernel's build directory"):
        tree.lint()


def test_a_mail_has_the_message_and_three_lines_of_context(tree: Tree) -> None:
    text = lint.mail(tree.tree, "topic/0001-a.patch", PATCH)
    assert text.startswith("Subject: [PATCH] mm: touch\n\nBecause.\n---\ndiff --git")
    assert "@@ -3,3 +3,8 @@\n" in text
    assert "+\tint new_unused;\n" in text


def a_mail(top: Path, text: str, name: str = "mm/added.c") -> Path:
    file = top / "0001-mm-add.patch"
    file.write_text(
        f"Subject: [PATCH] mm: add\n\nBecause.\n{text}\n---\n"
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,2 @@\n+int a;\n+/* {text} */\n"
    )
    return file


@needs_perl
def test_mails_are_checked_without_a_build(tree: Tree, tmp_path: Path) -> None:
    before = sorted(tree.tree.rglob("*"))
    assert lint.check_mails(tree.tree, [a_mail(tmp_path, "")]) == ()
    (finding,) = lint.check_mails(tree.tree, [a_mail(tmp_path, "BAD")])
    assert (finding.file, finding.line) == ("mm/added.c", 2)
    (finding,) = lint.check_mails(tree.tree, [a_mail(tmp_path, "LONG")])
    assert str(finding) == "0001-mm-add.patch:1: checkpatch: LONG: message"
    assert sorted(tree.tree.rglob("*")) == before


def test_entries_of_one_file_add_up(tmp_path: Path) -> None:
    entry = '[[permitted]]\nfiles = ["a.c"]\ntypes = ["{}"]\nreason = "why"\n'
    write_tree(tmp_path, {"lint.toml": entry.format("ONE") + entry.format("TWO")})
    assert lint.permitted(tmp_path / "lint.toml") == {"a.c": {"ONE", "TWO"}}


@needs_perl
def test_what_is_permitted_is_permitted_in_a_mail(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lint.paths, "repo", lambda: tree.repo)
    mails = [a_mail(tmp_path, "x */ /* MACRO")]
    assert {one.file for one in lint.check_mails(tree.tree, mails)} >= {"mm/added.c"}
    tree.permit("mm/added.c")
    assert "mm/added.c" not in {one.file for one in lint.check_mails(tree.tree, mails)}


def test_mails_need_perl(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint.shutil, "which", lambda name: None if name == "perl" else name)
    with pytest.raises(RedoubtError, match="perl: not found"):
        lint.check_mails(tree.tree, [a_mail(tmp_path, "")])


def test_each_exception_has_a_reason(tmp_path: Path) -> None:
    ours = lint.permitted(paths.repo() / "configs" / "lint.toml")
    assert ours and all(ours.values())
    file = tmp_path / "lint.toml"
    for more, what in (("", "lacks reason"), ("reason = ' '", "reason .* is no text")):
        file.write_text(f"[[permitted]]\nfiles = ['mm/a.c']\ntypes = ['X']\n{more}\n")
        with pytest.raises(RedoubtError, match=what):
            lint.permitted(file)


def test_changed_lines(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"

    def changed(text: str) -> frozenset[int]:
        after.write_text(text)
        return lint.changed_lines(before, after)

    assert changed("a\nb\n") == {1, 2}
    before.write_text("a\nb\nc\nd\n")
    assert changed("a\nb\nc\nd\n") == frozenset()
    assert changed("a\nx\nb\nc\nD\n") == {2, 5}
    assert changed("a\nc\nd\n") == {1, 2}


def test_parse_knows_what_the_checkers_print() -> None:
    lines = [
        "  CC      mm/a.o",
        "/t/mm/a.c:3:5: warning: unused variable 'x' [-Wunused-variable]",
        "    3 | int x;",
        "../mm/../mm/a.c:4:1: error: incompatible types",
        "Warning: /t/mm/b.c:7 function parameter 'p' not described in 'f'",
        "/t/mm/a.c:3:5: note: in included file:",
        "In file included from /t/mm/a.c:1:",
    ]
    found = [(f.file, f.line, f.text) for f in lint.parse(lines, Path("/t"))]
    assert found == [
        ("mm/a.c", 3, "warning: unused variable 'x' [-Wunused-variable]"),
        ("../mm/a.c", 4, "error: incompatible types"),
        ("mm/b.c", 7, "Warning: function parameter 'p' not described in 'f'"),
    ]
