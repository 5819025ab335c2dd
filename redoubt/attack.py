# SPDX-License-Identifier: GPL-2.0-only
"""Attacking a kernel: the same exploits with protection off and on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from redoubt import guest
from redoubt.boot import Machine, Result, boot
from redoubt.errors import GuestError
from redoubt.progress import Progress
from redoubt.targets import Variant

SUCCEEDED, BLOCKED, ERROR = "succeeded", "blocked", "error"

_LINE = re.compile(
    r"^@attack: (?P<name>\S+) outcome=(?P<outcome>succeeded|failed) prize=(?P<prize>.*) "
    r"attacker=(?P<how>exit|signal) (?P<number>\d+) alive=(?P<alive>yes|no)$"
)
_VIOLATION = re.compile(r"kpkeys: violation: .*")
_OUT_OF_REACH = re.compile(r"^@attack: (?P<name>\S+) out of reach: (?P<why>.+)$")
# EXIT_OUT_OF_REACH in guest/attacks/common.h.
_EXIT_OUT_OF_REACH = "4"
# /proc/<pid>/comm holds that much of a program's name.
_COMM = 15
# Seconds for a boot with all attacks; the emulated host needs about 15.
_TIMEOUT = 300.0
# Boots until the console is legible; seen once on a busy machine that it is not.
_BOOTS = 3
# What the guest says of each goes to the kernel's log, which drops more than ten in five seconds.
_LOG_ALL = ("printk.devkmsg=on",)


@dataclass(frozen=True)
class Attack:
    """An attack the guest knows, and whether the protection is meant to stop it."""

    name: str
    in_scope: bool
    description: str


@dataclass(frozen=True)
class Outcome:
    """What came of an attack in one variant; `detail` is the evidence."""

    target: str
    attack: str
    variant: str
    outcome: str
    detail: str

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return asdict(self)


def parse_list(lines: Sequence[str]) -> list[Attack]:
    """The attacks in the output of `attack --list`."""
    found = []
    for line in lines:
        words = line.split(maxsplit=2)
        if len(words) == 3 and words[1] in ("in-scope", "out-of-scope"):
            found.append(Attack(words[0], words[1] == "in-scope", words[2]))
    return found


def judge(target: str, variant: str, attack: str, lines: Sequence[str]) -> Outcome:
    """What the console says of one attack; `lines` are those up to and including its own.

    Blocked means: the prize is intact and the machine went on, and either the attacker was killed
    and the kernel reported a violation by this very program, or the program says that the memory it
    has to write to is out of its reach. Anything between that and success is an error.
    """

    def outcome(what: str, detail: str) -> Outcome:
        return Outcome(target, attack, variant, what, detail)

    match = next((m for m in map(_LINE.match, lines) if m and m["name"] == attack), None)
    if not match:
        return outcome(ERROR, "the guest did not say what came of it")
    if match["alive"] != "yes":
        return outcome(ERROR, "the machine did not work any more afterwards")
    if match["outcome"] == "succeeded":
        return outcome(SUCCEEDED, match["prize"])
    if match["prize"] != "intact":
        return outcome(ERROR, f"failed, but its prize is not intact: {match['prize']}")
    ended = f"{match['how']} {match['number']}"
    if match["how"] == "exit" and match["number"] == _EXIT_OUT_OF_REACH:
        for said in filter(None, map(_OUT_OF_REACH.match, lines)):
            if said["name"] == attack:
                return outcome(BLOCKED, said["why"])
    if match["how"] != "signal":
        return outcome(ERROR, f"failed, but was not stopped by the kernel ({ended})")
    violations = [
        found[0]
        for line in lines
        if (found := _VIOLATION.search(line)) and f", {attack[:_COMM]}[" in found[0]
    ]
    if not violations:
        return outcome(ERROR, f"died ({ended}) without a violation")
    return outcome(BLOCKED, violations[0])


def _split(lines: Sequence[str]) -> dict[str, list[str]]:
    """The console cut into pieces that end with the line of an attack."""
    pieces: dict[str, list[str]] = {}
    piece: list[str] = []
    for line in lines:
        piece.append(line)
        if match := _LINE.match(line):
            pieces[match["name"]] = piece
            piece = []
    return pieces


def _garbled(attacks: Sequence[Attack], result: Result) -> bool:
    """Did all attacks run, and the console does not have the line of one?

    Kernel and guest share a serial port, and the kernel prints an oops while others go on.
    """
    told = {match["name"] for match in map(_LINE.match, result.console) if match}
    good = result.outcome == "finished" and result.status == 0
    return good and any(attack.name not in told for attack in attacks)


def run(
    machine: Machine, variant: Variant, progress: Progress
) -> tuple[list[Attack], list[Outcome], Result]:
    """Run all attacks that the guest has in one boot of a variant, or again if it is illegible.

    Raises RedoubtError if the guest does not say which attacks it has.
    """
    target = machine.build.target.name
    with progress.step(f"Attacking {target} ({variant.name})"):
        for _ in range(_BOOTS):
            result = boot(
                replace(machine, args=(*machine.args, *_LOG_ALL)),
                guest.sequence([["/bin/attack", "--list"], ["/bin/attack", "--all"]]),
                timeout=_TIMEOUT,
                name=f"attack-{target}-{variant.name}",
                progress=progress,
            )
            attacks = parse_list(result.console)
            if not _garbled(attacks, result):
                break
            progress.detail("a message of the kernel was in the middle of a line, once more")
    if not any(attack.in_scope for attack in attacks):
        raise GuestError("the guest does not say which attacks it has: " + result.describe())
    pieces = _split(result.console)
    outcomes = [
        judge(target, variant.name, attack.name, pieces.get(attack.name, [])) for attack in attacks
    ]
    if result.outcome != "finished":
        # The machine did not outlive the last of them.
        outcomes[-1] = replace(outcomes[-1], outcome=ERROR, detail=f"afterwards: {result.outcome}")
    return attacks, outcomes, result


def as_expected(attack: Attack, outcome: Outcome, variant: Variant) -> bool:
    """Did the attack end as the protection promises?

    Without protection every attack succeeds, or the demonstration shows nothing. With it those in
    scope are blocked and the others still succeed: when one of them stops, the docs are wrong.
    """
    expected = BLOCKED if variant.protected and attack.in_scope else SUCCEEDED
    return outcome.outcome == expected
