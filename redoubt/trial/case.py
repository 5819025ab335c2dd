# SPDX-License-Identifier: GPL-2.0-only
"""One test and how it ended, of whatever framework."""

from __future__ import annotations

from dataclasses import dataclass

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Case:
    """A test by its name; `outcome` is PASSED, FAILED or SKIPPED, and `why` for people."""

    name: str
    outcome: str
    why: str = ""
