# SPDX-License-Identifier: GPL-2.0-only
"""The disk image for real machines, on a machine that is none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from redoubt.linux import source
from redoubt.machine import provenance
from redoubt.ship.stick import brought, esp, firmware, image, plan
from redoubt.suite.run import Item, Run, verdict

_NAME = "real machine"
# Stress; and the patience with a guest that boots eight times and measures.
STRESS_S = 5
_PATIENCE_S = 3600.0
# The timer of an emulated PC may be late while this machine is busy.
_LATE = "no_timer_check"


def emulated(asked: plan.Plan) -> plan.Plan:
    """The plan for a machine that is none, and has nobody to press a key."""
    late = [_LATE] if _LATE in asked.target.boot_args else []
    entries = tuple(replace(one, args=(*one.args, *late)) for one in asked.entries)
    return replace(asked, entries=entries, linger_s=0)


def booted(run: Run) -> Iterator[Item]:
    """Make a disk image, have firmware start it from USB, and take the results that it writes."""
    made = run.workbench(_NAME, plan.FLAVOUR)
    image.needs(run.target)
    asked = emulated(plan.make(run.target, stress_s=STRESS_S, quick=True))
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        disk = Path(name) / "disk.img"
        origin = provenance.collect(["test", "--only", _NAME])
        image.make(made.build, made.programs, asked, origin, disk, run.progress)
        with run.progress.step(f"Booting {run.target.name} by firmware, from USB"):
            ended = firmware.start(run.target, disk, "usb", run.progress, timeout=_PATIENCE_S)
        results = [file for file in esp.names(disk) if file.startswith("results-")]
        good = ended.code == 0 and not ended.timed_out and len(results) == 1
        yield verdict(f"{_NAME}, all boots", "-", good, f"{ended}; results: {results}")
        if not good:
            return
        file = Path(name) / results[0]
        file.write_bytes(esp.read(disk, results[0]) or b"")
        kernel = source.obtain(run.progress).path
        found = brought.judge(brought.read(file), kernel)
    yield verdict(f"{_NAME}, results", "-", found.ok, *found.problems, *found.wrong)
