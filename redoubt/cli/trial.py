# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that try a kernel: attacks, checks, stress, tests."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from redoubt.cli.common import (
    AppendOpt,
    Display,
    HostOpt,
    JsonOpt,
    TargetArg,
    VariantOpt,
    alone,
    app,
    chosen_targets,
    err,
    out,
    print_lines,
    write_json,
)
from redoubt.core.errors import RedoubtError
from redoubt.machine import host as host_module
from redoubt.machine import kernels, provenance
from redoubt.suite import steps
from redoubt.suite.run import Item, Run, as_json
from redoubt.targets import TARGETS, Target, get_target, get_variant
from redoubt.trial import attack as attack_module
from redoubt.trial import check as check_module
from redoubt.trial import selftests as selftests_module
from redoubt.trial import stress as stress_module


@app.command()
def attack(
    target: TargetArg,
    host: HostOpt = "auto",
    flavour: Annotated[
        str,
        typer.Option(
            help=f"Of the kernel; {attack_module.FLAVOUR} is one as one would ship it: without "
            "assertions, of which some are in the way of attacks."
        ),
    ] = "",
    repeat: Annotated[int, typer.Option(help="How often to run each attack.", min=1, max=1000)] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="The name of an attack; may be repeated.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Run the same exploits against the kernel without and with protection."""
    display = Display()
    chosen = get_target(target)
    off, on = get_variant(chosen, "off"), get_variant(chosen, "on")
    with alone():
        made = kernels.workbench(
            chosen, on, host_module.needs_enforcing(chosen, host), display, flavour=flavour
        )
    attacks: list[attack_module.Attack] = []
    found: dict[tuple[str, str], attack_module.Outcome] = {}
    consoles = {}
    for variant in (off, on):
        offered, outcomes, result = attack_module.run(
            made.attack_machine(variant), variant, display,
            flavour=flavour, times=repeat, only=only or (),
        )  # fmt: skip
        if attacks and [known.name for known in offered] != [known.name for known in attacks]:
            raise RedoubtError("the boots offer different attacks: " + result.describe())
        attacks = offered
        consoles[variant.name] = result
        found |= {(outcome.attack, variant.name): outcome for outcome in outcomes}
    write_json(json_file, [outcome.as_json() for outcome in found.values()])

    _show_attacks(chosen, attacks, found, made.host, repeat)
    wrong = [
        (known, variant)
        for known in attacks
        for variant in (off, on)
        if found[known.name, variant.name].outcome != attack_module.ABSENT
        and not attack_module.as_expected(known, found[known.name, variant.name], variant)
    ]
    for name in dict.fromkeys(variant.name for _, variant in wrong):
        err.print(f"\n{name}: {consoles[name].describe()}", markup=False)
    if wrong:
        raise RedoubtError(
            "not as it should be: " + ", ".join(f"{a.name} ({v.name})" for a, v in wrong)
        )


_ATTACK_MARKS = {
    attack_module.SUCCEEDED: ("red", "SUCCEEDED"),
    attack_module.BLOCKED: ("green", "BLOCKED"),
    attack_module.ABSENT: ("dim", "NOT HERE"),
}


def _attack_mark(outcome: attack_module.Outcome, repeat: int) -> str:
    """What came of an attack, and of how many of its runs."""
    style, word = _ATTACK_MARKS.get(outcome.outcome, ("yellow", "ERROR"))
    if repeat > 1 and outcome.outcome in outcome.counts:
        word += f" {outcome.counts[outcome.outcome]}/{repeat}"
    return f"[{style}]{word:14}[/{style}]"


def _show_attacks(
    target: Target,
    attacks: list[attack_module.Attack],
    found: dict[tuple[str, str], attack_module.Outcome],
    host: str,
    repeat: int,
) -> None:
    where = "this CPU's protection keys" if host == host_module.NATIVE else (
        "the protection keys of a CPU emulated by QEMU"
    )  # fmt: skip
    out.print(f"\nLinux on {target.name}, {where}; attacker: an unprivileged user.\n", markup=False)
    for in_scope, title in ((True, "ATTACKS ON PAGE TABLES"), (False, "OUT OF SCOPE")):
        chosen = [known for known in attacks if known.in_scope == in_scope]
        if not chosen:
            continue
        out.print(f"[bold]{title:24}  protection off  protection on[/bold]")
        for known in chosen:
            outcomes = {way: found[known.name, way] for way in ("off", "on")}
            marks = [_attack_mark(outcome, repeat) for outcome in outcomes.values()]
            out.print(f"{known.name:24}  {'  '.join(marks)}")
            out.print(f"    {known.description}", markup=False)
            if len(outcomes["off"].counts) > 1:
                out.print(f"    off: {outcomes['off'].detail}", markup=False, style="dim")
            out.print(f"    on: {outcomes['on'].detail}", markup=False, style="dim")
        out.print()


@app.command()
def check(
    target: TargetArg,
    variant: VariantOpt = "on",
    host: HostOpt = "auto",
    stress: Annotated[int, typer.Option(help="Seconds of stress between two checks.", min=0)] = 0,
    cpus: Annotated[int, typer.Option(help="CPUs of the guest.", min=1, max=2)] = 2,
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Ask a running kernel whether every page table is protected, before and after stress."""
    display = Display()
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    with alone():
        made = kernels.workbench(chosen, way, host_module.needs_enforcing(chosen, host), display)
    machine = made.machine(way, *(append or ()), cpus=cpus)
    report = check_module.run(machine, way, stress, display)
    if json_file:
        write_json(json_file, report.as_json() | provenance.collect(sys.argv[1:]))
    for when, walk in zip(("after boot", "after stress"), report.walks, strict=False):
        out.print(
            f"{when}: {walk.tables} page table pages, {walk.untagged} untagged, "
            f"{walk.aliases} writable aliases, {walk.foreign} foreign pages tagged",
            markup=False,
        )
    for audit in report.audits or ():
        out.print(
            f"restricted direct map: {audit.sensitive} sensitive pageblocks, {audit.ordinary} "
            f"others, {audit.leaks} leaks, {audit.stale} stale entries, {audit.missing} missing",
            markup=False,
        )
    if stress:
        out.print(
            f"stress: {report.operations} operations, {report.stress_errors} wrong", markup=False
        )
        if report.left_out:
            out.print(f"left out: {', '.join(report.left_out)}", markup=False)
        if report.missing:
            out.print(f"configured, but left out: {', '.join(report.missing)}", markup=False)
    print_lines([*report.wrong, *report.exceptions])
    if not report.ok:
        raise RedoubtError("the check failed: " + report.boot.describe())


@app.command()
def stress(
    target: TargetArg,
    minutes: Annotated[int, typer.Option(help="Of guest time.", min=1, max=1440)] = 10,
    variant: VariantOpt = "on",
    host: HostOpt = "auto",
    flavour: Annotated[
        str | None,
        typer.Option(help="Of the kernel, as debug; the one that stressors need if none."),
    ] = None,
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Stress a kernel for long by stress-ng: is all protected, and nothing lost?"""
    display = Display()
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    origin = provenance.collect(sys.argv[1:])
    with alone():
        place = (
            host_module.needs_enforcing(chosen, host)
            if way.protected
            else host_module.pick(chosen, host)
        )
        machine = stress_module.machine(chosen, way, place, display, flavour, append or ())
    report = stress_module.run(machine, way, display, seconds=60 * minutes)
    write_json(json_file, report.as_json() | origin)
    print_lines(list(stress_module.render(report)))
    if not report.ok:
        raise RedoubtError(
            "the stress failed: " + "\n    ".join(report.problems),
            f"its console: {report.boot.log}",
        )


@app.command()
def selftests(
    target: TargetArg,
    categories: Annotated[
        list[str] | None, typer.Argument(help="Of run_vmtests.sh, as thp or cow; all if none.")
    ] = None,
    variant: VariantOpt = "on",
    json_file: JsonOpt = None,
) -> None:
    """Run the kernel's own tests of mm on the pristine kernel and on ours, and compare."""
    display = Display()
    chosen = get_target(target)
    origin = provenance.collect(sys.argv[1:])
    with alone():
        host = host_module.needs_enforcing(chosen, "auto")
        report = selftests_module.check(
            chosen, get_variant(chosen, variant), host, display, categories or ()
        )
    write_json(json_file, report.as_json() | origin)
    print_lines(list(selftests_module.render(report)))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def test(
    targets: Annotated[list[str] | None, typer.Argument(help="Targets; all if none.")] = None,
    host: HostOpt = "auto",
    long: Annotated[
        bool, typer.Option("--long", help="Also what takes long: debug flavour, offcheck.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="The step of this name, slow or not; repeatable.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Run all tests, with protection on and off; the last line counts them."""
    display = Display()
    chosen = chosen_targets(targets or TARGETS)
    for target in chosen:
        host_module.enforcing(target, host)  # What is wrong is told now, not after the first tests.

    width = max(len(target.name) for target in chosen)

    def show(item: Item) -> None:
        mark = "FAIL" if item.failed else ("skip" if not item.passed else "ok")
        counts = f"{item.passed} passed, {item.failed} failed, {item.skipped} skipped"
        # Of several targets, each line says which.
        where = f"{item.target:{width}}  " if len(chosen) > 1 else ""
        out.print(f"{mark:4}  {where}{item.variant:3}  {item.name}: {counts}", markup=False)
        if item.detail:
            for line in item.detail.splitlines():
                out.print(f"          {line}", markup=False)

    with alone():
        runs = [Run(target, host, long, display) for target in chosen]
        items = steps.run_all(runs, show, only or ())
    write_json(json_file, as_json(chosen[0].name, items))
    passed, failed, skipped = (
        sum(getattr(item, name) for item in items) for name in ("passed", "failed", "skipped")
    )
    out.print(f"\n{passed} passed, {failed} failed, {skipped} skipped", markup=False)
    raise typer.Exit(1 if failed or not passed else 0)
