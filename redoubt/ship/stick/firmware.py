# SPDX-License-Identifier: GPL-2.0-only
"""A disk image on an emulated machine that firmware starts, as a real one would."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from redoubt.core import paths
from redoubt.core.process import Ended, run_lines
from redoubt.core.progress import Progress
from redoubt.linux import rootless
from redoubt.machine import qemu
from redoubt.targets import X86_64, Target

# The disk is on one of these.
BUSES = {
    "usb": ("-device", "qemu-xhci", "-device", "usb-storage,drive=disk"),
    "nvme": ("-device", "nvme,serial=redoubt,drive=disk"),
}
# Package, code, and variables, which are the machine's own.
_FIRMWARE = {
    X86_64.name: ("ovmf", "usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_VARS_4M.fd"),
}
_MEMORY_MB = 1024


def possible(target: Target) -> bool:
    """Is there firmware that starts the emulated machine of a target from a disk?"""
    return target.name in _FIRMWARE


def command(
    target: Target, disk: Path, code: Path, variables: Path, bus: str, *, cpus: int = 1
) -> list[str]:
    """The command of a machine that is started from a disk image on a bus.

    It writes to the disk, and to the variables of its firmware.
    """
    assert target.emulator
    flash = "if=pflash,format=raw"
    return [
        qemu.program(target.emulator), "-accel", "tcg", "-machine", "q35",
        "-cpu", target.emulator.cpu, "-smp", str(cpus), "-m", f"{_MEMORY_MB}M",
        "-nodefaults", "-display", "none", "-serial", "stdio",
        "-drive", f"{flash},readonly=on,file={code}", "-drive", f"{flash},file={variables}",
        "-drive", f"if=none,id=disk,format=raw,file={disk}", *BUSES[bus],
    ]  # fmt: skip


def start(
    target: Target,
    disk: Path,
    bus: str,
    progress: Progress,
    *,
    timeout: float,
    watch: Callable[[str], None] = lambda line: None,
    more: Sequence[str] = (),
    cpus: int = 1,
) -> Ended:
    """Start a machine from a disk image, which it writes to, and wait until it powers off.

    Its console is kept in <build>/log/boot-image-TARGET-BUS.log, and each line given to `watch`.
    `more` are further options of the emulator.
    """
    package, code, variables = _FIRMWARE[target.name]
    unpacked = rootless.foreign(target.debian, (package,), progress)
    log = paths.build_dir() / "log" / f"boot-image-{target.name}-{bus}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name, log.open("a") as out:
        own = Path(name) / "variables"
        shutil.copyfile(unpacked / variables, own)

        def keep(line: str) -> None:
            out.write(line + "\n")
            watch(line)

        words = command(target, disk, unpacked / code, own, bus, cpus=cpus)
        return run_lines([*words, *more], keep, timeout=timeout)
