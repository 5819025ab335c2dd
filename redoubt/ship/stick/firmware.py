# SPDX-License-Identifier: GPL-2.0-only
"""A disk image on an emulated machine that firmware starts, as a real one would."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.process import Ended, run_lines
from redoubt.core.progress import Progress
from redoubt.linux import rootless
from redoubt.machine import qemu
from redoubt.targets import ARM64, X86_64, Target

# The disk is on one of these.
BUSES = {
    "usb": ("-device", "qemu-xhci", "-device", "usb-storage,drive=disk"),
    "nvme": ("-device", "nvme,serial=redoubt,drive=disk"),
}


@dataclass(frozen=True)
class _Firmware:
    """The package of a firmware, its code and variables there, its machine, and a screen for it."""

    package: str
    code: str
    variables: str
    machine: str
    screen: str


_FIRMWARE = {
    X86_64.name: _Firmware(
        "ovmf", "usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_VARS_4M.fd", "q35", "VGA"
    ),
    ARM64.name: _Firmware(
        "qemu-efi-aarch64", "usr/share/AAVMF/AAVMF_CODE.fd", "usr/share/AAVMF/AAVMF_VARS.fd",
        "virt", "ramfb",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """The parts of a machine, beside its disk.

    Memory and CPUs are shared out evenly among the nodes; `cpu` is another model than the usual.
    A machine without a serial port has a screen, and says nothing while it runs.
    """

    cpus: int = 1
    nodes: int = 1
    memory_mb: int = 1024
    cpu: str = ""
    serial: bool = True

    @property
    def numa(self) -> Iterator[str]:
        """The options for its nodes."""
        for node in range(self.nodes if self.nodes > 1 else 0):
            size = f"{self.memory_mb // self.nodes}M"
            first, end = (one * self.cpus // self.nodes for one in (node, node + 1))
            yield from ("-object", f"memory-backend-ram,id=node{node},size={size}")
            yield from ("-numa", f"node,nodeid={node},cpus={first}-{end - 1},memdev=node{node}")


_USUAL = Form()


def possible(target: Target) -> bool:
    """Is there firmware that starts the emulated machine of a target from a disk?"""
    return target.name in _FIRMWARE


def command(
    target: Target, disk: Path, code: Path, variables: Path, bus: str, form: Form
) -> list[str]:
    """The command of a machine that is started from a disk image on a bus.

    It writes to the disk, and to the variables of its firmware.
    """
    assert target.emulator
    flash, known = "if=pflash,format=raw", _FIRMWARE[target.name]
    console = ("-serial", "stdio") if form.serial else ("-device", known.screen)
    return [
        qemu.program(target.emulator), "-accel", "tcg", "-machine", known.machine,
        "-cpu", form.cpu or target.emulator.cpu, "-smp", str(form.cpus),
        "-m", f"{form.memory_mb}M", *form.numa, "-nodefaults", "-display", "none", *console,
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
    form: Form = _USUAL,
) -> Ended:
    """Start a machine from a disk image, which it writes to, and wait until it powers off.

    Its console is kept in <build>/log/boot-image-TARGET-BUS.log, and each line given to `watch`.
    `more` are further options of the emulator.
    """
    known = _FIRMWARE[target.name]
    assert target.emulator
    qemu.obtain(target.emulator, progress)
    unpacked = rootless.foreign(target.debian, (known.package,), progress)
    log = paths.build_dir() / "log" / f"boot-image-{target.name}-{bus}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name, log.open("a") as out:
        own = Path(name) / "variables"
        shutil.copyfile(unpacked / known.variables, own)

        def keep(line: str) -> None:
            out.write(line + "\n")
            watch(line)

        words = command(target, disk, unpacked / known.code, own, bus, form)
        return run_lines([*words, *more], keep, timeout=timeout)
