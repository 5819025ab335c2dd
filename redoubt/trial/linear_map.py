# SPDX-License-Identifier: GPL-2.0-only
"""The linear map of arm64: the same on ours as on pristine, and what creating it takes.

The kernel lists its mappings in debugfs, entries that are alike in one line.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_logged
from redoubt.core.progress import Progress
from redoubt.image import elf
from redoubt.linux.build import Build
from redoubt.machine import host, qemu
from redoubt.machine.boot import Machine, Result
from redoubt.machine.kernels import Workbench, workbench
from redoubt.targets import Target, Way, get_variant
from redoubt.trial.experiment import start

_CREATED = re.compile(
    r"linear map: (?P<tables>\d+) tables, (?P<fixmap_set>\d+) fixmap slots set, "
    r"(?P<fixmap_cleared>\d+) cleared, (?P<instructions>\d+) ticks at (?P<hz>\d+) Hz$"
)
_ENTRY = re.compile(
    r"^0x(?P<start>[0-9a-f]{16})-0x(?P<end>[0-9a-f]{16})\s+\d+[KMGTPE]\s(?P<what>.*)$"
)
_BEGIN, _END = "---[ Linear Mapping start ]---", "---[ Linear Mapping end ]---"
_MAPPINGS = "/sys/kernel/debug/kernel_page_tables"
_WX = "/sys/kernel/debug/check_wx_pages"
_WX_GOOD = "SUCCESS"
_TIMEOUT = 300.0

# Words for the size of an entry.
_SIZES = ("PTE", "PMD", "CON", "BLK")
# Sections of the image end here; what the linear map allows changes with them.
_IMAGE_END = "_end"
_SYMBOLS = ("_text", "__init_begin", "__init_end", "__bss_stop", _IMAGE_END)

# An emulated CPU that counts advances its clock by 1 ns for each instruction.
_COUNTING_HZ = 1_000_000_000

# What the project demands.
PAGES_LIMIT, BLOCKS_LIMIT = 0.75, 1.02
PAGES, BLOCKS = "pages", "blocks"
MEMORY_GIB = (1, 4, 16)


def _edit(tree: Path, node: str, name: str, *cells: int) -> None:
    run_logged(
        ["fdtput", "-p", "-t", "x", tree, node, name, *(f"{cell:x}" for cell in cells)],
        paths.build_dir() / "log" / "device-tree.log",
        what="changing the device tree",
    )


@dataclass(frozen=True)
class Setting:
    """One way to boot both kernels; `holes` are addresses and sizes of memory left unmapped.

    With `fixmap`, ours has to do as the pristine kernel does, as there is no room for its tables;
    if that is None, this depends on the image.
    Where code can be written, as it was told, it is not `audited` for that. Where pages
    are not mapped while they are free, which are others in each boot, the two are not `compared`.
    """

    name: str
    args: Sequence[str] = ()
    cpus: int = 1
    memory_mb: int = 512
    devices: Sequence[str] = ()
    holes: Sequence[tuple[int, int]] = ()
    fixmap: bool | None = False
    audited: bool = True
    compared: bool = True

    def device_tree(self, machine: Machine, file: Path, progress: Progress) -> None:
        """Write the device tree of the machine with this setting, holes and all.

        Raises RedoubtError if it cannot be made.
        """
        emulator = machine.build.target.emulator
        if not emulator:
            raise RedoubtError(f"{machine.build.target.name} has no device tree")
        qemu.device_tree(
            emulator, file, progress,
            cpus=self.cpus, memory_mb=self.memory_mb, devices=self.boots(machine).devices,
        )  # fmt: skip
        _edit(file, "/reserved-memory", "#address-cells", 2)
        _edit(file, "/reserved-memory", "#size-cells", 2)
        _edit(file, "/reserved-memory", "ranges")
        for address, size in self.holes:
            node = f"/reserved-memory/hole@{address:x}"
            _edit(file, node, "reg", *divmod(address, 1 << 32), *divmod(size, 1 << 32))
            _edit(file, node, "no-map")

    def boots(self, machine: Machine) -> Machine:
        """The machine with this setting, but for its holes."""
        return replace(
            machine,
            args=(*machine.args, *self.args),
            cpus=self.cpus,
            memory_mb=self.memory_mb,
            # Both kernels are put to the same random place.
            devices=("-seed", "1", *self.devices),
        )


_BLOCKS = "rodata=noalias"
# Where a kernel for addresses of 52 bits has those of 48, and does without its topmost level.
NARROW = Way("CPU without LPA2", devices=("-cpu", "max,lpa2=off"))

# MiB of memory with holes, and how far they are from each other, by KiB of a page. With a hole at
# each multiple of what the tables take, there is no room for them; there must be more tables than
# those in the image, and no more than 63 holes, as without EFI the kernel has 128 ranges of memory.
# That does not go together with pages of 64 KiB; and with addresses of 52 bits and so little memory
# the pristine kernel takes minutes to boot. A kernel for debugging is larger than the place that is
# left for it between the holes.
_SHATTERED = {4: (64, 1), 16: (240, 4)}


def _no_room(page_kib: int) -> Setting:
    memory_mb, every = _SHATTERED[page_kib]
    # Where QEMU puts the kernel, and behind it the initramfs and the device tree.
    kernel, initramfs = range(2, 8), range(at := min(memory_mb // 2, 128), at + 9)
    holes = [
        (0x40000000 + (mib << 20), page_kib << 10)
        for mib in range(0, memory_mb, every)
        if mib not in kernel and mib not in initramfs
    ]
    return Setting("no room", ("nokaslr",), memory_mb=memory_mb, holes=holes, fixmap=True)


def settings(kernel: Build) -> tuple[Setting, ...]:
    """All that a kernel is booted with, as it is configured."""
    known = tomllib.loads((paths.repo() / "configs" / "linear-map.toml").read_text())
    always, debug = ([Setting(**one) for one in known[which]] for which in ("always", "debug"))
    page_kib = _page_size(kernel) >> 10
    if page_kib > 4:
        # Tables around holes in blocks are large, and of large ones the image has but four.
        always = [replace(one, fixmap=None) if _splits(one) else one for one in always]
    if kernel.configuration().get("CONFIG_KFENCE") == "y":
        return (*always, *debug)
    few = page_kib in _SHATTERED and not wide(kernel)
    return (*always, _no_room(page_kib)) if few else tuple(always)


def _splits(setting: Setting) -> bool:
    return bool(setting.holes) and _BLOCKS in setting.args


def wide(kernel: Build) -> bool:
    """Are addresses of 52 bits, if the CPU has those?"""
    return kernel.configuration().get("CONFIG_ARM64_VA_BITS_52") == "y"


def _page_size(kernel: Build) -> int:
    return 1 << int(kernel.configuration()["CONFIG_PAGE_SHIFT"])


@dataclass(frozen=True)
class Created:
    """What creating the linear map took, of the line in the kernel's log.

    `instructions` are ticks of the counter that runs with `hz`, on a machine that counts them.
    """

    tables: int
    fixmap_set: int
    fixmap_cleared: int
    instructions: int
    hz: int = _COUNTING_HZ

    @property
    def fixmap(self) -> bool:
        """Was a slot of the fixmap used?"""
        return bool(self.fixmap_set or self.fixmap_cleared)

    def as_json(self) -> dict[str, int]:
        """The counts, see docs/json.md."""
        return {name: value for name, value in vars(self).items() if name != "hz"}


@dataclass(frozen=True)
class Seen:
    """One boot: what creating the map took, the map, and what is wrong with it."""

    created: Created
    listing: Listing
    problems: tuple[str, ...]
    boot: Result


def created(lines: Sequence[str]) -> Created | None:
    """What the kernel says it took."""
    found = next(filter(None, map(_CREATED.search, lines)), None)
    return Created(*map(int, found.groups())) if found else None


@dataclass(frozen=True)
class Listing:
    """The linear map of one kernel: ranges of addresses with what the kernel says of them.

    `text` is where the image begins, or -1 if nothing shows it; `symbols` are the offsets of
    _SYMBOLS from there. `block` is the size of the largest entries that are put around an image.
    """

    ranges: tuple[tuple[int, int, str], ...]
    text: int
    symbols: Mapping[str, int]
    block: int

    def lines(self, image_end: int = 0) -> list[str]:
        """For people and for comparison, boundaries in the image by name.

        Up to `image_end`, if that is given, without what follows from where sections of the image
        end: the level of an entry, and whether it is one of several contiguous ones.
        """
        names = {
            self.text + offset: name
            for name, offset in self.symbols.items()
            if self.text >= 0 and name != _IMAGE_END
        }
        merged: list[tuple[int, int, str]] = []
        for begin, end, what in self.ranges:
            inside = min(max(begin, image_end), end)
            plain = " ".join(one for one in what.split() if one not in _SIZES)
            if begin < inside:
                if merged and merged[-1][2] == plain:
                    begin = merged.pop()[0]
                merged.append((begin, inside, plain))
            if inside < end:
                merged.append((inside, end, what))
        return [
            f"{names.get(start, f'{start:x}')}-{names.get(end, f'{end:x}')} {what}"
            for start, end, what in merged
        ]


def listing(lines: Sequence[str], symbols: Mapping[str, int], page_size: int) -> Listing | None:
    """The linear map in what a guest has printed; None if it is not there, or not whole.

    The image is where writing is not allowed. A table of entries of 8 bytes makes a block.
    """
    if _BEGIN not in lines or _END not in lines:
        return None
    ranges = tuple(
        (int(match["start"], 16), int(match["end"], 16), " ".join(match["what"].split()))
        for line in lines[lines.index(_BEGIN) + 1 : lines.index(_END)]
        if (match := _ENTRY.match(line))
    )
    text = next((start for start, _, what in ranges if " ro " in what), -1)
    return Listing(ranges, text, symbols, page_size * page_size // 8) if ranges else None


def alike(one: Listing, other: Listing) -> bool:
    """Are two linear maps the same, entry by entry?

    Sections of two images need not be of one size. Where they are not, what depends on that is left
    out: the size of entries in the image and in the block in which it ends.
    """
    # Behind the last section that differs from the rest, the end of an image is no boundary.
    sections = [{**kernel.symbols, _IMAGE_END: 0} for kernel in (one, other)]
    if sections[0] == sections[1]:
        return one.lines() == other.lines()
    ends = [kernel.text + kernel.symbols[_IMAGE_END] for kernel in (one, other) if kernel.text >= 0]
    image_end = -(-max(ends, default=0) // one.block) * one.block
    return one.lines(image_end) == other.lines(image_end)


def image_symbols(machine: Machine) -> dict[str, int]:
    """Where sections of the image end, from its beginning.

    Raises RedoubtError if a symbol is missing.
    """
    found = {
        symbol.name: symbol.value
        for symbol in elf.Elf(machine.build.vmlinux).symbols
        if symbol.name in _SYMBOLS
    }
    if missing := [name for name in _SYMBOLS if name not in found]:
        raise RedoubtError(f"{machine.build.vmlinux} has no symbol {', '.join(missing)}")
    return {name: found[name] - found[_SYMBOLS[0]] for name in _SYMBOLS}


def look(machine: Machine, label: str, progress: Progress, *, audited: bool = True) -> Seen:
    """Boot a machine, list its linear map, and have the kernel look for writable code.

    Raises RedoubtError if it does not come so far, or does not say what the map took.
    """
    result = start(
        machine, *(("/bin/cat", file) for file in (_MAPPINGS, _WX)[: 1 + audited]),
        name="linear-map-" + re.sub(r"\W+", "-", label), timeout=_TIMEOUT, progress=progress,
        title=f"Listing the linear map ({label})",
    )  # fmt: skip
    took = created(result.console)
    listed = listing(result.console, image_symbols(machine), _page_size(machine.build))
    if result.status != 0 or not took or not listed:
        raise RedoubtError("the linear map was not listed: " + result.describe())
    problems = list(result.complaints)
    # The kernel says so as well, and may do it in the same line.
    if audited and not any(line.startswith(_WX_GOOD) for line in result.console):
        problems.append("there are pages that can be written and executed")
    return Seen(took, listed, tuple(problems), result)


@dataclass(frozen=True)
class Kernels:
    """The pristine kernel and ours, built."""

    pristine: Workbench
    ours: Workbench

    def machines(self) -> tuple[Machine, Machine]:
        """What boots them, in this order."""
        target = self.ours.build.target
        return (
            self.pristine.machine(get_variant(target, "pristine")),
            self.ours.machine(get_variant(target, "off")),
        )


def build_both(target: Target, progress: Progress, flavour: str = "") -> Kernels:
    """Build both kernels.

    Raises RedoubtError if one cannot be built.
    """
    where = host.pick(target, "auto")
    pristine, ours = (
        workbench(target, get_variant(target, name), where, progress, flavour=flavour)
        for name in ("pristine", "on")
    )
    return Kernels(pristine, ours)


@dataclass(frozen=True)
class Comparison:
    """A setting on both kernels."""

    setting: Setting
    pristine: Seen
    ours: Seen

    @property
    def problems(self) -> list[str]:
        """What is not as it has to be."""
        found = [*self.ours.problems]
        if self.setting.compared and not alike(self.pristine.listing, self.ours.listing):
            there = [f"    pristine  {one}" for one in self.pristine.listing.lines()]
            here = [f"    ours      {one}" for one in self.ours.listing.lines()]
            found += ["the linear map is another one:", *there, *here]
        # A kernel that uses none anyway would prove nothing.
        pristine, ours = self.pristine.created, self.ours.created
        if not (pristine.fixmap_set and pristine.fixmap_cleared):
            found.append("the pristine kernel used no fixmap slot")
        if self.setting.fixmap and not ours.fixmap:
            found.append("there was room for all page tables")
        if self.setting.fixmap is False and ours.fixmap:
            found.append(f"{ours.fixmap_set} fixmap slots set, {ours.fixmap_cleared} cleared")
        return found


def compare(pristine: Machine, ours: Machine, setting: Setting, progress: Progress) -> Comparison:
    """Boot both kernels with one setting.

    Raises RedoubtError as `look` does.
    """
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        more: tuple[str, ...] = ()
        if setting.holes:
            file = Path(name) / "dtb"
            setting.device_tree(ours, file, progress)
            more = ("-dtb", str(file))
        seen = []
        for machine, of in ((pristine, ", pristine"), (ours, "")):
            made = setting.boots(machine)
            made = replace(made, devices=(*made.devices, *more))
            seen.append(look(made, f"{setting.name}{of}", progress, audited=setting.audited))
        return Comparison(setting, *seen)


# === What it takes ===============================================================================


@dataclass(frozen=True)
class Row:
    """Both kernels with so much memory, mapped in PAGES or BLOCKS, on a machine that counts."""

    memory_gib: int
    mapped_in: str
    pristine: Created
    ours: Created

    @property
    def ratio(self) -> float:
        """Instructions of ours by those of pristine."""
        return self.ours.instructions / self.pristine.instructions

    @property
    def limit(self) -> float:
        """What the ratio may be at most."""
        return PAGES_LIMIT if self.mapped_in == PAGES else BLOCKS_LIMIT

    @property
    def met(self) -> bool:
        """Is everything as demanded?"""
        return self.ratio <= self.limit and not (self.ours.fixmap and self.mapped_in == PAGES)

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return {
            "memory_gib": self.memory_gib, "mapped_in": self.mapped_in,
            "pristine": self.pristine.as_json(), "ours": self.ours.as_json(),
            "ratio": self.ratio, "limit": self.limit, "met": self.met,
        }  # fmt: skip


def row_from_json(value: Mapping[str, Any]) -> Row:
    """The inverse of Row.as_json(); raises KeyError or TypeError for anything else."""
    pristine, ours = (Created(**value[name]) for name in ("pristine", "ours"))
    return Row(value["memory_gib"], value["mapped_in"], pristine, ours)


def measure(pristine: Machine, ours: Machine, progress: Progress) -> list[Row]:
    """Count what creating the linear map takes, for every size and granularity.

    Raises RedoubtError as `look` does, and if the clock does not count instructions.
    """

    def taken(setting: Setting, machine: Machine, name: str) -> Created:
        # Counting comes with a seed, and there can be but one.
        made = replace(
            setting.boots(machine), devices=tuple(setting.devices), count_instructions=True
        )
        found = look(made, f"{setting.name}, {name}, counting", progress).created
        if found.hz != _COUNTING_HZ:
            raise RedoubtError("the emulated counter does not count instructions")
        return found

    rows = []
    for mapped_in, args in ((PAGES, ("nokaslr",)), (BLOCKS, ("nokaslr", _BLOCKS))):
        for memory_gib in MEMORY_GIB:
            setting = Setting(f"{memory_gib} GiB in {mapped_in}", args, memory_mb=memory_gib * 1024)
            both = taken(setting, pristine, "pristine"), taken(setting, ours, "ours")
            rows.append(Row(memory_gib, mapped_in, *both))
    return rows


def render(rows: Sequence[Row]) -> Iterator[str]:
    """A table in Markdown."""
    yield (
        "| memory | mapped in | tables | fixmap slots and TLB invalidations, pristine | ours | "
        "instructions, pristine | ours | ours/pristine | demanded |"
    )
    yield "| --- | --- | --: | --: | --: | --: | --: | --: | --: |"
    for row in rows:
        verdict = "met" if row.met else "missed"
        yield (
            f"| {row.memory_gib} GiB | {row.mapped_in} | {row.ours.tables} "
            f"| {row.pristine.fixmap_cleared} | {row.ours.fixmap_cleared} "
            f"| {row.pristine.instructions:,} | {row.ours.instructions:,} | {row.ratio:.3f} "
            f"| ≤ {row.limit:g}: {verdict} |"
        )
