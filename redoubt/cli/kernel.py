# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that obtain, build and boot a kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from redoubt.cli.common import (
    AppendOpt,
    Display,
    HostOpt,
    TargetArg,
    VariantOpt,
    alone,
    app,
    err,
    out,
    workbench,
)
from redoubt.core.errors import RedoubtError
from redoubt.linux import source as source_module
from redoubt.machine import boot as boot_module
from redoubt.machine import doctor as doctor_module
from redoubt.machine import kernels
from redoubt.targets import get_target, get_variant


@app.command()
def doctor() -> None:
    """Say what this machine has and lacks, and what mends it."""
    findings = doctor_module.examine()
    for finding in findings:
        mark = "ok" if finding.ok else ("MISSING" if finding.needed else "no")
        out.print(f"{mark:8} {finding.name}: {finding.detail}", markup=False)
    missing = [finding for finding in findings if finding.needed and not finding.ok]
    for fix in dict.fromkeys(finding.fix for finding in missing if finding.fix):
        out.print(f"mend with: {fix}", markup=False)
    raise typer.Exit(1 if missing else 0)


@app.command()
def source() -> None:
    """Obtain and unpack the pristine kernel, or check the one in LINUX_SRC."""
    with alone():
        found = source_module.obtain(Display())
    out.print(f"Linux {found.version} in {found.path}", markup=False)


@app.command()
def tree() -> None:
    """Make our tree: pristine source, the files of kernel/, all patches."""
    with alone():
        out.print(str(kernels.our_tree(Display())), markup=False)


@app.command()
def build(target: TargetArg, variant: VariantOpt = "on") -> None:
    """Configure and build a kernel."""
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    with alone():
        built = kernels.prepare(chosen, way, Display())
    out.print(str(built.directory / chosen.image), markup=False)


@app.command(context_settings={"ignore_unknown_options": True})
def run(
    target: TargetArg,
    command: Annotated[
        list[str] | None, typer.Argument(help="A command for the guest (put -- before it).")
    ] = None,
    variant: VariantOpt = "on",
    host: HostOpt = "auto",
    cpus: Annotated[int, typer.Option(help="CPUs of the guest.", min=1, max=2)] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds for the command.", min=1)] = 300,
    append: AppendOpt = None,
) -> None:
    """Boot a kernel: with a shell, or to run a command and exit with its status."""
    display = Display()
    with alone():
        _, way, made = workbench(target, variant, host, display)
        machine = made.machine(way, *(append or ()), cpus=cpus)
    if not command:
        raise typer.Exit(boot_module.interactive(machine, display))
    result = boot_module.boot(
        machine,
        command,
        timeout=timeout,
        name=f"run-{target}",
        progress=display,
        watch=lambda line: out.print(line, markup=False),
    )
    # An oops leaves the rest of the guest running: the command may well have ended with 0.
    if result.outcome != "finished" or (result.complaints and not result.status):
        raise RedoubtError(result.describe())
    if result.complaints:
        err.print(f"redoubt: {result.describe()}", markup=False, style="red")
    raise typer.Exit(result.status or 0)
