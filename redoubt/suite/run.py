# SPDX-License-Identifier: GPL-2.0-only
"""What all steps share: an item of the run, and what the run knows of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from redoubt.core.progress import Progress
from redoubt.machine import host, kernels
from redoubt.targets import Target, Variant, get_variant
from redoubt.trial.experiment import Outcome

# Seconds: ten times what it takes, as others may use this machine as well.
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Item:
    """One suite of the run. `variant` is "-" where none was booted; `detail` is for people.

    `target` is "-" for what is not about one target, as the tests of the tool.
    """

    name: str
    variant: str
    passed: int
    failed: int
    skipped: int
    detail: str = ""
    target: str = "-"


class Skipped(Exception):
    """A step cannot run on this machine: `item` says so."""

    def __init__(self, item: Item) -> None:
        super().__init__(item.detail)
        self.item = item


@dataclass(frozen=True)
class Run:
    """What a test run needs to know of one target.

    `patience_s` is how many seconds a boot may take before it hangs: by itself or with KUnit, not
    with stress or attacks.
    """

    target: Target
    host_choice: str
    long: bool
    progress: Progress
    patience_s: float = PATIENCE_S

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


def as_json(first: str, items: Sequence[Item]) -> list[dict[str, Any]]:
    """The stable form, see docs/json.md: one entry per target and variant.

    What is not about one target stands with the `first`.
    """
    result: dict[tuple[str, str], dict[str, Any]] = {}
    for item in items:
        suite = asdict(item)
        of = {"target": suite.pop("target"), "variant": suite.pop("variant")}
        if of["target"] == "-":
            of["target"] = first
        result.setdefault(tuple(of.values()), {**of, "suites": []})["suites"].append(suite)
    return list(result.values())
