# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that measure, and show what was measured."""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from redoubt.cli.common import (
    Display,
    JsonOpt,
    alone,
    app,
    out,
    print_lines,
    write_bytes,
    write_json,
)
from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.cost import bench as bench_module
from redoubt.cost import figures, plots, stats, tables, workloads
from redoubt.machine import provenance
from redoubt.ship import report as report_module
from redoubt.targets import get_target, get_variant
from redoubt.trial import linear_map as linear_map_module


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Workloads; all if none.")] = None,
    target: Annotated[str, typer.Option("--target", help="What to measure.")] = "um",
    rounds: Annotated[
        int, typer.Option(help="Boots of each variant.", min=stats.FEWEST_ROUNDS)
    ] = workloads.ROUNDS,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few rounds: shows that it works, not what it costs.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Of the order of boots and the statistics.", min=0)
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="time, events or instructions; what the target can give if none; may be repeated.",
        ),
    ] = None,
    variants: Annotated[
        list[str] | None, typer.Option("--variant", help="What to compare; all if none.")
    ] = None,
    args: Annotated[
        list[str] | None, typer.Option("--arg", help="Of all kernels, to compare two runs.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Measure what protection costs, and print it as tables; with --json also plots beside it."""
    display = Display()
    chosen = get_target(target)
    if not chosen.bench:
        raise RedoubtError(
            f"there is nothing to measure on {chosen.name} yet but its linear map",
            "redoubt linear-map",
        )
    some = tuple(get_variant(chosen, name) for name in variants or ())
    plan = bench_module.Plan(
        replace(
            chosen,
            variants=some or chosen.variants,
            bench_args=(*chosen.bench_args, *(args or [])),
        ),
        tuple(workloads.chosen(names or [], chosen.name)),
        min(rounds, workloads.QUICK_ROUNDS) if quick else rounds,
        secrets.randbelow(1 << 32) if seed is None else seed,
        # With fewer boots than the method demands, nothing is to be published.
        quick or rounds < workloads.ROUNDS,
    )
    ways = bench_module.chosen_ways(chosen, kinds or [])
    with alone():
        report = figures.collect(plan, ways, provenance.collect(sys.argv[1:]), display)
    if json_file:
        write_json(json_file, figures.dumps(report.as_json()))
        for name, picture in plots.plots(report).items():
            write_bytes(json_file.with_name(f"{json_file.stem}-{name}.png"), picture)
    for one in tables.counted(report):
        print_lines(["", *tables.text(one)])
    print_lines(["", *tables.text(tables.targets(report)), "", tables.legend(report)])
    if report.quick:
        out.print(tables.NOT_PUBLISHABLE, style="yellow")


@app.command()
def linear_map(json_file: JsonOpt = None) -> None:
    """Count what creating the linear map of arm64 takes, on the pristine kernel and on ours."""
    display = Display()
    chosen = get_target("arm64")
    origin = provenance.collect(sys.argv[1:])
    with alone():
        pristine, ours = linear_map_module.build_both(chosen, display).machines()
    rows = linear_map_module.measure(pristine, ours, display)
    write_json(
        json_file, origin | {"target": chosen.name, "linear_map": [row.as_json() for row in rows]}
    )
    print_lines(list(linear_map_module.render(rows)))
    raise typer.Exit(0 if all(row.met for row in rows) else 1)


@app.command()
def report(
    output: Annotated[
        Path | None,
        typer.Option("--out", help="The page; build/report.html if none.", dir_okay=False),
    ] = None,
    readme: Annotated[
        bool, typer.Option("--readme", help="Rewrite the generated parts of README and docs/.")
    ] = False,
) -> None:
    """Render one HTML page of all results in results/."""
    results = report_module.load(paths.results_dir())
    if readme:
        if not results.benchmarks:
            raise RedoubtError("no benchmark in results/", "make bench")
        for name, block in report_module.blocks(results).items():
            file = paths.repo() / name
            text = report_module.with_block(file.read_text(), block, name)
            write_bytes(file, text.encode())
            out.print(str(file), markup=False)
    else:
        file = output or paths.build_dir() / "report.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, report_module.page(results).encode())
        out.print(str(file), markup=False)
