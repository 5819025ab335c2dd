# SPDX-License-Identifier: GPL-2.0-only
"""The part of ELF that we read: 64-bit little-endian, as our targets are.

Only what is needed: sections with their bytes, symbols, relocations with addends, and what a
program is linked with. Anything else (32-bit, big-endian, REL relocations) is refused with a
RedoubtError rather than misread.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from redoubt.core.errors import RedoubtError

EM_X86_64 = 62
EM_AARCH64 = 183
# What disassembles for a machine.
OBJDUMP = {EM_X86_64: "objdump", EM_AARCH64: "aarch64-linux-gnu-objdump"}

SHT_SYMTAB = 2
SHT_RELA = 4
SHT_DYNAMIC = 6
SHT_NOBITS = 8
SHT_REL = 9
SHF_ALLOC = 2
SHF_EXEC = 4
SHN_XINDEX = 0xFFFF

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
    def executable(self) -> bool:
        """True if the section holds instructions."""
        return bool(self.flags & SHF_EXEC)


@dataclass(frozen=True)
class Symbol:
    """One symbol-table entry. `section` is the section index, or a reserved SHN_* value."""

    name: str
    bind: int
    type: int
    visibility: int
    section: int
    value: int
    size: int


@dataclass(frozen=True)
class Relocation:
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
        try:
            self._parse()
        except (struct.error, IndexError, ValueError) as error:
            raise RedoubtError(f"{path} is a damaged ELF file") from error

    def _parse(self) -> None:
        raw = self._raw
        if raw[:6] != b"\x7fELF\x02\x01":
            raise RedoubtError(f"{self.path} is not a 64-bit little-endian ELF file")
        header = _HEADER.unpack_from(raw)
        self.machine: int = header[2]
        offset, entry_size, count, names = header[6], header[11], header[12], header[13]
        if offset and (count == 0 or names == SHN_XINDEX):
            # More sections than the header can count: the first section header says how many.
            first = _SECTION.unpack_from(raw, offset)
            count = count or first[5]
            names = first[6] if names == SHN_XINDEX else names
        rows = [_SECTION.unpack_from(raw, offset + i * entry_size) for i in range(count)]
        strings = self._slice(rows[names][4], rows[names][5]) if rows else b""
        self.sections: list[Section] = [
            Section(
                index=i,
                name=_string(strings, row[0]),
                type=row[1],
                flags=row[2],
                address=row[3],
                size=row[5],
                link=row[6],
                info=row[7],
                align=row[8],
                data=b"" if row[1] == SHT_NOBITS else self._slice(row[4], row[5]),
            )
            for i, row in enumerate(rows)
        ]

    def _slice(self, offset: int, size: int) -> bytes:
        data = self._raw[offset : offset + size]
        if len(data) != size:
            raise RedoubtError(f"{self.path} is a truncated ELF file")
        return data

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The symbol table in file order, the empty entry 0 included; [] if stripped."""
        for section in self.sections:
            if section.type != SHT_SYMTAB:
                continue
            if any(other.type == 18 and other.link == section.index for other in self.sections):
                raise RedoubtError(f"{self.path} has extended section indexes, not supported")
            strings = self.sections[section.link].data
            return [
                Symbol(
                    name=_string(strings, name),
                    bind=info >> 4,
                    type=info & 15,
                    visibility=other & 3,
                    section=index,
                    value=value,
                    size=size,
                )
                for name, info, other, index, value, size in _SYMBOL.iter_unpack(section.data)
            ]
        return []

    @property
    def interpreter(self) -> str | None:
        """The path of the loader that a program asks for; None if it needs none."""
        for section in self.sections:
            if section.name == ".interp":
                return _string(section.data, 0)
        return None

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
        symbols = self.symbols
        for section in self.sections:
            if section.type == SHT_REL:
                raise RedoubtError(f"{self.path} has relocations without addend, not supported")
            if section.type != SHT_RELA:
                continue
            result.setdefault(section.info, []).extend(
                Relocation(offset, info & 0xFFFFFFFF, symbols[info >> 32], addend)
                for offset, info, addend in _RELA.iter_unpack(section.data)
            )
        return result


def _string(table: bytes, offset: int) -> str:
    """The NUL-terminated string at `offset` of a string table."""
    return table[offset : table.index(b"\0", offset)].decode("utf-8", "surrogateescape")
