# SPDX-License-Identifier: GPL-2.0-only
"""The kernel source package that the queue was tested with, as configs/source.toml names it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from redoubt.core.errors import RedoubtError


@dataclass(frozen=True)
class Pinned:
    """One version of a Debian package, with the SHA-256 of its file in hexadecimal."""

    package: str
    version: str
    sha256: str

    @property
    def release(self) -> str:
        """The version of Linux in it, like 7.3.4."""
        return self.version.partition("-")[0]


def load(repo: Path) -> Pinned:
    """The kernel source package of a repository; RedoubtError if configs/source.toml is damaged."""
    file = repo / "configs" / "source.toml"
    try:
        found = Pinned(**tomllib.loads(file.read_text(encoding="utf-8"))["kernel"])
    except OSError as error:
        raise RedoubtError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise RedoubtError(f"{file} is damaged: {error}") from error
    if not re.fullmatch("[0-9a-f]{64}", found.sha256):
        raise RedoubtError(f"{file} is damaged: {found.sha256!r} is no SHA-256")
    return found
