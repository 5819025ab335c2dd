# SPDX-License-Identifier: GPL-2.0-only
"""What address space isolation has to stand: judging what a guest said."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from guests import AUDIT, machine, say

from redoubt.core.progress import Progress, Silent
from redoubt.machine.boot import Machine
from redoubt.trial.asi import isolation
from redoubt.trial.experiment import Outcome

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
