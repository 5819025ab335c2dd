# SPDX-License-Identifier: GPL-2.0-only
"""A full disk: one message that says which, and a rerun that trusts nothing half-made."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from conftest import KERNEL, Done, Sandbox, enlarge, write_tree
from test_source import archive

from redoubt.cli import common
from redoubt.core.errors import NoSpaceError, RedoubtError
from redoubt.linux import tree

BUILD = ("build", "um", "--variant", "pristine")
# Does not get smaller when packed.
BIG = {**KERNEL, "big": os.urandom(1_500_000).hex()}


def one_message(done: Done, says: str) -> None:
    assert (done.code, done.out) == (1, "")
    assert "Traceback" not in done.err
    told = [line for line in done.err.splitlines() if not line.endswith(" ...")]
    assert len(told) == 2, done.err
    assert told[0].startswith("redoubt: ")
    assert says in told[0]
    assert "no space left" in told[0]
    assert "make room" in told[1]


def test_unpacking(sandbox: Sandbox, small_disk: Path) -> None:
    archive(sandbox, BIG)
    sandbox.env["REDOUBT_BUILD"] = str(small_disk / "build")
    for _ in range(2):
        done = sandbox.run("source")
        one_message(done, "unpacking")
        assert "set REDOUBT_BUILD to a directory on another disk" in done.err
        assert sorted(entry.name for entry in (small_disk / "build").iterdir()) == [".locks", "log"]
    enlarge(small_disk)
    done = sandbox.run("source")
    assert done.code == 0, done.err
    assert (small_disk / "build/src/big").read_text() == BIG["big"]


def test_downloading(sandbox: Sandbox, small_disk: Path) -> None:
    archive(sandbox, BIG)
    sandbox.env["XDG_CACHE_HOME"] = str(small_disk)
    done = sandbox.run("source")
    one_message(done, "downloading linux-source-7.3")
    assert "set XDG_CACHE_HOME" in done.err
    assert list((small_disk / "redoubt/packages").iterdir()) == []
    enlarge(small_disk)
    assert sandbox.run("source").code == 0


def test_copying_the_tree(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(small_disk))
    pristine = write_tree(tmp_path / "linux", BIG)
    repo = write_tree(tmp_path / "repo", {"patches/series": "", "kernel/ours.c": "int ours;\n"})
    with pytest.raises(NoSpaceError, match="copying the kernel failed: no space left"):
        tree.materialise(pristine, small_disk / "tree", repo=repo)
    assert sorted(entry.name for entry in small_disk.iterdir()) == [".locks", "log"]
    enlarge(small_disk)
    made = tree.materialise(pristine, small_disk / "tree", repo=repo)
    assert (made / "big").read_text() == BIG["big"]


def test_the_log_of_a_build(sandbox: Sandbox, small_disk: Path) -> None:
    sandbox.toolchain()
    sandbox.env["REDOUBT_BUILD"] = str(small_disk)
    (sandbox.control / "noisy").touch()
    one_message(sandbox.run(*BUILD), "")
    assert not (small_disk / "um/pristine/linux.stripped").exists()
    assert sandbox.living() == []
    (sandbox.control / "noisy").unlink()
    assert sandbox.run(*BUILD).code == 0


def test_a_file_that_must_not_grow(sandbox: Sandbox) -> None:
    """The same without root: a limit instead of a full disk."""
    sandbox.toolchain()
    (sandbox.control / "noisy").touch()
    limit = (100_000, 100_000)
    done = sandbox.run(*BUILD, setup=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    one_message(done, "building um (pristine) failed")


def test_a_compiler_that_found_no_room(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    (sandbox.control / "full").touch()
    one_message(sandbox.run(*BUILD), "building um (pristine)")
    (sandbox.control / "full").unlink()
    assert sandbox.run(*BUILD).code == 0


def test_json(small_disk: Path) -> None:
    file = small_disk / "result.json"
    common.write_bytes(file, b"an older one")
    older = file.read_text()
    with pytest.raises(RedoubtError, match=r"cannot write .*result\.json: No space left"):
        common.write_bytes(file, b"x" * 2_000_000)
    assert file.read_text() == older
    assert [entry.name for entry in small_disk.iterdir()] == ["result.json"]


def test_json_nowhere(tmp_path: Path) -> None:
    with pytest.raises(RedoubtError, match=r"cannot write .*: No such file or directory"):
        common.write_bytes(tmp_path / "nowhere/result.json", b"")
