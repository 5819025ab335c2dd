# SPDX-License-Identifier: GPL-2.0-only
"""Packages of Debian, unpacked in a directory of their own: what a guest runs or is linked with.

Also of another architecture than this machine's. No root, and nothing of the system is touched.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.image.elf import Elf
from redoubt.linux import debian


def _place(package: str) -> Path:
    return paths.cache_dir() / "rootless" / package


def system(architecture: str, packages: Sequence[str], progress: Progress) -> Path:
    """The files of packages with all that they depend on: what a guest can run. Got once.

    `architecture` is Debian's name of the guest's, which may be this machine's.
    """
    place = _place("+".join((debian.RELEASE, architecture, *packages)))
    archive = debian.Archive(
        progress,
        (debian.RELEASE,),
        f"unpack {', '.join(packages)} of {architecture}, with what they depend on, in {place}",
        architecture,
    )
    return _unpacked(
        place, f"{' and '.join(packages)} with all dependencies", archive,
        lambda where: archive.download_whole(packages, where),
    )  # fmt: skip


def _library(root: Path, name: str) -> Path:
    found = next(root.glob(f"usr/lib/*-linux-gnu/{name}"), None)
    if not found:
        raise RedoubtError(f"{root} has no {name}", f"rm -r {root}")
    return found


def program(root: Path, name: str) -> dict[str, Path]:
    """What a guest needs to run a program of unpacked packages: from its path there to the file.

    That is the program, its loader, and the libraries it is linked with.
    """
    file = root / "usr/bin" / name
    files = {f"usr/bin/{name}": file}
    read = Elf(file)
    if read.interpreter:
        loader = Path(read.interpreter)
        files[str(loader.relative_to("/"))] = _library(root, loader.name)
    todo = read.needed
    while todo:
        library = _library(root, todo.pop())
        where = str(library.relative_to(root))
        if where not in files:
            files[where] = library
            todo += Elf(library).needed
    return files


def place_of(architecture: str, packages: Sequence[str]) -> Path:
    """Where `foreign` unpacks; it is there when it is complete."""
    return _place("+".join((architecture, *packages)))


def foreign(architecture: str, packages: Sequence[str], progress: Progress) -> Path:
    """The files of packages of another architecture, without what they depend on, got once.

    `architecture` is Debian's name of it. They are of the oldest Debian that we run on, so that
    its static libraries can be linked with the libc of this one.
    """
    place = place_of(architecture, packages)
    archive = debian.Archive(
        progress,
        (debian.OLDEST,),
        f"unpack {', '.join(packages)} of {architecture} in {place}",
        architecture,
    )
    return _unpacked(
        place, f"packages of {architecture}", archive,
        lambda _: [archive.newest_file(package) for package in packages],
    )  # fmt: skip


def _unpacked(
    place: Path, what: str, archive: debian.Archive, download: Callable[[Path], list[Path]]
) -> Path:
    """Unpack in `place` the files that `download` gets, for which it may use the directory."""
    if not place.exists():
        archive.update()
    if place.exists():
        # Perhaps another was faster, whom the archive waited for.
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".partial-") as name:
        partial = Path(name)
        files = download(partial / "packages")
        root = partial / "root"
        root.mkdir()
        with archive.progress.step(f"Unpacking {what}"):
            for file in files:
                archive.progress.detail(file.name)
                debian.extract(file, root, place.parent / "log")
        root.rename(place)
    return place
