# SPDX-License-Identifier: GPL-2.0-only
"""Verbs that judge code: compiled, or as it is written."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from redoubt.cli.common import Task, alone, app, chosen_targets
from redoubt.cli.options import JsonOpt, Names, TargetArg, target_names
from redoubt.core.errors import UsageError
from redoubt.image import offcheck
from redoubt.image.audit import audit
from redoubt.machine import kernels
from redoubt.ship import htmldocs, lint
from redoubt.suite import code
from redoubt.targets import get_target, get_variant


@app.command("audit")
def audit_image(target: TargetArg, json_file: JsonOpt = None) -> None:
    """List every instruction of the image that writes the pkey register, and judge it."""
    chosen = get_target(target)
    task = Task(json_file)
    with alone():
        report = code.audit_image(chosen, task.display)
    task.end(report.as_json(), audit.render(report), report.ok)


@app.command("offcheck")
def compare_objects(target: TargetArg, json_file: JsonOpt = None) -> None:
    """Compare the objects of the pristine kernel with ours when all our options are off."""
    chosen = get_target(target)
    task = Task(json_file)
    with alone():
        report = code.off_check(chosen, task.display)
    task.end(report.as_json(), offcheck.render(report), report.ok)


@app.command("lint")
def lint_kernel(
    targets: Annotated[
        Names,
        Argument(
            help="Targets whose objects are checked; um if none.", autocompletion=target_names
        ),
    ] = None,
    docs: Annotated[
        bool, Option("--docs", help="Only the documentation, for which no kernel is built.")
    ] = False,
) -> None:
    """Check the kernel code, with checkpatch --strict, W=1 and sparse, and its documentation."""
    if docs and targets:
        raise UsageError("--docs checks no objects of a target")
    chosen = [] if docs else chosen_targets(targets or ["um"])
    htmldocs.sphinx()  # If it is missing, that is told before anything is built.
    task = Task()
    lines: list[str] = []
    ok = True
    with alone():
        if chosen:
            builds = {
                kernels.prepare(one, get_variant(one, "on"), task.display).directory:
                one.cross_compile for one in chosen
            }  # fmt: skip
            with task.display.step("Checking the kernel code"):
                report = lint.lint(kernels.our_tree(task.display), builds)
            lines, ok = lint.render(report), report.ok
        documents = htmldocs.check(kernels.our_tree(task.display), task.display)
    task.end({}, [*lines, *htmldocs.render(documents)], ok and documents.ok)
