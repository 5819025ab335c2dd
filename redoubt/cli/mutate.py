# SPDX-License-Identifier: GPL-2.0-only
"""The verb that judges the tests."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import Annotated

from typer import Option

from redoubt.cli.common import Task, alone, app, err, out, usage
from redoubt.cli.options import HostOpt, JsonOpt, Names, TargetArg
from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.linux import source
from redoubt.machine import host
from redoubt.mutate import asi_places, judge, places
from redoubt.suite.run import Run
from redoubt.targets import get_target


@app.command("mutate")
def mutate_kernel(
    target: TargetArg,
    only: Annotated[
        Names, Option(help="Places whose file or function is this, * for anything; repeatable.")
    ] = None,
    listed: Annotated[bool, Option("--list", help="Show the places and build nothing.")] = False,
    sample: Annotated[int | None, Option(help="So many places at random.", min=1)] = None,
    seed: Annotated[int | None, Option(help="Of the sample.", min=0)] = None,
    where: HostOpt = "auto",
    json_file: JsonOpt = None,
    add: Annotated[
        bool, Option("--add", help="Keep what the file of --json has of other places.")
    ] = False,
) -> None:
    """Take out each guard of page tables and of address space isolation: does a test notice?

    One at a time. '*:asi-*' are those of isolation.
    """
    chosen = get_target(target)
    if listed and json_file:
        raise UsageError("--list judges nothing, so there is no result to write")
    if add and not json_file:
        raise UsageError("--add needs a file to add to: --json FILE")
    # To list places takes no host, but one that is none is an error anyhow.
    if (lacking := host.lacking(chosen, where)) and not listed:
        raise lacking
    known = judge.load_reasons(paths.repo() / "configs" / "mutate" / f"{chosen.name}.toml")
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    task = Task(json_file)
    with alone():
        pristine = source.obtain(task.display).path
        found = places.sources(chosen, pristine, paths.repo())
        sites = tuple(asi_places.sites(found, chosen))
        with usage():
            picked = judge.chosen(sites, only or (), sample, seed)
        if sample:
            err.print(f"seed {seed}", markup=False)
        if listed:
            for site in picked:
                place = f"{site.file}:{site.line}  {site.function}  {site.kind} {site.number}"
                out.print(f"{place}: {site.text}  ->  {site.mutated}", markup=False)
            out.print(f"\n{len(picked)} of {len(sites)} places", markup=False)
            return
        enforcing = task.boots(chosen, host.needs_enforcing(chosen, where))
        run = Run(chosen, where, False, task.display, judge.PATIENCE_S[enforcing])
        shop = judge.Workshop(run, enforcing, pristine, found, sites, paths.repo())
        if add and json_file:
            # Before hours of work, not after.
            judge.added(json_file, chosen.name, sites, ())
        results = judge.judge_all(picked, shop, shop.kept(), partial(_show_mutant, len(picked)))
    results = [replace(result, commit=task.origin["commit"]) for result in results]
    if add and json_file:
        results = judge.added(json_file, chosen.name, sites, results)
    report = judge.Report(chosen.name, sites, tuple(results), known)
    task.end(report.as_json(), ["", *judge.render(report)], report.ok)


def _show_mutant(total: int, result: judge.Result, number: int, left_s: float | None) -> None:
    site, verdict = result.site, result.verdict
    how = f" by {verdict.by}: {verdict.words}" if verdict.by else ""
    left = f", about {left_s / 60:.0f} min left" if left_s else ""
    known = ", known" if result.known else ""
    out.print(
        f"[{number}/{total}{known}{left}] {site.file}:{site.line} {site.function} "
        f"({site.kind}): {verdict.outcome}{how}",
        markup=False,
    )
