# SPDX-License-Identifier: GPL-2.0-only
"""The queue on another kernel, with a small queue and small trees made here."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import KERNEL as TREE
from conftest import Done, Sandbox, write_tree
from test_series import PATCHES, Queue, pytestmark, queue, snapshot  # noqa: F401
from test_source import archive

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import source, tree
from redoubt.ship import port

BASE = {"Makefile": TREE["Makefile"], "Kbuild": TREE["Kbuild"]}
LINES = [f"int line{number};\n" for number in range(20)]
HOOK, MORE, USE, DEMO = PATCHES


class Other:
    """The queue of another test, and another kernel, which is the same until it is changed."""

    def __init__(self, queue: Queue) -> None:  # noqa: F811
        self.queue = queue
        write_tree(queue.pristine, BASE)
        self.tree = queue.pristine.parent / "other"
        shutil.copytree(queue.pristine, self.tree)
        self.out = queue.pristine.parent / "place" / "merged"
        self.write({"Makefile": BASE["Makefile"].replace("LEVEL = 3", "LEVEL = 4")})

    def write(self, files: dict[str, str]) -> None:
        """Change files of the other kernel."""
        write_tree(self.tree, files)

    def add_patch(self, name: str, file: str, hunk: str) -> None:
        """Put a patch at the end of the queue."""
        write_tree(
            self.queue.repo / "patches", {name: f"why\n\n--- a/{file}\n+++ b/{file}\n{hunk}"}
        )
        with (self.queue.repo / "patches/series").open("a") as series:
            series.write(name + "\n")

    def port(self) -> port.Report:
        """Merge the queue; neither tree may be touched, and nothing else be left."""
        before = [snapshot(each) for each in (self.tree, self.queue.pristine)]
        try:
            return port.port(
                source.other(self.queue.pristine),
                source.other(self.tree),
                self.out,
                Silent(),
                repo=self.queue.repo,
            )
        finally:
            assert [snapshot(each) for each in (self.tree, self.queue.pristine)] == before
            assert not list(self.out.parent.glob(".port-*"))

    def merged(self, name: str) -> str:
        """A merged patch."""
        return (self.out / name).read_text()

    def pushed(self, count: int | None = None) -> Path:
        """The other kernel with the first merged patches, none of them with an offset."""
        where = self.tree.parent / "pushed"
        shutil.copytree(self.tree, where)
        names = [n for n in self.merged("series").splitlines() if not n.startswith("#")]
        tree.apply_series(where, [self.out / name for name in names[:count]])
        return where


@pytest.fixture
def other(queue: Queue) -> Iterator[Other]:  # noqa: F811
    yield Other(queue)


def verdicts(report: port.Report) -> dict[str, str]:
    return {patch.name: patch.verdict for patch in report.patches}


def files(report: port.Report, patch: str) -> dict[str, port.File]:
    return {file.name: file for each in report.patches if each.name == patch for file in each.files}


# === Verdicts ====================================================================================


def test_on_its_own_kernel_everything_applies_as_it_is(other: Other) -> None:
    report = other.port()
    assert verdicts(report) == dict.fromkeys(PATCHES, "applies")
    assert (report.ok, report.base, report.other.version) == (True, "7.3.4", "7.4.4")
    written = {name: (other.out / name).read_text() for name in PATCHES}
    assert written == PATCHES
    assert other.merged("series").splitlines()[1:] == list(PATCHES)
    assert [(topic.name, topic.new, topic.taken) for topic in report.topics] == [
        ("core", 2, ()),
        ("arch", 1, ()),
        ("demo", 1, ()),
    ]


def test_what_moved_is_merged_and_the_rest_is_left_as_it_is(other: Other) -> None:
    text = "".join(["int first;\n", *LINES[:5], "int other;\n", *LINES[6:]])
    other.write({"mm/memory.c": text})
    report = other.port()
    assert report.ok
    assert verdicts(report) == {HOOK: "merges", MORE: "merges", USE: "applies", DEMO: "applies"}
    assert {name: file.verdict for name, file in files(report, HOOK).items()} == {
        "mm/Makefile": "applies",
        "mm/memory.c": "merges",
    }
    assert other.merged(HOOK) == PATCHES[HOOK].replace("-10,3 +10,3", "-11,3 +11,3").replace(
        "-11,3 +11,3 @@", "-11,3 +11,3 @@ int line8;"
    )
    assert other.merged(USE) == PATCHES[USE]
    pushed = (other.pushed() / "mm/memory.c").read_text()
    assert pushed == text.replace("int line10;\n", "int line10 = 1;\nint more;\n")


def test_a_patch_that_applies_at_the_wrong_place_is_merged_at_the_right_one(other: Other) -> None:
    # One line of context finds its neighbours at the old place, in a copy of the code.
    text = "".join(["int copied;\n"] * 9 + LINES[9:12] + ["int end;\n"] * 3 + LINES)
    other.write({"mm/memory.c": text})
    wrong = other.tree.parent / "wrong"
    shutil.copytree(other.tree, wrong)
    tree.apply_series(wrong, [other.queue.repo / "patches" / HOOK])
    assert verdicts(other.port())[HOOK] == "merges"
    before, after = (other.pushed() / "mm/memory.c").read_text().split("int end;\n" * 3)
    assert "int line10;\n" in before
    assert "int line10 = 1;\nint more;\n" in after


def test_a_conflict_leaves_the_other_kernel_as_it_is(other: Other) -> None:
    text = "".join(["int first;\n", *LINES]).replace("line10;", "line10 = 7;")
    other.write({"mm/memory.c": text})
    # Far from the conflict; MORE is right at it.
    hunk = "@@ -5,2 +5,3 @@\n int line4;\n+int far;\n int line5;\n"
    other.add_patch("demo/0002-far.patch", "mm/memory.c", hunk)
    report = other.port()
    assert not report.ok
    assert verdicts(report) == {
        HOOK: "conflicts",
        MORE: "conflicts",
        USE: "applies",
        DEMO: "applies",
        "demo/0002-far.patch": "merges",
    }
    assert files(report, HOOK) == {
        "mm/Makefile": port.File("mm/Makefile", "applies"),
        "mm/memory.c": port.File("mm/memory.c", "conflicts", (12,)),
    }
    assert files(report, MORE)["mm/memory.c"] == port.File("mm/memory.c", "conflicts", (12,), HOOK)
    far = port.File("mm/memory.c", "merges", (), HOOK)
    assert files(report, "demo/0002-far.patch") == {"mm/memory.c": far}
    # The patch brings the markers.
    pushed = other.pushed(1)
    assert "obj-y += core.o" in (pushed / "mm/Makefile").read_text()
    assert (pushed / "mm/memory.c").read_text() == text.replace(
        "int line10 = 7;\n",
        "<<<<<<< Linux 7.4.4\nint line10 = 7;\n||||||| Linux 7.3.4, before the patch\nint line10;\n"
        f"=======\nint line10 = 1;\n>>>>>>> {HOOK}\n",
    )
    # Later ones take it that nothing of it is there.
    assert "<<<<" not in other.merged("demo/0002-far.patch")
    where = other.tree.parent / "later"
    shutil.copytree(other.tree, where)
    tree.apply_series(where, [other.out / "demo/0002-far.patch"])


def test_each_hunk_in_conflict_is_told_with_its_line(other: Other) -> None:
    hunks = (
        "@@ -2,3 +2,3 @@\n int line1;\n-int line2;\n+int our2;\n int line3;\n"
        "@@ -17,3 +17,3 @@\n int line15;\n-int line16;\n+int our16;\n int line17;\n"
        "@@ -21 +21 @@\n-int line19;\n+int our19;\n"
    )
    other.add_patch("demo/0002-three.patch", "mm/memory.c", hunks)
    text = "".join(LINES).replace("line2;", "their2;\nint twice;").replace("line19;", "their19;")
    other.write({"mm/memory.c": text})
    report = other.port()
    # Below the first one, and the lines that earlier patches have added.
    assert files(report, "demo/0002-three.patch")["mm/memory.c"].lines == (3, 22)
    assert "+int our16;" in other.merged("demo/0002-three.patch")


@pytest.mark.parametrize("kind", ["gone", "link", "directory"])
def test_a_file_that_is_missing(other: Other, kind: str) -> None:
    (other.tree / "ignored/table.c").unlink()
    if kind == "link":
        (other.tree / "ignored/table.c").symlink_to("../mm/memory.c")
    elif kind == "directory":
        (other.tree / "ignored/table.c").mkdir()
    report = other.port()
    assert not report.ok
    assert verdicts(report) == {HOOK: "applies", MORE: "applies", USE: "missing", DEMO: "applies"}
    assert {name: file.verdict for name, file in files(report, USE).items()} == {
        "ignored/table.c": "missing",
        "scripts/tool.sh": "applies",
    }
    first, second = PATCHES[USE].split("--- a/scripts")
    assert other.merged(USE) == "--- a/scripts" + second
    assert other.merged(USE + ".missing") == first
    assert "echo our tool" in (other.pushed() / "scripts/tool.sh").read_text()


def test_a_patch_of_which_nothing_is_left_is_no_part_of_the_series(other: Other) -> None:
    shutil.rmtree(other.tree / "ignored")
    (other.tree / "scripts/tool.sh").unlink()
    assert verdicts(other.port())[USE] == "missing"
    assert other.merged("series").splitlines()[1:] == [HOOK, MORE, f"# {USE}: missing", DEMO]
    assert not (other.out / USE).exists()
    assert other.merged(USE + ".missing") == PATCHES[USE]


def test_what_is_there_already(other: Other) -> None:
    tree.apply_series(other.tree, [other.queue.repo / "patches" / USE])
    report = other.port()
    assert report.ok
    assert verdicts(report)[USE] == "there already"
    assert other.merged("series").splitlines()[1:] == [HOOK, MORE, f"# {USE}: there already", DEMO]
    # Half of it is a patch that is to be made anew.
    other.write({"ignored/table.c": (other.queue.pristine / "ignored/table.c").read_text()})
    assert verdicts(other.port())[USE] == "merges"
    assert "tool.sh" not in other.merged(USE)


def test_names_of_new_files_that_are_taken(other: Other) -> None:
    other.write({"mm/core.c": "theirs\n", "mm/demo.c": "theirs\n"})
    report = other.port()
    assert not report.ok
    assert set(verdicts(report).values()) == {"applies"}
    assert [topic.taken for topic in report.topics] == [("mm/core.c",), (), ("mm/demo.c",)]
    lines = list(port.render(report))
    assert "    kernel/mm/core.c: Linux 7.4.4 has a file of this name" in lines
    assert "new files 4: names that are taken 2" in lines


def test_bytes_that_are_no_text_survive(other: Other) -> None:
    strange = b"\xfc\r\n\x0c\rint a;\r\n" + b"int b;\n" * 4 + b"int last; \xff"
    for where in (other.queue.pristine, other.tree):
        (where / "odd.c").write_bytes(strange)
        (where / "same.c").write_bytes(b"int a;\r\nint b;\r\n")
    (other.tree / "odd.c").write_bytes(b"int new;\n" + strange)
    other.add_patch("demo/0002-odd.patch", "odd.c", "")
    patch = other.queue.repo / "patches/demo/0002-odd.patch"
    patch.write_bytes(
        patch.read_bytes() + b"@@ -6,2 +6,2 @@\n int b;\n-int last; \xff\n"
        b"\\ No newline at end of file\n+int last; \xfe\n\\ No newline at end of file\n"
        b"--- a/same.c\n+++ b/same.c\n@@ -1,2 +1,3 @@\n int a;\r\n+int our;\r\n int b;\r\n"
    )
    assert {file.verdict for file in files(other.port(), "demo/0002-odd.patch").values()} == {
        "merges",
        "applies",
    }
    pushed = other.pushed()
    assert (pushed / "odd.c").read_bytes() == b"int new;\n" + strange[:-1] + b"\xfe"
    assert (pushed / "same.c").read_bytes() == b"int a;\r\nint our;\r\nint b;\r\n"


def test_the_text_of_a_report(other: Other) -> None:
    (other.tree / "scripts/tool.sh").unlink()
    other.write({"mm/memory.c": "".join(LINES).replace("line10;", "line10 = 7;")})
    report = other.port()
    assert list(port.render(report)) == [
        f"The queue for Linux 7.3.4 on Linux 7.4.4 in {other.tree}:",
        "",
        "core: conflicts 2",
        "    conflicts      0001-hook.patch (files: applies 1, conflicts 1)",
        "        conflicts      mm/memory.c: hunks 1, at line 11 there",
        "    conflicts      0002-more.patch (files: conflicts 1)",
        "        conflicts      mm/memory.c: hunks 1, at line 11 there;"
        f" less sure after the conflict of {HOOK}",
        "",
        "arch: missing 1",
        "    missing        0001-use.patch (files: applies 1, missing 1)",
        "        missing        scripts/tool.sh",
        "",
        "demo: applies 1",
        "    applies        0001-demo.patch (files: applies 1)",
        "",
        "patches 4: applies 1, conflicts 2, missing 1",
        "files 6, counted once for each patch: applies 3, conflicts 2, missing 1",
        "new files 4: names that are taken 0",
        f"The merged queue is in {other.out}.",
        "Conflicts are in its patches, with markers; later patches are merged without them.",
        "Changes of files that are missing are beside its patches, in .patch.missing.",
        "All this is about text: what merges need not build, and what builds need not protect.",
    ]


# === What is written =============================================================================


def test_a_second_run_replaces_the_first(other: Other) -> None:
    (other.tree / "ignored/table.c").unlink()
    other.port()
    assert (other.out / (USE + ".missing")).exists()
    other.write({"ignored/table.c": (other.queue.pristine / "ignored/table.c").read_text()})
    other.port()
    assert not (other.out / (USE + ".missing")).exists()
    assert other.merged(USE) == PATCHES[USE]


def test_work_on_the_merged_patches_is_not_thrown_away(other: Other) -> None:
    other.port()
    for name, text in ((HOOK, "mended\n"), ("demo/0009-new.patch", "new\n")):
        kept = (other.out / name).read_text() if (other.out / name).exists() else None
        write_tree(other.out, {name: text})
        before = snapshot(other.out)
        with pytest.raises(RedoubtError, match="was changed since") as caught:
            other.port()
        assert f"rm -r {other.out}" in str(caught.value.hint)
        assert snapshot(other.out) == before
        if kept:
            write_tree(other.out, {name: kept})
        else:
            (other.out / name).unlink()
        other.port()


@pytest.mark.parametrize("where", ["foreign", "file", "other", "pristine"])
def test_places_that_are_refused(other: Other, where: str) -> None:
    if where in ("other", "pristine"):
        other.out = (other.tree if where == "other" else other.queue.pristine) / "out"
    else:
        other.out.parent.mkdir()
        write_tree(other.out if where == "foreign" else other.out.parent, {"merged": "mine"})
    with pytest.raises(RedoubtError) as caught:
        other.port()
    assert caught.value.hint == "give another --output"
    if where == "foreign":
        assert snapshot(other.out).keys() == {"merged"}


def test_a_run_that_fails_leaves_the_earlier_result(other: Other) -> None:
    other.port()
    before = snapshot(other.out)
    # The queue no longer applies to its own kernel.
    other.queue.edit(f"patches/{DEMO}", " obj-y += slab.o", " obj-y += slob.o")
    with pytest.raises(RedoubtError, match=r"0001-demo\.patch does not apply"):
        other.port()
    assert snapshot(other.out) == before


# === The command =================================================================================


@pytest.fixture
def command(
    other: Other, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    monkeypatch.setattr(paths, "repo", lambda: other.queue.repo)
    monkeypatch.setenv("LINUX_SRC", str(other.queue.pristine))
    return call


def test_the_command_ends_with_0_if_nothing_is_to_be_done(
    other: Other, command: Callable[..., Done], tmp_path: Path
) -> None:
    killed = tmp_path / "build/port/.port-killed"
    write_tree(killed, {"new/series": ""})
    done = command("port", "--onto", str(other.tree), "--json", str(tmp_path / "report"))
    assert done.code == 0, done.err
    assert not killed.exists()
    assert done.out.startswith("The queue for Linux 7.3.4 on Linux 7.4.4 in ")
    merged = tmp_path / "build/port/7.4.4"
    assert f"The merged queue is in {merged}.\n" in done.out
    assert (merged / HOOK).read_text() == PATCHES[HOOK]
    found = json.loads((tmp_path / "report").read_text())
    assert (found["ok"], found["base"], found["onto"]) == (True, "7.3.4", "7.4.4")
    assert (found["tree"], found["output"]) == (str(other.tree), str(merged))
    assert [topic["topic"] for topic in found["topics"]] == ["core", "arch", "demo"]
    assert found["command"].startswith("redoubt port --onto ")


def test_the_command_ends_with_1_and_says_where_to_look(
    other: Other, command: Callable[..., Done], tmp_path: Path
) -> None:
    other.write({"mm/memory.c": "".join(LINES).replace("line10;", "line10 = 7;"), "mm/core.c": ""})
    out, report = tmp_path / "out", tmp_path / "report"
    done = command("port", "--onto", str(other.tree), "--output", str(out), "--json", str(report))
    assert done.code == 1
    assert "conflicts      mm/memory.c: hunks 1, at line 11 there\n" in done.out
    assert f"The merged queue is in {out}.\n" in done.out
    found = json.loads(report.read_text())
    core = found["topics"][0]
    assert (found["ok"], core["new"], core["taken"]) == (False, 2, ["mm/core.c"])
    assert core["patches"][1] == {
        "patch": MORE,
        "verdict": "conflicts",
        "files": [{"file": "mm/memory.c", "verdict": "conflicts", "lines": [11], "after": HOOK}],
    }


@pytest.mark.parametrize("kind", ["nowhere", "empty", "foreign"])
def test_what_is_no_kernel_tree_is_refused(
    command: Callable[..., Done], tmp_path: Path, kind: str
) -> None:
    where = tmp_path / "given"
    if kind != "nowhere":
        where.mkdir()
    if kind == "foreign":
        write_tree(where, {"Makefile": "all:\n\techo\n"})
    done = command("port", "--onto", str(where))
    assert (done.code, done.out) == (1, "")
    assert f"{where} is not a kernel tree" in done.err
    assert "--onto /path/to/linux" in done.err
    assert "LINUX_SRC" not in done.err
    assert not (tmp_path / "build/port").exists()


def test_a_checkout_of_git_is_a_tree(other: Other, command: Callable[..., Done]) -> None:
    write_tree(other.tree, {".git/HEAD": "broken\n", ".git/config": "[broken\n"})
    assert command("port", "--onto", str(other.tree)).code == 0


@pytest.mark.parametrize("words", [[], ["--onto", "/", "--package", "linux-source-7.2"]])
def test_one_kernel_has_to_be_given(call: Callable[..., Done], words: list[str]) -> None:
    done = call("port", *words)
    assert done.code == 2
    assert "--onto" in done.err


PACKAGED = """\
from redoubt.linux import source
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
import sys
try:
    print(*vars(source.packaged(sys.argv[1], Silent())).values())
except RedoubtError as error:
    sys.exit(f"{error.message} / {error.hint}")
"""


def test_a_source_package_is_unpacked_once_for_each_version(sandbox: Sandbox) -> None:
    archive(sandbox)
    done = sandbox.run("linux-source-7.3", code=PACKAGED)
    place = sandbox.build / "linux-source-7.3_7.3.4-1~bpo13+1"
    assert (done.code, done.out) == (0, f"{place} 7.3.4\n"), done.err
    (place / "mark").touch()
    assert sandbox.run("linux-source-7.3", code=PACKAGED).out == f"{place} 7.3.4\n"
    assert (place / "mark").exists()


@pytest.mark.parametrize("package", ["linux-source-6.1", "bash"])
def test_a_package_that_is_not_there(sandbox: Sandbox, package: str) -> None:
    archive(sandbox)
    done = sandbox.run(package, code=PACKAGED)
    assert done.code == 1
    assert re.search(rf"{package}.* / .*--(onto|package) ", done.err), done.err
    assert "Traceback" not in done.err
