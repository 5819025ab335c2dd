# SPDX-License-Identifier: GPL-2.0-only
"""The packages of the tool stand in the order of the data: none knows of a later one."""

from __future__ import annotations

import ast
from pathlib import Path

from redoubt.core import paths

ORDER = (
    "core", "image", "targets", "linux", "machine", "trial", "cost", "ship", "suite", "mutate",
    "cli", "__main__",
)  # fmt: skip
PACKAGE = paths.repo() / "redoubt"


def layer(module: str) -> int:
    return ORDER.index(module.split(".")[1])


def imported(file: Path) -> set[str]:
    """The modules of ours that a file names, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "redoubt":
            found |= {f"redoubt.{name.name}" for name in node.names if name.name[0] != "_"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("redoubt."):
            found.add(str(node.module))
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.startswith("redoubt.")}
    return found


def test_no_package_imports_a_later_one() -> None:
    wrong: list[str] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        relative = file.relative_to(PACKAGE)
        own = relative.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for module in imported(file):
            if layer(module) > ORDER.index(own):
                wrong.append(f"{relative} imports {module}")
    assert not wrong


def test_few_files_lie_outside_of_packages() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 6


def test_every_package_says_what_it_is_for() -> None:
    for file in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(file.read_text())), file
