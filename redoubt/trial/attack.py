# SPDX-License-Identifier: GPL-2.0-only
"""Attacking a kernel: the same exploits with protection off and on."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from redoubt.core.errors import GuestError
from redoubt.core.progress import Progress
from redoubt.machine import guest
from redoubt.machine.boot import Machine, Result
from redoubt.targets import Variant
from redoubt.trial.experiment import matches, start

# The flavour of a kernel in which nothing counts or asserts.
FLAVOUR = "plain"
SUCCEEDED, BLOCKED, ERROR, ABSENT = "succeeded", "blocked", "error", "absent"

_LINE = re.compile(
    r"^@attack: (?P<name>\S+) outcome=(?P<outcome>succeeded|failed) prize=(?P<prize>.*) "
    r"attacker=(?P<how>exit|signal|timeout) (?P<number>\d+) alive=(?P<alive>yes|no)$"
)
_LISTED = re.compile(r"\s*(\S+)\s+(in-scope|out-of-scope)\s+(.*\S)")
_VIOLATION = re.compile(r"kpkeys: violation: .*")
_ABSENT = re.compile(r"^@attack: (?P<name>\S+) not on this target: (?P<why>.+)$")
_OUT_OF_REACH = re.compile(r"^@attack: (?P<name>\S+) out of reach: (?P<why>.+)$")
# EXIT_OUT_OF_REACH in guest/attack/attacks/common.h.
_EXIT_OUT_OF_REACH = "exit 4"
# /proc/<pid>/comm holds that much of a program's name.
_COMM = 15
# Seconds for a boot with all attacks; the emulated host needs about 15. And for each further one.
_TIMEOUT = 1500.0
_TIMEOUT_MORE = 20.0
# More attacks than there are.
_MOST = 20
# Options that stop an attack on something else than page tables.
_STATE, _CRED = ("CONFIG_KPKEYS_HARDENED_STATE",), ("CONFIG_KPKEYS_HARDENED_CRED",)
_STOPPED_BY = {
    "core-pattern": _STATE,
    "pipe-page": _STATE,
    "lsm-off": _STATE,
    "cred": _CRED,
    "task-cred": _CRED,
    "dirty-cred": _CRED,
    "forged-current": _CRED,
    "task-mm": _CRED,
    "saved-reg": (*_CRED, "CONFIG_KPKEYS_HARDENED_REGS"),
    "key-read": ("CONFIG_KPKEYS_HARDENED_SECRET",),
    "ptrauth-key": ("CONFIG_KPKEYS_HARDENED_PTRAUTH",),
}
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
    return [Attack(match[1], match[2] == "in-scope", match[3]) for match in matches(_LISTED, lines)]


def judge(target: str, variant: str, attack: str, lines: Sequence[str]) -> Outcome:
    """What the console says of one attack; `lines` are those up to and including its own.

    Blocked means: the prize is intact and the machine went on, and either the attacker was killed
    and the kernel reported a violation by this very program, or the program says that the memory it
    has to write to is out of its reach. Absent means: the guest says that the kernel lacks what the
    attack is about, which proves nothing. Anything else is an error.
    """

    def said(pattern: re.Pattern[str]) -> re.Match[str] | None:
        return next((one for one in matches(pattern, lines) if one["name"] == attack), None)

    ended = said(_LINE)
    how = f"{ended['how']} {ended['number']}" if ended else ""
    out_of_reach = said(_OUT_OF_REACH) if how == _EXIT_OUT_OF_REACH else None
    found = map(_VIOLATION.search, lines)
    violations = [one[0] for one in found if one and f", {attack[:_COMM]}[" in one[0]]
    if absent := said(_ABSENT):
        outcome, detail = ABSENT, absent["why"]
    elif not ended:
        outcome, detail = ERROR, "the guest did not say what came of it"
    elif ended["alive"] != "yes":
        outcome, detail = ERROR, "the machine did not work any more afterwards"
    elif ended["outcome"] == "succeeded":
        outcome, detail = SUCCEEDED, ended["prize"]
    elif ended["prize"] != "intact":
        outcome, detail = ERROR, f"failed, but its prize is not intact: {ended['prize']}"
    elif out_of_reach:
        outcome, detail = BLOCKED, out_of_reach["why"]
    elif ended["how"] != "signal":
        said_last = [line for line in lines if line.startswith(f"{attack[:_COMM]}: ")][-1:]
        outcome, detail = (
            ERROR,
            "; ".join((f"failed, but was not stopped by the kernel ({how})", *said_last)),
        )
    elif not violations:
        outcome, detail = ERROR, f"died ({how}) without a violation"
    else:
        outcome, detail = BLOCKED, violations[0]
    return Outcome(target, attack, variant, outcome, detail)


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


def pieces(lines: Sequence[str]) -> dict[str, list[list[str]]]:
    """The console cut into pieces that end with the line of an attack: one for each of its runs."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    begin = 0
    for number, line in enumerate(lines, 1):
        if name := _told(line):
            found[name].append(list(lines[begin:number]))
            begin = number
    return found


