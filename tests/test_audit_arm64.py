# SPDX-License-Identifier: GPL-2.0-only
"""The audit of arm64: which values are constants, put together where they are written."""

from __future__ import annotations

import pytest

from redoubt.image.audit import arm64

START = 0x1000


def values(*instructions: str, entered: tuple[int, ...] = ()) -> list[int | None]:
    """What the writes among these instructions write."""
    lines = [f"{START + 4 * at:x}:\t{one}\n" for at, one in enumerate(instructions)]
    return [write.value for write in arm64.writes(lines, frozenset(entered))]


MOVE = "mov\tx0, #0x17                  \t// #23"
WRITE = "msr\ts3_0_c10_c2_4, x0"


def test_a_constant() -> None:
    assert values("ret", MOVE, WRITE, "isb") == [0x17]
    assert values("mov\tx0, #0x0", "msr\tpor_el1, x0") == [0]


def test_one_in_several_pieces() -> None:
    pieces = (
        "mov\tx3, #0x1", "movk\tx3, #0xcc80, lsl #16", "movk\tx3, #0xe0a, lsl #32",
        "movk\tx3, #0xc588, lsl #48",
    )  # fmt: skip
    assert values(*pieces, "msr\ts3_0_c10_c2_3, x3") == [0xC5880E0ACC800001]
    # The last one counts, and what it does not set is of those before.
    assert values("mov\tx0, #0x20001", "movk\tx0, #0x7", WRITE) == [0x20007]


@pytest.mark.parametrize(
    "before",
    [
        (),
        ("ldr\tx0, [x1]",),
        ("mov\tx0, x1",),
        ("mov\tx1, #0x17",),
        (MOVE, "bl\t2000 <f>"),
        (MOVE, "orr\tx0, x0, #0x40"),
        ("movk\tx0, #0x17",),
        ("ldr\tx0, [x1]", "movk\tx0, #0x17"),
    ],
)
def test_what_is_none(before: tuple[str, ...]) -> None:
    assert values(*before, WRITE) == [None]


def test_one_that_is_jumped_into() -> None:
    assert values(MOVE, WRITE, entered=(START,)) == [0x17]
    assert values(MOVE, WRITE, entered=(START + 4,)) == [None]
    assert values("nop", MOVE, "movk\tx0, #0x1, lsl #16", WRITE, entered=(START + 8,)) == [None]


def test_reading_and_other_registers_are_none() -> None:
    assert values("mrs\tx0, s3_0_c10_c2_4", "msr\tsctlr_el1, x0", "msr\tdaifclr, #0x3") == []


def test_where_branches_go() -> None:
    lines = [
        "1000:\tb\t2000 <f>\n", "1004:\tb.ne\t2004 <f+0x4>  // b.any\n",
        "1008:\tcbz\tx0, 2008 <f+0x8>\n", "100c:\ttbnz\tw0, #3, 200c <f+0xc>\n",
        "1010:\tbl\t2010 <g>\n", "1014:\tbr\tx3\n", "1018:\tret\n",
    ]  # fmt: skip
    assert list(arm64.branch_targets(lines)) == [0x2000, 0x2004, 0x2008, 0x200C, 0x2010]


def left(
    *instructions: str, lowered: tuple[int, ...] = (), labels: dict[int, int] | None = None
) -> int | None:
    """Where a path from the first instruction leaves the function."""
    lines = [f"{START + 4 * at:x}:\t{one}\n" for at, one in enumerate(instructions)]
    return arm64.way_out(lines, START, lowered, labels or {})


def test_a_path_that_lowers_is_none() -> None:
    assert left("nop", "msr\tpor_el1, x0", "ret", lowered=(START + 4,)) is None
    assert left("nop", "msr\tpor_el1, x0", "ret") == START + 8
    # Round and round, and the end of the kernel.
    assert left("nop", "b\t1000 <f>") is None
    assert left("brk\t#0x800", "ret") is None


