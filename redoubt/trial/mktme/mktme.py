# SPDX-License-Identifier: GPL-2.0-only
"""Memory under KeyIDs: is its data right from inside, and where does it lie, from outside?"""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from redoubt.core.errors import GuestError, RedoubtError
from redoubt.core.progress import Progress
from redoubt.machine import planes
from redoubt.machine.boot import Machine, Result
from redoubt.machine.qmp import Qmp
from redoubt.targets import ONLY_WARNINGS, Target
from redoubt.trial import experiment, shortage
from redoubt.trial.experiment import Outcome
from redoubt.trial.oracle import pagewalk, patterns
from redoubt.trial.oracle.patterns import PAGES, Found

BUGS = "/sys/kernel/debug/mktme/bugs"
STATS = "/sys/kernel/debug/mktme/stats"
# enum mktme_bug of linux/mktme_bugs.h, and what must notice each: the kernel, or wrong data.
NOTICED_BY = {
    "alloc-flush": "was not flushed",
    "free-flush": "was not flushed",
    "migration": "is mapped with",
    "zeropage": "is mapped with",
    "entry": "is mapped with",
    "forget": "loses the key of",
    "pool": "is mapped with",
}
# What they are noticed in, if not in what is done with memory under one KeyID.
_NOTICED_IN = {"forget": ["/bin/selftest-mktme"], "pool": ["/bin/mktme", "2"]}
# Another machine of two CPUs: a package for each.
TWO_PACKAGES = ("-smp", "2,sockets=2")
_TIMEOUT = 900.0
_QMP_TIMEOUT = 120.0
_TAP = re.compile(r"^(not )?ok (\d+) (.*)$")
# A warning of the page allocator, with a call trace.
_REFUSED = "page allocation failure: order:"
_PLAN = re.compile(r"^1\.\.(\d+)$")
_COUNTS = "# a hog: "
_STAGE = re.compile(r"^@planes: (kept|freed)$")
STAGES = ("kept", "freed")


def needs(target: Target) -> int:
    """The bits of a target's KeyIDs.

    Raises RedoubtError if its machine has no planes.
    """
    if not target.keyid_bits:
        raise RedoubtError(
            f"the machine of {target.name} has no memory under KeyIDs", "ask x86_64-mktme"
        )
    return target.keyid_bits


def with_bits(machine: Machine, bits: int) -> Machine:
    """A machine with memory for KeyIDs of so many bits instead, of which its kernel is told.

    Raises RedoubtError if it has no planes, or no addresses for as many.
    """
    needs(machine.build.target)
    if bits not in planes.BITS:
        raise RedoubtError(
            f"no machine has KeyIDs of {bits} bits",
            f"bits: {planes.BITS[0]} to {planes.BITS[-1]}",
        )
    return replace(_with_planes(machine, bits), args=(*machine.args, f"mktme_emul={bits}"))


def _with_planes(machine: Machine, bits: int) -> Machine:
    target = machine.build.target
    assert target.emulator
    other = replace(target, emulator=replace(target.emulator, planes=bits))
    return replace(machine, build=replace(machine.build, target=other))


# === From inside =================================================================================


def _checked(
    machine: Machine, name: str, what: str, progress: Progress, *commands: Sequence[str]
) -> Outcome:
    """What is wrong with a run of checks that tell their results as TAP."""
    result = _run(machine, commands, what, progress)
    found = experiment.matches(_TAP, result.console)
    plans = [int(match[1]) for match in experiment.matches(_PLAN, result.console)]
    problems = [*_wrong(result.console)]
    problems += [f"not done: {match[3]}" for match in found if "# SKIP" in match[3]]
    if plans[:1] != [len(found)]:
        problems.append(f"{len(found)} checks ran, of {plans[0] if plans else None}")
    return Outcome(name, (*experiment.bad_end(result, _complaints(result)), *problems), result)


def _wrong(console: Sequence[str]) -> Iterator[str]:
    """The checks that failed, with the reason that the line behind each may have."""
    for line, behind in pairwise((*console, "")):
        match = _TAP.match(line)
        if match and match[1]:
            why = f": {behind.removeprefix('# ')}" if behind.startswith("# ") else ""
            yield f"wrong: {match[3]}{why}"


def _complaints(result: Result) -> tuple[str, ...]:
    """The complaints of a kernel; a hog may well have it refuse memory, which it says."""
    refused = any(_REFUSED in line for line in result.console)
    return shortage.complaints(result) if refused else result.complaints


def counts(result: Result) -> list[str]:
    """What was flushed for somebody who used up memory, for people."""
    return [line.removeprefix("# ") for line in result.console if line.startswith(_COUNTS)]


def checks(machine: Machine, progress: Progress) -> Outcome:
    """Everything that can be done with memory under each KeyID."""
    last = planes.keyids(needs(machine.build.target))[-1]
    commands = ("/bin/mktme", str(last), "hog"), ("/bin/cat", STATS)
    return _checked(machine, "memory under KeyIDs", "checks", progress, *commands)


def shared(machine: Machine, progress: Progress) -> Outcome:
    """The same where all KeyIDs lead to one memory: are addresses right?"""
    bits = needs(machine.build.target)
    command = ("/bin/mktme", str(planes.keyids(bits)[-1]))
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        options = planes.shared_options(bits, machine.memory_mb, Path(name) / "memory")
        bare = _with_planes(machine, 0)
        equipped = replace(bare, devices=(*bare.devices, *options))
        return _checked(equipped, "memory under KeyIDs that is shared", "shared", progress, command)


def interface(machine: Machine, progress: Progress) -> Outcome:
    """The kernel's own tests of keys as programs have them."""
    needs(machine.build.target)
    return _checked(machine, "keys of programs", "keys", progress, ["/bin/selftest-mktme"])


