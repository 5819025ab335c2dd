# SPDX-License-Identifier: GPL-2.0-only
"""The code of an image, cut into functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from redoubt.image.elf import STT_FUNC, Elf

_COMPILER_SUFFIX = re.compile(r"(?:\.(?:cold|(?:part|isra|constprop|lto_priv)\.\d+))+$")


@dataclass(frozen=True)
class Function:
    """A function, or the code between two symbols, and the bytes of it."""

    name: str
    section: str
    start: int
    code: bytes


def base_name(symbol: str) -> str:
    """The function a symbol was made from: without the suffixes a compiler adds to a copy."""
    return _COMPILER_SUFFIX.sub("", symbol.removeprefix("__pfx_"))


def functions(elf: Elf) -> Iterator[Function]:
    """All code of an image, cut at its symbols. Of several names a function's counts."""
    names: dict[int, dict[int, str]] = {}
    for symbol in sorted(elf.symbols, key=lambda one: one.type == STT_FUNC):
        # Those of arm64 that begin with a dollar tell code from data.
        if symbol.names_place and symbol.name and not symbol.name.startswith("$"):
            names.setdefault(symbol.section, {})[symbol.value] = symbol.name
    for section in elf.sections:
        if not section.code:
            continue
        end = section.address + len(section.data)
        cuts = {section.address: section.name} | names.get(section.index, {})
        starts = sorted(start for start in cuts if section.address <= start < end)
        for start, behind in zip(starts, [*starts[1:], end], strict=True):
            data = section.data[start - section.address : behind - section.address]
            yield Function(cuts[start], section.name, start, data)
