# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that obtain and build a kernel."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from redoubt.cli.common import Display, alone, app, out, print_lines, target_and_variant, usage
from redoubt.cli.options import TargetArg, VariantOpt, WithOpt
from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.linux import applied, applying, emulator, own, pinned, source, tree
from redoubt.linux.source import Source
from redoubt.machine import doctor, kernels
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
    """Obtain and unpack the pristine kernel, or check the one in LINUX_SRC.

    It is the version that the patches were tested with; LINUX_VERSION=7.3.5 asks for another.
    """
    with alone():
        found = source.obtain(Display())
    out.print(f"Linux {found.version} in {found.path}", markup=False)
    tested = pinned.load(paths.repo()).release
    if found.version != tested:
        out.print(f"the patches were tested with Linux {tested}", markup=False)


@app.command("tree")
def make_tree() -> None:
    """Make our tree: pristine source, the files of kernel/, all patches."""
    with alone():
        out.print(str(kernels.our_tree(Display())), markup=False)


@app.command("diff")
def compare_kernels(
    old: Annotated[str, Argument(help="The kernel that the patches are for: 7.3.4, or a tree.")],
    new: Annotated[str, Argument(help="Another one: 7.3.5, or a tree.")],
) -> None:
    """Say whether the patches still apply to another kernel, and which do not, in which files.

    Exits with 1 if `redoubt tree` would refuse it, as it does at an offset.
    """
    display = Display()
    for name in (old, new):
        _needs_kernel(name)
    with alone():
        before, after = (_kernel(name, display) for name in (old, new))
        with display.step(f"Trying the patches on Linux {after.version}"):
            report = applying.compare(before, after, tree.queue(paths.repo()))
    print_lines(applying.render(report))
    if not report.ok:
        onto = shlex.quote(str(after.path))
        print_lines(["they do not apply as they are; git may move them:",
                     f"    redoubt branch --onto {onto}"])  # fmt: skip
        raise typer.Exit(1)


def _needs_kernel(name: str) -> None:
    """Complain of an argument that is neither a version nor a pristine tree."""
    if not Path(name).exists():
        source.needs_release(name)
        return
    with usage():
        found = source.other(Path(name), "as in: redoubt diff 7.3.4 /path/to/linux")
        there = applied.found(found.path, paths.repo())
    if there and there.whole:
        raise UsageError(f"{name} has our patches already", "give the kernel without them")


def _kernel(name: str, display: Display) -> Source:
    there = Path(name)
    return source.other(there) if there.exists() else source.release(name, display)


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
def build_kernel(
    target: TargetArg,
    variant: VariantOpt = "on",
    config: Annotated[
        Path | None,
        Option("--config", help="Start from this .config, instead of ours.", metavar="FILE"),
    ] = None,
    features: WithOpt = None,
) -> None:
    """Configure and build a kernel."""
    chosen, way = target_and_variant(target, variant)
    if config is None:
        if features:
            raise UsageError(
                "--with is for a configuration of yours",
                f"redoubt build {chosen.name} --config FILE --with {','.join(features)}",
            )
        with alone():
            built = kernels.prepare(chosen, way, Display())
    else:
        if way.pristine:
            raise UsageError("--config adds our options, which a pristine kernel has not")
        mine = own.read(chosen, config, features)
        with alone():
            built = kernels.prepare_own(chosen, mine, Display())
    out.print(str(built.directory / chosen.image), markup=False)
