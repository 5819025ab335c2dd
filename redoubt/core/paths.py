# SPDX-License-Identifier: GPL-2.0-only
"""Where things are: the repository, what is built, what is kept between builds."""

from __future__ import annotations

import os
from pathlib import Path


def repo() -> Path:
    """The repository this tool runs from."""
    return Path(__file__).resolve().parents[2]


def build_dir() -> Path:
    """Everything that is built: $REDOUBT_BUILD, or build/ in the repository."""
    given = os.environ.get("REDOUBT_BUILD")
    return Path(given).resolve() if given else repo() / "build"


def cache_dir() -> Path:
    """The user's cache: downloaded packages and ccache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "redoubt"


def results_dir() -> Path:
    """The results that are kept in the repository."""
    return repo() / "results"
