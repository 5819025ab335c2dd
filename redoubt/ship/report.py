# SPDX-License-Identifier: GPL-2.0-only
"""One page of all results, and the parts of the documents that are made of files."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.cost import figures, plots, tables
from redoubt.cost.figures import Report
from redoubt.cost.tables import Table
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MOCK, TIME
from redoubt.machine import provenance
from redoubt.ship import threats
from redoubt.trial import linear_map
from redoubt.trial.asi import exits

# Between these `redoubt report --readme` writes.
BEGIN, END = "<!-- generated:begin -->", "<!-- generated:end -->"

KINDS = {
    TIME: "measured on a CPU whose protection keys enforce.",
    MOCK: "measured on a CPU that has no protection keys. The write of their register is replaced "
    "by one that takes time and changes nothing (rdtscp); nothing is protected in such a run.",
    EVENTS: "counted by the kernel while protection is enforced, by the CPU or by an emulated one, "
    "or on arm64 with a mock. Exact, and the same on any machine.",
    INSTRUCTIONS: "counted by QEMU, whose emulated CPU enforces, but not that of arm64. Exact; but "
    "an instruction is not a unit of time, and a write of the register counts as one.",
}


@dataclass(frozen=True)
class Tests:
    """The result of `redoubt test --json`; `commit` is the last that changed the file."""

    file: str
    commit: str | None
    entries: list[dict[str, Any]]


@dataclass(frozen=True)
class LinearMap:
    """The result of `redoubt linear-map --json`, with its provenance."""

    file: str
    provenance: dict[str, Any]
    rows: list[linear_map.Row]


@dataclass(frozen=True)
class Run:
    """The result of another command, in words, with its provenance.

    `kind` is STRESS, MUTANTS, PACKAGES, FLUSHES or EXITS.
    """

    kind: str
    file: str
    provenance: dict[str, Any]
    ok: bool
    words: str


@dataclass(frozen=True)
class Results:
    """What results/ has: benchmarks by the names of their files, and the others."""

    benchmarks: list[tuple[str, Report]] = field(default_factory=list)
    linear_maps: list[LinearMap] = field(default_factory=list)
    tests: list[Tests] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)


def load(directory: Path) -> Results:
    """The results of a directory.

    Raises RedoubtError if there is none, or a file is none.
    """
    found = Results()
    for file in sorted(directory.glob("*.json")):
        try:
            value = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise RedoubtError(f"cannot read {file}: {error}") from error
        if isinstance(value, dict) and "tested" in value:
            value = value["tested"]
        if isinstance(value, dict) and "results" in value:
            found.benchmarks.append((file.name, _benchmark(file, value)))
        elif isinstance(value, dict) and "linear_map" in value:
            found.linear_maps.append(_linear_map(file, value))
        elif isinstance(value, list) and all(_is_entry(one) for one in value):
            found.tests.append(Tests(file.name, provenance.last_commit(file), value))
        elif isinstance(value, dict) and (kind := _kind(value)):
            found.runs.append(_run(file, value, kind))
        else:
            raise RedoubtError(f"{file}: neither the result of a benchmark nor of a test run")
    if found == Results():
        raise RedoubtError(f"no results in {directory}", "make bench, or make test-long")
    return found


def _benchmark(file: Path, value: dict[str, Any]) -> Report:
    try:
        return figures.from_json(value)
    except RedoubtError as error:
        raise RedoubtError(f"{file}: {error.message}") from error


def _linear_map(file: Path, value: dict[str, Any]) -> LinearMap:
    try:
        rows = [linear_map.row_from_json(row) for row in value["linear_map"]]
    except (KeyError, TypeError) as error:
        raise RedoubtError(f"{file} is damaged: {error!r}") from error
    return LinearMap(file.name, value, rows)


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and {"target", "variant", "suites"} <= value.keys()


# --- runs of other commands, each told in one sentence


def _stressed(value: dict[str, Any]) -> str:
    return (
        f"{value['target']} ({value['variant']}), {value['seconds'] / 60:g} minutes of stress-ng "
        f"in {value['rounds']} rounds: {value['checks']} checks of up to {value['tables']} page "
        f"table pages, violations: {value['violations']}, pages lost: {value['leaked']}"
    )


def _mutated(value: dict[str, Any]) -> str:
    found = Counter(one["outcome"] for one in value["mutants"])
    return (
        f"{value['target']}, {len(value['mutants'])} of {value['sites']} places taken out: "
        + ", ".join(f"{number} {outcome}" for outcome, number in sorted(found.items()))
    )


def _packed(value: dict[str, Any]) -> str:
    sizes = ", ".join(f"{one['name']} of {one['size']} bytes" for one in value["packages"])
    booted = value["boot"]
    protection = f"booted, protection {booted['protection']}" if booted else "not booted"
    return f"{value['target']}, configuration {value['config']}: {sizes}; {protection}"


def _left(value: dict[str, Any]) -> str:
    rows = [one for one in value["rows"] if one["way"] == exits.ON]
    left = {
        one["operation"]: sum(one[reason] for reason in exits.REASONS) / one["times"]
        for one in rows
    }
    return (
        f"{value['target']} ({value['variant']}), {value['cpus']} CPU: exits for each operation "
        f"with {exits.ON}: " + ", ".join(f"{name} {number:.3g}" for name, number in left.items())
    )


def _flushed(value: dict[str, Any]) -> str:
    return (
        f"{value['target']} ({value['variant']}), {value['memory_mb']} MiB: flushes that the pool "
        "leaves: "
        + ", ".join(
            f"{one['operation']} {one['share']:.2%}" + ("" if one["met"] else " (missed)")
            for one in value["targets"]
        )
    )


# Fields, of which the first that is there says which command wrote it.
STRESS, MUTANTS, PACKAGES, FLUSHES = "stressors", "mutants", "packages", "targets"
EXITS = "cpus"
_SAYS: dict[str, Callable[[dict[str, Any]], str]] = {
    STRESS: _stressed,
    MUTANTS: _mutated,
    PACKAGES: _packed,
    FLUSHES: _flushed,
    EXITS: _left,
}


def _kind(value: dict[str, Any]) -> str | None:
    return next((kind for kind in _SAYS if kind in value), None)


def _run(file: Path, value: dict[str, Any], kind: str) -> Run:
    try:
        origin(value)
        return Run(kind, file.name, value, bool(value["ok"]), _SAYS[kind](value))
    except (KeyError, TypeError) as error:
        raise RedoubtError(f"{file} is damaged: {error!r}") from error


# === Parts of the documents ======================================================================


def origin(collected: dict[str, Any]) -> str:
    """One sentence on where a result comes from, of provenance.collect()."""
    machine = collected["machine"]
    commit = (collected["commit"] or "unknown")[:12]
    changed = " with changes" if collected["dirty"] else ""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; commit "
        f"{commit}{changed}; {collected['date'][:10]}"
    )


def benchmark_block(name: str, report: Report) -> str:
    """The tables of a benchmark, from the result file `name` in results/."""
    lines = [
        f"From [results/{name}](../results/{name}): `{report.provenance['command']}` on "
        f"{origin(report.provenance)}; {report.rounds} rounds, seed {report.seed}.",
        "",
    ]
    if report.quick:
        lines += [f"**{tables.NOT_PUBLISHABLE}**", ""]
    for one in tables.counted(report):
        # Switches stand beside times and instructions as well.
        if one.heading != tables.heading(EVENTS, report.target) or report.kinds == [EVENTS]:
            lines += [*tables.markdown(one), ""]
    return "\n".join(lines)


DIGEST = "Demands of this project on itself, and the verdicts of these runs"
LINEAR_MAP = (
    "Counts of creating the linear map of arm64, on the pristine kernel and on ours: exact, of "
    "instructions as well (QEMU -icount: this is not time, and predicts none)."
)


def linear_map_block(found: LinearMap) -> str:
    """The tables about the linear map."""
    lines = [
        f"From [results/{found.file}](../results/{found.file}): `{found.provenance['command']}` on "
        f"{origin(found.provenance)}.",
        "",
        LINEAR_MAP,
        "",
        *linear_map.render(found.rows),
        "",
    ]
    return "\n".join(lines)


def linear_map_table(found: LinearMap) -> Table:
    """The same table as of linear_map_block()."""
    head, _, *rows = (
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in linear_map.render(found.rows)
    )
    return Table("linear map", LINEAR_MAP, head, tuple(rows))


def linear_map_targets(found: LinearMap) -> Table:
    """What is demanded of the linear map, as tables.targets() has it for a benchmark."""
    rows = tuple(
        (
            f"linear map of {row.memory_gib} GiB in {row.mapped_in}",
            tables.SHORT[INSTRUCTIONS],
            f"≤ {row.limit:g}",
            f"{row.ratio:.3f}",
            figures.MET if row.met else figures.MISSED,
        )
        for row in found.rows
    )
    return Table("targets", LINEAR_MAP, tables.TARGETS, rows)


def benchmark_blocks(results: Results) -> str:
    """All tables, those of the demands first; text after a table needs an empty line before it."""
    legends = dict.fromkeys(tables.legend(report) for _, report in results.benchmarks)
    blocks = [digest_block(results), *(f"{legend}\n" for legend in legends)]
    blocks += [benchmark_block(name, report) for name, report in results.benchmarks]
    return "\n".join(blocks + [linear_map_block(one) for one in results.linear_maps])


def digest_block(results: Results) -> str:
    """A row for each result file and kind of figures: its demands, and those that are not met."""
    rows = [
        (f"[{report.target}](../results/{name})", *row)
        for name, report in results.benchmarks
        for row in tables.digest(tables.targets(report))
    ]
    rows += [
        (f"[arm64](../results/{found.file})", *row)
        for found in results.linear_maps
        for row in tables.digest(linear_map_targets(found))
    ]
    # Kinds that a machine cannot measure have no demands.
    judged = tuple(row for row in rows if row[2] != "0")
    digest = Table("targets", DIGEST, ("target", *tables.DIGESTED), judged)
    return "\n".join(tables.markdown(digest)) + "\n"


# Operations that README names, on the target that counts them with protection enforced.
_NAMED = ("fork", "munmap", "fault")
_SIZE = 64 << 20
_COUNTED_ON = "x86_64"
_PAGE = "[docs/benchmarks.md](docs/benchmarks.md)"


def readme_block(results: Results) -> str:
    """Three sentences: the cost of protection, the cost of the hooks, and the demands."""
    counted = {
        (one.workload, one.variant): one
        for _, report in results.benchmarks
        if report.target == _COUNTED_ON
        for one in report.figures
        if one.kind == INSTRUCTIONS and one.size == _SIZE and one.ratio is not None
    }

    def changes(variant: str) -> str:
        return ", ".join(
            f"{tables.change(one.ratio)} in {name}"
            for name in _NAMED
            if (one := counted.get((name, variant))) and one.ratio is not None
        )

    lines = []
    if on := changes("on"):
        lines.append(
            f"- Protection changes the number of instructions by {on}: x86-64, as QEMU counts "
            f"them, 64 MiB of small pages ({_PAGE})."
        )
    if off := changes("off"):
        lines.append(
            f"- With protection built in and off the same kernel differs from pristine Linux by "
            f"{off} ({_PAGE})."
        )
    verdicts = Counter(
        row[-1].removesuffix(" (mock)")
        for demanded in (
            *(tables.targets(report) for _, report in results.benchmarks),
            *(linear_map_targets(found) for found in results.linear_maps),
        )
        for row in demanded.rows
    )
    met, undecided, missed = (
        verdicts[name] for name in (figures.MET, figures.UNDECIDED, figures.MISSED)
    )
    timed = any(TIME in report.kinds for _, report in results.benchmarks)
    lines.append(
        f"- {met} of {met + undecided + missed} demands on cost are met, {undecided} are undecided "
        f"and {missed} are missed; {'' if timed else 'no '}time was measured on silicon that "
        f"enforces ({_PAGE})."
    )
    return "\n".join(lines) + "\n"


def blocks(results: Results) -> dict[str, str]:
    """The generated parts of the documents, by the name of the document."""
    return {
        "README.md": readme_block(results),
        "docs/benchmarks.md": benchmark_blocks(results),
        "docs/threat-model.md": threats.markdown(threats.load(paths.repo())),
    }


def with_block(text: str, block: str, name: str) -> str:
    """A text with `block` between the two markers; `name` is that of its file.

    Raises RedoubtError unless each marker stands there once, in order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in before + after:
        raise RedoubtError(f"{name} needs one {BEGIN} and after it one {END}")
    return f"{before}{BEGIN}\n{block}{END}{after}"


