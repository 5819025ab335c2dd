# SPDX-License-Identifier: GPL-2.0-only
"""What the audit is told: rules, what writes the register of an architecture, the allow-list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redoubt.core import reasons
from redoubt.core.errors import RedoubtError
from redoubt.image.elf import EM_AARCH64, EM_X86_64

# Rules. See audit.
NON_CONSTANT = "non-constant"
UNKNOWN_SELECTOR = "unknown-selector"
UNKNOWN_VALUE = "unknown-value"
OUTLINED_HELPER = "outlined-helper"
LEAVES_RAISED = "leaves-raised"
UNWRITTEN_LEVEL = "unwritten-level"
STALE_ENTRY = "stale-entry"

EXCUSABLE = (NON_CONSTANT, UNKNOWN_SELECTOR, LEAVES_RAISED)

DEFAULT_LEVEL = "default"


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
    """One entry of the allow-list: this rule, in this function, for this reason."""

    function: str
    rule: str
    reason: str
    optional: bool


@dataclass(frozen=True)
class Policy:
    """A parsed allow-list file."""

    isa: Isa
    levels: dict[str, int]
    helpers: tuple[str, ...]
    excuses: tuple[Excuse, ...]


def load_policy(path: Path) -> Policy:
    """Read an allow-list; raises RedoubtError naming the key at fault.

    Keys: `isa`; table `levels` (name = register value, `default` among them); `helpers`, glob
    patterns of functions that must not exist; tables `allow` with `function` (or `functions`, those
    that share a reason), `rule`, `reason` and optionally `optional = true` for an entry that may
    excuse nothing (compilers and configurations differ). A list is short for an entry for each of
    its functions: all of them must have something to excuse.
    """
    raw = reasons.read(path, "the audit's allow-list")

    def bad(what: str) -> RedoubtError:
        return RedoubtError(f"{path}: {what}")

    unknown = sorted(set(raw) - {"isa", "levels", "helpers", "allow"})
    if unknown:
        raise bad(f"unknown key {', '.join(unknown)}")
    if raw.get("isa") not in ISAS:
        raise bad(f"isa must be one of: {', '.join(sorted(ISAS))}")
    levels = raw.get("levels")
    if (
        not isinstance(levels, dict)
        or not all(type(value) is int for value in levels.values())
        or DEFAULT_LEVEL not in levels
    ):
        raise bad(f"levels must give each level its register value, '{DEFAULT_LEVEL}' among them")
    helpers = raw.get("helpers")
    if (
        not isinstance(helpers, list)
        or not helpers
        or not all(isinstance(name, str) for name in helpers)
    ):
        raise bad("helpers must list the functions that have to be inlined")
    entries = raw.get("allow", [])
    if not isinstance(entries, list):
        raise bad("allow must be a list of tables ([[allow]])")
    excuses = tuple(excuse for entry in entries for excuse in _excuses(entry, bad))
    keys = [(excuse.function, excuse.rule) for excuse in excuses]
    for key in keys:
        if keys.count(key) > 1:
            raise bad(f"two entries for {key[0]} and rule {key[1]}")
    return Policy(ISAS[raw["isa"]], dict(levels), tuple(helpers), excuses)


def _excuses(entry: Any, bad: Any) -> Iterator[Excuse]:
    """One `[[allow]]` table, checked: an excuse for each function; `bad` makes the error."""
    known = {"function", "functions", "rule", "reason", "optional"}
    if not isinstance(entry, dict) or not set(entry) <= known:
        raise bad(f"an allow entry has the keys {', '.join(sorted(known))} and no others")
    if "function" in entry and "functions" in entry:
        raise bad("an allow entry has either function or functions")
    functions = entry.get("functions", [entry.get("function")])
    if (
        not isinstance(functions, list)
        or not functions
        or not all(isinstance(function, str) and function for function in functions)
    ):
        raise bad("an allow entry lacks its function")
    function = functions[0]
    if entry.get("rule") not in EXCUSABLE:
        raise bad(f"rule of allow entry {function} must be one of: {', '.join(EXCUSABLE)}")
    reason = entry.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise bad(f"allow entry {function} gives no reason")
    optional = entry.get("optional", False)
    if not isinstance(optional, bool):
        raise bad(f"optional of allow entry {function} must be true or false")
    for function in functions:
        yield Excuse(function, entry["rule"], reason.strip(), optional)
