# SPDX-License-Identifier: GPL-2.0-only
"""Attacks as a part of the test run: on which machines, and what counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import boot, host, kernels
from redoubt.machine.boot import Machine
from redoubt.machine.kernels import Workbench
from redoubt.suite import flavours
from redoubt.suite.run import Item, Run
from redoubt.targets import ARM64, UM, X86_64, Target, get_variant
from redoubt.trial import attack
from redoubt.trial.attack import ABSENT, BLOCKED, SUCCEEDED, Attack, Outcome

KNOWN = [Attack("own-pte", True, ""), Attack("leaked-level", True, ""), Attack("cred", False, "")]


def bench(target: Target, memory_mb: int = boot.MEMORY_MB) -> Workbench:
    here = Path("x")
    built = Build(target, here, here / "image", here / "vmlinux")
    return Workbench(built, here, host.EMULATED, memory_mb)


@pytest.mark.parametrize(
    ("target", "has", "gets"),
    [
        (X86_64, boot.MEMORY_MB, 640),
        (ARM64, boot.MEMORY_MB, 640),
        (X86_64, 1024, 1024),
        # It has no huge pages, and costs memory of the machine it runs on.
        (UM, boot.MEMORY_MB, boot.MEMORY_MB),
    ],
)
def test_a_machine_to_be_attacked_has_huge_pages(target: Target, has: int, gets: int) -> None:
    machine = bench(target, has).attack_machine(get_variant(target, "on"))
    assert (machine.memory_mb, machine.cpus) == (gets, 2)
    assert "kpkeys_vuln=on" in machine.args


def attacked(
    monkeypatch: pytest.MonkeyPatch, level: str, asked: list[tuple[Any, ...]]
) -> Sequence[Item]:
    def said(machine: Machine, variant: Any, _: object, *, flavour: str = "") -> Any:
        asked.append((variant.name, flavour, machine.args))
        out = SUCCEEDED, level if variant.protected else SUCCEEDED, SUCCEEDED
        ends = (BLOCKED, *out[1:]) if variant.protected else out
        outcomes = [
            Outcome("x86_64", known.name, variant.name, end, f"why {end}")
            for known, end in zip(KNOWN, ends, strict=True)
        ]
        return KNOWN, outcomes, boot.Result("finished", 0, (), (), Path("log"))

    def built(*_: object, **more: object) -> Workbench:
        assert more == {"flavour": "plain"}
        return bench(X86_64)

    monkeypatch.setattr(attack, "run", said)
    monkeypatch.setattr(kernels, "workbench", built)
    monkeypatch.setattr(Run, "enforcing", lambda *_: host.EMULATED)
    return list(flavours.plain(Run(X86_64, "auto", True, Silent())))


@pytest.mark.parametrize(
    ("level", "counts", "says"),
    [
        (BLOCKED, (3, 0, 0), ""),
        (SUCCEEDED, (2, 1, 0), "leaked-level: succeeded, why succeeded"),
        # It proves nothing.
        (ABSENT, (2, 0, 1), "leaked-level: why absent"),
    ],
)
def test_what_counts(
    level: str, counts: tuple[int, int, int], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    off, on = attacked(monkeypatch, level, [])[:2]
    assert (off.passed, off.failed, off.skipped, off.detail) == (3, 0, 0, "")
    assert (on.passed, on.failed, on.skipped) == counts
    assert on.detail.startswith(says) and bool(on.detail) is bool(says)


def test_a_plain_kernel_is_attacked_however_it_is_booted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    items = attacked(monkeypatch, BLOCKED, asked)
    ways = list(X86_64.ways)
    assert len(asked) == len(items) == 2 * (1 + len(ways))
    assert [(variant, flavour) for variant, flavour, _ in asked[:2]] == [
        ("off", "plain"), ("on", "plain"),
    ]  # fmt: skip
    assert set(ways[-1].args) <= set(asked[-1][2])
    assert items[0].name == "attacks, plain flavour"


def test_a_target_without_that_kernel_is_left_alone() -> None:
    assert list(flavours.plain(Run(UM, "auto", True, Silent()))) == []
