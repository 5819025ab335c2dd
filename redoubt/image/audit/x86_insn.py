# SPDX-License-Identifier: GPL-2.0-only
"""What x86-64 instructions do to registers, as far as that is plain from objdump's text.

Of a register only the low 32 bits are looked at. Whatever is not understood may do anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from redoubt.image.audit.walk import Known
from redoubt.image.disassembly import LINE


@dataclass(frozen=True)
class Insn:
    """An instruction, its operands in AT&T's order."""

    address: int
    mnemonic: str
    operands: tuple[str, ...]
    text: str

    @property
    def target(self) -> int | None:
        """The address a direct branch goes to, else None."""
        if not self.operands or not _is_branch(self.mnemonic):
            return None
        match = _TARGET.match(self.operands[0])
        return int(match[1], 16) if match else None


_TARGET = re.compile(r"^([0-9a-f]+)(?: <.*>)?$")
_SEGMENTS = ("cs", "ds", "es", "fs", "gs", "ss")
_PREFIXES = frozenset(
    {"bnd", "notrack", "lock", "rep", "repz", "repnz", "data16", "addr32", *_SEGMENTS}
)


def _is_branch(mnemonic: str) -> bool:
    return mnemonic.startswith(("j", "loop")) or mnemonic.removesuffix("q") == "call"


def _operands(text: str) -> tuple[str, ...]:
    """Split AT&T operands at the commas outside parentheses."""
    parts: list[str] = []
    depth = 0
    current = ""
    for char in text:
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
            continue
        depth += (char == "(") - (char == ")")
        current += char
    if current.strip():
        parts.append(current.strip())
    return tuple(parts)


def parse(line: str) -> Insn | None:
    """One line of disassembly, or None if it is none."""
    match = LINE.match(line)
    if match is None:
        return None
    text = " ".join(match[2].split())
    words = text.split(" # ")[0].split()
    while len(words) > 1 and (words[0] in _PREFIXES or words[0].startswith("rex")):
        words.pop(0)
    if not words:
        return None
    return Insn(int(match[1], 16), words[0], _operands(" ".join(words[1:])), text)


# The names of a register and its parts.
Family = frozenset[str]
_FAMILIES: list[Family] = [
    *(frozenset({f"r{x}x", f"e{x}x", f"{x}x", f"{x}l", f"{x}h"}) for x in "abcd"),
    *(frozenset({f"r{x}", f"e{x}", x, f"{x}l"}) for x in ("si", "di", "bp", "sp")),
    *(frozenset({f"r{n}", f"r{n}d", f"r{n}w", f"r{n}b"}) for n in range(8, 16)),
]
FAMILY = {name: family for family in _FAMILIES for name in family}
# Registers whose plain write sets the whole (32-bit writes clear the upper half).
WHOLE = frozenset(
    [f"{p}{x}x" for p in "re" for x in "abcd"]
    + [f"{p}{x}" for p in "re" for x in ("si", "di", "bp", "sp")]
    + [f"r{n}{s}" for n in range(8, 16) for s in ("", "d")]
)

# Instructions that write no register but their last operand (flags aside), and those that write
# none at all. An instruction in neither list may write anything.
_WRITES_LAST = re.compile(
    r"^(?:movabs|movz[bwl][wlq]|movs[bwl][wlq]|movslq|movzbl|mov[bwlq]?|lea[wlq]?|add[bwlq]?"
    r"|sub[bwlq]?|and[bwlq]?|or[bwlq]?|xor[bwlq]?|not[bwlq]?|neg[bwlq]?|inc[bwlq]?|dec[bwlq]?"
    r"|sh[lr][bwlq]?|sa[lr][bwlq]?|ro[lr][bwlq]?|set[a-z]{1,3}|cmov[a-z]{1,3}|pop[wlq]?|adc[bwlq]?"
    r"|sbb[bwlq]?|bsf|bsr|bswap|popcnt|tzcnt|lzcnt|rol|ror|bt[src][wlq]?)$"
)
_WRITES_NONE = re.compile(
    r"^(?:cmp[bwlq]?|test[bwlq]?|bt[wlq]?|push[wlq]?|nop[wlq]?|wrpkru|lfence|mfence|sfence|pause"
    r"|endbr64|j[a-z]+|xrstors?(?:64)?|wrmsr|wrmsrns|lkgs|clac|stac|cli|sti|prefetch[a-z0-9]*"
    r"|swapgs|verw|invlpg|wbinvd|serialize)$"
)
# Those that write these registers, whatever their operands.
_WRITES_FIXED = {
    **dict.fromkeys(("rdmsr", "rdtsc", "rdpmc", "xgetbv", "rdpkru"), ("eax", "edx")),
    **dict.fromkeys(("cltd", "cqto"), ("edx",)),
    **dict.fromkeys(("cltq", "cwtl"), ("eax",)),
    "cpuid": ("eax", "ebx", "ecx", "edx"),
    "rdtscp": ("eax", "ecx", "edx"),
    **dict.fromkeys(("movsb", "movsw", "movsl", "movsq"), ("ecx", "esi", "edi")),
    **dict.fromkeys(("stos", "stosb", "stosw", "stosl", "stosq"), ("ecx", "edi")),
}
# These write all of their operands, and the last one EAX as well.
_EXCHANGES = re.compile(r"^(?:xchg|xadd|cmpxchg)[bwlq]?$")
ENDS = re.compile(r"^(?:ret[a-z]*|jmp[a-z]*|iret[a-z]*|sysret[a-z]*|ud[012][a-z]*|hlt)$")
RETURNS = re.compile(r"^(?:ret[a-z]*|iret[a-z]*|sysret[a-z]*)$")

