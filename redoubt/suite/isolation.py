# SPDX-License-Identifier: GPL-2.0-only
"""Address space isolation, from inside and from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redoubt.machine import host, kernels
from redoubt.suite import boots
from redoubt.suite.run import Item, Run, outcome_item, verdict
from redoubt.targets import X86_64_PCID
from redoubt.trial.asi import asi, exits, isolation
from redoubt.trial.oracle import oracle

# How often each operation is done when exits are counted.
EXITS = 1000
# Our KUnit suites about it.
SUITES = "asi*"

_NAME = "address space isolation"


def from_outside(run: Run, flavour: str = "") -> Iterator[Item]:
    """Read from outside which secrets of others the page tables of a process reach.

    The ordinary ones reach all secrets of another; the restricted ones none, unless one is mapped
    by mistake. The kernel is the one that is built: the secret in a file lies in ramfs, and what is
    swapped out on a disk in memory. That of the flavour has more places for both.
    """
    label = f", {flavour} flavour" if flavour else ""
    name = f"oracle: secrets of another, from outside{label}"
    yield from _outside(run, run.workbench(name, flavour), name)


def _outside(run: Run, made: kernels.Workbench, name: str, controls: bool = True) -> Iterator[Item]:
    """What must not be found, and with `controls` what must be, lest nobody has looked."""
    on = run.variant("on")
    for what, root, place, mistake, more in (
        ("found in ordinary page tables", "current", "user", False, ()),
        ("not found in restricted ones", "restricted", "user", False, ("pti=off",)),
        ("nor with page table isolation", "restricted", "user", False, ("pti=on",)),
        ("nor from a guest", "restricted", "guest", False, ("pti=off", exits.LEAVING)),
        ("nor when it is left", "restricted", "exit", False, ("pti=on",)),
        ("found in those with a mistake", "restricted", "user", True, ("pti=off",)),
    ):
        if not controls and (mistake or root == "current"):
            continue
        machine = made.machine(on, *more, attacks=mistake)
        report = oracle.run(machine, root, run.progress, mistake=mistake, place=place)
        yield verdict(f"{name}: {what}", on.name, report.ok, *oracle.render(report))


def from_inside(run: Run) -> Iterator[Item]:
    """Count exits of isolation, try to read from inside, with NMIs at any time and with PCIDs."""
    made = run.workbench(_NAME)
    yield from _exits(run, made, exits.ON)
    yield from _exits(run, made, exits.ON, cpus=2)
    yield from _attempts(run, made)
    yield from _pcid(run, made.of(X86_64_PCID), _NAME)


def _exits(run: Run, made: kernels.Workbench, *ways: str, cpus: int = 1) -> Iterator[Item]:
    on = run.variant("on")
    report = exits.run(made, on, EXITS, run.progress, ways=ways, cpus=cpus)
    yield verdict(f"{_NAME}: exits ({cpus} CPU)", on.name, report.ok, *exits.render(report))


def _attempts(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """Read of another process, and NMIs."""
    on = run.variant("on")
    outcome = isolation.probe(made.machine(on, *asi.ARGS), run.progress)
    yield outcome_item(f"{_NAME}: {outcome.name}", outcome)
    for cpus, more in ((1, ()), (2, ("no5lvl", "pti=on"))):
        machine = made.machine(on, *asi.ARGS, *more, cpus=cpus)
        outcome = isolation.nmis(machine, run.progress)
        yield outcome_item(f"{_NAME}: {outcome.name}", outcome)


def _pcid(run: Run, made: kernels.Workbench, name: str) -> Iterator[Item]:
    """The same with PCIDs, where the TLB keeps what it may: a flush that is forgotten is seen."""
    on = run.variant("on")
    if problem := host.lacking(X86_64_PCID, "auto"):
        yield Item(f"{name}: PCID", on.name, 0, 0, 1, problem.message)
        return
    for cpus, label, more in (
        (1, "PCID", ("pti=off",)),
        (2, "PCID", ("pti=off",)),
        (1, "PCID and PTI, 4 levels", ("no5lvl", "pti=on")),
        (2, "PCID and PTI, no INVPCID", ("pti=on", "noinvpcid")),
    ):
        machine = made.kunit_machine(
            on, f"kunit.filter_glob={SUITES}", asi.ARGS[0], *more, cpus=cpus
        )
        outcome = isolation.stressed(machine, run.progress)
        yield from boots.suites(run, outcome.boot, on, machine.cpus, f", {label}")
        yield outcome_item(f"{name}: {label} ({cpus} CPU)", outcome)


def noticing(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """What notices that isolation flushes, maps, clears, decides or leaves wrongly.

    The cheapest first, each item when it is asked for.
    """
    on, suites = run.variant("on"), made.of(replace(run.target, kunit=SUITES))
    for way in run.target.ways:
        if asi.ARGS[0] in way.args:
            yield from boots.kunit(run, suites.by(way), on, cpus=2, label=f", {way.name}")
    # Also that there are exits where there are to be no windows.
    yield from _exits(run, made, exits.ON, exits.LEAVING)
    yield from _exits(run, made, exits.ON, cpus=2)
    yield from _pcid(run, made.of(X86_64_PCID), _NAME)
    yield from _attempts(run, made)
    if oracle.FLAVOUR in run.target.flavours:
        yield from _outside(run, made, "oracle", controls=False)
