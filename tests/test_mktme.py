# SPDX-License-Identifier: GPL-2.0-only
"""Memory under KeyIDs: the machine for it, and judging what a guest and its planes say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import guests
import numpy as np
import pytest
from guests import ended, say

from redoubt.core.errors import GuestError, RedoubtError
from redoubt.core.progress import Silent
from redoubt.machine import planes
from redoubt.machine.boot import Machine, Result
from redoubt.targets import KEYID_PHYS_BITS, ONLY_WARNINGS, UM, X86_64, X86_64_MKTME
from redoubt.trial import experiment
from redoubt.trial.mktme import mktme
from redoubt.trial.mktme.mktme import View
from redoubt.trial.oracle import patterns
from redoubt.trial.oracle.patterns import PAGES, WORDS, Found

NOWHERE = Found(((),) * PAGES, {})
WHOLE = Found(tuple((frame,) for frame in range(PAGES)), {})
STRAY = Found(((),) * PAGES, {7: 3})
GOOD = ("1..2", "ok 1 forks copy, KeyID 1", "ok 2 mappings move, KeyID 1")


def machine() -> Machine:
    return guests.machine(X86_64_MKTME)


def test_planes_lie_where_keyids_say() -> None:
    options = planes.options(2, 256)
    assert options[:2] == ["-m", "slots=3,maxmem=772G"]
    assert options[-1] == "pc-dimm,id=dimm3,memdev=plane3,addr=0xc000000000"
    assert options.count("-object") == 3
    assert planes.address(1, 4) == 1 << 36
    assert planes.options(0, 256) == []


@pytest.mark.parametrize("target", [UM, X86_64])
def test_other_machines_have_none(target: Any) -> None:
    with pytest.raises(RedoubtError, match="no memory under KeyIDs"):
        mktme.needs(target)
    assert mktme.needs(X86_64_MKTME) == 2


def test_a_machine_can_have_more_of_them() -> None:
    more = mktme.with_bits(machine(), 4)
    assert mktme.needs(more.build.target) == 4
    assert more.args == ("mktme_emul=4",)
    with pytest.raises(RedoubtError, match="no machine has KeyIDs of 7 bits"):
        mktme.with_bits(machine(), 7)


def test_planes_can_be_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    booted = say(monkeypatch, GOOD)
    assert mktme.shared(machine(), Silent()).ok
    ((made, command),) = booted
    assert made.build.target.keyid_bits == 0
    files = {word for word in ",".join(made.devices).split(",") if "mem-path" in word}
    assert len(files) == 1
    assert made.devices.count("-object") == 4
    assert command == ["/bin/mktme", "3"]


def test_checks_are_judged_and_counts_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "a hog: 7 of 9 pages left the pool"
    booted = say(monkeypatch, (*GOOD, f"# {said}", "# another reason"))
    outcome = mktme.checks(machine(), Silent())
    assert outcome.ok
    assert booted[0][1][1:3] == ["/bin/mktme", "3"]
    assert mktme.counts(outcome.boot) == [said]


def test_a_hog_may_have_memory_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = "Call Trace:"
    refused = "kworker/0:1: page allocation failure: order:0, mode:0x40800(GFP_NOWAIT), nodemask=0"
    say(monkeypatch, (refused, trace, *GOOD), splats=(trace,))
    assert mktme.checks(machine(), Silent()).ok
    say(monkeypatch, (refused, trace, "BUG: x", *GOOD), splats=(trace, "BUG: x"))
    assert mktme.checks(machine(), Silent()).problems == ("kernel: BUG: x",)
    # With no word of that, something else is wrong.
    say(monkeypatch, (trace, *GOOD), splats=(trace,))
    assert mktme.checks(machine(), Silent()).problems == (f"kernel: {trace}",)


def test_keys_of_programs_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    booted = say(monkeypatch, ("1..2", "ok 1 global.a", "ok 2 global.b # SKIP no sockets"))
    problem = "not done: global.b # SKIP no sockets"
    assert mktme.interface(machine(), Silent()).problems == (problem,)
    assert [command for _, command in booted] == [["/bin/selftest-mktme"]]


def test_machines_have_so_many_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    booted = say(monkeypatch, GOOD)
    assert all(mktme.around(machine(), n, Silent()).ok for n in (1, 2))
    seen = [(made.devices, command[-1]) for made, command in booted]
    assert seen == [((), "1"), (mktme.TWO_PACKAGES, "2")]


@pytest.mark.parametrize(
    ("console", "outcome", "problem"),
    [
        ((), "finished", "0 checks ran, of None"),
        (GOOD[:2], "finished", "1 checks ran, of 2"),
        ((*GOOD[:2], "not " + GOOD[2]), "finished", "wrong: mappings move, KeyID 1"),
        (
            (*GOOD[:2], "not " + GOOD[2], "# it is gone"),
            "finished",
            "wrong: mappings move, KeyID 1: it is gone",
        ),
        (GOOD, "panic", "ended with panic, status None"),
    ],
)
def test_what_is_wrong_is_told(
    monkeypatch: pytest.MonkeyPatch, console: Sequence[str], outcome: str, problem: str
) -> None:
    say(monkeypatch, console, outcome=outcome)
    assert problem in mktme.checks(machine(), Silent()).problems


def test_a_bug_must_be_noticed_as_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    booted = say(monkeypatch, ["mktme: page 0x7 with KeyID 1 is mapped with 0"])
    assert mktme.notices(machine(), "entry", Silent()).ok
    assert booted[0][1][1:4] == ["/bin/put", mktme.BUGS, "16"]
    assert booted[0][1][-1] == "1"
    # Pages of one KeyID for another: there must be two.
    assert mktme.notices(machine(), "pool", Silent()).ok
    assert booted[1][1][-1] == "2"
    assert not mktme.notices(machine(), "free-flush", Silent()).ok
    assert not mktme.notices(machine(), "forget", Silent()).ok
    assert booted[-1][1][-1] == "/bin/selftest-mktme"
    with pytest.raises(RedoubtError, match="unknown bug 'none'"):
        mktme.notices(machine(), "none", Silent())


def test_bugs_are_those_of_the_kernel() -> None:
    header = Path("kernel/include/linux/mktme_bugs.h")
    text = (Path(__file__).parents[1] / header).read_text()
    names = [
        line.split(",")[0].strip() for line in text.splitlines() if line.startswith("\tMKTME_BUG_")
    ]
    assert names == ["MKTME_BUG_" + name.upper().replace("-", "_") for name in mktme.NOTICED_BY]


def test_secrets_lie_in_their_own_planes() -> None:
    kept = View("kept", ((WHOLE, NOWHERE), (NOWHERE, WHOLE)))
    assert kept.problems() == []
    assert View("freed", ((WHOLE, NOWHERE), (NOWHERE, NOWHERE))).problems() == []
    assert View("kept", ((WHOLE, NOWHERE), (NOWHERE, STRAY))).problems() == [
        "kept: the secret of KeyID 1 is not in its plane"
    ]
    assert View("kept", ((WHOLE, NOWHERE), (WHOLE, WHOLE))).problems() == [
        f"kept: {PAGES * WORDS} words of the secret of KeyID 1 are in plane 0"
    ]
    assert View("freed", ((NOWHERE, NOWHERE), (NOWHERE, STRAY))).problems() == [
        "freed: 3 words of the secret of KeyID 1 are in plane 1"
    ]
    assert " ".join(mktme.render([kept])[2].split()) == "KeyID 1 kept 0 and 0 8 and 0"


class Monitor:
    """A machine: in each plane an empty page frame, and then the secret of its KeyID."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.calls: list[str] = []

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stop(self) -> None:
        self.calls.append("stop")

    def resume(self) -> None:
        self.calls.append("resume")

    def execute(self, command: str, *, val: int, size: int, filename: str) -> None:
        assert (command, size % 4096) == ("pmemsave", 0)
        keyid = val >> (KEYID_PHYS_BITS - 2)
        pages = [np.zeros((1, WORDS), dtype=np.uint64), patterns.pattern(self.seed, keyid)]
        Path(filename).write_bytes(np.concatenate(pages).tobytes())


def test_planes_are_searched_while_the_machine_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor: list[Monitor] = []

    def booted(quiet: Machine, command: Sequence[str], watch: Any, **__: Any) -> Result:
        # A message of the kernel would cut a line in two.
        assert ONLY_WARNINGS in quiet.args
        assert (command[0], command[2]) == ("/bin/planes", "3")
        monitor.append(Monitor(int(command[1], 16)))
        for line in ("@planes: kept", "@planes: freed"):
            watch(line)
        return ended()

    monkeypatch.setattr(experiment, "boot", booted)
    monkeypatch.setattr(mktme, "Qmp", lambda *_: monitor[0])
    outcome, views = mktme.outside(machine(), Silent())
    assert monitor[0].calls == ["stop", "resume"] * 2
    assert views[0].problems() == []
    # This machine forgets nothing.
    assert len(outcome.problems) == 3
    assert outcome.problems[0].startswith("freed: 4096 words of the secret of KeyID 1")


def test_a_guest_that_does_not_get_there(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, [], outcome="hang")
    with pytest.raises(GuestError, match="did not get to be looked at"):
        mktme.outside(machine(), Silent())
