# SPDX-License-Identifier: GPL-2.0-only
"""Memory under several keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redoubt.machine import planes
from redoubt.suite import boots
from redoubt.suite.run import Item, Run, outcome_item, verdict
from redoubt.trial.mktme import flushes, mktme

# How often the shortest operations are done when flushes are counted.
FLUSHES = 1_000


def encryption(run: Run) -> Iterator[Item]:
    """Read memory under KeyIDs from inside and out, and make mistakes that have to be noticed."""
    name, on = "memory under several keys", run.variant("on")
    made = run.workbench(name)
    for variant, cpus in ((on, 1), (on, 2), (run.variant("off"), 1), (run.variant("plain"), 1)):
        yield from boots.kunit(run, made, variant, cpus=cpus)
    yield from boots.attacks(run, made)
    yield boots.checked(run, made, 10, cpus=2)
    for variant in (on, run.variant("off")):
        outcomes = [mktme.checks(made.machine(variant, cpus=2), run.progress)]
        outcomes.append(mktme.interface(made.machine(variant, cpus=2), run.progress))
        outcomes.append(mktme.outside(made.machine(variant), run.progress)[0])
        for outcome in outcomes:
            yield replace(outcome_item(f"{name}: {outcome.name}", outcome), variant=variant.name)
    for packages in (1, 2):
        outcome = mktme.around(made.machine(on, cpus=2), packages, run.progress)
        yield outcome_item(f"{name}: {outcome.name}", outcome)
    yield outcome_item(name, mktme.shared(made.machine(on, cpus=2), run.progress))
    # As many as four levels of page tables have room for, beside what KASLR leaves free.
    many = mktme.with_bits(made.machine(on, "no5lvl", cpus=2), planes.BITS[-1])
    for outcome in (
        mktme.interface(many, run.progress), mktme.outside(many, run.progress)[0],
    ):  # fmt: skip
        yield outcome_item(f"{name}: {outcome.name}, 15 KeyIDs, 4 levels", outcome)
    report = flushes.run(made, on, FLUSHES, run.progress)
    yield verdict(f"{name}: flushes", on.name, report.ok, *flushes.render(report))
    for bug in mktme.NOTICED_BY:
        outcome = mktme.notices(made.machine(on), bug, run.progress)
        yield outcome_item(f"{name}: {outcome.name}", outcome)
