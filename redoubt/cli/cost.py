# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that measure, and show what was measured."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from redoubt.cli.common import Task, alone, app, host_for, out, print_lines, usage, write_bytes
from redoubt.cli.options import JsonOpt, Names, TargetArg, on_one_line
from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.cost import bench, figures, plots, published, stats, tables, workloads
from redoubt.cost.workloads import Workload
from redoubt.ship import freshness, report
from redoubt.targets import TARGETS, Target, get_target, get_variant
from redoubt.trial import linear_map


@app.command("bench")
def measure(
    target: TargetArg,
    names: Annotated[
        Names,
        Argument(metavar="[WORKLOADS]...", help="If none, all but those with programs of Debian."),
    ] = None,
    rounds: Annotated[
        int, Option(help="Boots of each variant.", min=stats.FEWEST_ROUNDS)
    ] = workloads.ROUNDS,
    quick: Annotated[
        bool, Option("--quick", help="Few rounds: shows that it works, not what it costs.")
    ] = False,
    seed: Annotated[
        int | None, Option(help="Of the order of boots and the statistics.", min=0)
    ] = None,
    kinds: Annotated[
        Names,
        Option(
            "--kind",
            help="time, events or instructions; what the target can give if none; may be repeated.",
        ),
    ] = None,
    variants: Annotated[Names, Option("--variant", help="What to compare; all if none.")] = None,
    beside: Annotated[
        bool,
        Option("--published", help="The workloads, sizes and variants beside published figures."),
    ] = False,
    args: Annotated[
        Names,
        Option("--arg", help="Of all kernels, to compare two runs.", callback=on_one_line),
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Measure what protection costs, and print it as tables; with --json also plots beside it."""
    chosen = get_target(target)
    if not chosen.bench:
        raise UsageError(f"there is nothing to measure on {chosen.name}")
    with usage():
        if beside:
            works, variants = _beside_published(chosen, names, variants)
        else:
            works = tuple(workloads.chosen(names or [], chosen.name))
        ways = bench.chosen_ways(chosen, kinds or [])
    some = tuple(get_variant(chosen, name) for name in variants or ())
    plan = bench.Plan(
        replace(
            chosen, variants=some or chosen.variants, bench_args=(*chosen.bench_args, *(args or []))
        ),
        works,
        min(rounds, workloads.QUICK_ROUNDS) if quick else rounds,
        secrets.randbelow(1 << 32) if seed is None else seed,
        # With fewer boots than the method demands, nothing is to be published.
        quick or rounds < workloads.ROUNDS,
    )
    task = Task(json_file)
    for way in ways:
        if way.host:
            task.boots(chosen, way.host)
    with alone():
        found = figures.collect(plan, ways, task.origin, task.display)
    task.write(found.as_json(), figures.dumps)
    if json_file:
        for name, picture in plots.plots(found).items():
            write_bytes(json_file.with_name(f"{json_file.stem}-{name}.png"), picture)
    for one in tables.counted(found):
        print_lines(["", *tables.text(one)])
    print_lines(["", *tables.text(tables.targets(found)), "", tables.legend(found)])
    if found.quick:
        out.print(tables.NOT_PUBLISHABLE, style="yellow")


def _beside_published(
    target: Target, names: Names, variants: Names
) -> tuple[tuple[Workload, ...], Names]:
    """The workloads and variants that stand beside published figures."""
    if names or variants:
        raise UsageError(
            "--published says itself which workloads and variants it compares",
            "leave the others out",
        )
    sources = published.load()
    works = published.works(target.name, sources)
    return works, [*published.variants(target.name, sources)]


_MAPPED = [target.name for target in TARGETS.values() if target.observers]


@app.command("linear-map")
def count_linear_map(
    target: Annotated[
        str, Argument(help=f"One of: {', '.join(_MAPPED)}.", autocompletion=lambda: _MAPPED)
    ],
    json_file: JsonOpt = None,
) -> None:
    """Count what creating the linear map takes, on the pristine kernel and on ours."""
    chosen = get_target(target)
    if not chosen.observers:
        raise UsageError(
            f"nothing counts what the linear map of {chosen.name} takes",
            f"targets: {', '.join(_MAPPED)}",
        )
    task = Task(json_file)
    task.boots(chosen, host_for(chosen, get_variant(chosen, "on"), "auto"))
    with alone():
        pristine, ours = linear_map.build_both(chosen, task.display).machines()
    rows = linear_map.measure(pristine, ours, task.display)
    task.end(
        {"target": chosen.name, "linear_map": [row.as_json() for row in rows]},
        linear_map.render(rows),
        all(row.met for row in rows),
    )


@app.command("report")
def show_results(
    output: Annotated[
        Path | None, Option("--out", help="The page; build/report.html if none.", dir_okay=False)
    ] = None,
    readme: Annotated[
        bool, Option("--readme", help="Rewrite the generated parts of README and docs/.")
    ] = False,
) -> None:
    """Render one HTML page of all results in results/."""
    if readme:
        paths.needs_checkout(
            "--readme", "an installed tool has no README", "redoubt report makes a page"
        )
    results = report.load(paths.results_dir())
    if readme and not results.benchmarks:
        raise RedoubtError("no benchmark in results/", report.MEND)
    if readme:
        files = {
            paths.repo() / name: report.with_block((paths.repo() / name).read_text(), block, name)
            for name, block in report.blocks(results).items()
        }
    else:
        files = {output or paths.build_dir() / "report.html": report.page(results)}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, text.encode())
        out.print(str(file), markup=False)


@app.command("results")
def judge_results() -> None:
    """Say how far each file of results/ is behind the code; exits with 1 if one is stale."""
    paths.needs_checkout(
        "redoubt results", "an installed tool has no history", "redoubt report makes a page"
    )
    found = freshness.judge(paths.repo(), paths.results_dir())
    print_lines(freshness.render(found))
    raise typer.Exit(0 if found.ok else 1)
