# SPDX-License-Identifier: GPL-2.0-only
"""Verbs of address space isolation."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from redoubt.cli.common import (
    AppendOpt,
    Display,
    JsonOpt,
    TargetArg,
    VariantOpt,
    alone,
    app,
    print_lines,
    workbench,
    write_json,
)
from redoubt.core.errors import RedoubtError
from redoubt.machine import host as host_module
from redoubt.machine import kernels, provenance
from redoubt.targets import Target, Variant, get_target, get_variant
from redoubt.trial.asi import asi
from redoubt.trial.asi import conversions as conversions_module
from redoubt.trial.asi import exits as exits_module
from redoubt.trial.oracle import oracle as oracle_module


def _isolated(
    target: str, variant: str, display: Display
) -> tuple[Target, Variant, kernels.Workbench]:
    """The same, of a target whose kernel has address space isolation; an error for any other."""
    asi.needs(get_target(target))
    with alone():
        return workbench(target, variant, "auto", display)


@app.command()
def exits(
    target: TargetArg,
    variant: VariantOpt = "on",
    times: Annotated[
        int, typer.Option(min=1, help="How often each operation is done.")
    ] = exits_module.TIMES,
    cpus: Annotated[
        int, typer.Option(help="CPUs of the guest. With 2 nothing is exact.", min=1, max=2)
    ] = 1,
    json_file: JsonOpt = None,
) -> None:
    """Count how often operations leave the restricted address space, and why."""
    display = Display()
    origin = provenance.collect(sys.argv[1:])
    chosen, way, made = _isolated(target, variant, display)
    report = exits_module.run(
        made, way, times, display, ways=list(exits_module.WAYS), cpus=cpus
    )  # fmt: skip
    origin |= {"target": chosen.name, "variant": way.name, "cpus": cpus}
    write_json(json_file, report.as_json() | origin)
    print_lines([*exits_module.render(report), "", *exits_module.render_events(report)])
    if not report.ok:
        raise RedoubtError("more exits than there may be, or the kernel complained")


@app.command()
def conversions(target: TargetArg, variant: VariantOpt = "on", json_file: JsonOpt = None) -> None:
    """Count how often pageblocks change their kind under address space isolation."""
    display = Display()
    origin = provenance.collect(sys.argv[1:])
    chosen, way, made = _isolated(target, variant, display)
    report = conversions_module.run(made, way, display)
    write_json(json_file, report.as_json() | {"target": chosen.name, "variant": way.name} | origin)
    print_lines(list(conversions_module.render(report)))
    if not report.ok:
        raise RedoubtError(f"{len(report.problems)} complaints or failed allocations")


@app.command()
def oracle(
    target: TargetArg,
    root: Annotated[
        str,
        typer.Option(
            help="Page tables: current, in which everything has to be found, or restricted, in "
            "which nothing of it may be."
        ),
    ] = "current",
    mistake: Annotated[
        bool,
        typer.Option(
            "--mistake", help="Map a page of a secret on purpose where it must not be: it is found."
        ),
    ] = False,
    variant: VariantOpt = "on",
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Stop a guest and find out from outside which secrets of others its page tables reach."""
    display = Display()
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    oracle_module.needs(chosen, root, mistake)
    place = host_module.pick(chosen, "auto")
    origin = provenance.collect(sys.argv[1:])
    with alone():
        made = kernels.workbench(chosen, way, place, display, flavour=oracle_module.FLAVOUR)
    machine = made.machine(way, *(append or ()), attacks=mistake)
    report = oracle_module.run(machine, root, display, mistake=mistake)
    write_json(json_file, report.as_json() | {"variant": way.name} | origin)
    print_lines(oracle_module.render(report))
    if not report.ok:
        raise RedoubtError(
            f"what the page tables '{root}' reach is not what it should be",
            f"the guest's console: {report.boot.log}",
        )
