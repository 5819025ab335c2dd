# SPDX-License-Identifier: GPL-2.0-only
"""The paths that an audit follows, and what is known on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

# So much may be known in one place, on different paths; beyond that nothing is.
_MOST_KNOWN = 64


@dataclass(frozen=True)
class Known:
    """Registers, by number, that hold a constant which was put there on the path, and which one.

    `differs` is true if the flags are certainly not those of an equality.
    """

    held: frozenset[tuple[int, int]] = frozenset()
    differs: bool = False


NOTHING = Known()

# Where control goes from an address, and what is known there; None if it may leave the function.
Ahead = Callable[[int, Known], list[tuple[int, Known]] | None]


def way_out(starts: Iterable[int], ahead: Ahead) -> int | None:
    """Where one of the paths that begin in these places leaves the function, if one does."""
    seen: dict[int, set[Known]] = {}
    todo = [(start, NOTHING) for start in starts]
    while todo:
        address, known = todo.pop()
        before = seen.setdefault(address, set())
        if len(before) >= _MOST_KNOWN:
            known = NOTHING
        # A path that knew as much or less has been here.
        if known in before or NOTHING in before:
            continue
        before.add(known)
        following = ahead(address, known)
        if following is None:
            return address
        todo += following
    return None
