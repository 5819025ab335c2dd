# SPDX-License-Identifier: GPL-2.0-only
"""The part of ELF that we read: 64-bit little-endian, as our targets are.

Only what is needed: sections with their bytes, symbols, relocations with addends, and what a
program is linked with. Anything else (32-bit, big-endian, REL relocations, more sections than the
header can count) is refused with a RedoubtError rather than misread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from redoubt.core.errors import RedoubtError

EM_X86_64 = 62
EM_AARCH64 = 183

SHT_SYMTAB = 2
SHT_RELA = 4
SHT_DYNAMIC = 6
SHT_NOBITS = 8
SHT_REL = 9
SHF_ALLOC = 2
SHF_EXEC = 4

STB_LOCAL = 0
STT_FUNC = 2
STT_SECTION = 3
STT_FILE = 4

DT_NEEDED = 1

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_DYNAMIC = struct.Struct("<qQ")


@dataclass(frozen=True)
class Section:
    """One section; `data` is empty for a section without bytes in the file (.bss)."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    size: int
    link: int
    info: int
    align: int
    data: bytes

    @property
    def alloc(self) -> bool:
        """True if the section occupies memory in the running kernel."""
        return bool(self.flags & SHF_ALLOC)

    @property
    def code(self) -> bool:
        """True if the section holds instructions of the running kernel."""
        return self.alloc and bool(self.flags & SHF_EXEC)

    def records(self, layout: struct.Struct) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """The records of a table, each with its address."""
        whole = self.data[: len(self.data) // layout.size * layout.size]
        for number, record in enumerate(layout.iter_unpack(whole)):
            yield self.address + number * layout.size, record


class Symbol(NamedTuple):
    """One symbol-table entry. `section` is the section index, or a reserved SHN_* value."""

    name: str
    bind: int
    type: int
    visibility: int
    section: int
    value: int
    size: int

    @property
    def names_place(self) -> bool:
        """True unless it stands for a whole file or section."""
        return self.type not in (STT_FILE, STT_SECTION)


class Relocation(NamedTuple):
    """One relocation with addend against a symbol."""

    offset: int
    type: int
    symbol: Symbol
    addend: int


class Elf:
    """One parsed ELF file."""

    def __init__(self, path: Path) -> None:
        """Read `path` whole; raises RedoubtError if it is missing or not a 64-bit LE ELF file."""
        self.path = path
        try:
            self._raw = path.read_bytes()
        except OSError as error:
            raise RedoubtError(f"cannot read {path}: {error.strerror}") from error
        if self._raw[:6] != b"\x7fELF\x02\x01":
            raise RedoubtError(f"{path} is not a 64-bit little-endian ELF file")
        try:
            self.sections = list(self._sections())
        except (struct.error, IndexError, ValueError) as error:
            raise RedoubtError(f"{path} is a damaged ELF file") from error

    def _sections(self) -> Iterator[Section]:
        header = _HEADER.unpack_from(self._raw)
        self.machine: int = header[2]
        offset, entry_size, count, names = header[6], header[11], header[12], header[13]
        if offset and not count:
            raise RedoubtError(f"{self.path} has too many sections, not supported")
        rows = [_SECTION.unpack_from(self._raw, offset + i * entry_size) for i in range(count)]
        strings = self._slice(rows[names][4], rows[names][5]) if rows else b""
        for index, row in enumerate(rows):
            name, kind, flags, address, start, size, link, info, align, _ = row
            data = b"" if kind == SHT_NOBITS else self._slice(start, size)
            title = _string(strings, name)
            yield Section(index, title, kind, flags, address, size, link, info, align, data)

    def _slice(self, offset: int, size: int) -> bytes:
        data = self._raw[offset : offset + size]
        if len(data) != size:
            raise RedoubtError(f"{self.path} is a truncated ELF file")
        return data

    def code(self, start: int, end: int) -> bytes:
        """The code between two addresses; b"" if there is none."""
        for section in self.sections:
            if section.code and section.address <= start <= end <= section.address + section.size:
                return section.data[start - section.address : end - section.address]
        return b""

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The symbol table in file order, the empty entry 0 included; [] if stripped."""
        table = next((one for one in self.sections if one.type == SHT_SYMTAB), None)
        if table is None:
            return []
        strings = self.sections[table.link].data
        return [
            Symbol(_string(strings, name), info >> 4, info & 15, other & 3, index, value, size)
            for name, info, other, index, value, size in _SYMBOL.iter_unpack(table.data)
        ]

    @property
    def interpreter(self) -> str | None:
        """The path of the loader that a program asks for; None if it needs none."""
        named = (_string(one.data, 0) for one in self.sections if one.name == ".interp")
        return next(named, None)

    @property
    def needed(self) -> list[str]:
        """The names of the libraries that it is linked with, in its order."""
        return [
            _string(self.sections[section.link].data, value)
            for section in self.sections
            if section.type == SHT_DYNAMIC
            for tag, value in _DYNAMIC.iter_unpack(section.data)
            if tag == DT_NEEDED
        ]

    def relocations(self) -> dict[int, list[Relocation]]:
        """Relocations by the index of the section they patch."""
        result: dict[int, list[Relocation]] = {}
        for section in self.sections:
            if section.type == SHT_REL:
                raise RedoubtError(f"{self.path} has relocations without addend, not supported")
            if section.type == SHT_RELA:
                result.setdefault(section.info, []).extend(
                    Relocation(offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend)
                    for offset, info, addend in _RELA.iter_unpack(section.data)
                )
        return result


def _string(table: bytes, offset: int) -> str:
    """The NUL-terminated string at `offset` of a string table."""
    return table[offset : table.index(b"\0", offset)].decode("utf-8", "surrogateescape")
