# SPDX-License-Identifier: GPL-2.0-only
"""Asking a running kernel whether every page table is protected, before and after stress."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.machine.boot import Machine, Result
from redoubt.targets import Variant
from redoubt.trial import experiment
from redoubt.trial.asi import asi
from redoubt.trial.asi.asi import Audit

FILE = "/sys/kernel/debug/kpkeys/check"
STATS = "/sys/kernel/debug/kpkeys/stats"
_EXCEPTION = re.compile(r"^(?:untagged|alias|unlinked|foreign) \D.* 0x")
_STRESS = re.compile(r"^@stress: ops=(\d+) refused=0 errors=(\d+)(?: left-out=(\S+))?$")
# Whatever it says but how often it did what.
_WRONG = re.compile(r"^stress: (?!\w+=\d)")
# Operations of guest/stress/ that some machines lack, with the options that make them possible.
_OPTIONS = {
    "huge": ("CONFIG_TRANSPARENT_HUGEPAGE",),
    "collapse": ("CONFIG_TRANSPARENT_HUGEPAGE",),
    "swap": ("CONFIG_SWAP", "CONFIG_BLK_DEV_RAM"),
    "ldt": ("CONFIG_MODIFY_LDT_SYSCALL",),
    "module": ("CONFIG_MODULES", "CONFIG_MODULE_UNLOAD"),
    "cpu": ("CONFIG_HOTPLUG_CPU",),
    # Each kernel of ours has these.
    "cred": (),
    "ptrace": (),
    "key": (),
}
# Seconds beyond the stress itself: booting, and two walks of all tables, under emulation.
_MARGIN = 240.0


@dataclass(frozen=True)
class Walk:
    """What one run of the checker found."""

    tables: int
    untagged: int
    aliases: int
    unlinked: int
    foreign: int

    @property
    def clean(self) -> bool:
        """True if it walked tables and found nothing wrong."""
        wrong = self.untagged or self.aliases or self.unlinked or self.foreign
        return self.tables > 0 and not wrong


@dataclass(frozen=True)
class Report:
    """The checker after boot and after stress; `operations` is what stress got done.

    `left_out` names the kinds of operations that were not done as the machine lacks what they
    need; `missing` those among them that its kernel was configured for. `audits` are those of
    address space isolation, None without it.
    """

    target: str
    variant: str
    walks: tuple[Walk, ...]
    exceptions: tuple[str, ...]
    operations: int
    stress_errors: int
    splats: tuple[str, ...]
    boot: Result
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    audits: tuple[Audit, ...] | None = None

    @property
    def ok(self) -> bool:
        """True if everything was protected all the time and nothing went wrong."""
        looked: list[Sequence[Walk | Audit]] = [self.walks]
        if self.audits is not None:
            looked.append(self.audits)
        return (
            self.boot.outcome == "finished"
            and self.boot.status == 0
            and all([one.clean for one in found] == [True, True] for found in looked)
            and not (self.stress_errors or self.missing or self.splats)
        )

    @property
    def wrong(self) -> tuple[str, ...]:
        """What stress says of operations that went wrong."""
        return tuple(line for line in self.boot.console if _WRONG.match(line))

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        names = {"target": self.target, "variant": self.variant}
        return names | worst(self.walks) | {"splats": len(self.splats)}


def worst(walks: Sequence[Walk]) -> dict[str, int]:
    """The most that any walk has found, see docs/json.md."""
    return {
        "tables": max((walk.tables for walk in walks), default=0),
        "untagged": max(
            (walk.untagged + walk.aliases + walk.unlinked for walk in walks), default=0
        ),
        "foreign": max((walk.foreign for walk in walks), default=0),
    }


def look(machine: Machine) -> list[list[str]]:
    """What a guest runs to check itself, and to audit address space isolation if it has that."""
    return [["/bin/cat", FILE], *asi.look(machine)]


def parse_walks(lines: Sequence[str]) -> tuple[Walk, ...]:
    """The results of the checker on a console."""
    return experiment.looks(Walk, lines)


def unclean(machine: Machine, lines: Sequence[str], looks: int) -> list[str]:
    """What is wrong with what so many of these looks must have found."""
    problems = experiment.unclean(parse_walks(lines), looks, "walks of the checker")
    return problems + (asi.unclean(lines, looks) if asi.asked_for(machine) else [])


def exceptions(lines: Sequence[str]) -> tuple[str, ...]:
    """The pages that the checker complains of on a console."""
    return tuple(line for line in lines if _EXCEPTION.match(line))


def possible(machine: Machine) -> set[str]:
    """The kinds of operations that not every machine has, and this one should."""
    have = machine.build.configuration()
    kinds = {kind for kind, names in _OPTIONS.items() if all(have.get(n) == "y" for n in names)}
    return kinds if machine.cpus > 1 else kinds - {"cpu"}


def counts(machine: Machine) -> bool:
    """Does its kernel count what it does?"""
    return machine.build.configuration().get("CONFIG_KPKEYS_STATS") != "n"


def run(
    machine: Machine, variant: Variant, stress_s: int, progress: Progress, label: str = ""
) -> Report:
    """Check after boot, stress for `stress_s` seconds of guest time, check again.

    `label` tells the logs of machines apart that have the variant and the number of CPUs in common.
    Raises RedoubtError if the variant has no checker to ask.
    """
    if not variant.protected:
        raise RedoubtError(
            f"variant {variant.name} protects nothing: there is nothing to check",
            "check the variant on",
        )
    target = machine.build.target.name
    stress = [["/bin/stress", str(stress_s), str(max(2, machine.cpus))]] if stress_s else []
    commands = [*look(machine), *stress, *look(machine)]
    if counts(machine):
        commands.append(["/bin/cat", STATS])
    result = experiment.start(
        machine, *commands, name=f"check-{target}-{variant.name}-{machine.cpus}{label}",
        timeout=stress_s * 3 + _MARGIN, progress=progress,
        title=f"Checking {target} ({variant.name}), {stress_s} s of stress on {machine.cpus} CPUs",
    )  # fmt: skip
    operations, errors = 0, 0 if not stress_s else 1
    left_out: list[str] = []
    for match in experiment.matches(_STRESS, result.console):
        operations, errors = int(match[1]), int(match[2])
        left_out = match[3].split(",") if match[3] else []
    missing = [kind for kind in left_out if kind in possible(machine)]
    return Report(
        target, variant.name, parse_walks(result.console), exceptions(result.console), operations,
        errors, result.complaints, result, tuple(left_out), tuple(missing),
        asi.parse_audits(result.console) if asi.asked_for(machine) else None,
    )  # fmt: skip
