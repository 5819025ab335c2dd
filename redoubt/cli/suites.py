# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that count what passes: KUnit's tests of one kernel, and all tests of the project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from redoubt.cli.common import (
    Task,
    alone,
    app,
    chosen_targets,
    err,
    out,
    print_lines,
    target_and_variant,
    write_bytes,
)
from redoubt.cli.options import (
    CpusOpt,
    HostOpt,
    JsonOpt,
    JunitOpt,
    KtapOpt,
    Names,
    TargetArg,
    VariantOpt,
    target_names,
)
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.machine import host
from redoubt.suite import as_junit, as_ktap, boots, steps
from redoubt.suite.pace import Left
from redoubt.suite.run import Item, Run, as_json, timed
from redoubt.targets import TARGETS, UM, Target, needs_flavour
from redoubt.trial import ktap
from redoubt.trial.case import FAILED, PASSED, SKIPPED

# What KUnit takes for names, and its wildcards; a kernel argument has no spaces.
_TESTS = re.compile(r"[\w*?\[\]!-]+(?:\.[\w*?\[\]!-]+)?")


def _shower(targets: Iterable[Target]) -> Callable[[Item], None]:
    """What prints an item as soon as it is there."""
    names = [target.name for target in targets]
    width = max(map(len, names))

    def show(item: Item) -> None:
        mark = {FAILED: "FAIL", SKIPPED: "skip", PASSED: "ok"}[item.outcome]
        counts = f"{item.passed} passed, {item.failed} failed, {item.skipped} skipped"
        # Of several targets, each line says which.
        of = f"{item.target:{width}}  " if len(names) > 1 else ""
        out.print(f"{mark:4}  {of}{item.variant:3}  {item.name}: {counts}", markup=False)
        if item.detail:
            for line in item.detail.splitlines():
                out.print(f"          {line}", markup=False)

    return show


def _teller() -> Callable[[Left], None]:
    """Return a function that tells how much time is left, whenever that changes."""
    told = ""

    def tell(left: Left) -> None:
        nonlocal told
        if str(left) != told:
            told = str(left)
            err.print(told, markup=False, style="dim")

    return tell


@dataclass(frozen=True)
class _Reports:
    """The files that the items are written to, if any."""

    junit: Path | None
    ktap: Path | None

    def write(self, first: Target, items: list[Item]) -> None:
        for file, render in ((self.junit, as_junit.render), (self.ktap, as_ktap.render)):
            if file:
                write_bytes(file, render(first.name, items))


def _end(task: Task, targets: Sequence[Target], items: list[Item], reports: _Reports) -> None:
    """Count and write the items; exit with 1 unless some tests passed and none failed."""
    failures = [item for item in items if item.outcome == FAILED]
    if failures and len(items) > 1:
        # Once more, as nobody finds them among a thousand lines.
        out.print("\nFailed:")
        show = _shower(targets)
        for item in failures:
            show(item)
    passed, failed, skipped = (
        sum(getattr(item, name) for item in items) for name in ("passed", "failed", "skipped")
    )
    out.print(f"\n{passed} passed, {failed} failed, {skipped} skipped", markup=False)
    # Last, so that on a pipe all that follows "KTAP version 1" is of the report.
    reports.write(targets[0], items)
    task.end({"tested": as_json(targets[0].name, items)}, (), passed > 0 and not failed)


@app.command("kunit")
def run_kunit(
    target: TargetArg,
    tests: Annotated[
        str,
        Argument(help="SUITE or SUITE.TEST, with the shell's wildcards; ours if not given."),
    ] = "",
    variant: VariantOpt = "on",
    flavour: Annotated[str, Option(help="Of the kernel, as debug.")] = "",
    listed: Annotated[bool, Option("--list", help="Name the tests, and run none.")] = False,
    cpus: CpusOpt = 1,
    where: HostOpt = "auto",
    json_file: JsonOpt = None,
    junit: JunitOpt = None,
    ktap_file: KtapOpt = None,
) -> None:
    """Run tests of KUnit while a kernel boots."""
    chosen, way = target_and_variant(target, variant)
    needs_flavour(chosen, flavour)
    if way.pristine:
        raise UsageError("the pristine kernel has no tests of KUnit", "--variant on, or off")
    if tests and not _TESTS.fullmatch(tests):
        raise UsageError(
            f"'{tests}' is no pattern of tests", "as kpkeys_pool, or kpkeys_pool.*free*"
        )
    task = Task(json_file)
    made = task.workbench(replace(chosen, kunit=tests or chosen.kunit), way, where, flavour=flavour)
    run = Run(made.build.target, where, False, task.display)
    if listed:
        found = ktap.listed(boots.kunit_list(run, made, way).console)
        if not found:
            raise RedoubtError(f"{chosen.name} has no test of this name")
        print_lines(found)
        return
    show = _shower([chosen])
    items = []
    with alone():
        for item in timed(boots.kunit(run, made, way, cpus=cpus)):
            show(item)
            items.append(item)
    _end(task, [chosen], items, _Reports(junit, ktap_file))


@app.command("test")
def test_all(
    targets: Annotated[
        Names, Argument(help="Targets; all if none.", autocompletion=target_names)
    ] = None,
    where: HostOpt = "auto",
    long: Annotated[
        bool, Option("--long", help="Also what takes long: debug flavour, offcheck.")
    ] = False,
    quick: Annotated[
        bool,
        Option(
            "--quick",
            help="What shows most in three minutes, if the kernel is built; um if no target.",
        ),
    ] = False,
    only: Annotated[Names, Option(help="The step of this name, slow or not; repeatable.")] = None,
    listed: Annotated[
        bool, Option("--list", help="Say which steps would run and what they do, and run none.")
    ] = False,
    json_file: JsonOpt = None,
    junit: JunitOpt = None,
    ktap_file: KtapOpt = None,
) -> None:
    """Run all tests, with protection on and off; the last line counts them."""
    if quick and long:
        raise UsageError("--quick leaves out what --long adds")
    task = Task(json_file)
    chosen = chosen_targets(targets or ([UM.name] if quick else TARGETS))
    runs = [Run(target, where, long, task.display, quick=quick) for target in chosen]
    todo = steps.chosen(runs, only or ())
    if listed:
        width = max(len(step.name) for step in todo)
        print_lines(f"{step.target:12}  {step.name:{width}}  {step.about}" for step in todo)
        return
    for target in chosen:
        # What is wrong is told now, not after the first tests.
        if place := host.enforcing(target, where):
            task.boots(target, place)
    with alone():
        items = steps.run_all(runs, _shower(chosen), only or (), _teller())
    _end(task, chosen, items, _Reports(junit, ktap_file))
