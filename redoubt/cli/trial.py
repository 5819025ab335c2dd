# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that try a kernel: attacks, checks, stress, the kernel's selftests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from typer import Argument, Option

from redoubt.cli.common import (
    Task,
    alone,
    app,
    err,
    host_for,
    out,
    target_and_variant,
)
from redoubt.cli.options import AppendOpt, CpusOpt, HostOpt, JsonOpt, Names, TargetArg, VariantOpt
from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.machine import host
from redoubt.targets import Target, get_variant, needs_flavour
from redoubt.trial import attack, bpf, check, selftests, stress


def known_attacks() -> list[str]:
    """The names of all attacks, from the source of the program that has them."""
    (file,) = (paths.repo() / "guest").rglob("attack.c")
    return re.findall(r'^\t\{ "([\w-]+)", (?:true|false), PRIZE_', file.read_text(), re.MULTILINE)


@app.command("attack")
def attack_kernel(
    target: TargetArg,
    where: HostOpt = "auto",
    flavour: Annotated[
        str,
        Option(
            help=f"Of the kernel; {attack.FLAVOUR} is one as one would ship it: without "
            "assertions, of which some are in the way of attacks."
        ),
    ] = "",
    repeat: Annotated[int, Option(help="How often to run each attack.", min=1, max=1000)] = 1,
    only: Annotated[Names, Option(help="The name of an attack; may be repeated.")] = None,
    json_file: JsonOpt = None,
) -> None:
    """Run the same exploits against the kernel without and with protection."""
    chosen, on = target_and_variant(target, "on")
    off = get_variant(chosen, "off")
    needs_flavour(chosen, flavour)
    known = known_attacks()
    for name in only or ():
        if name not in known:
            raise UsageError(f"there is no attack '{name}'", f"attacks: {', '.join(known)}")
    task = Task(json_file)
    made = task.workbench(chosen, on, where, flavour=flavour)
    attacks: list[attack.Attack] = []
    found: dict[tuple[str, str], attack.Outcome] = {}
    consoles = {}
    for variant in (off, on):
        offered, outcomes, result = attack.run(
            made.attack_machine(variant), variant, task.display,
            flavour=flavour, times=repeat, only=only or (),
        )  # fmt: skip
        if attacks and [known.name for known in offered] != [known.name for known in attacks]:
            raise RedoubtError("the boots offer different attacks: " + result.describe())
        attacks = offered
        consoles[variant.name] = result
        found |= {(outcome.attack, variant.name): outcome for outcome in outcomes}
    _show_attacks(chosen, attacks, found, made.host, repeat)
    options = made.build.configuration()
    wrong = [
        (known, variant)
        for known in attacks
        for variant in (off, on)
        if found[known.name, variant.name].outcome != attack.ABSENT
        and not attack.as_expected(known, found[known.name, variant.name], variant, options)
    ]
    told = [outcome.as_json() for outcome in found.values()]
    task.write({"target": chosen.name, "ok": not wrong, "attacks": told})
    for name in dict.fromkeys(variant.name for _, variant in wrong):
        err.print(f"\n{name}: {consoles[name].describe()}", markup=False)
    if wrong:
        raise RedoubtError(
            "not as it should be: " + ", ".join(f"{a.name} ({v.name})" for a, v in wrong)
        )


_ATTACK_MARKS = {
    attack.SUCCEEDED: ("red", "SUCCEEDED"),
    attack.BLOCKED: ("green", "BLOCKED"),
    attack.ABSENT: ("dim", "NOT HERE"),
}


def _attack_mark(outcome: attack.Outcome, repeat: int) -> str:
    style, word = _ATTACK_MARKS.get(outcome.outcome, ("yellow", "ERROR"))
    if repeat > 1 and outcome.outcome in outcome.counts:
        word += f" {outcome.counts[outcome.outcome]}/{repeat}"
    return f"[{style}]{word:14}[/{style}]"


def _show_attacks(
    target: Target,
    attacks: list[attack.Attack],
    found: dict[tuple[str, str], attack.Outcome],
    booted: str,
    repeat: int,
) -> None:
    where = "this CPU's protection keys" if booted == host.NATIVE else (
        "the protection keys of a CPU emulated by QEMU"
    )  # fmt: skip
    out.print(f"\nLinux on {target.name}, {where}; attacker: an unprivileged user.\n", markup=False)
    for in_scope, title in ((True, "ATTACKS"), (False, "NOT STOPPED")):
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


