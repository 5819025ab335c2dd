# SPDX-License-Identifier: GPL-2.0-only
"""The test run: everything that must hold, in the order of what it costs to find out."""

from __future__ import annotations

import os
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from redoubt.core import lanes, paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_lines
from redoubt.core.progress import Progress
from redoubt.image import offcheck
from redoubt.image.audit import audit
from redoubt.linux import build, distro, source
from redoubt.machine import host, kernels, planes
from redoubt.machine.boot import Result, boot
from redoubt.ship import commits, cover, lint, series
from redoubt.targets import Target, Variant, Way, get_variant
from redoubt.trial import attack, check, ktap, lifecycle, linear_map, selftests, shortage, stress
from redoubt.trial.asi import asi, exits, isolation
from redoubt.trial.mktme import flushes, mktme
from redoubt.trial.oracle import oracle

# Seconds of guest time. The emulated host does in them what silicon does in one or two.
STRESS_S = 60
LONG_STRESS_S = 120
# In each round of failing allocations.
SHORTAGE_S = 20
# Of stress-ng: two rounds.
STRESS_NG_S = 16
# How often the shortest operations are done when flushes are counted.
FLUSHES = 1_000
# How often each operation is done when exits are counted.
EXITS = 1000
# Seconds: ten times what it takes, as others may use this machine as well.
_PATIENCE_S = 300.0
_KUNIT_STARTS = 2
# Steps side by side. Kernels are built one at a time, with all CPUs; most boots keep one busy.
AT_ONCE = max(1, min(2, os.cpu_count() or 1))
_TRUE = ("/bin/cat", "/proc/version")


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
    patience_s: float = _PATIENCE_S

    def variant(self, name: str) -> Variant:
        """A variant of the target."""
        return get_variant(self.target, name)


def _verdict(name: str, variant: str, good: bool, detail: str) -> Item:
    """An item that is one test; the detail is for a failure."""
    return Item(name, variant, int(good), int(not good), 0, "" if good else detail)


def _outcome(name: str, outcome: lifecycle.Outcome) -> Item:
    """The item of what a machine with protection went through."""
    detail = "\n".join((*outcome.problems, outcome.boot.describe()))
    return _verdict(name, "on", outcome.ok, detail)


def as_json(first: str, items: Sequence[Item]) -> list[dict[str, Any]]:
    """The stable form, see docs/json.md: one entry per target and variant.

    What is not about one target stands with the `first`.
    """
    result: dict[tuple[str, str], dict[str, Any]] = {}
    for item in items:
        target = first if item.target == "-" else item.target
        entry = result.setdefault(
            (target, item.variant), {"target": target, "variant": item.variant, "suites": []}
        )
        entry["suites"].append(
            {
                "name": item.name,
                "passed": item.passed,
                "failed": item.failed,
                "skipped": item.skipped,
            }
        )
    return list(result.values())


# === The tool itself =============================================================================


def _unit(run: Run) -> Iterator[Item]:
    """The tool's own tests, by pytest."""
    # They share nothing but time.
    yield _pytest(run, "tool", "Testing the tool", "not guest and not network", "-n", "auto")


def _guests(run: Run) -> Iterator[Item]:
    """The tool's own tests that boot the kernel which is built by now."""
    yield _pytest(run, "tool, with guests", "Testing the tool with guests", "guest")


def _pytest(run: Run, label: str, title: str, marks: str, *options: str) -> Item:
    with (
        run.progress.step(title),
        tempfile.TemporaryDirectory(prefix="redoubt-") as name,
    ):
        report = Path(name) / "junit.xml"
        lines: list[str] = []
        ended = run_lines(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o",
             "console_output_style=classic", f"--junitxml={report}", "-m", marks, "-rs", *options,
             "tests"],
            lines.append,
            cwd=paths.repo(),
        )  # fmt: skip
        if not report.exists():
            said = "\n".join((f"pytest left no report ({ended})", *lines[-20:]))
            return Item(label, "-", 0, 1, 0, said)
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        total = failed = skipped = 0
        for suite in suites:
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
        if not total or (ended.code and not failed):
            failed += 1
        detail = "\n".join(lines[-40:]) if failed else ""
        if skipped and not failed:
            detail = "\n".join(line for line in lines if line.startswith("SKIPPED"))
        return Item(label, "-", max(0, total - failed - skipped), failed, skipped, detail)


