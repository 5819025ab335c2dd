# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark measures, how often, and what this project demands of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

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
    """A workload: `sizes` in bytes, or in the `unit` it names, operations and samples per boot.

    `host_excluded` leaves out what UML spends in calls of its host, which other architectures do
    not have. `limits` are what this project demands.
    `emulated` are the sizes whose instructions are counted, where everything is ten times slower.
    `gauge` is one that is no operation of a kernel, but tells a price: it is compared with nothing.
    `ours` is one that the pristine kernel does not have. `visits` is how many page tables it visits
    for each that the kernel counts. `only` are the targets that have it, if not all do. `once` is
    one that a boot does a single time.
    """

    name: str
    what: str
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

    def specs(self, kind: str, variant: str, *, quick: bool = False) -> list[Spec]:
        """What is asked of one boot of a variant for a kind of figure."""
        if self.ours and variant.startswith("pristine"):
            return []
        if kind in TIMED:
            return [
                Spec(
                    self.name, size, self.ops_at(size),
                    min(3, self.samples) if quick else self.samples_at(size), 1,
                )
                for size in self.sizes
            ]  # fmt: skip
        if kind == EVENTS:
            # The first of the largest, as later ones do not make the pool grow.
            return [
                Spec(self.name, size, min(self.ops_at(size), 256), 1, int(size < _LARGE))
                for size in self.sizes
            ]
        if self.once:
            return [Spec(self.name, size, self.ops, 1, 0) for size in self.emulated]
        # Ticks of the guest's clock fall into some samples and not into others, and into all of
        # what takes long.
        samples = min(self.samples, 7)
        return [
            Spec(self.name, size, min(self.ops_at(size), 256), samples, 1) for size in self.emulated
        ]

    def on(self, target: str) -> bool:
        """Does a target have it?"""
        return not self.only or target in self.only

    def ops_at(self, size: int) -> int:
        """Operations a sample: for what is sized in pages, as many as the guest flushes at once."""
        return max(16, _PAGES_PER_FLUSH // size) if self.unit == "page" else self.ops

    def samples_at(self, size: int) -> int:
        """Samples a boot: fewer of what takes long."""
        return max(3, self.samples // 2) if size >= _LARGE else self.samples

    def limit_at(self, target: str, kind: str, size: int, variant: str = "on") -> float | None:
        """The ratio demanded of a variant of a target for a kind of figure at a size, if one is."""
        for limit in self.limits:
            bound = TIMED if limit.kind == TIME else (limit.kind,)
            if (
                (limit.target, limit.variant) == (target, variant)
                and kind in bound
                and limit.size in (None, size)
            ):
                return limit.ratio
        return None

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
_MAPPINGS = (64 * MIB, 256 * MIB, 1024 * MIB)
_LARGE = 1024 * MIB
_SMALL = (64 * MIB,)
_READS = (4 << 10, 128 << 10, 2 * MIB)
_PAGES = (1, 4, 16, 64, 256)
# PCs; and all targets whose instructions are counted and whose time is not.
_PC = ("x86_64", "x86_64-mktme")
_COUNTED = (*_PC, "arm64")


def _time(ratio: float, size: int | None = None) -> Limit:
    return Limit("um", TIME, ratio, size)


def _x86(ratio: float, variant: str = "on", size: int | None = None) -> Limit:
    return Limit("x86_64", INSTRUCTIONS, ratio, size, variant)


def _arm(ratio: float) -> Limit:
    return Limit("arm64", INSTRUCTIONS, ratio)


# Hooks of address space isolation that do nothing: these are on top of kpkeys'.
_UNISOLATED = _x86(1.003, "off")

# Several keys for memory, of which none is used.
_UNENCRYPTED = Limit("x86_64-mktme", INSTRUCTIONS, 1.003, variant="off")

# The ratio to the pristine kernel that is demanded of booting.
BOOT_LIMIT = 1.3

WORKLOADS = {
    workload.name: workload
    for workload in (
        # What is there when nothing has run, and what many processes change in that.
        Workload("boot", "from reset to the first program", (), (0,), 1, 1,
                 only=_PC, once=True),
        Workload("storm", "many processes at a time, as their user sees them", (), (64,), 4, 1,
                 unit="process", only=_PC, once=True),
        Workload("null-syscall", "getppid(), as its user sees it", (0,), (0,), 256, 10,
                 only=_COUNTED, limits=(_x86(1.0),)),
        Workload("interrupt", "an interrupt that a CPU sends to itself", (), (0,), 256, 10,
                 only=_COUNTED),
        Workload("fork", "copying one mapping: dup_mmap()", _MAPPINGS, _SMALL, 1, 8,
                 limits=(_time(1.02, 1024 * MIB), _x86(1.01), _arm(1.01), _UNENCRYPTED),
                 visits=2),
        Workload("munmap", "unmapping one mapping", _MAPPINGS, _SMALL, 1, 8,
                 limits=(_time(1.01, 1024 * MIB), _x86(1.005), _arm(1.005), _UNENCRYPTED),
                 visits=2),
        Workload("fork-large", "fork of folios of 64 KiB", _SMALL, _SMALL, 1, 8,
                 limits=(_x86(1.02), _arm(1.02)), visits=2, only=_COUNTED),
        Workload("munmap-large", "munmap of folios of 64 KiB", _SMALL, _SMALL, 1, 8,
                 limits=(_x86(1.02), _arm(1.02)), visits=2, only=_COUNTED),
        Workload("exit", "giving up the copy: exit_mmap()", _MAPPINGS[:2], _SMALL, 1, 8,
                 visits=2),
        Workload("fault", "touching one mapping, page by page", _SMALL, _SMALL, 1, 8,
                 limits=(_time(1.02), _x86(1.003), _arm(1.005), _UNISOLATED, _UNENCRYPTED)),
        Workload("page-cache", "writing a file, and deleting it, as its user sees it", (), _SMALL,
                 1, 8, only=_PC, limits=(_UNISOLATED,)),
        Workload("file-read", "reading somewhere in a file, as its user sees it", (), _READS,
                 16, 8, only=_PC, limits=(_x86(1.04, "asi", 4096), _UNENCRYPTED)),
        Workload("file-write", "writing somewhere in a file, as its user sees it", (), _READS,
                 16, 8, only=_PC),
        Workload("read-by-two", "two processes at a time read 256 times each, the second of which "
                 "is made for that", (), _READS[:1], 1, 8, only=_PC),
        Workload("pipe", "a byte to another process, and one back", (), (0,), 256, 8, only=_PC),
        Workload("thread-switch", "to another thread, and back", (), (0,), 256, 8, only=_PC),
        Workload("mprotect", "changing one mapping, there and back", _SMALL, _SMALL, 8, 10,
                 limits=(_x86(1.01),)),
        Workload("exec-exit", "exec and exit, the part in the kernel", (0,), (0,), 32, 10,
                 limits=(_time(1.02),)),
        Workload("vmalloc", "vmalloc() and vfree()", _PAGES, _PAGES, 0, 10,
                 unit="page", host_excluded=True, limits=(_time(1.06, 1),)),
        Workload("vmalloc-random", "vmalloc() and vfree() of up to so much", (100,), (100,), 0, 10,
                 unit="page", host_excluded=True),
        Workload("vm_map_ram", "vm_map_ram() and vm_unmap_ram()", (1, 16), (1, 16), 0, 10,
                 unit="page", host_excluded=True, limits=(_time(1.10),)),
        Workload("buildlike", "compiling in the guest, as its user sees it", (4,), (2,), 1, 2,
                 unit="file", limits=(_x86(1.02, "asi"),)),
        Workload("switch", "raising and lowering the level once", (0,), (0,), 4096, 10,
                 gauge=True, ours=True),
        Workload("nothing", "reading the clock", (0,), (0,), 4096, 10, gauge=True),
    )
}  # fmt: skip


def chosen(names: Sequence[str], target: str) -> list[Workload]:
    """The workloads of these names on a target, all it has if there are none.

    Raises RedoubtError naming the workloads it has.
    """
    there = {name: work for name, work in WORKLOADS.items() if work.on(target)}
    for name in names:
        if name not in there:
            what = f"{target} has no workload" if name in WORKLOADS else "unknown workload"
            raise RedoubtError(f"{what} '{name}'", "workloads: " + ", ".join(there))
    return [work for name, work in there.items() if not names or name in names]


def interleaved(variants: Sequence[str], rounds: int, seed: int) -> list[list[str]]:
    """Each round boots every variant once, in an order of its own."""
    rng = random.Random(seed)
    return [rng.sample(variants, len(variants)) for _ in range(rounds)]
