# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that judge code: compiled, or as it is written."""

from __future__ import annotations

from typing import Annotated

import typer

from redoubt.cli.common import (
    Display,
    JsonOpt,
    TargetArg,
    alone,
    app,
    chosen_targets,
    print_lines,
    write_json,
)
from redoubt.core import paths
from redoubt.image import offcheck as offcheck_module
from redoubt.image.audit import audit as audit_module
from redoubt.machine import kernels
from redoubt.ship import htmldocs as htmldocs_module
from redoubt.ship import lint as lint_module
from redoubt.suite import code
from redoubt.targets import get_target, get_variant


@app.command()
def audit(target: TargetArg, json_file: JsonOpt = None) -> None:
    """List every instruction of the image that writes the pkey register, and judge it."""
    chosen = get_target(target)
    with alone():
        built = kernels.prepare(chosen, get_variant(chosen, "on"), Display())
        report = audit_module.audit(built.vmlinux, paths.repo() / "configs" / chosen.audit)
    write_json(json_file, report.as_json())
    print_lines(audit_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def offcheck(target: TargetArg, json_file: JsonOpt = None) -> None:
    """Compare the objects of the pristine kernel with ours when all our options are off."""
    chosen = get_target(target)
    with alone():
        report = code.off_check(chosen, Display())
    write_json(json_file, report.as_json())
    print_lines(offcheck_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def lint(
    targets: Annotated[
        list[str] | None, typer.Argument(help="Targets whose objects are checked; um if none.")
    ] = None,
    docs: Annotated[
        bool, typer.Option("--docs", help="Only the documentation, for which no kernel is built.")
    ] = False,
) -> None:
    """Check the kernel code, with checkpatch --strict, W=1 and sparse, and its documentation."""
    display = Display()
    if docs and targets:
        raise typer.BadParameter("--docs checks no objects of a target")
    htmldocs_module.sphinx()  # If it is missing, that is told before anything is built.
    if docs:
        with alone():
            documents = htmldocs_module.check(kernels.our_tree(display), display)
        print_lines(htmldocs_module.render(documents))
        raise typer.Exit(0 if documents.ok else 1)
    chosen = chosen_targets(targets or ["um"])
    with alone():
        builds = {
            kernels.prepare(one, get_variant(one, "on"), display).directory: one.cross_compile
            for one in chosen
        }
        with display.step("Checking the kernel code"):
            report = lint_module.lint(kernels.our_tree(display), builds)
        documents = htmldocs_module.check(kernels.our_tree(display), display)
    print_lines([*lint_module.render(report), *htmldocs_module.render(documents)])
    raise typer.Exit(0 if report.ok and documents.ok else 1)
