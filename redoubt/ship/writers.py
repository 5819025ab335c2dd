# SPDX-License-Identifier: GPL-2.0-only
"""Finding code that stores to page tables around the helpers, with Coccinelle.

With protection such a store is an oops on somebody's server. scripts/coccinelle/misc/ of the kernel
tree has the semantic patch; configs/writers.toml has the stores that are right, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from redoubt.core import reasons
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_lines

SEMANTIC_PATCH = "scripts/coccinelle/misc/page_table_store.cocci"
# Code that may hold a pointer to an entry, of the architectures with a backend.
_DIRECTORIES = (
    "arch/arm64", "arch/um", "arch/x86", "block", "drivers", "fs", "include", "kernel", "lib", "mm",
    "net", "security", "virt",
)  # fmt: skip
_ENTRY = re.compile(r"\b(?:pgd|p4d|pud|pmd|pte)_t\b")
_STORE = re.compile(r"^(?P<file>\S+?):(?P<line>\d+):.* in (?P<function>\S+)\(\)$")


def known(file: Path) -> dict[str, str]:
    """Stores that are right: "file:function" and why, from a TOML file.

    Raises RedoubtError if an entry has no reason.
    """
    read = reasons.read(file, "the stores that are right") if file.is_file() else {}
    stores = read.get("store", {})
    for place, why in stores.items():
        if not isinstance(why, str) or not why.strip():
            raise RedoubtError(f"{file}: {place} has no reason")
    return dict(stores)


def candidates(tree: Path) -> list[str]:
    """Sources of a kernel tree that name a type of page table entries."""
    found = []
    for directory in _DIRECTORIES:
        for source in sorted((tree / directory).rglob("*.[ch]")):
            if _ENTRY.search(source.read_text(errors="replace")):
                found.append(str(source.relative_to(tree)))
    return found


def stores(tree: Path, sources: Sequence[str], semantic_patch: Path) -> dict[str, int]:
    """The stores in some sources: "file:function", and the line of the first.

    Raises RedoubtError if Coccinelle fails.
    """
    if not sources:
        return {}
    lines: list[str] = []
    ended = run_lines(
        # Debian's Python, as its library is the one that prerequisites ask for.
        ["spatch", "--python", "/usr/bin/python3", "-D", "report", "--sp-file", semantic_patch,
         "--no-includes", "--include-headers", "--very-quiet", *sources],
        lines.append,
        cwd=tree,
    )  # fmt: skip
    if ended.code:
        raise RedoubtError("spatch failed:\n" + "\n".join(f"    {line}" for line in lines[-10:]))
    found: dict[str, int] = {}
    for match in filter(None, map(_STORE.match, lines)):
        place = f"{match['file']}:{match['function']}"
        found[place] = min(found.get(place, 1 << 30), int(match["line"]))
    return found
