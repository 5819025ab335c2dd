# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark measures, how often, and what this project demands of it."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError

MIB = 1 << 20

# Kinds of figures, never mixed.
TIME = "time"
MOCK = "time-mock"
INSTRUCTIONS = "instructions"
EVENTS = "events"
TIMED = (TIME, MOCK)

ROUNDS = 8
QUICK_ROUNDS = 2

# (numerator, denominator) of what is reported; the last is the noise of the method.
COMPARISONS = (
    ("off", "pristine"),
    ("on-unbatched", "off"),
    ("on", "off"),
    ("asi", "off"),
    ("asi-leaving", "off"),
    ("pristine-b", "pristine"),
)
VARIANTS = {
    TIME: ("pristine", "off", "on-unbatched", "on", "pristine-b"),
    MOCK: ("pristine", "off", "on-unbatched", "on", "pristine-b"),
    INSTRUCTIONS: ("pristine", "off", "on-unbatched", "on", "asi", "asi-leaving"),
    EVENTS: ("on-unbatched", "on"),
}


@dataclass(frozen=True)
class Spec:
    """One argument of /bin/bench. `size` is in bytes, or in pages where the workload says so."""

    workload: str
    size: int
    ops: int
    samples: int
    warmup: int

    def __str__(self) -> str:
        return f"{self.workload}:{self.size}:{self.ops}:{self.samples}:{self.warmup}"


@dataclass(frozen=True)
class Limit:
    """The ratio this project demands of a target, at one size, or at all if None.

    `kind` is TIME, which binds a mock as well, or INSTRUCTIONS; `variant` is what is compared.
    """

    target: str
    kind: str
    ratio: float
    size: int | None = None
    variant: str = "on"


@dataclass(frozen=True)
class Workload:
    """A workload, as configs/bench.toml has it, which explains the fields."""

    name: str
    sizes: tuple[int, ...]
    emulated: tuple[int, ...]
    ops: int
    samples: int
    unit: str = ""
    gauge: bool = False
    ours: bool = False
    host_excluded: bool = False
    limits: tuple[Limit, ...] = ()
    visits: int = 1
    only: tuple[str, ...] = ()
    once: bool = False
    debian: bool = False
    kernel_of: str = ""

    def specs(self, kind: str, variant: str, *, quick: bool = False) -> list[Spec]:
        """What is asked of one boot of a variant for a kind of figure."""
        if self.kernel_of or (self.ours and variant.startswith("pristine")):
            return []
        return [
            self._spec(kind, size, quick)
            for size in (self.emulated if kind == INSTRUCTIONS else self.sizes)
        ]

    def _spec(self, kind: str, size: int, quick: bool) -> Spec:
        ops = self.ops_at(size)
        if self.once:
            return Spec(self.name, size, ops, 1, 0)
        if kind in TIMED:
            # Fewer of what takes long.
            usual = max(3, self.samples // 2) if size >= _LARGE else self.samples
            return Spec(self.name, size, ops, min(3, self.samples) if quick else usual, 1)
        if kind == EVENTS:
            # The first of the largest, as later ones do not make the pool grow.
            return Spec(self.name, size, min(ops, 256), 1, int(size < _LARGE))
        if size >= _LARGE:
            # It takes half a minute to fill the mapping.
            return Spec(self.name, size, min(ops, 256), 1, 1)
        # Ticks of the guest's clock fall into some samples and not into others, and into all of
        # what takes long.
        return Spec(self.name, size, min(ops, 256), min(self.samples, 7), 1)

    def on(self, target: str) -> bool:
        """Does a target have it?"""
        return not self.only or target in self.only

    def ops_at(self, size: int) -> int:
        """Operations a sample: for what is sized in pages, as many as the guest flushes at once."""
        return max(16, _PAGES_PER_FLUSH // size) if self.unit == "page" else self.ops

    def limit_at(self, target: str, kind: str, size: int, variant: str = "on") -> float | None:
        """The ratio demanded of a variant of a target for a kind of figure at a size, if one is."""
        kind = TIME if kind == MOCK else kind
        found = (
            limit.ratio for limit in self.limits
            if (limit.target, limit.kind, limit.variant) == (target, kind, variant)
            and limit.size in (None, size)
        )  # fmt: skip
        return next(found, None)

    def title(self, size: int) -> str:
        """Name and size for people."""
        return f"{self.name} {self.label(size)}" if size else self.name

    def label(self, size: int) -> str:
        """A size for people."""
        if self.unit:
            return f"{size} {self.unit}{'' if size == 1 else 'es' if self.unit[-1] == 's' else 's'}"
        return size_label(size) if size else "-"


def size_label(size: int) -> str:
    """A number of bytes for people."""
    if size % (1 << 30) == 0:
        return f"{size >> 30} GiB"
    return f"{size >> 20} MiB" if size % MIB == 0 else f"{size >> 10} KiB"


# PAGES_PER_FLUSH in kernel/mm/kpkeys_bench/vmalloc.c.
_PAGES_PER_FLUSH = 4096
_LARGE = 1024 * MIB

# The ratio to the pristine kernel that is demanded of booting.
BOOT_LIMIT = 1.3

_SHIFTS = {"K": 10, "M": 20, "G": 30}


def in_bytes(size: int | str) -> int:
    """A size as a file has it: a number, or one of KiB, MiB or GiB as in "64M"."""
    return int(size[:-1]) << _SHIFTS[size[-1]] if isinstance(size, str) else size


def _loaded(file: Path) -> Iterator[Workload]:
    for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        lists |= {key: tuple(map(in_bytes, lists[key])) for key in ("sizes", "emulated")}
        limits = (
            Limit(**one | {"size": in_bytes(one["size"])} if "size" in one else one)
            for one in lists.get("limits", ())
        )
        yield Workload(name, **entry | lists | {"limits": tuple(limits)})


WORKLOADS = {work.name: work for work in _loaded(paths.repo() / "configs" / "bench.toml")}


def chosen(names: Sequence[str], target: str) -> list[Workload]:
    """The workloads of these names on a target.

    If there are none all it has, but for what runs programs of Debian: that takes minutes a boot.

    Raises RedoubtError naming the workloads it has.
    """
    there = {name: work for name, work in WORKLOADS.items() if work.on(target)}
    for name in names:
        if name not in there:
            what = f"{target} has no workload" if name in WORKLOADS else "unknown workload"
            raise RedoubtError(f"{what} '{name}'", "workloads: " + ", ".join(there))
    # A part is measured with the whole.
    wanted = {*names, *(there[name].kernel_of for name in names)}
    if not names:
        return [work for work in there.values() if not (work.debian or work.kernel_of)]
    return [work for name, work in there.items() if name in wanted]


def interleaved(variants: Sequence[str], rounds: int, seed: int) -> list[list[str]]:
    """Each round boots every variant once, in an order of its own."""
    rng = random.Random(seed)
    return [rng.sample(variants, len(variants)) for _ in range(rounds)]