WORD = 0xFFFFFFFF
_LOW_BYTE = frozenset(
    [f"{x}l" for x in "abcd"] + ["sil", "dil", "bpl", "spl"] + [f"r{n}b" for n in range(8, 16)]
)
# Of a shift by one binutils say nothing up to 2.40, and "$1" later.
IMMEDIATE = re.compile(r"^\$(-?0x[0-9a-f]+|1)$")
# disp(base), disp(base,index,scale), disp(,index,scale)
_ADDRESS = re.compile(r"^(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+),([1248]))?\)$")
_MOVES = frozenset({"mov", "movl", "movq", "movabs", "movslq", "cltq"})
_ZERO_EXTENDS = {"movzbl": 0xFF, "movzbq": 0xFF, "movzwl": 0xFFFF, "movzwq": 0xFFFF}

# Bits of an unknown number that a mask leaves, beyond which a value counts as unknown.
_MOST_BITS = 10

# Something done to a value on its way: the name of the operation and its constant.
Step = tuple[str, int]


def take(value: int, steps: tuple[Step, ...]) -> int:
    """What becomes of a value by the steps, in 32 bits."""
    for what, by in steps:
        match what:
            case "add":
                value += by
            case "and":
                value &= by
            case "or":
                value |= by
            case "xor":
                value ^= by
            case "mul":
                value *= by
            case "shr":
                value >>= by
        value &= WORD
    return value


def masked(steps: tuple[Step, ...]) -> frozenset[int] | None:
    """All that may become of an unknown value, if the first step leaves few bits of it."""
    if not steps or steps[0][0] != "and" or steps[0][1].bit_count() > _MOST_BITS:
        return None
    mask = part = steps[0][1]
    found = {0}
    while part:
        found.add(part)
        part = (part - 1) & mask
    return frozenset(take(value, steps[1:]) for value in found)


def sources(insn: Insn, family: Family) -> list[tuple[str | int, tuple[Step, ...]]]:
    """Where the low 32 bits of a register come from, if `insn` is what wrote the register.

    Each source is a register's name or a constant, with what is done to it. They are alternatives;
    the empty list says that nothing is known.
    """
    name = insn.mnemonic
    if not insn.operands or not _WRITES_LAST.match(name):
        return []
    target = insn.operands[-1].removeprefix("%")
    old = next(iter(family))
    if name.startswith("set") and target in _LOW_BYTE:
        return [(old, (("and", 0xFFFFFF00), ("or", bit))) for bit in (0, 1)]
    if target not in WHOLE:
        return []
    first = insn.operands[0]
    immediate = IMMEDIATE.match(first)
    number = int(immediate[1], 16) & WORD if immediate else None
    register = first.removeprefix("%") if first.startswith("%") else None
    whole = register if register in WHOLE else None
    if len(insn.operands) == 1:
        alone: dict[str, tuple[Step, ...]] = {
            "inc": (("add", 1),),
            "dec": (("add", WORD),),
            "not": (("xor", WORD),),
            "neg": (("mul", WORD),),
            "shl": (("mul", 2),),
        }
        steps = alone.get(name.rstrip("lq") if name not in alone else name)
        return [(old, steps)] if steps else []
    if len(insn.operands) != 2:
        return []
    plain = re.sub(r"^(add|sub|and|or|xor|shl|shr|lea|sbb)[lq]$", r"\1", name)
    if plain in _MOVES:
        if number is not None:
            return [(number, ())]
        return [(whole, ())] if whole else []
    if name in _ZERO_EXTENDS:
        mask = (("and", _ZERO_EXTENDS[name]),)
        if register in _LOW_BYTE or (register in FAMILY and _ZERO_EXTENDS[name] == 0xFFFF):
            return [(register or "", mask)]
        return [("", mask)]
    if name.startswith("cmov"):
        return [(old, ()), (whole, ())] if whole else []
    if whole and whole in family:
        if plain in ("xor", "sub"):
            return [(0, ())]
        if plain == "sbb":
            return [(0, ()), (WORD, ())]
        if plain == "add":
            return [(old, (("mul", 2),))]
    if plain == "lea":
        address = _ADDRESS.match(first)
        if not address:
            return []
        base, index = address[2], address[3]
        if base and index and base != index:
            return []
        times = (1 if base else 0) + (int(address[4]) if index else 0)
        by = int(address[1] or "0", 16) & WORD
        origin = (base or index or "").removeprefix("%")
        if origin not in WHOLE:
            return []
        return [(origin, (("mul", times), ("add", by)) if times != 1 else (("add", by),))]
    if number is None:
        return []
    if plain in ("add", "and", "or", "xor"):
        return [(old, ((plain, number),))]
    if plain == "sub":
        return [(old, (("add", -number & WORD),))]
    if plain == "shl" and number < 32:
        return [(old, (("mul", 1 << number),))]
    if plain == "shr" and number < 32 and target.startswith("e"):
        return [(old, (("shr", number),))]
    return []


