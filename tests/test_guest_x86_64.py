# SPDX-License-Identifier: GPL-2.0-only
"""The x86_64 kernel on its emulated machine: statuses, panic and hang are told apart.

Nothing here needs protection keys: if there is no kernel of ours, the pristine one will do.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from conftest import REAL_BUILD, Sandbox

from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import boot, host, kernels, qemu
from redoubt.machine.boot import Machine
from redoubt.targets import PC, X86_64, get_variant

BUILDS = [REAL_BUILD / "x86_64" / kind for kind in ("redoubt", "pristine")]
BUILD = next((build for build in BUILDS if (build / X86_64.image).exists()), BUILDS[0])
IMAGE = BUILD / X86_64.image
PROGRAMS = REAL_BUILD / "guest"
TIMEOUT = 240.0
ISOLATED = "Kernel/User page tables isolation: enabled"

pytestmark = [
    pytest.mark.guest,
    pytest.mark.usefixtures("marked"),
    pytest.mark.skipif(not IMAGE.exists(), reason=f"no {IMAGE}: redoubt build x86_64"),
    pytest.mark.skipif(not (PROGRAMS / "init").exists(), reason="no guest programs"),
    pytest.mark.skipif(qemu.problem(PC) is not None, reason="no QEMU with protection keys"),
]


def machine(*args: str, cpus: int = 1) -> Machine:
    built = Build(X86_64, BUILD, IMAGE, IMAGE)
    made = kernels.Workbench(built, PROGRAMS, host.EMULATED)
    return made.machine(get_variant(X86_64, "off"), *args, cpus=cpus)


def run(
    command: Sequence[str], made: Machine | None = None, timeout: float = TIMEOUT
) -> boot.Result:
    return boot.boot(made or machine(), command, timeout=timeout, name="test", progress=Silent())


def test_a_command_and_its_output() -> None:
    result = run(
        ["/bin/then", "/bin/cat", "/proc/version", "++", "/bin/cat", "/proc/cpuinfo"],
        machine(cpus=2),
    )
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    assert result.console[0].startswith("Linux version 7.3.")
    assert ISOLATED in result.console
    assert sum(line.startswith("processor\t") for line in result.console) == 2
    # Lines end as they do everywhere else, and have nothing for a terminal in them.
    assert not [line for line in result.console if "\r" in line or "\x1b" in line]
    assert result.log.read_text().splitlines() == list(result.console)


@pytest.mark.parametrize(
    ("command", "status"),
    [(["/bin/cat", "/nowhere"], 1), (["/bin/no-such-program"], 127), (["/proc/version"], 126)],
)
def test_the_status_of_a_command(command: list[str], status: int) -> None:
    result = run(command)
    assert (result.outcome, result.status) == ("finished", status)


def test_a_panic(sandbox: Sandbox) -> None:
    result = run(["/bin/cat", "/proc/version"], machine("rdinit=/nonexistent"))
    assert result.outcome == "panic"
    assert sandbox.living() == []


def test_a_hang(sandbox: Sandbox) -> None:
    result = run(["/bin/stress", "600", "2"], timeout=20)
    assert result.outcome == "hang"
    assert sandbox.living() == []
    assert list((sandbox.where / "tmp").iterdir()) == []


def test_without_page_table_isolation() -> None:
    result = run(["/bin/cat", "/proc/version"], machine("pti=off"))
    assert (result.outcome, result.status) == ("finished", 0)
    assert ISOLATED not in result.console


def test_stress_leaves_nothing_out() -> None:
    result = run(["/bin/stress", "5", "2"], machine(cpus=2))
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    done = [line for line in result.console if line.startswith("@stress: ")]
    assert len(done) == 1
    assert done[0].endswith(" refused=0 errors=0")


def test_stress_leaves_out_a_cpu_that_is_not_there() -> None:
    result = run(["/bin/stress", "1", "2"])
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    assert any(line.endswith(" errors=0 left-out=cpu") for line in result.console)
