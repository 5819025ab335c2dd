# SPDX-License-Identifier: GPL-2.0-only
"""The command line: the only part that prints and exits."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from redoubt import (
    asi,
    cover,
    figures,
    kernels,
    mutants,
    paths,
    plots,
    process,
    provenance,
    shipped,
    stats,
    tables,
    workloads,
)
from redoubt import (
    attack as attack_module,
)
from redoubt import (
    audit as audit_module,
)
from redoubt import (
    bench as bench_module,
)
from redoubt import (
    boot as boot_module,
)
from redoubt import (
    check as check_module,
)
from redoubt import (
    conversions as conversions_module,
)
from redoubt import (
    deb as deb_module,
)
from redoubt import (
    doctor as doctor_module,
)
from redoubt import (
    exits as exits_module,
)
from redoubt import (
    flushes as flushes_module,
)
from redoubt import (
    hardening as hardening_module,
)
from redoubt import (
    host as host_module,
)
from redoubt import (
    htmldocs as htmldocs_module,
)
from redoubt import (
    linear_map as linear_map_module,
)
from redoubt import (
    lint as lint_module,
)
from redoubt import (
    mktme as mktme_module,
)
from redoubt import (
    mutate as mutate_module,
)
from redoubt import (
    offcheck as offcheck_module,
)
from redoubt import (
    oracle as oracle_module,
)
from redoubt import (
    port as port_module,
)
from redoubt import (
    prices as prices_module,
)
from redoubt import (
    recipients as recipients_module,
)
from redoubt import (
    report as report_module,
)
from redoubt import (
    selftests as selftests_module,
)
from redoubt import (
    series as series_module,
)
from redoubt import (
    source as source_module,
)
from redoubt import (
    stress as stress_module,
)
from redoubt import (
    suite as suite_module,
)
from redoubt import (
    tree as tree_module,
)
from redoubt.errors import Interrupted, RedoubtError
from redoubt.targets import TARGETS, Target, Variant, get_target, get_variant

app = typer.Typer(
    help="Fetch, build, boot, attack, check and measure a hardened Linux kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

TargetArg = Annotated[str, typer.Argument(help=f"One of: {', '.join(TARGETS)}.")]
VariantOpt = Annotated[
    str, typer.Option("--variant", help="pristine (Linux as it is), off, or on.")
]
HostOpt = Annotated[
    str,
    typer.Option(
        "--host",
        help="Where um runs: native, emulated (QEMU), or auto: the first that has PKU. "
        "Other targets always run on a machine emulated by QEMU.",
    ),
]
AppendOpt = Annotated[
    list[str] | None, typer.Option(help="A further kernel argument; may be repeated.")
]
JsonOpt = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file.", dir_okay=False)
]


class Display:
    """Shows steps: a spinner when a person watches, plain lines when not."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.titles: list[str] = []

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a step until it is done; one that begins meanwhile takes over the line."""
        started = time.monotonic()
        self.titles.append(title)
        try:
            if err.is_terminal:
                if self.status is None:
                    self.status = err.status(escape(title))
                    self.status.start()
                self.status.update(escape(title))
            else:
                err.print(f"{title} ...", markup=False)
            yield
        finally:
            # Not always the last: steps side by side end in any order.
            self.titles.remove(title)
            if self.status and self.titles:
                self.status.update(escape(self.titles[-1]))
            elif self.status:
                self.status.stop()
                self.status = None
        seconds = time.monotonic() - started
        if err.is_terminal and seconds >= 1:
            err.print(f"{title}: {seconds:.0f} s", markup=False, style="dim")

    def detail(self, text: str) -> None:
        """Show how far the step is, to a person only."""
        if self.status:
            self.status.update(f"{escape(self.titles[-1])}  [dim]{escape(text[:60])}[/dim]")


_UNFINISHED = (
    source_module.UNFINISHED,
    tree_module.UNFINISHED,
    port_module.UNFINISHED,
    shipped.UNFINISHED,
    deb_module.UNFINISHED,
    htmldocs_module.UNFINISHED,
)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep two runs from building in the same directory."""
    directory = paths.build_dir()

    def waiting() -> contextlib.nullcontext[None]:
        err.print(f"waiting for another redoubt that works in {directory}", markup=False)
        return contextlib.nullcontext()

    with process.alone("run", waiting):
        # What a run left that was killed: nobody else works here now.
        for pattern in _UNFINISHED:
            for left in directory.glob(pattern):
                shutil.rmtree(left, ignore_errors=True)
        yield


