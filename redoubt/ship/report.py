# SPDX-License-Identifier: GPL-2.0-only
"""One page of all results, and the parts of the documents that are made of files."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.cost import figures, plots, prices, tables
from redoubt.cost.figures import Report
from redoubt.cost.tables import Table
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MOCK, TIME
from redoubt.machine import provenance
from redoubt.ship import freshness, origins, published, templates, threats
from redoubt.ship.origins import Origin
from redoubt.ship.stick import brought
from redoubt.trial import linear_map
from redoubt.trial.asi import exits

# Fields, of which the first that is there says which command wrote a result: see runs.txt.j2.
KINDS = (
    "attacks", "stressors", "mutants", "packages", "targets", "cpus", "mails", "differences",
    "rows",
)  # fmt: skip

# Between these `redoubt report --readme` writes.
BEGIN, END = "<!-- generated:begin -->", "<!-- generated:end -->"

MEND = "redoubt bench um --json results/bench-um.json, or make test-long"


@dataclass(frozen=True)
class Tests:
    """The result of `redoubt test --json`; `commit` is the last that changed the file."""

    file: str
    commit: str | None
    entries: list[dict[str, Any]]

    def suites(self, prefix: str = "") -> list[tuple[str, ...]]:
        """A row for each suite whose name begins so; the last cells are its counts."""
        return [
            (suite["name"], entry["variant"], entry["target"],
             *(str(suite[name]) for name in ("passed", "failed", "skipped")))
            for entry in self.entries
            for suite in entry["suites"]
            if suite["name"].startswith(prefix)
        ]  # fmt: skip

    def totals(self, prefix: str = "") -> tuple[int, ...]:
        """How many tests of these suites passed, failed, and were skipped; empty if none are so."""
        rows = [map(int, row[-3:]) for row in self.suites(prefix)]
        return tuple(sum(column) for column in zip(*rows, strict=True))


@dataclass(frozen=True)
class LinearMap:
    """The result of `redoubt linear-map --json`, with its provenance."""

    file: str
    provenance: dict[str, Any]
    rows: list[linear_map.Row]

    @property
    def lines(self) -> list[str]:
        """Its table, for a document."""
        return list(linear_map.render(self.rows))

    @property
    def table(self) -> Table:
        """The same table."""
        head, _, *rows = (
            tuple(cell.strip() for cell in line.strip("|").split("|")) for line in self.lines
        )
        return Table("linear map", LINEAR_MAP, head, tuple(rows))

    @property
    def demands(self) -> Table:
        """What is demanded of it, as tables.targets() has it for a benchmark."""
        rows = tuple(
            (
                f"linear map of {row.memory_gib} GiB in {row.mapped_in}",
                tables.SHORT[INSTRUCTIONS],
                f"≤ {row.limit:g}",
                f"{row.ratio:.3f}",
                figures.MET if row.met else figures.MISSED,
            )
            for row in self.rows
        )
        return Table("targets", LINEAR_MAP, tables.TARGETS, rows)


@dataclass(frozen=True)
class Run:
    """The result of another command, in words, with its provenance; `kind` is one of KINDS."""

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
    origins: list[Origin] = field(default_factory=list)
    machines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def hardware(self) -> Table:
        """A row for each real machine, see `redoubt import`."""
        rows = tuple(brought.row(file, value) for file, value in self.machines)
        return Table(brought.DIRECTORY, MACHINES, brought.COLUMNS, rows)

    @property
    def priced(self) -> list[Table]:
        """What operations cost on each real machine, and what protection adds by that."""
        return [
            replace(one, heading=f"{value['hardware'].get('model name', file)}: {one.heading}")
            for file, value in self.machines
            for one in self.prices_of(value)
        ]

    def prices_of(self, value: Mapping[str, Any]) -> list[Table]:
        """The same for one machine, of results as they are kept."""
        reports = [one for _, one in self.benchmarks]
        rows = [
            row
            for run in self.runs
            if (run.kind, run.provenance.get("target")) == ("cpus", value["target"])
            for row in exits.rows_from_json(run.provenance)
        ]
        return prices.tables_of(value, reports, rows)

    @property
    def demands(self) -> list[tuple[str, str, Table]]:
        """File, target and demands of each result that has some."""
        return [
            *((name, one.target, tables.targets(one)) for name, one in self.benchmarks),
            *((one.file, "arm64", one.demands) for one in self.linear_maps),
        ]

    @property
    def legends(self) -> list[str]:
        """How to read the tables of the benchmarks."""
        return list(dict.fromkeys(tables.legend(one) for _, one in self.benchmarks))


def load(directory: Path) -> Results:
    """The results of a directory.

    Raises RedoubtError if there is none, or a file is none.
    """
    found = Results()
    for file in (*origins.results(directory), *origins.results(directory / brought.DIRECTORY)):
        _read(found, file)
    if found == Results():
        raise RedoubtError(f"no results in {directory}", MEND)
    return found


def counted(directory: Path, target: str) -> Results:
    """The counts of a target among the results of a directory, which may have none.

    Raises RedoubtError if a file is none.
    """
    found = Results()
    for kind in ("bench", "exits"):
        for file in directory.glob(f"{kind}-{target}.json"):
            _read(found, file)
    return found


def _read(found: Results, file: Path) -> None:
    try:
        value = json.loads(file.read_text())
        if file.parent.name == brought.DIRECTORY:
            brought.row(file.name, value)
            found.machines.append((file.name, value))
        else:
            _add(found, file, value)
            found.origins.append(origins.read(file.name, value))
    except (OSError, ValueError) as error:
        raise RedoubtError(f"cannot read {file}: {error}") from error
    except (KeyError, TypeError) as error:
        raise RedoubtError(f"{file} is damaged: {error!r}") from error
    except RedoubtError as error:
        raise RedoubtError(f"{file}: {error.message}") from error


def _add(found: Results, file: Path, value: Any) -> None:
    fields = value if isinstance(value, dict) else {}
    entries = fields.get("tested", value)
    if "results" in fields:
        found.benchmarks.append((file.name, figures.from_json(fields)))
    elif "linear_map" in fields:
        rows = [linear_map.row_from_json(row) for row in fields["linear_map"]]
        found.linear_maps.append(LinearMap(file.name, fields, rows))
    elif isinstance(entries, list) and all(_is_entry(one) for one in entries):
        found.tests.append(Tests(file.name, provenance.last_commit(file), entries))
    elif kind := next((kind for kind in KINDS if kind in fields), None):
        # A result that cannot say where it comes from is none.
        origin(fields)
        words = templates.render(
            "runs.txt.j2", kind=kind, run=fields, isolated=exits.ON, reasons=exits.REASONS
        )
        found.runs.append(Run(kind, file.name, fields, bool(fields["ok"]), words.strip()))
    else:
        raise RedoubtError("neither the result of a benchmark nor of a test run")


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and {"target", "variant", "suites"} <= value.keys()


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


MACHINES = (
    "Machines that were started from the image (redoubt image). Ratios are those of times of an "
    "operation with protection on and off; a virtual machine has none."
)

LINEAR_MAP = (
    "Counts of creating the linear map of arm64, on the pristine kernel and on ours: exact, of "
    "instructions as well (QEMU -icount: this is not time, and predicts none)."
)


def benchmark_block(results: Results) -> str:
    """All tables: published figures and ours, then the demands."""
    # A row for each result file and kind of figures: its demands, and those that are not met.
    rows = [
        (f"[{target}](../results/{name})", *row)
        for name, target, demands in results.demands
        for row in tables.digest(demands)
    ]
    # Kinds that a machine cannot measure have no demands.
    judged = tuple(row for row in rows if row[2] != "0")
    digest = "Demands of this project on itself, and the verdicts of these runs"
    return templates.render(
        "benchmarks.md.j2",
        digest=Table("targets", digest, ("target", *tables.DIGESTED), judged),
        published=_linked(published.compared(results)),
        beside=published,
        results=results,
        tables=tables,
        origin=origin,
        shown=shown,
    )


def _linked(made: list[Table]) -> list[Table]:
    """Tables whose last column names files of results/, with links to these for a document."""

    def row(cells: tuple[str, ...]) -> tuple[str, ...]:
        *rest, file = cells
        return (*rest, file if file == "-" else f"[{Path(file).stem}](../results/{file})")

    return [replace(one, rows=tuple(map(row, one.rows))) for one in made]


def shown(report: Report) -> list[Table]:
    """The tables of a benchmark for a text: switches stand beside times and instructions there."""
    events = tables.HEADINGS[EVENTS]
    made = tables.counted(report)
    return [one for one in made if one.heading != events or report.kinds == [EVENTS]]


# Operations that README names, on the target that counts them with protection enforced.
_NAMED = ("fork", "munmap", "fault")
_SIZE = 64 << 20
_COUNTED_ON = "x86_64"


def readme_block(results: Results) -> str:
    """The cost of protection, the cost of the hooks, the demands, and how old all that is."""
    counted = {
        (one.workload, one.variant): one.ratio
        for _, report in results.benchmarks
        if report.target == _COUNTED_ON
        for one in report.figures
        if one.kind == INSTRUCTIONS and one.size == _SIZE and one.ratio is not None
    }

    def changes(variant: str) -> str:
        there = [name for name in _NAMED if (name, variant) in counted]
        return ", ".join(f"{tables.change(counted[name, variant])} in {name}" for name in there)

    verdicts = Counter(
        row[-1].removesuffix(" (mock)") for *_, demands in results.demands for row in demands.rows
    )
    return templates.render(
        "readme.md.j2",
        on=changes("on"),
        off=changes("off"),
        measured=measured(results),
        timed=any(TIME in report.kinds for _, report in results.benchmarks),
        **{name: verdicts[name] for name in (figures.MET, figures.UNDECIDED, figures.MISSED)},
    )


def measured(results: Results) -> str:
    """One sentence on how old the results are; those of an installed tool are of any code."""
    if paths.installed():
        return ""
    return freshness.line(results.origins, freshness.config(paths.repo()))


def blocks(results: Results) -> dict[str, str]:
    """The generated parts of the documents, by the name of the document."""
    return {
        "README.md": readme_block(results),
        "docs/benchmarks.md": benchmark_block(results),
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

_ATTACKS = "attacks"


def _tone(text: str) -> str:
    """How a cell is coloured. A regression is only one if it misses its demand."""
    verdict = text.removesuffix(" (mock)")
    if text == "failed" or verdict.endswith("missed"):
        return "worse"
    good = verdict in ("met", "passed") or verdict.endswith(": met")
    return "better" if good or text.startswith("(I)") else ""


def _verdict(good: bool) -> str:
    return "passed" if good else "failed"


def _summary(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """File, subject, finding and verdict: attacks first."""
    for one in results.tests:
        if attacks := one.totals(_ATTACKS):
            found = "{} end as expected, {} do not".format(*attacks)
            yield one.file, "attacks", found, _verdict(not attacks[1])
    for name, _, demands in results.demands:
        for kind, number, met, undecided, missed in tables.digest(demands):
            if number != "0":
                verdict = (
                    figures.MISSED if missed else figures.UNDECIDED if undecided else figures.MET
                )
                yield name, f"demands on {kind}", f"{met} of {number} are met", verdict
    for one in results.tests:
        if counts := one.totals():
            found = "{} passed, {} failed, {} skipped".format(*counts)
            yield one.file, "tests", found, _verdict(not counts[1])
    for run in results.runs:
        yield run.file, run.provenance["command"], run.words, _verdict(run.ok)


def _pictures(report: Report) -> dict[str, str]:
    made = plots.plots(report)
    return {name: base64.b64encode(picture).decode() for name, picture in made.items()}


def page(results: Results) -> str:
    """One HTML page that needs no other file."""
    return templates.render(
        "report.html.j2",
        tone=_tone,
        verdict=_verdict,
        mock=MOCK,
        origin=origin,
        tables=tables,
        pictures_of=_pictures,
        measured=measured(results),
        summary=_summary(results),
        published=published.compared(results) if results.benchmarks else [],
        beside=published,
        attacks=[row for one in results.tests for row in one.suites(_ATTACKS)],
        results=results,
        tests=[one for one in results.tests if one.totals()],
    )
