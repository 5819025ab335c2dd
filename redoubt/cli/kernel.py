# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that obtain, build and boot a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from redoubt.cli.common import Display, alone, app, err, out, print_lines, target_and_variant
from redoubt.cli.options import AppendOpt, CpusOpt, HostOpt, Names, TargetArg, VariantOpt
from redoubt.core.errors import RedoubtError
from redoubt.linux import emulator, source
from redoubt.machine import boot, doctor, host, kernels
from redoubt.ship import series


@app.command("doctor")
def examine() -> None:
    """Say what this machine has and lacks, and what mends it."""
    findings = doctor.examine()
    for finding in findings:
        mark = "ok" if finding.ok else ("MISSING" if finding.needed else "no")
        out.print(f"{mark:8} {finding.name}: {finding.detail}", markup=False)
    missing = [finding for finding in findings if finding.needed and not finding.ok]
    for fix in dict.fromkeys(finding.fix for finding in missing if finding.fix):
        out.print(f"mend with: {fix}", markup=False)
    raise typer.Exit(1 if missing else 0)


@app.command("source")
def obtain_source() -> None:
    """Obtain and unpack the pristine kernel, or check the one in LINUX_SRC."""
    with alone():
        found = source.obtain(Display())
    out.print(f"Linux {found.version} in {found.path}", markup=False)


@app.command("tree")
def make_tree() -> None:
    """Make our tree: pristine source, the files of kernel/, all patches."""
    with alone():
        out.print(str(kernels.our_tree(Display())), markup=False)


@app.command("emulator")
def build_emulator(
    mails: Annotated[
        Path | None,
        Option(
            "--mails",
            help="Write the patches here as mails for QEMU, and build nothing.",
            file_okay=False,
        ),
    ] = None,
) -> None:
    """Build the emulators: Debian's QEMU with our patches, see emulator/README.md."""
    with alone():
        if mails:
            pristine = emulator.obtain(Display())
            written = series.export_emulator(pristine, emulator.patches(), mails.resolve())
            print_lines(map(str, written))
            return
        emulator.build(Display())
    for name in emulator.PROGRAMS:
        out.print(str(emulator.program(name)), markup=False)


@app.command("build")
def build_kernel(target: TargetArg, variant: VariantOpt = "on") -> None:
    """Configure and build a kernel."""
    chosen, way = target_and_variant(target, variant)
    with alone():
        built = kernels.prepare(chosen, way, Display())
    out.print(str(built.directory / chosen.image), markup=False)


@app.command("run", context_settings={"ignore_unknown_options": True})
def run_guest(
    target: TargetArg,
    command: Annotated[Names, Argument(help="A command for the guest (put -- before it).")] = None,
    variant: VariantOpt = "on",
    where: HostOpt = "auto",
    cpus: CpusOpt = 1,
    timeout: Annotated[float, Option(help="Seconds for the command.", min=1)] = 300,
    append: AppendOpt = None,
) -> None:
    """Boot a kernel: with a shell, or to run a command and exit with its status."""
    display = Display()
    chosen, way = target_and_variant(target, variant)
    place = host.pick(chosen, where)
    with alone():
        made = kernels.workbench(chosen, way, place, display)
    machine = made.machine(way, *(append or ()), cpus=cpus)
    if not command:
        raise typer.Exit(boot.interactive(machine, display))
    result = boot.boot(
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
