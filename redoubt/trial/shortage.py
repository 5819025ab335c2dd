# SPDX-License-Identifier: GPL-2.0-only
"""Stress while allocations fail and memory cgroups charge page tables: is any page lost?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from redoubt.core.progress import Progress
from redoubt.machine.boot import Machine, Result
from redoubt.targets import Variant
from redoubt.trial import check, experiment
from redoubt.trial.experiment import Outcome

# The failures of each round of guest/stress/faults.c: only blocks, any page, or any slab object.
ROUNDS = ("blocks", "pages", "slab")
# Nobody but the pool asks for blocks.
_POOL_ROUNDS = ("blocks",)
# Of the pool when nothing is in use, beyond what it had after boot.
EXTRA_BLOCKS = 2
RESERVE = 2
_SMALL_BLOCK = 4
_BLOCK_PAGES = 512
_PAGE_KB = 4
_JUDGED = {
    "blocks", "small_pages", "free", "cached", "reserve", "own", "other", "stuck", "bad_takes",
    "bad_frees", "refused", "blocks_added", "blocks_returned", "small_added", "small_returned",
}  # fmt: skip

# Where a page of the pool can be, besides in a page table.
_COUNTED = ("free", "cached", "reserve", "own", "other")

_TABLES = re.compile(r"^PageTables:\s+(\d+) kB$")
_NODE = re.compile(r"^node \d+ (blocks \d+ empty \d+ small_pages \d+ free \d+) clean \d+$")
_VALUE = re.compile(r"^([a-z_]+) (-?\d+)$")
_SETTLED = re.compile(r"^@settle: rounds=\d+$")
_STRESS = re.compile(r"^@stress: ops=(\d+) refused=(\d+) errors=(\d+)(?: left-out=\S+)?$")
_CHECKS = re.compile(r"^@faults: checks tried=(\d+) done=(\d+)$")
_ROUND = re.compile(r"^@faults: round=(\w+) injected=(\d+) status=(\d+)$")
_CGROUP = re.compile(r"^@cgroup: failures=(\d+)$")
# Whoever is refused memory may say so with a call trace: no complaint, if nothing else is said.
_TRACE = re.compile(r"Call Trace:")
# Seconds beyond the stress itself: booting under emulation, settling, and walking all tables.
_MARGIN = 900.0


@dataclass(frozen=True)
class Pool:
    """Numbers of a machine at rest: its page tables, and the pool's own, as in kpkeys/pool.

    `tables` is in pages. `values` is empty if there is no pool.
    """

    tables: int
    values: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    @property
    def whole(self) -> bool:
        """True if nothing is missing of what is judged."""
        return self.values.keys() >= _JUDGED

    @property
    def held(self) -> int:
        """Pages that the pool owns and that are nothing: not to be had, no table, not its data.

        A constant, as Linux does not count all tables of the boot; a lost page adds to it forever.
        """
        owned = self["blocks"] * _BLOCK_PAGES + self["small_pages"]
        return owned - sum(self[name] for name in _COUNTED) - self.tables


@dataclass(frozen=True)
class Round:
    """One round of stress: what failed, what came of it, and the pool at rest afterwards."""

    name: str
    injected: int
    status: int
    operations: int
    refused: int
    errors: int
    checks: int
    after: Pool


def rounds(protected: bool) -> tuple[str, ...]:
    """The rounds that make sense with and without protection."""
    return tuple(name for name in ROUNDS if protected or name not in _POOL_ROUNDS)


def judge(result: Result, protected: bool) -> Iterator[str]:
    """Everything that is lost, wrong or left untested in a boot with scarce memory, in words."""
    lines = result.console
    yield from experiment.bad_end(result, complaints(result))
    failures = [int(match[1]) for match in experiment.matches(_CGROUP, lines)]
    if failures[:1] != [0]:
        yield f"memory cgroups: {failures[0] if failures else None} failures"
    done = list(parse_rounds(lines))
    for name in rounds(protected):
        if name not in {one.name for one in done}:
            yield f"no round {name}"
    for one in done:
        yield from problems_of_round(one, protected)
    if not protected:
        return
    pools = list(parse_pools(lines))
    if len(pools) < 2:
        yield "the pool was not seen at rest"
        return
    # After boot, while and after each round, and at the end.
    expected, walks = 2 + 2 * len(ROUNDS), check.parse_walks(lines)
    if len(walks) < expected:
        yield f"{len(walks)} walks of the checker, expected {expected}"
    yield from (f"not clean: {walk}" for walk in walks if not walk.clean)
    states = [*((one.name, one.after) for one in done), ("memory cgroups", pools[-1])]
    for what, pool in states:
        yield from (f"after {what}: {text}" for text in problems_of_pool(pools[0], pool))
    # Steps have to do to the pool what they are for.
    proofs = {"blocks": "small_added", "pages": "failed_allocs", "memory cgroups": "failed_allocs"}
    for (_, last), (what, after) in pairwise([("boot", pools[0]), *states]):
        event = proofs.get(what)
        if event and after[event] <= last[event]:
            yield f"{what}: {event} stayed {last[event]}"


def problems_of_round(one: Round, protected: bool) -> Iterator[str]:
    """What is wrong with a round of failing allocations, or was not tested by it."""
    if one.status or one.errors or not one.operations:
        yield f"round {one.name}: stress ended with {one.status}, {one.errors} errors"
    if not one.injected:
        yield f"round {one.name}: no faults"
    if protected and not one.checks:
        yield f"round {one.name}: the checker never ran meanwhile"


def problems_of_pool(before: Pool, now: Pool, extra_blocks: int = EXTRA_BLOCKS) -> Iterator[str]:
    """What a pool at rest has not given back, or has lost, since it was seen before.

    `extra_blocks` is how many blocks it may have more.
    """
    if now["blocks"] > before["blocks"] + extra_blocks:
        yield f"{now['blocks']} blocks, {before['blocks']} after boot"
    # Each page that stays, as tables of vmalloc and the pool's data do, may pin a small block;
    # objects are in small blocks where there was no whole one.
    if now["small_pages"] > _SMALL_BLOCK * (now["own"] + now.tables) + now["other"]:
        yield f"{now['small_pages']} pages in small blocks"
    if now.held != before.held:
        yield f"{now.held - before.held} pages more than after boot are neither free nor in use"
    for name in ("reserve", "stuck", "bad_takes", "bad_frees", "refused"):
        expected = RESERVE if name == "reserve" else 0
        if now[name] != expected:
            yield f"{name} {now[name]}, expected {expected}"
    for size, names in (("blocks", "blocks"), ("small", "small_pages")):
        gone = now[f"{size}_added"] - now[f"{size}_returned"]
        there = now[names] // (_SMALL_BLOCK if size == "small" else 1)
        if gone != there:
            yield f"{gone} of {size} were added and not returned, {there} are there"


def parse_pools(lines: Sequence[str]) -> Iterator[Pool]:
    """Every state of the pool on a console; `settle` shows it with the page tables before it."""
    tables: int | None = None
    values: dict[str, int] = {}
    for line in lines:
        if match := _TABLES.match(line):
            tables, values = int(match[1]) // _PAGE_KB, {}
        elif match := _NODE.match(line):
            words = match[1].split()
            for name, value in zip(words[::2], words[1::2], strict=True):
                values[name] = values.get(name, 0) + int(value)
        elif match := _VALUE.match(line):
            values[match[1]] = int(match[2])
        elif _SETTLED.match(line) and tables is not None:
            yield Pool(tables, values)
            # What is said after that is not of the pool at rest.
            tables, values = None, {}


def parse_rounds(lines: Sequence[str]) -> Iterator[Round]:
    """Every round of failing allocations on a console, with the pool at rest after it."""
    counts, checks = (0, 0, 1), 0
    for at, line in enumerate(lines):
        if match := _STRESS.match(line):
            counts = (int(match[1]), int(match[2]), int(match[3]))
        elif match := _CHECKS.match(line):
            checks = int(match[2])
        elif match := _ROUND.match(line):
            after = next(parse_pools(lines[at:]), None)
            if after is not None:
                yield Round(match[1], int(match[2]), int(match[3]), *counts, checks, after)
            counts, checks = (0, 0, 1), 0


def complaints(result: Result) -> tuple[str, ...]:
    """What a kernel must not say while memory is scarce, either."""
    return tuple(line for line in result.complaints if not _TRACE.search(line))


def look(protected: bool) -> list[list[str]]:
    """What shows the pool at rest, and whether all is protected."""
    return [["/bin/settle"], *([["/bin/cat", check.FILE]] if protected else [])]


def fault_rounds(
    names: Sequence[str], protected: bool, stress_s: int, workers: int
) -> list[list[str]]:
    """Rounds of stress under faults, and a look after each."""
    stress = ["/bin/stress", str(stress_s), str(workers), "--scarce"]
    return [words for name in names for words in (["/bin/faults", name, *stress], *look(protected))]


def commands(protected: bool, stress_s: int, workers: int) -> list[list[str]]:
    """What the guest runs: boot, each round of stress, cgroups, and a look after each."""
    seen = look(protected)
    under_faults = fault_rounds(rounds(protected), protected, stress_s, workers)
    return [*seen, *under_faults, ["/bin/cgroup"], *seen]


def run(machine: Machine, variant: Variant, stress_s: int, progress: Progress) -> Outcome:
    """Stress for `stress_s` seconds of guest time in each round, then test cgroups.

    The kernel of `machine` needs fault injection and memory cgroups: the debug flavour.
    """
    target = machine.build.target.name
    title = f"Failing allocations on {target} ({variant.name}), {machine.cpus} CPU"
    result = experiment.start(
        machine, *commands(variant.protected, stress_s, max(2, machine.cpus)),
        name=f"shortage-{target}-{variant.name}-{machine.cpus}",
        timeout=stress_s * 3 * len(ROUNDS) + _MARGIN, progress=progress, title=title,
    )  # fmt: skip
    return Outcome("failing allocations", tuple(judge(result, variant.protected)), result)
