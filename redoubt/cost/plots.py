# SPDX-License-Identifier: GPL-2.0-only
"""Plots of the benchmark, as PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redoubt.cost import published
from redoubt.cost.figures import BOOT_METRIC, Figure, Report
from redoubt.cost.tables import SHORT
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MIB, WORKLOADS, size_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# Told apart by people with any colour vision (Okabe and Ito), and by their markers.
_STYLES = {
    "on": ("#0072B2", "o", "on/off"),
    "on-unbatched": ("#D55E00", "s", "on-unbatched/off"),
    "off": ("#777777", "D", "off/pristine"),
    "asi": ("#009E73", "^", "asi/off"),
    "asi-leaving": ("#CC79A7", "v", "asi-leaving/off"),
}
# What others have published of the same variant.
_PUBLISHED: dict[str, Any] = {
    "color": "#000000", "marker": "x", "markersize": 7, "linestyle": "none", "zorder": 3,
    "label": "published",
}  # fmt: skip
_LINES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"))
# Percent up to which the axis is linear; beyond, it is logarithmic.
_LINEAR = 10
_TICKS = sorted(
    sign * part * 10**power for sign in (-1, 1) for power in range(1, 6) for part in (1, 2, 5)
)
# The height of a workload's row, in which its variants stand one below the other.
_ROW = 0.7


def _title(report: Report, kind: str) -> str:
    return f"{report.target}, {SHORT[kind]}" + (" (quick run)" if report.quick else "")


def _canvas(width: float, height: float) -> Canvas:
    """An empty canvas, in inches. The library takes half a second to load: no other verb pays."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")


def _png(canvas: Canvas) -> bytes:
    out = io.BytesIO()
    # No version of the library in the file: the same figures give the same bytes.
    canvas.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


def _percent(figure: Figure) -> tuple[float, float, float]:
    """The change in percent, and how far its interval reaches below and above."""
    assert figure.ratio is not None
    low = figure.ratio if figure.ci_low is None else figure.ci_low
    high = figure.ratio if figure.ci_high is None else figure.ci_high
    below, above = max(0, figure.ratio - low), max(0, high - figure.ratio)
    return 100 * (figure.ratio - 1), 100 * below, 100 * above


def _bars(
    axes: Axes, along: Sequence[float], figures: Sequence[Figure], colour: str, marker: str,
    label: str, *, upright: bool,
) -> None:  # fmt: skip
    values, below, above = zip(*(_percent(one) for one in figures), strict=True)
    x, y = (along, values) if upright else (values, along)
    reach = (below, above)
    axes.errorbar(
        x, y, yerr=reach if upright else None, xerr=None if upright else reach, fmt=marker,
        color=colour, label=label, capsize=3, markersize=5, linestyle="-" if upright else "none",
    )  # fmt: skip


def ticks(low: float, high: float) -> list[int]:
    """Percentages to be marked on an axis that shows these two, and one beyond each."""
    below = [tick for tick in _TICKS if tick < min(low, 0)][-1:]
    above = [tick for tick in _TICKS if tick > max(high, 0)][:1]
    between = [tick for tick in (*_TICKS, -5, 0, 5) if low <= tick <= high]
    return sorted({*below, *between, 0, *above})


def overhead(report: Report, kind: str) -> bytes:
    """The change of each workload, by variant, with published ones; points with intervals."""
    with_ratio = [
        one for one in report.figures
        if one.kind == kind and one.ratio is not None and one.metric != BOOT_METRIC
    ]  # fmt: skip
    places = list(dict.fromkeys((one.workload, one.size) for one in with_ratio))
    canvas = _canvas(8, 1.6 + 0.34 * len(places))
    axes = canvas.add_subplot()
    variants = [name for name in _STYLES if any(one.variant == name for one in with_ratio)]
    offsets: dict[str, float] = {}
    for index, variant in enumerate(variants):
        chosen = [one for one in with_ratio if one.variant == variant]
        offset = _ROW * ((index + 0.5) / len(variants) - 0.5)
        along = [places.index((one.workload, one.size)) + offset for one in chosen]
        _bars(axes, along, chosen, *_STYLES[variant], upright=False)
        offsets[variant] = offset
    others = [
        one for one in published.points(report.target)
        if one.place in places and one.variant in offsets
    ]  # fmt: skip
    if others:
        along = [places.index(one.place) + offsets[one.variant] for one in others]
        axes.plot([one.percent for one in others], along, **_PUBLISHED)
    axes.axvline(0, color="#000000", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=_LINEAR)
    reach = [value + end for one in with_ratio
             for value, below, above in [_percent(one)] for end in (-below, above)]  # fmt: skip
    reach += [one.percent for one in others]
    axes.set_xticks(ticks(min(reach), max(reach)))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter("{x:+g} %")
    axes.tick_params(axis="x", labelsize=8, labelrotation=45)
    interval = "" if kind == INSTRUCTIONS else ", with its 95 % interval"
    axes.set_xlabel(f"change{interval}; linear up to {_LINEAR} %, logarithmic beyond")
    axes.set_yticks(range(len(places)))
    axes.set_yticklabels([WORKLOADS[name].title(size) for name, size in places])
    axes.invert_yaxis()
    axes.grid(axis="x", color="#dddddd")
    axes.set_axisbelow(True)
    axes.set_title(_title(report, kind), loc="left", fontsize=10)
    canvas.legend(loc="outside lower center", ncols=min(len(variants) + 1, 4), frameon=False)
    return _png(canvas)


def by_size(report: Report, kind: str) -> bytes | None:
    """Cost against the size of the mapping, unbatched and batched; None if one size was run."""
    lines: dict[tuple[str, str], list[Figure]] = {}
    for one in report.figures:
        swept = not WORKLOADS[one.workload].unit and one.size and one.ratio is not None
        if one.kind == kind and swept and one.variant in ("on", "on-unbatched"):
            lines.setdefault((one.variant, one.workload), []).append(one)
    lines = {key: line for key, line in lines.items() if len(line) > 1}
    if not lines:
        return None
    canvas = _canvas(8, 3.6)
    for index, variant in enumerate(("on-unbatched", "on")):
        axes = canvas.add_subplot(1, 2, index + 1)
        names = [name for which, name in lines if which == variant]
        for (colour, marker), name in zip(_LINES, names, strict=False):
            line = lines[variant, name]
            _bars(axes, [one.size / MIB for one in line], line, colour, marker, name, upright=True)
        sizes = sorted({one.size for line in lines.values() for one in line})
        axes.axhline(0, color="#000000", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks([size / MIB for size in sizes])
        axes.set_xticklabels([size_label(size) for size in sizes], rotation=45, fontsize=8)
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:+g} %")
        axes.grid(color="#dddddd")
        axes.set_axisbelow(True)
        axes.set_title(f"{_title(report, kind)}: {_STYLES[variant][2]}", loc="left", fontsize=9)
        axes.legend(frameon=False)
    return _png(canvas)


def plots(report: Report) -> dict[str, bytes]:
    """All plots of a report, by the end of their file names: "overhead-time", "size-time", …"""
    made = {}
    for kind in report.kinds:
        if kind != EVENTS and any(one.ratio for one in report.figures if one.kind == kind):
            made[f"overhead-{kind}"] = overhead(report, kind)
            if sizes := by_size(report, kind):
                made[f"size-{kind}"] = sizes
    return made
