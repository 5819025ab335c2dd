# SPDX-License-Identifier: GPL-2.0-only
"""Machines that QEMU emulates. Protection keys are enforced there; its clock shows nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_logged, said
from redoubt.core.progress import Progress
from redoubt.linux import emulator as built
from redoubt.machine import planes
from redoubt.targets import Emulator

_VERSION = re.compile(r"QEMU emulator version (\d+)\.(\d+)")

# The clock shows 1 ns for each instruction, and nothing differs from run to run.
COUNTING = ("-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1")


def found(emulator: Emulator) -> bool:
    """Is the program there, whatever its version?"""
    return shutil.which(emulator.program) is not None


def version(emulator: Emulator) -> tuple[int, int] | None:
    """The version of the program, or None if it does not say."""
    match = _VERSION.search(said([emulator.program, "--version"]) or "")
    return (int(match[1]), int(match[2])) if match else None


def missing(emulator: Emulator) -> RedoubtError | None:
    """That the program is not there, with what mends it; None if it is."""
    if found(emulator):
        return None
    return RedoubtError(f"{emulator.program} not found", _mend(emulator))


def problem(emulator: Emulator) -> RedoubtError | None:
    """What keeps the machine from being emulated here, with what mends it; None if nothing does."""
    if emulator.ours:
        return built.lacking()
    if error := missing(emulator):
        return error
    have = version(emulator)
    if have is None:
        return RedoubtError(f"{emulator.program} does not say which version it is", _mend(emulator))
    if have < emulator.oldest:
        old, new = (".".join(map(str, one)) for one in (have, emulator.oldest))
        return RedoubtError(
            f"{emulator.program} is version {old}, which has no {emulator.feature}: {new} does",
            f"{_mend(emulator)} (of a newer Debian than this)",
        )
    return None


def _mend(emulator: Emulator) -> str:
    return f"sudo apt-get install {emulator.package}"


def program(emulator: Emulator) -> str:
    """The program: the system's, or ours, which may still have to be built: see `obtain`."""
    return str(built.program(emulator.program)) if emulator.ours else emulator.program


def obtain(emulator: Emulator, progress: Progress) -> str:
    """The program, which is built first if it is ours and has to be."""
    if emulator.ours:
        built.ready(emulator.program, progress)
    return program(emulator)


def described(emulator: Emulator) -> str:
    """The program as it is now, and what it says of its version."""
    version = (said([program(emulator), "--version"]) or "unknown version").splitlines()[0]
    return f"{emulator.program}: {version}"


def device_tree(
    emulator: Emulator,
    file: Path,
    progress: Progress,
    *,
    cpus: int,
    memory_mb: int,
    devices: Sequence[str] = (),
) -> None:
    """Write the device tree that a machine would get, see `command`."""
    run_logged(
        [obtain(emulator, progress), *emulator.options, "-machine", f"dumpdtb={file}",
         "-cpu", emulator.cpu, "-smp", str(cpus), "-m", f"{memory_mb}M",
         "-nodefaults", "-display", "none", *devices],
        paths.build_dir() / "log" / "device-tree.log",
        what="writing the device tree",
    )  # fmt: skip


def command(
    emulator: Emulator,
    kernel: Path,
    archive: Path,
    args: Sequence[str],
    *,
    cpus: int,
    memory_mb: int,
    cpu: str | None = None,
    counting: bool = False,
    devices: Sequence[str] = (),
) -> list[str]:
    """The command that boots a kernel with an initramfs; its serial port is our stdin and stdout.

    `args` are the kernel's arguments after its console; `cpu` is another model than the usual;
    with `counting` the clock shows 1 ns for each instruction; `devices` are options for more.
    Nothing is obtained or built here.
    """
    return [
        program(emulator), "-accel", "tcg", *emulator.options,
        "-cpu", cpu or emulator.cpu, "-smp", str(cpus), "-m", f"{memory_mb}M",
        "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
        "-kernel", str(kernel), "-initrd", str(archive),
        "-append", " ".join((f"console={emulator.console}", *args)),
        *planes.options(emulator.planes, memory_mb), *devices, *(COUNTING if counting else ()),
    ]  # fmt: skip
