# SPDX-License-Identifier: GPL-2.0-only
"""The root directory of a guest: a few static programs and one command to run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import alone, output, run_logged
from redoubt.core.progress import Progress

_DIRECTORIES = ("bin", "dev", "etc/redoubt", "lib/modules", "proc", "root", "run", "sys", "tmp")
# Runs the attacks.
ATTACK = "/bin/attack"


def place(cross_compile: str = "") -> Path:
    """Where the guest programs are, once `programs` has built them."""
    return paths.build_dir() / f"guest-{cross_compile}".rstrip("-")


def programs(progress: Progress, cross_compile: str = "") -> Path:
    """Build the guest programs; quick when they are.

    `cross_compile` is the prefix of the compiler for another machine.
    """
    directory = place(cross_compile)
    with progress.step("Building the guest programs"), alone("programs"):
        run_logged(
            ["make", "-C", paths.repo() / "guest", f"O={directory}",
             f"CROSS_COMPILE={cross_compile}", f"KSRC={paths.build_dir() / 'src'}"],
            paths.build_dir() / "log" / "guest.log",
            what="building the guest programs",
        )  # fmt: skip
    return directory


def _busybox() -> Path | None:
    """The host's busybox, if there is a static one: a shell for interactive use."""
    found = shutil.which("busybox")
    if found and "statically linked" in output(["file", "-L", found], what="file"):
        return Path(found)
    return None


def root_directory(
    built: Path,
    where: Path,
    command: Sequence[str],
    modules: Sequence[Path] = (),
    files: Mapping[str, Path] | None = None,
    share: Sequence[str] = (),
) -> Path:
    """Make a guest root at `where` that runs `command`, or a shell if that is empty.

    The attacks are there for a shell, and for the program that runs them. `modules` of its kernel
    go to /lib/modules, and `files` (or trees of them) to where it says. `share` is what init
    mounts on /share: type, source and options.

    Raises RedoubtError if an argument contains a newline: the file has one argument a line.
    """
    if any("\n" in word for word in command):
        raise RedoubtError("an argument for the guest must not contain a newline")
    for name in _DIRECTORIES:
        (where / name).mkdir(parents=True, exist_ok=True)
    for file in built.iterdir():
        if file.is_file() and file.name != "init":
            shutil.copy2(file, where / "bin" / file.name)
    # They are as large as all else together, and some machines are small.
    if (built / "attacks").exists() and (not command or ATTACK in command):
        shutil.copytree(built / "attacks", where / "bin" / "attacks")
    shutil.copy2(built / "init", where / "init")
    for module in modules:
        shutil.copy2(module, where / "lib/modules" / module.name)
    for name, file in (files or {}).items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            shutil.copytree(file, where / name, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(file, where / name)
    if share:
        (where / "share").mkdir()
        _write_words(where / "etc/redoubt/share", share)
    if command:
        _write_words(where / "etc/redoubt/cmd", command)
    else:
        shell = _busybox() if shutil.which("file") else None
        if shell:
            shutil.copy2(shell, where / "bin" / "busybox")
            (where / "bin" / "sh").symlink_to("busybox")
    return where


def _write_words(file: Path, words: Sequence[str]) -> None:
    file.write_text("".join(f"{word}\n" for word in words))


def sequence(commands: Sequence[Sequence[str]]) -> list[str]:
    """One guest command that runs several, one after the other."""
    words = ["/bin/then"]
    for index, command in enumerate(commands):
        words += ["++"] if index else []
        words += command
    return words