@pytest.mark.parametrize(
    "jump",
    ["cbz\tx0, 100c <f+0xc>", "b.eq\t100c <f+0xc>  // b.none", "tbnz\tw1, #3, 100c <f+0xc>"],
)
def test_either_way_of_a_condition_counts(jump: str) -> None:
    assert left(jump, "msr\tpor_el1, x0", "ret", "ret", lowered=(START + 4,)) == START + 12


def test_a_call_comes_back_and_a_jump_elsewhere_does_not() -> None:
    assert left("bl\t2000 <g>", "nop", "ret", lowered=(START + 4,)) is None
    assert left("b\t2000 <g>", "nop", "ret", lowered=(START + 4,)) == 0x2000


def test_a_jump_label_goes_both_ways() -> None:
    lowered = (START + 4,)
    assert left("nop", "nop", "ret", lowered=lowered) is None
    assert left("nop", "nop", "ret", lowered=lowered, labels={START: START + 8}) == START + 8
    assert left("b\t1004 <f+4>", "nop", "ret", lowered=lowered) is None


SKIP = "b.eq\t2000 <f>  // b.none"


@pytest.mark.parametrize(
    ("instructions", "leaves"),
    [
        # What a guard remembers: a value where it raised, or that it did not.
        (["mov\tx2, #0x17", "cmn\tx2, #0x1"], False),
        (["mov\tx2, #0xffffffffffffffff", "cmn\tx2, #0x1"], True),
        (["mov\tx2, x3", "cmn\tx2, #0x1"], True),
        (["mov\tx3, #0x17", "mov\tx2, x3", "cmn\tx2, #0x1"], False),
        (["mov\tx2, #0xc8800000", "movk\tx2, #0xe0a, lsl #32", "cmn\tx2, #0x1"], False),
        (["mov\tx2, #0x17", "cmp\tx2, #0x17"], True),
        (["mov\tx2, #0x17", "cmp\tx2, #0x16"], False),
        (["mov\tw2, #0xffffffff", "cmn\tw2, #0x1"], True),
        (["mov\tx2, #0x17", "cmp\tx2, x3"], True),
        # Something else may be in the register by then, or in the flags.
        (["mov\tx2, #0x17", "bl\t3000 <g>", "cmn\tx2, #0x1"], True),
        (["mov\tx2, #0x17", "nop", "cmn\tx2, #0x1"], True),
        (["mov\tx2, #0x17", "ldr\tx2, [x0]", "cmn\tx2, #0x1"], True),
        (["mov\tx2, #0x17", "ldp\tx1, x2, [sp, #16]", "cmn\tx2, #0x1"], True),
        (["mov\tx2, #0x17", "str\tx1, [x2], #8", "cmn\tx2, #0x1"], True),
        (["mov\tx2, #0x17", "str\tx1, [x2, #8]!", "cmn\tx2, #0x1"], True),
        (["mov\tx2, #0x17", "cmn\tx2, #0x1", "subs\tx3, x3, #0x1"], True),
        (["mov\tx2, #0x17", "cmn\tx2, #0x1", "tst\tx3, #0x1"], True),
        # And what leaves it alone.
        (["mov\tx2, #0x17", "casal\tx1, x20, [x19]", "cmn\tx2, #0x1"], False),
        (["mov\tx2, #0x17", "stlxr\tw3, x20, [x19]", "cmn\tx2, #0x1"], False),
        (["mov\tx2, #0x17", "cmn\tx2, #0x1", "str\tx1, [x0, #8]"], False),
    ],
)
def test_a_guard_that_remembers_whether_it_raised(instructions: list[str], leaves: bool) -> None:
    lowered = (START + 4 * (len(instructions) + 1),)
    out = left(*instructions, SKIP, "msr\tpor_el1, x0", "ret", lowered=lowered)
    assert out == (0x2000 if leaves else None)


def test_a_condition_that_is_always_true() -> None:
    always = ("mov\tx2, #0x17", "cmn\tx2, #0x1", "b.ne\t1010 <f+0x10>  // b.any", "ret")
    assert left(*always, "msr\tpor_el1, x0", "ret", lowered=(START + 16,)) is None
