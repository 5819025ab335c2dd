# SPDX-License-Identifier: GPL-2.0-only
"""How often pageblocks change their kind under address space isolation, per allocated page.

Counts of the kernel: of a guest with memory to spare and of one without, each with isolation and
without it, as pressure shows in the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
MEMORY_MB = (256, 80)
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
class Row:
    """What was counted while a workload ran.

    `allocated` is in pages; `stalls` are allocations that had to reclaim by themselves, `kills`
    processes that were killed for their memory; `events` are those of EVENTS, in pageblocks but
    for flushes, refusals and exhaustions.
    """

    memory_mb: int
    workload: str
    isolated: bool
    allocated: int
    stalls: int
    kills: int
    events: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return {
            "memory_mb": self.memory_mb,
            "workload": self.workload,
            "asi": self.isolated,
            "allocated_pages": self.allocated,
            "stalls": self.stalls,
            "oom_kills": self.kills,
            **self.events,
        }

    @property
    def per_1000(self) -> float:
        """Pageblocks converted for 1000 pages that were allocated."""
        converted = self.events.get(TO_SENSITIVE, 0) + self.events.get(TO_ORDINARY, 0)
        return 1000 * converted / self.allocated


Report = experiment.Report[Row]


def looks(lines: Sequence[str]) -> list[dict[str, int]]:
    """Every look at the counters on a console."""
    found: list[dict[str, int]] = []
    for line in lines:
        if match := _COUNTER.match(line):
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
        allocated, stalls, kills = (
            _more(before, after, prefix) for prefix in (_ALLOCATED, _STALLED, _KILLED)
        )
        if not allocated:
            raise RedoubtError("the kernel does not count allocations", "set VM_EVENT_COUNTERS")
        events = {name: _more(before, after, name) for name in EVENTS} if isolated else {}
        yield Row(memory_mb, workload, isolated, allocated, stalls, kills, events)


def run(made: Workbench, variant: Variant, progress: Progress) -> Report:
    """Count in all guests.

    Raises RedoubtError if one does not get to the end of its workloads.
    """
    rows: list[Row] = []
    problems: list[str] = []
    for memory_mb in MEMORY_MB:
        failures = {}
        for isolated in (False, True):
            machine = replace(
                made.machine(variant, *(asi.ARGS if isolated else asi.ARGS[1:]), cpus=CPUS),
                memory_mb=memory_mb,
            )
            look = [["/bin/cat", VMSTAT], *([["/bin/cat", STATS]] if isolated else [])]
            commands = [*look]
            for command in WORKLOADS.values():
                commands += [[*command], *look]
            how = asi.ARGS[0] if isolated else "asi=off"
            result = experiment.start(
                machine, *commands, title=f"Counting in {memory_mb} MiB ({how})", timeout=_TIMEOUT,
                name=f"conversions-{memory_mb}-{'on' if isolated else 'off'}", progress=progress,
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
    yield (
        f"{'memory':>8}  {'workload':13}{'asi':>5}{'pages':>10}{'to sensitive':>14}"
        f"{'to ordinary':>13}{'per 1000':>10}{'flushes':>9}{'refused':>9}{'exhausted':>11}"
        f"{'stalls':>8}{'killed':>8}"
    )
    for row in report.rows:
        counts = [str(row.events.get(name, "-")) for name in EVENTS]
        per_1000 = f"{row.per_1000:.4f}" if row.isolated else "-"
        yield (
            f"{row.memory_mb:>4} MiB  {row.workload:13}{'on' if row.isolated else 'off':>5}"
            f"{row.allocated:>10}{counts[0]:>14}{counts[1]:>13}{per_1000:>10}{counts[2]:>9}"
            f"{counts[3]:>9}{counts[4]:>11}{row.stalls:>8}{row.kills:>8}"
        )
    yield from (f"WRONG: {problem}" for problem in report.problems)
