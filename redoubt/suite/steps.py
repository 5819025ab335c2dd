# SPDX-License-Identifier: GPL-2.0-only
"""The steps in the order of what it costs to find out, and how they are run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from redoubt.core import lanes
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.progress import Progress
from redoubt.ship.stick import firmware
from redoubt.suite import boots, code, flavours, isolation, linear_map, memory_keys, real, tool
from redoubt.suite.pace import Left, Pace
from redoubt.suite.run import Item, Run, Skipped, timed
from redoubt.trial.asi import asi
from redoubt.trial.case import FAILED
from redoubt.trial.oracle import oracle

# Steps side by side. Kernels are built one at a time, with all CPUs; most boots keep one busy.
AT_ONCE = max(1, min(2, os.cpu_count() or 1))


@dataclass(frozen=True)
class Step:
    """A part of the run, about one target or about none ("-").

    Runs have it unless it is `slow`, and quick ones only if it is `quick`.
    """

    name: str
    target: str
    items: partial[Iterator[Item]]
    slow: bool = False
    quick: bool = False

    @property
    def about(self) -> str:
        """A sentence about the work of the step."""
        text = self.items.func.__doc__ or ""
        return " ".join(text.partition("\n\n")[0].split())

    def __str__(self) -> str:
        return f"{self.target} {self.name}"


def _steps(runs: Sequence[Run]) -> Iterator[Step]:
    """Everything, what is about no target once."""
    one = runs[0]

    # That kernel is one of these with an option more: what is not about that is not done again.
    encrypted = [run for run in runs if run.target.keyid_bits]
    plain = [run for run in runs if run not in encrypted]
    mapped = [run for run in plain if run.target.observers]
    seen = [run for run in plain if oracle.FLAVOUR in run.target.flavours]
    isolated = [run for run in plain if asi.possible(run.target)]
    started = [run for run in plain if firmware.possible(run.target)]
    # One is enough, and not UML, which may be emulated twice.
    briefly = ([run for run in plain if run.target.emulator] or plain)[:1]

    def each(
        name: str,
        step: Callable[[Run], Iterator[Item]],
        among: Sequence[Run] = plain,
        *,
        slow: bool = False,
        quick: bool = False,
    ) -> Iterator[Step]:
        for run in among:
            yield Step(name, run.target.name, partial(step, run), slow, quick)

    yield Step("tool", "-", partial(tool.unit, one), quick=True)
    yield Step("results", "-", partial(code.results_judged, one), quick=True)
    yield Step("lint", "-", partial(code.linted, one))
    yield Step("kernel documentation", "-", partial(code.documented, one), slow=True)
    yield from each("boots", boots.booted, quick=True)
    yield from each("oracle", isolation.from_outside, seen)
    yield from each("address space isolation", isolation.from_inside, isolated)
    yield from each("stress-ng, plain kernel", partial(flavours.stress_ng, flavour=""), briefly)
    yield from each("memory under several keys", memory_keys.encryption, encrypted)
    yield Step("tool, with guests", "-", partial(tool.guests, one))
    yield from each("audit", code.audited, quick=True)
    yield Step("series", "-", partial(code.series_checked, plain or runs))
    yield from each("offcheck", code.off_checked, slow=True)
    yield from each("plain flavour", flavours.plain, slow=True)
    yield from each("each feature alone", flavours.alone, slow=True)
    yield from each("debug flavour", flavours.debug, slow=True)
    yield from each("distro flavour", flavours.distribution, slow=True)
    yield from each(
        "oracle flavour", partial(isolation.from_outside, flavour=oracle.FLAVOUR), seen, slow=True
    )
    yield from each("selftests", flavours.kernel_selftests, slow=True)
    yield from each("user keys", flavours.user_keys_trusted, slow=True)
    yield from each("stress-ng", flavours.stress_ng, slow=True)
    # It takes a kernel of its own, with drivers.
    yield from each("real machine", real.booted, started, slow=True)
    yield from each("linear map", linear_map.compared, mapped, slow=True)
    yield from each("linear map, flavours", linear_map.flavours, mapped, slow=True)


def chosen(runs: Sequence[Run], only: Collection[str]) -> list[Step]:
    """The steps of these names, slow or not; without any, all that the runs ask for."""
    steps = list(_steps(runs))
    known = list(dict.fromkeys(step.name for step in steps))
    for name in only:
        if name not in known:
            raise UsageError(
                f"there is no step {name!r} in these tests", f"steps: {'; '.join(known)}"
            )
    if only:
        return [step for step in steps if step.name in only]
    if runs[0].quick:
        return [step for step in steps if step.quick]
    return [step for step in steps if runs[0].long or not step.slow]


def done(step: Step) -> Iterator[Item]:
    """The items of a step. One that cannot run at all is a failure with the reason."""
    for item in timed(_items(step)):
        yield replace(item, target=step.target)


def _items(step: Step) -> Iterator[Item]:
    try:
        yield from step.items()
    except Skipped as skipped:
        yield skipped.item
    except RedoubtError as error:
        hint = f"\n{error.hint}" if error.hint else ""
        yield Item(step.name, "-", 0, 1, 0, error.message + hint)


def run_all(
    runs: Sequence[Run],
    show: Callable[[Item], None],
    only: Collection[str] = (),
    tell: Callable[[Left], None] = lambda left: None,
) -> list[Item]:
    """Run everything, for one run or for several that differ by their targets.

    Or the steps of some names only, slow ones even if the runs are not long. `show` gets each item
    when it is done, and `tell` how long the rest may take, if that is known. Steps run side by side
    where there are CPUs for it, and the items come back in the order of the steps.

    Raises UsageError if there is no step of such a name.
    """
    steps = chosen(runs, only)
    items: list[list[Item]] = [[] for _ in steps]
    names = [f"{step}, quick" if runs[0].quick else str(step) for step in steps]
    pace = Pace(names, AT_ONCE)

    def job(number: int, progress: Progress) -> Iterator[Item | None]:
        own = [replace(run, progress=progress) for run in runs]
        yield from done(chosen(own, only)[number])
        yield None

    def add(number: int, item: Item | None) -> None:
        step = names[number]
        if item:
            items[number].append(item)
            show(item)
            pace.spend(step, item.seconds, good=item.outcome != FAILED)
        else:
            pace.end(step)
        if left := pace.left():
            tell(left)

    if left := pace.left():
        tell(left)

    jobs = [partial(job, number) for number in range(len(steps))]
    for number in lanes.side_by_side(jobs, AT_ONCE, runs[0].progress, add):
        step = steps[number]
        add(number, Item(step.name, "-", 0, 1, 0, "it ended before it was through", step.target))
    pace.keep()
    return [item for of_step in items for item in of_step]
