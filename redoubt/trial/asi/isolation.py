# SPDX-License-Identifier: GPL-2.0-only
"""What address space isolation has to stand: somebody who wants to read, and NMIs at any time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from redoubt.core.progress import Progress
from redoubt.machine.boot import Machine, Result
from redoubt.trial.asi import asi
from redoubt.trial.experiment import Outcome, bad_end, matches, start

NMIS = "/sys/kernel/debug/asi/nmis"
# For each CPU and each time the file is written to.
_NMIS_AT_ONCE = "200"
_STRESS_S = 10
_TIMEOUT = 300.0

# What the kernel is to read of another process: without leaving, and with it.
_STAYED = "@probe: how=stay error=-14 exits=0 secret=0"
_LEFT = "@probe: how=leave error=0 exits=1 secret=1"
_STRESS = re.compile(r"^.*@stress: ops=(\d+) refused=\d+ errors=0\b")
_REENTER = re.compile(r"^reenter (\d+)")


def probe(machine: Machine, progress: Progress) -> Outcome:
    """Have the kernel read another process's memory: it gets none unless it leaves."""
    result = start(
        machine, ["/bin/probe"], name="isolation-probe", timeout=_TIMEOUT, progress=progress,
        title="Probing the restricted address space",
    )  # fmt: skip
    unseen = [line for line in (_STAYED, _LEFT) if line not in result.console]
    problems = (*bad_end(result), *(f"not seen: {line}" for line in unseen))
    return Outcome("reads of another process", problems, result)


def _under_stress(
    machine: Machine, command: Sequence[str], name: str, title: str, progress: Progress
) -> tuple[Result, list[str]]:
    """How the boot ended, and what is wrong with that."""
    result = start(
        machine, command, *asi.look(machine), name=name, timeout=_TIMEOUT, progress=progress,
        title=title,
    )  # fmt: skip
    problems = bad_end(result)
    if not matches(_STRESS, result.console):
        problems.append("the stress did not get to its end without errors")
    return result, [*problems, *asi.unclean(result.console, 1)]


def nmis(machine: Machine, progress: Progress) -> Outcome:
    """Stress while NMIs leave the restricted address space, wherever a CPU happens to be."""
    stress = ["/bin/stress", str(_STRESS_S), str(max(2, machine.cpus))]
    result, problems = _under_stress(
        machine, ["/bin/storm", NMIS, _NMIS_AT_ONCE, *stress], f"isolation-nmis-{machine.cpus}",
        f"Storming with NMIs ({machine.cpus} CPU)", progress,
    )  # fmt: skip
    if not any(int(match[1]) for match in matches(_REENTER, result.console)):
        problems.append("no NMI had to enter again: nothing was tried")
    return Outcome(f"NMIs and stress ({machine.cpus} CPU)", tuple(problems), result)


def stressed(machine: Machine, progress: Progress) -> Outcome:
    """Stress alone, in a boot with KUnit."""
    way = "-".join((str(machine.cpus), *machine.args[-2:])).replace("=", "-")
    result, problems = _under_stress(
        machine, ["/bin/stress", str(_STRESS_S), "2"], f"isolation-stressed-{way}",
        f"Stressing with PCIDs ({machine.cpus} CPU)", progress,
    )  # fmt: skip
    return Outcome("stress", tuple(problems), result)
