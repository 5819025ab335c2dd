# SPDX-License-Identifier: GPL-2.0-only
"""Our tree: patches apply where they say or not at all, and nothing in it changes unnoticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from conftest import write_tree

from redoubt.core.errors import RedoubtError
from redoubt.linux import tree

pytestmark = pytest.mark.skipif(not shutil.which("quilt"), reason="needs quilt")

PATCH = """\
mm: change a line

--- a/mm/memory.c
+++ b/mm/memory.c
@@ -10,3 +10,3 @@
 int line9;
-int line10;
+int line10 = 1;
 int line11;
"""
SECOND = """\
mm: change another

--- a/mm/mmap.c
+++ b/mm/mmap.c
@@ -1 +1 @@
-int map;
+int map = 1;
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return write_tree(
        tmp_path / "repo",
        {
            "kernel/mm/kpkeys/core.c": "int core;\n",
            "kernel/include/linux/kpkeys.h": "/* kpkeys */\n",
            "patches/series": "# the queue\none/0001-first.patch\n\none/0002-second.patch # last\n",
            "patches/one/0001-first.patch": PATCH,
            "patches/one/0002-second.patch": SECOND,
        },
    )


def make(kernel: Path, repo: Path) -> Path:
    return tree.materialise(kernel, kernel.parent / "tree", repo=repo)


LOCAL = """\
mm: change a file of kernel/

--- a/mm/kpkeys/core.c
+++ b/mm/kpkeys/core.c
@@ -1 +1,2 @@
 int core;
+int bug;
"""


