# SPDX-License-Identifier: GPL-2.0-only
"""The disk image with Secure Boot: refused as it is, and started when it is signed as documented.

Debian's kernel stands in for ours, and its firmware has keys whose private halves are public.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import standin

from redoubt.core import paths
from redoubt.core.process import run_lines
from redoubt.core.progress import Silent
from redoubt.linux import rootless
from redoubt.machine import guest, provenance
from redoubt.ship.stick import esp, firmware, image, plan
from redoubt.ship.stick.plan import Entry, Plan, Step
from redoubt.suite import real
from redoubt.targets import X86_64

ENTRIES = (
    Entry("off", (), (Step(plan.HARDWARE, 1, ("/bin/hardware",)),), "off"),
    Entry("finish", ()),
)
CODE = "usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
VARIABLES = "usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd"
KEY, CERTIFICATE = "usr/share/ovmf/PkKek-1-snakeoil.key", "usr/share/ovmf/PkKek-1-snakeoil.pem"
# Seconds until the firmware has refused, and until the signed image has ended.
REFUSED, STARTED = 60.0, 600.0

pytestmark = [
    pytest.mark.guest,
    pytest.mark.network,
    pytest.mark.skipif(
        not Path(esp.program("mformat")).is_absolute(), reason="no mtools: prerequisites image"
    ),
    *(
        pytest.mark.skipif(not shutil.which(program), reason=f"no {program}: {package}")
        for program, package in (("sbsign", "sbsigntool"), ("openssl", "openssl"))
    ),
]


def sign(disk: Path, firmware_files: Path, where: Path) -> None:
    """Sign the image by the commands of docs/real-machine.md."""
    subprocess.run(
        ["openssl", "rsa", "-in", firmware_files / KEY, "-passin", "pass:snakeoil",
         "-out", where / "KEY.pem"], check=True,
    )  # fmt: skip
    shutil.copyfile(firmware_files / CERTIFICATE, where / "CERTIFICATE.pem")
    page = (paths.repo() / "docs/real-machine.md").read_text()
    script = page.split("## Secure Boot")[1].split("```")[1]
    assert "build/redoubt-x86_64.img" in script
    subprocess.run(
        ["sh", "-ec", script.replace("build/redoubt-x86_64.img", str(disk))],
        cwd=where, check=True, env={**os.environ, "MTOOLS_SKIP_CHECK": "1"},
    )  # fmt: skip


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_secure_boot(signed: bool, tmp_path: Path) -> None:
    target = standin.emulated(X86_64)
    assert target.emulator
    if not shutil.which(target.emulator.program):
        pytest.skip(f"no {target.emulator.program}: scripts/prerequisites x86_64")
    programs = standin.programs(target, guest.programs(Silent()), tmp_path / "programs")
    disk = tmp_path / "disk.img"
    image.make(
        standin.kernel(target, Silent()), programs, real.emulated(Plan(target, ENTRIES, ())),
        provenance.collect(["image"]), disk, Silent(),
    )  # fmt: skip
    files = rootless.foreign("amd64", ("ovmf",), Silent())
    if signed:
        sign(disk, files, tmp_path)
    variables = tmp_path / "variables"
    shutil.copyfile(files / VARIABLES, variables)
    words = firmware.command(target, disk, files / CODE, variables, "usb", firmware.Form())
    # Secure Boot keeps its variables where only system management mode can write.
    words[words.index("q35")] = "q35,smm=on"
    words += ["-global", "driver=cfi.pflash01,property=secure,value=on", "-no-reboot"]
    lines: list[str] = []
    ended = run_lines(words, lines.append, timeout=STARTED if signed else REFUSED)
    said = "\n".join(lines)
    results = [file for file in esp.names(disk) if file.startswith("results-")]
    if signed:
        assert (ended.code, ended.timed_out) == (0, False), said
        assert "off/hardware: about" in said
        assert len(results) == 1
    else:
        assert "Access Denied" in said, said
        assert "Linux version" not in said
        assert results == []
