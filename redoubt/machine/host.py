# SPDX-License-Identifier: GPL-2.0-only
"""Where a kernel runs: as a process of this machine, or on an emulated one.

UML protects itself with the user protection keys (PKU) of the CPU it runs on. A machine without
them can still enforce: QEMU emulates a CPU that has them. The emulated machine runs Debian's own
kernel and, from an initramfs, nothing but UML. It shows what protection does; its clock shows
nothing.

Every other target boots on an emulated machine of its own, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.progress import Progress
from redoubt.linux import debian
from redoubt.machine import cpio, qemu
from redoubt.targets import PC, Emulator, Target

NATIVE = "native"
EMULATED = "emulated"
READY = "@redoubt: host ready"
# Where UML's root directory is on the emulated machine.
ROOT = "/root-fs"

# The machine that UML is put on.
MACHINE = PC

CPUINFO = Path("/proc/cpuinfo")
# Old and new packaging of Debian's small kernel for virtual machines.
_KERNEL_PACKAGES = ("linux-binary-[0-9]*-cloud-amd64", "linux-image-[0-9]*-cloud-amd64")
_KERNEL_FILES = ("usr/lib/modules/*/vmlinuz", "boot/vmlinuz-*")


def fields(file: Path) -> list[tuple[str, str]]:
    """The lines "name: value" of a file of procfs; none if it cannot be read."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return []
    parts = (line.partition(":") for line in lines)
    return [(name.strip(), value.strip()) for name, _, value in parts]


def flags(cpuinfo: Path = CPUINFO) -> set[str]:
    """The features of this machine's CPUs."""
    values = (value for name, value in fields(cpuinfo) if name == "flags")
    return {flag for value in values for flag in value.split()}


def has_pku(cpuinfo: Path = CPUINFO) -> bool:
    """Does this machine have user protection keys, switched on by its kernel?"""
    return "ospke" in flags(cpuinfo)


NO_HOST = "no protection keys: this CPU has no PKU, and there is no QEMU to emulate one"


def lacking(target: Target, choice: str) -> RedoubtError | None:
    """Why no host enforces protection keys here, with what mends it; None if one does.

    `choice` is "auto", NATIVE or EMULATED. Raises UsageError for anything else, and for a host
    on which the target does not run.
    """
    if choice not in ("auto", NATIVE, EMULATED):
        raise UsageError(f"unknown host '{choice}'", "hosts: auto, native, emulated")
    if target.emulator:
        if choice == NATIVE:
            raise UsageError(
                f"{target.name} has no native host: {target.emulator.program} emulates its machine",
                "leave --host out",
            )
        return qemu.problem(target.emulator)
    if choice == EMULATED:
        return qemu.missing(MACHINE)
    if has_pku() or (choice == "auto" and qemu.found(MACHINE)):
        return None
    if choice == NATIVE:
        return RedoubtError(
            f"no protection keys: the CPU of this machine has no PKU, which {target.name} needs to "
            "run natively",
            "redoubt doctor says more; without --host, QEMU emulates a CPU that has them",
        )
    return RedoubtError(
        NO_HOST, f"sudo apt-get install {MACHINE.package}, or use a machine with PKU"
    )


def enforcing(target: Target, choice: str) -> str | None:
    """The host on which protection keys work: NATIVE or EMULATED, or None if there is none."""
    if lacking(target, choice):
        return None
    return NATIVE if not target.emulator and choice != EMULATED and has_pku() else EMULATED


def emulator(target: Target, chosen: str) -> Emulator | None:
    """The machine that is emulated for a target on a host; None if none is."""
    return target.emulator or (MACHINE if chosen == EMULATED else None)


def plain(target: Target) -> str:
    """The host to boot on when protection keys do not matter: the quickest."""
    return EMULATED if target.emulator else NATIVE


def pick(target: Target, choice: str) -> str:
    """The host to boot on: an enforcing one if there is, else this machine."""
    problem = lacking(target, choice)
    if problem and (target.emulator or choice == EMULATED):
        raise problem
    return enforcing(target, choice) or plain(target)


def needs_enforcing(target: Target, choice: str) -> str:
    """The host on which protection keys work; raises RedoubtError if there is none."""
    if problem := lacking(target, choice):
        raise problem
    return pick(target, choice)


# === The emulated machine ========================================================================


def kernel_file() -> Path:
    """Where the kernel of the emulated machine is kept, once `obtain_kernel` has had it."""
    return paths.cache_dir() / "host-kernel" / "vmlinuz"


def obtain_kernel(progress: Progress) -> None:
    """Download the kernel of the emulated machine, once."""
    kept = kernel_file()
    if kept.exists():
        return
    archive = debian.Archive(progress)
    archive.update()
    package = archive.newest_file(*_KERNEL_PACKAGES)
    with debian.unpacked(package, kept, kept.parent / "log") as unpacked:
        files = [file for pattern in _KERNEL_FILES for file in unpacked.glob(pattern)]
        if not files:
            raise RedoubtError(f"{package.name} has no vmlinuz")
        files[0].rename(kept)


def pack(args: Sequence[str], image: Path, init: Path, root: Path, archive: Path) -> None:
    """Make the archive that the emulated machine has its files from.

    `image` is UML, a static program, `args` are its arguments, `init` is the program that starts
    it, and `root` the directory that it finds as ROOT.
    """
    entries = [
        *(cpio.directory(name) for name in ("dev", "proc", "sys", "tmp", ROOT.lstrip("/"))),
        cpio.regular("init", init.read_bytes(), executable=True),
        cpio.regular("linux", image.read_bytes(), executable=True),
        # One a line.
        cpio.regular("cmdline", "".join(f"{arg}\n" for arg in args).encode()),
        *cpio.tree(root, ROOT.lstrip("/")),
    ]
    cpio.write(entries, archive)


def command(
    archive: Path,
    *,
    cpus: int,
    memory_mb: int,
    counting: bool = False,
    devices: Sequence[str] = (),
) -> list[str]:
    """The command that boots the emulated machine to run UML, see `pack`.

    `devices` are further options of its emulator.
    """
    return qemu.command(
        MACHINE, kernel_file(), archive, ("quiet", "loglevel=0", "panic=-1", "mitigations=off"),
        cpus=cpus, memory_mb=memory_mb, counting=counting, devices=devices,
    )  # fmt: skip
