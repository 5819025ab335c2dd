# SPDX-License-Identifier: GPL-2.0-only
"""The tables of the benchmark, the same for the terminal, the documents and the HTML page."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from redoubt.cost.figures import (
    BOOT_METRIC,
    LAYOUT,
    LOST,
    MET,
    MISSED,
    NOT_HERE,
    OFF_LIMIT,
    UNDECIDED,
    Figure,
    Report,
)
from redoubt.cost.workloads import (
    COMPARISONS,
    EVENTS,
    INSTRUCTIONS,
    MOCK,
    TIME,
    TIMED,
    VARIANTS,
    WORKLOADS,
)
from redoubt.targets import get_target

HEADINGS = {
    TIME: "Time on silicon: the protection keys of this CPU enforce",
    MOCK: "Time with a mock: this CPU has no protection keys, a write of the pkey register is "
    "an rdtscp, and nothing was protected",
    EVENTS: "Events per operation: exact counts",
    INSTRUCTIONS: "Instructions on an emulated CPU (QEMU -icount): protection enforced; "
    "this is not time, and predicts none",
}
# Where no emulator has the keys that are measured.
_MOCKED = {
    EVENTS: "Events per operation, with a mock that protects nothing: exact counts",
    INSTRUCTIONS: "Instructions on an emulated CPU (QEMU -icount), with a mock: the pkey register "
    "is one that nothing looks at, and nothing was protected; this is not time, and predicts none",
}
# Columns that are there only if these variants were measured; and those of address space isolation.
_NEEDED = {f"{name}/{base}": (name, base) for name, base in COMPARISONS} | {
    "switches/op": ("on",),
    "target (on/off)": ("on",),
}
_ISOLATED = ("asi/off", "asi-leaving/off")
SHORT = {
    TIME: "time",
    MOCK: "time, mock",
    EVENTS: "events",
    INSTRUCTIONS: "instructions",
}
LEGEND = (
    "Change of the median, with its 95 % confidence interval. (R) regression, (I) improvement, "
    "~ not significant: the interval contains no change, or the effect is within what the "
    "pristine kernel differs from itself (A/A). Cost of protection: on/off of one binary; cost "
    "of the hooks: off/pristine."
)
COUNTED_LEGEND = (
    "Change of the median of a count that is the same in each run. (R) more, (I) less, ~ within "
    "what two boots and the samples of one differ by. Cost of protection: on/off of one binary; "
    "cost of the hooks: off/pristine. Instructions say how much longer the way through the code "
    "is, and predict no silicon: a write of the pkey register counts as one. How many of these "
    "there are stands beside them (switches/op)."
)
NOT_PUBLISHABLE = "A quick run, with too few boots for its intervals: not publishable."


Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table of one kind of figures, as text."""

    kind: str
    heading: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def heading(kind: str, target: str) -> str:
    """What stands above the figures of a kind of a target."""
    mocked = _MOCKED if get_target(target).bench_keys_args else {}
    return mocked.get(kind, HEADINGS[kind])


def legend(report: Report) -> str:
    """How to read the tables of a report."""
    return LEGEND if any(kind in TIMED for kind in report.kinds) else COUNTED_LEGEND


def change(ratio: float) -> str:
    """A ratio as a change in percent."""
    return f"{100 * (ratio - 1):+.1f} %"


def cell(figure: Figure | None) -> str:
    """A ratio with its mark and interval; of what is compared with nothing, how much it takes."""
    if figure is None:
        return "-"
    if figure.ratio is None:
        return amount(figure.value, figure.kind)
    text = f"{figure.mark} {change(figure.ratio)}"
    if figure.ci_low is None or figure.ci_high is None:
        return text
    return f"{text} [{100 * (figure.ci_low - 1):+.1f}, {100 * (figure.ci_high - 1):+.1f}]"


def amount(value: float, kind: str) -> str:
    """A time given in ns, or a number of instructions."""
    units = ("ns", "µs", "ms", "s") if kind in TIMED else ("", "k", "M", "G")
    for unit in units[:-1]:
        if value < 999.5:
            return f"{value:.3g} {unit}".strip()
        value /= 1000
    return f"{value:.3g} {units[-1]}"


