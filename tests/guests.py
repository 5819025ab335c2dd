# SPDX-License-Identifier: GPL-2.0-only
"""Guests that are none: the machines they run on, what they say, and how they end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redoubt.linux.build import Build
from redoubt.machine import host
from redoubt.machine.boot import Machine, Result
from redoubt.targets import X86_64, Target
from redoubt.trial import experiment

# An audit of address space isolation when all is well.
AUDIT = [
    "sensitive 9", "ordinary 9", "leaks 0", "missing 0", "stale 0", "aliases 0",
    "enter 5", "unrestricted 0",
]  # fmt: skip


def machine(target: Target = X86_64, where: Path = Path(), **changes: Any) -> Machine:
    """A machine that is not built; its kernel is configured by .config in `where`."""
    built = Build(target, where, where / "image", where / "vmlinux")
    return replace(Machine(built, where, host.EMULATED), **changes)


def ended(lines: Iterable[str] = (), outcome: str = "finished", **how: Any) -> Result:
    """The end of a boot that has that console."""
    status = 0 if outcome == "finished" else None
    return Result(**{"outcome": outcome, "status": status, "console": tuple(lines), "splats": (),
                     "log": Path("log"), **how})  # fmt: skip


def say(
    monkeypatch: pytest.MonkeyPatch, *consoles: Iterable[str], **how: Any
) -> list[tuple[Machine, list[str]]]:
    """Boots have these consoles one after the other, and then the last; returns what is booted."""
    booted: list[tuple[Machine, list[str]]] = []

    def boot(made: Machine, command: Iterable[str], **_: Any) -> Result:
        booted.append((made, list(command)))
        return ended(consoles[min(len(booted), len(consoles)) - 1], **how)

    monkeypatch.setattr(experiment, "boot", boot)
    return booted
