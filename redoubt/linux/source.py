# SPDX-License-Identifier: GPL-2.0-only
"""The pristine kernel: Debian's source package, or a tree the user has. Also other kernels."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.process import alone, run_logged
from redoubt.core.progress import Progress
from redoubt.linux import applied, debian, pinned
from redoubt.linux.pinned import Pinned
from redoubt.linux.version import stamp_of, version_of

SERIES = "7.3"
PACKAGE = f"linux-source-{SERIES}"
# How to do without the archive where it is another kernel that is wanted.
WITHOUT_OTHER = "give a kernel tree: --onto /path/to/linux"
_STABLE = "https://git.kernel.org/pub/scm/linux/kernel/git/stable/linux.git"
# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = ".src-*"
# The files by which the kernel's own make refuses a tree, but for one of each architecture.
_BUILT = (".config", "include/config")


@dataclass(frozen=True)
class Source:
    """A pristine kernel tree and its version, like 7.3.4."""

    path: Path
    version: str


def _checked(tree: Path) -> Source:
    version = version_of(tree)
    if not version.startswith(SERIES + ".") or "-rc" in version:
        raise RedoubtError(
            f"{tree} is Linux {version}; the patches are for {SERIES}.y", debian.WITHOUT_KERNEL
        )
    return Source(tree, version)


def _own(tree: Path) -> Source:
    """A tree of the user's, which nobody has patched yet, or built in."""
    found = _checked(tree)
    applied.needs_none(tree, found.version, paths.repo())
    if any((tree / left).exists() for left in _BUILT):
        raise RedoubtError(
            f"{tree} was built in, and make builds nothing elsewhere from such a tree",
            f"save its .config, then: make -C {tree} mrproper",
        )
    return found


def obtain(progress: Progress) -> Source:
    """The pristine kernel that the environment asks for, or the pinned one.

    $LINUX_SRC names a tree, $LINUX_VERSION a point release. Without both it is the package of
    configs/source.toml, downloaded and unpacked once, or the newest if the archive has that no
    more: the user is told so. Raises UsageError if both are set.
    """
    given, asked = os.environ.get("LINUX_SRC"), os.environ.get("LINUX_VERSION")
    if given and asked:
        raise UsageError("LINUX_SRC and LINUX_VERSION ask for two kernels", "unset one of them")
    if given:
        return _own(Path(given).resolve())
    return release(asked, progress) if asked else _pinned(progress)


def _pinned(progress: Progress) -> Source:
    pin = pinned.load(paths.repo())
    destination = paths.build_dir() / "src"
    with alone("source"):
        if not _taken_for(destination, pin):
            file = _package_of(pin, progress)
            # It is renamed into place when complete, and the stamp follows.
            stamp_of(destination).unlink(missing_ok=True)
            _unpack(file, destination, progress)
            stamp_of(destination).write_text(f"{pin.sha256}\n{file.name}\n")
    # A link would be copied as one, and patching the copy would patch this.
    return _checked(destination.resolve())


def _taken_for(tree: Path, pin: Pinned) -> bool:
    """Was the tree unpacked for what is pinned now?"""
    if tree.is_symlink() or not tree.exists():
        return tree.exists()
    if stamp_of(tree).exists():
        return stamp_of(tree).read_text().split()[0] == pin.sha256
    # It is older than stamps, or was interrupted before it got one.
    return version_of(tree) == pin.release


def _package_of(pin: Pinned, progress: Progress) -> Path:
    """The file of the pinned package, or of the newest one if the archive has no other."""
    kept = debian.cached(pin.package, pin.version)
    if kept.exists() and debian.digest(kept) == pin.sha256:
        return kept
    archive = debian.Archive(progress)
    archive.update()
    there = archive.versions(pin.package)
    if not there:
        raise archive.lacks(pin.package)
    if pin.version in there:
        return archive.download(pin.package, pin.version, pin.sha256)
    progress.note(
        f"the archive has {pin.package} {pin.version} no more, with which the patches were tested: "
        f"taking {there[0]}"
    )
    return archive.download(pin.package, there[0])


def needs_release(version: str) -> None:
    """Raise UsageError unless it is a point release of our series, whether there is one or not."""
    if not re.fullmatch(rf"{re.escape(SERIES)}\.\d+", version):
        raise UsageError(
            f"'{version}' is no point release of Linux {SERIES}, and no kernel tree",
            f"as in: {pinned.load(paths.repo()).release}, or /path/to/linux",
        )


def release(version: str, progress: Progress) -> Source:
    """A point release, like 7.3.5, from the archive, unpacked once.

    Raises UsageError for a text that is none of our series, and RedoubtError if the archive has it
    not.
    """
    needs_release(version)
    if version == pinned.load(paths.repo()).release:
        found = _pinned(progress)
        if found.version == version:
            return found
    with alone("source"):
        if unpacked := next(paths.build_dir().glob(f"{PACKAGE}_{version}-*"), None):
            return _checked(unpacked)
        archive = debian.Archive(progress)
        archive.update()
        there = archive.versions(PACKAGE)
        match = next((one for one in there if one.startswith(f"{version}-")), None)
        if not match:
            known = f"; it has {', '.join(there)}" if there else ""
            raise RedoubtError(
                f"the archive has no Linux {version}{known}",
                f"git clone --depth=1 --branch=v{version} {_STABLE}, and give its directory",
            )
        return _checked(_unpacked(archive.download(PACKAGE, match), progress))


def other(tree: Path, without: str = WITHOUT_OTHER) -> Source:
    """A kernel tree of any version that the user has; RedoubtError with a hint if it is none."""
    tree = tree.resolve()
    return Source(tree, version_of(tree, without))


def needs_package(name: str) -> None:
    """Raise UsageError unless it may be the name of a source package, whether there is one."""
    if not name.startswith("linux-source-"):
        raise UsageError(
            f"{name} is no kernel tree, and no source package of Linux",
            "as in: --onto /path/to/linux, or --onto linux-source-7.2",
        )


def packaged(package: str, progress: Progress) -> Source:
    """The kernel of a source package of the archive, as linux-source-7.2, unpacked once."""
    needs_package(package)
    archive = debian.Archive(progress, (debian.SUITE, debian.RELEASE), WITHOUT_OTHER)
    archive.update()
    file = archive.newest_file(package)
    return other(_unpacked(file, progress, WITHOUT_OTHER))


def is_packaged(tree: Path) -> bool:
    """Is it the kernel of the package PACKAGE, as unpacked here?"""
    built = paths.build_dir()
    return tree == built / "src" or (tree.parent == built and tree.name.startswith(f"{PACKAGE}_"))


def _unpacked(file: Path, progress: Progress, without: str = debian.WITHOUT_KERNEL) -> Path:
    """The directory of a source package that has this name, unpacked if it is not there."""
    destination = paths.build_dir() / file.stem
    if not destination.exists():
        _unpack(file, destination, progress, without)
    return destination


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
        if destination.exists():
            destination.rename(partial / "old")
        (partial / "tree").rename(destination)
