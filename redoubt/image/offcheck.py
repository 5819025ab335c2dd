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
line `a` of the pristine one is line `b` of the patched one. The line must have a parenthesis, as
every use of `__LINE__` through a macro has. In code the instruction has to be the same one, at the
same place and with the same bytes, up to one immediate operand; in data the number must fill an
aligned 16-bit half word or the low 18 bits of a word (the field of dynamic debug). All the
differences let through are in the report.

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

import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.image.elf import (
    OBJDUMP,
    SHT_NOBITS,
    STB_LOCAL,
    STT_FILE,
    STT_SECTION,
    Elf,
    Section,
    Symbol,
)

# Objects only one of the builds may have, with the reason. With the options off there is none.
PERMITTED_ONE_SIDED: dict[str, str] = {}

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

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# Bytes, or on arm64 the word that they are.
_INSN = re.compile(r"^\s*([0-9a-f]+):\t((?:(?:[0-9a-f]{2}){1,4} )+)\s*(?:\t(.*))?$")
_IMMEDIATE = re.compile(r"[$#]0x([0-9a-f]+)")
# What objdump says of an immediate behind the instruction.
_REMARK = re.compile(r"\s*//.*$")
_CONFIG_LINE = re.compile(r'^"(?:(CONFIG_\w+)=.*|# (CONFIG_\w+) is not set)\\n",$')
_EMPTY_LINE = '"\\n",'
# The beginning of an object for 32 bits, or 16.
_ELF32 = b"\x7fELF\x01"
_BITS_18 = (1 << 18) - 1
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

    pristine: Path
    patched: Path
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
        return {
            "ok": self.ok,
            "compared": self.compared,
            "identical": self.identical,
            "config_text": self.config_text,
            "line_changes": [vars(change) for change in self.line_changes],
            "differing": [
                {"object": item.object, "detail": list(item.detail)} for item in self.differing
            ],
            "only_pristine": list(self.only_pristine),
            "only_patched": list(self.only_patched),
        }


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
    found: set[str] = set()
    for directory, subdirectories, files in os.walk(build):
        relative = PurePosixPath(Path(directory).relative_to(build).as_posix())
        if str(relative) == ".":
            # `source` is a link to the source tree; walk() does not follow it.
            subdirectories[:] = [name for name in subdirectories if name not in HOST_DIRECTORIES]
        for name in files:
            if name.endswith(".o") and not name.startswith(".tmp_"):
                found.add(str(relative / name))
    return found - set(WHOLE_KERNELS)


def _config(build: Path) -> dict[str, str]:
    """The configuration of a build: option = value, `n` for one that is not set."""
    path = build / ".config"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RedoubtError(
            f"{build} is not a kernel build: no .config ({error.strerror})"
        ) from error
    result = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.MULTILINE))
    unset = re.findall(r"^# (CONFIG_\w+) is not set$", text, re.MULTILINE)
    result.update(dict.fromkeys(unset, "n"))
    return result


def _check_configs(pristine: Path, patched: Path) -> None:
    """Refuse builds that differ in an option both kernels know."""
    ours = _config(patched)
    odd = [name for name, value in _config(pristine).items() if ours.get(name, value) != value]
    if odd:
        raise RedoubtError(
            f"the two builds have different configurations: {', '.join(sorted(odd))}",
            "build both from the same fragments, with our options off",
        )


def _source_root(build: Path) -> Path:
    """The source tree a build was made from."""
    link = build / "source"
    if link.is_symlink() and not link.exists():
        raise RedoubtError(
            f"the source tree of {build} is gone: {os.readlink(link)}",
            "line numbers are judged by the source; build again",
        )
    return Path(os.path.realpath(link)) if link.exists() else build


class _Side:
    """One of the two builds."""

    def __init__(self, build: Path) -> None:
        self.build = Path(os.path.realpath(build))
        self.source = _source_root(self.build)

    def dependencies(self, name: str) -> list[tuple[str, str]]:
        """The files an object was compiled from: (`build` or `source`, path relative to it)."""
        path = self.build / name
        command = path.with_name(f".{path.name}.cmd")
        try:
            text = command.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return []
        words: list[str] = []
        for key in ("source", "deps"):
            match = re.search(rf"^{key}_\S+ := ((?:.*\\\n)*.*)$", text, re.MULTILINE)
            if match:
                plain = re.sub(r"\$\(wildcard [^)]*\)", " ", match[1].replace("\\\n", " "))
                words += plain.split()
        result: dict[tuple[str, str], None] = {}
        for word in words:
            full = Path(os.path.normpath(self.build / word))
            # A build directory may lie inside the source tree: ask for it first.
            for kind, root in (("build", self.build), ("source", self.source)):
                if full.is_relative_to(root):
                    result[kind, str(full.relative_to(root))] = None
                    break
        return list(result)

    def file(self, kind: str, relative: str) -> Path:
        """The file a dependency names on this side."""
        return (self.build if kind == "build" else self.source) / relative


