# SPDX-License-Identifier: GPL-2.0-only
"""What the audit is told: rules, what writes the register of an architecture, the allow-list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from redoubt.core import reasons
from redoubt.core.errors import RedoubtError
from redoubt.image.elf import EM_AARCH64, EM_X86_64

DEFAULT_LEVEL = "default"


class Rule(StrEnum):
    """What the audit may find; it says what they mean."""

    NON_CONSTANT = "non-constant"
    UNKNOWN_SELECTOR = "unknown-selector"
    UNKNOWN_VALUE = "unknown-value"
    OUTLINED_HELPER = "outlined-helper"
    LEAVES_RAISED = "leaves-raised"
    UNWRITTEN_LEVEL = "unwritten-level"
    STALE_ENTRY = "stale-entry"


EXCUSABLE = (Rule.NON_CONSTANT, Rule.UNKNOWN_SELECTOR, Rule.LEAVES_RAISED)


# === What can write the register, by instruction set =============================================


@dataclass(frozen=True)
class Writer:
    """A family of instructions that can write the pkey register.

    `value` is the register that holds the value, or None if it comes from memory (then it is never
    a constant). `selector` is a register deciding whether the instruction touches the pkey register
    at all: it does unless the selector is a known constant that fails the test, which is equality
    with `equals`, or having a bit of `bits` set.
    """

    mnemonics: frozenset[str]
    value: str | None
    selector: str | None = None
    equals: int | None = None
    bits: int | None = None

    def selected(self, selectors: frozenset[int] | None) -> bool:
        """True if the instruction may write the pkey register, given all its selector may be."""
        return selectors is None or any(map(self._selects, selectors))

    def certain(self, selectors: frozenset[int] | None) -> bool:
        """True if the instruction writes the pkey register whenever it is executed."""
        if self.selector is None:
            return True
        return selectors is not None and all(map(self._selects, selectors))

    def _selects(self, selector: int) -> bool:
        if self.equals is not None:
            return selector == self.equals
        if self.bits is not None:
            return bool(selector & self.bits)
        return True


@dataclass(frozen=True)
class Isa:
    """How one kind of pkey register is written."""

    machine: int
    writers: tuple[Writer, ...]
    encoding: bytes = b""


_XRSTOR = Writer(
    mnemonics=frozenset({"xrstor", "xrstor64", "xrstors", "xrstors64"}),
    value=None,
    selector="eax",
    bits=1 << 9,  # the state component of PKRU; the high half of the mask (EDX) has no part in it
)

ISAS: dict[str, Isa] = {
    "x86-pku": Isa(
        machine=EM_X86_64,
        writers=(Writer(frozenset({"wrpkru"}), value="eax"), _XRSTOR),
        encoding=b"\x0f\x01\xef",
    ),
    "x86-pks": Isa(
        machine=EM_X86_64,
        writers=(
            # IA32_PKRS; an MSR number that is not a constant may be it.
            Writer(frozenset({"wrmsr", "wrmsrns"}), value="eax", selector="ecx", equals=0x6E1),
            # Numbers and values from memory.
            Writer(frozenset({"wrmsrlist"}), value=None),
        ),
        encoding=b"\x0f\x30",
    ),
    # See arm64.py. Instructions are not found inside others there.
    "arm64": Isa(machine=EM_AARCH64, writers=()),
}


# === The allow-list ==============================================================================


@dataclass(frozen=True)
class Excuse:
    """Why the allow-list permits something; it need not happen if that is `optional`."""

    reason: str
    optional: bool


@dataclass(frozen=True)
class Policy:
    """A parsed allow-list file; `excuses` are by function and rule."""

    isa: Isa
    levels: dict[str, int]
    helpers: tuple[str, ...]
    excuses: dict[tuple[str, str], Excuse]


def load_policy(path: Path) -> Policy:
    """Read an allow-list; raises RedoubtError naming the key at fault.

    Keys: `isa`; table `levels` (name = register value, `default` among them); `helpers`, glob
    patterns of functions that must not exist; tables `allow` with `function` (or `functions`, those
    that share a reason), `rule`, `reason` and optionally `optional = true` for an entry that may
    excuse nothing (compilers and configurations differ). A list is short for an entry for each of
    its functions: all of them must have something to excuse.
    """
    raw = reasons.read(path, "the audit's allow-list")

    def need(good: bool, what: str) -> None:
        if not good:
            raise RedoubtError(f"{path}: {what}")

    unknown = sorted(set(raw) - {"isa", "levels", "helpers", "allow"})
    need(not unknown, f"unknown key {', '.join(unknown)}")
    need(raw.get("isa") in ISAS, f"isa must be one of: {', '.join(sorted(ISAS))}")
    levels: Any = raw.get("levels")
    need(
        isinstance(levels, dict)
        and all(type(value) is int for value in levels.values())
        and DEFAULT_LEVEL in levels,
        f"levels must give each level its register value, '{DEFAULT_LEVEL}' among them",
    )
    need(_names(raw.get("helpers")), "helpers must list the functions that have to be inlined")
    types = {"function": str, "functions": list, "rule": str, "reason": str, "optional": bool}
    optional = {"function", "functions", "optional"}
    excuses: dict[tuple[str, str], Excuse] = {}
    for entry in reasons.tables(path, raw, "allow", types, optional):
        given = entry.keys() & {"function", "functions"}
        need(len(given) == 1, "an allow entry has either function or functions")
        functions = entry.get("functions", [entry.get("function")])
        need(_names(functions), "functions of an allow entry must list some")
        rule, allowed = entry["rule"], ", ".join(EXCUSABLE)
        need(rule in EXCUSABLE, f"rule of allow entry {functions[0]} must be one of: {allowed}")
        for function in functions:
            need((function, rule) not in excuses, f"two entries for {function} and rule {rule}")
            excuses[function, rule] = Excuse(entry["reason"].strip(), entry.get("optional", False))
    return Policy(ISAS[raw["isa"]], dict(levels), tuple(raw["helpers"]), excuses)


def _names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, str) and one for one in value)
    )