# === Booted kernels ==============================================================================


def _in_a_file_name(label: str) -> str:
    return label.replace(", ", "-").replace(" ", "-")


def _kunit(
    run: Run,
    made: kernels.Workbench,
    variant: Variant,
    *,
    cpus: int = 1,
    label: str = "",
    tests: str = "",
) -> Iterator[Item]:
    # Of two patterns the kernel takes the last.
    only = (f"kunit.filter_glob={tests}",) if tests else ()
    name = f"{run.target.name}-{variant.name}-{cpus}{_in_a_file_name(label)}"
    with run.progress.step(f"KUnit on {run.target.name} ({variant.name}, {cpus} CPU)"):
        for _ in range(_KUNIT_STARTS):
            result = boot(
                made.kunit_machine(variant, *only, cpus=cpus),
                _TRUE,
                timeout=run.patience_s,
                name=f"kunit-{name}",
                progress=run.progress,
            )
            # Seldom a console loses a line. What a kernel never says is missing once more.
            if not _well(result) or not ktap.incomplete(_parsed(run, result)):
                break
            run.progress.detail("a line of the results is missing")
    yield from _suites(run, result, variant, cpus, label)
    detail = "\n".join((*result.splats, result.describe()))
    yield _verdict(f"boot with KUnit{label} ({cpus} CPU)", variant.name, _well(result), detail)


def _well(result: Result) -> bool:
    """Did a boot with KUnit end well? Its tests provoke violations, which are no splats."""
    return result.outcome == "finished" and result.status == 0 and not result.splats


def _suites(run: Run, result: Result, variant: Variant, cpus: int, label: str) -> Iterator[Item]:
    """What KUnit said in a boot."""
    unfinished, where = ktap.unfinished(result.console) or ("", "")
    how = {"hang": "hung", "panic": "panicked", "died": "died"}.get(result.outcome, "stopped")
    for suite in _parsed(run, result):
        words = [f"failed: {', '.join(suite.failures)}"] if suite.failures else []
        if suite.name == unfinished:
            words.append(f"{how} in {where}")
        why = ("; ".join((*words, f"log: {result.log}")), *suite.diagnostics)
        detail = "\n".join(why) if suite.failed else ""
        yield Item(
            f"{suite.name}{label} ({cpus} CPU)", variant.name,
            suite.passed, suite.failed, suite.skipped, detail,
        )  # fmt: skip


def _parsed(run: Run, result: Result) -> list[ktap.Suite]:
    return ktap.parse(source.obtain(run.progress).path, result.console)


def _attacks(
    run: Run, made: kernels.Workbench, label: str = "", flavour: str = ""
) -> Iterator[Item]:
    off, on = run.variant("off"), run.variant("on")
    for variant in (off, on):
        attacks, outcomes, result = attack.run(
            made.attack_machine(variant), variant, run.progress, flavour=flavour
        )
        good = 0
        bad = []
        absent = []
        for known, outcome in zip(attacks, outcomes, strict=True):
            if outcome.outcome == attack.ABSENT:
                absent.append(f"{outcome.attack}: {outcome.detail}")
            elif attack.as_expected(known, outcome, variant):
                good += 1
            else:
                bad.append(f"{outcome.attack}: {outcome.outcome}, {outcome.detail}")
        detail = "\n".join((*bad, result.describe()) if bad else absent)
        yield Item("attacks" + label, variant.name, good, len(bad), len(absent), detail)