# === HTML ========================================================================================

_TEMPLATE = Path(__file__).with_name("report.html.j2")
_ATTACKS = "attacks"


def _tone(text: str) -> str:
    """How a cell is coloured. A regression is only one if it misses its demand."""
    if text == "failed" or text.endswith(("missed", "missed (mock)")):
        return "worse"
    if (
        text.startswith("(I)")
        or text in ("met", "passed")
        or text.endswith((": met", "met (mock)"))
    ):
        return "better"
    return ""


def _verdict(good: bool) -> str:
    return "passed" if good else "failed"


def _suites(tests: Tests, prefix: str = "") -> list[tuple[str, ...]]:
    return [
        (suite["name"], entry["variant"], entry["target"],
         *(str(suite[name]) for name in ("passed", "failed", "skipped")))
        for entry in tests.entries
        for suite in entry["suites"]
        if suite["name"].startswith(prefix)
    ]  # fmt: skip


def _totals(rows: Iterable[Sequence[str]]) -> tuple[int, int, int]:
    """Passed, failed and skipped."""
    counts = [tuple(map(int, row[-3:])) for row in rows]
    passed, failed, skipped = (sum(column) for column in zip(*counts, strict=True))
    return passed, failed, skipped


def _summary(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """File, subject, finding and verdict: attacks first."""
    for one in results.tests:
        if attacks := _suites(one, _ATTACKS):
            passed, failed, _ = _totals(attacks)
            found = f"{passed} end as expected, {failed} do not"
            yield one.file, "attacks", found, _verdict(not failed)
    demands = [(name, tables.targets(report)) for name, report in results.benchmarks]
    demands += [(found.file, linear_map_targets(found)) for found in results.linear_maps]
    for name, table in demands:
        for kind, number, met, undecided, missed in tables.digest(table):
            if number != "0":
                verdict = (
                    figures.MISSED if missed else figures.UNDECIDED if undecided else figures.MET
                )
                yield name, f"demands on {kind}", f"{met} of {number} are met", verdict
    for one in results.tests:
        if rows := _suites(one):
            passed, failed, skipped = _totals(rows)
            found = f"{passed} passed, {failed} failed, {skipped} skipped"
            yield one.file, "tests", found, _verdict(not failed)
    for run in results.runs:
        yield run.file, run.provenance["command"], run.words, _verdict(run.ok)


def _facts(report: Report) -> dict[str, str]:
    machine = report.provenance["machine"]
    changed = ", with uncommitted changes" if report.provenance["dirty"] else ""
    return {
        "command": report.provenance["command"],
        "commit": f"{report.provenance['commit'] or 'unknown'}{changed}",
        "date": report.provenance["date"],
        "CPU": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB",
        "protection keys": "yes" if machine["pku"] else "no",
        "host kernel": machine["kernel"],
        "compiler": machine.get("compiler") or "unknown",
        "emulator": ", ".join(machine.get("emulators") or ()) or machine.get("qemu") or "none",
        "method": f"{report.rounds} rounds, seed {report.seed}",
    }


def _cost(name: str, report: Report) -> dict[str, Any]:
    pictures = plots.plots(report)
    titles = {"overhead": "Change by workload", "size": "Cost by mapping size"}
    sections = [
        (
            one,
            [
                (f"{title}, {tables.SHORT[one.kind]}", base64.b64encode(picture).decode())
                for which, title in titles.items()
                if (picture := pictures.pop(f"{which}-{one.kind}", None))
            ],
        )
        for one in tables.counted(report)
    ]
    return {
        "file": name, "report": report, "facts": _facts(report), "sections": sections,
        "demanded": tables.targets(report), "legend": tables.legend(report),
    }  # fmt: skip


def page(results: Results) -> str:
    """One HTML page that needs no other file."""
    # Loaded here as no other verb needs it.
    from jinja2 import Environment, StrictUndefined

    made = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        _TEMPLATE.read_text()
    )
    return made.render(
        tone=_tone,
        mock=MOCK,
        short=tables.SHORT,
        kinds=KINDS,
        quick=tables.NOT_PUBLISHABLE,
        summary=_summary(results),
        attacks=[row for one in results.tests for row in _suites(one, _ATTACKS)],
        costs=[_cost(name, report) for name, report in results.benchmarks],
        linear_maps=[
            {"file": one.file, "table": linear_map_table(one), "origin": origin(one.provenance)}
            for one in results.linear_maps
        ],
        tests=[
            {
                "file": one.file, "commit": one.commit, "rows": rows,
                "counts": "{} passed, {} failed, {} skipped".format(*_totals(rows)),
            }
            for one in results.tests if (rows := _suites(one))
        ],
        runs=[
            (one.file, one.words, _verdict(one.ok), one.provenance["command"],
             origin(one.provenance))
            for one in results.runs
        ],
    )  # fmt: skip
