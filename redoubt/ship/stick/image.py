# SPDX-License-Identifier: GPL-2.0-only
"""The image: systemd-boot, its menu, a unified kernel image, and what the machine is to do."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.progress import Progress
from redoubt.linux import rootless
from redoubt.linux.build import Build
from redoubt.machine import cpio, guest
from redoubt.ship.stick import esp, uki
from redoubt.ship.stick.plan import Entry, Plan
from redoubt.targets import Target

FORMAT = 1
_PACKAGE = "systemd-boot-efi"
_PLACE = "usr/lib/systemd/boot/efi"
# How EFI names a machine, for what it starts from a disk by itself.
_MACHINES = {"x86_64": "x64", "arm64": "aa64"}
_UKI = "EFI/redoubt/redoubt.efi"
_MENU_S = 5
# Options of the kernel that say which protection it has.
_TOLD = ("CONFIG_KPKEYS_", "CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION", "CONFIG_X86_PKS",
         "CONFIG_ARM64_POE", "CONFIG_X86_MKTME")  # fmt: skip
# A kernel needs these to get from firmware to the journal, and cannot load them.
_NEEDED = ("CONFIG_EFI_STUB", "CONFIG_VFAT_FS", "CONFIG_EFI_PARTITION", "CONFIG_NLS_CODEPAGE_437",
           "CONFIG_NLS_ISO8859_1", "CONFIG_BLK_DEV_INITRD")  # fmt: skip
_READ_ME = """\
This disk tests Redoubt, a hardened Linux kernel, on the machine that is started from it. It writes
to no other disk. When it is done, send the file results-*.json to those you have it from, or add it
to a checkout of the repository: redoubt import FILE. docs/real-machine.md there says more.
"""


@dataclass(frozen=True)
class Parts:
    """The parts of a boot: kernel, initramfs, and the name of the partition to look for."""

    kernel: Path
    initramfs: Path
    partition: str


def needs(target: Target) -> None:
    """Raise RedoubtError if a program that makes an image is missing."""
    esp.needs()
    objcopy = _objcopy(target)
    if not shutil.which(objcopy):
        raise RedoubtError(f"{objcopy} not found", paths.prerequisites(target.name))


def _objcopy(target: Target) -> str:
    return f"{target.cross_compile}objcopy"


def needs_options(build: Build) -> None:
    """Raise UsageError if a kernel lacks what a real machine takes to boot, as far as is known."""
    uki.needs_stub(build.image)
    have = build.configuration()
    missing = [name for name in _NEEDED if have.get(name) != "y"]
    if have and missing:
        raise UsageError(
            f"{build.image} cannot boot from a disk by itself: it is built without "
            f"{', '.join(missing)}",
            "configs/kernel/image.config lists what it needs; or leave --kernel out",
        )


def make(
    build: Build,
    programs: Path,
    plan: Plan,
    origin: Mapping[str, Any],
    output: Path,
    progress: Progress,
    plain: Path | None = None,
) -> None:
    """Make the disk image; `plain` is a directory for the same as kernel, initramfs and arguments.

    `origin` is the provenance of what is made.
    """
    target = build.target
    systemd = rootless.foreign(target.debian, (_PACKAGE,), progress) / _PLACE
    machine = _MACHINES[target.arch]
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        progress.step(f"Making {output.name}"),
        tempfile.TemporaryDirectory(prefix="redoubt-", dir=output.parent) as name,
    ):
        scratch = Path(name)
        parts = Parts(build.image, scratch / "initramfs", f"redoubt-{secrets.token_hex(4)}")
        _initramfs(build, programs, plan, origin, scratch, parts.initramfs)
        unified = scratch / "redoubt.efi"
        uki.make(
            systemd / f"linux{machine}.efi.stub",
            {".linux": parts.kernel, ".initrd": parts.initramfs},
            unified, _objcopy(target),
        )  # fmt: skip
        files: dict[str, bytes | Path] = {
            f"EFI/BOOT/BOOT{machine.upper()}.EFI": systemd / f"systemd-boot{machine}.efi",
            _UKI: unified,
            "loader/loader.conf": f"timeout {_MENU_S}\nconsole-mode keep\n".encode(),
            "README.TXT": _READ_ME.replace("\n", "\r\n").encode(),
        }
        for number, entry in enumerate(plan.entries, 1):
            tries = f"+{entry.tries}" if entry.steps else ""
            text = "".join(f"{line}\n" for line in _menu(plan, entry, number, parts.partition))
            files[f"loader/entries/{number:02}-{entry.name}{tries}.conf"] = text.encode()
        esp.make(files, parts.partition, output)
        if plain:
            _plain(parts, plan, plain)


def _menu(plan: Plan, entry: Entry, number: int, partition: str) -> Iterator[str]:
    yield f"title Redoubt: {entry.title}"
    yield f"sort-key redoubt{number:02}"
    yield f"efi /{_UKI}"
    yield f"options {' '.join(plan.args(entry, partition))}"


def about(build: Build, plan: Plan, origin: Mapping[str, Any]) -> dict[str, Any]:
    """The image as results describe it."""
    have = build.configuration()
    return {
        "format": FORMAT,
        "target": build.target.name,
        **{name: origin[name] for name in ("commit", "dirty", "command", "date")},
        "options": {name: value for name, value in have.items() if name.startswith(_TOLD)},
        "steps": [f"{entry.name}/{step.name}" for entry in plan.entries for step in entry.steps],
        "specs": list(map(str, plan.specs)),
    }


def _initramfs(
    build: Build, programs: Path, plan: Plan, origin: Mapping[str, Any], scratch: Path, to: Path
) -> None:
    steps, told = scratch / "steps", scratch / "image.json"
    steps.write_text("".join(f"{line}\n" for line in plan.lines()))
    told.write_text(json.dumps(about(build, plan, origin)) + "\n")
    files = {"etc/redoubt/steps": steps, "etc/redoubt/image.json": told,
             "bin/attacks": programs / "attacks"}  # fmt: skip
    root = guest.root_directory(
        programs, scratch / "root", ["/bin/tour"], build.modules, files
    )  # fmt: skip
    cpio.write(cpio.tree(root), to)
    shutil.rmtree(root)


def _plain(parts: Parts, plan: Plan, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(parts.kernel, into / "vmlinuz")
    shutil.copyfile(parts.initramfs, into / "initramfs")
    for entry in plan.entries:
        args = " ".join(plan.args(entry, parts.partition))
        (into / f"cmdline-{entry.name}").write_text(f"{args}\n")
