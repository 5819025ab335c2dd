# SPDX-License-Identifier: GPL-2.0-only
"""Packages installed as a user does, by apt, in a Debian of their own that is booted then.

What they set off there counts: initramfs-tools makes the image to boot with, and systemd starts.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import output, run_logged
from redoubt.core.progress import Progress
from redoubt.linux import build, debian
from redoubt.machine import boot, qemu
from redoubt.machine.boot import Machine, Result
from redoubt.ship.deb import packaged
from redoubt.targets import Target
from redoubt.trial import check

# What a kernel is installed beside, and the program that tells how it went: findmnt.
_PACKAGES = ("systemd-sysv", "udev", "initramfs-tools", "kmod", "zstd", "mount", "util-linux")
_FILES = ("look.sh", "look.service")
_MODULE = "hello.ko"
_SAID = re.compile(r"^@installed: (.*)$")
_DISK = "/dev/vda"
# By the driver that the kernel has for all file systems of this family.
_FILE_SYSTEM = "ext4"
_ARGS = (f"root={_DISK}", f"rootfstype={_FILE_SYSTEM}", "rw", "systemd.show_status=no")
_TIMEOUT = 900.0
_WITHOUT = "leave out --install"


@dataclass(frozen=True, kw_only=True)
class Installed(packaged.Judged):
    """What the kernel did in a Debian of this `suite`, and `said` of page tables."""

    suite: str
    said: tuple[str, ...]


def needs(target: Target) -> None:
    """Raise RedoubtError unless packages of a target can be installed on this machine.

    They run programs of their own for that.
    """
    ours = output(["dpkg", "--print-architecture"], what="asking dpkg for the architecture").strip()
    if ours != target.debian:
        raise RedoubtError(
            f"packages of {target.debian} cannot be installed on this machine, which is {ours}: "
            "they run programs of their own",
            _WITHOUT,
        )
    debian.mirror(_WITHOUT)


def _module(found: packaged.Unpacked, into: Path) -> Path:
    """A module of somebody else's, built with the headers of the package."""
    shutil.copytree(paths.repo() / "guest" / "installed", into)
    run_logged(
        ["make", "-C", found.headers / found.sources, f"M={into}", "modules"],
        paths.build_dir() / "log" / "installed-module.log",
        what="building a module with linux-headers",
        env=build.environment(),
    )
    return into / _MODULE


@dataclass(frozen=True)
class _Disk:
    """A system that packages were installed in, and what of it a machine is started with."""

    image: Path
    vmlinuz: Path
    initrd: Path


def _install(release: str, packages: Sequence[Path], module: Path, into: Path) -> _Disk:
    """Make a Debian, install the packages in it as a user would, and add the program that looks.

    Raises RedoubtError if that fails; its log tells what apt and the packages' scripts said.
    """
    # What root mounts there is gone with the process, and its files with ours, however that ends.
    # Others have mmdebstrap work as users of their own, who cannot get into our directories.
    root = os.geteuid() == 0
    alone = ["unshare", "--mount", "--propagation", "private"] if root else []
    disk = _Disk(into / "root.ext2", into / "vmlinuz", into / "initrd")
    files = paths.repo() / "guest" / "installed"
    inside = [f"/tmp/{package.name}" for package in packages]
    hooks = [
        *(f"upload {package} {name}" for package, name in zip(packages, inside, strict=True)),
        f'chroot "$1" apt-get install -y {" ".join(inside)}',
        f"rm {' '.join(f'$1{name}' for name in inside)}",
        *(f"upload {files / name} /root/{name}" for name in _FILES),
        f"upload {module} /root/{_MODULE}",
        'chmod +x "$1/root/look.sh"',
        'mv "$1/root/look.service" "$1/etc/systemd/system"',
        'chroot "$1" systemctl enable look.service',
        f"download /boot/vmlinuz-{release} {disk.vmlinuz}",
        f"download /boot/initrd.img-{release} {disk.initrd}",
    ]
    run_logged(
        [*alone, "mmdebstrap", "--variant=apt", "--format=ext2", f"--include={','.join(_PACKAGES)}",
         *(f"--customize-hook={hook}" for hook in hooks),
         debian.RELEASE, disk.image, debian.source(debian.mirror(_WITHOUT), debian.RELEASE)],
        paths.build_dir() / "log" / "installed.log",
        what=f"installing the packages of {packages[0].parent} in Debian {debian.RELEASE}",
        env={"TMPDIR": str(into)} if root else None,
    )  # fmt: skip
    return disk


def check_packages(
    machine: Machine, found: packaged.Unpacked, packages: Sequence[Path], progress: Progress
) -> Installed:
    """Install packages, boot what came of it on a machine like this one, and judge that.

    `found` are the packages unpacked. Raises RedoubtError if they cannot be installed, or the
    machine does not start at all.
    """
    target = machine.build.target
    if not target.emulator:
        raise RedoubtError(f"{target.name} has no machine to install packages on")
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        scratch = Path(name)
        with progress.step(f"Installing the packages of {target.name} in Debian {debian.RELEASE}"):
            module = _module(found, scratch / "module")
            disk = _install(found.release, packages, module, scratch)
        machine = replace(machine, args=_ARGS)
        qemu.obtain(target.emulator, progress)
        words = qemu.command(
            target.emulator, disk.vmlinuz, disk.initrd, boot.kernel_args(machine, ""),
            cpus=machine.cpus, memory_mb=machine.memory_mb,
            # Another start finds the disk as it was.
            devices=("-drive", f"file={disk.image},format=raw,if=virtio,snapshot=on"),
        )  # fmt: skip
        with progress.step(f"Booting {target.name} as it was installed"):
            result = boot.attend(
                machine, words, timeout=_TIMEOUT, name=f"installed-{target.name}", progress=progress
            )
    return judge(found.release, result)


def judge(release: str, result: Result) -> Installed:
    """What is wrong with what an installed kernel of this release said."""
    said = [match[1] for line in result.console if (match := _SAID.match(line))]
    walks = check.parse_walks(result.console)
    problems = [f"kernel: {line}" for line in result.complaints]
    if result.outcome != "finished" or result.status:
        problems.append(result.describe())
    for expected in (
        f"release={release}",
        f"root={_DISK} {_FILE_SYSTEM}",
        # It says a word when it is loaded, and one when it goes.
        "module=2",
        f"headers=/usr/src/linux-headers-{release}",
    ):
        if expected not in said:
            what = expected.partition("=")[0]
            found = [line for line in said if line.startswith(f"{what}=")]
            problems.append(f"expected '{expected}', found {found}")
    problems += [line for line in said if line.startswith(("unit=", "failed: "))]
    hardened = packaged.protection(result.console)
    if len(hardened) != 1:
        problems.append(f"expected one line 'page tables hardened', found {hardened}")
    if len(walks) != 1 or not all(walk.clean for walk in walks):
        problems.append(f"the checker: {[*map(str, walks)]}")
    tables = max((walk.tables for walk in walks), default=0)
    return Installed(
        suite=debian.RELEASE, said=tuple(hardened), tables=tables, problems=tuple(problems),
        result=result,
    )  # fmt: skip
