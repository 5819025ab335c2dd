# SPDX-License-Identifier: GPL-2.0-only
"""Kernels that are booted: KUnit, attacks, the checker, and machines without keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from redoubt.linux import source
from redoubt.machine import guest, host, kernels
from redoubt.machine.boot import Machine, Result, boot
from redoubt.suite.run import Item, Run, outcome_item, verdict
from redoubt.targets import Variant, Way
from redoubt.trial import attack, check, ktap, lifecycle
from redoubt.trial.case import FAILED, PASSED, SKIPPED, Case

# Seconds of guest time. The emulated host does in them what silicon does in one or two.
STRESS_S = 60
LONG_STRESS_S = 120
_KUNIT_STARTS = 2
_TRUE = ("/bin/cat", "/proc/version")
_ONLINE = "/sys/devices/system/cpu/online"


def _boot(run: Run, machine: Machine, name: str, command: Sequence[str] = _TRUE) -> Result:
    return boot(machine, command, timeout=run.patience_s, name=name, progress=run.progress)


def _in_a_file_name(label: str) -> str:
    return label.replace(", ", "-").replace(" ", "-")


def kunit(
    run: Run,
    made: kernels.Workbench,
    variant: Variant,
    *,
    cpus: int = 1,
    label: str = "",
) -> Iterator[Item]:
    """Our KUnit suites while the kernel boots."""
    name = f"{run.target.name}-{variant.name}-{cpus}{_in_a_file_name(label)}"
    with run.progress.step(f"KUnit on {run.target.name} ({variant.name}, {cpus} CPU)"):
        for _ in range(_KUNIT_STARTS):
            result = _boot(run, made.kunit_machine(variant, cpus=cpus), f"kunit-{name}")
            # Seldom a console loses a line. What a kernel never says is missing once more.
            if not _well(result) or not ktap.incomplete(_parsed(run, result)):
                break
            run.progress.detail("a line of the results is missing")
    yield from suites(run, result, variant, cpus, label)
    booted = f"boot with KUnit{label} ({cpus} CPU)"
    yield verdict(booted, variant.name, _well(result), *result.splats, result.describe())


def kunit_list(run: Run, made: kernels.Workbench, variant: Variant) -> Result:
    """Boot a kernel that names its KUnit tests, and runs none."""
    machine = made.kunit_machine(variant, "kunit.action=list")
    return _boot(run, machine, f"kunit-list-{run.target.name}")


def _well(result: Result) -> bool:
    """Did a boot with KUnit end well? Its tests provoke violations, which are no splats."""
    return result.outcome == "finished" and result.status == 0 and not result.splats


def suites(run: Run, result: Result, variant: Variant, cpus: int, label: str) -> Iterator[Item]:
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
            suite.passed, suite.failed, suite.skipped, detail, cases=suite.cases,
        )  # fmt: skip


def _parsed(run: Run, result: Result) -> list[ktap.Suite]:
    return ktap.parse(source.obtain(run.progress).path, result.console)


def attacks(
    run: Run, made: kernels.Workbench, label: str = "", flavour: str = ""
) -> Iterator[Item]:
    """All attacks, with protection off and on."""
    options = made.build.configuration()
    for variant in (run.variant("off"), run.variant("on")):
        attacks, outcomes, result = attack.run(
            made.attack_machine(variant), variant, run.progress, flavour=flavour
        )
        good, bad, absent = [], [], []
        for known, outcome in zip(attacks, outcomes, strict=True):
            if outcome.outcome == attack.ABSENT:
                absent.append(Case(known.name, SKIPPED, outcome.detail))
            elif attack.as_expected(known, outcome, variant, options):
                good.append(Case(known.name, PASSED))
            else:
                why = f"{outcome.outcome}, {outcome.detail}"
                bad.append(Case(known.name, FAILED, why))
        told = [f"{case.name}: {case.why}" for case in bad or absent]
        detail = "\n".join((*told, result.describe()) if bad else told)
        yield Item(
            "attacks" + label, variant.name, len(good), len(bad), len(absent), detail,
            cases=(*good, *bad, *absent),
        )  # fmt: skip


def _policies(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """A violation takes the machine down if that is wanted, of it or of any oops."""
    on = run.variant("on")
    for policy, attack_name, last_words in (
        ("kpkeys.violation=panic", "own-pte", "kpkeys: violation"),
        # By a write that tolerates faults.
        ("kpkeys.violation=panic", "tolerated-write", "kpkeys: violation"),
        ("oops=panic", "own-pte", "Fatal exception"),
    ):
        with run.progress.step(f"Attacking with {policy} ({attack_name})"):
            machine = made.machine(on, policy, attacks=True)
            name = f"{_in_a_file_name(policy)}-{run.target.name}-{attack_name}"
            result = _boot(run, machine, name, [guest.ATTACK, attack_name])
        good = result.outcome == "panic" and last_words in result.detail
        if policy == "oops=panic" and run.target.arch != "um":
            # As the architecture says of any oops, after which it saves memory (kdump).
            good &= any(": kpkeys violation: " in line for line in result.console)
        yield verdict(f"{policy}, {attack_name}", on.name, good, result.describe())


def checks(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """The checker, with two CPUs for long and with one."""
    yield checked(run, made, LONG_STRESS_S if run.long else STRESS_S, cpus=2)
    yield checked(run, made, 10, cpus=1)


def checked(run: Run, made: kernels.Workbench, seconds: int, *, cpus: int, label: str = "") -> Item:
    """The checker after boot and after so much stress."""
    on = run.variant("on")
    machine = made.machine(on, cpus=cpus)
    report = check.run(machine, on, seconds, run.progress, _in_a_file_name(label))
    name = f"checker and {seconds} s of stress{label} ({cpus} CPU)"
    details = (
        f"{report.walks}, {report.operations} operations, {report.stress_errors} wrong",
        *map(str, report.audits or ()),
        *(f"left out: {kind}" for kind in report.missing),
        *report.wrong[:10],
        *report.exceptions[:10],
        *report.splats[:10],
        report.boot.describe(),
    )
    return verdict(name, on.name, report.ok, *details)


def without_keys(run: Run, made: kernels.Workbench, label: str = "") -> Iterator[Item]:
    """A machine without protection keys: one line says so, and everything else works."""
    on = run.variant("on")
    ways = run.target.no_keys
    for number, way in enumerate(ways):
        name = f"nokeys-{run.target.name}{_in_a_file_name(label)}"
        name += f"-{number + 1}" if number else ""
        result = _boot(run, made.keyless_machine(on, way), name)
        said = [line for line in result.console if "kpkeys: page tables not hardened: " in line]
        good = result.status == 0 and len(said) == 1 and not result.complaints
        name = f"no protection keys{label}" + (f" ({way})" if len(ways) > 1 else "")
        yield verdict(name, on.name, good, result.describe())


def odd_cpu(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """A second CPU without protection keys: it stays off, which one line says."""
    if not run.target.odd_cpu:
        return
    on = run.variant("on")
    machine = replace(made.machine(on, cpus=2), cpu=run.target.odd_cpu)
    result = _boot(run, machine, f"oddcpu-{run.target.name}", ["/bin/cat", _ONLINE])
    refused = [line for line in result.console if "CPU1: Detected conflict for capability" in line]
    good = result.status == 0 and len(refused) == 1 and "0" in result.console
    yield verdict("a CPU without protection keys", on.name, good, result.describe())


def _protection(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    on, off = run.variant("on"), run.variant("off")
    yield from kunit(run, made, on)
    yield from kunit(run, made, off)
    if run.quick:
        yield from attacks(run, made)
        return
    yield from kunit(run, made, run.variant("on-unbatched"))
    yield from kunit(run, made, on, cpus=2)
    yield from odd_cpu(run, made)
    yield running(run, made)
    yield from _programs(run, made)
    yield from attacks(run, made)
    yield from _policies(run, made)
    yield from checks(run, made)
    for way in run.target.ways:
        yield from other_way(run, made.by(way), way)


def _programs(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """What user mode sees of its own keys."""
    for program in run.target.programs:
        name = program.rpartition("/")[2]
        with run.progress.step(f"Running {name} on {run.target.name}"):
            machine = made.machine(run.variant("on"))
            result = _boot(run, machine, f"{name}-{run.target.name}", [program])
        good = result.status == 0 and not result.complaints
        yield verdict(name, "on", good, *result.complaints, result.describe())


def running(run: Run, made: kernels.Workbench) -> Item:
    """KUnit once more, on a kernel that has booted."""
    machine = made.machine(run.variant("on"), cpus=2)
    kernel = source.obtain(run.progress).path
    with run.progress.step(f"KUnit on {run.target.name} after the boot"):
        outcome = lifecycle.running(machine, kernel, run.progress, timeout=run.patience_s)
    return outcome_item(outcome.name, outcome)


def other_way(
    run: Run, made: kernels.Workbench, way: Way, flavour_label: str = ""
) -> Iterator[Item]:
    """What must hold however the kernel is booted."""
    label = f", {way.name}{flavour_label}"
    yield from kunit(run, made, run.variant("on"), cpus=4, label=label)
    yield from attacks(run, made, label)
    # With the kernel asserting that each level that was raised is lowered.
    yield checked(run, made, 10, cpus=2, label=label)


def _skipped(why: str) -> Iterator[Item]:
    for variant in ("off", "on"):
        for name in ("KUnit", "attacks"):
            yield Item(name, variant, 0, 0, 1, why)
    yield Item("checker and stress", "on", 0, 0, 1, why)


def booted(run: Run) -> Iterator[Item]:
    """Boot without keys; with them, run KUnit, attacks and checker, protection on and off."""
    chosen = host.enforcing(run.target, run.host_choice)
    problem = host.lacking(run.target, run.host_choice)
    if problem and run.target.emulator:
        yield Item("no protection keys", "on", 0, 0, 1, problem.message)
        yield from _skipped(problem.message)
        return
    made = kernels.workbench(
        run.target, run.variant("on"), chosen or host.plain(run.target), run.progress
    )
    yield from without_keys(run, made)
    if problem:
        yield from _skipped(problem.message)
    else:
        yield from _protection(run, made)


def noticing(run: Run, made: kernels.Workbench) -> Iterator[Item]:
    """What notices that page tables cannot be written where they have to be, or can elsewhere.

    The cheapest first, each item when it is asked for.
    """
    on = run.variant("on")
    yield boot_alone(run, made)
    yield from without_keys(run, made)
    yield from odd_cpu(run, made)
    for variant, cpus in ((on, 1), (on, 2), (run.variant("on-unbatched"), 1)):
        yield from kunit(run, made, variant, cpus=cpus)
    yield running(run, made)
    yield from checks(run, made)
    yield from attacks(run, made)
    for way in run.target.ways:
        yield from other_way(run, made.by(way), way)


def boot_alone(run: Run, made: kernels.Workbench) -> Item:
    """Nothing but a boot."""
    on = run.variant("on")
    with run.progress.step(f"Booting {run.target.name} ({on.name})"):
        result = _boot(run, made.machine(on), f"alone-{run.target.name}")
    good = result.status == 0 and not result.complaints
    return verdict("boot", on.name, good, *result.complaints, result.describe())
