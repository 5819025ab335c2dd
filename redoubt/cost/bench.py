# SPDX-License-Identifier: GPL-2.0-only
"""Booting kernels to measure them: which, in what order, and what their guests say."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.cost import userland, workloads
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MOCK, TIME, TIMED, Spec, Workload
from redoubt.machine import host, kernels, qemu
from redoubt.machine.boot import Machine, Result, boot
from redoubt.targets import Target, get_variant

_PREFIX = "@bench:"
_DONE = "@bench: done"
_COUNTS = ("size", "ops", "ns", "host_ns", "host_calls", "tables", "free_ns", "sample")
_STAT = "stat_"
# The cycles of a fixed piece of work while nobody else uses the core, see guest/bench/quiet.c.
_QUIET = re.compile(r"^@quiet: (\d+) noisy=(\d+)$")
# Seconds for one boot with all workloads: on this machine, and on an emulated one.
_TIMEOUT = {TIME: 180.0, MOCK: 180.0, EVENTS: 120.0}
_EMULATED_TIMEOUT = 2700.0
# And at least for one in which programs of Debian run.
_DEBIAN_TIMEOUT = 3600.0
_NO_PKU = "this CPU has no protection keys (PKU)"
_NO_CLOCK = "its machine is emulated, and so is its clock"
# What a counting machine has at least, if it is a PC: more than 2 GiB, so that the kernel can map
# one with a single page, which begins and ends in ordinary memory.
_DIRECT_MAP_MB = 2304
# The largest mapping where less is counted.
_SMALL = 64 * workloads.MIB
# Memory in MiB for programs of Debian, which are in it on an emulated machine, and their files.
_DEBIAN_MB = 2048
# Guest memory in MiB beside two and a half times the largest mapping, which a fork may break off.
_BESIDE_MB = 512


@dataclass(frozen=True)
class Series:
    """The samples of one workload and size in one boot.

    Times in ns over `ops` operations, with what RCU frees after them if it does so at once; on an
    emulated host a "ns" is an instruction. `host_ns` is the part spent in calls of UML's host.
    Statistics of the kernel are over `ops` operations too.
    """

    workload: str
    size: int
    ops: int
    ns: tuple[int, ...]
    host_ns: tuple[int, ...]
    host_calls: tuple[int, ...]
    tables: tuple[int, ...]
    stats: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Boot:
    """One boot: which kind of figure it is for, its round, and its place in the round."""

    kind: str
    round: int
    place: int
    variant: str
    series: tuple[Series, ...]

    def as_json(self) -> dict[str, Any]:
        """The raw samples, from which all statistics can be had again."""
        return dataclasses.asdict(self)


def from_json(value: dict[str, Any]) -> Boot:
    """The boot that `as_json` wrote.

    Raises RedoubtError if it did not.
    """
    try:
        series = tuple(
            Series(
                one["workload"], one["size"], one["ops"], tuple(one["ns"]), tuple(one["host_ns"]),
                tuple(one["host_calls"]), tuple(one["tables"]),
                {name: tuple(values) for name, values in one["stats"].items()},
            )
            for one in value["series"]
        )  # fmt: skip
        return Boot(value["kind"], value["round"], value["place"], value["variant"], series)
    except (KeyError, TypeError, AttributeError) as error:
        raise RedoubtError(f"not a boot of a benchmark: {error!r}") from error


# === What the guest says =========================================================================


def _fields(line: str) -> dict[str, str]:
    words = [word.partition("=") for word in line.removeprefix(_PREFIX).split()]
    found = {name: value for name, _, value in words}
    numbers = [found.get(name, "") for name in _COUNTS]
    numbers += [value for name, value in found.items() if name.startswith(_STAT)]
    if not found.get("workload") or not all(re.fullmatch(r"\d+", text) for text in numbers):
        raise RedoubtError(f"the guest's benchmark wrote a line that makes no sense: {line}")
    return found


def parse(
    lines: Iterable[str], specs: Sequence[Spec], *, waits: bool = False
) -> tuple[Series, ...]:
    """The samples on a console, in the order of `specs`.

    `waits` is for kernels whose RCU frees page tables at a later tick: that time is left out, and
    is a statistic.
    Raises RedoubtError if a line is malformed, a sample is missing, twice or not asked for, a time
    is 0 or less than the host's part of it, or the last line is missing.
    """
    samples: dict[tuple[str, int], list[dict[str, str]]] = {}
    done = False
    for line in lines:
        if line.strip() == _DONE:
            done = True
        elif line.startswith(_PREFIX):
            found = _fields(line)
            samples.setdefault((found["workload"], int(found["size"])), []).append(found)
    if not done:
        raise RedoubtError(f"the guest's benchmark did not reach its end ('{_DONE}')")
    series = tuple(
        _series(spec, samples.pop((spec.workload, spec.size), []), waits) for spec in specs
    )
    if samples:
        raise RedoubtError(f"the guest measured what nobody asked for: {sorted(samples)}")
    return series


def _series(spec: Spec, found: list[dict[str, str]], waits: bool) -> Series:
    numbers = {int(sample["sample"]) for sample in found}
    if len(found) != spec.samples or len(numbers) != len(found):
        raise RedoubtError(f"{spec}: {len(numbers)} different samples of {len(found)}")
    for sample in found:
        if int(sample["ops"]) != spec.ops:
            raise RedoubtError(f"{spec}: measured with ops={sample['ops']}")
        if int(sample["ns"]) <= int(sample["host_ns"]):
            raise RedoubtError(f"{spec}: ns={sample['ns']} of which host_ns={sample['host_ns']}")
    names = {name for sample in found for name in sample if name.startswith(_STAT)}
    if any(name not in sample for name in names for sample in found):
        raise RedoubtError(f"{spec}: samples with different statistics")

    def column(name: str) -> tuple[int, ...]:
        return tuple(int(sample[name]) for sample in found)

    stats = {name.removeprefix(_STAT): column(name) for name in sorted(names)}
    total = column("ns")
    if waits:
        stats["free_ns"] = column("free_ns")
    else:
        # Page tables are freed by RCU, after the operation but on its account.
        total = tuple(map(sum, zip(total, column("free_ns"), strict=True)))
    return Series(
        spec.workload, spec.size, spec.ops, total, column("host_ns"), column("host_calls"),
        column("tables"), stats,
    )  # fmt: skip


# === Boots =======================================================================================


@dataclass(frozen=True)
class Plan:
    """What a run does: a target, its workloads, how many rounds, and the seed of their order."""

    target: Target
    works: tuple[Workload, ...]
    rounds: int
    seed: int
    quick: bool = False

    def specs(self, kind: str, variant: str) -> list[Spec]:
        """What is asked of every boot of a variant for a kind of figure."""
        specs = (
            spec for work in self.works for spec in work.specs(kind, variant, quick=self.quick)
        )
        if kind != INSTRUCTIONS or (self.target.emulator and not self.target.keyid_bits):
            return list(specs)
        # Planes leave no room for more, and UML on an emulated machine no time.
        return [spec for spec in specs if spec.size <= _SMALL and not _is_debian(spec)]


@dataclass(frozen=True)
class Way:
    """A kind of figure this machine can give, on which host; or the reason why it cannot."""

    kind: str
    host: str | None
    missing: str = ""


def ways(target: Target) -> list[Way]:
    """The kinds of figures of a target, with what is missing for those this machine cannot give."""
    problem = qemu.problem(target.emulator) if target.emulator else qemu.missing(host.MACHINE)
    missing = f"{problem.message}; {problem.hint}" if problem else ""
    emulated = None if problem else host.EMULATED
    counted = Way(INSTRUCTIONS, emulated, missing)
    if target.emulator:
        return [Way(TIME, None, _NO_CLOCK), Way(EVENTS, emulated, missing), counted]
    mocked = [Way(TIME, None, _NO_PKU), Way(MOCK, host.NATIVE)]
    timed = [Way(TIME, host.NATIVE)] if host.has_pku() else mocked
    return [*timed, Way(EVENTS, host.NATIVE), counted]


def chosen_ways(target: Target, kinds: Sequence[str]) -> list[Way]:
    """The ways of these kinds; "time" is the mock where there is nothing else.

    If none are named, all there are; but where time can be taken not "instructions", which takes as
    long as the others together.

    Raises RedoubtError for an unknown kind.
    """
    known = (TIME, EVENTS, INSTRUCTIONS)
    for kind in kinds:
        if kind not in known:
            raise RedoubtError(f"unknown kind '{kind}'", "kinds: " + ", ".join(known))
    wanted = {*(kinds or (known if target.emulator else (TIME, EVENTS)))}
    if TIME in wanted:
        wanted.add(MOCK)
    return [way for way in ways(target) if way.kind in wanted]


Maker = Callable[[Target, str, Way, Progress], Machine]


def machine(target: Target, variant: str, way: Way, progress: Progress) -> Machine:
    """The machine that boots a variant for a kind of figure; builds its kernel first.

    Raises RedoubtError if the kernel does not build.
    """
    chosen = get_variant(target, variant.removesuffix("-b"))
    # Events are the same whether the register is written or not, and UML's emulated host is so slow
    # that most of a long operation's would be due to the ticks of its clock.
    unkeyed = way.host == host.NATIVE and not host.has_pku()
    mock = way.kind == MOCK or (way.kind == EVENTS and unkeyed)
    made = kernels.bench_workbench(
        target, chosen, way.host or host.NATIVE, progress, events=way.kind == EVENTS, mock=mock,
    )  # fmt: skip
    return made.bench_machine(chosen)


def measuring_cpu() -> int:
    """The CPU that timed boots are pinned to: the last we may use, as the first has interrupts."""
    return max(os.sched_getaffinity(0))


def _fitted(made: Machine, way: Way, specs: Sequence[Spec]) -> Machine:
    """The machine with the memory its workloads need, on the clock its kind of figure needs."""
    sizes = [spec.size for spec in specs if not workloads.WORKLOADS[spec.workload].unit]
    emulator = made.build.target.emulator
    # Planes leave no room for as much.
    large = way.kind == INSTRUCTIONS and emulator and not emulator.planes
    least = _DIRECT_MAP_MB if large else _DEBIAN_MB if made.files else 0
    return dataclasses.replace(
        made,
        memory_mb=max((max(sizes, default=0) >> 20) * 5 // 2 + _BESIDE_MB, least),
        pinned=measuring_cpu() if way.kind in TIMED else None,
        # Events as well: ticks then fall by what the guest does, not by the load of this machine.
        count_instructions=way.kind == INSTRUCTIONS
        or (way.kind == EVENTS and emulator is not None),
    )


def _is_debian(spec: Spec) -> bool:
    return workloads.WORKLOADS[spec.workload].debian


def _parts(
    made: Machine, way: Way, specs: Sequence[Spec], files: Mapping[str, Path]
) -> Iterator[tuple[Machine, list[Spec]]]:
    """The boots of a variant, each with what is asked of it.

    What runs programs of Debian, the `files`, has one of its own: hundreds of MiB that a machine
    unpacks when it boots would be on account of the other workloads.
    """
    for debian in (False, True):
        wanted = [spec for spec in specs if _is_debian(spec) == debian]
        if wanted:
            chosen = dataclasses.replace(made, files=files) if debian else made
            yield _fitted(chosen, way, wanted), wanted


def _timeout(made: Machine, way: Way) -> float:
    """Seconds for one boot."""
    usual = _EMULATED_TIMEOUT if made.emulated else _TIMEOUT[way.kind]
    return max(usual, _DEBIAN_TIMEOUT) if made.files else usual


def run(
    plan: Plan,
    way: Way,
    progress: Progress,
    *,
    maker: Maker = machine,
    start: Callable[..., Result] = boot,
) -> list[Boot]:
    """All boots for one kind of figure, in interleaved rounds.

    Raises RedoubtError if a kernel does not build, a boot does not end well, a kernel complains,
    or the guest's output is not what was asked for.
    """
    known = {variant.name for variant in plan.target.variants}
    known &= set(plan.target.measured) or known
    variants = [name for name in workloads.VARIANTS[way.kind] if name.removesuffix("-b") in known]
    # Exact figures need no rounds; of instructions a second boot shows that they are exact.
    rounds = {INSTRUCTIONS: 2, EVENTS: 1}.get(way.kind, plan.rounds)
    specs = {name: plan.specs(way.kind, name) for name in variants}
    every = [spec for those in specs.values() for spec in those]
    # Before kernels are built, which takes longer than to find out that there is no network.
    files = userland.files(plan.target, progress) if any(map(_is_debian, every)) else {}
    machines = {
        name: list(_parts(maker(plan.target, name, way, progress), way, specs[name], files))
        for name in variants
        if specs[name]
    }
    boots: list[Boot] = []
    # Time is taken while nobody else uses the core: each boot is told what earlier ones know of it.
    quiet: list[int] = []
    with progress.step(f"Measuring {plan.target.name}: {way.kind}, {rounds} rounds"):
        for number, order in enumerate(workloads.interleaved(list(machines), rounds, plan.seed)):
            for place, name in enumerate(order):
                progress.detail(f"round {number + 1} of {rounds}, {name}")
                series: list[Series] = []
                for made, wanted in machines[name]:
                    # Not what takes minutes, of which the time on a CPU is taken.
                    quietly = way.kind in TIMED and not made.files
                    options = [f"--quiet={min(quiet, default=0)}"] if quietly else []
                    result = start(
                        made,
                        ["/bin/bench", *options, *map(str, wanted)],
                        timeout=_timeout(made, way),
                        name=f"bench-{plan.target.name}-{way.kind}-{name}"
                        + ("-debian" if made.files else ""),
                        progress=progress,
                    )
                    # configs/kernel/bench-um.config: measured UML has one CPU, and a simpler RCU.
                    waits = plan.target.emulator is not None
                    series += _measured(result, name, wanted, waits=waits)
                    quiet += [int(said[1]) for said in map(_QUIET.match, result.console) if said]
                boots.append(Boot(way.kind, number, place, name, tuple(series)))
    return boots


def _measured(
    result: Result, variant: str, specs: Sequence[Spec], *, waits: bool
) -> tuple[Series, ...]:
    if result.outcome != "finished" or result.status or result.complaints:
        raise RedoubtError(f"measuring {variant}: {result.describe()}")
    try:
        return parse(result.console, specs, waits=waits)
    except RedoubtError as error:
        raise RedoubtError(
            f"measuring {variant}: {error.message}", f"console: {result.log}"
        ) from error
