# SPDX-License-Identifier: GPL-2.0-only
"""The disassembly of an image by objdump, cut into functions."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redoubt.core.errors import RedoubtError
from redoubt.image.elf import EM_AARCH64, OBJDUMP


@dataclass
class Function:
    """A function, or what stands between two symbols."""

    name: str
    section: str
    start: int
    lines: list[str]


_HEAD = re.compile(r"^([0-9a-f]+) <(.*)>:$")
# Sixteen digits, the colon and the tab.
_ADDRESS_WIDTH = 18
_COMPILER_SUFFIX = re.compile(r"\.(?:cold|part\.\d+|isra\.\d+|constprop\.\d+|lto_priv\.\d+)$")


def base_name(symbol: str) -> str:
    """The function a symbol was made from: without the suffixes a compiler adds to a copy."""
    symbol = symbol.removeprefix("__pfx_")
    while True:
        shorter = _COMPILER_SUFFIX.sub("", symbol)
        if shorter == symbol:
            return symbol
        symbol = shorter


def disassemble(image: Path) -> Iterator[str]:
    """Lines of `objdump -d` of an arm64 image; raises RedoubtError if it cannot be run or fails."""
    objdump = OBJDUMP[EM_AARCH64]
    command = [objdump, "-d", "-w", "--no-show-raw-insn", str(image)]
    environment = {**os.environ, "LC_ALL": "C"}
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="surrogateescape",
                env=environment,
            )
        except FileNotFoundError as missing:
            raise RedoubtError(
                f"{objdump} is missing, the audit disassembles with it",
                "apt-get install binutils-aarch64-linux-gnu",
            ) from missing
        with process:
            yield from process.stdout or ()
        if process.returncode != 0:
            errors.seek(0)
            raise RedoubtError(f"{objdump} failed on {image}: {errors.read().strip()}")


def functions(lines: Iterable[str]) -> Iterator[Function]:
    """Cut a disassembly into functions, one per symbol."""
    section = ""
    current: Function | None = None
    for line in lines:
        # Addresses of the kernel fill their column: nothing is before them.
        if line[:1] in " \t" or ":\t" in line[:_ADDRESS_WIDTH]:
            if current is not None:
                current.lines.append(line)
            continue
        line = line.rstrip("\n")
        if line.startswith("Disassembly of section "):
            section = line.removeprefix("Disassembly of section ").removesuffix(":")
        elif match := _HEAD.match(line):
            if current is not None:
                yield current
            current = Function(match[2], section, int(match[1], 16), [])
    if current is not None:
        yield current
