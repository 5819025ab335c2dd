# SPDX-License-Identifier: GPL-2.0-only
"""What single operations cost on a machine, and what the events of a workload come to by that.

guest/bench/prices.c measures them. The prediction is a count of register writes times their price:
it leaves out all other code of the protection, and what the writes cost code around them.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.cost import tables
from redoubt.cost.figures import Report
from redoubt.cost.tables import Table
from redoubt.cost.workloads import EVENTS, WORKLOADS
from redoubt.trial.asi import exits

# The level raised and lowered again, as the kernel does it, and what that is without protection.
SWITCH = "switch"
TITLES = {
    SWITCH: "raising and lowering the level of the kernel",
    "user-key": "writing user mode's key register (WRPKRU; MSR POR_EL0 and ISB)",
    "flush-page": "invalidating a page (INVLPG; TLBI and barriers)",
    "keep-root": "loading page tables, the TLB is kept (CR3 with PCID; TTBR0_EL1 and ISB)",
    "load-root": "loading page tables, the TLB is flushed (CR3)",
    "ibpb": "forgetting branches (IBPB)",
}
REGISTER = "writing the kernel's key register (WRMSR of PKRS; MSR POR_EL1 and ISB)"
COLUMNS = ("price of", "ns", "ticks")
PREDICTED = ("workload", "register writes", "predicted ns", "measured ns", "predicted", "measured")
ISOLATED = ("operation", "CR3 writes", "INVLPGs", "IBPBs", "predicted ns")
# Prices of the events that an exit counts; without PCIDs the TLB is flushed each time.
_EVENTS = {"CR3 writes": ("keep-root", "load-root"), "INVLPGs": ("flush-page",), "IBPBs": ("ibpb",)}
_WRITES = 2
_PREFIX, _DONE = "@price: ", "@price: done"
_COUNTER = re.compile(r"counter ticks=(\d+) ns=(\d+)")
_SAMPLES = re.compile(r"([\w-]+) ops=(\d+) ns=(\d+(?:,\d+)*)")
_ABSENT = re.compile(r"([\w-]+) absent: .*")


@dataclass(frozen=True)
class Price:
    """What one operation costs: the median in ns, and in ticks of the CPU's counter."""

    ns: float
    ticks: float

    def as_json(self) -> dict[str, float]:
        """The stable form, see docs/json.md."""
        return {"ns": round(self.ns, 2), "ticks": round(self.ticks, 1)}


# Prices by variant and name, in the stable form.
Known = Mapping[str, Mapping[str, Mapping[str, float]]]


def parse(lines: Iterable[str]) -> dict[str, Price]:
    """The prices that the program printed; what a machine does not have is left out.

    Raises RedoubtError if a line makes no sense, is there twice, or the last one is missing.
    """
    said = [line.strip() for line in lines if line.startswith(_PREFIX)]
    if not said or said[-1] != _DONE:
        raise RedoubtError(f"the list of prices has no end ('{_DONE}')")
    samples: dict[str, list[float]] = {}
    rate = 0.0
    for line in (one.removeprefix(_PREFIX) for one in said[:-1]):
        if (counter := _COUNTER.fullmatch(line)) and int(counter[2]):
            rate = int(counter[1]) / int(counter[2])
        elif (found := _SAMPLES.fullmatch(line)) and found[1] not in samples and int(found[2]):
            samples[found[1]] = [int(ns) / int(found[2]) for ns in found[3].split(",")]
        elif not _ABSENT.fullmatch(line):
            raise RedoubtError(f"the list of prices has a line that makes no sense: {line}")
    if not rate:
        raise RedoubtError("the list of prices does not say how fast the counter is")
    medians = {name: statistics.median(each) for name, each in samples.items()}
    return {name: Price(ns, ns * rate) for name, ns in medians.items()}


def register_write(known: Known) -> tuple[float, float] | None:
    """ns and ticks of one write of the kernel's register: half of what protection adds to a switch.

    None where it was not measured with protection both on and off, or adds nothing.
    """
    on, off = (known.get(variant, {}).get(SWITCH) for variant in ("on", "off"))
    if not on or not off or on["ns"] <= off["ns"]:
        return None
    return (on["ns"] - off["ns"]) / _WRITES, (on["ticks"] - off["ticks"]) / _WRITES


def table(known: Known) -> Table:
    """All prices, of the first variant that has them."""
    rows = []
    if write := register_write(known):
        rows.append((REGISTER, f"{write[0]:.1f}", f"{write[1]:.0f}"))
    for name, title in TITLES.items():
        each = next((prices[name] for prices in known.values() if name in prices), None)
        # That of a kernel without protection is none.
        if each and name != SWITCH:
            rows.append((title, f"{each['ns']:.1f}", f"{each['ticks']:.0f}"))
    return Table("prices", "Prices: the medians of 15 samples", COLUMNS, tuple(rows))


def writes(report: Report) -> dict[str, float]:
    """Register writes of an operation with protection on, by title of the workload."""
    return {
        WORKLOADS[one.workload].title(one.size): one.value
        for one in report.figures
        if (one.kind, one.variant, one.metric) == (EVENTS, "on", "switches_per_op")
        and not WORKLOADS[one.workload].gauge
    }


def predicted(
    counted: Mapping[str, float], known: Known, times: Mapping[str, Mapping[str, float]]
) -> Table:
    """What protection adds to each workload, as predicted and as measured."""
    price = register_write(known)
    rows = tuple(_predictions(counted, price[0], times)) if price else ()
    heading = "What protection adds: counted register writes times their price, and the time"
    return Table("prices", heading, PREDICTED, rows)


def _predictions(
    counted: Mapping[str, float], price: float, times: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[str, ...]]:
    for title, row in times.items():
        if title not in counted or not {"on", "off"} <= row.keys():
            continue
        added, ratio = counted[title] * price, row["on"] / row["off"]
        yield (
            title, tables.count(counted[title]), f"{added:.0f}", f"{row['on'] - row['off']:.0f}",
            tables.change(1 + added / row["off"]), tables.change(ratio),
        )  # fmt: skip


def isolated(rows: Iterable[exits.Row], known: Known) -> Table:
    """What address space isolation adds to each operation, as predicted.

    The counts are with all flushes, whichever the machine needs.
    """
    found = {
        event: next(
            (prices[name]["ns"] for name in names for prices in known.values() if name in prices), 0
        )
        for event, names in _EVENTS.items()
    }
    heading = "What address space isolation adds: counted events times their prices"
    if not found["CR3 writes"]:
        return Table("prices", heading, ISOLATED, ())
    made = tuple(
        (
            row.operation,
            *(f"{row.events[event]:.4g}" for event in _EVENTS),
            f"{sum(row.events[event] * price for event, price in found.items()):.0f}",
        )
        for row in rows
        if row.way == exits.ON
    )
    return Table("prices", heading, ISOLATED, made)


def tables_of(
    value: Mapping[str, Any], reports: Iterable[Report] = (), rows: Iterable[exits.Row] = ()
) -> list[Table]:
    """The tables of a machine, of results as they are kept.

    `reports` are of benchmarks, and `rows` of exits on a machine of that target with one CPU.
    """
    known = value.get("prices", {})
    counted = (one for one in reports if one.target == value["target"] and EVENTS in one.kinds)
    made = [table(known)]
    # A virtual machine has no times to compare.
    if value["silicon"]:
        if report := next(counted, None):
            made.append(predicted(writes(report), known, value["times"]))
        made.append(isolated(rows, known))
    return [one for one in made if one.rows]