def test_a_patch_may_change_a_file_of_kernel(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    core = made / "mm/kpkeys/core.c"
    series = (repo / "patches/series").read_text()
    (repo / "patches/series").write_text(series + "two/0003-local.patch\n")
    write_tree(repo, {"patches/two/0003-local.patch": LOCAL})
    assert make(kernel, repo) == made
    assert core.read_text() == "int core;\nint bug;\n"
    assert not core.is_symlink()
    assert (repo / "kernel/mm/kpkeys/core.c").read_text() == "int core;\n"

    # An edit in kernel/ is seen, although it is no link.
    (repo / "kernel/mm/kpkeys/core.c").write_text("int core;\n\nint more;\n")
    with pytest.raises(RedoubtError, match=r"patch two/0003-local\.patch"):
        make(kernel, repo)
    (repo / "kernel/mm/kpkeys/core.c").write_text("int core;\n")
    make(kernel, repo)
    assert core.read_text() == "int core;\nint bug;\n"

    # Without the patch it is a link again.
    (repo / "patches/series").write_text(series)
    make(kernel, repo)
    assert core.readlink() == repo / "kernel/mm/kpkeys/core.c"


def test_a_local_edit_of_a_copied_file_is_noticed(kernel: Path, repo: Path) -> None:
    with (repo / "patches/series").open("a") as file:
        file.write("two/0003-local.patch\n")
    write_tree(repo, {"patches/two/0003-local.patch": LOCAL})
    made = make(kernel, repo)
    (made / "mm/kpkeys/core.c").write_text("int core;\nint other;\n")
    with pytest.raises(RedoubtError, match=r"    mm/kpkeys/core\.c"):
        make(kernel, repo)


def stages(where: Path) -> list[str]:
    """What a run left unfinished beside the tree."""
    return [entry.name for entry in where.iterdir() if entry.name.startswith(".tree-")]


def test_patched_linked_and_the_pristine_one_untouched(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    assert "int line10 = 1;\n" in (made / "mm/memory.c").read_text()
    assert (made / "mm/mmap.c").read_text() == "int map = 1;\n"
    assert (made / "mm/kpkeys/core.c").readlink() == repo / "kernel/mm/kpkeys/core.c"
    assert "int line10;\n" in (kernel / "mm/memory.c").read_text()
    assert not (kernel / "mm/kpkeys").exists()
    # What quilt needs to go on working there.
    assert (made / ".pc/applied-patches").read_text().split() == [
        "one/0001-first.patch", "one/0002-second.patch",
    ]  # fmt: skip
    assert stages(made.parent) == []


def test_an_edit_in_kernel_is_live_and_no_drift(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    before = (made / tree.STAMP).stat().st_mtime_ns
    (repo / "kernel/mm/kpkeys/core.c").write_text("int edited;\n")
    assert make(kernel, repo) == made
    assert (made / "mm/kpkeys/core.c").read_text() == "int edited;\n"
    assert (made / tree.STAMP).stat().st_mtime_ns == before


def test_nothing_is_touched_twice(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    before = {file: file.lstat().st_mtime_ns for file in made.rglob("*")}
    make(kernel, repo)
    assert {file: file.lstat().st_mtime_ns for file in made.rglob("*")} == before


def test_a_changed_queue_is_applied_anew(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    untouched = (made / "Makefile").stat().st_ino
    (repo / "patches/one/0001-first.patch").write_text(PATCH.replace("= 1", "= 2"))
    (repo / "patches/series").write_text("one/0001-first.patch\n")
    (repo / "kernel/mm/kpkeys/more.c").write_text("int more;\n")
    (repo / "kernel/include/linux/kpkeys.h").unlink()
    make(kernel, repo)
    assert "int line10 = 2;\n" in (made / "mm/memory.c").read_text()
    assert (made / "mm/mmap.c").read_text() == "int map;\n"
    assert (made / "mm/kpkeys/more.c").exists()
    assert not (made / "include/linux/kpkeys.h").is_symlink()
    assert (made / "Makefile").stat().st_ino == untouched


def test_what_is_patched_as_before_is_as_old_as_before(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    files = [made / "mm/memory.c", made / "mm/mmap.c"]
    for file in files:
        os.utime(file, ns=(10**9, 10**9))
    (repo / "patches/one/0001-first.patch").write_text(PATCH.replace("= 1", "= 2"))
    make(kernel, repo)
    ages = [file.stat().st_mtime_ns for file in files]
    assert ages[0] > 10**9 and ages[1] == 10**9

    # Pristine again is changed, too: objects of what it was are no newer.
    os.utime(files[0], ns=(10**9, 10**9))
    (repo / "patches/series").write_text("one/0002-second.patch\n")
    before = time.time_ns() - 10**9
    make(kernel, repo)
    assert files[0].read_text() == (kernel / "mm/memory.c").read_text()
    assert files[0].stat().st_mtime_ns > before
    assert files[1].stat().st_mtime_ns == 10**9


def test_copies_of_the_patched_files_only(kernel: Path, repo: Path, tmp_path: Path) -> None:
    where = tmp_path / "copies"
    assert tree.patched(kernel, tree.queue(repo), where) == ["mm/memory.c", "mm/mmap.c"]
    assert (where / "mm/mmap.c").read_text() == "int map = 1;\n"
    assert sorted(file.name for file in where.rglob("*") if file.is_file()) == [
        "memory.c", "mmap.c",
    ]  # fmt: skip


def test_another_pristine_tree_makes_another(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    makefile = kernel / "Makefile"
    makefile.write_text(makefile.read_text().replace("SUBLEVEL = 4", "SUBLEVEL = 5"))
    make(kernel, repo)
    assert "SUBLEVEL = 5" in (made / "Makefile").read_text()


def test_a_repository_is_copied_without_its_history(kernel: Path, repo: Path) -> None:
    def commit() -> None:
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "--allow-empty", "-m", "one"]):
            who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
            subprocess.run(["git", "-C", kernel, *who, *words], check=True)

    write_tree(kernel, {".gitignore": "*.o\n"})
    commit()
    made = make(kernel, repo)
    assert not (made / ".git").exists()
    assert (made / ".gitignore").exists()
    stamp = (made / tree.STAMP).stat().st_mtime_ns
    make(kernel, repo)
    assert (made / tree.STAMP).stat().st_mtime_ns == stamp
    # Another commit of the same version is another kernel.
    commit()
    (kernel / "mm/other.c").write_text("int other;\n")
    make(kernel, repo)
    assert (made / "mm/other.c").exists()


def test_a_part_of_the_queue_makes_a_tree_of_its_own(kernel: Path, repo: Path) -> None:
    part = tree.Queue(
        repo / "kernel", ("mm/kpkeys/core.c",), (repo / "patches/one/0002-second.patch",)
    )
    where = kernel.parent / "part"
    made = tree.materialise(kernel, where, repo=repo, part=part)
    assert (made / "mm/mmap.c").read_text() == "int map = 1;\n"
    assert "int line10;\n" in (made / "mm/memory.c").read_text()
    assert (made / "mm/kpkeys/core.c").readlink() == repo / "kernel/mm/kpkeys/core.c"
    assert not (made / "include/linux/kpkeys.h").exists()
    stamp = (made / tree.STAMP).stat().st_mtime_ns

    # A patch outside of the part is none of its business, one inside is.
    (repo / "patches/one/0001-first.patch").write_text(PATCH.replace("= 1", "= 2"))
    tree.materialise(kernel, where, repo=repo, part=part)
    assert (made / tree.STAMP).stat().st_mtime_ns == stamp
    (repo / "patches/one/0002-second.patch").write_text(SECOND.replace("= 1", "= 3"))
    tree.materialise(kernel, where, repo=repo, part=part)
    assert (made / "mm/mmap.c").read_text() == "int map = 3;\n"


# === Patches that do not fit =====================================================================


@pytest.mark.parametrize("quilt", [True, False])
@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (PATCH.replace("int line10;", "int other;"), "does not apply"),
        (PATCH.replace("@@ -10,3 +10,3 @@", "@@ -13,3 +13,3 @@"), "only with an offset"),
        # Fuzz would forgive the wrong context; it is not granted.
        (PATCH.replace("int line9;", "int lineX;"), "does not apply"),
        (PATCH.replace("mm/memory.c", "mm/nowhere.c"), "does not apply"),
        ("no patch at all\n", "does not apply"),
    ],
)
def test_a_patch_that_does_not_fit(
    kernel: Path, repo: Path, patch: str, says: str, quilt: bool
) -> None:
    file = repo / "patches/one/0002-second.patch"
    file.write_text(patch)
    (repo / "patches/series").write_text("one/0002-second.patch\n")
    with pytest.raises(RedoubtError) as caught:
        if quilt:
            make(kernel, repo)
        else:
            tree.apply_series(kernel, [file])
    assert f"patch one/0002-second.patch {says}" in caught.value.message.replace("applies ", "")
    assert caught.value.hint
    # Nothing half-made is there to be trusted, and a mended patch is all it takes.
    assert not (kernel.parent / "tree").exists()
    assert stages(kernel.parent) == []
    if quilt:
        file.write_text(SECOND)
        make(kernel, repo)


def test_the_patch_with_an_offset_is_the_one_named(kernel: Path, repo: Path) -> None:
    first = repo / "patches/one/0001-first.patch"
    first.write_text(PATCH.replace("@@ -10,3 +10,3 @@", "@@ -12,3 +12,3 @@"))
    with pytest.raises(RedoubtError, match=r"patch one/0001-first\.patch applies only with"):
        make(kernel, repo)


def test_a_refused_change_leaves_the_old_tree_untrusted(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    file = repo / "patches/one/0002-second.patch"
    file.write_text("nonsense\n")
    for _ in range(2):
        with pytest.raises(RedoubtError, match=r"0002-second\.patch does not apply"):
            make(kernel, repo)
    file.write_text(SECOND)
    make(kernel, repo)
    assert (made / "mm/mmap.c").read_text() == "int map = 1;\n"


def test_a_series_that_names_a_missing_patch(kernel: Path, repo: Path) -> None:
    (repo / "patches/one/0002-second.patch").unlink()
    with pytest.raises(RedoubtError, match=r"names one/0002-second\.patch, which does not exist"):
        make(kernel, repo)


def test_a_file_that_linux_has(kernel: Path, repo: Path) -> None:
    (repo / "kernel/mm/mmap.c").write_text("int ours;\n")
    with pytest.raises(RedoubtError, match=r"kernel/mm/mmap\.c is a file that Linux has") as caught:
        make(kernel, repo)
    assert caught.value.hint and "patches/" in caught.value.hint
    assert (kernel / "mm/mmap.c").read_text() == "int map;\n"


# === Drift =======================================================================================


def write(made: Path, name: str, text: str) -> None:
    """Edit a file after the tree was made."""
    (made / name).parent.mkdir(exist_ok=True)
    (made / name).write_text(text)
    os.utime(made / name, ns=((made / tree.STAMP).stat().st_mtime_ns + 10**9,) * 2)


@pytest.mark.parametrize("name", ["mm/memory.c", "Kbuild", "mm/new.c"])
def test_an_edit_without_quilt_knowing(kernel: Path, repo: Path, name: str) -> None:
    """A file that is patched, one that no patch touches, and a new one."""
    made = make(kernel, repo)
    write(made, name, "int sneaked_in;\n")
    with pytest.raises(RedoubtError, match="changes that are not in patches") as caught:
        make(kernel, repo)
    assert f"    {name}" in caught.value.message
    assert caught.value.hint and "quilt refresh" in caught.value.hint


@pytest.mark.parametrize("name", ["mm/memory.c~", "mm/__pycache__/x.pyc", ".pc/.quilt_series"])
def test_what_editors_python_and_quilt_leave_is_no_drift(
    kernel: Path, repo: Path, name: str
) -> None:
    write(make(kernel, repo), name, "left")
    make(kernel, repo)


@pytest.mark.parametrize("how", ["file", "elsewhere", "gone"])
def test_a_replaced_link(kernel: Path, repo: Path, how: str) -> None:
    made = make(kernel, repo)
    link = made / "mm/kpkeys/core.c"
    link.unlink()
    if how == "file":
        # What an editor does that writes anew and renames.
        link.write_text("int core;\n")
    elif how == "elsewhere":
        link.symlink_to("/dev/null")
    with pytest.raises(RedoubtError, match=r"    mm/kpkeys/core\.c"):
        make(kernel, repo)


def test_the_advice_against_drift_works(kernel: Path, repo: Path) -> None:
    made = make(kernel, repo)
    (made / "mm/memory.c").write_text("int nothing;\n")
    with pytest.raises(RedoubtError) as caught:
        make(kernel, repo)
    assert caught.value.hint and caught.value.hint.endswith(f"rm {made / tree.STAMP}")
    (made / tree.STAMP).unlink()
    make(kernel, repo)
    assert "int line10 = 1;\n" in (made / "mm/memory.c").read_text()


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json", '{"key": 1}'])
def test_a_stamp_that_is_damaged(kernel: Path, repo: Path, text: str) -> None:
    made = make(kernel, repo)
    (made / tree.STAMP).write_text(text)
    (made / "mm/memory.c").write_text("int nothing;\n")
    make(kernel, repo)
    assert "int line10 = 1;\n" in (made / "mm/memory.c").read_text()


def test_no_quilt(
    kernel: Path, repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cp").symlink_to("/bin/cp")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(RedoubtError, match="quilt: not found"):
        make(kernel, repo)
    with pytest.raises(RedoubtError, match="patch: not found"):
        tree.apply_series(kernel, [repo / "patches/one/0001-first.patch"])


@pytest.mark.parametrize("name", ["mm/memory.c", "Kbuild"])
def test_an_edit_that_was_refreshed_is_no_drift(kernel: Path, repo: Path, name: str) -> None:
    made = make(kernel, repo)
    write(made, name, (made / name).read_text() + "int added;\n")
    with pytest.raises(RedoubtError, match=name):
        make(kernel, repo)
    # As quilt refresh would: the last patch gets the change.
    count = len((made / name).read_text().splitlines()) - 1
    (repo / "patches/one/0002-second.patch").write_text(
        f"{SECOND}--- a/{name}\n+++ b/{name}\n@@ -{count} +{count},2 @@\n"
        f" {(made / name).read_text().splitlines()[-2]}\n+int added;\n"
    )
    assert make(kernel, repo) == made
    assert (made / name).read_text().endswith("int added;\n")
    before = (made / tree.STAMP).read_text()
    make(kernel, repo)
    assert (made / tree.STAMP).read_text() == before
