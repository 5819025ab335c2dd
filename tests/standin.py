# SPDX-License-Identifier: GPL-2.0-only
"""Debian's kernel in place of ours: it is there before one is built, and says how an image boots.

Its drivers are modules, which a program in the place of the tour loads before it runs that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from redoubt.core.progress import Progress
from redoubt.linux import rootless
from redoubt.linux.build import Build
from redoubt.targets import ARM64, X86_64, Emulator, Target

# What firmware starts it from, and what it writes to.
DRIVERS = (
    "xhci_pci", "usb_storage", "sd_mod", "nvme", "vfat", "nls_cp437", "nls_iso8859_1", "nls_ascii",
)  # fmt: skip
# The program tries each module until all that can be loaded are.
_LOADER = """\
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static int load(void)
{
	DIR *all = opendir("/lib/modules");
	struct dirent *one;
	char path[512];
	int loaded = 0, fd;

	while (all && (one = readdir(all))) {
		snprintf(path, sizeof(path), "/lib/modules/%s", one->d_name);
		fd = open(path, O_RDONLY);
		if (fd >= 0 && one->d_name[0] != '.')
			loaded += !syscall(SYS_finit_module, fd, "", 0);
		if (fd >= 0)
			close(fd);
	}
	if (all)
		closedir(all);
	return loaded;
}

int main(int argc, char **argv)
{
	(void)argc;
	while (load())
		;
	execv("/bin/its-tour", argv);
	return 1;
}
"""


def packages(target: Target) -> tuple[str]:
    """The package of a kernel with all drivers, as `rootless.foreign` takes it."""
    return (f"linux-image-6.1.0-??-{target.debian}",)


@dataclass(frozen=True)
class Debian(Build):
    """A kernel of Debian, with these drivers and all that they need."""

    found: tuple[Path, ...] = ()

    @property
    def modules(self) -> tuple[Path, ...]:
        return self.found


def emulated(target: Target) -> Target:
    """The same target on the emulator of the system, whichever the other is."""
    cpus = {X86_64.name: "max", ARM64.name: "cortex-a72"}
    assert isinstance(target.emulator, Emulator)
    emulator = replace(target.emulator, ours=False, cpu=cpus[target.name])
    return replace(target, emulator=emulator)


def kernel(target: Target, progress: Progress) -> Debian:
    """Get the newest kernel of the oldest Debian that we run on."""
    root = rootless.foreign(target.debian, packages(target), progress)
    (image,) = (root / "boot").glob("vmlinuz-*")
    there = {file.stem.replace("-", "_"): file for file in (root / "lib/modules").rglob("*.ko")}
    wanted: dict[str, Path] = {}
    todo = list(DRIVERS)
    while todo:
        name = todo.pop()
        # What is built in is no module.
        if name in there and name not in wanted:
            wanted[name] = there[name]
            todo += _needs(there[name])
    return Debian(target, root, image, image, tuple(wanted.values()))


def _needs(module: Path) -> list[str]:
    """The modules that another one names."""
    said = re.findall(rb"\0(?:depends|softdep)=([^\0]*)", b"\0" + module.read_bytes())
    names = [name for text in said for name in re.split(r"[,\s]+", text.decode())]
    return [name.replace("-", "_") for name in names if name and not name.endswith(":")]


def programs(target: Target, built: Path, where: Path) -> Path:
    """The programs of a guest, with one in place of the tour that loads the drivers first."""
    shutil.copytree(built, where)
    (where / "tour").rename(where / "its-tour")
    source = where.with_suffix(".c")
    source.write_text(_LOADER)
    subprocess.run(
        [target.compiler, "-static", "-O2", "-Wall", "-o", where / "tour", source], check=True
    )
    return where
