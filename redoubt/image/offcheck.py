# SPDX-License-Identifier: GPL-2.0-only
"""Proof that our work vanishes when it is off: object files equal to the pristine kernel's.

`compare` takes two build directories of the same configuration, one of the pristine source and one
of our tree, and compares every object file: the bytes, size and flags of each section that ends up
in memory, every relocation, and every symbol other files can see. That is what `objdump -dr` would
show and more (data, read-only data, initialisers), and cheap while the bytes are equal.

A relocation against a local symbol is compared by the place it points at, since the compiler
numbers local names (`__func__.7`) and a header may shift the numbers.

Line numbers
------------
A patch that adds a line to a file moves all the lines below, and `__LINE__` of a WARN() or BUG()
with them. These are the only differences let through, and not by their looks: a differing number
must be the line of a source file the object was made from (as the compiler itself recorded it),
the two versions of that file must differ, and a comparison of the two must say that the unchanged
line `a` of the pristine one is line `b` of the patched one, or that both are the same assertion, of
which the patch rewrites the condition. The line must have a parenthesis, as every use of `__LINE__`
through a macro has. In code the instruction has to be the same one, at the same place and with the
same bytes, up to one immediate operand; in data the number must fill an aligned 16-bit half word or
the low 18 bits of a word (the field of dynamic debug). All the differences let through are in the
report.

Left out, as no part of the kernel or as made from parts that are compared: host programs
(`scripts/`, `tools/`), the linker's intermediate results (`.tmp_*`, `vmlinux.o`), the whole kernel
packed into an object of x86's decompressor, and the header of bzImage, which has the size of that.
The number and time of the build, in `init/version-timestamp.o` and x86's boot code, are masked:
exactly the text of utsversion.h. Boot code of 32 bits has to be the same byte for byte but for what
debuggers read. UML's `arch/um/kernel/config.o` is the text of .config (for --showconfig), in which
our options, off as they are, have a line: it may differ if its generated source is the same without
these lines.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from redoubt.core.diff import Hunk, hunks
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_lines
from redoubt.image.elf import EM_AARCH64, STB_LOCAL, Elf, Section, Symbol

HOST_DIRECTORIES = ("scripts", "tools")
WHOLE_KERNELS = (
    "vmlinux.o",
    "arch/x86/boot/compressed/piggy.o",
    "arch/x86/boot/header.o",  # the header of bzImage has the size of the compressed kernel
)
TIMESTAMP_OBJECTS = (
    "init/version-timestamp.o",
    "arch/x86/boot/version.o",
    "arch/x86/boot/compressed/kaslr.o",
)
CONFIG_OBJECT = "arch/um/kernel/config.o"
DETAIL_LINES = 6

# Bytes, or on arm64 the word that they are.
_INSN = re.compile(r"^\s*([0-9a-f]+):\t((?:(?:[0-9a-f]{2}){1,4} )+)\s*(?:\t(.*))?$")
_IMMEDIATE = re.compile(r"[$#]0x([0-9a-f]+)")
# What objdump says of an immediate behind the instruction.
_REMARK = re.compile(r"\s*//.*$")
_CONFIG_LINE = re.compile(r'^"(?:(CONFIG_\w+)=.*|# (CONFIG_\w+) is not set)\\n",$')
_EMPTY_LINE = '"\\n",'
# The beginning of an object for 32 bits, or 16.
_ELF32 = b"\x7fELF\x01"
_SHN_RESERVED = {0: "undefined", 0xFFF1: "absolute", 0xFFF2: "common"}


# === The report ==================================================================================


@dataclass(frozen=True)
class LineChange:
    """A differing number let through: line `old` of `file` is line `new` of our version."""

    object: str
    section: str
    offset: int
    file: str
    old: int
    new: int


@dataclass(frozen=True)
class Difference:
    """An object that is not the same; `detail` holds the first differing lines."""

    object: str
    detail: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What the comparison saw. Objects are named by their path in the build directory.

    `config_text` tells that the object with the text of .config differs by our options' lines.
    """

    compared: int
    identical: int
    config_text: bool
    line_changes: tuple[LineChange, ...]
    differing: tuple[Difference, ...]
    only_pristine: tuple[str, ...]
    only_patched: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if all objects are the same and none is missing or extra."""
        return not (self.differing or self.only_pristine or self.only_patched)

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {"ok": self.ok, **asdict(self)}


def render(report: Report) -> list[str]:
    """The report as lines of text."""
    lines: list[str] = []
    for difference in report.differing:
        lines.append(f"DIFFERS {difference.object}")
        lines.extend(f"    {line}" for line in difference.detail)
    lines.extend(f"ONLY IN PRISTINE {name}" for name in report.only_pristine)
    lines.extend(f"ONLY IN OURS {name}" for name in report.only_patched)
    moved = len({change.object for change in report.line_changes})
    lines.append(
        f"{report.compared} objects compared: {report.identical} identical to the byte, "
        f"{moved} with moved line numbers ({len(report.line_changes)} places), "
        f"{int(report.config_text)} with the text of .config, "
        f"{len(report.differing)} different; {len(report.only_pristine)} only in pristine, "
        f"{len(report.only_patched)} only in ours"
    )
    lines.append("offcheck: clean" if report.ok else "offcheck: the kernels differ")
    return lines


# === Builds ======================================================================================


def _objects(build: Path) -> set[str]:
    """The kernel's object files in a build directory, by relative path."""
    # `source` is a link to the source tree, which is not followed.
    found = {file.relative_to(build) for file in build.rglob("*.o")}
    kernel = {
        str(name)
        for name in found
        if name.parts[0] not in HOST_DIRECTORIES and not name.name.startswith(".tmp_")
    }
    return kernel - set(WHOLE_KERNELS)


