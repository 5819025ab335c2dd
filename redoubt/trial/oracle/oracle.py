# SPDX-License-Identifier: GPL-2.0-only
"""Proving from outside of a machine what the page tables of a process reach.

The guest is stopped while a process runs that is not to know the secrets of another. Its page
tables are then followed in a file that has the machine's memory: nothing in the guest is asked, and
no kernel believed. See docs/oracle.md.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from redoubt.core.errors import GuestError, RedoubtError
from redoubt.core.process import run_logged
from redoubt.core.progress import Progress
from redoubt.machine.boot import Machine, Result
from redoubt.machine.qmp import Qmp
from redoubt.targets import Target
from redoubt.trial import experiment
from redoubt.trial.asi import asi
from redoubt.trial.oracle import pagewalk, patterns, stops
from redoubt.trial.oracle.pagewalk import PAGE_SHIFT, PAGE_SIZE, Memory, Walk
from redoubt.trial.oracle.patterns import Found
from redoubt.trial.oracle.stops import Registers

# Of a kernel that can mount a disk.
FLAVOUR = "oracle"
ROOTS = ("current", "restricted")
# A mistake of the kernel that is made on purpose, and the secret that is seen then.
_MISTAKE = "mistake"
_MISTAKEN = "anonymous"

_PLACES = {"user": "in user mode", "guest": "in a guest", "exit": "at an exit of a guest"}

# The enum in guest/oracle/oracle.c.
_OWN, _FREED = "own", "freed"
_PATTERNS = {"anonymous": 0, "tmpfs": 1, "file": 2, "read": 5, _OWN: 3, _FREED: 6}
_MAGIC = 4
_DISK_OPTIONS = ("CONFIG_EXT4_FS", "CONFIG_VIRTIO_BLK", "CONFIG_VIRTIO_PCI")
# A secret that is swapped out, and one that was and is in again, by the device.
_SWAPPED = {
    "brd": {"brd": 7, "from brd": 8},
    "zswap": {"zswap": 9, "from zswap": 10},
    "zram": {"zram": 11, "from zram": 12},
}
_BRD_OPTIONS = ("CONFIG_SWAP", "CONFIG_BLK_DEV_RAM")
_SWAP_OPTIONS = {
    "brd": _BRD_OPTIONS,
    # Its cache is in front of that.
    "zswap": (*_BRD_OPTIONS, "CONFIG_ZSWAP"),
    "zram": ("CONFIG_SWAP", "CONFIG_ZRAM"),
}
_DISK_MB = 16
# The memory of another guest.
_VIRTUAL = {"guest": 13}
_KVM_OPTIONS = ("CONFIG_KVM", "CONFIG_KVM_AMD")

# Each process has, one behind the other, the page tables of the kernel and of user mode; with
# restricted ones in addition there are two pairs. These bits of CR3 tell which.
_USER, _RESTRICTED = 1 << PAGE_SHIFT, 2 << PAGE_SHIFT
_ROOTS = {
    "current": 0, "user": _USER, "restricted": _RESTRICTED,
    "user, restricted": _USER | _RESTRICTED,
}  # fmt: skip
# QEMU's PC has its memory from address 0 on without a hole up to there.
_MOST_MB = 3072
_UPPER_HALF = 1 << 63
# Documentation/arch/x86/x86_64/mm.rst: the image, and modules up to the fixmap.
_KERNEL = range(0xFFFF_FFFF_8000_0000, 0xFFFF_FFFF_FF00_0000)

_ISOLATED = re.compile(r"Kernel/User page tables isolation: enabled$")
_ASI = re.compile(r"^(?:\[[^]]*\] ?)*asi: on\b")
_FIRST_WORDS = "Linux version "

# Seconds: for the guest, and for the monitor.
_TIMEOUT = 150.0
_QMP_TIMEOUT = 20.0
# Ways to a page that are looked for; ordinary kernels have one.
_ADDRESSES = 4
_ADDRESSES_IN_JSON = ("address", "physical", "cr3", "direct_map")


# === What a set of page tables reaches ===========================================================


@dataclass(frozen=True)
class Way:
    """A virtual address, and the name of what it lies in."""

    address: int
    region: str


@dataclass(frozen=True)
class Place:
    """A page frame that has a page of a secret in it, by its physical address.

    `ways` are those to it: some, if there are many, and none if it is not reached.
    """

    page: int
    physical: int
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class Sight:
    """What is reached of a secret.

    `kernel` and `user` are how many of its pages are reached through addresses of that half, and
    `stray` how many of its words through any, in other places than the secret itself.
    """

    secret: str
    kernel: int
    user: int
    stray: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class View:
    """What is reached from one root: its name and physical address, and what was counted.

    Pages are distinct pages of memory. `global_direct` is how many of the `global_leaves` are of
    the direct map, `aliases` the pages of the kernel's image and modules that are read-only there
    and can be written elsewhere, `outside` the leaves that map no memory. `bad` counts what is
    wrong with the tables, `problems` has some of it in words.
    """

    root: str
    address: int
    tables: int
    kernel_pages: int
    user_pages: int
    outside: int
    global_leaves: int
    global_direct: int
    read_only: int
    aliases: int
    bad: int
    problems: tuple[str, ...]
    sights: tuple[Sight, ...]


def direct_map(walk: Walk) -> int | None:
    """Where the kernel has all of memory, one page after the other; None if it has not.

    That is the distance to physical addresses which most of memory is mapped at.
    """
    leaves = walk.leaves
    which = leaves.kernel & (leaves.frame < walk.memory_pages)
    if not which.any():
        return None
    physical = leaves.frame[which].astype(np.uint64) << np.uint64(PAGE_SHIFT)
    pages = np.minimum(leaves.pages[which], walk.memory_pages - leaves.frame[which])
    distances, of = np.unique(leaves.address[which] - physical, return_inverse=True)
    mapped = np.bincount(of, weights=pages)
    most = int(np.argmax(mapped))
    return int(distances[most]) if mapped[most] * 2 > walk.memory_pages else None


def region(address: int, base: int | None, memory_pages: int) -> str:
    """The name of what an address lies in; `base` is that of the direct map."""
    if address < _UPPER_HALF:
        return "user"
    if base is not None and base <= address < base + memory_pages * PAGE_SIZE:
        return "direct map"
    return "image or modules" if address in _KERNEL else "other kernel memory"


def look(name: str, walk: Walk, base: int | None, found: Mapping[str, Found]) -> View:
    """What a walk reaches of memory and of what was `found` in it."""
    leaves = walk.leaves
    address = leaves.address
    kernel, user = walk.reached(leaves.kernel), walk.reached(~leaves.kernel)
    image = (address >= np.uint64(_KERNEL.start)) & (address < np.uint64(_KERNEL.stop))
    read_only = walk.reached(image & ~leaves.writable)
    writable = walk.reached(leaves.kernel & leaves.writable)
    direct = np.zeros(len(address), dtype=bool)
    if base is not None:
        after = address - np.uint64(base)
        direct = leaves.kernel & (after < np.uint64(walk.memory_pages * PAGE_SIZE))

    def place(page: int, frame: int) -> Place:
        addresses = walk.addresses(frame, _ADDRESSES)
        ways = tuple(Way(one, region(one, base, walk.memory_pages)) for one in addresses)
        return Place(page, frame << PAGE_SHIFT, ways)

    def see(secret: str, where: Found) -> Sight:
        return Sight(
            secret,
            sum(any(kernel[frame] for frame in frames) for frames in where.frames),
            sum(any(user[frame] for frame in frames) for frames in where.frames),
            sum(words for frame, words in where.stray.items() if kernel[frame] or user[frame]),
            tuple(place(page, one) for page, frames in enumerate(where.frames) for one in frames),
        )

    return View(
        root=name, address=walk.root, tables=walk.tables,
        kernel_pages=int(kernel.sum()), user_pages=int(user.sum()), outside=walk.outside(),
        global_leaves=walk.entries(leaves.is_global),
        global_direct=walk.entries(leaves.is_global & direct),
        read_only=int(read_only.sum()), aliases=int((read_only & writable).sum()),
        bad=walk.bad, problems=tuple(walk.problems),
        sights=tuple(see(secret, where) for secret, where in found.items()),
    )  # fmt: skip


# === The verdict =================================================================================


def _wrong(view: View, asked: str, mistake: bool) -> Iterator[str]:
    """What is not as it has to be in the page tables of one root, when `asked` is looked at."""
    restricted = view.root == "restricted"
    yield from view.problems
    if view.bad > len(view.problems):
        yield f"{view.bad} entries or tables like these"
    for sight in view.sights:
        pages = f"of {patterns.PAGES} pages of the secret '{sight.secret}' are reached"
        ways = [place.ways[0] for place in sight.places if place.ways]
        if sight.secret == _OWN:
            if sight.user < patterns.PAGES:
                yield (
                    f"{sight.user} of {patterns.PAGES} pages of the process itself are reached: "
                    "these are not its page tables"
                )
        elif view.root == "current":
            # The positive control: an oracle that does not see what is there proves nothing.
            if sight.kernel < patterns.PAGES:
                yield f"{sight.kernel} {pages}: the oracle is broken"
        elif restricted and mistake:
            # The other one; what else lies in the block that was mapped is reached, too.
            if sight.secret == _MISTAKEN and not sight.kernel:
                yield (
                    f"no page of the secret '{_MISTAKEN}' is reached, and one was mapped on "
                    "purpose: the oracle is broken"
                )
        elif ways:
            reached = len({place.page for place in sight.places if place.ways})
            yield f"{reached} {pages}, through {ways[0].address:#x} ({ways[0].region})"
    # What the CPU could use in spite of restricted page tables, or through them.
    if asked == "restricted" and view.global_direct:
        yield (
            f"{view.global_direct} global entries of the direct map, which stay in TLBs whatever "
            "the page tables"
        )
    if restricted and view.aliases:
        yield f"{view.aliases} read-only pages can be written elsewhere"


@dataclass(frozen=True)
class Report(experiment.Verdict):
    """What was found from the roots of a process, and where its secrets lie.

    `root` is the one that was asked for, and `views` has it with those it is compared with:
    `current` always, those of `user` mode if the kernel isolates it. `place` is where the CPU was
    stopped, and `loaded` which of them it used, or will when it leaves a guest. `file_system` is
    that of the secret in a file, `direct_map` the address of all memory.
    With `mistake` the kernel mapped what is not to be in the restricted ones: found, it has to be.
    `freed` is how many pages of a secret are in memory still whose owner has ended: none if the
    kernel `clears` what is freed, and else some, for the same reason.
    """

    target: str
    root: str
    place: str
    mistake: bool
    file_system: str
    cr3: int
    levels: int
    loaded: str
    memory_pages: int
    direct_map: int | None
    found: Mapping[str, Found]
    views: tuple[View, ...]
    boot: Result
    freed: int
    clears: bool

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is not as it has to be, in words."""
        wrong = [f"the kernel complained: {line}" for line in self.boot.complaints]
        wrong += [
            f"the pattern '{name}' is not in memory: the oracle is broken"
            for name, found in self.found.items()
            if not found.whole
        ]
        if self.direct_map is None:
            wrong.append("no direct map was found: the oracle is broken")
        if self.clears and self.freed:
            wrong.append(
                f"{self.freed} of {patterns.PAGES} pages are in memory still whose owner has ended"
            )
        if not self.clears and not self.freed:
            wrong.append(
                "nothing is in memory of what a process had that has ended: the oracle is broken"
            )
        if self.root not in {view.root for view in self.views}:
            wrong.append(f"nobody looked at the root '{self.root}'")
        if self.root == "restricted" and not self.loaded.endswith("restricted"):
            wrong.append(f"{_PLACES[self.place]} the CPU had the page tables '{self.loaded}'")
        for view in self.views:
            wrong += [f"{view.root}: {one}" for one in _wrong(view, self.root, self.mistake)]
        return tuple(wrong)

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/oracle.md."""
        own = {name: value for name, value in vars(self).items() if name not in ("boot", "found")}
        own["views"] = [asdict(view) for view in self.views]
        shown: dict[str, Any] = _shown({"ok": self.ok, "problems": self.problems, **own})
        return shown


def _shown(value: Any, name: str = "") -> Any:
    """A value for JSON, whose numbers are too short for addresses: these as texts."""
    if isinstance(value, dict):
        return {key: _shown(one, key) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return f"{value:#x}" if name in _ADDRESSES_IN_JSON and value is not None else value


def render(report: Report) -> list[str]:
    """The report as lines of text."""
    head = (
        "page tables", "at", "tables", "reached: kernel", "user", "global", "in direct map",
        "writable aliases",
    )  # fmt: skip
    rows = [
        (
            view.root, f"{view.address:#x}", view.tables, view.kernel_pages, view.user_pages,
            view.global_leaves, view.global_direct, f"{view.aliases} of {view.read_only}",
        )
        for view in report.views
    ]  # fmt: skip
    lines = [
        f"{report.target}, stopped {_PLACES[report.place]} with the page tables '{report.loaded}' "
        f"(CR3 {report.cr3:#x}, {report.levels} levels), {report.memory_pages} pages of memory",
        "",
        *experiment.table(head, rows),
    ]
    for secret in report.found:
        kind = f" ({report.file_system})" if secret == "file" else ""
        lines += ["", f"{secret}{kind}, {patterns.PAGES} pages:"]
        for view in report.views:
            for sight in view.sights:
                if sight.secret == secret:
                    lines += _seen(view, sight)
    lines += ["", f"freed, {patterns.PAGES} pages: {report.freed} in memory still"]
    return lines + ([""] if report.problems else []) + [*experiment.wrong(report.problems)]


def _seen(view: View, sight: Sight) -> Iterator[str]:
    stray = f", and {sight.stray} stray words" if sight.stray else ""
    yield (
        f"  {view.root}: {sight.kernel} reached through kernel addresses, "
        f"{sight.user} through user addresses{stray}"
    )
    for place in sight.places:
        ways = ", ".join(f"{way.address:#x} ({way.region})" for way in place.ways)
        if ways:
            yield f"    page {place.page} at {place.physical:#x}: {ways}"


# === Looking at a machine ========================================================================


class Console:
    """Reads along until the attacker is where it is to be; then stops the machine, and ends it.

    `registers` are those of the CPU then, unless it ran a guest.
    """

    def __init__(self, connect: Callable[[], Qmp], magic: int, root: str) -> None:
        self.spot: stops.Spot | None = None
        self.registers: Registers | None = None
        self.isolated = False
        self.asi = False
        self._connect = connect
        self._magic = magic
        self._root = root

    def __call__(self, line: str) -> None:
        """Take a line of the console.

        Raises RedoubtError if the root that was asked for does not exist.
        """
        if line.startswith(_FIRST_WORDS):
            # Maybe not its first start.
            self.spot, self.registers, self.isolated, self.asi = None, None, False, False
        self.isolated |= bool(_ISOLATED.search(line))
        self.asi |= bool(_ASI.match(line))
        if spot := stops.spot(line):
            if self._root == "restricted" and not self.asi:
                raise RedoubtError(
                    "this kernel has no restricted page tables: it does not say 'asi: on'",
                    "look at what it has, with --root current",
                )
            with self._connect() as monitor:
                self.registers = stops.catch(monitor, spot, self._magic)
                monitor.quit()
            self.spot = spot

    def roots(self) -> dict[str, int]:
        """The physical addresses of the topmost page tables of the process that was stopped."""
        assert self.registers
        there = (_USER if self.isolated else 0) | (_RESTRICTED if self.asi else 0)
        # Those for user mode have their place beside restricted ones also if nothing uses it.
        places = there | (_USER if self.asi else 0)
        first = self.registers.cr3 & pagewalk.ADDRESS & ~places
        return {name: first | bits for name, bits in _ROOTS.items() if not bits & ~there}

    def loaded(self) -> str:
        """The name of the root that the CPU used."""
        assert self.registers
        own = self.registers.cr3 & pagewalk.ADDRESS
        return next((name for name, at in self.roots().items() if at == own), "of nobody")


# === A run =======================================================================================


def needs(target: Target, root: str, mistake: bool = False, place: str = "user") -> None:
    """Raise RedoubtError if a target has no oracle, or there is no such root, place or mistake."""
    if FLAVOUR not in target.flavours:
        raise RedoubtError(
            f"the oracle reads page tables of x86-64, and none of {target.name} yet",
            "redoubt oracle x86_64",
        )
    if root not in ROOTS:
        raise RedoubtError(f"unknown root '{root}'", f"roots: {', '.join(ROOTS)}")
    if place not in stops.PLACES:
        raise RedoubtError(f"unknown place '{place}'", f"places: {', '.join(stops.PLACES)}")
    if mistake and root != "restricted":
        raise RedoubtError(
            f"the mistake is one of the restricted page tables, not of '{root}'",
            f"redoubt oracle {target.name} --root restricted --mistake",
        )


def _mkfs() -> str | None:
    # An ordinary user of Debian does not find it otherwise.
    return shutil.which("mkfs.ext4") or shutil.which("mkfs.ext4", path="/usr/sbin:/sbin")


def _disk(directory: Path) -> Path:
    """An empty ext4 file system."""
    program = _mkfs()
    if not program:
        raise RedoubtError("mkfs.ext4 not found", "sudo apt-get install e2fsprogs")
    disk = directory / "disk"
    with disk.open("wb") as file:
        file.truncate(_DISK_MB << 20)
    run_logged([program, "-q", disk], directory / "mkfs.log", what="making a file system")
    return disk


def _equipped(machine: Machine, directory: Path, disk: Path | None) -> Machine:
    """The machine with its memory in a file, a monitor on a socket, and a disk if there is one."""
    backend = f"memory-backend-file,id=memory,size={machine.memory_mb}M,share=on"
    devices = [
        "-object", f"{backend},mem-path={directory / 'memory'}",
        "-machine", "memory-backend=memory",
        "-qmp", f"unix:{directory / 'monitor'},server=on,wait=off",
    ]  # fmt: skip
    if disk:
        devices += [
            "-drive", f"if=none,id=disk,format=raw,file={disk}",
            "-device", "virtio-blk-pci,drive=disk",
        ]  # fmt: skip
    return replace(machine, devices=(*machine.devices, *devices))


def examine(
    memory: Memory, roots: Mapping[str, int], levels: int, found: Mapping[str, Found]
) -> tuple[int | None, tuple[View, ...]]:
    """The address of the direct map, and what is reached from each root."""
    walks = {name: pagewalk.walk(memory, at, levels) for name, at in roots.items()}
    base = direct_map(walks["current"])
    return base, tuple(look(name, walk, base, found) for name, walk in walks.items())


def run(
    machine: Machine, root: str, progress: Progress, *, mistake: bool = False, place: str = "user"
) -> Report:
    """Boot, stop the attacker at a `place` of `stops.PLACES`, and look from outside.

    The secret in a file lies on a disk if the kernel can mount one, else in ramfs. Others are
    swapped out to what the kernel has for it. A mistake takes a machine with the vulnerable driver.
    Raises RedoubtError if the guest does not get as far, or has no such root or place.
    """
    target = machine.build.target.name
    if machine.memory_mb > _MOST_MB:
        raise RedoubtError(
            f"the oracle does not read more than {_MOST_MB} MiB of memory, which have no hole"
        )
    seed = secrets.randbits(64)
    has = machine.build.configuration()

    def can(options: Iterable[str]) -> bool:
        return all(has.get(option) == "y" for option in options)

    swaps = [swap for swap, options in _SWAP_OPTIONS.items() if can(options)]
    numbers = _PATTERNS | {name: n for swap in swaps for name, n in _SWAPPED[swap].items()}
    if can(_KVM_OPTIONS):
        numbers |= _VIRTUAL
    elif place != "user":
        raise RedoubtError(
            "this kernel has no guests of KVM",
            f"set in its configuration: {', '.join(_KVM_OPTIONS)}",
        )
    wanted = [patterns.pattern(seed, number) for number in numbers.values()]
    on_disk = can(_DISK_OPTIONS)
    file_system = ("ext4", "/dev/vda") if on_disk else ("ramfs",)
    command = [
        "/bin/oracle", *((_MISTAKE,) if mistake else ()), f"{seed:x}", *file_system, *swaps,
        place,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        directory = Path(name)
        equipped = _equipped(machine, directory, _disk(directory) if on_disk else None)
        if root == "restricted":
            equipped = replace(equipped, args=(*equipped.args, asi.ARGS[0]))
        console = Console(
            lambda: Qmp(directory / "monitor", _QMP_TIMEOUT),
            int(patterns.pattern(seed, _MAGIC)[0, 0]),
            root,
        )
        ended = experiment.start(
            equipped, command, name=f"oracle-{target}", timeout=_TIMEOUT, progress=progress,
            title=f"Stopping {target} {_PLACES[place]}", watch=console,
        )  # fmt: skip
        if console.spot is None:
            raise GuestError("the guest did not get to be looked at: " + ended.describe())
        with progress.step(f"Reading the page tables of {target}"):
            memory = pagewalk.load(directory / "memory")
            console.registers = console.registers or stops.of_host(memory)
            levels = console.registers.levels
            roots = {
                known: at
                for known, at in console.roots().items()
                if root == "restricted" or "restricted" not in known
            }
            found = dict(zip(numbers, patterns.find(memory, wanted), strict=True))
            freed = found.pop(_FREED)
            base, views = examine(memory, roots, levels, found)
        return Report(
            target, root, place, mistake, file_system[0], console.registers.cr3, levels,
            console.loaded(), len(memory), base, found, views, ended,
            sum(map(bool, freed.frames)), console.asi,
        )  # fmt: skip
