# SPDX-License-Identifier: GPL-2.0-only
"""The disk image on machines of several forms: each gets to the report on its hardware.

Debian's kernel stands in for ours, so that no kernel has to be built.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import standin

from redoubt.core.progress import Silent
from redoubt.machine import guest, provenance
from redoubt.ship.stick import brought, esp, firmware, image, plan
from redoubt.ship.stick.firmware import Form
from redoubt.ship.stick.plan import Entry, Plan, Step
from redoubt.suite import real
from redoubt.targets import ARM64, X86_64, Target

TIMEOUT = 600.0
ENTRIES = (
    Entry("off", (), (Step(plan.HARDWARE, 1, ("/bin/hardware",)),), "off"),
    Entry("finish", ()),
)

pytestmark = [
    pytest.mark.guest,
    pytest.mark.network,
    pytest.mark.skipif(
        not Path(esp.program("mformat")).is_absolute(), reason="no mtools: prerequisites image"
    ),
]


def report(target: Target, bus: str, form: Form, where: Path) -> dict[str, str]:
    """The report on the hardware of a machine, which is not started a second time."""
    chosen = standin.emulated(target)
    assert chosen.emulator
    for needed in (chosen.emulator.program, chosen.compiler):
        if not shutil.which(needed):
            pytest.skip(f"no {needed}: scripts/prerequisites {target.name}")
    built = guest.programs(Silent(), chosen.cross_compile)
    programs = standin.programs(chosen, built, where / "programs")
    disk = where / "disk.img"
    image.make(
        standin.kernel(chosen, Silent()), programs, real.emulated(Plan(chosen, ENTRIES, ())),
        provenance.collect(["image"]), disk, Silent(),
    )  # fmt: skip
    lines: list[str] = []
    ended = firmware.start(
        chosen, disk, bus, Silent(), timeout=TIMEOUT, watch=lines.append, form=form,
        more=["-no-reboot"],
    )  # fmt: skip
    assert (ended.code, ended.timed_out) == (0, False), lines
    # The only sign of life of a machine without a serial port is on its disk.
    assert form.serial == any("off/hardware: about" in line for line in lines)
    (name,) = [file for file in esp.names(disk) if file.startswith("results-")]
    file = where / name
    file.write_bytes(esp.read(disk, name) or b"")
    step = brought.read(file).steps["off/hardware"]
    assert (step.outcome, step.status) == (brought.ENDED, 0)
    pairs = (line.partition(": ") for line in step.output)
    return {field: value for field, _, value in pairs}


def test_a_server(tmp_path: Path) -> None:
    found = report(X86_64, "nvme", Form(cpus=8, nodes=2, memory_mb=4096), tmp_path)
    assert (found["cpus"], found["nodes"]) == ("0-7", "0-1")
    assert (found["node 0 cpus"], found["node 1 cpus"]) == ("0-3", "4-7")
    assert (found["efi"], found["pks"]) == ("yes", "yes")


def test_a_desktop_without_serial_port_and_keys(tmp_path: Path) -> None:
    form = Form(cpus=2, cpu="max,pks=off", serial=False)
    found = report(X86_64, "usb", form, tmp_path)
    assert (found["cpus"], found["efi"], found["pks"]) == ("0-1", "yes", "no")
    assert "serial" not in found


@pytest.mark.parametrize("bus", firmware.BUSES)
def test_an_arm64_machine(bus: str, tmp_path: Path) -> None:
    found = report(ARM64, bus, Form(cpus=2), tmp_path)
    assert (found["cpus"], found["efi"], found["poe"]) == ("0-1", "yes", "no")
    assert found["clocksource"] == "arch_sys_counter"
