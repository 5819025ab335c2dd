# SPDX-License-Identifier: GPL-2.0-only
"""What the oracle says of memories that are made by hand, and one run of a real guest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REAL_BUILD, Done, Sandbox
from guests import ended, machine, say

from redoubt.core import paths
from redoubt.core.errors import GuestError, RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import boot, host, kernels, qemu
from redoubt.machine.boot import Machine, Result
from redoubt.suite import isolation, steps
from redoubt.suite.run import Run, Skipped
from redoubt.targets import PC, TARGETS, X86_64, get_variant
from redoubt.trial import experiment
from redoubt.trial.oracle import oracle, pagewalk, patterns, stops
from redoubt.trial.oracle.oracle import Console, Report
from redoubt.trial.oracle.patterns import PAGES, WORDS
from redoubt.trial.oracle.stops import Registers, Spot

PRESENT, WRITABLE, USER, LARGE, GLOBAL = 1, 2, 4, 1 << 7, 1 << 8
RW = PRESENT | WRITABLE
DIRECT = 0xFFFF_8880_0000_0000
IMAGE = 0xFFFF_FFFF_8100_0000
OWN_AT = 0x7FFF_0000_0000
FRAMES = 1024
NAMES = ("anonymous", "tmpfs", "file", "own")
# Where the page frames of each pattern begin, and those of the kernel's text.
AT = {"anonymous": 512, "tmpfs": 560, "file": 600, "own": 700}
TEXT = 64
RESULT = ended((), "died", log=Path("console.log"))


@dataclass
class Guest:
    """A memory of 4 MiB with secrets, and the page tables of three roots in it."""

    memory: pagewalk.Memory
    roots: dict[str, int]
    used: int = 12

    def put(self, root: str, address: int, entry: int, level: int = 1) -> None:
        frame = self.roots[root] >> 12
        for above in (4, 3, 2):
            at = address >> (12 + 9 * (above - 1)) & 511
            if above == level:
                break
            if not self.memory[frame, at]:
                self.used += 1
                self.memory[frame, at] = self.used << 12 | RW | USER
            frame = int(self.memory[frame, at]) >> 12
        else:
            at = address >> 12 & 511
        self.memory[frame, at] = entry

    def hold(self, root: str, name: str, address: int) -> None:
        """Map the pages of a pattern from an address on."""
        for page in range(PAGES):
            self.put(root, address + page * 4096, AT[name] + page << 12 | RW | USER)

    def report(self, root: str = "current", **changes: Any) -> Report:
        wanted = [patterns.pattern(5, number) for number in range(4)]
        found = dict(zip(NAMES, patterns.find(self.memory, wanted), strict=True))
        roots = {name: at for name, at in self.roots.items() if name in ("current", "user", root)}
        base, views = oracle.examine(self.memory, roots, 4, found)
        made = Report(
            "x86_64", root, "user", False, "ramfs", self.roots["user"], 4, "user", FRAMES, base,
            found, views, RESULT, 0 if root == "restricted" else 3, root == "restricted",
        )  # fmt: skip
        if root == "restricted":
            made = replace(made, loaded=root)
        return replace(made, **changes)

    def problem(self, root: str = "current", **changes: Any) -> str:
        """The one thing that is wrong."""
        report = self.report(root, **changes)
        assert len(report.problems) == 1, report.problems
        assert not report.ok
        return report.problems[0]


@pytest.fixture
def guest() -> Guest:
    memory = np.zeros((FRAMES, WORDS), dtype=np.uint64)
    for number, name in enumerate(NAMES):
        memory[AT[name] : AT[name] + PAGES] = patterns.pattern(5, number)
    made = Guest(memory, {"current": 8 << 12, "user": 9 << 12, "restricted": 10 << 12})
    for root in made.roots:
        made.hold(root, "own", OWN_AT)
    # The direct map: 2 MiB in pages, some of them the kernel's text, and 2 MiB in one.
    for root in ("current", "restricted"):
        for frame in range(512):
            text = TEXT <= frame < TEXT + 4
            made.put(root, DIRECT + frame * 4096, frame << 12 | (PRESENT if text else RW))
        for page in range(4):
            made.put(root, IMAGE + page * 4096, TEXT + page << 12 | PRESENT | GLOBAL)
    made.put("current", DIRECT + (1 << 21), 1 << 21 | RW | LARGE, 2)
    return made


# === The verdict =================================================================================


def test_all_is_found_from_ordinary_page_tables(guest: Guest) -> None:
    report = guest.report()
    assert report.problems == ()
    assert report.ok
    assert [view.root for view in report.views] == ["current", "user"]
    assert report.direct_map == DIRECT
    view = report.views[0]
    assert (view.kernel_pages, view.user_pages) == (FRAMES, PAGES)
    assert (view.global_leaves, view.global_direct) == (4, 0)
    assert (view.read_only, view.aliases, view.outside) == (4, 0, 0)
    for sight in view.sights:
        assert (sight.kernel, sight.stray) == (PAGES, 0)
        assert sight.user == (PAGES if sight.secret == "own" else 0)
        for page, place in enumerate(sight.places):
            frame = AT[sight.secret] + page
            assert (place.page, place.physical) == (page, frame << 12)
            ways = [(way.address, way.region) for way in place.ways]
            assert (DIRECT + (frame << 12), "direct map") in ways
            assert len(ways) == (2 if sight.secret == "own" else 1)
    assert all(not place.ways for sight in report.views[1].sights[:3] for place in sight.places)


@pytest.mark.parametrize(
    ("root", "freed", "said"),
    [
        ("current", 0, "nothing is in memory of what a process had that has ended"),
        ("restricted", 2, "2 of 8 pages are in memory still whose owner has ended"),
    ],
)
def test_what_was_freed(guest: Guest, root: str, freed: int, said: str) -> None:
    assert said in guest.problem(root, freed=freed)


def test_nothing_is_found_from_restricted_ones(guest: Guest) -> None:
    report = guest.report("restricted")
    assert report.problems == ()
    assert [view.root for view in report.views] == ["current", "user", "restricted"]
    view = report.views[2]
    assert (view.kernel_pages, view.user_pages) == (512, PAGES)
    assert [sight.kernel for sight in view.sights] == [0, 0, 0, 0]


def test_a_mistake_has_to_be_found(guest: Guest) -> None:
    assert guest.problem("restricted", mistake=True) == (
        "restricted: no page of the secret 'anonymous' is reached, and one was mapped on purpose: "
        "the oracle is broken"
    )
    # The block that is mapped has other pages, which may be of other secrets.
    for name in ("anonymous", "file"):
        frame = AT[name] + 3
        guest.put("restricted", DIRECT + frame * 4096, frame << 12 | RW)
    assert guest.report("restricted", mistake=True).ok
    # Those of page table isolation have no mistake.
    guest.put("user", DIRECT, AT["anonymous"] << 12 | RW)
    assert "user: 1 of 8 pages" in guest.problem("restricted", mistake=True)


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_blind_oracle_is_broken(guest: Guest, name: str) -> None:
    """One page of one secret is not where the kernel has all of memory."""
    guest.put("current", DIRECT + (1 << 21), 0, 2)
    for frame in range(512, FRAMES):
        if frame != AT[name] + 3:
            guest.put("current", DIRECT + frame * 4096, frame << 12 | RW)
    says = f"current: 7 of 8 pages of the secret '{name}' are reached: the oracle is broken"
    for root in ("current", "restricted"):
        assert guest.problem(root) == says


def test_a_secret_that_user_mode_reaches_is_no_control(guest: Guest) -> None:
    guest.put("current", DIRECT + (1 << 21), 0, 2)
    for name in NAMES[:3]:
        guest.hold("current", name, 0x10_0000 * AT[name])
    assert len(guest.report().problems) == 4  # There is no direct map, either.


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("root", ["user", "restricted"])
@pytest.mark.parametrize(
    ("address", "region"),
    [
        (DIRECT + (700 << 12), "direct map"),
        (IMAGE + (1 << 21), "image or modules"),
        (0xFFFF_C900_0000_0000, "other kernel memory"),
        (0x5555_0000, "user"),
    ],
)
def test_one_page_too_many(guest: Guest, root: str, name: str, address: int, region: str) -> None:
    guest.put(root, address, AT[name] + 6 << 12 | PRESENT)
    assert guest.problem("restricted") == (
        f"{root}: 1 of 8 pages of the secret '{name}' are reached, through {address:#x} ({region})"
    )


def test_a_copy_of_a_secret_is_one(guest: Guest) -> None:
    guest.memory[100] = guest.memory[AT["tmpfs"] + 1]
    assert "1 of 8 pages of the secret 'tmpfs'" in guest.problem("restricted")


def test_words_of_a_secret_in_other_places_are_told(guest: Guest) -> None:
    guest.memory[100, 5:8] = guest.memory[AT["file"], :3]
    guest.memory[900, 5:7] = guest.memory[AT["file"], :2]
    report = guest.report("restricted")
    assert report.ok
    stray = {view.root: view.sights[2].stray for view in report.views}
    assert stray == {"current": 5, "user": 0, "restricted": 3}
    assert "0 reached through kernel addresses, 0 through user addresses, and 3 stray words" in (
        "\n".join(oracle.render(report))
    )


@pytest.mark.parametrize("root", ["current", "user", "restricted"])
def test_the_page_tables_of_somebody_else(guest: Guest, root: str) -> None:
    guest.put(root, OWN_AT + 4096, 0)
    assert "7 of 8 pages of the process itself" in guest.problem("restricted")


def test_page_tables_that_are_none(guest: Guest) -> None:
    """An empty page reaches no secret, and proves nothing."""
    guest.roots["restricted"] = 11 << 12
    assert "0 of 8 pages of the process itself" in guest.problem("restricted")


@pytest.mark.parametrize("root", ["current", "restricted"])
def test_a_global_entry_of_the_direct_map(guest: Guest, root: str) -> None:
    guest.put(root, DIRECT + 0x5000, 5 << 12 | RW | GLOBAL)
    assert guest.report().ok
    assert f"{root}: 1 global entries of the direct map" in guest.problem("restricted")


def test_text_that_can_be_written_elsewhere(guest: Guest) -> None:
    guest.put("restricted", DIRECT + (TEXT + 2 << 12), TEXT + 2 << 12 | RW)
    report = guest.report("restricted")
    assert (report.views[2].read_only, report.views[2].aliases) == (4, 1)
    assert "1 read-only pages can be written elsewhere" in guest.problem("restricted")


def test_what_is_read_only_elsewhere_has_writable_aliases_by_design(guest: Guest) -> None:
    """Such as the descriptor tables, which every CPU has to see at a fixed place."""
    guest.put("restricted", 0xFFFF_FE00_0000_0000, 5 << 12 | PRESENT)
    report = guest.report("restricted")
    assert report.ok
    assert report.views[2].read_only == 4


def test_text_that_can_be_written_elsewhere_without_restrictions_is_told(guest: Guest) -> None:
    guest.put("current", DIRECT + (TEXT << 12), TEXT << 12 | RW)
    for root in ("current", "restricted"):
        report = guest.report(root)
        assert report.ok
        assert report.views[0].aliases == 1
        assert "1 of 4" in "\n".join(oracle.render(report))


def test_a_bad_table(guest: Guest) -> None:
    guest.put("user", 0x1000_0000, FRAMES << 12 | RW, 2)
    assert guest.problem().startswith("user: entry 128 of the table of level 2")


def test_very_many_bad_tables_are_told_in_short(guest: Guest) -> None:
    for index in range(50):
        guest.put("user", 0x1000_0000 + (index << 21), FRAMES << 12 | RW, 2)
    problems = guest.report().problems
    assert len(problems) == 21
    assert problems[-1] == "user: 50 entries or tables like these"


@pytest.mark.parametrize("name", NAMES)
def test_a_pattern_that_is_nowhere(guest: Guest, name: str) -> None:
    guest.memory[AT[name] + 5] = 0
    assert f"the pattern '{name}' is not in memory: the oracle is broken" in guest.report().problems


def test_no_direct_map(guest: Guest) -> None:
    assert guest.problem(direct_map=None) == "no direct map was found: the oracle is broken"


def test_user_mode_that_is_not_restricted(guest: Guest) -> None:
    assert "the CPU had the page tables 'current'" in guest.problem("restricted", loaded="current")


def test_a_root_that_nobody_looked_at(guest: Guest) -> None:
    views = guest.report().views
    assert guest.problem(root="restricted", views=views) == (
        "nobody looked at the root 'restricted'"
    )


def test_a_kernel_that_complains(guest: Guest) -> None:
    end = replace(RESULT, splats=("WARNING: at mm/x.c",), violations=("kpkeys: violation: y",))
    problems = guest.report(boot=end).problems
    said = ["kpkeys: violation: y", "WARNING: at mm/x.c"]
    assert list(problems) == [f"the kernel complained: {one}" for one in said]


def test_the_json(guest: Guest) -> None:
    guest.put("restricted", DIRECT + (AT["file"] << 12), AT["file"] << 12 | RW)
    value = json.loads(json.dumps(guest.report("restricted").as_json()))
    assert value["ok"] is False
    assert len(value["problems"]) == 1
    assert (value["cr3"], value["loaded"], value["levels"]) == ("0x9000", "restricted", 4)
    assert (value["memory_pages"], value["direct_map"]) == (FRAMES, f"{DIRECT:#x}")
    view = value["views"][2]
    assert (view["root"], view["address"], view["bad"]) == ("restricted", "0xa000", 0)
    sight = view["sights"][2]
    assert (sight["secret"], sight["kernel"], sight["user"]) == ("file", 1, 0)
    assert sight["places"][0] == {
        "page": 0,
        "physical": "0x258000",
        "ways": [{"address": f"{DIRECT + 0x258000:#x}", "region": "direct map"}],
    }
    assert sight["places"][1]["ways"] == []


def test_the_text(guest: Guest) -> None:
    text = "\n".join(oracle.render(guest.report()))
    assert "file (ramfs), 8 pages:" in text
    assert f"page 0 at 0x258000: {DIRECT + 0x258000:#x} (direct map)" in text
    assert "WRONG" not in text
    guest.hold("user", "file", 0x5555_0000)
    assert "WRONG: user: 8 of 8 pages" in "\n".join(oracle.render(guest.report()))


# === Looking at a machine ========================================================================

SHOWN = """
CPU#0
RAX=0000000000000001 RBX=0000000000000002 RCX=0000000000000003 RDX=0000000000000004
R12=0000000000000000 R13=0000000000000000 R14=0000000000000000 R15=00000000deadbeef
RIP=0000000000401000 RFL=00000246 [---Z-P-] CPL=3 II=0 A20=1 SMM=0 HLT=0
CS =0033 0000000000000000 ffffffff 00affb00 DPL=3 CS64 [-RA]
CR0=80050033 CR2=00007f00 CR3=0000000001235000 CR4=00000ef0
DR6=00000000ffff0ff0 DR7=0000000000000400
EFER=0000000000000d01
"""
IN_THE_LOOP = Spot("user", (range(0x401000, 0x401002),))
MAGIC = 0xDEADBEEF
at_work = stops.parse_registers(SHOWN)


def test_the_registers() -> None:
    assert at_work == Registers(0x401000, MAGIC, 3, 0x80050033, 0x1235000, 0xEF0, 0xD01)
    assert at_work.levels == 4
    assert replace(at_work, cr4=0x1EF0).levels == 5


@pytest.mark.parametrize("name", ["RIP", "R15", "CPL", "CR0", "CR3", "CR4", "EFER"])
def test_a_register_that_is_missing(name: str) -> None:
    with pytest.raises(RedoubtError, match=f"does not show {name.lower()}"):
        stops.parse_registers(SHOWN.replace(f"{name}=", "X="))


@pytest.mark.parametrize("change", [{"cr0": 0x33}, {"efer": 0x901}, {"efer": 0x501}])
def test_a_cpu_in_another_mode(change: dict[str, int]) -> None:
    with pytest.raises(RedoubtError, match="not in 64-bit mode"):
        assert replace(at_work, **change).levels


class Monitor:
    """A machine that shows these registers, one after the other, and the last of them for ever."""

    def __init__(self, *shown: str) -> None:
        self.shown = [*shown]
        self.asked: list[str] = []

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.asked.append("closed")

    def stop(self) -> None:
        self.asked.append("stop")

    def resume(self) -> None:
        self.asked.append("resume")

    def quit(self) -> None:
        self.asked.append("quit")

    def human(self, line: str) -> str:
        assert self.asked[-1] == "stop"
        assert line == "info registers"
        return self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "_PAUSE", 0)


IN_THE_KERNEL = SHOWN.replace("CPL=3", "CPL=0")
SOMEBODY_ELSE = SHOWN.replace("deadbeef", "deadbeee")
BEHIND_THE_LOOP = SHOWN.replace("401000", "401002")


def test_the_attacker_is_waited_for() -> None:
    monitor = Monitor(IN_THE_KERNEL, SOMEBODY_ELSE, BEHIND_THE_LOOP, SHOWN)
    assert stops.catch(monitor, IN_THE_LOOP, MAGIC) == at_work  # type: ignore[arg-type]
    # It is not resumed any more.
    assert monitor.asked == ["stop", "resume"] * 3 + ["stop"]


@pytest.mark.parametrize("shown", [IN_THE_KERNEL, SOMEBODY_ELSE, BEHIND_THE_LOOP])
def test_an_attacker_that_never_runs(shown: str) -> None:
    monitor = Monitor(shown)
    with pytest.raises(GuestError, match=r"the attacker is not running \(user\), in 100 looks"):
        stops.catch(monitor, IN_THE_LOOP, MAGIC)  # type: ignore[arg-type]
    assert monitor.asked.count("stop") == 100


# As of a CPU that does not run 64-bit code.
IN_REAL_MODE = f"""EAX=00000000 EBX=00000000 ECX=00000000 EDX=00000000
ESI=00000000 EDI={MAGIC:08x} EBP=00000000 ESP=00000000
EIP=00000000 EFL=00000002 [-------] CPL=0 II=0 A20=1 SMM=0 HLT=0
CR0=00000010 CR2=00000000 CR3=00000000 CR4=00000000
EFER=0000000000000000"""


def test_the_attacker_runs_its_guest() -> None:
    another = IN_REAL_MODE.replace("deadbeef", "deadbeee")
    monitor = Monitor(IN_THE_KERNEL, another, SHOWN, IN_REAL_MODE)
    assert stops.catch(monitor, Spot("guest"), MAGIC | 5 << 32) is None  # type: ignore[arg-type]
    assert monitor.asked.count("resume") == 3


def test_the_kernel_handles_an_exit() -> None:
    handlers = stops.spot("@oracle: exit 0x1000-0x1002 0x401000-0x401001")
    assert handlers == Spot("exit", (range(0x1000, 0x1002), range(0x401000, 0x401001)))
    monitor = Monitor(IN_REAL_MODE, SHOWN, BEHIND_THE_LOOP, IN_THE_KERNEL)
    seen = stops.catch(monitor, handlers, 0)  # type: ignore[arg-type]
    assert seen and seen.cpl == 0
    assert monitor.asked.count("resume") == 3


@pytest.mark.parametrize("line", ["@oracle: user 1-2", "@oracle: here", "x @oracle: guest"])
def test_a_line_that_tells_no_place(line: str) -> None:
    assert stops.spot(line) is None


def keep_host(memory: pagewalk.Memory, page: int, **changes: int) -> None:
    """Put in a page what a CPU of AMD keeps of its host, with these changes."""
    saved = {
        "efer": 0x1D01, "cr4": 0x1EF0, "cr3": 0x8003, "cr0": 0x80050033, "rip": IMAGE,
    }  # fmt: skip
    for name, number in (saved | changes).items():
        memory[page, stops._AT[name]] = number


def test_the_registers_of_the_host(guest: Guest) -> None:
    with pytest.raises(GuestError, match="in 0 places of memory"):
        stops.of_host(guest.memory)
    # A guest's own, and what only looks like it.
    for page, changes in enumerate(
        ({"cr0": 0x10}, {"efer": 0xD01}, {"rip": 0x401000}, {"cr3": 0}, {"efer": 1 << 63 | 0x1D01})
    ):
        keep_host(guest.memory, 900 + page, **changes)
    keep_host(guest.memory, 910)
    seen = stops.of_host(guest.memory)
    assert seen == Registers(IMAGE, 0, 0, 0x80050033, 0x8003, 0x1EF0, 0x1D01)
    assert seen.levels == 5
    keep_host(guest.memory, 911)
    with pytest.raises(GuestError, match="in 2 places of memory"):
        stops.of_host(guest.memory)


ISOLATED = "Kernel/User page tables isolation: enabled"
FORCED = "Kernel/User page tables isolation: force enabled on command line."
SPINS = "@oracle: user 0x401000-0x401002"


def console(*lines: str, cr3: int = 0x1235000, root: str = "current") -> Console:
    monitor = Monitor(SHOWN.replace("1235000", f"{cr3:x}"))
    made = Console(lambda: monitor, MAGIC, root)  # type: ignore[arg-type,return-value]
    for line in ("Linux version 7.3.4", *lines, SPINS):
        made(line)
    assert monitor.asked == ["stop", "quit", "closed"]
    return made


def test_one_set_of_page_tables() -> None:
    made = console(FORCED)
    assert made.roots() == {"current": 0x1235000}
    assert made.loaded() == "current"


def test_a_set_for_user_mode() -> None:
    for cr3, loaded in ((0x1235FFF, "user"), (0x1234000, "current")):
        made = console(ISOLATED, cr3=cr3)
        assert made.roots() == {"current": 0x1234000, "user": 0x1235000}
        assert made.loaded() == loaded


@pytest.mark.parametrize(
    ("cr3", "loaded"),
    [
        (0x1234000, "current"), (0x1235000, "user"), (0x1236000, "restricted"),
        (0x1237000, "user, restricted"),
    ],
)  # fmt: skip
def test_restricted_ones(cr3: int, loaded: str) -> None:
    made = console(ISOLATED, "[    0.1] asi: on", cr3=cr3, root="restricted")
    assert made.roots() == {
        "current": 0x1234000, "user": 0x1235000, "restricted": 0x1236000,
        "user, restricted": 0x1237000,
    }  # fmt: skip
    assert made.loaded() == loaded


def test_restricted_ones_without_isolation() -> None:
    roots = console("asi: on", cr3=0x1236000).roots()
    assert roots == {"current": 0x1234000, "restricted": 0x1236000}


def test_bits_of_cr3_that_are_no_address() -> None:
    # Of linear address masking, and a PCID.
    assert console(cr3=0x6000_0000_0123_4567).roots() == {"current": 0x1234000}


@pytest.mark.parametrize("said", ["asi: off", "asi: online", "Command line: asi: on"])
def test_a_kernel_without_restricted_page_tables(said: str) -> None:
    made = Console(lambda: pytest.fail("nobody is asked"), MAGIC, "restricted")
    made(said)
    with pytest.raises(RedoubtError, match="this kernel has no restricted page tables") as caught:
        made(SPINS)
    assert "--root current" in str(caught.value.hint)


def test_another_start_begins_anew() -> None:
    made = console(ISOLATED, "asi: on")
    made("Linux version 7.3.4")
    assert (made.registers, made.isolated, made.asi) == (None, False, False)


# === A run, with a machine that is none ==========================================================


def value(words: tuple[str, ...], option: str) -> str:
    return words[words.index(option) + 1]


def holding(
    monkeypatch: pytest.MonkeyPatch, guest: Guest, *swapped: str
) -> list[tuple[Machine, list[str]]]:
    """A boot whose guest holds its secrets, and those that were swapped out, until it is stopped.

    Returns what is booted.
    """
    booted: list[tuple[Machine, list[str]]] = []
    monitor = Monitor(SHOWN.replace("1235000", "8000").replace("deadbeef", "0"))
    numbers = dict(oracle._PATTERNS)
    for swap in oracle._SWAPPED.values():
        numbers |= swap
    places = AT | {"read": 760, "freed": 800}
    places |= {name: 820 + 8 * number for number, name in enumerate(swapped)}

    def boot(made: Machine, command: list[str], *, watch: Any, **_: Any) -> Result:
        booted.append((made, command))
        seed = int(command[1], 16)
        for name, at in places.items():
            guest.memory[at : at + PAGES] = patterns.pattern(seed, numbers[name])
        # Somebody else has it by now.
        guest.memory[places["freed"]] = 1
        magic = int(patterns.pattern(seed, 4)[0, 0])
        monitor.shown = [monitor.shown[0].replace("R15=00000000", f"R15={magic:x} X=")]
        guest.memory.tofile(Path(value(made.devices, "-object").partition("mem-path=")[2]))
        watch(SPINS)
        return RESULT

    monkeypatch.setattr(experiment, "boot", boot)
    monkeypatch.setattr(oracle, "Qmp", lambda path, timeout: monitor)
    return booted


def test_a_run(guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    booted = holding(monkeypatch, guest)
    made = machine(where=tmp_path, devices=("-first", "1"))
    report = oracle.run(made, "current", Silent())
    assert report.problems == ()
    assert [view.root for view in report.views] == ["current"]
    assert (report.freed, report.clears) == (PAGES - 1, False)
    ((made, command),) = booted
    assert command[0] == "/bin/oracle" and command[2:] == ["ramfs", "user"]
    assert made.devices[:2] == ("-first", "1")
    assert "size=256M,share=on" in value(made.devices, "-object")
    assert value(made.devices, "-machine") == "memory-backend=memory"
    assert "-drive" not in made.devices
    assert "asi=on" not in made.args
    # What the guest is asked for changes from run to run, and it is not kept.
    assert not Path(value(made.devices, "-object").partition("mem-path=")[2]).exists()


def test_a_guest_that_does_not_get_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, ("oracle: mmap: no",), status=1)
    with pytest.raises(GuestError, match="did not get to be looked at") as caught:
        oracle.run(machine(where=tmp_path), "current", Silent())
    assert "oracle: mmap: no" in caught.value.message


def test_restricted_page_tables_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def booted(machine: Machine, command: list[str], *, watch: Any, **_: Any) -> Result:
        assert machine.args[-1] == "asi=on"
        assert command[1] == "mistake"
        watch(SPINS)
        return RESULT

    monkeypatch.setattr(experiment, "boot", booted)
    with pytest.raises(RedoubtError, match="does not say 'asi: on'"):
        oracle.run(machine(where=tmp_path), "restricted", Silent(), mistake=True)


@pytest.mark.skipif(not oracle._mkfs(), reason="needs e2fsprogs (scripts/prerequisites x86_64)")
def test_a_disk_if_the_kernel_can_mount_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".config").write_text("".join(f"{name}=y\n" for name in oracle._DISK_OPTIONS))

    def booted(machine: Machine, command: list[str], **_: Any) -> Result:
        assert command[2:] == ["ext4", "/dev/vda", "user"]
        file = value(machine.devices, "-drive").partition("file=")[2]
        # The magic number of ext4, in its superblock.
        assert Path(file).read_bytes()[0x438:0x43A] == b"\x53\xef"
        return RESULT

    monkeypatch.setattr(experiment, "boot", booted)
    with pytest.raises(GuestError):
        oracle.run(machine(where=tmp_path), "current", Silent())


@pytest.mark.parametrize(
    ("options", "swaps"),
    [
        ("SWAP BLK_DEV_RAM", ["brd"]),
        ("SWAP ZSWAP", []),
        ("ZRAM BLK_DEV_RAM", []),
        ("SWAP ZRAM", ["zram"]),
        ("SWAP BLK_DEV_RAM ZRAM ZSWAP", ["brd", "zswap", "zram"]),
    ],
)
def test_what_is_swapped_out(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, swaps: list[str]
) -> None:
    (tmp_path / ".config").write_text("".join(f"CONFIG_{one}=y\n" for one in options.split()))
    names = [name for swap in swaps for name in oracle._SWAPPED[swap]]
    # The last one is not in memory.
    booted = holding(monkeypatch, guest, *names[:-1])
    report = oracle.run(machine(where=tmp_path), "current", Silent())
    assert booted[0][1][2:] == ["ramfs", *swaps, "user"]
    assert list(report.found) == ["anonymous", "tmpfs", "file", "read", "own", *names]
    assert list(report.problems) == [
        problem
        for missing in names[-1:]
        for problem in (
            f"the pattern '{missing}' is not in memory: the oracle is broken",
            f"current: 0 of 8 pages of the secret '{missing}' are reached: the oracle is broken",
        )
    ]


def test_numbers_are_those_of_the_guest() -> None:
    source = (paths.repo() / "guest/oracle/oracle.c").read_text()
    (names,) = re.findall(r"^enum pattern \{([^}]*)\};$", source, re.MULTILINE)
    order = [name.strip() for name in names.split(",")]
    swapped = [one for swap in oracle._SWAPPED.values() for one in swap.items()]
    later = [*swapped, ("virtual", oracle._VIRTUAL["guest"])]
    assert [(name.replace(" ", "_").upper(), n) for name, n in later] == [
        (name, number) for number, name in enumerate(order) if number > oracle._PATTERNS["freed"]
    ]


def test_no_program_that_makes_file_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle.shutil, "which", lambda *_, **__: None)
    with pytest.raises(RedoubtError, match=r"mkfs\.ext4 not found") as caught:
        oracle._disk(tmp_path)
    assert "e2fsprogs" in str(caught.value.hint)


def test_more_memory_than_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(RedoubtError, match="more than 3072 MiB"):
        oracle.run(machine(where=tmp_path, memory_mb=3073), "current", Silent())


# === The command line ============================================================================

Call = Callable[..., Done]


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        *(
            ([name], f"and none of {name} yet", "redoubt oracle x86_64")
            for name in TARGETS
            if name != "x86_64"
        ),
        (["x86_64", "--root", "user"], "unknown root 'user'", "roots: current, restricted"),
        (["x86_64", "--at", "home"], "unknown place 'home'", "places: user, guest, exit"),
        (
            ["x86_64", "--mistake"],
            "the mistake is one of the restricted page tables, not of 'current'",
            "--root restricted --mistake",
        ),
    ],
)
def test_what_cannot_be_asked(call: Call, words: list[str], said: str, hint: str) -> None:
    done = call("oracle", *words)
    assert done.code == 2
    assert said in done.err and hint in done.err


Asked = list[tuple[Machine, str, str, bool]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, guest: Guest) -> Asked:
    """What the oracle is asked, of a kernel that is not built; it says what the guest has."""
    asked: Asked = []

    def workbench(*_: Any, flavour: str) -> kernels.Workbench:
        args = (f"flavour={flavour}",)
        return kernels.Workbench(machine().build, tmp_path, host.EMULATED, args=args)

    def ran(machine: Machine, root: str, progress: Any, *, mistake: bool, place: str) -> Report:
        assert mistake == ("kpkeys_vuln=on" in machine.args)
        asked.append((machine, root, place, mistake))
        return guest.report()

    monkeypatch.setattr(host, "lacking", lambda *_: None)
    monkeypatch.setattr(host, "pick", lambda *_: host.EMULATED)
    monkeypatch.setattr(kernels, "workbench", workbench)
    monkeypatch.setattr(oracle, "run", ran)
    return asked


@pytest.mark.parametrize("good", [True, False])
def test_the_verb(call: Call, tmp_path: Path, guest: Guest, asked: Asked, good: bool) -> None:
    if not good:
        guest.put("user", DIRECT, AT["file"] << 12 | PRESENT)
    file = tmp_path / "result.json"
    done = call("oracle", "x86_64", "--append", "no5lvl", "--json", str(file))
    assert done.code == int(not good)
    assert "anonymous, 8 pages:" in done.out
    assert ("WRONG: user: 1 of 8 pages" in done.out) is not good
    assert ("console.log" in done.err) is not good
    call("oracle", "x86_64", "--root", "restricted", "--mistake", "--at", "exit")
    assert [one[1:] for one in asked] == [
        ("current", "user", False), ("restricted", "exit", True),
    ]  # fmt: skip
    assert asked[0][0].args[-1] == "no5lvl"
    assert "flavour=oracle" in asked[0][0].args
    written = json.loads(file.read_text())
    assert (written["ok"], written["variant"]) == (good, "on")
    assert {"commit", "command", "date"} <= written.keys()


@pytest.mark.parametrize("good", [True, False])
def test_the_step_of_the_test_run(guest: Guest, asked: Asked, good: bool) -> None:
    if not good:
        guest.put("user", DIRECT, AT["file"] << 12 | PRESENT)
    for item in isolation.from_outside(Run(X86_64, "auto", False, Silent())):
        assert (item.passed, item.failed) == (int(good), int(not good))
        assert ("WRONG" in item.detail) is not good
    assert [(root, place, "pti=off" in made.args, bad) for made, root, place, bad in asked] == [
        ("current", "user", False, False), ("restricted", "user", True, False),
        ("restricted", "user", False, False), ("restricted", "guest", True, False),
        ("restricted", "exit", False, False), ("restricted", "user", True, True),
    ]  # fmt: skip
    # Only where there is one, and without being asked for; the flavour if it may take long.
    for long in (False, True):
        runs = [Run(target, "auto", long, Silent()) for target in TARGETS.values()]
        found = [step for step in steps.chosen(runs, ()) if "oracle" in step.name]
        assert {step.target for step in found} == {"x86_64"}
        assert [step.name for step in found] == ["oracle", "oracle flavour"][: 1 + long]
    assert [item.name.count("oracle flavour") for item in found[1].items()] == [1] * 6
    flavours = [one for made, *_ in asked for one in made.args if one.startswith("flavour=")]
    assert flavours == ["flavour="] * 6 + ["flavour=oracle"] * 6


def test_the_step_is_skipped_without_an_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "lacking", lambda *_: RedoubtError("no QEMU"))
    with pytest.raises(Skipped, match="no QEMU") as raised:
        list(isolation.from_outside(Run(X86_64, "auto", False, Silent())))
    item = raised.value.item
    assert (item.passed, item.failed, item.skipped) == (0, 0, 1)


# === A real one ==================================================================================

BUILDS = [REAL_BUILD / "x86_64" / kind for kind in ("redoubt", "pristine")]
BUILD = next((build for build in BUILDS if (build / X86_64.image).exists()), BUILDS[0])
PROGRAMS = REAL_BUILD / "guest"


def real(*args: str, root: str = "current", place: str = "user") -> Report:
    built = Build(X86_64, BUILD, BUILD / X86_64.image, BUILD / X86_64.vmlinux)
    made = kernels.Workbench(built, PROGRAMS, host.EMULATED)
    return oracle.run(made.machine(get_variant(X86_64, "off"), *args), root, Silent(), place=place)


def needs_a_guest(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that boots the kernel."""
    for mark in (
        pytest.mark.guest,
        pytest.mark.usefixtures("marked"),
        pytest.mark.skipif(
            not (BUILD / X86_64.image).exists(), reason="no kernel: redoubt build x86_64"
        ),
        pytest.mark.skipif(not (PROGRAMS / "oracle").exists(), reason="no guest programs"),
        pytest.mark.skipif(qemu.problem(PC) is not None, reason="no QEMU of ours"),
    ):
        test = mark(test)
    return test


