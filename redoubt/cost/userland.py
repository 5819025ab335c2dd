# SPDX-License-Identifier: GPL-2.0-only
"""Debian's programs in a guest, and as much of a kernel as it builds: for workloads of others."""

from __future__ import annotations

import fnmatch
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from redoubt.core import paths
from redoubt.core.process import alone
from redoubt.core.progress import Progress
from redoubt.linux import rootless, source
from redoubt.linux.version import version_of
from redoubt.targets import Target

# A compiler, what a kernel is built with, and fio.
PACKAGES = (
    "gcc", "libc6-dev", "make", "bc", "bison", "flex", "dash", "coreutils", "sed", "grep", "mawk",
    "findutils", "diffutils", "gzip", "fio",
)  # fmt: skip
# All of it is in the guest's memory: not what nothing here runs or reads.
_LEFT_OUT = (
    "usr/share/[!b]*", "usr/share/b[!i]*", "usr/lib*/python3*", "usr/bin/python3*", "usr/bin/perl*",
    "usr/libexec/gcc/*/lto1", "usr/bin/*lto-dump*", "usr/lib/*/lib*san.*", "usr/lib/gcc/*/lib*san*",
    "etc/*", "var/*",
)  # fmt: skip
# What the package makes when it is installed, or what has another place in a guest.
_LINKS = {"usr/bin/awk": "mawk", "bin/sh": "/usr/bin/dash"}

# What of a kernel is there when "tinyconfig" and init/ are built: files, and directories with all
# that is in them; and Kconfig of everything, as options depend on each other.
_SOURCE = (
    "Kbuild", "Kconfig", "Makefile", "include/*", "init/*", "scripts/*", "tools/include/*",
    "kernel/*.h", "mm/*.h", "kernel/bounds.c", "kernel/configs/*", "kernel/sched/rq-offsets.c",
    "kernel/time/timeconst.bc", "lib/vdso/*", "*/Kconfig*",
    # All architectures are compared with that.
    "arch/x86/entry/syscalls/syscall_32.tbl",
)  # fmt: skip
_ARCHITECTURES = {"amd64": "x86", "arm64": "arm64"}
_NOT_SOURCE = ("arch/*/boot/dts/*",)
# Of this in the guest: see guest/bench/kernbench.sh and bench-user.c.
_TREE = "linux"
_SCRIPTS = "usr/lib/redoubt"


def architecture(target: Target) -> str:
    """Debian's name of what user mode of a target runs."""
    return target.debian or "amd64"


def _is(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _found(top: Path) -> Iterator[str]:
    """The files of a tree, from its top; links are files."""
    for directory, folders, files in os.walk(top):
        links = [name for name in folders if (Path(directory) / name).is_symlink()]
        for name in (*files, *links):
            yield str((Path(directory) / name).relative_to(top))


def _copy(top: Path, names: Iterator[str], to: Path) -> None:
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(top / name, to / name, follow_symlinks=False)


def kernel_files(kernel: Path, of: str) -> Iterator[str]:
    """What the guest gets of a kernel tree; `of` is Debian's name of its architecture."""
    wanted = (*_SOURCE, f"arch/{_ARCHITECTURES[of]}/*")
    return (name for name in _found(kernel) if _is(name, wanted) and not _is(name, _NOT_SOURCE))


def system_files(unpacked: Path) -> Iterator[str]:
    """What the guest gets of the unpacked packages."""
    return (name for name in _found(unpacked) if not _is(name, _LEFT_OUT))


def root(target: Target, progress: Progress) -> Path:
    """A tree for the top of a guest's root directory, made once: the programs, and the kernel.

    Raises RedoubtError if the packages or the kernel cannot be had.
    """
    of = architecture(target)
    unpacked = rootless.system(of, PACKAGES, progress)
    kernel = source.obtain(progress).path
    where = paths.build_dir() / f"userland-{of}"
    chosen = (_LEFT_OUT, _LINKS, _SOURCE, _NOT_SOURCE)
    stamp = where.with_suffix(".of")
    made = f"{unpacked}\n{kernel} {version_of(kernel)}\n{chosen}\n"
    with alone("userland"):
        if where.exists() and stamp.exists() and stamp.read_text() == made:
            return where
        stamp.unlink(missing_ok=True)
        shutil.rmtree(where, ignore_errors=True)
        with (
            progress.step(f"Making a system for workloads ({of})"),
            tempfile.TemporaryDirectory(dir=where.parent, prefix=".partial-") as name,
        ):
            new = Path(name) / "root"
            _copy(unpacked, system_files(unpacked), new)
            _copy(kernel, kernel_files(kernel, of), new / _TREE)
            # There is no link from /lib to this, as /lib has the modules of the kernel.
            moved = (*new.glob("usr/lib*/ld-linux-*"), *new.glob("usr/lib/*-linux-gnu"))
            there = {str(file.relative_to(new / "usr")): f"/{file.relative_to(new)}"
                     for file in moved}  # fmt: skip
            for link, to in (_LINKS | there).items():
                (new / link).parent.mkdir(parents=True, exist_ok=True)
                (new / link).symlink_to(to)
            new.rename(where)
        stamp.write_text(made)
    return where


def files(target: Target, progress: Progress) -> dict[str, Path]:
    """What the guest gets besides our programs: from its path there to the file or tree.

    Raises RedoubtError as `root` does.
    """
    ours = paths.repo() / "guest" / "bench"
    scripts = {f"{_SCRIPTS}/{script.name}": script for script in sorted(ours.glob("*.sh"))}
    return {"": root(target, progress), **scripts}
