# SPDX-License-Identifier: GPL-2.0-only
"""The wheel: installed alone, outside of any checkout, it is a tool that works."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from redoubt import __version__
from redoubt.cli import common
from redoubt.core import paths
from redoubt.core.progress import Silent
from redoubt.linux import tree
from redoubt.suite import code
from redoubt.suite.run import Run, Skipped
from redoubt.targets import get_target

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
    """As pipx does it: in an environment of its own; what it depends on is that of the tests."""
    where = tmp_path_factory.mktemp("wheel")
    copy, venv = where / "copy", where / "venv"
    for name in (*DATA, "redoubt"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(paths.repo() / name, copy / name, ignore=ignored)
    for name in FILES:
        shutil.copy(paths.repo() / name, copy / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", where, copy]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = where.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    # Their own .pth files are not read from here: an editable installation of ours is not seen.
    others = [place for place in sys.path if place.endswith("-packages")]
    (site / "others.pth").write_text("\n".join(others))
    install = ["--python", venv / "bin/python", "install", "--no-deps", "--no-index", wheel]
    # In PYTHONPATH there may be one that is installed already.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*pip, *install], check=True, env=env)
    return venv


@pytest.fixture
def elsewhere(installed: Path, tmp_path: Path) -> Path:
    """A directory without a checkout, in a git repository of somebody else."""
    subprocess.run(["git", "init", "-q", installed.parent], check=True)
    where = installed.parent / tmp_path.name
    where.mkdir()
    return where


def run(where: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program of the environment, first in the path, as a user who has no kernel of his own."""
    programs = where.parent / "venv/bin"
    left_out = ("REDOUBT_BUILD", "LINUX_SRC", "LINUX_VERSION", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    return subprocess.run(
        [shutil.which(program, path=f"{programs}:{env['PATH']}") or program, *words], cwd=where,
        env={**env, "PATH": f"{programs}:{env['PATH']}"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def files(directory: Path) -> dict[str, bool]:
    """All files below, and whether they are programs."""
    return {
        str(file.relative_to(directory)): os.access(file, os.X_OK)
        for file in directory.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_it_starts(elsewhere: Path) -> None:
    told = run(elsewhere, "redoubt", "--version")
    assert (told.returncode, told.stderr) == (0, "")
    # Without a commit: the repository around it is not its own.
    assert told.stdout == f"redoubt {__version__}\n"
    wrong = run(elsewhere, "redoubt", "audit", "nosuch")
    assert wrong.returncode == 2
    assert "unknown target 'nosuch'" in wrong.stderr


def test_it_explains_each_verb(elsewhere: Path) -> None:
    told = run(elsewhere, "redoubt", "-h")
    assert (told.returncode, told.stderr) == (0, "")
    names = [str(command.name) for command in common.app.registered_commands]
    assert len(names) > 20
    assert all(re.search(rf"^. {name} +[A-Z]", told.stdout, re.MULTILINE) for name in names)


OFFERED = {
    "redoubt au": "audit", "redoubt audit um": "um", "redoubt test um arm": "arm64",
    "redoubt kunit x86_64-": "x86_64-pcid x86_64-mktme", "redoubt lint ar": "arm64",
    "redoubt linear-map ar": "arm64", "redoubt run --gd": "--gdb",
}  # fmt: skip
# What bash does when the user presses the Tab key behind some words.
PRESSED = """\
eval "$(redoubt --show-completion bash)"
complete -p redoubt
for words; do
	COMP_WORDS=($words) COMP_CWORD=$(($(wc -w <<< "$words") - 1))
	_redoubt_completion redoubt
	echo "${COMPREPLY[*]}"
done
"""


def test_the_shell_completes(elsewhere: Path) -> None:
    told = run(elsewhere, "bash", "-c", PRESSED, "bash", *OFFERED)
    assert (told.returncode, told.stderr) == (0, "")
    function, *offered = told.stdout.splitlines()
    assert function.endswith("-F _redoubt_completion redoubt")
    assert offered == list(OFFERED.values())


def test_what_takes_a_checkout_says_so(elsewhere: Path) -> None:
    for words in (["series", "--topic", "asi"], ["report", "--readme"]):
        told = run(elsewhere, "redoubt", *words)
        assert (told.returncode, told.stdout) == (1, "")
        said, mend = told.stderr.splitlines()
        assert "needs a checkout of the repository: an installed tool has no " in said
        assert mend.startswith("    redoubt ")
    assert list(elsewhere.iterdir()) == []


def test_what_mends_something_is_where_the_message_says(elsewhere: Path) -> None:
    told = run(elsewhere, "python", "-c",
               "from redoubt.core import paths; print(paths.prerequisites('lint'))")  # fmt: skip
    script, group = shlex.split(told.stdout)
    assert group == "lint"
    assert Path(script).is_relative_to(elsewhere.parent / "venv")
    assert run(elsewhere, script, "--report").stdout.startswith("base\t")


def test_the_series_is_skipped_without_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "installed", lambda: True)
    with pytest.raises(Skipped) as caught:
        next(code.series_checked([Run(get_target("um"), "auto", True, Silent())]))
    assert caught.value.item.skipped == 1


def test_it_has_all_that_it_works_on(installed: Path) -> None:
    (package,) = installed.glob("lib/python*/site-packages/redoubt")
    for name in DATA:
        there = files(package / "data" / name)
        assert there and there == files(paths.repo() / name)
    assert (package / "mutate/kpkeys_mutant.h").is_file()


def test_it_finds_that_and_builds_where_it_is_run(elsewhere: Path) -> None:
    done = run(
        elsewhere, "python", "-c",
        "from redoubt.core import paths\n"
        "from redoubt.linux import topics, tree\n"
        "queue = tree.queue(paths.repo())\n"
        "assert all((queue.kernel / name).is_file() for name in queue.files)\n"
        "assert all(patch.is_file() for patch in queue.patches)\n"
        "assert topics.load(paths.repo())\n"
        "print(len(queue.files), len(queue.patches), paths.build_dir(), paths.results_dir())",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    queue = tree.queue(paths.repo())
    assert done.stdout.split() == [
        str(len(queue.files)), str(len(queue.patches)), str(elsewhere / "redoubt-build"),
        str(elsewhere / "results"),
    ]  # fmt: skip
