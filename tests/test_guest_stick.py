# SPDX-License-Identifier: GPL-2.0-only
"""A disk image under firmware: its steps survive a panic and a power failure.

Only the drivers of the kernel matter here, and no protection keys: Debian's stands in for ours
where that is not built.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import standin
from conftest import REAL_BUILD

from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import guest, provenance
from redoubt.ship.stick import brought, esp, firmware, image, plan
from redoubt.ship.stick.plan import Entry, Plan, Step
from redoubt.targets import X86_64, Target

BUILD = REAL_BUILD / "x86_64" / f"redoubt-{plan.FLAVOUR}"
IMAGE = BUILD / X86_64.image
TIMEOUT = 600.0

pytestmark = [
    pytest.mark.guest,
    pytest.mark.network,
    pytest.mark.skipif(
        not Path(esp.program("mformat")).is_absolute(), reason="no mtools: prerequisites image"
    ),
]

STEPS = (
    Step(plan.HARDWARE, 1, ("/bin/hardware",)),
    Step("panic", 1, ("/bin/put", "/proc/sysrq-trigger", "c")),
    Step("cut", 30, ("/bin/stress", "30")),
    Step("after", 1, ("/bin/cat", "/proc/version")),
)
# A kernel without a first program: systemd-boot has to come to the next entry by itself.
BROKEN = Entry("kunit-off", ("rdinit=/nowhere", "root=/nowhere"), (Step(plan.KUNIT, 1),), "broken")


class Cut(Exception):
    """The power fails."""


def booted(where: Path) -> tuple[Target, Build, Path]:
    """The machine, a kernel for it and the programs."""
    programs = guest.programs(Silent())
    target = standin.emulated(X86_64)
    assert target.emulator
    if not shutil.which(target.emulator.program):
        pytest.skip(f"no {target.emulator.program}: scripts/prerequisites x86_64")
    if IMAGE.exists():
        return target, Build(target, BUILD, IMAGE, IMAGE), programs
    return (
        target, standin.kernel(target, Silent()),
        standin.programs(target, programs, where / "programs"),
    )  # fmt: skip


def test_a_panic_and_a_power_failure(tmp_path: Path) -> None:
    target, kernel, programs = booted(tmp_path)
    entries = (BROKEN, Entry("off", ("kunit.enable=0",), STEPS, "off"), Entry("finish", ()))
    disk = tmp_path / "disk.img"
    image.make(
        kernel, programs, Plan(target, entries, (), linger_s=0), provenance.collect(["image"]),
        disk, Silent(),
    )  # fmt: skip
    lines: list[str] = []

    def watch(line: str) -> None:
        lines.append(line)
        if "off/cut: about" in line:
            raise Cut

    with pytest.raises(Cut):
        firmware.start(target, disk, "usb", Silent(), timeout=TIMEOUT, watch=watch)
    # The panic has restarted the machine by itself.
    assert any("off/panic: took the machine down" in line for line in lines)
    lines.clear()
    ended = firmware.start(
        target,
        disk,
        "nvme",
        Silent(),
        timeout=TIMEOUT,
        watch=lines.append,
        form=firmware.Form(cpus=2),
    )
    assert (ended.code, ended.timed_out) == (0, False)
    assert any("off/cut: took the machine down" in line for line in lines)
    assert any("redoubt: kunit-off/kunit never ran" in line for line in lines)
    (name,) = [file for file in esp.names(disk) if file.startswith("results-")]
    results = tmp_path / name
    results.write_bytes(esp.read(disk, name) or b"")
    journal = brought.read(results)
    assert {step: one.outcome for step, one in journal.steps.items()} == {
        "kunit-off/kunit": brought.NEVER, "off/hardware": brought.ENDED,
        "off/panic": brought.DIED, "off/cut": brought.DIED, "off/after": brought.ENDED,
    }  # fmt: skip
    assert journal.steps["off/after"].output[0].startswith("Linux version ")
    assert "pks: yes" in journal.steps["off/hardware"].output
    assert not list(tmp_path.glob("*.partial"))
    # Entries that are done are not started again.
    assert [file.rpartition("/")[2] for file in esp.names(disk, "loader/entries")] == [
        "01-kunit-off+0-1.conf", "03-finish.conf"
    ]  # fmt: skip