def _gives_reason(piece: Sequence[str]) -> bool:
    """Did the attack say what is out of its reach, if it ended by that?"""
    ended = _LINE.match(piece[-1])
    if not ended or f"{ended['how']} {ended['number']}" != _EXIT_OUT_OF_REACH:
        return True
    return any(said["name"] == ended["name"] for said in matches(_OUT_OF_REACH, piece))


def _garbled(attacks: Sequence[Attack], times: int, result: Result) -> bool:
    """Did all attacks run, and the console does not have a line of one?

    Kernel and guest share a serial port, and the kernel prints an oops while others go on.
    """
    if result.outcome != "finished" or result.status:
        return False
    runs = pieces(result.console)
    return any(len(runs[attack.name]) < times for attack in attacks) or not all(
        map(_gives_reason, chain.from_iterable(runs.values()))
    )


def _chosen(attacks: Sequence[Attack], only: Sequence[str]) -> list[Attack]:
    known = {attack.name for attack in attacks}
    if known and (unknown := [name for name in only if name not in known]):
        raise GuestError(
            f"there is no attack '{unknown[0]}'", "attacks: " + ", ".join(sorted(known))
        )
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
    repeat = ("--repeat", str(times)) if times > 1 else ()
    title = f"Attacking {target} ({', '.join(filter(None, (flavour, variant.name)))})"
    with progress.step(title):
        for _ in range(_BOOTS):
            result = start(
                replace(machine, args=(*machine.args, *_LOG_ALL, *_LOG_LITTLE)),
                [guest.ATTACK, "--list"], [guest.ATTACK, *repeat, *(only or ("--all",))],
                name="-".join(filter(None, ("attack", target, flavour, variant.name))),
                timeout=_TIMEOUT + _TIMEOUT_MORE * (times - 1) * (len(only) or _MOST),
                progress=progress,
            )  # fmt: skip
            attacks = _chosen(parse_list(result.console), only)
            if not _garbled(attacks, times, result):
                break
            progress.detail("a message of the kernel was in the middle of a line, once more")
    if not any(attack.in_scope or attack.name in only for attack in attacks):
        raise GuestError("the guest does not say which attacks it has: " + result.describe())
    found = pieces(result.console)
    outcomes = []
    for attack in attacks:
        told = found[attack.name]
        # Of a run that the guest says nothing of, nothing is known.
        told += [[] for _ in range(times - len(told))]
        runs = [judge(target, variant.name, attack.name, piece) for piece in told]
        outcomes.append(replace(merge(runs), flavour=flavour))
    if result.outcome != "finished":
        # The machine did not outlive the last of them.
        outcomes[-1] = replace(outcomes[-1], outcome=ERROR, detail=f"afterwards: {result.outcome}")
    return attacks, outcomes, result


def as_expected(
    attack: Attack, outcome: Outcome, variant: Variant, options: Mapping[str, str]
) -> bool:
    """Did the attack end as the protection promises that a kernel of these options has?

    Without protection every attack succeeds, or the demonstration shows nothing. With it those in
    scope are blocked and the others still succeed: when one of them stops, the docs are wrong.
    """
    lacks = any(options.get(name) == "n" for name in _STOPPED_BY.get(attack.name, ()))
    stopped = variant.protected and attack.in_scope and not lacks
    expected = BLOCKED if stopped else SUCCEEDED
    return outcome.outcome == expected
