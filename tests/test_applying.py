# SPDX-License-Identifier: GPL-2.0-only
"""Whether the queue applies to another kernel, on the small tree and queue of test_series.py."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import KERNEL, Done, write_tree
from test_series import Queue, pytestmark, queue

from redoubt.cli import kernel
from redoubt.linux import applying, source, tree
from redoubt.linux.source import Source

__all__ = ["pytestmark", "queue"]

HOOK, MORE, USE, DEMO = (
    f"{name}.patch" for name in ("core/0001-hook", "core/0002-more", "arch/0001-use",
                                 "demo/0001-demo")
)  # fmt: skip


@pytest.fixture
def other(queue: Queue) -> Path:
    """A copy of the pristine tree, which is to become the next kernel."""
    write_tree(queue.pristine, {name: KERNEL[name] for name in ("Makefile", "Kbuild")})
    return Path(shutil.copytree(queue.pristine, queue.pristine.with_name("other")))


def compare(queue: Queue, other: Path) -> applying.Report:
    old, new = Source(queue.pristine, "7.3.4"), Source(other, "7.3.5")
    return applying.compare(old, new, tree.queue(queue.repo))


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def verdicts(report: applying.Report) -> dict[str, str]:
    return {one.patch: one.verdict for one in report.outcomes if one.verdict != applying.APPLIES}


def test_the_same_kernel_takes_all(queue: Queue, other: Path) -> None:
    before = {file: file.read_bytes() for file in other.rglob("*") if file.is_file()}
    report = compare(queue, other)
    assert report.ok
    assert list(applying.render(report)) == [
        "0 of the 4 files that the patches change differ from 7.3.4",
        "4 patches on Linux 7.3.5: 4 apply exactly",
    ]
    assert before == {file: file.read_bytes() for file in other.rglob("*") if file.is_file()}


def test_a_change_elsewhere_in_a_file(queue: Queue, other: Path) -> None:
    edit(other / "mm/memory.c", "int line19;\n", "int line19 = 19;\n")
    report = compare(queue, other)
    assert (report.ok, report.differing) == (True, ("mm/memory.c",))


def test_lines_that_moved(queue: Queue, other: Path) -> None:
    edit(other / "mm/memory.c", "int line3;\n", "int line3;\nint new;\n")
    report = compare(queue, other)
    assert not report.ok
    assert verdicts(report) == {HOOK: "at an offset", MORE: "at an offset"}
    lines = list(applying.render(report))
    assert lines[:2] == [
        f"at an offset: {HOOK}",
        "    mm/memory.c: Hunk #1 succeeded at 11 (offset 1 line)",
    ]
    assert lines[-1] == "4 patches on Linux 7.3.5: 2 apply exactly, 2 at an offset"


def test_context_that_changed(queue: Queue, other: Path) -> None:
    edit(other / "mm/memory.c", "int line9;\n", "int line9 = 9;\n")
    assert verdicts(compare(queue, other)) == {HOOK: "with fuzz"}


def test_a_line_that_changed_fails_and_later_patches_are_tried(queue: Queue, other: Path) -> None:
    edit(other / "mm/memory.c", "int line10;\n", "int line10 = 10;\n")
    report = compare(queue, other)
    assert verdicts(report)[HOOK] == "fails"
    assert USE not in verdicts(report)
    assert DEMO not in verdicts(report), "the other file of the first patch was not patched"
    assert "    mm/memory.c: Hunk #1 FAILED at 10" in applying.render(report)


def test_a_file_that_is_gone(queue: Queue, other: Path) -> None:
    (other / "scripts/tool.sh").unlink()
    report = compare(queue, other)
    (use,) = [one for one in report.outcomes if one.patch == USE]
    assert (use.verdict, use.notes) == ("fails", ("scripts/tool.sh: missing",))
    assert report.differing == ("scripts/tool.sh",)


def test_a_patch_that_linux_has_taken(queue: Queue, other: Path) -> None:
    edit(other / "mm/memory.c", "int line10;\n", "int line10 = 1;\n")
    edit(other / "mm/Makefile", "obj-y += mmap.o\n", "obj-y += mmap.o\nobj-y += core.o\n")
    report = compare(queue, other)
    assert (report.ok, verdicts(report)) == (False, {HOOK: "there already"})


def test_a_patch_that_linux_has_taken_in_part(queue: Queue, other: Path) -> None:
    edit(other / "mm/memory.c", "int line10;\n", "int line10 = 1;\n")
    (hook, *_) = compare(queue, other).outcomes
    assert (hook.verdict, hook.notes) == ("fails", ("mm/memory.c: there already",))


def test_a_name_that_linux_has_taken(queue: Queue, other: Path) -> None:
    write_tree(other, {"mm/core.c": "int theirs;\n"})
    report = compare(queue, other)
    assert not report.ok
    assert list(applying.render(report))[:2] == [
        "files of kernel/ that Linux 7.3.5 has: 1", "    mm/core.c",
    ]  # fmt: skip


def test_a_patch_that_is_broken_anyway(queue: Queue, other: Path) -> None:
    for linux in (queue.pristine, other):
        edit(linux / "scripts/tool.sh", "exit 0", "exit 1")
    report = compare(queue, other)
    assert report.as_before == {USE}
    assert f"with fuzz: {USE} (on Linux 7.3.4 as well)" in applying.render(report)


# === The verb ====================================================================================


@pytest.fixture
def repo(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """The repository of the command line is the small one."""
    monkeypatch.setattr(kernel.paths, "repo", lambda: queue.repo)
    return queue


def test_the_verb_exits_with_1_if_the_tree_would_be_refused(
    repo: Queue, other: Path, call: Callable[..., Done]
) -> None:
    done = call("diff", str(repo.pristine), str(other))
    assert done.code == 0, done.err
    edit(other / "mm/memory.c", "int line3;\n", "int line3;\nint new;\n")
    done = call("diff", str(repo.pristine), str(other))
    assert done.code == 1
    assert done.out.splitlines()[-1] == f"    redoubt branch --onto {other}"


def test_versions_are_obtained(
    repo: Queue, other: Path, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"7.3.4": repo.pristine, "7.3.5": other}
    monkeypatch.setattr(source, "release", lambda name, _: Source(where[name], name))
    done = call("diff", "7.3.4", "7.3.5")
    assert (done.code, done.out.splitlines()[-1]) == (
        0, "4 patches on Linux 7.3.5: 4 apply exactly",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ("7.4.1", "'7.4.1' is no point release of Linux 7.3"),
        ("/nowhere", "'/nowhere' is no point release of Linux 7.3, and no kernel tree"),
        ("repo", "is not a kernel tree"),
        ("patched", "patched has our patches already"),
    ],
)
def test_what_is_no_kernel_is_said_before_anything_is_obtained(
    repo: Queue, other: Path, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch,
    new: str, says: str,
) -> None:  # fmt: skip
    shutil.copytree(Path(__file__).parents[1] / "configs", repo.repo / "configs")
    monkeypatch.setattr(source, "release", lambda *_: pytest.fail("it was obtained"))
    monkeypatch.chdir(other.parent)
    shutil.copytree(repo.repo / "kernel", shutil.copytree(other, "patched"), dirs_exist_ok=True)
    done = call("diff", "7.3.4", new)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
