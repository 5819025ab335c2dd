# SPDX-License-Identifier: GPL-2.0-only
"""What is known on the paths that an audit follows, and where it has been with what."""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass
class Visited:
    """Where paths have been, by address, and what was known there."""

    seen: dict[int, set[Known]] = field(default_factory=dict)

    def enter(self, address: int, known: Known) -> Known | None:
        """What to go on with from here; None if a path that knew as much or less has been here."""
        before = self.seen.setdefault(address, set())
        if len(before) >= _MOST_KNOWN:
            known = NOTHING
        if known in before or NOTHING in before:
            return None
        before.add(known)
        return known
