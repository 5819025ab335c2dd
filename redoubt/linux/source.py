# SPDX-License-Identifier: GPL-2.0-only
"""The pristine kernel: Debian's source package, or a tree the user has. Also other kernels."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import alone, run_logged
from redoubt.core.progress import Progress
from redoubt.linux import debian

SERIES = "7.3"
PACKAGE = f"linux-source-{SERIES}"
# How to do without the archive where it is another kernel that is wanted.
WITHOUT_OTHER = "give a kernel tree: --onto /path/to/linux"
# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = ".src-*"


@dataclass(frozen=True)
class Source:
    """A pristine kernel tree and its version, like 7.3.4."""

    path: Path
    version: str


def version_of(tree: Path, without: str = debian.WITHOUT_KERNEL) -> str:
    """The version that the top Makefile of a kernel tree states.

    Raises RedoubtError, with the hint `without`, if it is not a kernel tree.
    """
    try:
        head = (tree / "Makefile").read_text(errors="replace")[:2000]
    except OSError as error:
        raise RedoubtError(
            f"{tree} is not a kernel tree: {error.strerror or error}", without
        ) from error
    fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL)\s*=\s*(\d+)\s*$", head, re.MULTILINE))
    if len(fields) != 3 or not (tree / "Kbuild").exists():
        raise RedoubtError(f"{tree} is not a kernel tree: its Makefile is not Linux's", without)
    extra = re.search(r"^EXTRAVERSION\s*=\s*(-rc\d+)", head, re.MULTILINE)
    return "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}".format(**fields) + (extra[1] if extra else "")


def _checked(tree: Path) -> Source:
    version = version_of(tree)
    if not version.startswith(SERIES + ".") or "-rc" in version:
        raise RedoubtError(
            f"{tree} is Linux {version}; the patches are for {SERIES}.y", debian.WITHOUT_KERNEL
        )
    return Source(tree, version)


def obtain(progress: Progress) -> Source:
    """The pristine kernel: $LINUX_SRC if that is set, else downloaded and unpacked once."""
    given = os.environ.get("LINUX_SRC")
    if given:
        return _checked(Path(given).resolve())

    destination = paths.build_dir() / "src"
    with alone("source"):
        # It is renamed into place when complete, so it is.
        if not destination.exists():
            archive = debian.Archive(progress)
            archive.update()
            _unpack(archive.newest_file(PACKAGE), destination, progress)
    # A link would be copied as one, and patching the copy would patch this.
    return _checked(destination.resolve())


def other(tree: Path) -> Source:
    """A kernel tree of any version that the user has."""
    tree = tree.resolve()
    return Source(tree, version_of(tree, WITHOUT_OTHER))


def packaged(package: str, progress: Progress) -> Source:
    """The kernel of a source package of the archive, as linux-source-7.2, unpacked once."""
    if not package.startswith("linux-source-"):
        raise RedoubtError(f"{package} is no source of Linux", "as in: --package linux-source-7.2")
    archive = debian.Archive(progress, (debian.SUITE, debian.RELEASE), WITHOUT_OTHER)
    archive.update()
    file = archive.newest_file(package)
    destination = paths.build_dir() / file.stem
    if not destination.exists():
        _unpack(file, destination, progress, WITHOUT_OTHER)
    return other(destination)


def _unpack(
    package: Path, destination: Path, progress: Progress, without: str = debian.WITHOUT_KERNEL
) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    log = destination.parent / "log" / "source.log"
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=UNFINISHED[:-1]) as name:
        partial = Path(name)
        with progress.step(f"Unpacking {package.name}"):
            try:
                debian.extract(package, partial, log)
            except RedoubtError:
                # Perhaps cut short by a full disk: do not trip over it again.
                package.unlink(missing_ok=True)
                raise
            tarball = next(partial.glob("usr/src/linux-source-*.tar.*"), None)
            if not tarball:
                raise RedoubtError(f"{package.name} has no kernel source in it", without)
            (partial / "tree").mkdir()
            run_logged(
                ["tar", "-xf", tarball, "-C", partial / "tree", "--strip-components=1"],
                log,
                what=f"unpacking {tarball.name}",
            )
            tarball.unlink()
        (partial / "tree").rename(destination)