def _write_bytes(file: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    partial = file.with_name(file.name + ".partial")
    try:
        partial.write_bytes(data)
        partial.rename(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise RedoubtError(f"cannot write {file}: {error.strerror}") from error


def _write_json(file: Path | None, value: Any) -> None:
    """Write a value as JSON; a string is JSON already."""
    if file is not None:
        text = value if isinstance(value, str) else json.dumps(value, indent=2) + "\n"
        _write_bytes(file, text.encode())


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        out.print(line, markup=False)


def _targets(names: Iterable[str]) -> list[Target]:
    """The targets of these names, each once."""
    return [get_target(name) for name in dict.fromkeys(names)]


def _workbench(
    target: str, variant: str, host: str, display: Display
) -> tuple[Target, Variant, kernels.Workbench]:
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    return chosen, way, kernels.workbench(chosen, way, host_module.pick(chosen, host), display)


def _isolated(
    target: str, variant: str, display: Display
) -> tuple[Target, Variant, kernels.Workbench]:
    """The same, of a target whose kernel has address space isolation; an error for any other."""
    asi.needs(get_target(target))
    with _alone():
        return _workbench(target, variant, "auto", display)


def _needs_enforcing(target: Target, host: str) -> str:
    """The host on which protection keys work; an error if there is none."""
    if problem := host_module.lacking(target, host):
        raise problem
    return host_module.pick(target, host)


# === Verbs =======================================================================================


@app.command()
def doctor() -> None:
    """Say what this machine has and lacks, and what mends it."""
    findings = doctor_module.examine()
    for finding in findings:
        mark = "ok" if finding.ok else ("MISSING" if finding.needed else "no")
        out.print(f"{mark:8} {finding.name}: {finding.detail}", markup=False)
    missing = [finding for finding in findings if finding.needed and not finding.ok]
    for fix in dict.fromkeys(finding.fix for finding in missing if finding.fix):
        out.print(f"mend with: {fix}", markup=False)
    raise typer.Exit(1 if missing else 0)


@app.command()
def source() -> None:
    """Obtain and unpack the pristine kernel, or check the one in LINUX_SRC."""
    with _alone():
        found = source_module.obtain(Display())
    out.print(f"Linux {found.version} in {found.path}", markup=False)


@app.command()
def tree() -> None:
    """Make our tree: pristine source, the files of kernel/, all patches."""
    with _alone():
        out.print(str(kernels.our_tree(Display())), markup=False)


@app.command()
def build(target: TargetArg, variant: VariantOpt = "on") -> None:
    """Configure and build a kernel."""
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    with _alone():
        built = kernels.prepare(chosen, way, Display())
    out.print(str(built.directory / chosen.image), markup=False)


@app.command(context_settings={"ignore_unknown_options": True})
def run(
    target: TargetArg,
    command: Annotated[
        list[str] | None, typer.Argument(help="A command for the guest (put -- before it).")
    ] = None,
    variant: VariantOpt = "on",
    host: HostOpt = "auto",
    cpus: Annotated[int, typer.Option(help="CPUs of the guest.", min=1, max=2)] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds for the command.", min=1)] = 300,
    append: AppendOpt = None,
) -> None:
    """Boot a kernel: with a shell, or to run a command and exit with its status."""
    display = Display()
    with _alone():
        _, way, made = _workbench(target, variant, host, display)
        machine = made.machine(way, *(append or ()), cpus=cpus)
    if not command:
        raise typer.Exit(boot_module.interactive(machine, display))
    result = boot_module.boot(
        machine,
        command,
        timeout=timeout,
        name=f"run-{target}",
        progress=display,
        watch=lambda line: out.print(line, markup=False),
    )
    # An oops leaves the rest of the guest running: the command may well have ended with 0.
    if result.outcome != "finished" or (result.complaints and not result.status):
        raise RedoubtError(result.describe())
    if result.complaints:
        err.print(f"redoubt: {result.describe()}", markup=False, style="red")
    raise typer.Exit(result.status or 0)


@app.command()
def attack(
    target: TargetArg,
    host: HostOpt = "auto",
    flavour: Annotated[
        str,
        typer.Option(
            help=f"Of the kernel; {attack_module.FLAVOUR} is one as one would ship it: without "
            "assertions, of which some are in the way of attacks."
        ),
    ] = "",
    repeat: Annotated[int, typer.Option(help="How often to run each attack.", min=1, max=1000)] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="The name of an attack; may be repeated.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Run the same exploits against the kernel without and with protection."""
    display = Display()
    chosen = get_target(target)
    off, on = get_variant(chosen, "off"), get_variant(chosen, "on")
    with _alone():
        made = kernels.workbench(
            chosen, on, _needs_enforcing(chosen, host), display, flavour=flavour
        )
    attacks: list[attack_module.Attack] = []
    found: dict[tuple[str, str], attack_module.Outcome] = {}
    consoles = {}
    for variant in (off, on):
        offered, outcomes, result = attack_module.run(
            made.attack_machine(variant), variant, display,
            flavour=flavour, times=repeat, only=only or (),
        )  # fmt: skip
        if attacks and [known.name for known in offered] != [known.name for known in attacks]:
            raise RedoubtError("the boots offer different attacks: " + result.describe())
        attacks = offered
        consoles[variant.name] = result
        found |= {(outcome.attack, variant.name): outcome for outcome in outcomes}
    _write_json(json_file, [outcome.as_json() for outcome in found.values()])

    _show_attacks(chosen, attacks, found, made.host, repeat)
    wrong = [
        (known, variant)
        for known in attacks
        for variant in (off, on)
        if found[known.name, variant.name].outcome != attack_module.ABSENT
        and not attack_module.as_expected(known, found[known.name, variant.name], variant)
    ]
    for name in dict.fromkeys(variant.name for _, variant in wrong):
        err.print(f"\n{name}: {consoles[name].describe()}", markup=False)
    if wrong:
        raise RedoubtError(
            "not as it should be: " + ", ".join(f"{a.name} ({v.name})" for a, v in wrong)
        )


_ATTACK_MARKS = {
    attack_module.SUCCEEDED: ("red", "SUCCEEDED"),
    attack_module.BLOCKED: ("green", "BLOCKED"),
    attack_module.ABSENT: ("dim", "NOT HERE"),
}


def _attack_mark(outcome: attack_module.Outcome, repeat: int) -> str:
    """What came of an attack, and of how many of its runs."""
    style, word = _ATTACK_MARKS.get(outcome.outcome, ("yellow", "ERROR"))
    if repeat > 1 and outcome.outcome in outcome.counts:
        word += f" {outcome.counts[outcome.outcome]}/{repeat}"
    return f"[{style}]{word:14}[/{style}]"


def _show_attacks(
    target: Target,
    attacks: list[attack_module.Attack],
    found: dict[tuple[str, str], attack_module.Outcome],
    host: str,
    repeat: int,
) -> None:
    where = "this CPU's protection keys" if host == host_module.NATIVE else (
        "the protection keys of a CPU emulated by QEMU"
    )  # fmt: skip
    out.print(f"\nLinux on {target.name}, {where}; attacker: an unprivileged user.\n", markup=False)
    for in_scope, title in ((True, "ATTACKS ON PAGE TABLES"), (False, "OUT OF SCOPE")):
        chosen = [known for known in attacks if known.in_scope == in_scope]
        if not chosen:
            continue
        out.print(f"[bold]{title:24}  protection off  protection on[/bold]")
        for known in chosen:
            outcomes = {way: found[known.name, way] for way in ("off", "on")}
            marks = [_attack_mark(outcome, repeat) for outcome in outcomes.values()]
            out.print(f"{known.name:24}  {'  '.join(marks)}")
            out.print(f"    {known.description}", markup=False)
            if len(outcomes["off"].counts) > 1:
                out.print(f"    off: {outcomes['off'].detail}", markup=False, style="dim")
            out.print(f"    on: {outcomes['on'].detail}", markup=False, style="dim")
        out.print()


@app.command()
def check(
    target: TargetArg,
    variant: VariantOpt = "on",
    host: HostOpt = "auto",
    stress: Annotated[int, typer.Option(help="Seconds of stress between two checks.", min=0)] = 0,
    cpus: Annotated[int, typer.Option(help="CPUs of the guest.", min=1, max=2)] = 2,
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Ask a running kernel whether every page table is protected, before and after stress."""
    display = Display()
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    with _alone():
        made = kernels.workbench(chosen, way, _needs_enforcing(chosen, host), display)
    machine = made.machine(way, *(append or ()), cpus=cpus)
    report = check_module.run(machine, way, stress, display)
    if json_file:
        _write_json(json_file, report.as_json() | provenance.collect(sys.argv[1:]))
    for when, walk in zip(("after boot", "after stress"), report.walks, strict=False):
        out.print(
            f"{when}: {walk.tables} page table pages, {walk.untagged} untagged, "
            f"{walk.aliases} writable aliases, {walk.foreign} foreign pages tagged",
            markup=False,
        )
    for audit in report.audits or ():
        out.print(
            f"restricted direct map: {audit.sensitive} sensitive pageblocks, {audit.ordinary} "
            f"others, {audit.leaks} leaks, {audit.stale} stale entries, {audit.missing} missing",
            markup=False,
        )
    if stress:
        out.print(
            f"stress: {report.operations} operations, {report.stress_errors} wrong", markup=False
        )
        if report.left_out:
            out.print(f"left out: {', '.join(report.left_out)}", markup=False)
        if report.missing:
            out.print(f"configured, but left out: {', '.join(report.missing)}", markup=False)
    _print_lines([*report.wrong, *report.exceptions])
    if not report.ok:
        raise RedoubtError("the check failed: " + report.boot.describe())


@app.command()
def exits(
    target: TargetArg,
    variant: VariantOpt = "on",
    times: Annotated[
        int, typer.Option(min=1, help="How often each operation is done.")
    ] = exits_module.TIMES,
    cpus: Annotated[
        int, typer.Option(help="CPUs of the guest. With 2 nothing is exact.", min=1, max=2)
    ] = 1,
    price: Annotated[
        list[str] | None, typer.Option(help="Of an event on a real machine, EVENT=NS.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Count how often operations leave the restricted address space, and why."""
    display = Display()
    origin = provenance.collect(sys.argv[1:])
    list_of = prices_module.chosen(price or [])
    chosen, way, made = _isolated(target, variant, display)
    report = exits_module.run(
        made, way, times, display, ways=list(exits_module.WAYS), cpus=cpus
    )  # fmt: skip
    origin |= {"target": chosen.name, "variant": way.name, "cpus": cpus}
    origin["prices"] = {event: asdict(price) for event, price in list_of.items()}
    _write_json(json_file, report.as_json() | origin)
    _print_lines([*exits_module.render(report), "", *exits_module.render_priced(report, list_of)])
    if not report.ok:
        raise RedoubtError("more exits than there may be, or the kernel complained")


@app.command()
def flushes(
    target: TargetArg = "x86_64-mktme",
    variant: VariantOpt = "on",
    times: Annotated[
        int, typer.Option(min=1, help="How often the shortest operations are done.")
    ] = flushes_module.TIMES,
    price: Annotated[
        list[str] | None, typer.Option(help="Of an event on a real machine, EVENT=NS.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Count the pages that are flushed if all anonymous memory is under a KeyID, and why."""
    display = Display()
    origin = provenance.collect(sys.argv[1:])
    list_of = prices_module.chosen(price or [])
    chosen = get_target(target)
    mktme_module.needs(chosen)
    way = get_variant(chosen, variant)
    place = host_module.pick(chosen, "auto")
    with _alone():
        made = kernels.workbench(chosen, way, place, display)
    report = flushes_module.run(made, way, times, display)
    origin |= {"target": chosen.name, "variant": way.name, "memory_mb": made.memory_mb}
    origin["prices"] = {event: asdict(price) for event, price in list_of.items()}
    _write_json(json_file, report.as_json() | origin)
    _print_lines(
        [
            *flushes_module.render(report),
            "",
            *flushes_module.render_instructions(report),
            "",
            *flushes_module.render_priced(report, list_of),
        ]
    )
    if not report.ok:
        raise RedoubtError("flushes were counted wrongly, or the kernel complained")


@app.command()
def conversions(target: TargetArg, variant: VariantOpt = "on", json_file: JsonOpt = None) -> None:
    """Count how often pageblocks change their kind under address space isolation."""
    display = Display()
    origin = provenance.collect(sys.argv[1:])
    chosen, way, made = _isolated(target, variant, display)
    report = conversions_module.run(made, way, display)
    _write_json(json_file, report.as_json() | {"target": chosen.name, "variant": way.name} | origin)
    _print_lines(list(conversions_module.render(report)))
    if not report.ok:
        raise RedoubtError(f"{len(report.problems)} complaints or failed allocations")


@app.command()
def oracle(
    target: TargetArg,
    root: Annotated[
        str,
        typer.Option(
            help="Page tables: current, in which everything has to be found, or restricted, in "
            "which nothing of it may be."
        ),
    ] = "current",
    mistake: Annotated[
        bool,
        typer.Option(
            "--mistake", help="Map a page of a secret on purpose where it must not be: it is found."
        ),
    ] = False,
    variant: VariantOpt = "on",
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Stop a guest and find out from outside which secrets of others its page tables reach."""
    display = Display()
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    oracle_module.needs(chosen, root, mistake)
    place = host_module.pick(chosen, "auto")
    origin = provenance.collect(sys.argv[1:])
    with _alone():
        made = kernels.workbench(chosen, way, place, display, flavour=oracle_module.FLAVOUR)
    machine = made.machine(way, *(append or ()), attacks=mistake)
    report = oracle_module.run(machine, root, display, mistake=mistake)
    _write_json(json_file, report.as_json() | {"variant": way.name} | origin)
    _print_lines(oracle_module.render(report))
    if not report.ok:
        raise RedoubtError(
            f"what the page tables '{root}' reach is not what it should be",
            f"the guest's console: {report.boot.log}",
        )


@app.command()
def mktme(
    target: TargetArg = "x86_64-mktme",
    bug: Annotated[
        str | None,
        typer.Option(
            help="Make a mistake on purpose, which must be noticed. One of: "
            f"{', '.join(mktme_module.NOTICED_BY)}."
        ),
    ] = None,
    bits: Annotated[int, typer.Option(help="Of a KeyID, of the machine.")] = 2,
    variant: VariantOpt = "on",
) -> None:
    """Use memory under several keys, and look from outside where its data lies."""
    display = Display()
    chosen = get_target(target)
    mktme_module.needs(chosen)
    way = get_variant(chosen, variant)
    place = host_module.pick(chosen, "auto")
    with _alone():
        made = kernels.workbench(chosen, way, place, display)
    one, two = (mktme_module.with_bits(made.machine(way, cpus=n), bits) for n in (1, 2))
    if bug:
        outcomes = [mktme_module.notices(one, bug, display)]
    else:
        outcomes = [
            mktme_module.checks(one, display),
            mktme_module.interface(two, display),
            *(mktme_module.around(two, packages, display) for packages in (1, 2)),
            mktme_module.shared(two, display),
        ]
        seen, views = mktme_module.outside(one, display)
        _print_lines([*mktme_module.counts(outcomes[0].boot), *mktme_module.render(views)])
        outcomes.append(seen)
    wrong = [f"{one.name}: {problem}" for one in outcomes for problem in one.problems]
    _print_lines(wrong or [f"{one.name}: ok" for one in outcomes])
    if wrong:
        raise RedoubtError(
            "memory under several keys is not what it should be",
            f"the guest's console: {outcomes[-1].boot.log}",
        )


@app.command()
def stress(
    target: TargetArg,
    minutes: Annotated[int, typer.Option(help="Of guest time.", min=1, max=1440)] = 10,
    variant: VariantOpt = "on",
    host: HostOpt = "auto",
    flavour: Annotated[
        str | None,
        typer.Option(help="Of the kernel, as debug; the one that stressors need if none."),
    ] = None,
    append: AppendOpt = None,
    json_file: JsonOpt = None,
) -> None:
    """Stress a kernel for long by stress-ng: is all protected, and nothing lost?"""
    display = Display()
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    origin = provenance.collect(sys.argv[1:])
    with _alone():
        place = _needs_enforcing(chosen, host) if way.protected else host_module.pick(chosen, host)
        machine = stress_module.machine(chosen, way, place, display, flavour, append or ())
    report = stress_module.run(machine, way, display, seconds=60 * minutes)
    _write_json(json_file, report.as_json() | origin)
    _print_lines(list(stress_module.render(report)))
    if not report.ok:
        raise RedoubtError(
            "the stress failed: " + "\n    ".join(report.problems),
            f"its console: {report.boot.log}",
        )


@app.command()
def selftests(
    target: TargetArg,
    categories: Annotated[
        list[str] | None, typer.Argument(help="Of run_vmtests.sh, as thp or cow; all if none.")
    ] = None,
    variant: VariantOpt = "on",
    json_file: JsonOpt = None,
) -> None:
    """Run the kernel's own tests of mm on the pristine kernel and on ours, and compare."""
    display = Display()
    chosen = get_target(target)
    origin = provenance.collect(sys.argv[1:])
    with _alone():
        host = _needs_enforcing(chosen, "auto")
        report = selftests_module.check(
            chosen, get_variant(chosen, variant), host, display, categories or ()
        )
    _write_json(json_file, report.as_json() | origin)
    _print_lines(list(selftests_module.render(report)))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def audit(target: TargetArg, json_file: JsonOpt = None) -> None:
    """List every instruction of the image that writes the pkey register, and judge it."""
    chosen = get_target(target)
    with _alone():
        built = kernels.prepare(chosen, get_variant(chosen, "on"), Display())
        report = audit_module.audit(built.vmlinux, paths.repo() / "configs" / chosen.audit)
    _write_json(json_file, report.as_json())
    _print_lines(audit_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def offcheck(target: TargetArg, json_file: JsonOpt = None) -> None:
    """Compare the objects of the pristine kernel with ours when all our options are off."""
    chosen = get_target(target)
    with _alone():
        report = suite_module.off_check(chosen, Display())
    _write_json(json_file, report.as_json())
    _print_lines(offcheck_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def series(
    check: Annotated[
        bool, typer.Option("--check", help="Take the mails back and build every prefix.")
    ] = False,
    check_mails: Annotated[
        bool, typer.Option("--check-mails", help="Take the mails back, and build nothing.")
    ] = False,
    recipients: Annotated[
        bool,
        typer.Option("--recipients", help="Write To: and Cc: into the mails, not beside them."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Where to write the mails.", file_okay=False)
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Export the queue as mails for git am, one commit per topic."""
    if json_file and not (check or check_mails):
        raise RedoubtError("--json is for a check", "redoubt series --check-mails --json FILE")
    display = Display()
    where = output or paths.build_dir() / "series"
    with _alone():
        base = source_module.obtain(display)
        letter = cover.letter(paths.repo(), base)

        def ask(mail: Path) -> recipients_module.Recipients:
            display.detail(f"recipients of {mail.name}")
            return recipients_module.ask(base.path, mail)

        with display.step("Writing the mails"):
            written = series_module.export(
                base.path, where, letter=letter, ask=ask, address=recipients
            )
        for file in written:
            out.print(str(file), markup=False)
        if not (check or check_mails):
            return
        targets = list(TARGETS.values()) if check else []
        report = suite_module.series_check(targets, display, sampled=not check, mails=where)
    _write_json(json_file, report.as_json())
    _print_lines(series_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def port(
    onto: Annotated[
        Path | None, typer.Option("--onto", help="A Linux tree; only read.", file_okay=False)
    ] = None,
    package: Annotated[
        str | None, typer.Option("--package", help="Or a source package, as linux-source-7.2.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            help="Where to write the merged patches; build/port/VERSION if none.",
            file_okay=False,
        ),
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Merge the queue onto another kernel, and say what of it applies there."""
    display = Display()
    if (onto is None) == (package is None):
        raise typer.BadParameter("give a tree, with --onto, or the name of one, with --package")
    with _alone():
        if onto is not None:
            other = source_module.other(onto)
        else:
            other = source_module.packaged(package or "", display)
        where = output or paths.build_dir() / "port" / other.version
        report = port_module.port(source_module.obtain(display), other, where, display)
    if json_file:
        _write_json(json_file, report.as_json() | provenance.collect(sys.argv[1:]))
    _print_lines(list(port_module.render(report)))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def deb(
    target: TargetArg,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            help="distro: all that Debian's has, which takes hours. "
            "small: what a virtual machine needs, to try it out.",
        ),
    ] = shipped.DISTRO,
    boot: Annotated[
        bool, typer.Option("--boot/--no-boot", help="Boot the kernel out of its package.")
    ] = True,
    install: Annotated[
        bool, typer.Option("--install", help="Then install them in a Debian, and boot that.")
    ] = False,
    json_file: JsonOpt = None,
) -> None:
    """Make Debian packages of the protected kernel: linux-image and linux-headers."""
    display = Display()
    chosen = get_target(target)
    if install and not boot:
        raise RedoubtError("--install boots what was installed, which --no-boot forbids")
    deb_module.needs(chosen, config, install=install)
    host = _needs_enforcing(chosen, "auto") if boot else None
    origin = provenance.collect(sys.argv[1:])
    with _alone():
        report = deb_module.make(chosen, config, host, display, install=install)
    _write_json(json_file, report.as_json() | origin)
    _print_lines(list(deb_module.render(report)))
    for what, tried in (("out of the package", report.boot), ("as installed", report.installed)):
        if tried and not tried.ok:
            raise RedoubtError(
                f"the kernel {what} is not what it should be: {tried.result.describe()}"
            )


@app.command()
def lint(
    targets: Annotated[
        list[str] | None, typer.Argument(help="Targets whose objects are checked; um if none.")
    ] = None,
    docs: Annotated[
        bool, typer.Option("--docs", help="Only the documentation, for which no kernel is built.")
    ] = False,
) -> None:
    """Check the kernel code, with checkpatch --strict, W=1 and sparse, and its documentation."""
    display = Display()
    if docs and targets:
        raise typer.BadParameter("--docs checks no objects of a target")
    htmldocs_module.sphinx()  # If it is missing, that is told before anything is built.
    if docs:
        with _alone():
            documents = htmldocs_module.check(kernels.our_tree(display), display)
        _print_lines(htmldocs_module.render(documents))
        raise typer.Exit(0 if documents.ok else 1)
    chosen = _targets(targets or ["um"])
    with _alone():
        builds = {
            kernels.prepare(one, get_variant(one, "on"), display).directory: one.cross_compile
            for one in chosen
        }
        with display.step("Checking the kernel code"):
            report = lint_module.lint(kernels.our_tree(display), builds)
        documents = htmldocs_module.check(kernels.our_tree(display), display)
    _print_lines([*lint_module.render(report), *htmldocs_module.render(documents)])
    raise typer.Exit(0 if report.ok and documents.ok else 1)


@app.command()
def hardening(target: TargetArg) -> None:
    """Ask kernel-hardening-checker what our packages change of the distribution's options."""
    display = Display()
    with _alone():
        report = hardening_module.check(
            get_target(target),
            source_module.obtain(display).path,
            kernels.our_tree(display),
            display,
        )
    _print_lines(hardening_module.render(report))
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def test(
    targets: Annotated[list[str] | None, typer.Argument(help="Targets; all if none.")] = None,
    host: HostOpt = "auto",
    long: Annotated[
        bool, typer.Option("--long", help="Also what takes long: debug flavour, offcheck.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="The step of this name, slow or not; repeatable.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Run all tests, with protection on and off; the last line counts them."""
    display = Display()
    chosen = _targets(targets or TARGETS)
    for target in chosen:
        host_module.enforcing(target, host)  # What is wrong is told now, not after the first tests.

    width = max(len(target.name) for target in chosen)

    def show(item: suite_module.Item) -> None:
        mark = "FAIL" if item.failed else ("skip" if not item.passed else "ok")
        counts = f"{item.passed} passed, {item.failed} failed, {item.skipped} skipped"
        # Of several targets, each line says which.
        where = f"{item.target:{width}}  " if len(chosen) > 1 else ""
        out.print(f"{mark:4}  {where}{item.variant:3}  {item.name}: {counts}", markup=False)
        if item.detail:
            for line in item.detail.splitlines():
                out.print(f"          {line}", markup=False)

    with _alone():
        runs = [suite_module.Run(target, host, long, display) for target in chosen]
        items = suite_module.run_all(runs, show, only or ())
    _write_json(json_file, suite_module.as_json(chosen[0].name, items))
    passed, failed, skipped = (
        sum(getattr(item, name) for item in items) for name in ("passed", "failed", "skipped")
    )
    out.print(f"\n{passed} passed, {failed} failed, {skipped} skipped", markup=False)
    raise typer.Exit(1 if failed or not passed else 0)


@app.command()
def mutate(
    target: TargetArg,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Places whose file or function is this, * for anything; repeatable."),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Show the places and build nothing.")
    ] = False,
    sample: Annotated[int | None, typer.Option(help="So many places at random.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sample.", min=0)] = None,
    host: HostOpt = "auto",
    json_file: JsonOpt = None,
    add: Annotated[
        bool, typer.Option("--add", help="Keep what the file of --json has of other places.")
    ] = False,
) -> None:
    """Take out each place that lets page tables be written, one at a time: does a test notice?"""
    display = Display()
    chosen = get_target(target)
    if listed and json_file:
        raise RedoubtError("--list judges nothing, so there is no result to write")
    if add and not json_file:
        raise RedoubtError("--add needs a file to add to: --json FILE")
    known = mutate_module.load_reasons(paths.repo() / "configs" / f"mutate-{chosen.name}.toml")
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    with _alone():
        pristine = source_module.obtain(display).path
        found = mutants.sources(chosen, pristine, paths.repo())
        sites = tuple(mutants.sites(found))
        picked = mutate_module.chosen(sites, only or (), sample, seed)
        if sample:
            err.print(f"seed {seed}", markup=False)
        if listed:
            for site in picked:
                where = f"{site.file}:{site.line}  {site.function}  {site.kind} {site.number}"
                out.print(f"{where}: {site.text}  ->  {site.mutated}", markup=False)
            out.print(f"\n{len(picked)} of {len(sites)} places", markup=False)
            return
        enforcing = _needs_enforcing(chosen, host)
        origin = provenance.collect(sys.argv[1:])
        run = suite_module.Run(chosen, host, False, display, mutate_module.PATIENCE_S)
        shop = mutate_module.workshop(run, enforcing, pristine, found, sites, paths.repo())
        if add and json_file:
            # Before hours of work, not after.
            mutate_module.added(json_file, chosen.name, sites, ())
        results = mutate_module.judge_all(picked, shop, shop.kept(), _show_mutant)
    results = [replace(result, commit=origin["commit"]) for result in results]
    if add and json_file:
        results = mutate_module.added(json_file, chosen.name, sites, results)
    report = mutate_module.Report(chosen.name, sites, tuple(results), known)
    _write_json(json_file, report.as_json() | origin)
    _print_lines(["", *mutate_module.render(report)])
    raise typer.Exit(0 if report.ok else 1)


def _show_mutant(result: mutate_module.Result, standing: mutate_module.Standing) -> None:
    site, verdict = result.site, result.verdict
    how = f" by {verdict.by}: {verdict.words}" if verdict.by else ""
    left = f", about {standing.left_s / 60:.0f} min left" if standing.left_s else ""
    known = ", known" if result.known else ""
    out.print(
        f"[{standing.done}/{standing.total}{known}{left}] {site.file}:{site.line} {site.function} "
        f"({site.kind}): {verdict.outcome}{how}",
        markup=False,
    )


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Workloads; all if none.")] = None,
    target: Annotated[str, typer.Option("--target", help="What to measure.")] = "um",
    rounds: Annotated[
        int, typer.Option(help="Boots of each variant.", min=stats.FEWEST_ROUNDS)
    ] = workloads.ROUNDS,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few rounds: shows that it works, not what it costs.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Of the order of boots and the statistics.", min=0)
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="time, events or instructions; what the target can give if none; may be repeated.",
        ),
    ] = None,
    variants: Annotated[
        list[str] | None, typer.Option("--variant", help="What to compare; all if none.")
    ] = None,
    args: Annotated[
        list[str] | None, typer.Option("--arg", help="Of all kernels, to compare two runs.")
    ] = None,
    json_file: JsonOpt = None,
) -> None:
    """Measure what protection costs, and print it as tables; with --json also plots beside it."""
    display = Display()
    chosen = get_target(target)
    if not chosen.bench:
        raise RedoubtError(
            f"there is nothing to measure on {chosen.name} yet but its linear map",
            "redoubt linear-map",
        )
    some = tuple(get_variant(chosen, name) for name in variants or ())
    plan = bench_module.Plan(
        replace(
            chosen,
            variants=some or chosen.variants,
            bench_args=(*chosen.bench_args, *(args or [])),
        ),
        tuple(workloads.chosen(names or [], chosen.name)),
        min(rounds, workloads.QUICK_ROUNDS) if quick else rounds,
        secrets.randbelow(1 << 32) if seed is None else seed,
        # With fewer boots than the method demands, nothing is to be published.
        quick or rounds < workloads.ROUNDS,
    )
    ways = bench_module.chosen_ways(chosen, kinds or [])
    with _alone():
        report = figures.collect(plan, ways, provenance.collect(sys.argv[1:]), display)
    if json_file:
        _write_json(json_file, figures.dumps(report.as_json()))
        for name, picture in plots.plots(report).items():
            _write_bytes(json_file.with_name(f"{json_file.stem}-{name}.png"), picture)
    for one in tables.counted(report):
        _print_lines(["", *tables.text(one)])
    _print_lines(["", *tables.text(tables.targets(report)), "", tables.legend(report)])
    if report.quick:
        out.print(tables.NOT_PUBLISHABLE, style="yellow")


@app.command()
def linear_map(json_file: JsonOpt = None) -> None:
    """Count what creating the linear map of arm64 takes, on the pristine kernel and on ours."""
    display = Display()
    chosen = get_target("arm64")
    origin = provenance.collect(sys.argv[1:])
    with _alone():
        pristine, ours = linear_map_module.build_both(chosen, display).machines()
    rows = linear_map_module.measure(pristine, ours, display)
    _write_json(
        json_file, origin | {"target": chosen.name, "linear_map": [row.as_json() for row in rows]}
    )
    _print_lines(list(linear_map_module.render(rows)))
    raise typer.Exit(0 if all(row.met for row in rows) else 1)


@app.command()
def report(
    output: Annotated[
        Path | None,
        typer.Option("--out", help="The page; build/report.html if none.", dir_okay=False),
    ] = None,
    readme: Annotated[
        bool, typer.Option("--readme", help="Rewrite docs/benchmarks.md and README's part instead.")
    ] = False,
) -> None:
    """Render one HTML page of all results in results/."""
    results = report_module.load(paths.results_dir())
    if readme:
        if not results.benchmarks:
            raise RedoubtError("no benchmark in results/", "make bench")
        for name, block in report_module.blocks(results).items():
            file = paths.repo() / name
            text = report_module.with_block(file.read_text(), block, name)
            _write_bytes(file, text.encode())
            out.print(str(file), markup=False)
    else:
        file = output or paths.build_dir() / "report.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_bytes(file, report_module.page(results).encode())
        out.print(str(file), markup=False)


# === Ends ========================================================================================


def _fail(message: str, hint: str | None = None) -> NoReturn:
    err.print(f"redoubt: {message}", markup=False, style="red")
    if hint:
        err.print(f"    {hint}", markup=False)
    sys.exit(1)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(number: int, frame: object) -> None:
    """Unwind: everything that runs is ended, everything half-made removed, undisturbed."""
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted


def main() -> None:
    """Run the tool; exits with 0 only on success, 130 when interrupted, 2 on wrong usage."""
    for number in _ENDING:
        # Under nohup, or in the background of a script, some are ignored on purpose.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        app(prog_name="redoubt")
    except RedoubtError as error:
        _fail(error.message, error.hint)
    except Interrupted:
        err.print("redoubt: interrupted; running it again is safe", markup=False)
        sys.exit(130)
    except OSError as error:
        if error.errno in process.NO_SPACE:
            full = process.no_space("writing " + str(error.filename or "a file"))
            _fail(full.message, full.hint)
        if not error.filename:
            raise
        _fail(f"{error.filename}: {error.strerror}")
