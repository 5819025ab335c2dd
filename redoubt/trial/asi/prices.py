# SPDX-License-Identifier: GPL-2.0-only
"""What counted events may take on a real machine: a list of prices, to be multiplied with them.

An estimate in orders of magnitude, and no measurement: nothing here ran on silicon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from redoubt.core.errors import RedoubtError

GHZ = 3.0
GIVEN = "given on the command line"
# Of what there is no figure in the kernel's source.
ASSUMED = "assumed, an order of magnitude"


@dataclass(frozen=True)
class Price:
    """What one event takes, in ns, and who says so."""

    ns: float
    source: str


CR3, FAULT, INVLPG, IPI, IBPB = "cr3", "fault", "invlpg", "ipi", "ibpb"
FLUSH, WBINVD = "flush", "wbinvd"
PRICES: Mapping[str, Price] = {
    CR3: Price(
        100 / GHZ,
        'Documentation/arch/x86/pti.rst: "on the order of a hundred cycles", here of '
        f"{GHZ:g} GHz; without what refilling the TLB takes",
    ),
    INVLPG: Price(100.0, 'arch/x86/mm/tlb.c: "each single flush is about 100 ns"'),
    FAULT: Price(300.0, f"{ASSUMED}: an exception and the return from it"),
    IPI: Price(1000.0, f"{ASSUMED}: sent, and received"),
    IBPB: Price(1000.0, f"{ASSUMED}: some thousand cycles; without what predicting anew takes"),
    FLUSH: Price(
        500.0,
        f"{ASSUMED}: CLFLUSHOPT of 64 lines, some of them dirty; without what is written meanwhile",
    ),
    WBINVD: Price(1e6, f"{ASSUMED}: of all CPUs; without what reading memory anew takes"),
}


def chosen(words: Sequence[str]) -> dict[str, Price]:
    """The list, with prices in ns that a user gives as EVENT=NS.

    Raises RedoubtError if a word is none, or the event has no price.
    """
    prices = dict(PRICES)
    for word in words:
        event, _, text = word.partition("=")
        try:
            ns = float(text)
        except ValueError:
            ns = -1.0
        if event not in prices or not 0 <= ns < float("inf"):
            raise RedoubtError(f"'{word}' is no price", f"EVENT=NS, of {', '.join(PRICES)}")
        prices[event] = replace(prices[event], ns=ns, source=GIVEN)
    return prices


def estimate(events: Mapping[str, float], prices: Mapping[str, Price]) -> float:
    """What so many events take, in ns; what is not among them is none."""
    return sum(count * prices[event].ns for event, count in events.items())


def render(prices: Mapping[str, Price]) -> Iterator[str]:
    """For people."""
    for event, price in prices.items():
        yield f"{event:8}{price.ns:>8.0f} ns  {price.source}"
