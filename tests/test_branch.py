# SPDX-License-Identifier: GPL-2.0-only
"""The queue as a branch of git, on the small tree and queue of test_series.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import typer
from conftest import write_tree
from test_series import Queue, git, pytestmark, queue

from redoubt.cli import ship
from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.progress import Silent
from redoubt.linux.source import Source
from redoubt.ship import branch

__all__ = ["pytestmark", "queue"]

PATCHES = [f"{name}.patch" for name in ("core/0001-hook", "core/0002-more", "arch/0001-use",
                                        "apart/0001-stand")]  # fmt: skip


class Repository:
    """What `branch.make` keeps."""

    def __init__(self, made: Queue, root: Path) -> None:
        self.queue = made
        self.where = root / "build" / "branch"
        self.other = root / "other"
        shutil.copytree(made.pristine, self.other)

    def make(self, *topics: str, onto: bool = False) -> branch.Branch:
        """Make the branch."""
        return branch.make(
            Source(self.queue.pristine, "7.3.4"),
            self.where,
            Silent(),
            repo=self.queue.repo,
            topics=topics,
            onto=Source(self.other, "7.4.1") if onto else None,
        )

    def git(self, *words: str) -> str:
        """Run git there, as the user does."""
        return git(self.where, *words)

    def subjects(self, since: str = "base") -> list[str]:
        """The commits of the branch, from its base on."""
        return self.git("log", "--reverse", "--format=%s", f"{since}..redoubt").splitlines()

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file of the other kernel."""
        text = (self.other / name).read_text()
        assert old in text
        (self.other / name).write_text(text.replace(old, new))


@pytest.fixture
def made(queue: Queue, tmp_path: Path) -> Repository:
    """A place for the branch, and another kernel that is the same so far."""
    return Repository(queue, tmp_path)


def test_the_branch_has_the_pristine_kernel_and_a_commit_for_each_patch(made: Repository) -> None:
    result = made.make()
    assert result.ok
    assert list(result.patches) == PATCHES
    assert made.subjects() == ["mm: add the core", "mm: do more", "um: use the core",
                               "lib: stand apart"]  # fmt: skip
    assert made.git("log", "-1", "--format=%an %s", "base").endswith(" Linux 7.3.4")
    # Whatever its .gitignore says.
    assert "ignored/table.c" in made.git("ls-tree", "-r", "--name-only", "base").splitlines()
    assert (made.where / "untouched.c").is_file()
    assert os.access(made.where / "mm/run.sh", os.X_OK)
    assert made.git("status", "--porcelain") == ""
    assert next(branch.render(result)).endswith("4 patches on Linux 7.3.4, on the branch redoubt")
    assert [entry.name for entry in made.where.parent.iterdir()] == ["branch"]


def test_it_is_made_anew_and_the_base_is_kept(made: Repository) -> None:
    made.make()
    base = made.git("rev-parse", "base")
    made.make("apart")
    assert made.subjects() == ["lib: stand apart"]
    assert made.git("rev-parse", "base") == base
    write_tree(made.queue.pristine, {"untouched.c": "int changed;\n"})
    made.make()
    assert made.git("show", "base:untouched.c") == "int changed;"


def test_work_of_the_user_is_not_lost(made: Repository) -> None:
    made.make()
    write_tree(made.where, {"untouched.c": "int mine;\n"})
    with pytest.raises(RedoubtError, match="changes that are in no commit"):
        made.make()
    made.git("commit", "-qam", "mine")
    with pytest.raises(RedoubtError, match="was changed since it was made") as caught:
        made.make()
    assert caught.value.hint == f"keep it: git -C {made.where} branch -m redoubt mine"
    made.git("branch", "-m", "redoubt", "mine")
    assert made.make().ok
    assert made.git("show", "mine:untouched.c") == "int mine;"
    shutil.rmtree(made.where)
    made.where.mkdir()
    with pytest.raises(RedoubtError, match="is no repository of git"):
        made.make()


@pytest.mark.parametrize("is_repository", [False, True])
def test_it_is_rebased_onto_another_kernel(made: Repository, is_repository: bool) -> None:
    made.edit("mm/memory.c", "int line1;\n", "int line1;\nint between;\n")
    if is_repository:
        for command in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "Upstream"]):
            git(made.other, *command)
        # It is the commit that counts.
        write_tree(made.other, {"untouched.c": "int dirty;\n"})
    result = made.make(onto=True)
    assert result.ok
    assert result.version == "7.4.1"
    assert len(made.subjects("onto")) == 4
    assert "int between;" in (made.where / "mm/memory.c").read_text()
    assert "int line10 = 1;\nint more;\n" in (made.where / "mm/memory.c").read_text()
    assert (made.where / "untouched.c").read_text() == "int untouched;\n"
    name = "Upstream" if is_repository else "Linux 7.4.1"
    assert made.git("log", "-1", "--format=%s", "onto") == name
    # It is ours again.
    assert made.make().ok