_KEEPS_FLAGS = re.compile(
    r"^(?:j[a-z]+|mov[a-z]*|lea[lq]?|push[a-z]*|nop[a-z]*|xchg|cmov[a-z]+|set[a-z]+|not[lq]?"
    r"|wrmsr|rdmsr|wrpkru|rdpkru|[lsm]fence)$"
)
_COMPARES = re.compile(r"^(?:cmp|test)[lq]?$")
_RESULT_IN_FLAGS = re.compile(r"^(?:inc|dec|add|sub|and|or|xor|neg)[lq]?$")


def _differ(insn: Insn, held: Mapping[Family, int]) -> bool:
    """Does this comparison, or test of a register for zero, certainly find a difference?"""
    first, second = insn.operands
    register = second.removeprefix("%")
    if register not in WHOLE:
        return False
    value = held.get(FAMILY[register])
    if value is None:
        return False
    if insn.mnemonic.startswith("test"):
        return first == second and value != 0
    immediate = IMMEDIATE.match(first)
    return immediate is not None and int(immediate[1], 16) & WORD != value


def keeps(insn: Insn, family: Family, changed: str | None = None) -> bool:
    """True if the instruction certainly leaves a register alone.

    `changed` is another one that the handler of its exception writes.
    """
    # No call: a register the callee preserves it preserves in memory, where it can be changed.
    if changed in family:
        return False
    if _WRITES_NONE.match(insn.mnemonic):
        return True
    if fixed := _WRITES_FIXED.get(insn.mnemonic):
        return family.isdisjoint(fixed)
    if _EXCHANGES.match(insn.mnemonic):
        written = {one.removeprefix("%") for one in insn.operands}
        if insn.mnemonic.startswith("cmp"):
            written.add("eax")
        # Exchanged with itself, AX is how two bytes say that there is nothing to do.
        return written == {"ax"} or family.isdisjoint(written)
    if not insn.operands or not _WRITES_LAST.match(insn.mnemonic):
        return False
    target = insn.operands[-1]
    return not target.startswith("%") or target[1:] not in family


def behind(insn: Insn, known: Known[Family], changed: str | None = None) -> Known[Family]:
    """What is known behind an instruction, of what is known before it; `changed` as of keeps().

    Registers are known by their families, as of FAMILY.
    """
    before = dict(known.held)
    target = insn.operands[-1].removeprefix("%") if insn.operands else ""
    family = FAMILY.get(target)
    result = None
    if family:
        origins = sources(insn, family)
        source, steps = origins[0] if len(origins) == 1 else ("", ())
        if isinstance(source, int):
            value: int | None = source
        else:
            value = before.get(FAMILY[source]) if source else None
        result = None if value is None else take(value, steps)
    held = {one: value for one, value in before.items() if keeps(insn, one, changed)}
    if family and result is not None:
        held[family] = result
    if _KEEPS_FLAGS.match(insn.mnemonic):
        differs = known.differs
    elif _COMPARES.match(insn.mnemonic):
        differs = _differ(insn, before)
    else:
        # What is not zero in the low half is not zero.
        differs = bool(result) and _RESULT_IN_FLAGS.match(insn.mnemonic) is not None
    return Known(frozenset(held.items()), differs)
