# SPDX-License-Identifier: GPL-2.0-only
"""Where two versions of a file differ, as diff tells, with which the patches are made.

Where lines change places, it is a matter of taste which of them have moved.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_lines

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class Hunk(NamedTuple):
    """Lines of the old file, from 1, in whose place the new one has others; either may be none."""

    old: range
    new: range


def hunks(before: Path, after: Path) -> list[Hunk]:
    """The differences, in order; raises RedoubtError if a file cannot be read."""
    lines: list[str] = []
    ended = run_lines(["diff", "-a", "-U0", before, after], lines.append, env={"LC_ALL": "C"})
    if ended.code not in (0, 1):
        raise RedoubtError("\n".join([f"diff failed ({ended}):", *lines]))
    found = (match.groups("1") for line in lines if (match := _HUNK.match(line)))
    return [Hunk(_range(old, size), _range(new, room)) for old, size, new, room in found]


def _range(first: str, count: str) -> range:
    # Of no lines diff names the one before the gap.
    start = int(first) + (count == "0")
    return range(start, start + int(count))
