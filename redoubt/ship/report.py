# SPDX-License-Identifier: GPL-2.0-only
"""One page of all results, and the parts of the documents that are made of files."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
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

_STYLE = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --soft: #5b6570; --line: #d5dbe1;
  --card: #f5f7f9; --accent: #0b62a4; --bad: #b3261e; --good: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e8ec; --bg: #14181c; --soft: #9aa5b0;
  --line: #343c44; --card: #1d2329; --accent: #6cb6ff; --bad: #ff8f87; --good: #6fd18a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 92rem; padding: 1rem; background: var(--bg); color: var(--fg);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: .5rem 0; } h2 { margin: 2.5rem 0 .5rem; font-size: 1.3rem;
  border-bottom: 1px solid var(--line); } h3 { margin: 1.8rem 0 .4rem; font-size: 1.05rem; }
p { max-width: 48rem; } .soft { color: var(--soft); }
.kind { display: inline-block; padding: 0 .5rem; border-radius: 1rem; font-size: .8rem;
  border: 1px solid currentColor; color: var(--accent); white-space: nowrap; }
.kind.mock, .warn { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .5rem 0;
  padding: .6rem .8rem; background: var(--card); border-radius: .4rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; }
.wide { overflow-x: auto; margin: .5rem 0; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .85rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap;
  border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--card); }
th:nth-child(-n+2), td:nth-child(-n+2), .words th, .words td { text-align: left; }
.words td { white-space: normal; }
td.worse { color: var(--bad); } td.better { color: var(--good); }
img { display: block; max-width: 100%; height: auto; margin: .8rem 0; padding: .4rem;
  background: #fff; border: 1px solid var(--line); border-radius: .4rem; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .3rem; } }
"""


def _tone(text: str) -> str:
    if text.startswith("(R)") or text.endswith(("missed", "missed (mock)")):
        return ' class="worse"'
    if text.startswith("(I)") or text.endswith((": met", ": met (mock)")) or text == "met":
        return ' class="better"'
    return ""


def _html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td{_tone(text)}>{escape(text)}</td>" for text in row) + "</tr>"
        for row in rows
    )
    style = ' class="words"' if words else ""
    return (
        f'<div class="wide"><table{style}><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _chip(kind: str) -> str:
    style = "kind mock" if kind == MOCK else "kind"
    return f'<span class="{style}">{escape(tables.SHORT[kind])}</span>'


def _section(one: Table) -> str:
    return f"<h3>{_chip(one.kind)} {escape(one.heading)}</h3>\n" + _html_table(
        one.columns, one.rows
    )


def _facts(report: Report) -> str:
    machine = report.provenance["machine"]
    changed = ", with uncommitted changes" if report.provenance["dirty"] else ""
    facts = {
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
    return "<dl>" + "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items()
    ) + "</dl>"  # fmt: skip


def _benchmark_html(name: str, report: Report) -> str:
    parts = [f"<h2>Cost on {escape(report.target)} <small class='soft'>{escape(name)}</small></h2>"]
    if report.quick:
        parts.append(f'<p class="warn"><strong>{escape(tables.NOT_PUBLISHABLE)}</strong></p>')
    parts.append(_facts(report))
    demanded = tables.targets(report)
    parts += [
        f"<h3>{escape(demanded.heading)}</h3>",
        _html_table(demanded.columns, demanded.rows, words=True),
        f'<p class="soft">{escape(tables.legend(report))}</p>',
    ]
    pictures = plots.plots(report)
    for kind in report.kinds:
        one = tables.table(report, kind)
        if not one.rows:
            continue
        parts.append(_section(one))
        for which, title in (("overhead", "Change by workload"), ("size", "Cost by mapping size")):
            if picture := pictures.get(f"{which}-{kind}"):
                data = base64.b64encode(picture).decode()
                label = escape(f"{title}, {tables.SHORT[kind]}")
                parts.append(f'<img alt="{label}" src="data:image/png;base64,{data}">')
    if pages := tables.direct_map(report):
        parts.append(_section(pages))
    return "\n".join(parts)


def _tests_html(tests: Tests) -> str:
    rows = [
        (suite["name"], entry["variant"], entry["target"],
         *(str(suite[name]) for name in ("passed", "failed", "skipped")))
        for entry in tests.entries
        for suite in entry["suites"]
    ]  # fmt: skip
    total = [sum(int(row[index]) for row in rows) for index in (3, 4, 5)]
    counts = "{} passed, {} failed, {} skipped".format(*total)
    commit = f"; last changed by commit {tests.commit}" if tests.commit else ""
    return (
        f"<h2>Tests <small class='soft'>{escape(tests.file)}</small></h2>\n"
        f"<p>{counts}{escape(commit)}.</p>\n"
        + _html_table(("suite", "variant", "target", "passed", "failed", "skipped"), rows)
    )


def _linear_map_html(found: LinearMap) -> str:
    one = linear_map_table(found)
    return (
        f"<h2>The linear map of arm64 <small class='soft'>{escape(found.file)}</small></h2>\n"
        f"<p>{escape(one.heading)} {escape(origin(found.provenance))}.</p>\n"
        + _html_table(one.columns, one.rows)
    )


def _runs_html(runs: Sequence[Run]) -> str:
    columns = ("file", "what was found", "verdict", "command", "where")
    rows = [
        (one.file, one.words, "passed" if one.ok else "failed", one.provenance["command"],
         origin(one.provenance))
        for one in runs
    ]  # fmt: skip
    return "<h2>Other runs</h2>\n" + _html_table(columns, rows, words=True)


def page(results: Results) -> str:
    """One HTML page that needs no other file."""
    kinds = "".join(f"<p>{_chip(kind)} {escape(text)}</p>" for kind, text in KINDS.items())
    parts = [_benchmark_html(name, report) for name, report in results.benchmarks]
    parts += [_linear_map_html(one) for one in results.linear_maps]
    parts += [_tests_html(one) for one in results.tests]
    if results.runs:
        parts.append(_runs_html(results.runs))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Redoubt: results</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        "<h1>Redoubt: results</h1>\n"
        "<p>Page tables read-only to the kernel itself: what it costs, and what was tested. "
        "There are four kinds of figures; no table mixes them.</p>\n"
        f"{kinds}\n" + "\n".join(parts) + "\n</body></html>\n"
    )
