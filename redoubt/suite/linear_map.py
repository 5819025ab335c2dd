# SPDX-License-Identifier: GPL-2.0-only
"""The linear map, compared with that of the pristine kernel."""

from __future__ import annotations

from collections.abc import Iterator

from redoubt.machine import host
from redoubt.ship.stick import plan
from redoubt.suite import boots
from redoubt.suite.run import Item, Run, verdict
from redoubt.trial import attack, linear_map, selftests


def compared(run: Run, flavour: str = "") -> Iterator[Item]:
    """Compare the linear map with that of the pristine kernel; it must take no fixmap slot.

    Without keys, which would make page tables differ from the rest.
    """
    off, label = run.variant("off"), f", {flavour} flavour" if flavour else ""
    if problem := host.lacking(run.target, run.host_choice):
        yield Item(f"linear map{label}", off.name, 0, 0, 1, problem.message)
        return
    made = linear_map.build_both(run.target, run.progress, flavour)
    pristine, ours = made.machines()
    for setting in linear_map.settings(ours.build):
        found = linear_map.compare(pristine, ours, setting, run.progress)
        name = f"linear map as on pristine, {setting.name}{label}"
        details = (*found.problems, found.ours.boot.describe())
        yield verdict(name, off.name, not found.problems, *details)
    if flavour:
        for cpus in (1, 4):
            yield from boots.kunit(run, made.ours, run.variant("on"), cpus=cpus, label=label)
    if linear_map.wide(ours.build):
        # Where the first table of a process is smaller than a page, and where it could be.
        yield boots.checked(run, made.ours, boots.STRESS_S, cpus=2, label=label)
        narrow, label = made.ours.by(linear_map.NARROW), f"{label}, {linear_map.NARROW.name}"
        yield from boots.kunit(run, narrow, run.variant("on"), cpus=2, label=label)
        yield boots.checked(run, narrow, boots.STRESS_S, cpus=2, label=label)


def flavours(run: Run) -> Iterator[Item]:
    """Compare the linear map in each flavour: other sizes of pages and addresses, own checks."""
    for flavour in run.target.flavours:
        # Their options are about processes, drivers, and what is tested in other ways.
        if flavour not in (selftests.FLAVOUR, attack.FLAVOUR, plan.FLAVOUR):
            yield from compared(run, flavour)
