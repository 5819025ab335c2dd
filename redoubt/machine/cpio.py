# SPDX-License-Identifier: GPL-2.0-only
"""Writing an initramfs: the cpio format "newc", which needs no privilege to make."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class Entry:
    """A file of root's: its name from the top, its mode with the type, its content."""

    name: str
    mode: int
    data: bytes = b""


def directory(name: str) -> Entry:
    """An empty directory."""
    return Entry(name, stat.S_IFDIR | 0o755)


def regular(name: str, data: bytes, *, executable: bool = False) -> Entry:
    """A file with some content."""
    return Entry(name, stat.S_IFREG | (0o755 if executable else 0o644), data)


def tree(root: Path, under: str = "") -> Iterator[Entry]:
    """Everything in a directory, but not the directory itself; directories before their files."""
    prefix = f"{under}/" if under else ""
    for path in sorted(root.rglob("*")):
        name = f"{prefix}{path.relative_to(root)}"
        mode = path.lstat().st_mode
        if path.is_symlink():
            yield Entry(name, mode, os.readlink(path).encode())
        elif path.is_dir():
            yield Entry(name, mode)
        else:
            yield Entry(name, mode, path.read_bytes())


def _write(out: BinaryIO, inode: int, entry: Entry) -> None:
    """One file, as Documentation/driver-api/early-userspace/buffer-format.rst has it."""
    size = len(entry.data)
    fields = (inode, entry.mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(entry.name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    for part in (header + entry.name.encode() + b"\0", entry.data):
        out.write(part + b"\0" * (-len(part) % 4))


def write(entries: Iterable[Entry], to: Path) -> None:
    """Write an archive of the entries, in their order."""
    with to.open("wb") as out:
        for inode, entry in enumerate(entries, 1):
            _write(out, inode, entry)
        _write(out, 0, Entry("TRAILER!!!", 0))
