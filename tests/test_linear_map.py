# SPDX-License-Identifier: GPL-2.0-only
"""The linear map of arm64: read from the guest's console, compared, and judged."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from guests import ended, say

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import host, kernels
from redoubt.machine.boot import Machine
from redoubt.targets import ARM64, get_variant
from redoubt.trial import linear_map
from redoubt.trial.linear_map import Comparison, Created, Listing, Row, Seen, Setting

LINE = (
    "[    0.000000] linear map: 2053 tables, 2061 fixmap slots set, 2060 cleared, "
    "14123971 ticks at 1000000000 Hz"
)
SYMBOLS = {
    "_text": 0, "__init_begin": 0x350000, "__init_end": 0x3B0000, "__bss_stop": 0x47C000,
    "_end": 0x49E000,
}  # fmt: skip
LISTED = """\
0xfffdffbfff000000-0xfffdffbfffe00000          14M PTE       RW NX SHD AF            UXN    MEM
---[ Linear Mapping start ]---
0xffff000000000000-0xffff000000200000           2M PTE       RW NX SHD AF            UXN    MEM
0xffff000000200000-0xffff000000550000        3392K PTE       ro NX SHD AF            UXN    MEM
0xffff000000550000-0xffff0000005b0000         384K PTE       RW NX SHD AF            UXN    MEM
0xffff0000005b0000-0xffff00000067c000         816K PTE F     RW NX SHD AF NG         UXN    MEM
0xffff00000067c000-0xffff000100000000     4187664K PTE       RW NX SHD AF            UXN    MEM
0xffff000100000000-0xffff008000000000         508G PUD
---[ Linear Mapping end ]---
"""
PAGE = 4096


def listed(text: str = LISTED, **more: int) -> Listing:
    found = linear_map.listing(text.splitlines(), SYMBOLS | more, PAGE)
    assert found
    return found


def seen(created: Created, text: str = LISTED, *problems: str) -> Seen:
    return Seen(created, listed(text), problems, ended())


PRISTINE = Created(2053, 2061, 2061, 1000, 10**9)
OURS = Created(2053, 0, 0, 400, 10**9)


def test_what_the_kernel_says_it_took() -> None:
    assert linear_map.created(["", LINE]) == Created(2053, 2061, 2060, 14123971, 1000000000)
    assert linear_map.created(["linear map: many tables"]) is None


def test_the_entries_of_the_linear_map_only() -> None:
    found = listed().lines()
    assert len(found) == 6
    assert found[0] == "ffff000000000000-_text PTE RW NX SHD AF UXN MEM"
    assert found[1].startswith("_text-__init_begin PTE ro ")
    assert found[3].startswith("__init_end-__bss_stop PTE F ")
    assert found[-1] == "ffff000100000000-ffff008000000000 PUD"


def larger(text: str) -> Listing:
    """The same with an image that is larger."""
    for old, new in (("550000", "560000"), ("5b0000", "5c0000"), ("67c000", "690000")):
        text = text.replace(old, new)
    return listed(text, __init_begin=0x360000, __init_end=0x3C0000, __bss_stop=0x490000)


def test_an_image_of_another_size_makes_no_difference() -> None:
    assert linear_map.alike(listed(), larger(LISTED))
    # The end alone is no boundary.
    assert linear_map.alike(listed(), listed(_end=0x4AE000))
    # Unless it is the same image.
    assert not linear_map.alike(listed(), replace(larger(LISTED), symbols=SYMBOLS))


BLOCKS = LISTED.replace(
    LISTED.splitlines()[6],
    """\
