# SPDX-License-Identifier: GPL-2.0-only
"""The configuration that a distribution ships, to start from in place of the smallest one.

It is taken from the distribution's package each time, and is in no repository: what it enables is
what our work has to live with. For tests modules, which are drivers, are dropped; the fragment
`distro` drops the rest of what would take hours to build. Packages are made from all of it.
"""

from __future__ import annotations

import lzma
import platform
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.linux import debian
from redoubt.linux.source import SERIES
from redoubt.targets import Target

# The flavour of a target that is built from it.
FLAVOUR = "distro"
PACKAGE = f"linux-config-{SERIES}"


def without_modules(text: str) -> str:
    """A configuration without the options that would be modules."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.endswith("=m\n"))


def _foreign(target: Target) -> str:
    """Debian's name of the target's architecture, or empty if it is this machine's."""
    return "" if platform.machine() == target.arch else target.debian


def configuration(target: Target, progress: Progress, *, modules: bool = False) -> Path:
    """The file to start from, with or without what are modules, downloaded once for each."""
    what = "-modules" if modules else ""
    kept = paths.build_dir() / "distro" / f"{target.name}{what}.config"
    if kept.exists():
        # It is renamed into place when complete, so it is.
        return kept
    archive = debian.Archive(progress, architecture=_foreign(target))
    archive.update()
    package = archive.newest_file(PACKAGE)
    with debian.unpacked(package, kept, paths.build_dir() / "log" / "distro.log") as files:
        packed = next(files.glob(f"usr/src/linux-config-*/{target.distro_config}.xz"), None)
        if not packed:
            raise RedoubtError(f"{package.name} has no {target.distro_config} in it")
        partial = files / "config"
        text = lzma.decompress(packed.read_bytes()).decode()
        partial.write_text(text if modules else without_modules(text))
        partial.rename(kept)
    return kept
