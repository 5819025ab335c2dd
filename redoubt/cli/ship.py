# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that make what leaves the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from redoubt.cli.common import Display, Task, alone, app, out, print_lines, usage
from redoubt.cli.options import JsonOpt, Names, TargetArg, WithOpt
from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.linux import own, source
from redoubt.linux.own import Own
from redoubt.machine import host
from redoubt.ship import branch, commits, cover, series
from redoubt.ship.deb import deb, shipped
from redoubt.suite import code
from redoubt.targets import TARGETS, Target, get_target

TopicOpt = Annotated[
    Names, Option("--topic", help="Only this topic of patches/topics, and those it needs.")
]


def _topics(names: Names) -> tuple[str, ...]:
    """The names of topics, all of which there are."""
    with usage():
        commits.chosen(paths.repo(), names or ())
    return tuple(names or ())


@app.command("series")
def export_series(
    topic: TopicOpt = None,
    check: Annotated[
        bool, Option("--check", help="Take the mails back and build every prefix.")
    ] = False,
    check_mails: Annotated[
        bool, Option("--check-mails", help="Take the mails back, and build nothing.")
    ] = False,
    each: Annotated[
        bool, Option("--each", help="With --check: build after each mail, not each topic.")
    ] = False,
    output: Annotated[
        Path | None, Option("--output", help="Where to write the mails.", file_okay=False)
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Export the queue as mails for git am, one for each patch."""
    if json_file and not (check or check_mails):
        raise UsageError("--json is for a check", "redoubt series --check-mails --json FILE")
    if each and not check:
        raise UsageError("--each is for a check that builds", "redoubt series --check --each")
    paths.needs_checkout(
        "redoubt series",
        cover.WITHOUT_RESULTS,
        "redoubt branch makes commits of the same patches",
    )
    names = _topics(topic)
    task = Task(json_file)
    display = task.display
    where = (output or paths.build_dir() / "series").resolve()
    with alone():
        base = source.obtain(display)
        letter = cover.letter(paths.repo(), base, names)
        with display.step("Writing the mails"):
            written = series.export(base.path, where, topics=names, letter=letter)
        for file in written:
            out.print(str(file), markup=False)
        if not (check or check_mails):
            print_lines(["send them with:", f"    {series.sending(base.path, where)}"])
            return
        targets = [one for one in TARGETS.values() if not one.built_as] if check else []
        report = code.series_check(targets, display, mails=where, names=names, each=each)
    task.end(report.as_json(), series.render(report), report.ok)


@app.command("branch")
def make_branch(
    topic: TopicOpt = None,
    onto: Annotated[
        str | None,
        Option(
            "--onto", help="Rebase onto this Linux tree, or source package as linux-source-7.2."
        ),
    ] = None,
    rehearse: Annotated[
        bool, Option("--try", help="With --onto: keep nothing, and report on all patches.")
    ] = False,
    output: Annotated[
        Path | None,
        Option("--output", help="The repository; build/branch if none.", file_okay=False),
    ] = None,
) -> None:
    """Make the queue a branch of git, one commit for each patch."""
    if rehearse and onto is None:
        raise UsageError("--try is for another kernel", "redoubt branch --try --onto DIR")
    display = Display()
    names = _topics(topic)
    other = None
    if onto is not None and Path(onto).exists():
        with usage():
            other = source.other(Path(onto))
    elif onto is not None:
        source.needs_package(onto)
    with alone():
        base = source.obtain(display)
        if onto is not None and not other:
            other = source.packaged(onto, display)
        if rehearse and other:
            with display.step(f"Trying all patches on Linux {other.version}"):
                outcomes = branch.rehearse(base, other, topics=names)
            print_lines(branch.tried(other.version, outcomes))
            raise typer.Exit(int(any(one.verdict == branch.CONFLICTS for one in outcomes)))
        where = (output or paths.build_dir() / "branch").resolve()
        made = branch.make(base, where, display, topics=names, onto=other)
    print_lines(branch.render(made))
    raise typer.Exit(0 if made.ok else 1)


@app.command("deb")
def make_packages(
    target: TargetArg,
    config: Annotated[
        str,
        Option(
            "--config",
            help="distro: all that Debian's has, which takes hours. "
            "small: what a virtual machine needs, to try it out. Or the file of your .config.",
        ),
    ] = shipped.DISTRO,
    features: WithOpt = None,
    boot: Annotated[
        bool | None,
        Option(
            "--boot/--no-boot", help="Boot the kernel out of its package; not with your .config."
        ),
    ] = None,
    install: Annotated[
        bool, Option("--install", help="Then install them in a Debian, and boot that.")
    ] = False,
    tools: Annotated[
        bool, Option("--tools", help="Make redoubt-tools alone, for a kernel that you built.")
    ] = False,
    json_file: JsonOpt = None,
) -> None:
    """Make Debian packages of the protected kernel: linux-image and linux-headers."""
    chosen = get_target(target)
    others = features, install, json_file, boot is not None, config != shipped.DISTRO
    if tools and any(others):
        raise UsageError("--tools makes a package for any kernel, and takes nothing else")
    if install and boot is False:
        raise UsageError("--install boots what was installed, which --no-boot forbids")
    with usage():
        shipped.needs_packages(chosen)
    if tools:
        with alone():
            print_lines([str(deb.make_tools(chosen, Display()))])
        return
    mine = _own_configuration(chosen, config, features)
    if mine:
        if boot or install:
            raise UsageError("a kernel with your .config may lack what our guests need to boot")
        config, boot = own.NAME, False
    deb.needs(chosen, config, install=install)
    task = Task(json_file)
    boots = boot is None or boot
    where = task.boots(chosen, host.needs_enforcing(chosen, "auto")) if boots else None
    with alone():
        report = deb.make(chosen, config, where, task.display, install=install, mine=mine)
    wrong = [
        f"the kernel {what} is not what it should be: {tried.result.describe()}"
        for what, tried in (("out of the package", report.boot), ("as installed", report.installed))
        if tried and not tried.ok
    ]
    task.end(report.as_json(), deb.render(report), not wrong, "\n".join(wrong))


def _own_configuration(target: Target, config: str, features: list[str] | None) -> Own | None:
    """The configuration of the user's, if it is a file and no name of one of ours."""
    if config not in shipped.CONFIGS and Path(config).exists():
        return own.read(target, Path(config), features)
    with usage():
        shipped.fragments(target, config)
    if features:
        raise UsageError(
            f"--with is for a .config of yours, not for '{config}'",
            f"redoubt deb {target.name} --config FILE --with {','.join(features)}",
        )
    return None
