# SPDX-License-Identifier: GPL-2.0-only
"""A machine that its emulator fails is started again, a few times and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.core.process import Ended
from redoubt.core.progress import Silent
from redoubt.machine import boot, guest, host
from redoubt.targets import UM, X86_64, Target


class Starts:
    """Stands for QEMU: one console after the other, the last again and again.

    One without a line is that of an emulator which is dead, or `spins` until its time is up.
    """

    def __init__(self, *consoles: tuple[str, ...], spins: bool = False) -> None:
        self.noise: tuple[str, ...] = ()
        self.consoles = consoles
        self.spins = spins
        self.count = 0

    def __call__(
        self, command: object, on_line: Callable[[str], None], *, timeout: float, silence: float
    ) -> Ended:
        assert silence > 0
        console = self.consoles[min(self.count, len(self.consoles) - 1)]
        self.count += 1
        for line in (*self.noise, *console) if console else ():
            on_line(line)
        return Ended(0, not console and self.spins)


DEAD: tuple[str, ...] = ()
GOOD = ("Linux version 7.3.4", "@redoubt: exit=0")
# What the console of a target shows before the guest's own.
NOISE = {"um": ("Linux version 6.1", host.READY), "x86_64": ()}


@pytest.fixture(params=[UM, X86_64], ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    """Each has its own way to an emulated machine."""
    made: Target = request.param
    return made


def start(
    starts: Starts, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> boot.Result:
    starts.noise = NOISE[target.name]
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path))
    monkeypatch.setattr(boot, "run_lines", starts)
    monkeypatch.setattr(boot, "_made_ready", lambda *args: ["qemu"])
    monkeypatch.setattr(guest, "root_directory", lambda *args: None)
    build: Any = boot.Build(target, tmp_path, tmp_path / "linux", tmp_path / "linux")
    machine = boot.Machine(build, tmp_path, host.EMULATED)
    return boot.boot(machine, ["x"], timeout=5, name="start", progress=Silent())


def test_it_is_started_again(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts(DEAD, GOOD)
    result = start(starts, target, tmp_path, monkeypatch)
    assert (result.outcome, result.status, result.console) == ("finished", 0, GOOD)
    assert starts.count == 2
    assert start(Starts(DEAD, DEAD, GOOD, spins=True), target, tmp_path, monkeypatch).status == 0


@pytest.mark.parametrize(("spins", "how"), [(False, "exit 0"), (True, "silent for 120 s")])
def test_it_is_given_up(
    target: Target, spins: bool, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts(DEAD, spins=spins)
    with pytest.raises(RedoubtError, match=rf"did not start \({how}, tried 3 times\)"):
        start(starts, target, tmp_path, monkeypatch)
    assert starts.count == 3


def test_what_has_begun_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have changed something by then, and its console is worth reading."""
    result = start(Starts(GOOD[:1]), X86_64, tmp_path, monkeypatch)
    assert (result.outcome, result.console) == ("died", GOOD[:1])


def test_a_console_can_be_read_while_the_machine_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, seen = tmp_path / "log/boot-start.log", list[str]()

    def runs(command: object, on_line: Callable[[str], None], **_: object) -> Ended:
        for line in GOOD:
            on_line(line)
            seen.append(log.read_text())
        return Ended(0, False)

    start(cast("Starts", runs), X86_64, tmp_path, monkeypatch)
    assert seen == [f"{GOOD[0]}\n", f"{GOOD[0]}\n{GOOD[1]}\n"]


# The kernel's words; the second byte of an instruction of two comes next.
STALE = (
    "Linux version 7.3.4",
    "Oops: int3: 0000 [#1] SMP PTI",
    "RIP: 0010:sched_clock_cpu+0x5/0x190",
    "Code: 10 48 89 11 54 55 53 66 <90> e8 45 e2 f8 ff",
    "Kernel panic - not syncing: Fatal exception in interrupt",
)


def test_it_is_started_again_after_a_stale_breakpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = start(Starts(STALE, GOOD), X86_64, tmp_path, monkeypatch)
    assert (result.outcome, result.console, result.complaints) == ("finished", GOOD, ())
    # But not for ever.
    result = start(Starts(STALE), X86_64, tmp_path, monkeypatch)
    assert (result.outcome, result.console) == ("panic", STALE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("66 <90>", "cc <90>"),  # A breakpoint that is there is the kernel's own affair.
        ("int3: 0000", "general protection fault: 0000"),
    ],
)
def test_another_oops_stands(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = tuple(line.replace(old, new) for line in STALE)
    result = start(Starts(console, GOOD), X86_64, tmp_path, monkeypatch)
    assert (result.outcome, result.console) == ("panic", console)