def count(value: float | None) -> str:
    """A number of events: whole where it is."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"


def demand(figure: Figure | None) -> str:
    """What is demanded of a figure, and whether it holds."""
    if figure is None or figure.limit is None:
        return ""
    if figure.ratio is None:
        limit = count(figure.limit)
    else:
        limit = change(figure.limit).replace(".0 ", " ")
    verdict = f"{figure.verdict} (mock)" if figure.kind == MOCK else f"{figure.verdict}"
    return f"≤ {limit}: {verdict}"


Find = Callable[..., Figure | None]


def _finder(report: Report, kind: str) -> tuple[list[tuple[str, int]], Find]:
    found = {
        (one.workload, one.size, one.variant, one.metric): one
        for one in report.figures
        if one.kind == kind and one.metric not in (BOOT_METRIC, LOST, *LAYOUT)
    }
    unit = {(one.workload, one.size): one.metric for one in found.values() if kind != EVENTS}

    def find(place: tuple[str, int], variant: str, metric: str | None = None) -> Figure | None:
        return found.get((*place, variant, metric or unit[place]))

    return list(dict.fromkeys((one.workload, one.size) for one in found.values())), find


def table(report: Report, kind: str) -> Table:
    """The table of a kind of figures of a report."""
    places, find = _finder(report, kind)
    make = {EVENTS: _event_row, INSTRUCTIONS: _instruction_row}.get(kind, _time_row)
    columns = {
        EVENTS: ("workload", "size", "tables", "switches/op, on-unbatched", "switches/op, on",
                 "bound", "nested guards/op", "tag ops/1000 PTPs", "target"),
        INSTRUCTIONS: ("workload", "size", "off", "off/pristine", "on-unbatched/off", "on/off",
                       "switches/op", "target (on/off)", *_ISOLATED),
    }.get(kind, ("workload", "size", "off", "off/pristine", "on-unbatched/off", "on/off", "A/A",
                 "switches/op", "target (on/off)"))  # fmt: skip
    rows = tuple((place[0], WORKLOADS[place[0]].label(place[1]), *make(place, find, kind))
                 for place in places)  # fmt: skip
    made = Table(kind, heading(kind, report.target), columns, rows)
    there = {one.variant for one in report.figures}
    gone = {column for column, needed in _NEEDED.items() if not there.issuperset(needed)}
    return only(made, [name for name in columns if name not in gone])


def _off(place: tuple[str, int], find: Find, kind: str) -> str:
    figure = find(place, "off")
    return amount(figure.value, kind) if figure else "-"


def _time_row(place: tuple[str, int], find: Find, kind: str) -> tuple[str, ...]:
    on = find(place, "on")
    return (
        _off(place, find, kind), cell(find(place, "off")), cell(find(place, "on-unbatched")),
        cell(on), cell(find(place, "pristine-b")), count(on.switches_per_op if on else None),
        demand(on),
    )  # fmt: skip


def _instruction_row(place: tuple[str, int], find: Find, kind: str) -> tuple[str, ...]:
    names = ("off", "on-unbatched", "on")
    on = find(place, "on")
    return (
        _off(place, find, kind), *(cell(find(place, name)) for name in names),
        count(on.switches_per_op if on else None), demand(on),
        *(cell(find(place, name.removesuffix("/off"))) for name in _ISOLATED),
    )  # fmt: skip


def _event_row(place: tuple[str, int], find: Find, kind: str) -> tuple[str, ...]:
    def value(variant: str, metric: str) -> str:
        figure = find(place, variant, metric)
        return count(figure.value if figure else None)

    on = find(place, "on", "switches_per_op")
    tags = find(place, "on", "tag_operations_per_1000_ptps")
    demands = [
        f"{name} {demand(one)}"
        for name, one in (("switches", on), ("tag ops", tags))
        if one and one.limit is not None
    ]
    return (
        value("on", "tables_per_op"), value("on-unbatched", "switches_per_op"),
        value("on", "switches_per_op"), count(on.limit if on else None),
        value("on", "nested_guards_per_op"), value("on", "tag_operations_per_1000_ptps"),
        ", ".join(demands),
    )  # fmt: skip


# === Direct map ==================================================================================


def direct_map(report: Report) -> Table | None:
    """How the kernel maps all memory, by variant; None if no kernel has said it."""
    found = {(one.workload, one.variant, one.metric): one.value for one in report.figures
             if one.metric in (LOST, *LAYOUT)}  # fmt: skip
    rows = tuple(
        (variant, when, *(count(found.get((workload, variant, name))) for name in (*LAYOUT, LOST)))
        for workload, when in (("boot", "after boot"), ("storm", "after a storm of forks"))
        for variant in VARIANTS[INSTRUCTIONS]
        if (workload, variant, LAYOUT[0]) in found
    )
    columns = ("variant", "when", "4 KiB", "2 MiB", "1 GiB", "blocks of the pool",
               "large pages lost")  # fmt: skip
    return Table(EVENTS, "Pages of the direct map: exact counts", columns, rows) if rows else None


def counted(report: Report) -> list[Table]:
    """All tables of a report but that of its targets."""
    made = [*(table(report, kind) for kind in report.kinds), direct_map(report)]
    return [one for one in made if one and one.rows]


# === Targets =====================================================================================


TARGETS = ("target", "kind", "demanded", "found", "verdict")
DIGESTED = ("kind", "demands", "met", "undecided", "missed")


def targets(report: Report) -> Table:
    """What the project demands, and whether this run shows that it holds."""
    rows: list[tuple[str, ...]] = []
    for figure in report.figures:
        # Of time that is one row for all, see _hooks().
        if figure.limit is None or (figure.variant == "off" and figure.kind in TIMED):
            continue
        what = WORKLOADS[figure.workload].title(figure.size)
        if figure.ratio is not None:
            what += f", {figure.variant}/{figure.base}"
            found = cell(figure)
        else:
            what += ", " + figure.metric.replace("_", " ").replace(" per op", "/op")
            found = count(figure.value)
        limit, _, verdict = demand(figure).partition(": ")
        rows.append((what, SHORT[figure.kind], limit, found, verdict))
    rows += [_hooks(report, kind) for kind in report.kinds if kind in TIMED]
    for kind, reason in report.missing.items():
        rows.append((f"all of {SHORT[kind]}", SHORT[kind], "", reason, NOT_HERE))
    return Table("targets", "What this project demands", TARGETS, tuple(rows))


def digest(demands: Table) -> Iterator[Row]:
    """A row of DIGESTED for each kind that a table of targets() has."""
    for kind in dict.fromkeys(row[1] for row in demands.rows):
        judged: dict[str, list[str]] = {}
        for what, _, limit, found, verdict in (row for row in demands.rows if row[1] == kind):
            judged.setdefault(verdict.removesuffix(" (mock)"), []).append(
                f"{what}: {found} ({limit})" if limit else f"{what}: {found}"
            )
        if absent := judged.pop(NOT_HERE, []):
            yield (kind, "0", "0", f"{NOT_HERE}: {absent[0].partition(': ')[2]}", "")
            continue
        undecided, missed = ("; ".join(judged.get(name, ())) for name in (UNDECIDED, MISSED))
        demanded = sum(map(len, judged.values()))
        yield (kind, f"{demanded}", f"{len(judged.get(MET, ()))}", undecided, missed)


def _hooks(report: Report, kind: str) -> tuple[str, ...]:
    """The row on what our code costs when it is off: one for all workloads."""
    judged = [
        one for one in report.figures
        if one.kind == kind and one.variant == "off" and one.verdict is not None
    ]  # fmt: skip
    verdicts = {
        verdict: [one for one in judged if one.verdict == verdict]
        for verdict in (MISSED, UNDECIDED, MET)
    }
    found = ", ".join(f"{len(those)} {verdict}" for verdict, those in verdicts.items() if those)
    worst = next((verdict for verdict, those in verdicts.items() if those), NOT_HERE)
    if verdicts[MISSED]:
        found += ": " + ", ".join(
            f"{WORKLOADS[one.workload].title(one.size)} {change(one.ratio or 1)}"
            for one in verdicts[MISSED]
        )
    verdict = f"{worst} (mock)" if kind == MOCK and judged else worst
    limit = change(OFF_LIMIT).replace("+", "± ").replace(".0 ", " ")
    return ("all workloads, off/pristine", SHORT[kind], limit, found, verdict)


# === Text ========================================================================================

_KEYS = 2
_GAP = "  "


def only(one: Table, columns: Sequence[str]) -> Table:
    """The table with those of its columns that have one of these names."""
    kept = [index for index, name in enumerate(one.columns) if name in columns]

    def cut(row: Row) -> Row:
        return tuple(row[index] for index in kept)

    return Table(one.kind, one.heading, cut(one.columns), tuple(cut(row) for row in one.rows))


def text(one: Table, width: int | None = None) -> list[str]:
    """A table for a terminal; the first two columns begin at the left, the others end alike.

    With a `width` in characters it is no wider, if no cell is: long headings have several lines,
    and columns for which there is no room stand below the others, again beside the first two.
    """
    if width is None:
        return [one.heading, "", *_aligned([one.columns, *one.rows])]
    lines = textwrap.wrap(one.heading, width)
    for piece in _pieces(one, width):
        lines += ["", *_aligned(piece)]
    return lines


def _aligned(rows: Sequence[Row]) -> Iterator[str]:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = [
            value.ljust(width) if index < _KEYS or index == len(row) - 1 else value.rjust(width)
            for index, (value, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield _GAP.join(cells).rstrip()


def _pieces(one: Table, width: int) -> Iterator[list[Row]]:
    """The rows of each piece of a table, those of its headings first."""
    widths = [
        max(len(word) for word in (*heading.split(), *(row[index] for row in one.rows)))
        for index, heading in enumerate(one.columns)
    ]
    heads = [
        textwrap.wrap(heading, widest, break_long_words=False, break_on_hyphens=False)
        for heading, widest in zip(one.columns, widths, strict=True)
    ]
    groups: list[list[int]] = [[*range(_KEYS)]]
    for index in range(_KEYS, len(widths)):
        wide = sum(widths[known] + len(_GAP) for known in groups[-1]) + widths[index]
        if wide > width and len(groups[-1]) > _KEYS:
            groups.append([*range(_KEYS)])
        groups[-1].append(index)
    for group in groups:
        height = max(len(heads[index]) for index in group)
        padded = [[""] * (height - len(heads[index])) + heads[index] for index in group]
        yield [*zip(*padded, strict=True), *(tuple(row[index] for index in group)
                                             for row in one.rows)]  # fmt: skip


def markdown(one: Table) -> list[str]:
    """A table for a document."""

    def line(row: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"

    rule = tuple("---" if index < 2 else "--:" for index in range(len(one.columns)))
    return [f"**{one.heading}**", "", line(one.columns), line(rule), *map(line, one.rows)]
