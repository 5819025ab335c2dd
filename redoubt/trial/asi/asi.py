# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel with address space isolation says of itself, in debugfs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redoubt.core.errors import RedoubtError
from redoubt.machine.boot import Machine
from redoubt.targets import ASI_ARGS, Target
from redoubt.trial import experiment

ARGS = ASI_ARGS
AUDIT = "/sys/kernel/debug/asi/audit"
SWITCHES = "/sys/kernel/debug/asi/switches"


@dataclass(frozen=True)
class Audit:
    """The pageblocks of a kernel, and how often it entered user mode anew, and unrestricted.

    See kernel/Documentation/mm/asi.rst.
    """

    sensitive: int
    ordinary: int
    leaks: int
    missing: int
    stale: int
    aliases: int
    enter: int
    unrestricted: int

    @property
    def clean(self) -> bool:
        """Are there blocks of both kinds, and none in the restricted direct map that must not be?

        And has user mode been entered with it each time? What is missing there is slow only.
        """
        wrong = self.leaks or self.stale or self.aliases or self.unrestricted
        return bool(self.sensitive and self.ordinary and self.enter) and not wrong


def possible(target: Target) -> bool:
    """Has a target's kernel address space isolation, and the machine no KeyIDs in its place?"""
    return "x86-asi" in target.ours and not target.keyid_bits


def needs(target: Target) -> None:
    """Raise RedoubtError if a target's kernel has none."""
    if not possible(target):
        raise RedoubtError(f"{target.name} has no address space isolation", "ask x86_64")


def asked_for(machine: Machine) -> bool:
    """Is a machine booted with it?"""
    return ARGS[0] in machine.args


def look(machine: Machine) -> list[list[str]]:
    """What a guest runs to audit itself; nothing if there is nothing to audit."""
    return [["/bin/cat", file] for file in (AUDIT, SWITCHES)] if asked_for(machine) else []


def parse_audits(lines: Sequence[str]) -> tuple[Audit, ...]:
    """All audits on a console."""
    return experiment.looks(Audit, lines)


def unclean(lines: Sequence[str], looks: int) -> list[str]:
    """What is wrong with what so many looks of a machine at itself must have found."""
    return experiment.unclean(parse_audits(lines), looks, "audits")
