# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that make what leaves the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from redoubt.cli.common import JsonOpt, TargetArg, Task, alone, app, out, usage
from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.linux import source
from redoubt.machine import host
from redoubt.ship import cover, port, recipients, series
from redoubt.ship.deb import deb, shipped
from redoubt.suite import code
from redoubt.targets import TARGETS, get_target


@app.command("series")
def export_series(
    check: Annotated[
        bool, typer.Option("--check", help="Take the mails back and build every prefix.")
    ] = False,
    check_mails: Annotated[
        bool, typer.Option("--check-mails", help="Take the mails back, and build nothing.")
    ] = False,
    address: Annotated[
        bool,
        typer.Option("--recipients", help="Write To: and Cc: into the mails, not beside them."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Where to write the mails.", file_okay=False)
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Export the queue as mails for git am, one commit per topic."""
    if json_file and not (check or check_mails):
        raise UsageError("--json is for a check", "redoubt series --check-mails --json FILE")
    task = Task(json_file)
    display = task.display
    where = output or paths.build_dir() / "series"
    with alone():
        base = source.obtain(display)
        letter = cover.letter(paths.repo(), base)

        def ask(mail: Path) -> recipients.Recipients:
            display.detail(f"recipients of {mail.name}")
            return recipients.ask(base.path, mail)

        with display.step("Writing the mails"):
            written = series.export(base.path, where, letter=letter, ask=ask, address=address)
        for file in written:
            out.print(str(file), markup=False)
        if not (check or check_mails):
            return
        targets = list(TARGETS.values()) if check else []
        report = code.series_check(targets, display, sampled=not check, mails=where)
    task.end(report.as_json(), series.render(report), report.ok)


@app.command("port")
def port_queue(
    onto: Annotated[
        Path | None, typer.Option("--onto", help="A Linux tree; only read.", file_okay=False)
    ] = None,
    package: Annotated[
        str | None, typer.Option("--package", help="Or a source package, as linux-source-7.2.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            help="Where to write the merged patches; build/port/VERSION if none.",
            file_okay=False,
        ),
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Merge the queue onto another kernel, and say what of it applies there."""
    if (onto is None) == (package is None):
        raise UsageError("give a tree, with --onto, or the name of one, with --package")
    task = Task(json_file)
    with alone():
        if onto is not None:
            other = source.other(onto)
        else:
            other = source.packaged(package or "", task.display)
        where = output or paths.build_dir() / "port" / other.version
        report = port.port(source.obtain(task.display), other, where, task.display)
    task.end(report.as_json(), port.render(report), report.ok)


@app.command("deb")
def make_packages(
    target: TargetArg,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            help="distro: all that Debian's has, which takes hours. "
            "small: what a virtual machine needs, to try it out.",
        ),
    ] = shipped.DISTRO,
    boot: Annotated[
        bool, typer.Option("--boot/--no-boot", help="Boot the kernel out of its package.")
    ] = True,
    install: Annotated[
        bool, typer.Option("--install", help="Then install them in a Debian, and boot that.")
    ] = False,
    json_file: JsonOpt = None,
) -> None:
    """Make Debian packages of the protected kernel: linux-image and linux-headers."""
    chosen = get_target(target)
    if install and not boot:
        raise UsageError("--install boots what was installed, which --no-boot forbids")
    with usage():
        shipped.needs_packages(chosen)
        shipped.fragments(chosen, config)
    deb.needs(chosen, config, install=install)
    task = Task(json_file)
    where = task.boots(chosen, host.needs_enforcing(chosen, "auto")) if boot else None
    with alone():
        report = deb.make(chosen, config, where, task.display, install=install)
    wrong = [
        f"the kernel {what} is not what it should be: {tried.result.describe()}"
        for what, tried in (("out of the package", report.boot), ("as installed", report.installed))
        if tried and not tried.ok
    ]
    task.end(report.as_json(), deb.render(report), not wrong, "\n".join(wrong))
