# SPDX-License-Identifier: GPL-2.0-only
"""The wheel: installed alone, outside of any checkout, it is a tool that works."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from redoubt import __version__
from redoubt.core import paths
from redoubt.linux import tree

DATA = ("configs", "docs", "emulator", "guest", "kernel", "patches", "scripts", "tools")
FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")


def setuptools() -> tuple[int, ...]:
    try:
        return tuple(map(int, importlib.metadata.version("setuptools").split(".")[:2]))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return (0,)


pytestmark = pytest.mark.skipif(setuptools() < (77,), reason="setuptools is missing, or too old")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("wheel")
    copy, site = where / "copy", where / "site"
    for name in (*DATA, "redoubt"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(paths.repo() / name, copy / name, ignore=ignored)
    for name in FILES:
        shutil.copy(paths.repo() / name, copy / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", where, copy]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = where.glob("*.whl")
    install = ["install", "--no-deps", "--no-index", "--target", site, wheel]
    subprocess.run([*pip, *install], check=True)
    return site


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in a directory without a checkout, in a git repository of somebody else."""
    where = site.parent / "elsewhere"
    where.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "-q", site.parent], check=True)
    env = {name: value for name, value in os.environ.items() if name != "REDOUBT_BUILD"}
    return subprocess.run(
        [sys.executable, *words], cwd=where, env={**env, "PYTHONPATH": str(site)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def files(directory: Path) -> dict[str, bool]:
    """All files below, and whether they are programs."""
    return {
        str(file.relative_to(directory)): os.access(file, os.X_OK)
        for file in directory.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_it_starts(installed: Path) -> None:
    told = python(installed, "-m", "redoubt", "--version")
    assert (told.returncode, told.stderr) == (0, "")
    # Without a commit: the repository around it is not its own.
    assert told.stdout == f"redoubt {__version__}\n"
    wrong = python(installed, "-m", "redoubt", "audit", "nosuch")
    assert wrong.returncode == 2
    assert "unknown target 'nosuch'" in wrong.stderr


def test_it_has_all_that_it_works_on(installed: Path) -> None:
    for name in DATA:
        there = files(installed / "redoubt/data" / name)
        assert there and there == files(paths.repo() / name)
    assert (installed / "redoubt/mutate/kpkeys_mutant.h").is_file()


def test_it_finds_that_and_builds_where_it_is_run(installed: Path) -> None:
    done = python(
        installed, "-c",
        "from redoubt.core import paths\n"
        "from redoubt.linux import topics, tree\n"
        "queue = tree.queue(paths.repo())\n"
        "assert all((queue.kernel / name).is_file() for name in queue.files)\n"
        "assert all(patch.is_file() for patch in queue.patches)\n"
        "assert topics.load(paths.repo())\n"
        "print(len(queue.files), len(queue.patches), paths.build_dir(), paths.results_dir())",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    queue, where = tree.queue(paths.repo()), installed.parent / "elsewhere"
    assert done.stdout.split() == [
        str(len(queue.files)), str(len(queue.patches)), str(where / "redoubt-build"),
        str(where / "results"),
    ]  # fmt: skip
