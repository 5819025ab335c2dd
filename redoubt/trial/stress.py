# SPDX-License-Identifier: GPL-2.0-only
"""Long stress of a kernel by stress-ng: is every page table protected, and no page lost?

What stress-ng counts (bogo operations) shows that something was done, and is no measure of speed:
what one is differs from stressor to stressor, and an emulated machine has no speed of its own.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.progress import Progress
from redoubt.linux import rootless
from redoubt.machine import kernels
from redoubt.machine.boot import Machine, Result
from redoubt.targets import Target, Variant
from redoubt.trial import check, experiment, selftests, shortage
from redoubt.trial.asi import asi
from redoubt.trial.asi.asi import Audit
from redoubt.trial.check import Walk
from redoubt.trial.shortage import Pool

PACKAGES = ("stress-ng", "busybox-static")
# Debian's names. User-Mode Linux runs the programs of its host.
_DEBIAN = {"um": "amd64", "x86_64": "amd64", "arm64": "arm64"}
MEMORY_MB = 1024
# On two CPUs they race.
CPUS = 2
# Seconds of a round at least, also on a slow machine, and at most; and between two checks.
SHORTEST_S = 10
SLOW_SHORTEST_S = 30
LONGEST_S = 60
CHECK_S = 5
# Seconds of each kind of failing allocations, where the kernel has them. Those of blocks alone are
# none: after stress the pool has one to spare, and does not ask.
FAULTS_S = 20
FAULT_ROUNDS = shortage.rounds(protected=False)
# How late a round may end, beyond three times its seconds: one operation can take a minute.
_LATE_S = 180
# Seconds beyond the stress itself: booting under emulation, settling, a round that ends late.
_MARGIN = 900.0
# The pool is looked at after each part. A short run is one part.
_PARTS = 2
_SHORT_S = 60
# After so many seconds, at most so many blocks more than after boot, whatever tables stayed.
_LONG_S, _MORE_BLOCKS = 600, 4

_ASKED = tomllib.loads((paths.repo() / "configs" / "stress-ng.toml").read_text())
CLASSES: dict[str, list[str]] = _ASKED["classes"]
SIZES: dict[str, tuple[str, str]] = _ASKED["sizes"]
OPTIONS: dict[str, list[str]] = _ASKED["options"]
NEEDS: dict[str, list[str]] = _ASKED["needs"]
TOO_SLOW: dict[str, str] = _ASKED["too-slow"]
MAY_HANG: dict[str, str] = _ASKED["may-hang"]
# A class with fewer stressors than that pauses for the rest of so many rounds.
_CYCLE = 4
# Of the boot, if the kernel has the option: two nodes to move pages between, and KiB to swap to.
_ARGS = {
    "CONFIG_NUMA_EMU": ("numa=fake=2",),
    "CONFIG_BLK_DEV_RAM": ("ramdisk_size=65536", "brd.rd_nr=2"),
}
# Faults that are told when to come, of the debug flavour: it alone says what may fail, and where.
_FAULTS = (
    "CONFIG_PROVE_LOCKING", "CONFIG_FAULT_INJECTION_DEBUG_FS", "CONFIG_FAIL_PAGE_ALLOC",
    "CONFIG_FAILSLAB",
)  # fmt: skip

RAN, FAILED, SKIPPED, LATE, IDLE, UNREACHED, LEFT_OUT = (
    "ran", "failed", "skipped", "late", "idle", "not reached", "left out",
)  # fmt: skip

_BEGIN = re.compile(r"^@stress-ng: begin (\d+) (.*)$")
_END = re.compile(r"^@stress-ng: end (\d+) status=(\d+|late)$")
_SAID = "| "
_FIGURES = ": "
_OPS = re.compile(r"^\s+- stressor: (\S+)\n\s+bogo-ops: (\d+)$", re.MULTILINE)
_FIGURES_END = "..."
# The end of what stress-ng says: "failed: 2: mmap (1) vm (1)".
_SUMMARY = re.compile(r"^(skipped|passed|failed): \d+(?:: (.*))?$")
_LISTED = re.compile(r"([\w-]+) \(\d+\)")
# In the guest: runs of the checker, and those that failed; modules that were loaded and unloaded,
# CPUs that were switched off and on, failures of that; and the most that was in swap at a time.
COUNTED = ("checks", "refused", "modules", "cpus", "failed", "swap_kb")
_OVER = "@stress-ng: over"
# The kernel's answer to a header of swap that is wrong, as the stressor tries it.
_PROVOKED = re.compile(r"Unable to handle swap header version ")
_VIOLATIONS = re.compile(r"^violations (\d+)$")


# === What is asked for ===========================================================================


def flavour_of(target: Target) -> str:
    """The flavour of its kernel that has most of what stressors need; "" is none."""
    return selftests.FLAVOUR if selftests.FLAVOUR in target.flavours else ""


def slow(machine: Machine) -> bool:
    """Is it User-Mode Linux in an emulated machine, emulated twice?"""
    return machine.emulated and not machine.build.target.emulator


def left_out(machine: Machine) -> dict[str, str]:
    """The stressors that a machine cannot run, and why."""
    found = dict(TOO_SLOW) if slow(machine) else {}
    configuration = machine.build.configuration()
    preemption, rcu = (configuration.get(f"CONFIG_{one}") for one in ("PREEMPTION", "PREEMPT_RCU"))
    if preemption == "y" and rcu != "y":
        found |= MAY_HANG
    for stressor, options in NEEDS.items():
        missing = [name for name in options if configuration.get(name, "n") != "y"]
        if missing:
            found[stressor] = f"no {missing[0]}"
    return found


def rounds(without: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Stressors that run at a time: one of a class, until each had its turn. The first has all."""
    classes = [[one for one in names if one not in without] for names in CLASSES.values()]
    found = []
    for number in range(max(len(names) for names in classes)):
        places = [(names, number % max(len(names), _CYCLE)) for names in classes]
        found.append(tuple(names[place] for names, place in places if place < len(names)))
    return found


