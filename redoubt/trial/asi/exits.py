# SPDX-License-Identifier: GPL-2.0-only
"""How often an operation leaves the restricted address space, for what reason, and what with it.

Counts of the kernel, of a guest with one CPU on which nothing else runs: they are exact. Where two
processes take turns they differ a little from boot to boot: who was interrupted has left already.
With two CPUs they are not, and there are IPIs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redoubt.core.progress import Progress
from redoubt.machine.kernels import Workbench
from redoubt.targets import Variant
from redoubt.trial import experiment
from redoubt.trial.asi import asi

TIMES = 10_000
# Exits by reason, as asi/switches names them, and as a table does.
REASONS = {
    "exit_fault": "fault",
    "exit_switch_mm": "no process",
    "exit_temporary_mm": "temporary mm",
    "exit_kexec": "kexec",
    "exit_suspend": "suspend",
}
NO_PROCESS = "exit_switch_mm"
UNRESTRICTED = "unrestricted"
ENTERS = ("enter", "reenter")
# From one restricted address space to that of another process: flushed as if it were left.
SWITCH = "switch_mm"
# All of asi_flush=, which is counted also where the CPU has no instruction for it.
FLUSH = "asi_flush=ibpb,verw,l1d"
FLUSHED_ON_EXIT, FLUSHED_ON_ENTER = "ibpb", ("verw", "l1d")
# What is mapped in windows; and what the kernel counts of these, and of flushes of addresses.
FILES = ("tmpfs-write", "tmpfs-read")
WINDOWS = "ephmap"
INVLPGS = ("ephmap_page", "nr_tlb_local_flush_one")
IPIS = "ipi"
# Exits of a guest of KVM that the kernel handles, and those to user mode.
GUESTS = ("vm-exit", "vm-msr", "vm-halt", "vm-io")
# What must not leave at all; "nothing" is two looks at the counters.
NEVER = ("nothing", "null-syscall", "threads", "kernel-thread", *FILES, *GUESTS)
# What leaves once for all of its memory, when that is freed, and thus a few times.
THREADS = "thread-files"
# A guest whose memory is given back every 256 faults. The worker that clears it leaves, once or
# twice.
GUEST_FAULT, GIVEN_BACK = "vm-fault", 256
SELDOM = (
    "anonymous-fault", "cow-fault", "shared-fault", "pipe-ping-pong", THREADS, GUEST_FAULT,
)  # fmt: skip
FEW = 16

# What is compared: without isolation, without windows, and with both.
OFF, LEAVING, ON = "asi=off", "asi_ephmap=off", "asi=on"
WAYS = {
    OFF: (OFF, *asi.ARGS[1:]),
    LEAVING: (*asi.ARGS, FLUSH, LEAVING),
    ON: (*asi.ARGS, FLUSH),
}

_TIMEOUT = 600.0


@dataclass(frozen=True)
class Row(experiment.Row):
    """What was counted while an operation was done so many `times` in one of WAYS."""

    operation: str
    times: int
    way: str = ON

    @property
    def exits(self) -> dict[str, int]:
        """How often the restricted address space was left, by reason."""
        return {reason: self.counts.get(reason, 0) for reason in REASONS}

    @property
    def events(self) -> dict[str, float]:
        """What takes time on a real machine, per operation.

        Writes of CR3 are those that are there for isolation alone: the page tables of another
        process, or of none, are loaded without it, too.
        """
        left = sum(n for reason, n in self.exits.items() if reason != NO_PROCESS)
        entered = sum(self.counts.get(name, 0) for name in ENTERS)
        counted = {
            "CR3 writes": left + entered,
            "INVLPGs": sum(self.counts.get(name, 0) for name in INVLPGS),
            "IPIs": self.counts.get(IPIS, 0),
            "IBPBs": self.counts.get(FLUSHED_ON_EXIT, 0),
        }
        return {name: count / self.times for name, count in counted.items()}


Report = experiment.Report[Row]


def parse(lines: Sequence[str], way: str = ON) -> tuple[Row, ...]:
    """All operations on a console."""
    return tuple(
        Row(counts, operation, int(times), way)
        for (operation, times), counts in experiment.said("exits", ("operation", "times"), lines)
    )


def rows_from_json(value: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows of a report that was written with a machine of one CPU; none of another."""
    fields = ("operation", "times", "way")
    return tuple(
        Row({name: one for name, one in row.items() if name not in fields},
            *(row[name] for name in fields))
        for row in (value["rows"] if value["cpus"] == 1 else ())
    )  # fmt: skip