# === Line numbers ================================================================================


@dataclass(frozen=True)
class _Moved:
    """A source file both trees have, in different versions."""

    name: str
    hunks: tuple[tuple[int, int, int, int], ...]
    lines: tuple[str, ...]

    def maps(self, old: int, new: int) -> bool:
        """True if the unchanged line `old` is line `new` of the patched file."""
        if not 1 <= old <= len(self.lines) or not re.search(r"[()]", self.lines[old - 1]):
            return False
        shift = 0
        for start, count, new_start, new_count in self.hunks:
            # With a count of 0 diff names the line *before* the gap.
            first = start if count else start + 1
            if old < first:
                break
            if old < first + count:
                return False
            new_first = new_start if new_count else new_start + 1
            shift = (new_first + new_count) - (first + count)
        return new == old + shift


class _Lines:
    """Which numbers may differ, object by object."""

    def __init__(self, pristine: _Side, patched: _Side) -> None:
        self.pristine = pristine
        self.patched = patched
        self.files: dict[tuple[str, str], _Moved | None] = {}

    def explain(self, name: str) -> Callable[[int, int], str | None]:
        """A function giving the file in which line `old` has become line `new`, if any."""

        @functools.cache
        def moved() -> list[_Moved]:
            # Most objects are identical and never ask.
            found = (self._moved(*file) for file in self.pristine.dependencies(name))
            return [file for file in found if file is not None]

        def explain(old: int, new: int) -> str | None:
            return next((file.name for file in moved() if file.maps(old, new)), None)

        return explain

    def _moved(self, kind: str, relative: str) -> _Moved | None:
        key = (kind, relative)
        if key not in self.files:
            self.files[key] = _compare_sources(
                relative, self.pristine.file(*key), self.patched.file(*key)
            )
        return self.files[key]


def _compare_sources(name: str, old: Path, new: Path) -> _Moved | None:
    """The hunks between two versions of a file; None if they are equal or one is missing."""
    try:
        before, after = old.read_bytes(), new.read_bytes()
    except OSError:
        return None
    if before == after:
        return None
    result = _run(["diff", "-a", "-U0", str(old), str(new)], (0, 1))
    hunks: list[tuple[int, int, int, int]] = []
    for line in result.splitlines():
        if match := _HUNK.match(line):
            start, count, new_start, new_count = match.groups()
            hunks.append((int(start), int(count or "1"), int(new_start), int(new_count or "1")))
    return _Moved(name, tuple(hunks), tuple(before.decode("latin-1").split("\n")))


def _run(command: list[str], good: tuple[int, ...] = (0,)) -> str:
    """Output of a command; raises RedoubtError if it is missing or fails."""
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError as missing:
        raise RedoubtError(
            f"{command[0]} is missing", "apt-get install binutils diffutils"
        ) from missing
    if result.returncode not in good:
        raise RedoubtError(f"{command[0]} failed: {result.stderr.strip()}")
    return result.stdout


def _without_debug(path: Path) -> bytes:
    """An object without the sections for debuggers, which name its directory."""
    with tempfile.TemporaryDirectory(prefix="redoubt-") as scratch:
        stripped = Path(scratch) / path.name
        _run(["objcopy", "--strip-debug", str(path), str(stripped)])
        return stripped.read_bytes()


# === Objects =====================================================================================

_Key = tuple[str, int]


