# SPDX-License-Identifier: GPL-2.0-only
"""Kernels with further options, the kernel's own tests of mm, and stress-ng."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from redoubt.linux import distro
from redoubt.machine import kernels
from redoubt.suite import boots
from redoubt.suite.run import Item, Run, outcome_item, verdict
from redoubt.targets import ALONE, Variant
from redoubt.trial import attack, lifecycle, selftests, shortage, stress, user_keys

# In each round of failing allocations.
SHORTAGE_S = 20
# Of stress-ng: two rounds.
STRESS_NG_S = 16


def _flavour(run: Run, made: kernels.Workbench, label: str) -> Iterator[Item]:
    """What every flavour of a kernel has to pass, on two CPUs, and however it is booted."""
    for name in ("on", "off"):
        yield from boots.kunit(run, made, run.variant(name), cpus=2, label=label)
    yield from boots.attacks(run, made, label)
    yield boots.checked(run, made, boots.STRESS_S, cpus=2, label=label)
    for way in run.target.ways:
        yield from boots.other_way(run, made.by(way), way, label)


def _life(
    run: Run, made: kernels.Workbench, label: str, events: Sequence[lifecycle.Event]
) -> Iterator[Item]:
    """What a machine goes through in its life, however it was booted."""
    kernel, on = kernels.our_tree(run.progress), run.variant("on")
    booted = {label: made}
    booted |= {f", {way.name}{label}": made.by(way) for way in run.target.ways}
    for name, way_made in booted.items():
        for event in events:
            if not lifecycle.may_go_through(way_made.machine(on), event):
                continue
            with run.progress.step(f"Taking {run.target.name} through {event.__name__}"):
                outcome = event(way_made.machine(on, cpus=2), kernel, run.progress)
            yield outcome_item(f"{outcome.name}{name}", outcome)


def debug(run: Run) -> Iterator[Item]:
    """Test the kernel under its own checks: lockdep, DEBUG_VM, preemption."""
    made = run.workbench("debug flavour", "debug")
    on, off = run.variant("on"), run.variant("off")
    yield from _flavour(run, made, ", debug flavour")
    yield boots.checked(run, made, boots.STRESS_S, cpus=1, label=", debug flavour")
    have = made.build.configuration()
    events = (
        (lifecycle.memory, "CONFIG_ACPI_HOTPLUG_MEMORY"), (lifecycle.guests, "CONFIG_KVM"),
        (lifecycle.shadowed_guests, "CONFIG_KVM"),
        (lifecycle.kexec, "CONFIG_KEXEC_FILE"), (lifecycle.hibernate, "CONFIG_VIRTIO_BLK"),
    )  # fmt: skip
    yield from _life(
        run, made, ", debug flavour", [event for event, needs in events if have.get(needs) == "y"]
    )
    # Without protection as well: what is expected of cgroups is what Linux does by itself.
    for variant, cpus in ((on, 2), (on, 1), (off, 2)):
        yield _shortage(run, made, variant, cpus)


def _shortage(run: Run, made: kernels.Workbench, variant: Variant, cpus: int) -> Item:
    report = shortage.run(made.machine(variant, cpus=cpus), variant, SHORTAGE_S, run.progress)
    name = f"failing allocations and memory cgroups, debug flavour ({cpus} CPU)"
    details = (*report.problems[:20], report.boot.describe())
    return verdict(name, variant.name, report.ok, *details)


def plain(run: Run) -> Iterator[Item]:
    """Attack a kernel as one would ship it, where no assertion is in the way."""
    if attack.FLAVOUR not in run.target.flavours:
        return
    made, label = run.workbench("plain flavour", attack.FLAVOUR), ", plain flavour"
    yield from boots.attacks(run, made, label, attack.FLAVOUR)
    for way in run.target.ways:
        yield from boots.attacks(run, made.by(way), f", {way.name}{label}", attack.FLAVOUR)


def alone(run: Run) -> Iterator[Item]:
    """Test kernels that have one feature without the others."""
    for name in ALONE:
        if name in run.target.flavours:
            yield from _flavour(run, run.workbench(name, name), f", {name}")


def distribution(run: Run) -> Iterator[Item]:
    """Test the kernel with a distribution's configuration: all that our work has to live with."""
    if distro.FLAVOUR not in run.target.flavours:
        return
    made, label = run.workbench("distro flavour", distro.FLAVOUR), ", distro flavour"
    yield from boots.without_keys(run, made, label)
    yield from _flavour(run, made, label)
    yield from _life(run, made, label, lifecycle.ALL)


def kernel_selftests(run: Run) -> Iterator[Item]:
    """Run the kernel's own tests of mm and of tasks: the same must pass on the pristine kernel."""
    name, on = "selftests as on pristine", run.variant("on")
    if selftests.FLAVOUR not in run.target.flavours:
        return
    chosen = run.enforcing(name)
    report = selftests.check(run.target, on, chosen, run.progress)
    failed = len(report.wrong) + len(report.complaints) + len(report.unprotected)
    # Nothing that passed is a failure, too.
    failed = failed or int(not report.ok)
    others = len(report.not_run) + len(report.failing) + len(report.unstable)
    detail = "\n".join(selftests.render(report))
    yield Item(name, on.name, len(report.passed), failed, others, detail)


def user_keys_trusted(run: Run) -> Iterator[Item]:
    """Run the kernel's own tests of keys of user mode on the pristine kernel: they test the CPU."""
    if not run.target.ignoring_cpu:
        return
    name = "protection keys of user mode"
    chosen = run.enforcing(name)
    with tempfile.TemporaryDirectory(prefix="redoubt-") as directory:
        report = user_keys.check(run.target, chosen, Path(directory), run.progress)
    parts = sum(report.passed.values())
    details = (*report.problems, *(boot.describe() for boot in report.boots if report.problems))
    yield replace(verdict(name, "pristine", report.ok, *details), passed=parts if report.ok else 0)


def stress_ng(run: Run, flavour: str | None = None) -> Iterator[Item]:
    """Stress the kernel by stress-ng for some seconds, between two checks.

    `redoubt stress` is for long, and chooses the flavour as this does.
    """
    plain = ", plain kernel" if flavour == "" else ""
    name, on = f"{STRESS_NG_S} s of stress-ng{plain}", run.variant("on")
    chosen = run.enforcing(name)
    machine = stress.machine(run.target, on, chosen, run.progress, flavour)
    report = stress.run(machine, on, run.progress, seconds=STRESS_NG_S)
    details = (*report.problems[:20], report.boot.describe())
    yield replace(verdict(name, on.name, report.ok, *details), skipped=len(report.left_out))