def _config(build: Path) -> dict[str, str]:
    """The configuration of a build: option = value, `n` for one that is not set."""
    try:
        text = (build / ".config").read_text(encoding="utf-8")
    except OSError as error:
        raise RedoubtError(
            f"{build} is not a kernel build: no .config ({error.strerror})"
        ) from error
    unset = re.findall(r"^# (CONFIG_\w+) is not set$", text, re.MULTILINE)
    found = re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.MULTILINE)
    return dict(found) | dict.fromkeys(unset, "n")


def _check_configs(pristine: Path, patched: Path) -> None:
    """Refuse builds that differ in an option both kernels know."""
    ours = _config(patched)
    odd = [name for name, value in _config(pristine).items() if ours.get(name, value) != value]
    if odd:
        raise RedoubtError(
            f"the two builds have different configurations: {', '.join(sorted(odd))}",
            "build both from the same fragments, with our options off",
        )


# Is a file generated, and its path in the build or the source.
_Where = tuple[bool, str]


class _Side:
    """One of the two builds, and the source tree it was made from."""

    def __init__(self, build: Path) -> None:
        self.build = Path(os.path.realpath(build))
        link = self.build / "source"
        if link.is_symlink() and not link.exists():
            raise RedoubtError(
                f"the source tree of {self.build} is gone: {os.readlink(link)}",
                "line numbers are judged by the source; build again",
            )
        self.source = Path(os.path.realpath(link)) if link.exists() else self.build

    def files(self, name: str) -> dict[_Where, Path]:
        """The files an object was compiled from."""
        path = self.build / name
        try:
            text = (path.parent / f".{path.name}.cmd").read_text(errors="surrogateescape")
        except OSError:
            return {}
        words: list[str] = []
        for match in re.finditer(r"^(?:source|deps)_\S+ := ((?:.*\\\n)*.*)$", text, re.MULTILINE):
            words += re.sub(r"\$\(wildcard [^)]*\)", " ", match[1].replace("\\\n", " ")).split()
        found: dict[_Where, Path] = {}
        for word in words:
            full = Path(os.path.normpath(self.build / word))
            # A build directory may lie inside the source tree: ask for it first.
            if full.is_relative_to(self.build):
                found[True, str(full.relative_to(self.build))] = full
            elif full.is_relative_to(self.source):
                found[False, str(full.relative_to(self.source))] = full
        return found

    def file(self, where: _Where) -> Path:
        """Such a file on this side."""
        generated, name = where
        return (self.build if generated else self.source) / name


# === Line numbers ================================================================================


# Macros that print the number of their line if their condition holds.
_ASSERTS = re.compile(r"\s*((?:BUG|WARN|VM_BUG|VM_WARN)\w*)\(")


@dataclass(frozen=True)
class _Moved:
    """A source file both trees have, in different versions."""

    name: str
    hunks: list[Hunk]
    lines: list[str]
    patched: list[str]

    def maps(self, old: int, new: int) -> bool:
        """True if line `old` is line `new` of the patched file.

        A line is unchanged, or an assertion that stands for one in the lines that replace it: its
        condition is code, and compared as such.
        """
        if not 1 <= old <= len(self.lines) or not re.search(r"[()]", self.lines[old - 1]):
            return False
        shift = 0
        for hunk in self.hunks:
            if old < hunk.old.start:
                break
            if old in hunk.old:
                asserts = _ASSERTS.match(self.lines[old - 1])
                replaced = _ASSERTS.match(self.patched[new - 1]) if new in hunk.new else None
                return bool(asserts and replaced and asserts[1] == replaced[1])
            shift = hunk.new.stop - hunk.old.stop
        return new == old + shift


