# SPDX-License-Identifier: GPL-2.0-only
"""A unified kernel image: systemd's stub for EFI with kernel and initramfs, one file to sign.

Made with objcopy, as the stub's documentation says: Debian 12 has no ukify. It has no command
line of its own, so that one file serves all entries of the menu, under Secure Boot as well.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.process import run_logged

_OS_RELEASE = 'ID=redoubt\nNAME="Redoubt"\nPRETTY_NAME="Redoubt"\n'
_ALIGNMENT = 4096


@dataclass(frozen=True)
class Section:
    """A section of a program for EFI: its address, with that of the whole, and its size."""

    name: str
    address: int
    size: int
    offset: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size


def sections(file: Path) -> list[Section]:
    """The sections of a program for EFI.

    Raises RedoubtError if the file is none.
    """
    data = file.read_bytes()
    try:
        if data[:2] != b"MZ":
            raise ValueError
        (header,) = struct.unpack_from("<I", data, 0x3C)
        if data[header : header + 4] != b"PE\0\0":
            raise ValueError
        number, optional = struct.unpack_from("<H12xH", data, header + 6)
        (base,) = struct.unpack_from("<Q", data, header + 24 + 24)
        found = []
        for at in range(number):
            name, size, address, _, offset = struct.unpack_from(
                "<8sIIII", data, header + 24 + optional + 40 * at
            )
            found.append(Section(name.rstrip(b"\0").decode(), base + address, size, offset))
    except (struct.error, ValueError) as error:
        raise RedoubtError(f"{file} is no program for EFI") from error
    return found


def needs_stub(kernel: Path) -> None:
    """Raise UsageError if the firmware of a machine cannot start a kernel."""
    try:
        sections(kernel)
    except RedoubtError as error:
        raise UsageError(
            f"firmware cannot start {kernel}: it has no EFI stub",
            "build it with CONFIG_EFI=y and CONFIG_EFI_STUB=y, as configs/kernel/image.config does",
        ) from error


def make(stub: Path, parts: Mapping[str, Path], output: Path, objcopy: str) -> None:
    """Make an image of the stub and these sections, as .linux and .initrd, in this order."""
    release = output.with_name("os-release")
    release.write_text(_OS_RELEASE)
    words: list[str | Path] = [objcopy]
    address = max(section.end for section in sections(stub))
    for name, file in {".osrel": release, **parts}.items():
        address += -address % _ALIGNMENT
        words += [
            "--add-section", f"{name}={file}", "--set-section-flags", f"{name}=data,readonly",
            "--change-section-vma", f"{name}={address:#x}",
        ]  # fmt: skip
        address += file.stat().st_size
    run_logged(
        [*words, stub, output],
        paths.build_dir() / "log" / "uki.log",
        what="making the unified kernel image",
    )
