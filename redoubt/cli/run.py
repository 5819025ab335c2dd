# SPDX-License-Identifier: GPL-2.0-only
"""The verb that boots a kernel for a person."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from redoubt.cli.common import Display, alone, app, err, out, print_lines, target_and_variant
from redoubt.cli.options import AppendOpt, HostOpt, Names, TargetArg, VariantOpt
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.machine import boot, debugger, given, guest, host, kernels, limits, share
from redoubt.machine.boot import MEMORY_MB, Machine
from redoubt.targets import Target

# In the place of a directory that is made for each boot.
_NOT_MADE = "redoubt-run"


@app.command("run", context_settings={"ignore_unknown_options": True})
def run_guest(
    target: TargetArg,
    command: Annotated[Names, Argument(help="A command for the guest (put -- before it).")] = None,
    variant: VariantOpt = "on",
    where: HostOpt = "auto",
    image: Annotated[
        Path | None,
        Option("--kernel", help="Boot this image, and build no kernel.", metavar="FILE"),
    ] = None,
    memory: Annotated[
        int, Option(help="Memory of the guest, in MiB.", min=64, max=1 << 20)
    ] = MEMORY_MB,
    cpus: Annotated[int, Option(help="CPUs of the guest.", min=1, max=255)] = 1,
    folder: Annotated[
        Path | None,
        Option("--share", help="A directory that the guest has as /share.", metavar="DIR"),
    ] = None,
    append: AppendOpt = None,
    qemu_opts: Annotated[
        str, Option(help="Further options of QEMU, in one argument, quoted as for a shell.")
    ] = "",
    gdb: Annotated[
        bool,
        Option(
            "--gdb",
            help="Wait for gdb, and print the command that attaches it; um is started by gdb.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the command of the machine, and run nothing.")
    ] = False,
    timeout: Annotated[
        float, Option(help="Seconds for the command, but not with --gdb.", min=1)
    ] = 300,
) -> None:
    """Boot a kernel: with a shell, or to run a command and exit with its status."""
    chosen, way = target_and_variant(target, variant)
    place = host.pick(chosen, where)
    _needs_words(command or ())
    given_build = given.kernel(chosen, image, place) if image else None
    flavour = _flavour(chosen, gdb, folder)
    options = (
        given_build.configuration()
        if given_build
        else kernels.configured(chosen, way, flavour=flavour)
    )
    limits.needs_cpus(options, cpus)
    limits.needs_memory(chosen, memory)
    if folder:
        folder = folder.absolute()
        share.needs(chosen, place, options, folder)
    if gdb:
        debugger.needs(chosen, place)
    devices = _qemu_words(chosen, place, qemu_opts)

    display = Display()
    if dry_run:
        build = given_build or kernels.planned(chosen, way, flavour=flavour)
        made = kernels.Workbench(build, guest.place(chosen.cross_compile), place)
    elif given_build:
        with alone():
            made = kernels.Workbench(
                given_build, guest.programs(display, chosen.cross_compile), place
            )
    else:
        with alone():
            made = kernels.workbench(chosen, way, place, display, flavour=flavour)
    machine = replace(
        made.machine(way, *(append or ()), cpus=cpus),
        memory_mb=memory, share=folder, devices=(*made.devices, *devices),
    )  # fmt: skip
    if dry_run:
        _show_command(machine, gdb)
        return
    if gdb:
        with _debugged(machine) as waiting:
            raise typer.Exit(boot.interactive(waiting, display, command or ()))
    if not command:
        raise typer.Exit(boot.interactive(machine, display))
    _run_command(machine, command, timeout, display)


def _flavour(target: Target, gdb: bool, folder: Path | None) -> str:
    """The flavour of the kernel that has what was asked for; that for gdb has all of it."""
    wanted = ((debugger.FLAVOUR, gdb), (share.FLAVOUR, folder is not None))
    return next((name for name, asked in wanted if asked and name in target.flavours), "")


def _needs_words(command: Sequence[str]) -> None:
    """Complain of words that no guest takes."""
    if command and command[0].startswith("-"):
        raise UsageError(
            f"there is no option '{command[0]}'",
            "redoubt run --help lists them; a command for the guest begins with a program",
        )
    if any("\n" in word for word in command):
        raise UsageError("an argument for the guest must not contain a newline")


def _qemu_words(target: Target, place: str, text: str) -> list[str]:
    """The options of QEMU in a text."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot split --qemu-opts: {error}", "close what is quoted") from error
    if words and not host.emulator(target, place):
        raise UsageError(
            f"no QEMU runs here, which could have options: {target.name} is a process",
            "--host emulated, or leave --qemu-opts out",
        )
    return words


def _show_command(machine: Machine, gdb: bool) -> None:
    run = Path(tempfile.gettempdir()) / _NOT_MADE
    socket = run / "gdb" if gdb else None
    print_lines([shlex.join(boot.command(replace(machine, debugger=socket), run))])


@contextlib.contextmanager
def _debugged(machine: Machine) -> Iterator[Machine]:
    """The machine as gdb wants it, after a word about how to go on."""
    # A socket in a directory that only its owner reads lets nobody else in, and no port be taken.
    with tempfile.TemporaryDirectory(prefix="redoubt-") as directory:
        socket = Path(directory) / "gdb"
        if machine.build.target.emulator:
            lines = [
                "The machine waits for gdb. Attach it from another terminal, then `continue`:",
                "    " + debugger.attaching(machine.build, socket),
            ]
        else:
            lines = ["um is a process, which gdb starts here: set breakpoints, then `run`."]
        if not machine.build.vmlinux.exists():
            lines.append(f"gdb knows no names: there is no {machine.build.vmlinux}.")
        print_lines(lines)
        yield replace(machine, debugger=socket)


def _run_command(
    machine: Machine, command: Sequence[str], timeout: float, display: Display
) -> None:
    """Boot to run a command, and exit with its status."""
    result = boot.boot(
        machine,
        command,
        timeout=timeout,
        name=f"run-{machine.build.target.name}",
        progress=display,
        watch=lambda line: out.print(line, markup=False),
    )
    # An oops leaves the rest of the guest running: the command may well have ended with 0.
    if result.outcome != "finished" or (result.complaints and not result.status):
        raise RedoubtError(result.describe())
    if result.complaints:
        err.print(f"redoubt: {result.describe()}", markup=False, style="red")
    raise typer.Exit(result.status or 0)