def judge(rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with what was counted on one CPU, in one way."""
    operations = {row.operation: row for row in rows}
    for operation in (*NEVER, *SELDOM):
        if operation not in operations:
            yield f"{operation} was not counted"
    way = rows[0].way if rows else ON
    if way == OFF:
        return
    for row in rows:
        yield from _wrong(row)
    if way == LEAVING:
        # Else this says nothing of what windows are good for.
        for name in FILES:
            one = operations.get(name)
            if one and (sum(one.exits.values()) < one.times or one.counts.get(WINDOWS)):
                yield f"{name}: {one.exits} without windows, expected {one.times} at least"
    if rows and not any(row.counts.get("exit_fault") for row in rows):
        yield "no operation has left for what is not mapped: it is mapped, or nothing is counted"


def judge_threads(rows: Sequence[Row]) -> Iterator[str]:
    """What is wrong with threads that were counted on several CPUs, where little is exact."""
    found = [row for row in rows if row.operation == THREADS]
    if not found:
        yield f"{THREADS} was not counted"
    for row in found:
        left, windows = sum(row.exits.values()), row.counts.get(WINDOWS, 0)
        if row.way == ON and (left > row.times // 10 or windows < row.times):
            yield f"{THREADS}: {left} exits and {windows} windows, expected windows alone"


def _wrong(row: Row) -> Iterator[str]:
    """What is wrong with an operation with isolation."""
    left = {reason: count for reason, count in row.exits.items() if count}
    windows = row.way == ON
    if row.operation in NEVER and left and (windows or row.operation not in FILES):
        yield f"{row.operation}: {left}, expected none"
    if row.counts.get(UNRESTRICTED):
        yield f"{row.operation}: user mode was not restricted {row.counts[UNRESTRICTED]} times"
    few = FEW + (2 * row.times // GIVEN_BACK if row.operation == GUEST_FAULT else 0)
    if row.operation in SELDOM and sum(left.values()) > few and windows:
        yield f"{row.operation}: {left}, expected {few} at most"
    switches = row.counts.get(SWITCH, 0)
    enters = sum(row.counts.get(name, 0) for name in ENTERS)
    counted = sum(row.exits.values()) + switches, enters + switches
    expected = dict.fromkeys(FLUSHED_ON_ENTER, counted[1]) | {FLUSHED_ON_EXIT: counted[0]}
    for name, count in expected.items():
        if row.counts.get(name) != count:
            yield f"{row.operation}: {row.counts.get(name)} flushes {name}, expected {count}"


def run(
    made: Workbench,
    variant: Variant,
    times: int,
    progress: Progress,
    *,
    ways: Sequence[str] = (ON,),
    cpus: int = 1,
) -> Report:
    """Count in a guest for each way. With several CPUs nothing is exact, and only THREADS judged.

    Raises RedoubtError if one does not get to its end.
    """
    machines = {way: made.machine(variant, *WAYS[way], cpus=cpus) for way in ways}
    found = experiment.count(
        machines, ["/bin/exits", str(times)], parse, judge if cpus == 1 else judge_threads,
        title="Counting exits of the restricted address space", timeout=_TIMEOUT, progress=progress,
    )  # fmt: skip
    return Report(*found)


def render(report: Report) -> Iterator[str]:
    """For people: exits by reason."""
    rows = [
        (row.operation, row.way, row.times, *row.exits.values())
        for row in report.rows
        if row.way != OFF
    ]
    yield from experiment.table(("operation", "way", "times", *REASONS.values()), rows, texts=2)
    yield from experiment.wrong(report.problems)


def render_events(report: Report) -> Iterator[str]:
    """For people: exits and events per operation."""
    events = report.rows[0].events if report.rows else ()
    rows = [
        (
            row.operation, row.way, f"{sum(row.exits.values()) / row.times:.4g}",
            *(f"{each:.4g}" for each in row.events.values()),
        )
        for row in report.rows
    ]  # fmt: skip
    return experiment.table(("per operation", "way", "exits", *events), rows, texts=2)
