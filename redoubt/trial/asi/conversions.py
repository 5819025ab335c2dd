# SPDX-License-Identifier: GPL-2.0-only
"""How often pageblocks change their kind under address space isolation, per allocated page.

Counts of the kernel: of a guest with memory to spare and of one without, each with isolation and
without it, as pressure shows in the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.machine.boot import Result
from redoubt.machine.kernels import Workbench
from redoubt.targets import Variant
from redoubt.trial import experiment
from redoubt.trial.asi import asi

STATS = "/sys/kernel/debug/asi/stats"
VMSTAT = "/proc/vmstat"
# Guests with as many MiB of memory; the second has few blocks that are free as a whole.
MEMORY_MB = (256, 112)
CPUS = 2
# What runs between two looks at the counters: for so many compilations, and so many seconds.
WORKLOADS: dict[str, tuple[str, ...]] = {
    "like a build": ("/bin/buildlike", "48"),
    "stress": ("/bin/stress", "30", str(CPUS)),
}
TO_SENSITIVE, TO_ORDINARY, FLUSHES = "to_sensitive", "to_ordinary", "flushes"
# What could not be converted: as nobody may wait there, and as no block was free.
REFUSED, EXHAUSTED = "refused", "exhausted"
EVENTS = (TO_SENSITIVE, TO_ORDINARY, FLUSHES, REFUSED, EXHAUSTED)

_COUNTER = re.compile(r"^([a-z_0-9]+) (\d+)$")
# The first line of /proc/vmstat: another look begins.
_FIRST = "nr_free_pages"
_ALLOCATED, _STALLED, _KILLED = "pgalloc_", "allocstall_", "oom_kill"
_FAILURE = re.compile(r"page allocation failure: ")
_TIMEOUT = 600.0


@dataclass(frozen=True)
class Row(experiment.Row):
    """What was counted while a workload ran.

    `stalls` are allocations that had to reclaim by themselves, `oom_kills` processes that were
    killed for their memory; `counts` are of EVENTS, in pageblocks but for flushes, refusals and
    exhaustions, and empty without isolation.
    """

    memory_mb: int
    workload: str
    asi: bool
    allocated_pages: int
    stalls: int
    oom_kills: int

    @property
    def per_1000(self) -> float:
        """Pageblocks converted for 1000 pages that were allocated."""
        converted = self.counts.get(TO_SENSITIVE, 0) + self.counts.get(TO_ORDINARY, 0)
        return 1000 * converted / self.allocated_pages


Report = experiment.Report[Row]


def looks(lines: Sequence[str]) -> list[dict[str, int]]:
    """Every look at the counters on a console."""
    found: list[dict[str, int]] = []
    for match in experiment.matches(_COUNTER, lines):
        if match[1] == _FIRST:
            found.append({})
        if found:
            found[-1][match[1]] = int(match[2])
    return found


def _more(before: Mapping[str, int], after: Mapping[str, int], prefix: str) -> int:
    """By how much all counters of a prefix have grown."""
    return sum(
        value - before.get(name, 0) for name, value in after.items() if name.startswith(prefix)
    )


def rows_of(result: Result, memory_mb: int, isolated: bool) -> Iterator[Row]:
    """What a boot counted for each workload.

    Raises RedoubtError if it did not count all.
    """
    found = looks(result.console)
    if result.outcome != "finished" or result.status or len(found) != len(WORKLOADS) + 1:
        raise RedoubtError(f"{len(found)} looks at the counters; {result.describe()}")
    for workload, before, after in zip(WORKLOADS, found, found[1:], strict=False):
        events = {name: _more(before, after, name) for name in EVENTS} if isolated else {}
        allocated, *others = (
            _more(before, after, prefix) for prefix in (_ALLOCATED, _STALLED, _KILLED)
        )
        if not allocated:
            raise RedoubtError("the kernel does not count allocations", "set VM_EVENT_COUNTERS")
        yield Row(events, memory_mb, workload, isolated, allocated, *others)


def run(made: Workbench, variant: Variant, progress: Progress) -> Report:
    """Count in all guests.

    Raises RedoubtError if one does not get to the end of its workloads.
    """
    rows: list[Row] = []
    problems: list[str] = []
    for memory_mb in MEMORY_MB:
        failures = {}
        for isolated, how in ((False, "asi=off"), (True, asi.ARGS[0])):
            args = asi.ARGS if isolated else asi.ARGS[1:]
            machine = replace(made.machine(variant, *args, cpus=CPUS), memory_mb=memory_mb)
            look = [("/bin/cat", file) for file in ((VMSTAT, STATS) if isolated else (VMSTAT,))]
            work = [one for command in WORKLOADS.values() for one in (command, *look)]
            result = experiment.start(
                machine, *look, *work, title=f"Counting in {memory_mb} MiB ({how})",
                name=f"conversions-{memory_mb}-{'on' if isolated else 'off'}", timeout=_TIMEOUT,
                progress=progress,
            )  # fmt: skip
            rows += rows_of(result, memory_mb, isolated)
            failures[isolated] = sum(bool(_FAILURE.search(line)) for line in result.console)
            problems += [f"{memory_mb} MiB, {how}: {line}" for line in result.complaints]
        if failures[True] > failures[False]:
            problems.append(
                f"{memory_mb} MiB: {failures[True]} failed allocations, "
                f"{failures[False]} without isolation"
            )
    return Report(tuple(rows), tuple(problems))


def render(report: Report) -> Iterator[str]:
    """For people."""
    head = ("workload", "asi", "MiB", "pages", *EVENTS, "per 1000", "stalls", "killed")
    yield from experiment.table(
        head,
        [
            (
                row.workload, "on" if row.asi else "off", row.memory_mb, row.allocated_pages,
                *(row.counts.get(name, "-") for name in EVENTS),
                f"{row.per_1000:.4f}" if row.asi else "-", row.stalls, row.oom_kills,
            )
            for row in report.rows
        ],
        texts=2,
    )  # fmt: skip
    yield from experiment.wrong(report.problems)
