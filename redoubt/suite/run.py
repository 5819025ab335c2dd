# SPDX-License-Identifier: GPL-2.0-only
"""What all steps share: an item of the run, and what the run knows of a target."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redoubt.core.progress import Progress
from redoubt.machine import host, kernels
from redoubt.targets import Target, Variant, get_variant
from redoubt.trial.case import FAILED, PASSED, SKIPPED, Case
from redoubt.trial.experiment import Outcome

# Seconds: ten times what it takes, as others may use this machine as well.
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Item:
    """One suite of the run. `variant` is "-" where none was booted; `detail` is for people.

    `target` is "-" for what is not about one target, as the tests of the tool. `cases` are the
    single tests, where those are known. It took `seconds`.
    """

    name: str
    variant: str
    passed: int
    failed: int
    skipped: int
    detail: str = ""
    target: str = "-"
    cases: tuple[Case, ...] = ()
    seconds: float = 0

    @property
    def outcome(self) -> str:
        """PASSED, FAILED or SKIPPED: of all the tests that it counts."""
        return FAILED if self.failed else PASSED if self.passed else SKIPPED


class Skipped(Exception):
    """A step cannot run on this machine: `item` says so."""

    def __init__(self, item: Item) -> None:
        super().__init__(item.detail)
        self.item = item


@dataclass(frozen=True)
class Run:
    """What a test run needs to know of one target.

    A `quick` one has a few minutes, for a change that is being made: steps do what shows most.
    `patience_s` is how many seconds a boot may take before it hangs: by itself or with KUnit, not
    with stress or attacks.
    """

    target: Target
    host_choice: str
    long: bool
    progress: Progress
    patience_s: float = PATIENCE_S
    quick: bool = False

    def variant(self, name: str) -> Variant:
        """A variant of the target."""
        return get_variant(self.target, name)

    def enforcing(self, name: str) -> str:
        """The host that enforces protection; raises Skipped, for what has this name, without."""
        if problem := host.lacking(self.target, self.host_choice):
            raise Skipped(Item(name, "on", 0, 0, 1, problem.message))
        return host.pick(self.target, self.host_choice)

    def workbench(self, name: str, flavour: str = "") -> kernels.Workbench:
        """The built kernel, to boot on the host that enforces; raises Skipped as `enforcing`."""
        chosen = self.enforcing(name)
        on = self.variant("on")
        return kernels.workbench(self.target, on, chosen, self.progress, flavour=flavour)


def verdict(name: str, variant: str, good: bool, *details: str) -> Item:
    """An item that is one test; the lines are for a failure."""
    return Item(name, variant, int(good), int(not good), 0, "" if good else "\n".join(details))


def outcome_item(name: str, outcome: Outcome) -> Item:
    """The item of what a machine with protection went through."""
    return verdict(name, "on", outcome.ok, *outcome.problems, outcome.boot.describe())


def timed(items: Iterable[Item]) -> Iterator[Item]:
    """The items, each with the seconds that it took to come."""
    begun = time.monotonic()
    for item in items:
        now = time.monotonic()
        yield replace(item, seconds=now - begun)
        begun = now


def grouped(first: str, items: Sequence[Item]) -> dict[tuple[str, str], list[Item]]:
    """The items by target and variant; what is not about one target stands with the `first`."""
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        target = first if item.target == "-" else item.target
        groups.setdefault((target, item.variant), []).append(item)
    return groups


def as_json(first: str, items: Sequence[Item]) -> list[dict[str, Any]]:
    """The stable form, see docs/json.md: one entry per target and variant, as `grouped`."""
    shown = ("name", "passed", "failed", "skipped", "detail")
    return [
        {
            "target": target,
            "variant": variant,
            "suites": [{name: getattr(item, name) for name in shown} for item in group],
        }
        for (target, variant), group in grouped(first, items).items()
    ]
