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

HEADINGS = {
    TIME: "Time on silicon: the protection keys of this CPU enforce",
    MOCK: "Time with a mock: this CPU has no protection keys, a write of the pkey register is "
    "an rdtscp, and nothing was protected",
    EVENTS: "Events per operation: exact counts",
    INSTRUCTIONS: "Instructions on an emulated CPU (QEMU -icount): protection enforced; "
    "this is not time, and predicts none",
}
SHORT = {TIME: "time", MOCK: "time, mock", EVENTS: "events", INSTRUCTIONS: "instructions"}
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
    return f"{figure.mark} {change(figure.ratio)} {interval(figure)}".rstrip()


def interval(figure: Figure) -> str:
    """The interval of a ratio in percent; empty if it has none."""
    if figure.ci_low is None or figure.ci_high is None:
        return ""
    return f"[{100 * (figure.ci_low - 1):+.1f}, {100 * (figure.ci_high - 1):+.1f}]"


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
    limit = count(figure.limit) if figure.ratio is None else _whole(change(figure.limit))
    return f"≤ {limit}: {figure.verdict}" + (" (mock)" if figure.kind == MOCK else "")


def _whole(percent: str) -> str:
    return percent.replace(".0 ", " ")


# Finds a figure of one workload and size: of a variant and, where there are several, a metric.
Find = Callable[..., Figure | None]
Cell = Callable[[Find], str]


def _ratio(variant: str) -> Cell:
    return lambda find: cell(find(variant))


def _count(*which: str, field: str = "value") -> Cell:
    return lambda find: count(getattr(find(*which), field, None))


def _off(find: Find) -> str:
    figure = find("off")
    return amount(figure.value, figure.kind) if figure else "-"


def _event_demands(find: Find) -> str:
    named = {
        "switches": find("on", "switches_per_op"),
        "tag ops": find("on", "tag_operations_per_1000_ptps"),
    }
    return ", ".join(f"{name} {told}" for name, one in named.items() if (told := demand(one)))


_RATIOS: dict[str, Cell] = {
    "off": _off,
    "off/pristine": _ratio("off"),
    "on-unbatched/off": _ratio("on-unbatched"),
    "on/off": _ratio("on"),
}
_DEMANDED: dict[str, Cell] = {
    "switches/op": _count("on", field="switches_per_op"),
    "target (on/off)": lambda find: demand(find("on")),
}
_TIMES = {**_RATIOS, "A/A": _ratio("pristine-b"), **_DEMANDED}
_COLUMNS: dict[str, dict[str, Cell]] = {
    TIME: _TIMES,
    MOCK: _TIMES,
    INSTRUCTIONS: {
        **_RATIOS,
        **_DEMANDED,
        "asi/off": _ratio("asi"),
        "asi-leaving/off": _ratio("asi-leaving"),
    },
    EVENTS: {
        "tables": _count("on", "tables_per_op"),
        "switches/op, on-unbatched": _count("on-unbatched", "switches_per_op"),
        "switches/op, on": _count("on", "switches_per_op"),
        "bound": _count("on", "switches_per_op", field="limit"),
        "nested guards/op": _count("on", "nested_guards_per_op"),
        "tag ops/1000 PTPs": _count("on", "tag_operations_per_1000_ptps"),
        "target": _event_demands,
    },
}
# Columns that are there only if these variants were measured.
_NEEDED = {
    **{f"{name}/{base}": {name, base} for name, base in COMPARISONS},
    **{name: {"on"} for name in _DEMANDED},
}


def table(report: Report, kind: str) -> Table:
    """The table of a kind of figures of a report."""
    there = {one.variant for one in report.figures}
    columns = {
        name: made for name, made in _COLUMNS[kind].items() if _NEEDED.get(name, set()) <= there
    }
    # By place; those that have one metric only also without it.
    found: dict[tuple[str, int], dict[tuple[str, ...], Figure]] = {}
    for one in report.figures:
        if one.kind == kind and one.metric not in (BOOT_METRIC, LOST, *LAYOUT):
            place = found.setdefault((one.workload, one.size), {})
            place[one.variant, one.metric] = place[one.variant,] = one
    rows = tuple(
        (name, WORKLOADS[name].label(size),
         *(made(lambda *words, place=place: place.get(words)) for made in columns.values()))
        for (name, size), place in found.items()
    )  # fmt: skip
    return Table(kind, HEADINGS[kind], ("workload", "size", *columns), rows)


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
    there = {verdict: those for verdict, those in verdicts.items() if those}
    found = ", ".join(f"{len(those)} {verdict}" for verdict, those in there.items())
    if missed := verdicts[MISSED]:
        found += ": " + ", ".join(
            f"{WORKLOADS[one.workload].title(one.size)} {change(one.ratio or 1)}" for one in missed
        )
    # The worst of all.
    verdict = next(iter(there), NOT_HERE) + (" (mock)" if kind == MOCK and judged else "")
    limit = _whole(change(OFF_LIMIT).replace("+", "± "))
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