0xffff00000067c000-0xffff000000680000          16K PTE       RW NX SHD AF            UXN    MEM
0xffff000000680000-0xffff000000800000        1536K PTE       RW NX SHD AF        CON UXN    MEM
0xffff000000800000-0xffff000100000000        4088M PMD       RW NX SHD AF        BLK UXN    MEM""",
)


def test_nor_do_entries_that_follow_from_its_size() -> None:
    other = BLOCKS.replace("000000680000", "0000006a0000")
    assert BLOCKS.count("PMD") == 1
    assert linear_map.alike(listed(BLOCKS), larger(other))
    assert not linear_map.alike(listed(BLOCKS), listed(other))
    # What is behind it has nothing to do with that.
    for wrong in (other.replace("PMD ", "PTE "), other.replace("BLK", "CON")):
        assert not linear_map.alike(listed(BLOCKS), larger(wrong))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" RW NX SHD AF NG ", " ro NX SHD AF NG "),
        ("PTE F", "PTE"),
        ("ro NX", "RW NX"),
        ("ffff000100000000", "ffff000180000000"),
    ],
)
def test_permissions_and_places_make_one(old: str, new: str) -> None:
    changed = LISTED.replace(old, new)
    assert changed != LISTED
    assert not linear_map.alike(listed(), listed(changed))
    assert not linear_map.alike(listed(), larger(changed))


def test_a_map_that_is_not_listed_is_none() -> None:
    assert linear_map.listing(["---[ Linear Mapping start ]---"], SYMBOLS, PAGE) is None
    assert linear_map.listing([], SYMBOLS, PAGE) is None


def test_a_good_comparison_has_no_problem() -> None:
    assert Comparison(Setting("x"), seen(PRISTINE), seen(OURS)).problems == []


def test_a_map_for_which_there_is_no_room() -> None:
    setting = Setting("x", fixmap=True)
    assert Comparison(setting, seen(PRISTINE), seen(PRISTINE)).problems == []
    assert "there was room" in Comparison(setting, seen(PRISTINE), seen(OURS)).problems[0]


@pytest.mark.parametrize(
    ("pristine", "ours", "expected"),
    [
        (seen(PRISTINE), seen(OURS, LISTED.replace("NG", "  ")), "the linear map is another one:"),
        (seen(PRISTINE), seen(OURS, LISTED, "WARNING: x"), "WARNING: x"),
        (seen(PRISTINE), seen(replace(OURS, fixmap_set=1)), "1 fixmap slots set, 0 cleared"),
        (seen(PRISTINE), seen(replace(OURS, fixmap_cleared=2)), "0 fixmap slots set, 2 cleared"),
        (seen(OURS), seen(OURS), "the pristine kernel used no fixmap slot"),
    ],
)
def test_what_is_wrong_with_one(pristine: Seen, ours: Seen, expected: str) -> None:
    assert expected in Comparison(Setting("x"), pristine, ours).problems


@pytest.mark.parametrize(
    ("mapped_in", "ours", "met"),
    [
        ("pages", OURS, True),
        ("pages", replace(OURS, instructions=750), True),
        ("pages", replace(OURS, instructions=751), False),
        ("pages", replace(OURS, fixmap_cleared=1), False),
        ("blocks", replace(OURS, instructions=1020, fixmap_set=3, fixmap_cleared=3), True),
        ("blocks", replace(OURS, instructions=1021), False),
    ],
)
def test_what_is_demanded(mapped_in: str, ours: Created, met: bool) -> None:
    row = Row(4, mapped_in, PRISTINE, ours)
    assert row.met is met
    assert ("met" if met else "missed") in list(linear_map.render([row]))[-1]
    assert linear_map.row_from_json(row.as_json()) == row


def kernel(directory: Path, page_shift: int = 12, more: str = "") -> Build:
    """A kernel that was built with such pages."""
    (directory / ".config").write_text(f"CONFIG_PAGE_SHIFT={page_shift}\n{more}")
    return Build(ARM64, directory, directory, directory)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = kernels.Workbench(kernel(tmp_path), tmp_path, host.EMULATED)
    return made.machine(get_variant(ARM64, "on"))


def test_a_setting_boots_both_kernels_alike(machine: Machine) -> None:
    for setting in linear_map.settings(machine.build):
        one, other = (setting.boots(machine) for _ in range(2))
        assert one == other
        assert (one.cpus, one.memory_mb) == (setting.cpus, setting.memory_mb)
        # Where the kernel goes is not left to chance.
        assert one.devices[:2] == ("-seed", "1")
        assert {*machine.args, *setting.args} == {*one.args}


def test_what_the_settings_are_about(machine: Machine) -> None:
    settings = linear_map.settings(machine.build)
    el2 = {one.cpus for one in settings if "virtualization=on" in one.devices}
    el1 = {one.cpus for one in settings if "virtualization=on" not in one.devices}
    assert el1 == {1, 2, 4} and {1, 4} <= el2
    assert len({one.name for one in settings}) == len(settings)
    assert [one.name for one in settings if one.fixmap] == ["no room"]
    assert all(one.compared for one in settings)


def test_settings_that_a_kernel_for_debugging_has(tmp_path: Path) -> None:
    usual = linear_map.settings(kernel(tmp_path))
    debug = linear_map.settings(kernel(tmp_path, more="CONFIG_KFENCE=y\n"))
    more = [one for one in debug if one not in usual]
    assert more and not any(one.compared for one in more)


@pytest.mark.parametrize("page_shift", [12, 14])
def test_where_there_is_no_room(tmp_path: Path, page_shift: int) -> None:
    page = 1 << page_shift
    (setting,) = [one for one in linear_map.settings(kernel(tmp_path, page_shift)) if one.fixmap]
    starts = [address for address, _ in setting.holes]
    assert {size for _, size in setting.holes} == {page}
    every = min(later - earlier for earlier, later in itertools.pairwise(starts))
    assert len(starts) < 64, "each makes two ranges of memory, of which there are 128"
    # A table of each level below the root for each piece, as arena_size() has it.
    tables = (len(starts) + 1) * 3 * page
    # They begin at a multiple of the next power of two, and there is a hole.
    assert tables > every // 2
    # Of entries of 8 bytes; there are 16 or 4 tables in the image.
    in_image = 16 if page_shift == 12 else 4
    assert -(-(setting.memory_mb << 20) // (page * page // 8)) + 1 > in_image


def test_maps_that_are_not_compared() -> None:
    other = seen(OURS, LISTED.replace("PTE F", "PTE  "))
    assert Comparison(Setting("x"), seen(PRISTINE), other).problems
    assert Comparison(Setting("x", compared=False), seen(PRISTINE), other).problems == []


def boots(
    monkeypatch: pytest.MonkeyPatch, console: str, **how: Any
) -> list[tuple[Machine, list[str]]]:
    """Every boot shows that console; returns what was booted."""
    monkeypatch.setattr(linear_map, "image_symbols", lambda _: SYMBOLS)
    return say(monkeypatch, console.splitlines(), **how)


GOOD = f"{LINE}\n{LISTED}SUCCESS\n"


def test_a_good_boot(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    boots(monkeypatch, GOOD)
    found = linear_map.look(machine, "x", Silent())
    assert (found.created.tables, found.listing, found.problems) == (2053, listed(), ())


def test_what_a_boot_may_not_say(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    boots(monkeypatch, GOOD.replace("SUCCESS", "FAILED"), splats=("WARNING: x",))
    found = linear_map.look(machine, "x", Silent())
    assert found.problems == ("WARNING: x", "there are pages that can be written and executed")


def test_code_that_may_be_written(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    boots(monkeypatch, GOOD.replace("SUCCESS", ""))
    assert linear_map.look(machine, "x", Silent(), audited=False).problems == ()


@pytest.mark.parametrize(
    ("console", "more"),
    [
        (GOOD, {"status": 1}),
        (GOOD, {"outcome": "panic", "detail": "x"}),
        (GOOD.replace("linear map: 2053", "2053"), {}),
        (GOOD.replace("Linear Mapping end", "Linear Mapping"), {}),
    ],
)
def test_a_boot_that_shows_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, console: str, more: dict[str, object]
) -> None:
    boots(monkeypatch, console, **more)
    with pytest.raises(RedoubtError, match="the linear map was not listed"):
        linear_map.look(machine, "x", Silent())


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    booted = boots(monkeypatch, GOOD)
    rows = linear_map.measure(machine, machine, Silent())
    machines = [one for one, _ in booted]
    assert [(row.mapped_in, row.memory_gib) for row in rows] == [
        (mapped_in, size) for mapped_in in ("pages", "blocks") for size in (1, 4, 16)
    ]
    assert all(one.count_instructions and "-seed" not in one.devices for one in machines)
    assert [one.memory_mb for one in machines[:6]] == [1024, 1024, 4096, 4096, 16384, 16384]
    assert ["rodata=noalias" in one.args for one in machines] == [False] * 6 + [True] * 6


def test_a_clock_that_does_not_count(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    boots(monkeypatch, GOOD.replace("1000000000 Hz", "62500000 Hz"))
    with pytest.raises(RedoubtError, match="does not count instructions"):
        linear_map.measure(machine, machine, Silent())
