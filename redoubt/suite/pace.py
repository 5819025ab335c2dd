# SPDX-License-Identifier: GPL-2.0-only
"""How much time is left of a run: by what each of its steps took the last time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths


@dataclass(frozen=True)
class Left:
    """The seconds that are left, or more than these if a step that is left never ran here."""

    seconds: float
    more: bool

    def __str__(self) -> str:
        minutes = round(self.seconds / 60)
        text = f"{minutes} min" if minutes else "a minute"
        how = "more than" if self.more else "about" if minutes else "less than"
        return f"{how} {text} left"


class Pace:
    """The steps of a run by their names, done `at_once` of them at a time."""

    def __init__(self, steps: Sequence[str], at_once: int) -> None:
        self.at_once = at_once
        self.before = _recorded()
        self.spent = dict.fromkeys(steps, 0.0)
        self.running = set(steps)
        self.good = set(steps)

    def spend(self, step: str, seconds: float, good: bool) -> None:
        """Note what a part of a step took, and that it did not fail."""
        self.spent[step] += seconds
        if not good:
            self.good.discard(step)

    def end(self, step: str) -> None:
        """Note that a step is through."""
        self.running.discard(step)

    def left(self) -> Left | None:
        """The time that is left, or None if nothing is known of it."""
        known = [
            max(0.0, self.before[step] - self.spent[step])
            for step in self.running
            if step in self.before
        ]
        if not known:
            return None
        return Left(max(max(known), sum(known) / self.at_once), len(known) < len(self.running))

    def keep(self) -> None:
        """Remember what the steps took of which nothing failed, for the next run."""
        took = {step: self.spent[step] for step in self.good - self.running}
        # A run is as good without.
        with contextlib.suppress(OSError):
            _record().parent.mkdir(parents=True, exist_ok=True)
            _record().write_text(json.dumps(self.before | took, indent=2) + "\n")


def _record() -> Path:
    return paths.build_dir() / "log" / "steps.json"


def _recorded() -> dict[str, float]:
    try:
        found = json.loads(_record().read_text())
        return {str(step): float(seconds) for step, seconds in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        # There was no run yet, or its record is not whole.
        return {}
