# SPDX-License-Identifier: GPL-2.0-only
"""How often an operation leaves the restricted address space, and for what reason.

Counts of the kernel, of a guest with one CPU on which nothing else runs: they are exact. Where two
processes take turns they differ a little from boot to boot: who was interrupted has left already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redoubt import asi
from redoubt.boot import boot
from redoubt.errors import RedoubtError
from redoubt.kernels import Workbench
from redoubt.progress import Progress
from redoubt.targets import Variant

TIMES = 10_000
# Exits by reason, as asi/switches names them, and as a table does.
REASONS = {
    "exit_fault": "fault",
    "exit_switch_mm": "no process",
    "exit_temporary_mm": "temporary mm",
    "exit_kvm": "KVM",
    "exit_kexec": "kexec",
    "exit_suspend": "suspend",
}
UNRESTRICTED = "unrestricted"
ENTERS = ("enter", "reenter")
# From one restricted address space to that of another process: flushed as if it were left.
SWITCH = "switch_mm"
# All of asi_flush=, which is counted also where the CPU has no instruction for it.
FLUSH = "asi_flush=ibpb,verw,l1d"
FLUSHED_ON_EXIT, FLUSHED_ON_ENTER = "ibpb", ("verw", "l1d")
# What must not leave at all; "nothing" is two looks at the counters.
NEVER = ("nothing", "null-syscall", "threads", "kernel-thread", "tmpfs-write", "tmpfs-read")
# What leaves once for all of its memory, when that is freed, and thus a few times.
SELDOM = ("anonymous-fault", "cow-fault")
FEW = 16

_ROW = re.compile(r"^@exits: operation=(\S+) times=(\d+)((?: \w+=\d+)+)$")
_TIMEOUT = 600.0


@dataclass(frozen=True)
class Row:
    """What was counted while an operation was done so many `times`."""

    operation: str
    times: int
    counts: Mapping[str, int]

    @property
    def exits(self) -> dict[str, int]:
        """How often the restricted address space was left, by reason."""
        return {reason: self.counts.get(reason, 0) for reason in REASONS}


@dataclass(frozen=True)
class Report:
    """All rows, and what was wrong in words."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Did everything run to its end, and nothing leave that must not?"""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return {
            "ok": self.ok,
            "problems": list(self.problems),
            "rows": [
                {"operation": row.operation, "times": row.times, **row.counts} for row in self.rows
            ],
        }


def parse(lines: Sequence[str]) -> tuple[Row, ...]:
    """All operations on a console."""
    rows = []
    for line in lines:
        if match := _ROW.match(line):
            words = (word.split("=") for word in match[3].split())
            rows.append(Row(match[1], int(match[2]), {name: int(value) for name, value in words}))
    return tuple(rows)


def judge(rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with what was counted."""
    for row in rows:
        left = {reason: count for reason, count in row.exits.items() if count}
        if row.operation in NEVER and left:
            yield f"{row.operation}: {left}, expected none"
        if row.counts.get(UNRESTRICTED):
            yield (
                f"{row.operation}: user mode was not restricted {row.counts[UNRESTRICTED]} times"
            )
        if row.operation in SELDOM and sum(left.values()) > FEW:
            yield f"{row.operation}: {left}, expected {FEW} at most"
        switches = row.counts.get(SWITCH, 0)
        enters = sum(row.counts.get(name, 0) for name in ENTERS)
        counted = sum(row.exits.values()) + switches, enters + switches
        expected = dict.fromkeys(FLUSHED_ON_ENTER, counted[1]) | {FLUSHED_ON_EXIT: counted[0]}
        for name, count in expected.items():
            if row.counts.get(name) != count:
                yield f"{row.operation}: {row.counts.get(name)} flushes {name}, expected {count}"
    operations = {row.operation for row in rows}
    for operation in (*NEVER, *SELDOM):
        if operation not in operations:
            yield f"{operation} was not counted"
    if rows and not any(row.counts.get("exit_fault") for row in rows):
        yield "no operation has left for what is not mapped: it is mapped, or nothing is counted"


def run(made: Workbench, variant: Variant, times: int, progress: Progress) -> Report:
    """Count in a guest.

    Raises RedoubtError if it does not get to its end.
    """
    with progress.step("Counting exits of the restricted address space"):
        result = boot(
            made.machine(variant, *asi.ARGS, FLUSH, cpus=1),
            ["/bin/exits", str(times)],
            timeout=_TIMEOUT,
            name="exits",
            progress=progress,
        )
    rows = parse(result.console)
    if result.outcome != "finished" or result.status or not rows:
        raise RedoubtError(f"{len(rows)} operations were counted; {result.describe()}")
    return Report(rows, (*judge(rows), *result.complaints))


def render(report: Report) -> Iterator[str]:
    """For people."""
    yield f"{'operation':18}{'times':>8}" + "".join(f"{name:>15}" for name in REASONS.values())
    for row in report.rows:
        yield f"{row.operation:18}{row.times:>8}" + "".join(f"{n:>15}" for n in row.exits.values())
    yield from (f"WRONG: {problem}" for problem in report.problems)
