# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel with address space isolation says of itself, in debugfs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from redoubt.boot import Machine

ON = "asi=on"
AUDIT = "/sys/kernel/debug/asi/audit"
_COUNT = re.compile(r"^(sensitive|ordinary|leaks|missing|stale) (\d+)")
_LAST = "stale"


@dataclass(frozen=True)
class Audit:
    """The pageblocks of a kernel; see kernel/Documentation/mm/asi.rst."""

    sensitive: int
    ordinary: int
    leaks: int
    missing: int
    stale: int

    @property
    def clean(self) -> bool:
        """Are there blocks of both kinds, and none in the restricted direct map that must not be?

        What is missing there is slow only.
        """
        return bool(self.sensitive and self.ordinary) and not (self.leaks or self.stale)


def asked_for(machine: Machine) -> bool:
    """Is a machine booted with it?"""
    return ON in machine.args


def look(machine: Machine) -> list[list[str]]:
    """What a guest runs to audit itself; nothing if there is nothing to audit."""
    return [["/bin/cat", AUDIT]] if asked_for(machine) else []


def parse_audits(lines: Sequence[str]) -> tuple[Audit, ...]:
    """All audits on a console."""
    audits: list[Audit] = []
    counts: dict[str, int] = {}
    for line in lines:
        if match := _COUNT.match(line):
            counts[match[1]] = int(match[2])
            if match[1] == _LAST:
                audits.append(Audit(*(counts.get(n, 0) for n in Audit.__annotations__)))
                counts = {}
    return tuple(audits)
