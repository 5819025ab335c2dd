# SPDX-License-Identifier: GPL-2.0-only
"""Verbs about real machines: what they boot, and what they bring back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from redoubt.cli.common import Task, alone, app, print_lines
from redoubt.cli.options import writable
from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.linux.build import needs_compiler
from redoubt.machine import given, guest, host, kernels
from redoubt.ship.stick import image, plan
from redoubt.targets import get_target, get_variant


@app.command("image")
def make_image(
    target: Annotated[
        str,
        Argument(
            help=f"One of: {', '.join(plan.TARGETS)}.",
            autocompletion=lambda: list(plan.TARGETS),
        ),
    ],
    kernel: Annotated[
        Path | None,
        Option("--kernel", help="Take this image, and build no kernel.", metavar="FILE"),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            help="The disk image; build/redoubt-TARGET.img if none.",
            dir_okay=False,
            callback=writable,
        ),
    ] = None,
    plain: Annotated[
        Path | None,
        Option(
            "--plain",
            help="Also put kernel, initramfs and arguments here, for kexec and network boot.",
            file_okay=False,
        ),
    ] = None,
    stress: Annotated[
        int, Option(help="Seconds of stress in each variant.", min=1, max=86400)
    ] = plan.STRESS_S,
    quick: Annotated[
        bool, Option("--quick", help="Few samples: shows that it works, not what it costs.")
    ] = False,
) -> None:
    """Make a disk image that tests and measures a real machine, which is started from it."""
    chosen = get_target(target)
    if chosen.name not in plan.TARGETS:
        raise UsageError(f"{chosen.name} is no real machine", f"targets: {', '.join(plan.TARGETS)}")
    built = given.kernel(chosen, kernel, host.EMULATED) if kernel else None
    if built:
        image.needs_options(built)
    needs_compiler(chosen)
    image.needs(chosen)
    task = Task()
    to = (output or paths.build_dir() / f"redoubt-{chosen.name}.img").absolute()
    asked = plan.make(chosen, stress_s=stress, quick=quick)
    with alone():
        if not built:
            on = get_variant(chosen, "on")
            built = kernels.prepare(chosen, on, task.display, flavour=plan.FLAVOUR)
        programs = guest.programs(task.display, chosen.cross_compile)
        image.make(built, programs, asked, task.origin, to, task.display, plain)
    print_lines([
        str(to),
        f"write it to a whole USB stick: dd if={to} of=/dev/STICK bs=4M conv=fsync",
        f"a machine that is started from it is busy for about {asked.minutes} minutes",
    ])  # fmt: skip
