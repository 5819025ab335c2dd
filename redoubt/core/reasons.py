# SPDX-License-Identifier: GPL-2.0-only
"""What is known and has a reason: the TOML files of configs/."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError

_TYPES = {str: "text", int: "number", bool: "true or false", list: "list", dict: "table"}


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


def tables(
    path: Path, raw: dict[str, Any], key: str, types: Mapping[str, type], optional: Collection[str]
) -> list[dict[str, Any]]:
    """The tables [[key]] of such a file, with the types of what is in each; no text is empty.

    Raises RedoubtError, naming the key at fault, if one has not all but the `optional` keys, or
    others.
    """
    found = raw.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise RedoubtError(f"{path}: {key} must be a list of tables ([[{key}]])")
    for entry in found:
        if missing := sorted(types.keys() - optional - entry.keys()):
            raise RedoubtError(f"{path}: an entry of {key} lacks {', '.join(missing)}")
        if unknown := sorted(entry.keys() - types.keys()):
            raise RedoubtError(f"{path}: an entry of {key} has an unknown key {', '.join(unknown)}")
        for name, value in entry.items():
            empty = isinstance(value, str) and not value.strip()
            if type(value) is not types[name] or empty:
                raise RedoubtError(
                    f"{path}: {name} of an entry of {key} is no {_TYPES[types[name]]}"
                )
    return found
