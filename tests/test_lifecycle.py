# SPDX-License-Identifier: GPL-2.0-only
"""What a machine must still show after it slept, lost memory or started another kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import WALK
from guests import AUDIT, ended, machine, say

from redoubt.core.progress import Silent
from redoubt.machine.boot import Machine, Result
from redoubt.targets import ARM64, X86_64, Target
from redoubt.trial import lifecycle
from redoubt.trial.ktap import Suite
from redoubt.trial.lifecycle import Outcome

BAD_WALK = ["tables 100", "untagged 1", "aliases 0", "foreign 0"]
SUITES = ["kpkeys_levels 3 0", "kpkeys_pgtables 4 0"]
SLEPT = ["@power: resumed=2", *SUITES, *WALK]
LEAK = ["leaks 1" if line.startswith("leaks") else line for line in AUDIT]
GIVEN = ["MemTotal:  1262144 kB", *WALK, "MemTotal:  1000000 kB", *WALK]
RAN = ["@kvm: runs=1000", *SUITES, *WALK]
# What it said on an emulator without FEAT_ATS1A, and with a kernel that did not restore POR_EL1, so
# that the guest had the host's; and what a kernel with KVM says at last.
BARE = "the guest has no overlays: Success"
MIXED = "the guest's overlays became 0x17: Success"
OVER = "kvm: exiting hardware virtualization"
STARTED = ["@power: kexec", "x kpkeys: page tables hardened (pkey 1)", "kpkeys_pgtables 4 0"]

Way = Callable[..., Outcome]


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Outcome]:
    """Run one of the ways with a console that is made up."""

    def parse(kernel: Path, console: Sequence[str]) -> list[Suite]:
        words = [line.split() for line in console if line.startswith("kpkeys_")]
        return [Suite(name, int(good), int(bad), 0) for name, good, bad in words]

    def run(way: Way, lines: list[str], outcome: str = "finished", args: tuple[str, ...] = (),
            **how: Any) -> Outcome:  # fmt: skip
        say(monkeypatch, lines, outcome=outcome, **how)
        monkeypatch.setattr(lifecycle.ktap, "parse", parse)
        monkeypatch.setattr(lifecycle.ktap, "parse_runs", parse)
        more = {"timeout": 9.0} if way is lifecycle.running else {}
        return way(machine(args=args), tmp_path, Silent(), **more)

    return run


def test_what_went_well(go: Callable[..., Outcome]) -> None:
    assert go(lifecycle.sleep, SLEPT).ok
    assert go(lifecycle.running, SLEPT[1:]).ok
    assert go(lifecycle.memory, GIVEN).ok
    assert go(lifecycle.guests, [*RAN, OVER]).ok
    assert go(lifecycle.guests, [*RAN, *AUDIT], args=("asi=on",)).ok
    end = "VFS: Unable to mount root fs on unknown-block"
    assert go(lifecycle.kexec, STARTED, "panic", detail=end).ok


@pytest.mark.parametrize(
    ("way", "lines", "said"),
    [
        (lifecycle.sleep, [*SUITES, *WALK], "did not sleep"),
        (lifecycle.sleep, ["@power: resumed=1", *SUITES, *WALK], "did not sleep"),
        (lifecycle.sleep, ["@power: resumed=2", SUITES[0], *WALK], "kpkeys_pgtables did not run"),
        (lifecycle.sleep, ["@power: resumed=2", SUITES[0], "kpkeys_pgtables 4 1", *WALK], "failed"),
        (lifecycle.sleep, ["@power: resumed=2", SUITES[0], "kpkeys_pgtables 0 0", *WALK], "failed"),
        (lifecycle.sleep, ["@power: resumed=2", *SUITES, *BAD_WALK], "not clean"),
        (lifecycle.sleep, ["@power: resumed=2", *SUITES], "0 walks"),
        (lifecycle.running, [SUITES[1], *WALK], "kpkeys_levels did not run"),
        (lifecycle.running, [*SUITES, *BAD_WALK], "not clean"),
        (lifecycle.memory, [*GIVEN[:5], "MemTotal:  1262144 kB", *WALK], "not taken away"),
        (lifecycle.memory, [GIVEN[0], *BAD_WALK, *GIVEN[5:]], "not clean"),
        (lifecycle.memory, [GIVEN[0], *GIVEN[5:]], "1 walks"),
        (lifecycle.guests, RAN[1:], "did not run"),
        (lifecycle.guests, [f"kvm: {BARE}", *RAN[1:], OVER], f"its guest did not run: {BARE}"),
        (lifecycle.guests, [f"kvm: {MIXED}", *RAN[1:], OVER], f"its guest did not run: {MIXED}"),
        (lifecycle.guests, [*RAN[:3], *BAD_WALK], "not clean"),
    ],
)
def test_what_did_not(go: Callable[..., Outcome], way: Way, lines: list[str], said: str) -> None:
    (problem,) = go(way, lines).problems
    assert said in problem
    assert "exiting" not in problem


@pytest.mark.parametrize(
    ("audits", "said"),
    [
        ((AUDIT, AUDIT), ()),
        ((AUDIT, LEAK), ("leaks=1",)),
        ((AUDIT,), ("1 audits, expected 2",)),
    ],
)
def test_memory_that_comes_and_goes_is_audited(
    go: Callable[..., Outcome], audits: Sequence[list[str]], said: tuple[str, ...]
) -> None:
    lines = [*GIVEN, *(line for audit in audits for line in audit)]
    problems = go(lifecycle.memory, lines, args=("asi=on",)).problems
    assert len(problems) == len(said)
    assert all(text in problem for text, problem in zip(said, problems, strict=True))


@pytest.mark.parametrize(
    ("lines", "outcome", "detail", "said"),
    [
        (STARTED[1:], "panic", "VFS: Unable to mount root fs", "no other kernel"),
        ([STARTED[1], STARTED[0], STARTED[2]], "panic", "VFS: Unable to mount root fs", "protect"),
        ([*STARTED[:2], "kpkeys_pgtables 4 1"], "panic", "VFS: Unable to mount root fs", "failed"),
        (STARTED, "panic", "Attempted to kill init!", "did not get to its end"),
        (STARTED, "hang", "", "did not get to its end"),
    ],
)
def test_another_kernel_that_is_not_right(
    go: Callable[..., Outcome], lines: list[str], outcome: str, detail: str, said: str
) -> None:
    (problem,) = go(lifecycle.kexec, lines, outcome, detail=detail).problems
    assert said in problem


@pytest.mark.parametrize(
    ("way", "lines"),
    [(lifecycle.sleep, SLEPT), (lifecycle.running, SLEPT), (lifecycle.memory, GIVEN)],
)
def test_a_kernel_that_complains(go: Callable[..., Outcome], way: Way, lines: list[str]) -> None:
    assert go(way, lines, splats=("WARNING: x",)).problems == ("kernel: WARNING: x",)
    assert go(way, lines, status=1).problems == ("ended with finished, status 1",)


def test_only_the_end_of_another_kernel_may_be_a_panic(go: Callable[..., Outcome]) -> None:
    end = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block"
    lines = [*STARTED, "BUG: x", end, "Call Trace:"]
    splats = ("BUG: x", end, "Call Trace:")
    outcome = go(lifecycle.kexec, lines, "panic", detail=end, splats=splats)
    assert outcome.problems == ("kernel: BUG: x",)


OFF = ended(["@power: hibernating"], "died")
KEPT = "@power: POR_EL0=17 before=17"
BACK = ended(["@power: hibernated", KEPT, *SUITES, *WALK])
LOST = ended(["@power: hibernated", "@power: POR_EL0=7 before=17", *SUITES, *WALK])


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((OFF, BACK), ()),
        ((BACK, BACK), ("it did not go to the disk",)),
        ((ended([], "hang"), BACK), ("it did not go to the disk",)),
        ((OFF, OFF), ("it did not come back from the disk",)),
        ((OFF, LOST), ("a program that had POR_EL0 17 has 7 now",)),
    ],
)
def test_a_disk_to_come_back_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: tuple[Result, ...], said: tuple[str, ...]
) -> None:
    booted: list[Machine] = []

    def refusing(made: Machine, name: str, *_: object) -> Outcome:
        booted.append(made)
        return Outcome(name, (), ends[len(booted) - 1])

    monkeypatch.setattr(lifecycle, "_refusing", refusing)
    outcome = lifecycle.hibernate(machine(ARM64), tmp_path, Silent())
    assert outcome.problems == said
    # One machine, twice, with one disk.
    assert booted[0] == booted[1]
    assert (
        "resume=/dev/vda" in booted[0].args and "virtio-blk-device,drive=disk" in booted[0].devices
    )


def test_memory_is_plugged_in_by_the_acpi_of_a_firmware(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Machine] = []

    def through(machine: Machine, *args: object, **more: object) -> tuple[Result, list[str]]:
        started.append(machine)
        return ended(GIVEN), []

    monkeypatch.setattr(lifecycle, "_through", through)
    monkeypatch.setattr(lifecycle.rootless, "foreign", lambda *_: tmp_path)
    at_el2 = ("-machine", "virtualization=on")
    assert lifecycle.memory(replace(machine(ARM64), devices=at_el2), tmp_path, Silent()).ok
    assert lifecycle.memory(machine(X86_64), tmp_path, Silent()).ok
    arm64, x86_64 = (one.devices for one in started)
    assert arm64[:2] == at_el2
    assert arm64[2:] == ("-bios", str(tmp_path / lifecycle._FIRMWARE[1]), *x86_64)


@pytest.mark.parametrize(
    ("target", "devices", "guests", "shadowed"),
    [
        (ARM64, (), False, False),
        (ARM64, ("-machine", "virtualization=on,gic-version=3"), True, False),
        (X86_64, (), True, True),
    ],
)
def test_which_machines_may_have_guests(
    target: Target, devices: tuple[str, ...], guests: bool, shadowed: bool
) -> None:
    made = replace(machine(target), devices=devices)
    assert lifecycle.may_go_through(made, lifecycle.guests) is guests
    assert lifecycle.may_go_through(made, lifecycle.shadowed_guests) is shadowed
    assert lifecycle.may_go_through(made, lifecycle.sleep)


def test_guests_with_shadow_page_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Machine] = []

    def guests(machine: Machine, *_: object) -> lifecycle.Outcome:
        started.append(machine)
        return lifecycle.Outcome("guests of KVM", (), ended(()))

    monkeypatch.setattr(lifecycle, "guests", guests)
    outcome = lifecycle.shadowed_guests(machine(X86_64), tmp_path, Silent())
    assert outcome.name == "guests of KVM, shadow page tables"
    assert started[0].args[-1] == "kvm_amd.npt=0"