def _panic_policy(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """kpkeys.violation=panic must take the machine down, and only then."""
    on = run.variant("on")
    # The second by a write that tolerates faults.
    for attack_name in ("own-pte", "tolerated-write"):
        with run.progress.step(f"Attacking with kpkeys.violation=panic ({attack_name})"):
            result = boot(
                made.machine(on, "kpkeys.violation=panic", attacks=True),
                ["/bin/attack", attack_name],
                timeout=run.patience_s,
                name=f"panic-{run.target.name}-{attack_name}",
                progress=run.progress,
            )
        good = result.outcome == "panic" and "kpkeys" in result.detail
        yield _verdict(f"violation=panic, {attack_name}", on.name, good, result.describe())


def _checks(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    yield _checked(run, made, LONG_STRESS_S if run.long else STRESS_S, cpus=2)
    yield _checked(run, made, 10, cpus=1)


def _checked(
    run: Run, made: kernels.Workbench, seconds: int, *, cpus: int, label: str = ""
) -> Item:
    """The checker after boot and after so much stress."""
    on = run.variant("on")
    machine = made.machine(on, cpus=cpus)
    report = check.run(machine, on, seconds, run.progress, _in_a_file_name(label))
    name = f"checker and {seconds} s of stress{label} ({cpus} CPU)"
    detail = "\n".join(
        (
            f"{report.walks}, {report.operations} operations, {report.stress_errors} wrong",
            *map(str, report.audits or ()),
            *(f"left out: {kind}" for kind in report.missing),
            *report.wrong[:10],
            *report.exceptions[:10],
            *report.splats[:10],
            report.boot.describe(),
        )
    )
    return _verdict(name, on.name, report.ok, detail)


def _without_keys(run: Run, made: kernels.Workbench, label: str = "") -> Iterator[Item]:
    """A machine without protection keys: one line says so, and everything else works."""
    on = run.variant("on")
    ways = run.target.no_keys
    for number, way in enumerate(ways):
        result = boot(
            made.keyless_machine(on, way),
            _TRUE,
            timeout=run.patience_s,
            name=f"nokeys-{run.target.name}{_in_a_file_name(label)}"
            + (f"-{number + 1}" if number else ""),
            progress=run.progress,
        )
        said = [line for line in result.console if "kpkeys: page tables not hardened: " in line]
        good = result.status == 0 and len(said) == 1 and not result.complaints
        name = f"no protection keys{label}" + (f" ({way})" if len(ways) > 1 else "")
        yield _verdict(name, on.name, good, result.describe())


def _protection(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """Everything that boots a kernel on a host that enforces."""
    on, off = run.variant("on"), run.variant("off")
    yield from _kunit(run, made, on)
    yield from _kunit(run, made, off)
    yield from _kunit(run, made, run.variant("on-unbatched"))
    yield from _kunit(run, made, on, cpus=2)
    yield _running(run, made)
    yield from _attacks(run, made)
    yield from _panic_policy(run, made)
    yield from _checks(run, made)
    for way in run.target.ways:
        yield from _other_way(run, made.by(way), way)


def _running(run: Run, made: kernels.Workbench) -> Item:
    """KUnit once more, on a kernel that has booted."""
    machine = made.machine(run.variant("on"), cpus=2)
    kernel = source.obtain(run.progress).path
    with run.progress.step(f"KUnit on {run.target.name} after the boot"):
        outcome = lifecycle.running(machine, kernel, run.progress, timeout=run.patience_s)
    return _outcome(outcome.name, outcome)


def _other_way(
    run: Run, made: kernels.Workbench, way: Way, flavour_label: str = ""
) -> Iterator[Item]:
    """What must hold however the kernel is booted."""
    label = f", {way.name}{flavour_label}"
    if way.enforces:
        yield from _kunit(run, made, run.variant("on"), cpus=4, label=label)
        yield from _attacks(run, made, label)
    elif way.tests:
        yield from _kunit(run, made, run.variant("on"), cpus=2, label=label, tests=way.tests)
    # With the kernel asserting that each level that was raised is lowered.
    yield _checked(run, made, 10, cpus=2, label=label)


def _skipped(why: str) -> Iterator[Item]:
    for variant in ("off", "on"):
        for name in ("KUnit", "attacks"):
            yield Item(name, variant, 0, 0, 1, why)
    yield Item("checker and stress", "on", 0, 0, 1, why)


def _booted(run: Run) -> Iterator[Item]:
    chosen = host.enforcing(run.target, run.host_choice)
    problem = host.lacking(run.target, run.host_choice)
    if problem and run.target.emulator:
        yield Item("no protection keys", "on", 0, 0, 1, problem.message)
        yield from _skipped(problem.message)
        return
    made = kernels.workbench(
        run.target, run.variant("on"), chosen or host.plain(run.target), run.progress
    )
    yield from _without_keys(run, made)
    if problem:
        yield from _skipped(problem.message)
    else:
        yield from _protection(run, made)


def noticing(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """What notices that page tables cannot be written where they have to be, or can elsewhere.

    The cheapest first, each item when it is asked for.
    """
    on = run.variant("on")
    yield _boot_alone(run, made)
    for variant, cpus in ((on, 1), (on, 2), (run.variant("on-unbatched"), 1)):
        yield from _kunit(run, made, variant, cpus=cpus)
    yield _running(run, made)
    yield from _checks(run, made)
    yield from _attacks(run, made)
    for way in run.target.ways:
        if way.enforces:
            yield from _other_way(run, made.by(way), way)


def _boot_alone(run: Run, made: kernels.Workbench) -> Item:
    """Nothing but a boot."""
    on = run.variant("on")
    with run.progress.step(f"Booting {run.target.name} ({on.name})"):
        result = boot(
            made.machine(on),
            _TRUE,
            timeout=run.patience_s,
            name=f"alone-{run.target.name}",
            progress=run.progress,
        )
    good = result.status == 0 and not result.complaints
    return _verdict("boot", on.name, good, "\n".join((*result.complaints, result.describe())))


# === From outside ================================================================================


def _oracle(run: Run, flavour: str = "") -> Iterator[Item]:
    """What the page tables of a process reach, read from outside.

    The ordinary ones reach all secrets of another; the restricted ones none, unless one is mapped
    by mistake. The kernel is the one that is built: the secret in a file lies in ramfs, and what is
    swapped out on a disk in memory. That of the flavour has more places for both.
    """
    label = f", {flavour} flavour" if flavour else ""
    name, on = f"oracle: secrets of another, from outside{label}", run.variant("on")
    chosen = _enforcing(run, name)
    if isinstance(chosen, Item):
        yield chosen
        return
    made = kernels.workbench(run.target, on, chosen, run.progress, flavour=flavour)
    for what, root, mistake, more in (
        ("found in ordinary page tables", "current", False, ()),
        ("not found in restricted ones", "restricted", False, ("pti=off",)),
        ("nor with page table isolation", "restricted", False, ("pti=on",)),
        ("found in those with a mistake", "restricted", True, ("pti=off",)),
    ):
        machine = made.machine(on, *more, attacks=mistake)
        report = oracle.run(machine, root, run.progress, mistake=mistake)
        yield _verdict(f"{name}: {what}", on.name, report.ok, "\n".join(oracle.render(report)))


# === Address space isolation =====================================================================


def _isolation(run: Run) -> Iterator[Item]:
    """Exits, exactly; somebody who wants to read; NMIs at any time; and PCIDs."""
    name, on = "address space isolation", run.variant("on")
    chosen = _enforcing(run, name)
    if isinstance(chosen, Item):
        yield chosen
        return
    made = kernels.workbench(run.target, on, chosen, run.progress)
    report = exits.run(made, on, EXITS, run.progress)
    yield _verdict(f"{name}: exits", on.name, report.ok, "\n".join(exits.render(report)))
    outcomes = [isolation.probe(made.machine(on, *asi.ARGS), run.progress)]
    for cpus, more in ((1, ()), (2, ("no5lvl", "pti=on"))):
        machine = made.machine(on, *asi.ARGS, *more, cpus=cpus)
        outcomes.append(isolation.nmis(machine, run.progress))
    for outcome in outcomes:
        yield _outcome(f"{name}: {outcome.name}", outcome)
    yield from _pcid(run, replace(made, bochs=True), name)


def _pcid(run: Run, made: kernels.Workbench, name: str) -> Iterator[Item]:
    """The same with PCIDs, with INVPCID and without, where they are emulated.

    Not that nothing is forgotten to be flushed: see bochs.py.
    """
    on = run.variant("on")
    for label, more in (
        ("PCID", ("pti=off",)),
        ("PCID and PTI, no INVPCID", ("pti=on", "noinvpcid")),
    ):
        machine = made.kunit_machine(on, "kunit.filter_glob=asi*", asi.ARGS[0], *more)
        outcome = isolation.stressed(machine, run.progress)
        yield from _suites(run, outcome.boot, on, machine.cpus, f", {label}")
        yield _outcome(f"{name}: {label}", outcome)


# === Memory under several keys ===================================================================


def _encryption(run: Run) -> Iterator[Item]:
    """What is under a KeyID is right from inside and out, mistakes are noticed, all else holds."""
    name, on = "memory under several keys", run.variant("on")
    chosen = _enforcing(run, name)
    if isinstance(chosen, Item):
        yield chosen
        return
    made = kernels.workbench(run.target, on, chosen, run.progress)
    for variant, cpus in ((on, 1), (on, 2), (run.variant("off"), 1), (run.variant("plain"), 1)):
        yield from _kunit(run, made, variant, cpus=cpus)
    yield from _attacks(run, made)
    yield _checked(run, made, 10, cpus=2)
    for variant in (on, run.variant("off")):
        outcomes = [mktme.checks(made.machine(variant, cpus=2), run.progress)]
        outcomes.append(mktme.interface(made.machine(variant, cpus=2), run.progress))
        outcomes.append(mktme.outside(made.machine(variant), run.progress)[0])
        for outcome in outcomes:
            yield replace(_outcome(f"{name}: {outcome.name}", outcome), variant=variant.name)
    for packages in (1, 2):
        outcome = mktme.around(made.machine(on, cpus=2), packages, run.progress)
        yield _outcome(f"{name}: {outcome.name}", outcome)
    yield _outcome(name, mktme.shared(made.machine(on, cpus=2), run.progress))
    # As many as four levels of page tables have room for, beside what KASLR leaves free.
    many = mktme.with_bits(made.machine(on, "no5lvl", cpus=2), planes.BITS[-1])
    for outcome in (
        mktme.interface(many, run.progress), mktme.outside(many, run.progress)[0],
    ):  # fmt: skip
        yield _outcome(f"{name}: {outcome.name}, 15 KeyIDs, 4 levels", outcome)
    report = flushes.run(made, on, FLUSHES, run.progress)
    yield _verdict(f"{name}: flushes", on.name, report.ok, "\n".join(flushes.render(report)))
    for bug in mktme.NOTICED_BY:
        outcome = mktme.notices(made.machine(on), bug, run.progress)
        yield _outcome(f"{name}: {outcome.name}", outcome)


# === The linear map ==============================================================================


def _linear_map(run: Run, flavour: str = "") -> Iterator[Item]:
    """The linear map of our kernel is that of the pristine one, and took no fixmap slot.

    Without keys, which would make page tables differ from the rest.
    """
    off, label = run.variant("off"), f", {flavour} flavour" if flavour else ""
    if problem := host.lacking(run.target, run.host_choice):
        yield Item(f"linear map{label}", off.name, 0, 0, 1, problem.message)
        return
    made = linear_map.build_both(run.target, run.progress, flavour)
    pristine, ours = made.machines()
    for setting in linear_map.settings(ours.build):
        found = linear_map.compare(pristine, ours, setting, run.progress)
        detail = "\n".join((*found.problems, found.ours.boot.describe()))
        name = f"linear map as on pristine, {setting.name}{label}"
        yield _verdict(name, off.name, not found.problems, detail)
    if flavour:
        for cpus in (1, 4):
            yield from _kunit(run, made.ours, run.variant("on"), cpus=cpus, label=label)
    if linear_map.wide(ours.build):
        # Where the first table of a process is smaller than a page, and where it could be.
        yield _checked(run, made.ours, STRESS_S, cpus=2, label=label)
        narrow, label = made.ours.by(linear_map.NARROW), f"{label}, {linear_map.NARROW.name}"
        yield from _kunit(run, narrow, run.variant("on"), cpus=2, label=label)
        yield _checked(run, narrow, STRESS_S, cpus=2, label=label)


def _linear_map_flavours(run: Run) -> Iterator[Item]:
    """The same with other sizes of pages and addresses, and under the kernel's own checks."""
    for flavour in run.target.flavours:
        # Their options are about processes, and about what is tested in other ways.
        if flavour not in (selftests.FLAVOUR, attack.FLAVOUR):
            yield from _linear_map(run, flavour)


# === What needs no boot ==========================================================================


def _audit(run: Run) -> Iterator[Item]:
    built = kernels.prepare(run.target, run.variant("on"), run.progress)
    with run.progress.step("Auditing the image"):
        report = audit.audit(built.vmlinux, paths.repo() / "configs" / run.target.audit)
    yield _verdict("audit", "-", report.ok, "\n".join(audit.render(report)))


def series_check(
    targets: Sequence[Target],
    progress: Progress,
    *,
    sampled: bool,
    mails: Path | None = None,
    names: Sequence[str] = (),
    each: bool = False,
) -> series.Report:
    """Take the series back with git am, look at its mails with checkpatch, and build prefixes.

    A prefix ends with a topic, or with `each` mail. All for all targets that their last topic
    concerns, or the last such for the first target; none if there is no target. The `mails` are
    those of a directory, or made anew; `names` are the topics they are of, all if there are none.

    Raises RedoubtError if a mail does not apply or a prefix does not build.
    """
    found = source.obtain(progress)
    pristine = found.path
    letter = cover.letter(paths.repo(), found, names)
    if mails is None:
        # Beside those that the user has made: nobody gets these.
        mails = paths.build_dir() / "series-test"
        # A fresh machine has no git identity.
        author = ("Redoubt", "redoubt@localhost")
        series.export(pristine, mails, topics=names, author=author, letter=letter)
    if sampled:
        targets = targets[:1]
    wanted = {
        topic.name: [target for target in targets if topic.concerns(target.architectures)]
        for topic in commits.chosen(paths.repo(), names)
    }
    if sampled:
        wanted = dict([entry for entry in wanted.items() if entry[1]][-1:])

    def compile_prefix(prefix: Path, last: commits.Commit) -> bool:
        concerned = wanted.get(last.topic.name, [])
        for target in concerned:
            build.compile_kernel(
                target, prefix, f"series-{last.topic.name}", target.fragments, progress,
                directory=paths.build_dir() / target.name / "series",
            )  # fmt: skip
        return bool(concerned)

    with progress.step("Checking the series"):
        return series.check(
            pristine, mails, build=compile_prefix if targets else None, each=each, topics=names,
            full=not sampled, work_in=paths.build_dir(), letter=letter,
            judge=partial(lint.check_mails, pristine),
        )  # fmt: skip


def _series(runs: Sequence[Run]) -> Iterator[Item]:
    targets = [run.target for run in runs]
    report = series_check(targets, runs[0].progress, sampled=not runs[0].long)
    yield _verdict("series", "-", report.ok, "\n".join(series.render(report)))


def off_check(target: Target, progress: Progress) -> offcheck.Report:
    """Build pristine and ours with the same options, ours all off, and compare the objects.

    Raises RedoubtError if one does not build.
    """
    pristine = source.obtain(progress).path
    ours = kernels.our_tree(progress)
    one = build.compile_kernel(target, pristine, "pristine", target.fragments, progress)
    other = build.compile_kernel(target, ours, "off", target.fragments, progress)
    with progress.step("Comparing the objects"):
        return offcheck.compare(one.directory, other.directory)


def _offcheck(run: Run) -> Iterator[Item]:
    report = off_check(run.target, run.progress)
    yield _verdict("offcheck", "-", report.ok, "\n".join(offcheck.render(report)))


def _enforcing(run: Run, name: str) -> str | Item:
    """The host that enforces protection, or what a suite says that is skipped without one."""
    if problem := host.lacking(run.target, run.host_choice):
        return Item(name, "on", 0, 0, 1, problem.message)
    return host.pick(run.target, run.host_choice)


def _flavour(run: Run, made: kernels.Workbench, label: str) -> Iterator[Item]:
    """What every flavour of a kernel has to pass, on two CPUs, and however it is booted."""
    for name in ("on", "off"):
        yield from _kunit(run, made, run.variant(name), cpus=2, label=label)
    yield from _attacks(run, made, label)
    yield _checked(run, made, STRESS_S, cpus=2, label=label)
    for way in run.target.ways:
        yield from _other_way(run, made.by(way), way, label)


def _life(
    run: Run, made: kernels.Workbench, label: str, events: Sequence[lifecycle.Event]
) -> Iterator[Item]:
    """What a machine goes through in its life, however it was booted."""
    kernel = kernels.our_tree(run.progress)
    booted = {label: made}
    booted |= {f", {way.name}{label}": made.by(way) for way in run.target.ways if way.enforces}
    for name, way_made in booted.items():
        for event in events:
            with run.progress.step(f"Taking {run.target.name} through {event.__name__}"):
                outcome = event(way_made.machine(run.variant("on"), cpus=2), kernel, run.progress)
            yield _outcome(f"{outcome.name}{name}", outcome)


def _debug(run: Run) -> Iterator[Item]:
    """The same under the kernel's own checks: lockdep, DEBUG_VM, preemption."""
    chosen = _enforcing(run, "debug flavour")
    if isinstance(chosen, Item):
        yield chosen
        return
    on, off = run.variant("on"), run.variant("off")
    made = kernels.workbench(run.target, on, chosen, run.progress, flavour="debug")
    yield from _flavour(run, made, ", debug flavour")
    yield _checked(run, made, STRESS_S, cpus=1, label=", debug flavour")
    have = made.build.configuration()
    events = (
        (lifecycle.memory, "CONFIG_ACPI_HOTPLUG_MEMORY"), (lifecycle.guests, "CONFIG_KVM_AMD"),
    )  # fmt: skip
    yield from _life(
        run, made, ", debug flavour", [event for event, needs in events if have.get(needs) == "y"]
    )
    # Without protection as well: what is expected of cgroups is what Linux does by itself.
    for variant, cpus in ((on, 2), (on, 1), (off, 2)):
        yield _shortage(run, made, variant, cpus)


def _shortage(run: Run, made: kernels.Workbench, variant: Variant, cpus: int) -> Item:
    """Allocations that fail, and page tables that are charged to memory cgroups."""
    report = shortage.run(made.machine(variant, cpus=cpus), variant, SHORTAGE_S, run.progress)
    name = f"failing allocations and memory cgroups, debug flavour ({cpus} CPU)"
    detail = "\n".join((*report.problems[:20], report.boot.describe()))
    return _verdict(name, variant.name, report.ok, detail)


def _plain(run: Run) -> Iterator[Item]:
    """The attacks on a kernel as one would ship it, where no assertion is in their way."""
    if attack.FLAVOUR not in run.target.flavours:
        return
    chosen = _enforcing(run, "plain flavour")
    if isinstance(chosen, Item):
        yield chosen
        return
    on, label = run.variant("on"), ", plain flavour"
    made = kernels.workbench(run.target, on, chosen, run.progress, flavour=attack.FLAVOUR)
    yield from _attacks(run, made, label, attack.FLAVOUR)
    for way in run.target.ways:
        if way.enforces:
            yield from _attacks(run, made.by(way), f", {way.name}{label}", attack.FLAVOUR)


def _distro(run: Run) -> Iterator[Item]:
    """The same with the configuration of a distribution: all that our work has to live with."""
    if distro.FLAVOUR not in run.target.flavours:
        return
    chosen = _enforcing(run, "distro flavour")
    if isinstance(chosen, Item):
        yield chosen
        return
    on, label = run.variant("on"), ", distro flavour"
    made = kernels.workbench(run.target, on, chosen, run.progress, flavour=distro.FLAVOUR)
    yield from _without_keys(run, made, label)
    yield from _flavour(run, made, label)
    yield from _life(run, made, label, lifecycle.ALL)


def _selftests(run: Run) -> Iterator[Item]:
    """The kernel's own tests of mm, which have to give what they give on the pristine kernel."""
    name, on = "selftests/mm as on pristine", run.variant("on")
    if selftests.FLAVOUR not in run.target.flavours:
        return
    chosen = _enforcing(run, name)
    if isinstance(chosen, Item):
        yield chosen
        return
    report = selftests.check(run.target, on, chosen, run.progress)
    failed = len(report.wrong) + len(report.complaints) + len(report.unprotected)
    # Nothing that passed is a failure, too.
    failed = failed or int(not report.ok)
    others = len(report.not_run) + len(report.failing) + len(report.unstable)
    detail = "\n".join(selftests.render(report))
    yield Item(name, on.name, len(report.passed), failed, others, detail)


def _stress_ng(run: Run, flavour: str | None = None) -> Iterator[Item]:
    """A little of stress-ng; `redoubt stress` is for long, and chooses the flavour as this does."""
    plain = ", plain kernel" if flavour == "" else ""
    name, on = f"{STRESS_NG_S} s of stress-ng{plain}", run.variant("on")
    chosen = _enforcing(run, name)
    if isinstance(chosen, Item):
        yield chosen
        return
    machine = stress.machine(run.target, on, chosen, run.progress, flavour)
    report = stress.run(machine, on, run.progress, seconds=STRESS_NG_S)
    detail = "\n".join((*report.problems[:20], report.boot.describe()))
    yield replace(_verdict(name, on.name, report.ok, detail), skipped=len(report.left_out))


@dataclass(frozen=True)
class _Step:
    """A part of the run, about one target or about none ("-")."""

    name: str
    target: str
    items: Callable[[], Iterator[Item]]
    slow: bool = False


def _steps(runs: Sequence[Run]) -> Iterator[_Step]:
    """Everything, what is about no target once."""
    one = runs[0]

    # That kernel is one of these with an option more: what is not about that is not done again.
    encrypted = [run for run in runs if run.target.keyid_bits]
    plain = [run for run in runs if run not in encrypted]
    mapped = [run for run in plain if run.target.observers]
    seen = [run for run in plain if oracle.FLAVOUR in run.target.flavours]
    isolated = [run for run in plain if asi.possible(run.target)]
    # One is enough, and not UML, which may be emulated twice.
    briefly = ([run for run in plain if run.target.emulator] or plain)[:1]

    def each(
        name: str,
        step: Callable[[Run], Iterator[Item]],
        among: Sequence[Run] = plain,
        *,
        slow: bool = False,
    ) -> Iterator[_Step]:
        for run in among:
            yield _Step(name, run.target.name, partial(step, run), slow)

    yield _Step("tool", "-", partial(_unit, one))
    yield from each("boots", _booted)
    yield from each("oracle", _oracle, seen)
    yield from each("address space isolation", _isolation, isolated)
    yield from each("stress-ng, plain kernel", partial(_stress_ng, flavour=""), briefly)
    yield from each("memory under several keys", _encryption, encrypted)
    yield from each("linear map", _linear_map, mapped)
    yield _Step("tool, with guests", "-", partial(_guests, one))
    yield from each("audit", _audit)
    yield _Step("series", "-", partial(_series, plain or runs))
    yield from each("offcheck", _offcheck, slow=True)
    yield from each("plain flavour", _plain, slow=True)
    yield from each("debug flavour", _debug, slow=True)
    yield from each("distro flavour", _distro, slow=True)
    yield from each("oracle flavour", partial(_oracle, flavour=oracle.FLAVOUR), seen, slow=True)
    yield from each("selftests", _selftests, slow=True)
    yield from each("stress-ng", _stress_ng, slow=True)
    yield from each("linear map, flavours", _linear_map_flavours, mapped, slow=True)


def _chosen(runs: Sequence[Run], only: Collection[str]) -> list[_Step]:
    """The steps of these names, slow or not; without any, all that the runs ask for."""
    steps = list(_steps(runs))
    known = list(dict.fromkeys(step.name for step in steps))
    for name in only:
        if name not in known:
            raise RedoubtError(
                f"there is no step {name!r} in these tests", f"steps: {'; '.join(known)}"
            )
    if only:
        return [step for step in steps if step.name in only]
    return [step for step in steps if runs[0].long or not step.slow]


def _done(step: _Step) -> Iterator[Item]:
    """The items of a step. One that cannot run at all is a failure with the reason."""
    try:
        for item in step.items():
            yield replace(item, target=step.target)
    except RedoubtError as error:
        hint = f"\n{error.hint}" if error.hint else ""
        yield Item(step.name, "-", 0, 1, 0, error.message + hint, step.target)


def run_all(
    runs: Sequence[Run], show: Callable[[Item], None], only: Collection[str] = ()
) -> list[Item]:
    """Run everything, for one run or for several that differ by their targets.

    Or the steps of some names only, slow ones even if the runs are not long. `show` gets each item
    when it is done. Steps run side by side where there are CPUs for it, and the items come back in
    the order of the steps.

    Raises RedoubtError if there is no step of such a name.
    """
    steps = _chosen(runs, only)
    items: list[list[Item]] = [[] for _ in steps]

    def job(number: int, progress: Progress) -> Iterator[Item]:
        own = [replace(run, progress=progress) for run in runs]
        yield from _done(_chosen(own, only)[number])

    def add(number: int, item: Item) -> None:
        items[number].append(item)
        show(item)

    jobs = [partial(job, number) for number in range(len(steps))]
    for number in lanes.side_by_side(jobs, AT_ONCE, runs[0].progress, add):
        step = steps[number]
        add(number, Item(step.name, "-", 0, 1, 0, "it ended before it was through", step.target))
    return [item for of_step in items for item in of_step]
