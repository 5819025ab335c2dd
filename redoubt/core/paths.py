# SPDX-License-Identifier: GPL-2.0-only
"""Where things are: the repository, what is built, what is kept between builds."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from redoubt.core.errors import RedoubtError

_PACKAGE = Path(__file__).resolve().parents[1]
# What setup.py puts into the wheel; in a checkout it does not exist.
_INSTALLED = _PACKAGE / "data"


def repo() -> Path:
    """The repository this tool runs from, or what was installed of it: only to be read."""
    return _INSTALLED if installed() else _PACKAGE.parent


def installed() -> bool:
    """Is this the tool out of the wheel, which has no repository?"""
    return _INSTALLED.is_dir()


def needs_checkout(verb: str, why: str, instead: str) -> None:
    """Raise RedoubtError for a tool that was installed; `instead` is what mends that."""
    if installed():
        raise RedoubtError(f"{verb} needs a checkout of the repository: {why}", instead)


def prerequisites(*groups: str) -> str:
    """The command that installs programs of Debian: scripts/prerequisites, wherever that is."""
    script = Path("scripts", "prerequisites")
    return shlex.join([str(repo() / script if installed() else script), *groups])


def _home() -> Path:
    """Where the tool may write: the repository; for one that was installed, where it is run."""
    return Path.cwd() if installed() else repo()


def build_dir() -> Path:
    """Everything that is built: $REDOUBT_BUILD, or build/ in the repository.

    For a tool that was installed it is redoubt-build/ where it is run.
    """
    given = os.environ.get("REDOUBT_BUILD")
    if given:
        return Path(given).resolve()
    return _home() / ("redoubt-build" if installed() else "build")


def existing(path: Path) -> Path:
    """The directory itself or, as long as that does not exist, the nearest one above it."""
    return next(place for place in (path, *path.parents) if place.exists())


def cache_dir() -> Path:
    """The user's cache: downloaded packages and ccache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "redoubt"


def results_dir() -> Path:
    """The results that are kept: in the repository, or where an installed tool is run."""
    return _home() / "results"
