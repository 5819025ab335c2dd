# SPDX-License-Identifier: GPL-2.0-only
"""An emulated machine that does not come up is started again, a few times and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redoubt import boot, guest, host
from redoubt.errors import RedoubtError
from redoubt.process import Ended
from redoubt.progress import Silent
from redoubt.targets import UM, X86_64, Target


class Starts:
    """Stands for QEMU: dead on the first `dead` starts, then a guest that ends well."""

    def __init__(self, dead: int, *, spins: bool = False) -> None:
        self.noise: tuple[str, ...] = ()
        self.dead = dead
        self.spins = spins
        self.count = 0

    def __call__(
        self, command: object, on_line: Callable[[str], None], *, timeout: float, silence: float
    ) -> Ended:
        assert silence > 0
        self.count += 1
        if self.count > self.dead:
            for line in (*self.noise, "Linux version 7.3.4", "@redoubt: exit=0"):
                on_line(line)
        return Ended(0, self.count <= self.dead and self.spins)


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
    monkeypatch.setattr(boot, "_command", lambda *args: ["qemu"])
    monkeypatch.setattr(guest, "root_directory", lambda *args: None)
    build: Any = boot.Build(target, tmp_path, tmp_path / "linux", tmp_path / "linux")
    machine = boot.Machine(build, tmp_path, host.EMULATED)
    return boot.boot(machine, ["x"], timeout=5, name="start", progress=Silent())


def test_it_is_started_again(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts(1)
    result = start(starts, target, tmp_path, monkeypatch)
    assert (result.outcome, result.status) == ("finished", 0)
    assert result.console == ("Linux version 7.3.4", "@redoubt: exit=0")
    assert starts.count == 2


def test_it_is_started_again_if_it_spins(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start(Starts(2, spins=True), target, tmp_path, monkeypatch).status == 0
    with pytest.raises(RedoubtError, match=r"did not start \(silent for 120 s, tried 3 times\)"):
        start(Starts(99, spins=True), target, tmp_path, monkeypatch)


def test_it_is_given_up(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Starts(99)
    with pytest.raises(RedoubtError, match=r"did not start \(exit 0, tried 3 times\)"):
        start(starts, target, tmp_path, monkeypatch)
    assert starts.count == 3


def test_what_has_begun_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have changed something by then, and its console is worth reading."""

    def dies(command: object, on_line: Callable[[str], None], **_: object) -> Ended:
        on_line("Linux version 7.3.4")
        return Ended(0, False)

    starts: Any = dies
    starts.noise = ()
    result = start(starts, X86_64, tmp_path, monkeypatch)
    assert (result.outcome, result.console) == ("died", ("Linux version 7.3.4",))