class _Lines:
    """Which numbers may differ, object by object."""

    def __init__(self, pristine: _Side, patched: _Side) -> None:
        self.pristine = pristine
        self.patched = patched
        self.files: dict[Path, _Moved | None] = {}
        self.objects: dict[str, list[_Moved]] = {}

    def explain(self, name: str, old: int, new: int) -> str | None:
        """The file of an object in which line `old` has become line `new`, if there is one."""
        if name not in self.objects:
            files = self.pristine.files(name)
            found = [self._moved(where, file) for where, file in files.items()]
            self.objects[name] = [file for file in found if file]
        return next((file.name for file in self.objects[name] if file.maps(old, new)), None)

    def _moved(self, where: _Where, old: Path) -> _Moved | None:
        """A file if its versions differ and both exist."""
        if old not in self.files:
            new = self.patched.file(where)
            try:
                before, after = old.read_bytes(), new.read_bytes()
            except OSError:
                before = after = b""
            lines, patched = (text.decode("latin-1").split("\n") for text in (before, after))
            moved = _Moved(where[1], hunks(old, new), lines, patched) if before != after else None
            self.files[old] = moved
        return self.files[old]


def _run(*command: str | Path) -> list[str]:
    """The lines that a command prints; raises RedoubtError if it is missing or fails."""
    lines: list[str] = []
    ended = run_lines(command, lines.append, env={"LC_ALL": "C"})
    if ended.code:
        raise RedoubtError("\n".join([f"{command[0]} failed ({ended}):", *lines[-10:]]))
    return lines


def _without_debug(path: Path) -> bytes:
    """An object without the sections for debuggers, which name its directory."""
    with tempfile.TemporaryDirectory(prefix="redoubt-") as scratch:
        stripped = Path(scratch) / path.name
        _run("objcopy", "--strip-debug", path, stripped)
        return stripped.read_bytes()


# === Objects =====================================================================================

# A section by its name, and how many of that name come before it.
_Key = tuple[str, int]