def parts(seconds: int) -> int:
    """How many parts a run has."""
    return _PARTS if seconds >= _SHORT_S else 1


def round_s(seconds: int, number: int, shortest_s: int = SHORTEST_S) -> int:
    """How long each of so many rounds takes, in seconds."""
    return max(shortest_s, min(LONGEST_S, seconds // number))


def words(stressors: Sequence[str], small: bool = False) -> str:
    """What stress-ng is asked for in a round; `small` are the sizes for a slow machine."""
    found: list[str] = []
    for one in stressors:
        found += [f"--{one}", "1", *OPTIONS.get(one, ())]
        if one in SIZES:
            found += [f"--{one}-bytes", SIZES[one][small]]
    return " ".join(found)


def commands(machine: Machine, protected: bool, seconds: int) -> list[list[str]]:
    """What the guest runs: looks at the machine at rest, with stress between them."""
    turns = rounds(left_out(machine))
    part_s = seconds // parts(seconds)
    each = round_s(part_s, len(turns), SLOW_SHORTEST_S if slow(machine) else SHORTEST_S)
    script = [
        "/usr/bin/busybox", "ash", "/bin/stress.sh",
        str(part_s), str(each), str(3 * each + _LATE_S), str(CHECK_S),
        check.FILE if protected else "-", *(words(turn, slow(machine)) for turn in turns),
    ]  # fmt: skip
    look = [*shortage.look(protected), *asi.look(machine)]
    run = [*look, *([script, *look] * parts(seconds))]
    if injects(machine):
        run += shortage.fault_rounds(FAULT_ROUNDS, protected, FAULTS_S, CPUS)
    if protected and check.counts(machine):
        run.append(["/bin/cat", check.STATS])
    return run


def injects(machine: Machine) -> bool:
    """Can allocations be made to fail?"""
    configuration = machine.build.configuration()
    return all(configuration.get(name) == "y" for name in _FAULTS)


# === What came of it =============================================================================


@dataclass(frozen=True)
class Round:
    """What stress-ng was asked for and gave; `status` is None if the round has no end.

    `operations` are of those that its report names; `whole` says that the report is.
    """

    number: int
    stressors: tuple[str, ...]
    status: str | None
    operations: Mapping[str, int]
    said: tuple[str, ...]
    whole: bool

    def listed(self, what: str) -> tuple[str, ...]:
        """The stressors that its last words call skipped, passed or failed."""
        for line in self.said:
            if (match := _SUMMARY.match(line)) and match[1] == what:
                return tuple(_LISTED.findall(match[2] or ""))
        return ()

    def about(self, stressor: str) -> str:
        """The first that it says of a stressor, but for figures and sizes; "" if nothing."""
        before = r"(?:stress-ng: \w+: +\[\d+\] |disabled ')?"
        name = re.escape(stressor)
        of = re.compile(rf"^{before}{name}(?:[:']| stressor\b) (?!using )(.*)$")
        return next((match[1] for line in self.said if (match := of.match(line))), "")


@dataclass(frozen=True)
class Stressor:
    """What came of a stressor in all its rounds, and why it is not RAN."""

    name: str
    kind: str
    rounds: int
    operations: int
    outcome: str
    why: str = ""


@dataclass(frozen=True)
class Report(experiment.Verdict):
    """A boot under stress.

    `pools` are those of the machine at rest that were seen whole: after boot, after each part of
    the stress, of which `ended_parts` came to their end, and after each kind of failing
    allocations. `counts` are of COUNTED, summed over the parts. `audits` are those of address space
    isolation, None without it.
    """

    machine: Machine
    variant: Variant
    seconds: int
    without: Mapping[str, str]
    rounds: tuple[Round, ...]
    ended_parts: int
    pools: tuple[Pool, ...]
    walks: tuple[Walk, ...]
    exceptions: tuple[str, ...]
    counts: Mapping[str, int]
    faults: tuple[shortage.Round, ...]
    violations: int | None
    splats: tuple[str, ...]
    boot: Result
    audits: tuple[Audit, ...] | None = None

    @cached_property
    def stressors(self) -> tuple[Stressor, ...]:
        """Every stressor of every class."""
        return tuple(
            _stressor(name, kind, self) for kind, names in CLASSES.items() for name in names
        )

    @property
    def operations(self) -> dict[str, int]:
        """Bogo operations done by each class."""
        done: Counter[str] = Counter(dict.fromkeys(CLASSES, 0))
        for one in self.stressors:
            done[one.kind] += one.operations
        return done

    @property
    def left_out(self) -> dict[str, str]:
        """The classes that this machine cannot run at all, and why."""
        return {
            kind: self.without[names[0]]
            for kind, names in CLASSES.items()
            if all(name in self.without for name in names)
        }

    @property
    def leaked(self) -> int | None:
        """Pages that the pool has lost since the boot; None if it was not looked at."""
        if not self.variant.protected or len(self.pools) < 2:
            return None
        return self.pools[-1].held - self.pools[0].held

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Everything that is not as it has to be, in words."""
        return tuple(_problems(self))

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/stress.md."""
        return {
            "target": self.machine.build.target.name,
            "variant": self.variant.name,
            "seconds": self.seconds,
            "ok": self.ok,
            "problems": self.problems,
            "alive": self.boot.outcome == "finished",
            "rounds": len(self.rounds),
            "classes": [
                {"class": kind, "bogo_ops": done, "left_out": self.left_out.get(kind)}
                for kind, done in self.operations.items()
            ],
            "stressors": [
                {
                    "stressor": one.name, "class": one.kind, "rounds": one.rounds,
                    "bogo_ops": one.operations, "outcome": one.outcome, "why": one.why,
                }
                for one in self.stressors
            ],
            "checks": len(self.walks),
            **check.worst(self.walks),
            "violations": self.violations,
            "splats": len(self.splats),
            "leaked": self.leaked,
            "pools": [{"tables": one.tables, **one.values} for one in self.pools],
            **{name: self.counts[name] for name in ("modules", "cpus", "swap_kb")},
            "faults": {one.name: one.injected for one in self.faults},
        }  # fmt: skip


def _stressor(name: str, kind: str, report: Report) -> Stressor:
    mine = [one for one in report.rounds if name in one.stressors]
    done = sum(one.operations.get(name, 0) for one in mine)

    def first(matching: Callable[[Round], bool]) -> Round | None:
        return next(filter(matching, mine), None)

    if failed := first(lambda one: name in one.listed("failed")):
        outcome, why = FAILED, failed.about(name)
    elif done:
        outcome, why = RAN, ""
    elif name in report.without:
        outcome, why = LEFT_OUT, report.without[name]
    elif not mine:
        outcome, why = UNREACHED, "the time was up"
    elif skipped := first(lambda one: name in one.listed("skipped")):
        outcome, why = SKIPPED, skipped.about(name)
    elif late := first(lambda one: one.status in ("late", None)):
        outcome, why = LATE, f"no end of round {late.number}"
    else:
        outcome, why = IDLE, mine[-1].about(name) or f"in {len(mine)} rounds"
    return Stressor(name, kind, len(mine), done, outcome, why)


def parse_rounds(lines: Sequence[str]) -> Iterator[Round]:
    """Every round on a console, one that has no end as well."""
    begins = [number for number, line in enumerate(lines) if _BEGIN.match(line)]
    for first, after in pairwise([*begins, len(lines)]):
        yield _round(lines[first:after])


def _round(lines: Sequence[str]) -> Round:
    """The round that begins with the first of these lines."""
    begin = _BEGIN.match(lines[0])
    assert begin
    at = next((number for number, line in enumerate(lines) if _END.match(line)), len(lines))
    status = [match[2] for match in experiment.matches(_END, lines[at : at + 1])]
    said, figures = (
        [line.removeprefix(mark) for line in lines[:at] if line.startswith(mark)]
        for mark in (_SAID, _FIGURES)
    )
    operations: Counter[str] = Counter()
    for stressor, done in _OPS.findall("\n".join(figures)):
        operations[stressor] += int(done)
    known = {name for names in CLASSES.values() for name in names}
    stressors = tuple(
        word[2:] for word in begin[2].split() if word.startswith("--") and word[2:] in known
    )
    return Round(
        int(begin[1]), stressors, status[0] if status else None, operations, tuple(said),
        figures[-1:] == [_FIGURES_END],
    )  # fmt: skip


def parse(result: Result, machine: Machine, variant: Variant, seconds: int) -> Report:
    """What a console shows."""
    lines = result.console
    counts = Counter(dict.fromkeys(COUNTED, 0))
    for _, counted in experiment.said("stress-ng", (), lines):
        counts.update(counted)
    violations = [int(match[1]) for match in experiment.matches(_VIOLATIONS, lines)]
    return Report(
        machine=machine,
        variant=variant,
        seconds=seconds,
        without=left_out(machine),
        rounds=tuple(parse_rounds(lines)),
        ended_parts=lines.count(_OVER),
        pools=tuple(one for one in shortage.parse_pools(lines) if one.whole),
        walks=check.parse_walks(lines),
        exceptions=check.exceptions(lines),
        counts=counts,
        faults=tuple(shortage.parse_rounds(lines)),
        violations=violations[-1] if violations else None,
        splats=tuple(line for line in shortage.complaints(result) if not _PROVOKED.search(line)),
        boot=result,
        audits=asi.parse_audits(lines) if asi.asked_for(machine) else None,
    )


# === What is wrong ===============================================================================


def _problems(report: Report) -> Iterator[str]:
    bad_end = tuple(_bad_end(report))
    yield from bad_end
    yield from report.splats
    for one in report.rounds:
        if one.status not in ("late", None) and not one.whole:
            last = one.said[-1] if one.said else "it said nothing"
            yield f"round {one.number}: no whole report, status {one.status}: {last}"
        for name in one.listed("failed"):
            yield f"round {one.number}: {name} failed: {one.about(name)}"
    yield from (f"not clean: {walk}" for walk in report.walks if not walk.clean)
    yield from (f"not clean: {audit}" for audit in report.audits or () if not audit.clean)
    if bad_end:
        # What was not done or seen then says no more.
        return
    yield from _undone(report)
    looks = 1 + parts(report.seconds)
    if report.audits is not None and len(report.audits) != looks:
        yield f"{len(report.audits)} audits of the restricted direct map, expected {looks}"
    if report.variant.protected:
        yield from _problems_of_checks(report, looks + report.counts["checks"])
        yield from _problems_of_pools(report, looks + len(report.faults))


def _bad_end(report: Report) -> Iterator[str]:
    result, expected = report.boot, parts(report.seconds)
    where = ""
    if report.rounds and report.rounds[-1].status is None:
        last = report.rounds[-1]
        where = f" in round {last.number} ({', '.join(last.stressors)})"
    if result.outcome != "finished":
        detail = f": {result.detail}" if result.detail else ""
        yield f"the guest did not survive: {result.outcome}{where}{detail}"
    elif result.status or where:
        yield f"the guest's command ended with status {result.status}{where}"
    elif report.ended_parts != expected:
        yield f"{report.ended_parts} parts of the stress ended, expected {expected}"


def _undone(report: Report) -> Iterator[str]:
    """What this machine has, and did nothing."""
    for kind, done in report.operations.items():
        if not done and kind not in report.left_out:
            yield f"class {kind}: no operations"
    for kind, count in {"module": "modules", "cpu": "cpus", "swap": "swap_kb"}.items():
        if not report.counts[count] and kind in check.possible(report.machine):
            yield f"{kind}: configured, and nothing happened"
    if report.counts["failed"]:
        yield f"modules and CPUs: {report.counts['failed']} failures"
    faults = {one.name: one for one in report.faults}
    for name in FAULT_ROUNDS if injects(report.machine) else ():
        if name in faults:
            yield from shortage.problems_of_round(faults[name], report.variant.protected)
        else:
            yield f"no faults in {name}"


def _problems_of_checks(report: Report, walks: int) -> Iterator[str]:
    if not report.counts["checks"]:
        yield "the checker never ran during the stress"
    if report.counts["refused"]:
        yield f"the checker failed {report.counts['refused']} times"
    if len(report.walks) < walks:
        yield f"{len(report.walks)} walks of the checker, expected {walks}"
    if report.violations is None and check.counts(report.machine):
        yield "the kernel's statistics were not seen"
    elif report.violations:
        yield f"{report.violations} violations"


def _problems_of_pools(report: Report, expected: int) -> Iterator[str]:
    if len(report.pools) < expected:
        yield f"the pool was seen at rest {len(report.pools)} times, expected {expected}"
        return
    before, *others = report.pools
    for number, now in enumerate(others, 1):
        # Each table that came and stayed, as those of vmalloc do, may keep a block.
        extra = shortage.EXTRA_BLOCKS + max(0, now.tables - before.tables)
        if now is others[-1] and report.seconds >= _LONG_S:
            extra = min(extra, _MORE_BLOCKS)
        for text in shortage.problems_of_pool(before, now, extra):
            yield f"pool, part {number}: {text}"
        if now["empty"] > shortage.EXTRA_BLOCKS:
            yield f"pool, part {number}: {now['empty']} blocks are kept of which nothing is used"


# === Running it ==================================================================================


def files(target: Target, progress: Progress) -> dict[str, Path]:
    """What the guest gets besides our programs: from its path there to the file.

    Raises RedoubtError if the packages cannot be had.
    """
    unpacked = rootless.system(_DEBIAN[target.arch], PACKAGES, progress)
    return {
        **rootless.program(unpacked, "stress-ng"),
        **rootless.program(unpacked, "busybox"),
        "bin/stress.sh": paths.repo() / "guest" / "stress" / "stress.sh",
    }


def machine(
    target: Target,
    variant: Variant,
    host: str,
    progress: Progress,
    flavour: str | None = None,
    extra: Sequence[str] = (),
) -> Machine:
    """Build a kernel, of the best flavour if none is given, and what its guest runs.

    It gets `extra` kernel arguments. Raises RedoubtError if they cannot be built or had.
    """
    chosen = flavour_of(target) if flavour is None else flavour
    made = kernels.workbench(target, variant, host, progress, flavour=chosen)
    configuration = made.build.configuration()
    options = [words for name, words in _ARGS.items() if configuration.get(name) == "y"]
    args = [word for words in options for word in words]
    return replace(
        made.machine(variant, *args, *extra, cpus=CPUS),
        memory_mb=MEMORY_MB,
        files=files(target, progress),
    )


def run(machine: Machine, variant: Variant, progress: Progress, *, seconds: int) -> Report:
    """Stress a machine for so many seconds of guest time.

    Raises RedoubtError if it cannot be started at all.
    """
    target = machine.build.target.name

    def watch(line: str) -> None:
        if match := _BEGIN.match(line):
            progress.detail(f"round {match[1]}: {match[2]}")

    result = experiment.start(
        machine, *commands(machine, variant.protected, seconds),
        name=f"stress-{target}-{variant.name}", timeout=seconds * 3 + _MARGIN, progress=progress,
        title=f"Stressing {target} ({variant.name}) for {seconds} s", watch=watch,
    )  # fmt: skip
    return parse(result, machine, variant, seconds)


def render(report: Report) -> Iterator[str]:
    """For people: what was done, what could not be done and why, and what was found."""
    target = report.machine.build.target.name
    yield f"{target} ({report.variant.name}): {len(report.rounds)} rounds of stress-ng"
    yield "bogo operations (counts, no measure of speed):"
    for kind, done in report.operations.items():
        names = [one.name for one in report.stressors if one.kind == kind and one.outcome == RAN]
        what = f"{done} by {', '.join(names)}" if done else "0"
        if kind in report.left_out:
            what = f"left out: {report.left_out[kind]}"
        yield f"    {kind}: {what}"
    for outcome in (FAILED, SKIPPED, LATE, IDLE, LEFT_OUT, UNREACHED):
        found: dict[str, list[str]] = {}
        for one in report.stressors:
            if one.outcome == outcome:
                found.setdefault(one.why or "without a word", []).append(one.name)
        if found:
            yield f"{outcome}:"
            yield from (f"    {', '.join(names)}: {why}" for why, names in found.items())
    yield (
        "modules loaded and unloaded: {modules}; CPUs off and on: {cpus}; "
        "in swap at a time: {swap_kb} KiB".format_map(report.counts)
    )
    for fault in report.faults:
        yield f"failing allocations, {fault.name}: {fault.injected}"
    if report.variant.protected:
        tables = check.worst(report.walks)["tables"]
        yield (
            f"checks: {len(report.walks)}, of up to {tables} page table pages; "
            f"violations: {report.violations}; pages lost: {report.leaked}"
        )
        for pool in report.pools:
            yield (
                f"    pool at rest: {pool['blocks']} blocks for {pool.tables} tables, "
                f"{pool['small_pages']} small pages, {pool.held} neither free nor in use"
            )
    yield from map(str, report.audits or ())
    yield from report.exceptions
