# SPDX-License-Identifier: GPL-2.0-only
"""What address space isolation has to stand: somebody who wants to read, and NMIs at any time."""

from __future__ import annotations

import re

from redoubt.core.progress import Progress
from redoubt.machine.boot import Machine, Result
from redoubt.trial import experiment
from redoubt.trial.asi import asi
from redoubt.trial.experiment import Outcome, bad_end

NMIS = "/sys/kernel/debug/asi/nmis"
# For each CPU and each time the file is written to.
_NMIS_AT_ONCE = "200"
_STRESS_S = 10
_SHORT_STRESS_S = 1
_TIMEOUT = 300.0

# What the kernel is to read of another process: without leaving, and with it.
_STAYED = "@probe: how=stay error=-14 exits=0 secret=0"
_LEFT = "@probe: how=leave error=0 exits=1 secret=1"
_STRESS = re.compile(r"@stress: ops=(\d+) refused=\d+ errors=0\b")
_REENTER = re.compile(r"^reenter (\d+)")


def _under_stress(result: Result) -> list[str]:
    problems = bad_end(result)
    if not any(_STRESS.search(line) for line in result.console):
        problems.append("the stress did not get to its end without errors")
    return [*problems, *asi.unclean(result.console, 1)]


def probe(machine: Machine, progress: Progress) -> Outcome:
    """Have the kernel read another process's memory: it gets none unless it leaves."""
    result = experiment.start(
        machine, ["/bin/probe"], title="Probing the restricted address space",
        timeout=_TIMEOUT, name="isolation-probe", progress=progress,
    )  # fmt: skip
    problems = bad_end(result)
    for line in (_STAYED, _LEFT):
        if line not in result.console:
            problems.append(f"not seen: {line}")
    return Outcome("reads of another process", tuple(problems), result)


def nmis(machine: Machine, progress: Progress) -> Outcome:
    """Stress while NMIs leave the restricted address space, wherever a CPU happens to be."""
    stress = ["/bin/stress", str(_STRESS_S), str(max(2, machine.cpus))]
    storm = ["/bin/storm", NMIS, _NMIS_AT_ONCE, *stress]
    result = experiment.start(
        machine, storm, *asi.look(machine), title=f"Storming with NMIs ({machine.cpus} CPU)",
        timeout=_TIMEOUT, name=f"isolation-nmis-{machine.cpus}", progress=progress,
    )  # fmt: skip
    problems = _under_stress(result)
    if not any((match := _REENTER.match(line)) and int(match[1]) for line in result.console):
        problems.append("no NMI had to enter again: nothing was tried")
    return Outcome(f"NMIs and stress ({machine.cpus} CPU)", tuple(problems), result)


def stressed(machine: Machine, progress: Progress) -> Outcome:
    """Stress alone, for emulators that are slow and know no NMIs.

    It says nothing before the slow console has what KUnit said.
    """
    name = f"isolation-stressed-{machine.args[-1].replace('=', '-')}"
    result = experiment.start(
        machine, ["/bin/stress", str(_SHORT_STRESS_S), "2"], *asi.look(machine),
        title="Stressing with PCIDs", timeout=_TIMEOUT, name=name, progress=progress,
    )  # fmt: skip
    return Outcome("stress", tuple(_under_stress(result)), result)
