# SPDX-License-Identifier: GPL-2.0-only
"""Verbs of address space isolation."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from typer import Option

from redoubt.cli.common import Task, app, target_and_variant
from redoubt.cli.options import AppendOpt, JsonOpt, TargetArg, VariantOpt
from redoubt.trial.asi import asi, conversions, exits
from redoubt.trial.oracle import oracle


@app.command("exits")
def count_exits(
    target: TargetArg,
    variant: VariantOpt = "on",
    times: Annotated[int, Option(min=1, help="How often each operation is done.")] = exits.TIMES,
    cpus: Annotated[
        int, Option(help="CPUs of the guest. With 2 nothing is exact.", min=1, max=2)
    ] = 1,
    json_file: JsonOpt = None,
) -> None:
    """Count how often operations leave the restricted address space, and why."""
    chosen, way = target_and_variant(target, variant, asi.needs)
    task = Task(json_file)
    made = task.workbench(chosen, way)
    report = exits.run(made, way, times, task.display, ways=list(exits.WAYS), cpus=cpus)
    task.end(
        report.as_json() | {"target": chosen.name, "variant": way.name, "cpus": cpus},
        [*exits.render(report), "", *exits.render_events(report)],
        report.ok,
        "more exits than there may be, or the kernel complained",
    )


@app.command("conversions")
def count_conversions(
    target: TargetArg, variant: VariantOpt = "on", json_file: JsonOpt = None
) -> None:
    """Count how often pageblocks change their kind under address space isolation."""
    chosen, way = target_and_variant(target, variant, asi.needs)
    task = Task(json_file)
    made = task.workbench(chosen, way)
    report = conversions.run(made, way, task.display)
    task.end(
        report.as_json() | {"target": chosen.name, "variant": way.name},
        conversions.render(report),
        report.ok,
        f"{len(report.problems)} complaints or failed allocations",
    )


@app.command("oracle")
def read_outside(
    target: TargetArg,
    root: Annotated[
        str,
        Option(
            help="Page tables: current, in which everything has to be found, or restricted, in "
            "which nothing of it may be."
        ),
    ] = "current",
    mistake: Annotated[
        bool,
        Option(
            "--mistake", help="Map a page of a secret on purpose where it must not be: it is found."
        ),
    ] = False,
    place: Annotated[
        str,
        Option(
            "--at",
            help="Where the process is stopped: user (mode), guest (of KVM, its own), or exit (of "
            "that, in the kernel).",
        ),
    ] = "user",
    variant: VariantOpt = "on",
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Stop a guest and find out from outside which secrets of others its page tables reach."""
    chosen, way = target_and_variant(
        target, variant, partial(oracle.needs, root=root, mistake=mistake, place=place)
    )
    task = Task(json_file)
    made = task.workbench(chosen, way, flavour=oracle.FLAVOUR)
    machine = made.machine(way, *(append or ()), attacks=mistake)
    report = oracle.run(machine, root, task.display, mistake=mistake, place=place)
    task.end(
        report.as_json() | {"variant": way.name},
        oracle.render(report),
        report.ok,
        f"what the page tables '{root}' reach is not what it should be",
        f"the guest's console: {report.boot.log}",
    )