class _Object:
    """One object file, with names that compare across builds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.elf = Elf(path)
        self.sections: dict[_Key, Section] = {}
        self.keys: dict[int, _Key] = {}
        counts: dict[str, int] = {}
        for section in self.elf.sections:
            key = (section.name, counts.get(section.name, 0))
            counts[section.name] = key[1] + 1
            self.keys[section.index] = key
            if section.alloc:
                self.sections[key] = section
        self.relocations = {
            self.keys[index]: sorted(
                (item.offset, item.type, *self._place(item.symbol, item.addend)) for item in items
            )
            for index, items in self.elf.relocations().items()
            if self.keys[index] in self.sections
        }

    def _place(self, symbol: Symbol, addend: int) -> tuple[str, int]:
        """What a relocation refers to: a global name, or a place in a section."""
        if symbol.bind != STB_LOCAL:
            return f"global {symbol.name}", addend
        return self._section(symbol), symbol.value + addend

    def _section(self, symbol: Symbol) -> str:
        if symbol.section in self.keys and symbol.section not in _SHN_RESERVED:
            return "{}#{}".format(*self.keys[symbol.section])
        return _SHN_RESERVED.get(symbol.section, f"index {symbol.section:#x}")

    def symbols(self) -> dict[str, tuple[Any, ...]]:
        """The symbols other files can see, defined or needed."""
        return {
            item.name: (
                item.bind,
                item.type,
                item.visibility,
                self._section(item),
                item.value,
                item.size,
            )
            for item in self.elf.symbols
            if item.bind != STB_LOCAL and item.type not in (STT_FILE, STT_SECTION)
        }


class _Differs(Exception):
    """The objects are not the same; carries the detail lines."""

    def __init__(self, *detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class _Pair:
    """The comparison of one object on both sides."""

    def __init__(
        self,
        name: str,
        old: _Object,
        new: _Object,
        explain: Callable[[int, int], str | None],
        mask: tuple[bytes, bytes] | None,
    ) -> None:
        self.name = name
        self.old = old
        self.new = new
        self.explain = explain
        self.mask = mask
        self.changes: list[LineChange] = []

    def compare(self) -> list[LineChange]:
        """The line numbers that moved; raises _Differs if anything else differs."""
        old, new = self.old, self.new
        if old.elf.machine != new.elf.machine:
            raise _Differs("made for different machines")
        _same_names("sections", map(_title, old.sections), map(_title, new.sections))
        before, after = old.symbols(), new.symbols()
        for key in old.sections:
            self._section(key)
        _same_names("symbols", before, after)
        for name, symbol in before.items():
            if after[name] != symbol:
                raise _Differs(f"symbol {name}: {symbol}", f"symbol {name}: {after[name]}")
        return self.changes

    def _section(self, key: _Key) -> None:
        old, new = self.old.sections[key], self.new.sections[key]
        shape = (old.type, old.flags, old.align)
        if shape != (new.type, new.flags, new.align):
            raise _Differs(f"section {_title(key)}: type, flags or alignment differ")
        before, after = old.data, new.data
        if self.mask is not None:
            before = before.replace(self.mask[0], b"\1" * len(self.mask[0]))
            after = after.replace(self.mask[1], b"\1" * len(self.mask[1]))
        relocations = self.old.relocations.get(key, []), self.new.relocations.get(key, [])
        if old.size != new.size or relocations[0] != relocations[1]:
            if old.executable:
                raise _Differs(*self._code_detail(key))
            if old.size != new.size:
                raise _Differs(f"section {_title(key)}: {old.size} bytes, {new.size} in ours")
            raise _Differs(f"section {_title(key)}:", *_first_pair(*map(_texts, relocations)))
        if before == after or old.type == SHT_NOBITS:
            return
        if old.executable:
            self._code(key)
        else:
            self._data(key, before, after)

    def _data(self, key: _Key, before: bytes, after: bytes) -> None:
        for offset in range(0, len(before), 4):
            old, new = before[offset : offset + 4], after[offset : offset + 4]
            if old == new:
                continue
            if not self._word(key, offset, old, new):
                raise _Differs(
                    f"section {_title(key)}: differs at {offset:#x}",
                    f"- {before[offset : offset + 16].hex(' ')}",
                    f"+ {after[offset : offset + 16].hex(' ')}",
                )

    def _word(self, key: _Key, offset: int, old: bytes, new: bytes) -> bool:
        """True if an aligned word of data differs by line numbers only."""
        a, b = int.from_bytes(old, "little"), int.from_bytes(new, "little")
        same_above = len(old) == 4 and a >> 18 == b >> 18
        if same_above and self._line(key, offset, a & _BITS_18, b & _BITS_18):
            return True
        halves = [
            (
                offset + at,
                int.from_bytes(old[at : at + 2], "little"),
                int.from_bytes(new[at : at + 2], "little"),
            )
            for at in range(0, len(old) - 1, 2)
        ]
        differing = [half for half in halves if half[1] != half[2]]
        return bool(differing) and all(self._line(key, *half) for half in differing)

    def _line(self, key: _Key, offset: int, old: int, new: int) -> bool:
        """Note and accept a pair of numbers if it is a line that moved."""
        file = self.explain(old, new)
        if file is None:
            return False
        self.changes.append(LineChange(self.name, key[0], offset, file, old, new))
        return True

    def _code(self, key: _Key) -> None:
        """Compare sections of code, instruction by instruction."""
        if key[1] or (key[0], 1) in self.old.keys.values():
            raise _Differs(f"several sections {key[0]} have different code")
        old, new = (self._instructions(side, key[0]) for side in (self.old, self.new))
        for (at, raw, text), (new_at, new_raw, new_text) in zip(old, new, strict=False):
            if raw == new_raw and at == new_at:
                continue
            if at == new_at and len(raw) == len(new_raw):
                numbers = _one_immediate(text, new_text)
                if numbers is not None and self._line(key, at, *numbers):
                    continue
            raise _Differs(*self._code_detail(key))
        if len(old) != len(new):
            raise _Differs(*self._code_detail(key))

    @staticmethod
    def _instructions(side: _Object, section: str) -> list[tuple[int, str, str]]:
        """Offset, bytes and text of each instruction of a section."""
        output = _run([_objdump(side), "-d", "-w", "-z", "-j", section, str(side.path)])
        found: list[tuple[int, str, str]] = []
        for line in output.splitlines():
            if match := _INSN.match(line):
                text = _REMARK.sub("", match[3] or "").strip()
                found.append((int(match[1], 16), match[2].strip(), text))
        return found

    def _code_detail(self, key: _Key) -> list[str]:
        """The first differing lines of the disassembly, relocations included."""
        texts: list[list[str]] = []
        for side in (self.old, self.new):
            command = [_objdump(side), "-dr", "-w", "-z", "--no-show-raw-insn", "-j", key[0]]
            lines = _run([*command, str(side.path)]).splitlines()
            texts.append([" ".join(line.split()) for line in lines if ":\t" in line or "<" in line])
        title = f"section {_title(key)}:"
        return [title, *(_first_pair(*texts) or ["the relocations differ"])]


def _objdump(side: _Object) -> str:
    """The disassembler for an object."""
    return OBJDUMP.get(side.elf.machine, "objdump")


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
    at = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    half = DETAIL_LINES // 2
    return [f"- {line}" for line in old[at : at + half]] + [
        f"+ {line}" for line in new[at : at + half]
    ]


def _same_names(what: str, old: Any, new: Any) -> None:
    """Raise _Differs unless both sides have the same names."""
    before, after = set(old), set(new)
    if before != after:
        raise _Differs(
            *(f"- {what}: {name}" for name in sorted(before - after)[:DETAIL_LINES]),
            *(f"+ {what}: {name}" for name in sorted(after - before)[:DETAIL_LINES]),
        )


def _timestamps(old: _Side, new: _Side) -> tuple[bytes, bytes] | None:
    """The texts of the build times, None if they cannot be told."""
    found: list[bytes] = []
    for side in (old, new):
        try:
            header = (side.build / "include/generated/utsversion.h").read_bytes()
        except OSError:
            return None
        match = re.search(rb'^#define UTS_VERSION "(.+)"$', header, re.MULTILINE)
        if match is None:
            return None
        found.append(match[1])
    return found[0], found[1]


def _only_our_options(pristine: _Side, patched: _Side) -> bool:
    """True if the generated text of .config is the same but for options pristine lacks."""
    known = _config(pristine.build)
    texts: list[list[str]] = []
    for side in (pristine, patched):
        try:
            text = (side.build / CONFIG_OBJECT).with_suffix(".c").read_text(encoding="utf-8")
        except OSError:
            return False
        texts.append(
            [
                line
                for line in text.splitlines()
                # Kconfig sets menus and sources apart by empty lines.
                if line != _EMPTY_LINE
                and (not (match := _CONFIG_LINE.match(line)) or (match[1] or match[2]) in known)
            ]
        )
    return texts[0] == texts[1]


class _Comparer:
    """Compares the objects of two builds by their names."""

    def __init__(self, pristine: _Side, patched: _Side) -> None:
        self.pristine = pristine
        self.patched = patched
        self.lines = _Lines(pristine, patched)
        self.times = _timestamps(pristine, patched)

    def compare(self, name: str) -> list[LineChange]:
        """The line numbers that moved; raises _Differs if anything else differs."""
        mask = self.times if name in TIMESTAMP_OBJECTS else None
        old, new = self.pristine.build / name, self.patched.build / name
        before, after = old.read_bytes(), new.read_bytes()
        if before == after:
            return []
        if before.startswith(_ELF32):
            # Boot code of x86, in which no line tells its number.
            before, after = _without_debug(old), _without_debug(new)
            if mask and len(mask[0]) == len(mask[1]):
                before = before.replace(*mask)
            if before == after:
                return []
            raise _Differs("not an object of 64 bits, and not equal byte for byte")
        return _Pair(
            name, _Object(old), _Object(new), self.lines.explain(name), mask
        ).compare()  # fmt: skip


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
    identical = 0
    config_text = False
    changes: list[LineChange] = []
    differing: list[Difference] = []
    comparer = _Comparer(pristine, patched)
    for name in common:
        try:
            found = comparer.compare(name)
        except _Differs as difference:
            if name == CONFIG_OBJECT and _only_our_options(pristine, patched):
                config_text = True
                continue
            differing.append(Difference(name, difference.detail))
            continue
        changes += found
        identical += not found
    return Report(
        pristine=pristine_build,
        patched=patched_build,
        compared=len(common),
        identical=identical,
        config_text=config_text,
        line_changes=tuple(changes),
        differing=tuple(differing),
        only_pristine=tuple(sorted(before - after - set(PERMITTED_ONE_SIDED))),
        only_patched=tuple(sorted(after - before - set(PERMITTED_ONE_SIDED))),
    )
