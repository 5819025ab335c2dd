# SPDX-License-Identifier: GPL-2.0-only
"""gdb and a guest: one that waits for a debugger, or one that a debugger starts."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from redoubt.core.errors import RedoubtError, UsageError
from redoubt.linux.build import Build
from redoubt.machine import host
from redoubt.targets import Target

# Debian's gdb knows the architecture of this machine alone, gdb-multiarch all.
PROGRAM = "gdb"
# Of a target: the kernel with debug information and scripts/gdb.
FLAVOUR = "gdb"
# Else the kernel is not where its file with symbols says.
KERNEL_ARGS = ("nokaslr",)
# UML gets its page faults as signals, and what another CPU tells it; gdb takes them for errors.
_UML_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGUSR1")


def needs(target: Target, where: str) -> None:
    """Raise an error if gdb cannot be used on a target that runs on the host `where`.

    That is a UsageError where no gdb helps, and RedoubtError where it has to be installed.
    """
    if target.emulator:
        return
    if where != host.NATIVE:
        raise UsageError(
            "gdb does not see into the emulated machine that um runs on",
            "--host native; um is not protected there without PKU",
        )
    if not shutil.which(PROGRAM):
        raise RedoubtError(f"{PROGRAM} not found", "sudo apt-get install gdb")


def waiting(socket: Path) -> tuple[str, ...]:
    """The options by which QEMU stops before the first instruction, until gdb says `continue`."""
    return ("-S", "-gdb", f"unix:{socket},server=on,wait=off")


def starting(command: Sequence[str]) -> list[str]:
    """The command that starts UML, which is a process of this machine, within gdb."""
    handled = f"handle {' '.join(_UML_SIGNALS)} nostop noprint pass"
    return [PROGRAM, "-q", "-ex", handled, "--args", *command]


def attaching(build: Build, socket: Path) -> str:
    """The command that attaches gdb to a machine that is `waiting`."""
    program = "gdb-multiarch" if build.target.cross_compile else PROGRAM
    scripts = build.vmlinux.with_name("vmlinux-gdb.py")
    return shlex.join([
        program,
        *(("-iex", f"add-auto-load-safe-path {scripts.parent}") if scripts.exists() else ()),
        "-ex", f"target remote {socket}",
        *((str(build.vmlinux),) if build.vmlinux.exists() else ()),
    ])  # fmt: skip