@needs_a_guest
@pytest.mark.parametrize(
    ("args", "levels", "roots"),
    [
        ((), 5, ["current", "user"]),
        (("no5lvl", "pti=off"), 4, ["current"]),
        (("pti=off",), 5, ["current", "restricted"]),
        (("no5lvl",), 4, ["current", "user", "restricted", "user, restricted"]),
    ],
)
def test_a_guest(sandbox: Sandbox, args: tuple[str, ...], levels: int, roots: list[str]) -> None:
    restricted = "restricted" in roots
    if restricted and BUILD.name != "redoubt":
        pytest.skip("no kernel of ours: redoubt build x86_64")
    report = real(*args, root="restricted" if restricted else "current")
    assert report.problems == ()
    assert report.levels == levels
    assert [view.root for view in report.views] == roots
    # The last is what user mode has.
    assert report.loaded == roots[-1]
    assert report.memory_pages == boot.MEMORY_MB << 8
    # All but what the firmware keeps for itself.
    assert report.views[0].kernel_pages > 0.99 * report.memory_pages
    # The direct map has the kernel's text read-only, too.
    assert report.views[0].read_only > report.views[0].aliases == 0
    # Neither the machine nor its memory is there any more.
    assert sandbox.living() == []
    assert list((sandbox.where / "tmp").iterdir()) == []


