# SPDX-License-Identifier: GPL-2.0-only
"""Where a User-Mode Linux kernel runs: on this machine, or on an emulated one.

UML protects itself with the user protection keys (PKU) of the CPU it runs on. A machine without
them can still enforce: QEMU emulates a CPU that has them. The emulated machine runs Debian's own
kernel and, from an initramfs, nothing but UML. It shows what protection does; its clock shows
nothing.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from redoubt import debian, paths
from redoubt.errors import RedoubtError
from redoubt.progress import Progress

NATIVE = "native"
EMULATED = "emulated"
QEMU = "qemu-system-x86_64"
READY = "@redoubt: host ready"

# /proc/cpuinfo: the CPU has protection keys, and the kernel has switched them on.
_FLAG = "ospke"
# Old and new packaging of Debian's small kernel for virtual machines.
_KERNEL_PACKAGES = ("linux-binary-[0-9]*-cloud-amd64", "linux-image-[0-9]*-cloud-amd64")
_KERNEL_FILES = ("usr/lib/modules/*/vmlinuz", "boot/vmlinuz-*")


def has_pku(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Does this machine have user protection keys?"""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return False
    return any(
        _FLAG in line.split(":", 1)[1].split()
        for line in text.splitlines()
        if line.startswith("flags") and ":" in line
    )


def has_emulator() -> bool:
    """Is there a QEMU for the emulated machine?"""
    return shutil.which(QEMU) is not None


NO_HOST = "no protection keys: this CPU has no PKU, and there is no QEMU to emulate one"


def enforcing(choice: str) -> str | None:
    """The host on which protection keys work: NATIVE or EMULATED, or None if there is none.

    `choice` is "auto", NATIVE or EMULATED. Raises RedoubtError for anything else.
    """
    if choice not in ("auto", NATIVE, EMULATED):
        raise RedoubtError(f"unknown host '{choice}'", "hosts: auto, native, emulated")
    if choice in ("auto", NATIVE) and has_pku():
        return NATIVE
    if choice in ("auto", EMULATED) and has_emulator():
        return EMULATED
    return None


def pick(choice: str) -> str:
    """The host to boot on: an enforcing one if there is, else this machine.

    Raises RedoubtError if the emulated one is demanded and there is no QEMU.
    """
    found = enforcing(choice)
    if found is None and choice == EMULATED:
        raise RedoubtError(f"{QEMU} not found", "sudo apt-get install qemu-system-x86")
    return found or NATIVE


# === The emulated machine ========================================================================


def kernel(progress: Progress) -> Path:
    """The kernel of the emulated machine, downloaded once.

    Raises RedoubtError if the archive does not have it.
    """
    kept = paths.cache_dir() / "host-kernel" / "vmlinuz"
    if kept.exists():
        return kept
    archive = debian.Archive(progress)
    archive.update()
    for pattern in _KERNEL_PACKAGES:
        found = archive.newest(pattern)
        if found:
            break
    else:
        raise RedoubtError("the archive has no kernel for the emulated host")
    package = archive.download(*found)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".partial-") as name:
        debian.extract(package, Path(name), kept.parent / "log")
        files = [file for pattern in _KERNEL_FILES for file in Path(name).glob(pattern)]
        if not files:
            raise RedoubtError(f"{package.name} has no vmlinuz")
        files[0].rename(kept)
    return kept


def _entry(out: BinaryIO, inode: int, name: str, mode: int, data: bytes) -> None:
    """One file in the cpio format "newc" (Documentation/driver-api/early-userspace)."""
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    for part in (header, data):
        out.write(part + b"\0" * (-len(part) % 4))


def initramfs(
    files: dict[str, Path], made: dict[str, bytes], roots: dict[str, Path], to: Path
) -> None:
    """Write an initramfs: files by name, files made up here, and whole directories."""
    with to.open("wb") as out:
        inode = 0
        for directory in ("dev", "proc", "sys", "tmp", *roots):
            inode += 1
            _entry(out, inode, directory, stat.S_IFDIR | 0o755, b"")
        for name, file in files.items():
            inode += 1
            _entry(out, inode, name, stat.S_IFREG | 0o755, file.read_bytes())
        for name, data in made.items():
            inode += 1
            _entry(out, inode, name, stat.S_IFREG | 0o644, data)
        for name, root in roots.items():
            for path in sorted(root.rglob("*")):
                inode += 1
                inside = f"{name}/{path.relative_to(root)}"
                mode = path.lstat().st_mode
                if path.is_symlink():
                    _entry(out, inode, inside, mode, os.readlink(path).encode())
                elif path.is_dir():
                    _entry(out, inode, inside, mode, b"")
                else:
                    _entry(out, inode, inside, mode, path.read_bytes())
        _entry(out, 0, "TRAILER!!!", 0, b"")


# The clock shows 1 ns for each instruction, and nothing differs from run to run.
COUNTING = ("-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1")


def command(
    vmlinuz: Path, archive: Path, cpus: int, memory_mb: int, extra: Sequence[str] = ()
) -> list[str]:
    """The QEMU command of the emulated machine; its serial port is our stdin and stdout.

    `extra` are further arguments.
    """
    return [
        QEMU, "-accel", "tcg", "-cpu", "max", "-smp", str(cpus), "-m", f"{memory_mb}M",
        "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
        "-kernel", str(vmlinuz), "-initrd", str(archive),
        "-append", "console=ttyS0 quiet loglevel=0 panic=-1 mitigations=off",
        *extra,
    ]  # fmt: skip


def args_file(args: Sequence[str]) -> bytes:
    """The arguments of UML as the emulated machine's init reads them, one a line."""
    return "".join(f"{arg}\n" for arg in args).encode()