def around(machine: Machine, packages: int, progress: Progress) -> Outcome:
    """Example programs, and a machine of two CPUs in 1 or 2 packages, with keys in use."""
    needs(machine.build.target)
    more = TWO_PACKAGES if packages > 1 else ()
    return _checked(
        replace(machine, devices=(*machine.devices, *more)),
        f"keys and {packages} CPU package(s)", f"packages-{packages}", progress,
        ["/bin/keys", str(packages)],
    )  # fmt: skip


def notices(machine: Machine, bug: str, progress: Progress) -> Outcome:
    """The same with a bug, which must be noticed as it should be.

    Raises RedoubtError if there is no such bug.
    """
    if bug not in NOTICED_BY:
        raise RedoubtError(f"unknown bug '{bug}'", f"bugs: {', '.join(NOTICED_BY)}")
    bit = 1 << list(NOTICED_BY).index(bug)
    commands = [["/bin/put", BUGS, str(bit)], _NOTICED_IN.get(bug, ["/bin/mktme", "1"])]
    result = _run(machine, commands, f"bug-{bug}", progress)
    problems = []
    if not any(NOTICED_BY[bug] in line for line in result.console):
        problems.append(f"the kernel does not say '{NOTICED_BY[bug]}'")
    return Outcome(f"bug noticed: {bug}", tuple(problems), result)


def _legible(machine: Machine) -> Machine:
    """The machine with no messages of the booting kernel within lines of the commands."""
    return replace(machine, args=(*machine.args, ONLY_WARNINGS))


def _run(
    machine: Machine, commands: Sequence[Sequence[str]], what: str, progress: Progress
) -> Result:
    return experiment.start(
        _legible(machine), *commands, name=f"mktme-{what}", timeout=_TIMEOUT, progress=progress,
        title=f"Checking memory under KeyIDs ({what})",
    )  # fmt: skip


# === From outside ================================================================================


@dataclass(frozen=True)
class View:
    """Where the secret of each KeyID was found, at one stage: by KeyID, then by plane."""

    stage: str
    found: tuple[tuple[Found, ...], ...]

    def problems(self) -> list[str]:
        """What must not be: a secret that is not where it should be, or somewhere else.

        That of KeyID 0 is ordinary memory, of which nothing is demanded when it is free.
        """
        wrong = []
        for keyid, places in enumerate(self.found):
            for plane, place in enumerate(places):
                own = plane == keyid and self.stage == "kept"
                words = sum(map(len, place.frames)) * patterns.WORDS + sum(place.stray.values())
                if own and not place.whole:
                    wrong.append(f"{self.stage}: the secret of KeyID {keyid} is not in its plane")
                elif not own and keyid and words:
                    wrong.append(
                        f"{self.stage}: {words} words of the secret of KeyID {keyid} are in plane "
                        f"{plane}"
                    )
        return wrong


def _look(monitor: Qmp, stage: str, file: Path, size: int, bits: int, seed: int) -> View:
    """Search each plane for the secrets of all KeyIDs, while the machine is stopped."""
    wanted = [patterns.pattern(seed, keyid) for keyid in range(1 << bits)]
    by_plane = []
    monitor.stop()
    for keyid in range(1 << bits):
        monitor.execute("pmemsave", val=planes.address(keyid, bits), size=size, filename=str(file))
        by_plane.append(patterns.find(pagewalk.load(file), wanted))
    monitor.resume()
    return View(stage, tuple(zip(*by_plane, strict=True)))


def outside(machine: Machine, progress: Progress) -> tuple[Outcome, tuple[View, ...]]:
    """Keep a secret under each KeyID, and look into the planes while it is there, and later.

    Raises GuestError if the guest does not get as far.
    """
    bits = needs(machine.build.target)
    seed = secrets.randbits(64)
    views: list[View] = []
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        socket, plane = Path(name) / "monitor", Path(name) / "plane"

        def watch(line: str) -> None:
            if match := _STAGE.match(line):
                with Qmp(socket, _QMP_TIMEOUT) as monitor:
                    size = machine.memory_mb << 20
                    views.append(_look(monitor, match[1], plane, size, bits, seed))

        devices = (*machine.devices, "-qmp", f"unix:{socket},server=on,wait=off")
        result = experiment.start(
            replace(_legible(machine), devices=devices),
            ["/bin/planes", f"{seed:x}", str(planes.keyids(bits)[-1])],
            name="mktme-planes", timeout=_TIMEOUT, progress=progress,
            title="Looking into the memory of each KeyID", watch=watch,
        )  # fmt: skip
    if tuple(view.stage for view in views) != STAGES:
        raise GuestError("the guest did not get to be looked at: " + result.describe())
    problems = [problem for view in views for problem in view.problems()]
    problems += [f"kernel: {line}" for line in result.complaints]
    return Outcome("secrets, from outside", tuple(problems), result), tuple(views)


def render(views: Sequence[View]) -> list[str]:
    """For people: whole pages and single words of each secret in each plane."""
    rows = []
    for view in views:
        for keyid, places in enumerate(view.found):
            whole = [sum(map(bool, place.frames)) for place in places]
            stray = [sum(place.stray.values()) for place in places]
            cells = (f"{one} and {other}" for one, other in zip(whole, stray, strict=True))
            rows.append((f"KeyID {keyid}", view.stage, *cells))
    head = ["secret of", "when", *(f"plane {plane}" for plane in range(len(views[0].found)))]
    return [
        *experiment.table(head, rows, texts=2),
        f"(whole pages of {PAGES}, and words in other places)",
    ]
