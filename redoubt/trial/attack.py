# SPDX-License-Identifier: GPL-2.0-only
"""Attacking a kernel: the same exploits with protection off and on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from redoubt.core.errors import GuestError
from redoubt.core.progress import Progress
from redoubt.machine import guest
from redoubt.machine.boot import Machine, Result, boot
from redoubt.targets import Variant

# The flavour of a kernel in which nothing counts or asserts.
FLAVOUR = "plain"
SUCCEEDED, BLOCKED, ERROR, ABSENT = "succeeded", "blocked", "error", "absent"

_LINE = re.compile(
    r"^@attack: (?P<name>\S+) outcome=(?P<outcome>succeeded|failed) prize=(?P<prize>.*) "
    r"attacker=(?P<how>exit|signal|timeout) (?P<number>\d+) alive=(?P<alive>yes|no)$"
)
_VIOLATION = re.compile(r"kpkeys: violation: .*")
_ABSENT = re.compile(r"^@attack: (?P<name>\S+) not on this target: (?P<why>.+)$")
_OUT_OF_REACH = re.compile(r"^@attack: (?P<name>\S+) out of reach: (?P<why>.+)$")
# EXIT_OUT_OF_REACH in guest/attack/attacks/common.h.
_EXIT_OUT_OF_REACH = "4"
# /proc/<pid>/comm holds that much of a program's name.
_COMM = 15
# Seconds for a boot with all attacks; the emulated host needs about 15. And for each further one.
_TIMEOUT = 300.0
_TIMEOUT_MORE = 20.0
# More attacks than there are.
_MOST = 20
# Boots until the console is legible; seen once on a busy machine that it is not.
_BOOTS = 3
# What the guest says of each goes to the kernel's log, which drops more than ten in five seconds.
_LOG_ALL = ("printk.devkmsg=on",)
# Registers and stacks of some hundred tasks that die would take minutes on a serial port. What the
# kernel and the guest say of each is of a higher level.
_LOG_LITTLE = ("loglevel=3",)


@dataclass(frozen=True)
class Attack:
    """An attack the guest knows, and whether the protection is meant to stop it."""

    name: str
    in_scope: bool
    description: str


@dataclass(frozen=True)
class Outcome:
    """What came of an attack in one variant; `detail` is the evidence.

    `counts` are the runs by what came of them. `flavour` is that of the kernel, or empty.
    """

    target: str
    attack: str
    variant: str
    outcome: str
    detail: str
    flavour: str = ""
    counts: dict[str, int] = field(default_factory=dict)

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
    has to write to is out of its reach. Absent means: the guest says that the kernel lacks what the
    attack is about, which proves nothing. Anything else is an error.
    """

    def outcome(what: str, detail: str) -> Outcome:
        return Outcome(target, attack, variant, what, detail)

    for none in filter(None, map(_ABSENT.match, lines)):
        if none["name"] == attack:
            return outcome(ABSENT, none["why"])
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


def merge(outcomes: Sequence[Outcome]) -> Outcome:
    """What came of several runs of an attack: what came of each, or an error if they differ."""
    counts = dict(Counter(one.outcome for one in outcomes).most_common())
    if len(counts) == 1:
        return replace(outcomes[0], counts=counts)
    told = ", ".join(f"{outcome} {count} times" for outcome, count in counts.items())
    rare = list(counts)[-1]
    odd = next(one for one in outcomes if one.outcome == rare)
    return replace(odd, outcome=ERROR, detail=f"{told}: {odd.detail}", counts=counts)


def _told(line: str) -> str | None:
    """The attack of which this line says what came of it, if it is such a line."""
    match = _LINE.match(line) or _ABSENT.match(line)
    return match["name"] if match else None


def _split(lines: Sequence[str]) -> dict[str, list[list[str]]]:
    """The console cut into pieces that end with the line of an attack: one for each of its runs."""
    pieces: dict[str, list[list[str]]] = {}
    piece: list[str] = []
    for line in lines:
        piece.append(line)
        if name := _told(line):
            pieces.setdefault(name, []).append(piece)
            piece = []
    return pieces


def _garbled(attacks: Sequence[Attack], times: int, result: Result) -> bool:
    """Did all attacks run, and the console does not have the line of one?

    Kernel and guest share a serial port, and the kernel prints an oops while others go on.
    """
    told = Counter(filter(None, map(_told, result.console)))
    good = result.outcome == "finished" and result.status == 0
    return good and any(told[attack.name] < times for attack in attacks)


def _chosen(attacks: Sequence[Attack], only: Sequence[str]) -> list[Attack]:
    known = {attack.name for attack in attacks}
    for name in only:
        if known and name not in known:
            raise GuestError(f"there is no attack '{name}'", "attacks: " + ", ".join(sorted(known)))
    return [attack for attack in attacks if not only or attack.name in only]


def run(
    machine: Machine,
    variant: Variant,
    progress: Progress,
    *,
    flavour: str = "",
    times: int = 1,
    only: Sequence[str] = (),
) -> tuple[list[Attack], list[Outcome], Result]:
    """Run all attacks that the guest has in one boot of a variant, or again if it is illegible.

    Each as many times, one after the other; or only those of some names.
    Raises RedoubtError if the guest does not say which attacks it has, or has none of that name.
    """
    target = machine.build.target.name
    name = "-".join(filter(None, ("attack", target, flavour, variant.name)))
    repeat = ("--repeat", str(times)) if times > 1 else ()
    title = f"Attacking {target} ({', '.join(filter(None, (flavour, variant.name)))})"
    with progress.step(title):
        for _ in range(_BOOTS):
            result = boot(
                replace(machine, args=(*machine.args, *_LOG_ALL, *_LOG_LITTLE)),
                guest.sequence(
                    [[guest.ATTACK, "--list"], [guest.ATTACK, *repeat, *(only or ("--all",))]]
                ),
                timeout=_TIMEOUT + _TIMEOUT_MORE * (times - 1) * (len(only) or _MOST),
                name=name,
                progress=progress,
            )
            attacks = _chosen(parse_list(result.console), only)
            if not _garbled(attacks, times, result):
                break
            progress.detail("a message of the kernel was in the middle of a line, once more")
    if not any(attack.in_scope or attack.name in only for attack in attacks):
        raise GuestError("the guest does not say which attacks it has: " + result.describe())
    pieces = _split(result.console)
    outcomes = []
    for attack in attacks:
        told = pieces.get(attack.name, [])
        # Of a run that the guest says nothing of, nothing is known.
        told += [[] for _ in range(times - len(told))]
        runs = [judge(target, variant.name, attack.name, piece) for piece in told]
        outcomes.append(replace(merge(runs), flavour=flavour))
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