@needs_a_guest
@pytest.mark.parametrize("place", ["guest", "exit"])
def test_a_guest_with_a_guest(place: str) -> None:
    if BUILD.name != "redoubt":
        pytest.skip("no kernel of ours: redoubt build x86_64")
    report = real("asi=off", place=place)
    assert (report.problems, report.loaded) == ((), "current")
    report = real(root="restricted", place=place)
    assert (report.problems, report.loaded) == ((), "restricted")
    # The control: it would have been noticed.
    report = replace(report, loaded="current")
    assert len(report.problems) == 1


@needs_a_guest
def test_a_guest_whose_page_tables_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry is copied to the tables of user mode, in a memory that is otherwise as it was."""
    examine = oracle.examine

    def leaking(
        memory: pagewalk.Memory, roots: dict[str, int], levels: int, found: Any
    ) -> tuple[int | None, tuple[oracle.View, ...]]:
        base, _ = examine(memory, roots, levels, found)
        assert base
        entry = base >> (12 + 9 * (levels - 1)) & 511
        changed = memory.copy()
        changed[roots["user"] >> 12, entry] = memory[roots["current"] >> 12, entry]
        return examine(changed, roots, levels, found)

    monkeypatch.setattr(oracle, "examine", leaking)
    report = real()
    problems = report.problems
    # Two of them were swapped out, to a disk in memory, and one is a guest's.
    assert len(problems) == 6 + ("guest" in report.found)
    assert all("user: 8 of 8 pages of the secret" in problem for problem in problems)
    assert all("(direct map)" in problem for problem in problems)


@needs_a_guest
def test_a_guest_without_restricted_page_tables(sandbox: Sandbox) -> None:
    # Those that a kernel may have are off: what comes after -- is for its first program.
    with pytest.raises(RedoubtError, match="no restricted page tables"):
        real("asi=off", "--", root="restricted")
    assert sandbox.living() == []
