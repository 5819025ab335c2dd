# SPDX-License-Identifier: GPL-2.0-only
"""A kernel that somebody else has built: the image is all that has to be there."""

from __future__ import annotations

import os
from pathlib import Path

from redoubt.core.errors import UsageError
from redoubt.linux.build import Build
from redoubt.machine import host
from redoubt.targets import Target


def kernel(target: Target, image: Path, where: str) -> Build:
    """The build that an image belongs to, to boot on the host `where`.

    If the image lies where the kernel's own build leaves it, its configuration, modules and
    symbols are found beside it.

    Raises UsageError if it cannot be read, or is no image that the target boots.
    """
    image = image.absolute()
    offset, magic = target.magic
    try:
        with image.open("rb") as file:
            file.seek(offset)
            found = file.read(len(magic))
    except OSError as error:
        raise UsageError(f"cannot read {image}: {error.strerror}") from error
    if found != magic:
        raise UsageError(
            f"{image} is no kernel that {target.name} boots",
            f"a build for ARCH={target.arch} leaves one in {target.image}",
        )
    if where == host.NATIVE and not os.access(image, os.X_OK):
        raise UsageError(f"{image} is not executable", f"chmod +x {image}")
    directory = _build_directory(image, Path(target.image))
    return Build(target, directory, image, directory / target.vmlinux)


def _build_directory(image: Path, usual: Path) -> Path:
    up = len(usual.parts)
    return image.parents[up - 1] if image.parts[-up:] == usual.parts else image.parent
