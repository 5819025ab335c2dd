# SPDX-License-Identifier: GPL-2.0-only
"""The audit of arm64: which values are constants, put together where they are written."""

from __future__ import annotations

import pytest

from redoubt.image.audit import arm64
from redoubt.image.functions import Function

START = 0x1000


def decoded(instructions: tuple[str, ...]) -> list[arm64.Insn]:
    parts = (one.partition("\t") for one in instructions)
    return [arm64.Insn(START + 4 * at, name, text) for at, (name, _, text) in enumerate(parts)]


def values(*instructions: str, entered: tuple[int, ...] = ()) -> list[int | None]:
    """What the writes among these instructions write."""
    insns = decoded(instructions)
    return [arm64.constant(insns, at, entered) for at, one in enumerate(insns) if one.writes]


MOVE = "mov\tx0, #0x17"
WRITE = "msr\ts3_0_c10_c2_4, x0"


def test_a_constant() -> None:
    assert values("ret", MOVE, WRITE, "isb") == [0x17]
    assert values("mov\tx0, #0x0", "msr\tpor_el1, x0") == [0]


def test_one_in_several_pieces() -> None:
    pieces = (
        "mov\tx3, #0x1", "movk\tx3, #0xcc80, lsl #16", "movk\tx3, #0xe0a, lsl #32",
        "movk\tx3, #0xc588, lsl #48",
    )  # fmt: skip
    assert values(*pieces, "msr\ts3_0_c10_c2_4, x3") == [0xC5880E0ACC800001]
    # The last one counts, and what it does not set is of those before.
    assert values("mov\tx0, #0x20001", "movk\tx0, #0x7", WRITE) == [0x20007]


@pytest.mark.parametrize(
    "before",
    [
        (),
        ("ldr\tx0, [x1]",),
        ("mov\tx0, x1",),
        ("mov\tx1, #0x17",),
        (MOVE, "bl\t#0x2000"),
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
    insns = decoded(
        ("b\t#0x2000", "b.ne\t#0x2004", "cbz\tx0, #0x2008", "tbnz\tw0, #3, #0x200c",
         "bl\t#0x2010", "br\tx3", "ret")
    )  # fmt: skip
    assert [one.target for one in insns] == [0x2000, 0x2004, 0x2008, 0x200C, 0x2010, None, None]


def test_the_decoders_text_is_understood() -> None:
    """A later decoder may write them otherwise, and is to fail here instead of finding nothing."""
    code = {
        0xD28002E0: "mov x0, #0x17",
        0x92800002: "mov x2, #-1",
        0xF2C1C142: "movk x2, #0xe0a, lsl #32",
        0xD518A280: "msr s3_0_c10_c2_4, x0",
        0xD5181000: "msr sctlr_el1, x0",
        0xB4000040: f"cbz x0, #{START + 4 * 5 + 8:#x}",
        0xFFFFFFFF: ".byte 0xff, 0xff, 0xff, 0xff",
    }
    words = b"".join(word.to_bytes(4, "little") for word in code)
    insns = arm64.decoded(Function("f", ".text", START, words))
    assert [f"{one.mnemonic} {one.text}" for one in insns] == list(code.values())
    assert [one.immediate for one in insns[:3]] == [0x17, (1 << 64) - 1, 0xE0A]
    assert (insns[2].shift, insns[5].target) == (32, START + 4 * 5 + 8)
    assert [at for at, one in enumerate(insns) if one.writes] == [3]


def left(
    *instructions: str,
    lowered: tuple[int, ...] = (),
    labels: dict[int, int] | None = None,
    replaced: tuple[str, ...] | None = None,
) -> int | None:
    """Where a path from the first instruction leaves the function."""
    others = {} if replaced is None else {START + 4: decoded(replaced)}
    return arm64.way_out(decoded(instructions), START, lowered, labels or {}, others)


def test_a_path_that_lowers_is_none() -> None:
    assert left("nop", "msr\tpor_el1, x0", "ret", lowered=(START + 4,)) is None
    assert left("nop", "msr\tpor_el1, x0", "ret") == START + 8
    # Round and round, and the end of the kernel.
    assert left("nop", "b\t#0x1000") is None
    assert left("brk\t#0x800", "ret") is None


@pytest.mark.parametrize(
    "jump",
    ["cbz\tx0, #0x100c", "b.eq\t#0x100c", "tbnz\tw1, #3, #0x100c"],
)
def test_either_way_of_a_condition_counts(jump: str) -> None:
    assert left(jump, "msr\tpor_el1, x0", "ret", "ret", lowered=(START + 4,)) == START + 12


def test_a_call_comes_back_and_a_jump_elsewhere_does_not() -> None:
    assert left("bl\t#0x2000", "nop", "ret", lowered=(START + 4,)) is None
    assert left("b\t#0x2000", "nop", "ret", lowered=(START + 4,)) == 0x2000


def test_a_jump_label_goes_both_ways() -> None:
    lowered = (START + 4,)
    assert left("nop", "nop", "ret", lowered=lowered) is None
    assert left("nop", "nop", "ret", lowered=lowered, labels={START: START + 8}) == START + 8
    assert left("b\t#0x1004", "nop", "ret", lowered=lowered) is None


SKIP = "b.eq\t#0x2000"


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
        (["mov\tx2, #0x17", "bl\t#0x3000", "cmn\tx2, #0x1"], True),
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
        (["mov\tx2, #0x17", "nop", "cmn\tx2, #0x1", "nop"], False),
    ],
)
def test_a_guard_that_remembers_whether_it_raised(instructions: list[str], leaves: bool) -> None:
    lowered = (START + 4 * (len(instructions) + 1),)
    out = left(*instructions, SKIP, "msr\tpor_el1, x0", "ret", lowered=lowered)
    assert out == (0x2000 if leaves else None)


@pytest.mark.parametrize(
    ("replaced", "leaves"),
    [
        (None, False),
        # By a function, which may put anything there.
        ((), True),
        (("nop",), False),
        (("swp\tx1, x0, [x19]", "nop"), False),
        (("swp\tx1, x2, [x19]", "nop"), True),
        (("bl\t#0x3000",), True),
        (("b\t#0x2000",), True),
    ],
)
def test_what_boot_puts_in_place_of_an_instruction(
    replaced: tuple[str, ...] | None, leaves: bool
) -> None:
    guard = ("mov\tx2, #0x17", "nop", "cmn\tx2, #0x1", SKIP, "msr\tpor_el1, x0", "ret")
    out = left(*guard, lowered=(START + 16,), replaced=replaced)
    assert out == (0x2000 if leaves else None)


def test_a_condition_that_is_always_true() -> None:
    always = ("mov\tx2, #0x17", "cmn\tx2, #0x1", "b.ne\t#0x1010", "ret")
    assert left(*always, "msr\tpor_el1, x0", "ret", lowered=(START + 16,)) is None