class _Object:
    """One object file, with names that compare across builds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.elf = Elf(path)
        self.sections: dict[_Key, Section] = {}
        self.keys: dict[int, _Key] = {}
        counts: Counter[str] = Counter()
        for section in self.elf.sections:
            key = self.keys[section.index] = (section.name, counts[section.name])
            counts[section.name] += 1
            if section.alloc:
                self.sections[key] = section
        # The compiler numbers local names: what they stand for is a place in a section.
        self.relocations = {
            self.keys[index]: sorted(
                (one.offset, one.type, f"global {one.symbol.name}", one.addend)
                if one.symbol.bind != STB_LOCAL
                else (one.offset, one.type, self._home(one.symbol), one.symbol.value + one.addend)
                for one in relocations
            )
            for index, relocations in self.elf.relocations().items()
            if self.keys[index] in self.sections
        }
        # Those that other files can see, defined or needed.
        self.symbols = {
            one.name: one._asdict() | {"section": self._home(one)}
            for one in self.elf.symbols
            if one.bind != STB_LOCAL and one.names_place
        }

    def _home(self, symbol: Symbol) -> str:
        if reserved := _SHN_RESERVED.get(symbol.section):
            return reserved
        if key := self.keys.get(symbol.section):
            return "{}#{}".format(*key)
        return f"index {symbol.section:#x}"

    def disassembled(self, section: str, *options: str) -> list[str]:
        """A section as objdump shows it."""
        arm64 = self.elf.machine == EM_AARCH64
        objdump = "aarch64-linux-gnu-objdump" if arm64 else "objdump"
        return _run(objdump, "-d", "-w", "-z", *options, "-j", section, self.path)

    def instructions(self, section: str) -> list[tuple[int, str, str]]:
        """Offset, bytes and text of each instruction of a section."""
        matches = filter(None, map(_INSN.match, self.disassembled(section)))
        return [
            (int(one[1], 16), one[2].strip(), _REMARK.sub("", one[3] or "").strip())
            for one in matches
        ]


class _Differs(Exception):
    """The objects are not the same; carries the detail lines."""

    def __init__(self, *detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(frozen=True)
class _Pair:
    """The comparison of one object on both sides; `masks` are texts that stand for each other."""

    name: str
    old: _Object
    new: _Object
    lines: _Lines
    masks: tuple[bytes, bytes] | None
    changes: list[LineChange] = field(default_factory=list)

    def compare(self) -> list[LineChange]:
        """The line numbers that moved; raises _Differs if anything else differs."""
        old, new = self.old, self.new
        if old.elf.machine != new.elf.machine:
            raise _Differs("made for different machines")
        _same_names("sections", map(_title, old.sections), map(_title, new.sections))
        for key in old.sections:
            self._section(key)
        _same_names("symbols", old.symbols, new.symbols)
        for name, symbol in old.symbols.items():
            if new.symbols[name] != symbol:
                raise _Differs(f"symbol {name}: {symbol}", f"symbol {name}: {new.symbols[name]}")
        return self.changes

    def _section(self, key: _Key) -> None:
        old, new = self.old.sections[key], self.new.sections[key]
        title = f"section {_title(key)}:"
        if (old.type, old.flags, old.align) != (new.type, new.flags, new.align):
            raise _Differs(f"{title} type, flags or alignment differ")
        before, after = old.data, new.data
        if self.masks:
            before, after = (
                data.replace(mask, b"\1" * len(mask))
                for data, mask in zip((before, after), self.masks, strict=True)
            )
        relocations = self.old.relocations.get(key, []), self.new.relocations.get(key, [])
        if old.size != new.size or relocations[0] != relocations[1]:
            if old.code:
                raise self._different_code(key)
            if old.size != new.size:
                raise _Differs(f"{title} {old.size} bytes, {new.size} in ours")
            raise _Differs(title, *_first_pair(*map(_texts, relocations)))
        if before != after and old.code:
            self._code(key)
        elif before != after:
            self._data(key, before, after)

    def _data(self, key: _Key, before: bytes, after: bytes) -> None:
        for offset in range(0, len(before), 4):
            if not self._word(key, offset, before[offset : offset + 4], after[offset : offset + 4]):
                raise _Differs(
                    f"section {_title(key)}: differs at {offset:#x}",
                    f"- {before[offset : offset + 16].hex(' ')}",
                    f"+ {after[offset : offset + 16].hex(' ')}",
                )

    def _word(self, key: _Key, offset: int, old: bytes, new: bytes) -> bool:
        """True if an aligned word of data is the same, or differs by line numbers only."""
        if old == new:
            return True
        low, new_low = (int.from_bytes(word, "little") for word in (old, new))
        if len(old) == 4 and low >> 18 == new_low >> 18:
            field_of_18_bits = (1 << 18) - 1
            if self._line(key, offset, low & field_of_18_bits, new_low & field_of_18_bits):
                return True
        if len(old) % 2 and old[-1] != new[-1]:
            return False
        halves = ((at, old[at : at + 2], new[at : at + 2]) for at in (0, 2))
        return all(
            one == other
            or self._line(
                key, offset + at, int.from_bytes(one, "little"), int.from_bytes(other, "little")
            )
            for at, one, other in halves
        )

    def _line(self, key: _Key, offset: int, old: int, new: int) -> bool:
        """Note and accept a pair of numbers if it is a line that moved."""
        file = self.lines.explain(self.name, old, new)
        if file is None:
            return False
        self.changes.append(LineChange(self.name, key[0], offset, file, old, new))
        return True

    def _code(self, key: _Key) -> None:
        """Compare sections of code, instruction by instruction."""
        if key[1] or (key[0], 1) in self.old.keys.values():
            raise _Differs(f"several sections {key[0]} have different code")
        old, new = self.old.instructions(key[0]), self.new.instructions(key[0])
        if len(old) != len(new):
            raise self._different_code(key)
        for (at, raw, text), (new_at, new_raw, new_text) in zip(old, new, strict=True):
            if (at, raw) == (new_at, new_raw):
                continue
            same_place = (at, len(raw)) == (new_at, len(new_raw))
            numbers = _one_immediate(text, new_text) if same_place else None
            if numbers is None or not self._line(key, at, *numbers):
                raise self._different_code(key)

    def _different_code(self, key: _Key) -> _Differs:
        """The first differing lines of the disassembly, relocations included."""
        texts = [
            [
                " ".join(line.split())
                for line in side.disassembled(key[0], "-r", "--no-show-raw-insn")
                if ":\t" in line or "<" in line
            ]
            for side in (self.old, self.new)
        ]
        lines = _first_pair(*texts) or ["the relocations differ"]
        return _Differs(f"section {_title(key)}:", *lines)


def _one_immediate(old: str, new: str) -> tuple[int, int] | None:
    """The two values if two instructions are the same up to one immediate operand."""
    if _IMMEDIATE.sub("$", old) != _IMMEDIATE.sub("$", new):
        return None
    pairs = zip(_IMMEDIATE.findall(old), _IMMEDIATE.findall(new), strict=True)
    differing = [(int(a, 16), int(b, 16)) for a, b in pairs if a != b]
    return differing[0] if len(differing) == 1 else None


def _title(key: _Key) -> str:
    return key[0] if key[1] == 0 else f"{key[0]} (number {key[1] + 1})"


def _texts(relocations: list[Any]) -> list[str]:
    return [f"{at:#x}: type {kind} {target}+{add:#x}" for at, kind, target, add in relocations]


def _first_pair(old: list[str], new: list[str]) -> list[str]:
    """The first lines in which two texts differ, `-` pristine and `+` ours."""
    at = 0
    while at < min(len(old), len(new)) and old[at] == new[at]:
        at += 1
    shown = slice(at, at + DETAIL_LINES // 2)
    return [*(f"- {line}" for line in old[shown]), *(f"+ {line}" for line in new[shown])]


def _same_names(what: str, old: Iterable[str], new: Iterable[str]) -> None:
    """Raise _Differs unless both sides have the same names."""
    before, after = set(old), set(new)
    if before != after:
        raise _Differs(
            *(f"- {what}: {name}" for name in sorted(before - after)[:DETAIL_LINES]),
            *(f"+ {what}: {name}" for name in sorted(after - before)[:DETAIL_LINES]),
        )


# === Everything ==================================================================================


def _timestamps(*sides: _Side) -> tuple[bytes, bytes] | None:
    """The texts of the build times, None if they cannot be told."""
    found: list[bytes] = []
    for side in sides:
        header = side.build / "include/generated/utsversion.h"
        text = header.read_bytes() if header.is_file() else b""
        found += re.findall(rb'^#define UTS_VERSION "(.+)"$', text, re.MULTILINE)
    return (found[0], found[1]) if len(found) == 2 else None


def _only_our_options(pristine: _Side, patched: _Side) -> bool:
    """True if the generated text of .config is the same but for options pristine lacks."""
    known = _config(pristine.build)
    texts: list[list[str]] = []
    for side in (pristine, patched):
        file = (side.build / CONFIG_OBJECT).with_suffix(".c")
        if not file.is_file():
            return False
        texts.append(
            [
                line
                for line in file.read_text(encoding="utf-8").splitlines()
                # Kconfig sets menus and sources apart by empty lines.
                if line != _EMPTY_LINE
                and (not (match := _CONFIG_LINE.match(line)) or (match[1] or match[2]) in known)
            ]
        )
    return texts[0] == texts[1]


def _compare(name: str, lines: _Lines, masks: tuple[bytes, bytes] | None) -> list[LineChange]:
    """The line numbers that moved in an object; raises _Differs if anything else differs."""
    old, new = lines.pristine.build / name, lines.patched.build / name
    before, after = old.read_bytes(), new.read_bytes()
    if before == after:
        return []
    if not before.startswith(_ELF32):
        return _Pair(name, _Object(old), _Object(new), lines, masks).compare()
    # Boot code of x86, in which no line tells its number.
    before, after = _without_debug(old), _without_debug(new)
    if masks and len(masks[0]) == len(masks[1]):
        before = before.replace(*masks)
    if before != after:
        raise _Differs("not an object of 64 bits, and not equal byte for byte")
    return []


def compare(pristine_build: Path, patched_build: Path) -> Report:
    """Compare the object files of two builds of the same configuration.

    Raises RedoubtError if they are no such builds; differences are not errors but in the report.
    """
    _check_configs(pristine_build, patched_build)
    pristine, patched = _Side(pristine_build), _Side(patched_build)
    before, after = _objects(pristine.build), _objects(patched.build)
    common = sorted(before & after)
    if not common:
        raise RedoubtError(
            f"{pristine_build} and {patched_build} have no object file in common",
            "build both kernels first",
        )
    lines, times = _Lines(pristine, patched), _timestamps(pristine, patched)
    identical = 0
    config_text = False
    changes: list[LineChange] = []
    differing: list[Difference] = []
    for name in common:
        masks = times if name in TIMESTAMP_OBJECTS else None
        try:
            found = _compare(name, lines, masks)
        except _Differs as difference:
            if name == CONFIG_OBJECT and _only_our_options(pristine, patched):
                config_text = True
            else:
                differing.append(Difference(name, difference.detail))
            continue
        changes += found
        identical += not found
    return Report(
        compared=len(common),
        identical=identical,
        config_text=config_text,
        line_changes=tuple(changes),
        differing=tuple(differing),
        only_pristine=tuple(sorted(before - after)),
        only_patched=tuple(sorted(after - before)),
    )
