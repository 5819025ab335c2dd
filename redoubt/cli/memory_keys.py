# SPDX-License-Identifier: GPL-2.0-only
"""Verbs of memory under several keys."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from redoubt.cli.common import Task, app, print_lines, target_and_variant
from redoubt.cli.options import JsonOpt, TargetArg, VariantOpt
from redoubt.core.errors import UsageError
from redoubt.machine import planes
from redoubt.trial.mktme import flushes, mktme


@app.command("flushes")
def count_flushes(
    target: TargetArg = "x86_64-mktme",
    variant: VariantOpt = "on",
    times: Annotated[
        int, Option(min=1, help="How often the shortest operations are done.")
    ] = flushes.TIMES,
    json_file: JsonOpt = None,
) -> None:
    """Count the pages that are flushed if all anonymous memory is under a KeyID, and why."""
    chosen, way = target_and_variant(target, variant, mktme.needs)
    task = Task(json_file)
    made = task.workbench(chosen, way)
    report = flushes.run(made, way, times, task.display)
    task.end(
        report.as_json()
        | {"target": chosen.name, "variant": way.name, "memory_mb": made.memory_mb},
        [*flushes.render(report), "", *flushes.render_instructions(report)],
        report.ok,
        "flushes were counted wrongly, or the kernel complained",
    )


@app.command("mktme")
def use_keys(
    target: TargetArg = "x86_64-mktme",
    bug: Annotated[
        str | None,
        Option(
            help="Make a mistake on purpose, which must be noticed. One of: "
            f"{', '.join(mktme.NOTICED_BY)}."
        ),
    ] = None,
    bits: Annotated[
        int, Option(help="Of a KeyID, of the machine.", min=planes.BITS[0], max=planes.BITS[-1])
    ] = 2,
    variant: VariantOpt = "on",
) -> None:
    """Use memory under several keys, and look from outside where its data lies."""
    chosen, way = target_and_variant(target, variant, mktme.needs)
    if bug and bug not in mktme.NOTICED_BY:
        raise UsageError(f"unknown bug '{bug}'", f"bugs: {', '.join(mktme.NOTICED_BY)}")
    task = Task()
    made = task.workbench(chosen, way)
    one, two = (mktme.with_bits(made.machine(way, cpus=n), bits) for n in (1, 2))
    if bug:
        outcomes = [mktme.notices(one, bug, task.display)]
    else:
        outcomes = [
            mktme.checks(one, task.display),
            mktme.interface(two, task.display),
            *(mktme.around(two, packages, task.display) for packages in (1, 2)),
            mktme.shared(two, task.display),
        ]
        seen, views = mktme.outside(one, task.display)
        print_lines([*mktme.counts(outcomes[0].boot), *mktme.render(views)])
        outcomes.append(seen)
    wrong = [f"{one.name}: {problem}" for one in outcomes for problem in one.problems]
    task.end(
        {},
        wrong or [f"{one.name}: ok" for one in outcomes],
        not wrong,
        "memory under several keys is not what it should be",
        f"the guest's console: {outcomes[-1].boot.log}",
    )