@app.command("check")
def check_kernel(
    target: TargetArg,
    variant: VariantOpt = "on",
    where: HostOpt = "auto",
    seconds: Annotated[
        int, Option("--stress", help="Seconds of stress between two checks.", min=0)
    ] = 0,
    cpus: CpusOpt = 2,
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Ask a running kernel whether every page table is protected, before and after stress."""
    chosen, way = target_and_variant(target, variant)
    if not way.protected:
        raise UsageError(
            f"variant {variant} protects nothing: there is nothing to check", "check the variant on"
        )
    task = Task(json_file)
    made = task.workbench(chosen, way, where)
    report = check.run(made.machine(way, *(append or ()), cpus=cpus), way, seconds, task.display)
    task.end(
        report.as_json(),
        _checked(report, seconds),
        report.ok,
        "the check failed: " + report.boot.describe(),
    )


def _checked(report: check.Report, seconds: int) -> Iterator[str]:
    for when, walk in zip(("after boot", "after stress"), report.walks, strict=False):
        yield (
            f"{when}: {walk.tables} page table pages, {walk.untagged} untagged, "
            f"{walk.aliases} writable aliases, {walk.unlinked} unlinked, "
            f"{walk.foreign} foreign pages tagged"
        )
    for audit in report.audits or ():
        yield (
            f"restricted direct map: {audit.sensitive} sensitive pageblocks, {audit.ordinary} "
            f"others, {audit.leaks} leaks, {audit.stale} stale entries, {audit.missing} missing"
        )
    if seconds:
        yield f"stress: {report.operations} operations, {report.stress_errors} wrong"
        if report.left_out:
            yield f"left out: {', '.join(report.left_out)}"
        if report.missing:
            yield f"configured, but left out: {', '.join(report.missing)}"
    yield from (*report.wrong, *report.exceptions)


@app.command("stress")
def stress_kernel(
    target: TargetArg,
    minutes: Annotated[int, Option(help="Of guest time.", min=1, max=1440)] = 10,
    variant: VariantOpt = "on",
    where: HostOpt = "auto",
    flavour: Annotated[
        str | None, Option(help="Of the kernel, as debug; the one that stressors need if none.")
    ] = None,
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Stress a kernel for long by stress-ng: is all protected, and nothing lost?"""
    chosen, way = target_and_variant(target, variant)
    needs_flavour(chosen, flavour or "")
    place = host_for(chosen, way, where)
    task = Task(json_file)
    task.boots(chosen, place)
    with alone():
        machine = stress.machine(chosen, way, place, task.display, flavour, append or ())
    report = stress.run(machine, way, task.display, seconds=60 * minutes)
    task.end(
        report.as_json(),
        stress.render(report),
        report.ok,
        "the stress failed: " + "\n    ".join(report.problems),
        f"its console: {report.boot.log}",
    )


@app.command("selftests")
def compare_selftests(
    target: TargetArg,
    categories: Annotated[
        Names,
        Argument(
            help="Of run_vmtests.sh, as thp, or a directory, as ptrace; all of these if none. Or "
            "bpf, alone: it takes kernels of its own and clang."
        ),
    ] = None,
    variant: VariantOpt = "on",
    json_file: JsonOpt = None,
) -> None:
    """Run the kernel's own tests of mm and of tasks on pristine and on our kernel, and compare."""
    chosen, way = target_and_variant(target, variant)
    wanted = categories or ()
    if bpf.NAME in wanted and len(wanted) > 1:
        raise UsageError("the tests of BPF run alone", f"redoubt selftests {target} {bpf.NAME}")
    needs_flavour(chosen, bpf.FLAVOUR if bpf.NAME in wanted else selftests.FLAVOUR)
    task = Task(json_file)
    place = task.boots(chosen, host.needs_enforcing(chosen, "auto"))
    with alone():
        if bpf.NAME in wanted:
            report = bpf.check(chosen, way, place, task.display)
        else:
            report = selftests.check(chosen, way, place, task.display, wanted)
    task.end(report.as_json(), selftests.render(report), report.ok)
