# SPDX-License-Identifier: GPL-2.0-only
"""A tree that has our patches already is recognised, by the files that arrive with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Sandbox, write_tree
from test_series import Queue, git, pytestmark, queue

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.linux import applied, topics

__all__ = ["pytestmark", "queue"]


def place(queue: Queue, *files: str) -> None:
    """Let the pristine tree have files of kernel/."""
    write_tree(queue.pristine, dict.fromkeys(files, "int here;\n"))


def test_a_tree_without_them(queue: Queue) -> None:
    assert applied.found(queue.pristine, queue.repo) is None
    applied.needs_none(queue.pristine, "7.3.4", queue.repo)


def test_a_part_is_named_by_topic(queue: Queue) -> None:
    place(queue, "mm/core.c", "lib/apart.c")
    with pytest.raises(RedoubtError, match=r"has a part of our patches already: ") as caught:
        applied.needs_none(queue.pristine, "7.3.4", queue.repo)
    assert caught.value.message.endswith(": core (1 of 2 files), apart")
    assert caught.value.hint and "LINUX_SRC=" in caught.value.hint


def test_all_of_them_are_those_that_are_exported(queue: Queue) -> None:
    place(queue, "mm/core.c", "mm/run.sh", "lib/apart.c", "arch/um/arch.c")
    with pytest.raises(RedoubtError, match=r"has our patches already: core, arch, apart$"):
        applied.needs_none(queue.pristine, "7.3.4", queue.repo)


def test_a_repository_can_check_out_the_kernel_without_them(queue: Queue) -> None:
    place(queue, "mm/core.c")
    git(queue.pristine, "init", "-q")
    git(queue.pristine, "add", ".")
    git(queue.pristine, "commit", "-q", "-m", "all")
    with pytest.raises(RedoubtError) as caught:
        applied.needs_none(queue.pristine, "7.3.0", queue.repo)
    assert caught.value.hint
    assert caught.value.hint.endswith(f"git -C {queue.pristine} worktree add /path/to/linux v7.3")


@pytest.mark.parametrize("verb", [["source"], ["tree"], ["build", "um"], ["branch"]])
def test_no_verb_takes_our_own_tree_for_a_pristine_one(sandbox: Sandbox, verb: list[str]) -> None:
    sandbox.toolchain()
    linux = Path(sandbox.env["LINUX_SRC"])
    ours = {file: "" for topic in topics.load(paths.repo()) for file in topic.files}
    write_tree(linux, ours)
    done = sandbox.run(*verb)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"redoubt: {linux} has our patches already: linear-map-stats, ")
    assert sorted(file.name for file in sandbox.build.iterdir()) == [".locks"]


@pytest.mark.parametrize("left", [".config", "include/config/auto.conf"])
def test_a_tree_that_was_built_in(sandbox: Sandbox, left: str) -> None:
    sandbox.toolchain()
    linux = Path(sandbox.env["LINUX_SRC"])
    write_tree(linux, {left: ""})
    done = sandbox.run("source")
    assert (done.code, done.out) == (1, "")
    assert f"{linux} was built in" in done.err
    assert f"make -C {linux} mrproper" in done.err
