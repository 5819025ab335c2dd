# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that make what leaves the repository."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from redoubt import suite as suite_module
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
from redoubt.ship import branch as branch_module
from redoubt.ship import cover
from redoubt.ship import series as series_module
from redoubt.ship.deb import deb as deb_module
from redoubt.ship.deb import shipped
from redoubt.targets import TARGETS, get_target

TopicOpt = Annotated[
    list[str] | None,
    typer.Option("--topic", help="Only this topic of patches/topics, and those it needs."),
]


@app.command()
def series(
    topic: TopicOpt = None,
    check: Annotated[
        bool, typer.Option("--check", help="Take the mails back and build every prefix.")
    ] = False,
    check_mails: Annotated[
        bool, typer.Option("--check-mails", help="Take the mails back, and build nothing.")
    ] = False,
    each: Annotated[
        bool, typer.Option("--each", help="With --check: build after each mail, not each topic.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Where to write the mails.", file_okay=False)
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Export the queue as mails for git am, one for each patch."""
    if json_file and not (check or check_mails):
        raise RedoubtError("--json is for a check", "redoubt series --check-mails --json FILE")
    display = Display()
    names = tuple(topic or ())
    where = output or paths.build_dir() / "series"
    with alone():
        base = source_module.obtain(display)
        letter = cover.letter(paths.repo(), base, names)
        with display.step("Writing the mails"):
            written = series_module.export(base.path, where, topics=names, letter=letter)
        for file in written:
            out.print(str(file), markup=False)
        if not (check or check_mails):
            print_lines(["send them with:", f"    {series_module.sending(base.path, where)}"])
            return
        targets = list(TARGETS.values()) if check else []
        report = suite_module.series_check(
            targets, display, sampled=not check, mails=where, names=names, each=each
        )
    write_json(json_file, report.as_json())
    print_lines(series_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def branch(
    topic: TopicOpt = None,
    onto: Annotated[
        str | None,
        typer.Option(
            "--onto", help="Rebase onto this Linux tree, or source package as linux-source-7.2."
        ),
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--try", help="With --onto: keep nothing, and report on all patches.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The repository; build/branch if none.", file_okay=False),
    ] = None,
) -> None:
    """Make the queue a branch of git, one commit for each patch."""
    display = Display()
    names = tuple(topic or ())
    if rehearse and onto is None:
        raise typer.BadParameter("--try is for another kernel: give it with --onto")
    with alone():
        base = source_module.obtain(display)
        other = None
        if onto is not None and Path(onto).exists():
            other = source_module.other(Path(onto))
        elif onto is not None:
            other = source_module.packaged(onto, display)
        if rehearse and other:
            with display.step(f"Trying all patches on Linux {other.version}"):
                outcomes = branch_module.rehearse(base, other, topics=names)
            print_lines(list(branch_module.tried(other.version, outcomes)))
            conflict = any(one.verdict == branch_module.CONFLICTS for one in outcomes)
            raise typer.Exit(int(conflict))
        where = (output or paths.build_dir() / "branch").resolve()
        made = branch_module.make(base, where, display, topics=names, onto=other)
    print_lines(list(branch_module.render(made)))
    raise typer.Exit(0 if made.ok else 1)


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
