# SPDX-License-Identifier: GPL-2.0-only
"""What is known and has a reason: the TOML files of configs/."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError


def read(path: Path, what: str) -> dict[str, Any]:
    """The keys of such a file, which is called `what`; raises RedoubtError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RedoubtError(f"cannot read {what} {path}: {error.strerror}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RedoubtError(f"{path} is not valid TOML: {error}") from error
