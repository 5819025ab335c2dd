# SPDX-License-Identifier: GPL-2.0-only
"""Verbs of memory under several keys."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from redoubt.cli.common import (
    Display,
    JsonOpt,
    TargetArg,
    VariantOpt,
    alone,
    app,
    print_lines,
    write_json,
)
from redoubt.core.errors import RedoubtError
from redoubt.machine import host as host_module
from redoubt.machine import kernels, provenance
from redoubt.targets import get_target, get_variant
from redoubt.trial.mktme import flushes as flushes_module
from redoubt.trial.mktme import mktme as mktme_module


@app.command()
def flushes(
    target: TargetArg = "x86_64-mktme",
    variant: VariantOpt = "on",
    times: Annotated[
        int, typer.Option(min=1, help="How often the shortest operations are done.")
    ] = flushes_module.TIMES,
    json_file: JsonOpt = None,
) -> None:
    """Count the pages that are flushed if all anonymous memory is under a KeyID, and why."""
    display = Display()
    origin = provenance.collect(sys.argv[1:])
    chosen = get_target(target)
    mktme_module.needs(chosen)
    way = get_variant(chosen, variant)
    place = host_module.pick(chosen, "auto")
    with alone():
        made = kernels.workbench(chosen, way, place, display)
    report = flushes_module.run(made, way, times, display)
    origin |= {"target": chosen.name, "variant": way.name, "memory_mb": made.memory_mb}
    write_json(json_file, report.as_json() | origin)
    print_lines(
        [
            *flushes_module.render(report),
            "",
            *flushes_module.render_instructions(report),
        ]
    )
    if not report.ok:
        raise RedoubtError("flushes were counted wrongly, or the kernel complained")


@app.command()
def mktme(
    target: TargetArg = "x86_64-mktme",
    bug: Annotated[
        str | None,
        typer.Option(
            help="Make a mistake on purpose, which must be noticed. One of: "
            f"{', '.join(mktme_module.NOTICED_BY)}."
        ),
    ] = None,
    bits: Annotated[int, typer.Option(help="Of a KeyID, of the machine.")] = 2,
    variant: VariantOpt = "on",
) -> None:
    """Use memory under several keys, and look from outside where its data lies."""
    display = Display()
    chosen = get_target(target)
    mktme_module.needs(chosen)
    way = get_variant(chosen, variant)
    place = host_module.pick(chosen, "auto")
    with alone():
        made = kernels.workbench(chosen, way, place, display)
    one, two = (mktme_module.with_bits(made.machine(way, cpus=n), bits) for n in (1, 2))
    if bug:
        outcomes = [mktme_module.notices(one, bug, display)]
    else:
        outcomes = [
            mktme_module.checks(one, display),
            mktme_module.interface(two, display),
            *(mktme_module.around(two, packages, display) for packages in (1, 2)),
            mktme_module.shared(two, display),
        ]
        seen, views = mktme_module.outside(one, display)
        print_lines([*mktme_module.counts(outcomes[0].boot), *mktme_module.render(views)])
        outcomes.append(seen)
    wrong = [f"{one.name}: {problem}" for one in outcomes for problem in one.problems]
    print_lines(wrong or [f"{one.name}: ok" for one in outcomes])
    if wrong:
        raise RedoubtError(
            "memory under several keys is not what it should be",
            f"the guest's console: {outcomes[-1].boot.log}",
        )
