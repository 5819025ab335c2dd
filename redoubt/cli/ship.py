# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that make what leaves the repository."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from redoubt.cli.common import (
    Display,
    JsonOpt,
    TargetArg,
    alone,
    app,
    out,
    print_lines,
    write_json,
)
from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.linux import source as source_module
from redoubt.machine import host as host_module
from redoubt.machine import provenance
from redoubt.ship import cover
from redoubt.ship import port as port_module
from redoubt.ship import recipients as recipients_module
from redoubt.ship import series as series_module
from redoubt.ship.deb import deb as deb_module
from redoubt.ship.deb import shipped
from redoubt.suite import code
from redoubt.targets import TARGETS, get_target


@app.command()
def series(
    check: Annotated[
        bool, typer.Option("--check", help="Take the mails back and build every prefix.")
    ] = False,
    check_mails: Annotated[
        bool, typer.Option("--check-mails", help="Take the mails back, and build nothing.")
    ] = False,
    recipients: Annotated[
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
        raise RedoubtError("--json is for a check", "redoubt series --check-mails --json FILE")
    display = Display()
    where = output or paths.build_dir() / "series"
    with alone():
        base = source_module.obtain(display)
        letter = cover.letter(paths.repo(), base)

        def ask(mail: Path) -> recipients_module.Recipients:
            display.detail(f"recipients of {mail.name}")
            return recipients_module.ask(base.path, mail)

        with display.step("Writing the mails"):
            written = series_module.export(
                base.path, where, letter=letter, ask=ask, address=recipients
            )
        for file in written:
            out.print(str(file), markup=False)
        if not (check or check_mails):
            return
        targets = list(TARGETS.values()) if check else []
        report = code.series_check(targets, display, sampled=not check, mails=where)
    write_json(json_file, report.as_json())
    print_lines(series_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def port(
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
    display = Display()
    if (onto is None) == (package is None):
        raise typer.BadParameter("give a tree, with --onto, or the name of one, with --package")
    with alone():
        if onto is not None:
            other = source_module.other(onto)
        else:
            other = source_module.packaged(package or "", display)
        where = output or paths.build_dir() / "port" / other.version
        report = port_module.port(source_module.obtain(display), other, where, display)
    if json_file:
        write_json(json_file, report.as_json() | provenance.collect(sys.argv[1:]))
    print_lines(list(port_module.render(report)))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def deb(
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
    display = Display()
    chosen = get_target(target)
    if install and not boot:
        raise RedoubtError("--install boots what was installed, which --no-boot forbids")
    deb_module.needs(chosen, config, install=install)
    host = host_module.needs_enforcing(chosen, "auto") if boot else None
    origin = provenance.collect(sys.argv[1:])
    with alone():
        report = deb_module.make(chosen, config, host, display, install=install)
    write_json(json_file, report.as_json() | origin)
    print_lines(list(deb_module.render(report)))
    for what, tried in (("out of the package", report.boot), ("as installed", report.installed)):
        if tried and not tried.ok:
            raise RedoubtError(
                f"the kernel {what} is not what it should be: {tried.result.describe()}"
            )
