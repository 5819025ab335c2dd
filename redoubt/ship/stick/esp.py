# SPDX-License-Identifier: GPL-2.0-only
"""A disk image with one partition that firmware starts programs from; no root makes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_logged

MIB = 1 << 20
_SECTOR = 512
# Where the partition begins, and what the second table at the end of the disk takes.
_BEGIN = MIB
_BEHIND = MIB
# For the journal and the results; and the least that is FAT32, of which some firmware asks.
_FREE = 64 * MIB
_LEAST = 128 * MIB
# EFI system partition.
_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
_PROGRAMS = ("mformat", "mcopy", "sfdisk")


def program(name: str) -> str:
    """One of the programs that are needed, some of which only root has in the path."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    return shutil.which(name, path=path) or name


def needs() -> None:
    """Raise RedoubtError if a program that makes a disk image is missing."""
    if missing := [name for name in _PROGRAMS if not Path(program(name)).is_absolute()]:
        raise RedoubtError(f"{', '.join(missing)} not found", paths.prerequisites("image"))


def make(files: Mapping[str, bytes | Path], name: str, output: Path) -> None:
    """Make an image of a disk that has these files, in a partition of this name.

    It appears whole or not at all.
    """
    log = paths.build_dir() / "log" / "disk-image.log"
    with tempfile.TemporaryDirectory(prefix="redoubt-", dir=output.parent) as scratch:
        root, image = Path(scratch) / "root", Path(scratch) / "image"
        size = 0
        for path, content in files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                # A link would be copied as one.
                shutil.copyfile(content, file)
            else:
                file.write_bytes(content)
            size += file.stat().st_size
        size = max(_LEAST, size + _FREE)
        size += -size % MIB
        with image.open("wb") as disk:
            disk.truncate(_BEGIN + size + _BEHIND)
        _partition(image, size // _SECTOR, name, log)
        where = f"{image}@@{_BEGIN}"
        format_ = ["mformat", "-i", where, "-F", "-v", "REDOUBT", "-T", str(size // _SECTOR), "::"]
        copy = ["mcopy", "-i", where, "-s", "-Q", *map(str, sorted(root.iterdir())), "::"]
        for words in (format_, copy):
            run_logged(
                [program(words[0]), *words[1:]],
                log,
                what=f"{words[0]} of the disk image",
                env={"MTOOLS_SKIP_CHECK": "1", "MTOOLSRC": os.devnull},
            )
        # As other files that are made, and not for its owner alone.
        image.chmod(0o644)
        image.rename(output)


def _partition(image: Path, sectors: int, name: str, log: Path) -> None:
    table = (
        f"label: gpt\nunit: sectors\n"
        f"start={_BEGIN // _SECTOR}, size={sectors}, type={_TYPE}, name={name}\n"
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [program("sfdisk"), "--quiet", str(image)],
            input=table, text=True, capture_output=True, check=False,
        )  # fmt: skip
    except OSError as error:
        raise RedoubtError(f"sfdisk: {error.strerror}") from error
    log.write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RedoubtError(f"sfdisk failed: {done.stderr.strip()}", f"its output is in {log}")


def read(image: Path, file: str) -> bytes | None:
    """A file out of a disk image, None if it is not there."""
    done = subprocess.run(
        [program("mtype"), "-i", f"{image}@@{_BEGIN}", f"::{file}"],
        env={**os.environ, "MTOOLS_SKIP_CHECK": "1"}, capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else None


def names(image: Path, directory: str = "") -> list[str]:
    """The files in a directory of a disk image, by their paths from the top."""
    done = subprocess.run(
        [program("mdir"), "-i", f"{image}@@{_BEGIN}", "-b", f"::{directory}"],
        env={**os.environ, "MTOOLS_SKIP_CHECK": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return sorted(line.removeprefix("::/") for line in done.stdout.splitlines())