def test_it_stops_at_a_conflict_and_git_goes_on(made: Repository) -> None:
    made.edit("mm/memory.c", "int line10;\n", "long line10;\n")
    result = made.make(onto=True)
    assert not result.ok
    assert result.stopped == branch.Outcome(PATCHES[0], branch.CONFLICTS, ("mm/memory.c",))
    assert list(result.left) == PATCHES[1:]
    lines = list(branch.render(result))
    assert lines[0] == "0 of 4 patches are on Linux 7.4.1; this one conflicts:"
    assert lines[1:3] == [f"    {PATCHES[0]}", "        mm/memory.c"]
    assert lines[-1].endswith("git add them, and: git rebase --continue")
    with pytest.raises(RedoubtError, match="a rebase is going on"):
        made.make()
    text = (made.where / "mm/memory.c").read_text()
    assert "<<<<<<<" in text
    head, _, rest = text.partition("<<<<<<<")
    tail = rest.partition(">>>>>>>")[2].partition("\n")[2]
    write_tree(made.where, {"mm/memory.c": head + "int line10 = 1;\n" + tail})
    made.git("add", "mm/memory.c")
    made.git("-c", "core.editor=true", "rebase", "--continue")
    assert len(made.subjects("onto")) == 4
    # What was mended is remembered.
    made.git("branch", "-m", "redoubt", "mine")
    assert made.make(onto=True).ok
    assert made.git("rev-parse", "redoubt^{tree}") == made.git("rev-parse", "mine^{tree}")


def test_a_rehearsal_goes_over_all_patches(made: Repository) -> None:
    made.edit("mm/memory.c", "int line10;\n", "long line10;\n")
    (made.other / "ignored/table.c").unlink()
    write_tree(
        made.other, {"lib/apart.c": made.queue.repo.joinpath("kernel/lib/apart.c").read_text()}
    )
    outcomes = branch.rehearse(
        Source(made.queue.pristine, "7.3.4"), Source(made.other, "7.4.1"), repo=made.queue.repo
    )
    assert outcomes == (
        branch.Outcome(PATCHES[0], branch.CONFLICTS, ("mm/memory.c",)),
        # Where its neighbour was left out.
        branch.Outcome(PATCHES[1], branch.CONFLICTS, ("mm/memory.c",)),
        branch.Outcome(PATCHES[2], branch.CONFLICTS, ("ignored/table.c: missing",)),
        branch.Outcome(PATCHES[3], branch.THERE),
    )
    lines = list(branch.tried("7.4.1", outcomes))
    assert lines[0] == f"CONFLICTS {PATCHES[0]}"
    assert lines[-1] == "4 patches on Linux 7.4.1: 0 applies, 1 there already, 3 conflicts"
    assert not made.where.exists()


def test_a_name_that_is_taken_conflicts(made: Repository) -> None:
    write_tree(made.other, {"lib/apart.c": "int theirs;\n"})
    outcomes = branch.rehearse(
        Source(made.queue.pristine, "7.3.4"),
        Source(made.other, "7.4.1"),
        repo=made.queue.repo,
        topics=["apart"],
    )
    assert outcomes == (branch.Outcome(PATCHES[3], branch.CONFLICTS, ("lib/apart.c",)),)


def test_the_command_says_what_it_has_made(
    made: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = {"Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n", "Kbuild": ""}
    write_tree(made.queue.pristine, kernel)
    write_tree(made.other, kernel | {"Makefile": kernel["Makefile"].replace("3", "9")})
    made.edit("mm/memory.c", "int line10;\n", "long line10;\n")
    monkeypatch.setenv("LINUX_SRC", str(made.queue.pristine))
    monkeypatch.setenv("REDOUBT_BUILD", str(made.where.parent))
    monkeypatch.setattr(paths, "repo", lambda: made.queue.repo)
    for options, code, last in (
        ({"topic": ["apart"]}, 0, "1 patches on Linux 7.3.4, on the branch redoubt"),
        ({"onto": str(made.other), "rehearse": True}, 1, "2 applies, 0 there already, 2 conflicts"),
        ({"onto": str(made.other)}, 1, "git rebase --continue"),
    ):
        with pytest.raises(typer.Exit) as ended:
            ship.make_branch(**options)
        assert ended.value.exit_code == code
        assert capsys.readouterr().out.strip().endswith(last)
    with pytest.raises(UsageError, match="--try is for another kernel"):
        ship.make_branch(rehearse=True)
