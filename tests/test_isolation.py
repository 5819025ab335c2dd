# SPDX-License-Identifier: GPL-2.0-only
"""What address space isolation has to stand: judging what a guest said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from guests import AUDIT, machine, say

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress, Silent
from redoubt.linux.build import Build
from redoubt.machine import host, kernels
from redoubt.machine.boot import Machine
from redoubt.suite import boots
from redoubt.suite import isolation as suite
from redoubt.suite.run import Item, Run
from redoubt.targets import PCIDS, X86_64
from redoubt.trial.asi import isolation
from redoubt.trial.experiment import Outcome
from redoubt.trial.oracle import oracle

Try = Callable[[Machine, Progress], Outcome]

PROBED = (
    "@probe: how=stay error=-14 exits=0 secret=0",
    "@probe: how=leave error=0 exits=1 secret=1",
)
STORMED = ("@stress: ops=9 refused=0 errors=0", *AUDIT[:-1], "reenter 4", AUDIT[-1])


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, ...]]:
    def judged(attempt: Try, console: Sequence[str], outcome: str = "finished") -> tuple[str, ...]:
        say(monkeypatch, console, outcome=outcome)
        return attempt(machine(args=("asi=on",)), Silent()).problems

    return judged


@pytest.mark.parametrize(
    ("attempt", "console"),
    [(isolation.probe, PROBED), (isolation.nmis, STORMED), (isolation.stressed, STORMED)],
)
def test_as_it_has_to_be(
    go: Callable[..., tuple[str, ...]], attempt: Try, console: Sequence[str]
) -> None:
    assert go(attempt, console) == ()
    # Nothing, and nothing good of a guest that died.
    assert go(attempt, ())
    assert "ended with panic, status None" in go(attempt, console, "panic")


def test_a_secret_that_was_read(go: Callable[..., tuple[str, ...]]) -> None:
    read = "@probe: how=stay error=0 exits=0 secret=1"
    assert go(isolation.probe, (read, PROBED[1])) == (f"not seen: {PROBED[0]}",)
    # An exit too many, or a control that finds nothing.
    assert go(isolation.probe, (PROBED[0], PROBED[1].replace("exits=1", "exits=2")))
    assert go(isolation.probe, (PROBED[0], PROBED[1].replace("secret=1", "secret=0")))


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("unrestricted 0", "unrestricted 1", "not clean"),
        ("reenter 4", "reenter 0", "nothing was tried"),
        ("leaks 0", "leaks 1", "not clean"),
        ("@stress: ops=9 refused=0 errors=0", "@stress: ops=9 refused=0 errors=1", "the stress"),
    ],
)
def test_a_storm_that_went_wrong(
    go: Callable[..., tuple[str, ...]], line: str, instead: str, said: str
) -> None:
    (problem,) = go(isolation.nmis, [instead if one == line else one for one in STORMED])
    assert said in problem


def pcid_items(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Machine], list[str]]:
    """The machines that are booted with PCIDs, and the names of what came of it."""
    booted = say(monkeypatch, STORMED)
    monkeypatch.setattr(boots, "suites", lambda *_: iter(()))
    made = kernels.Workbench(Build(X86_64, Path(), Path(), Path()), Path(), host.EMULATED)
    run = Run(X86_64, "auto", False, Silent())
    items = list(suite._pcid(run, made.of(suite.X86_64_PCID), "asi"))
    assert not any(item.failed for item in items)
    return [one for one, _ in booted], [item.name for item in items]


def test_pcids_are_those_of_our_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "lacking", lambda *_: None)
    machines, names = pcid_items(monkeypatch)
    assert len(machines) == len(set(names)) == len({(one.cpus, one.args) for one in machines})
    assert {one.cpus for one in machines} == {1, 2}
    for one in machines:
        assert one.build.target.emulator == PCIDS
        assert {"asi=on", "kunit.filter_glob=asi*"} <= set(one.args)
    for more in ("pti=off", "noinvpcid", "no5lvl"):
        assert any(more in one.args for one in machines)


def test_without_our_emulator_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "lacking", lambda *_: RedoubtError("no libfdt"))
    assert pcid_items(monkeypatch) == ([], ["asi: PCID"])


def test_what_is_asked_of_a_mutant_the_cheapest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def item(name: str) -> Item:
        return Item(name, "on", 1, 0, 0)

    def kunit(
        _: Run, made: kernels.Workbench, *__: object, cpus: int, label: str
    ) -> Iterator[Item]:
        assert "asi=on" in made.args
        assert "kunit.filter_glob=asi*" in made.kunit_machine(X86_64.variants[1]).args
        yield item(f"KUnit {cpus}{label}")

    monkeypatch.setattr(boots, "kunit", kunit)
    monkeypatch.setattr(
        suite, "_exits", lambda _, __, *ways, cpus=1: iter([item(f"exits {cpus} {ways}")])
    )
    monkeypatch.setattr(
        suite, "_pcid", lambda _, made, __: iter([item(f"PCIDs of {made.build.target.name}")])
    )
    monkeypatch.setattr(suite, "_attempts", lambda *_: iter([item("attempts")]))
    asked: list[tuple[str, str, bool]] = []

    def look(_: Machine, root: str, __: Progress, *, mistake: bool, place: str) -> NoReturn:
        asked.append((root, place, mistake))
        raise RedoubtError("seen")

    monkeypatch.setattr(oracle, "run", look)
    made = kernels.Workbench(
        Build(X86_64, Path("d"), Path("i"), Path("v")), Path("p"), host.EMULATED
    )
    names = []
    with pytest.raises(RedoubtError, match="seen"):
        for one in suite.noticing(Run(X86_64, "auto", False, Silent()), made):
            names.append(one.name)
    assert names == [
        *(f"KUnit 2, {way.name}" for way in X86_64.ways),
        "exits 1 ('asi=on', 'asi_ephmap=off')", "exits 2 ('asi=on',)",
        "PCIDs of x86_64-pcid", "attempts",
    ]  # fmt: skip
    # No control, which would say nothing about a mutant.
    assert asked == [("restricted", "user", False)]
    # Where there is no oracle, all others.
    pcid = Run(suite.X86_64_PCID, "auto", False, Silent())
    assert len(list(suite.noticing(pcid, made.of(pcid.target)))) == len(names) + 1
