# SPDX-License-Identifier: GPL-2.0-only
"""Verbs about real machines: what they boot, and what they bring back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from redoubt.cli.common import Task, alone, app, err, print_lines, usage, write_bytes
from redoubt.cli.options import writable
from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.linux import source
from redoubt.linux.build import needs_compiler
from redoubt.machine import given, guest, host, kernels
from redoubt.ship import report
from redoubt.ship.stick import brought, image, plan
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


@app.command("import")
def import_results(
    file: Annotated[
        Path,
        Argument(help="results-MACHINE.json, from the disk that the machine was started from."),
    ],
    show: Annotated[
        bool, Option("--show", help="Only show what is in it, and keep nothing.")
    ] = False,
    incomplete: Annotated[
        bool, Option("--incomplete", help="Keep results of which a part is missing, too.")
    ] = False,
) -> None:
    """Check the results of a real machine, show them, and add them to results/hardware/."""
    with usage():
        name = brought.name_of(file)
        journal = brought.read(file)
    to = paths.results_dir() / brought.DIRECTORY / name
    if to.exists() and not show:
        raise UsageError(f"{to} is there already", "move it away, or rename the new file")
    task = Task()
    with alone():
        kernel = source.obtain(task.display).path
    found = brought.judge(journal, kernel)
    counted = report.counted(paths.results_dir(), found.target)
    print_lines(brought.render(found, counted.prices_of(found.as_json())))
    if show:
        return
    if found.problems and not incomplete:
        raise RedoubtError(
            f"{file} was not added: {found.problems[0]}"
            + (f", and {len(found.problems) - 1} more" if len(found.problems) > 1 else ""),
            f"redoubt import --incomplete {file}",
        )
    to.parent.mkdir(parents=True, exist_ok=True)
    value = {**found.as_json(), "journal": brought.kept(journal)}
    write_bytes(to, (json.dumps(value, indent=1) + "\n").encode())
    print_lines(["", str(to)])
    if found.wrong:
        err.print("redoubt: something did not end as it should: see WRONG above", markup=False)
