# SPDX-License-Identifier: GPL-2.0-only
"""Which kernel a tree is: by its Makefile, its commit, or the package it came from."""

from __future__ import annotations

import re
from pathlib import Path

from redoubt.core.errors import RedoubtError
from redoubt.core.git import Git
from redoubt.linux import debian


def version_of(tree: Path, without: str = debian.WITHOUT_KERNEL) -> str:
    """The version that the top Makefile of a kernel tree states.

    Raises RedoubtError, with the hint `without`, if it is not a kernel tree.
    """
    try:
        head = (tree / "Makefile").read_text(errors="replace")[:2000]
    except OSError as error:
        raise RedoubtError(
            f"{tree} is not a kernel tree: {error.strerror or error}", without
        ) from error
    fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL)\s*=\s*(\d+)\s*$", head, re.MULTILINE))
    if len(fields) != 3 or not (tree / "Kbuild").exists():
        raise RedoubtError(f"{tree} is not a kernel tree: its Makefile is not Linux's", without)
    extra = re.search(r"^EXTRAVERSION\s*=\s*(-rc\d+)", head, re.MULTILINE)
    return "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}".format(**fields) + (extra[1] if extra else "")


def commit_of(tree: Path) -> str | None:
    """The commit that is checked out in a tree; None if it is no repository of its own."""
    if not (tree / ".git").exists():
        return None
    return Git(tree).ended("rev-parse", "-q", "--verify", "HEAD").stdout.strip() or None


def base_of(tree: Path) -> str | None:
    """The commit that a tree is, file by file; None if it has other changes, or no repository."""
    commit = commit_of(tree)
    return None if commit and Git(tree).ended("diff", "--quiet", "HEAD").returncode else commit


def stamp_of(tree: Path) -> Path:
    """The file beside an unpacked tree that says which package is pinned, and which was taken."""
    return tree.with_name(f"{tree.name}.package")


def identity(tree: Path) -> str:
    """The version of a tree, with its commit, or the package it was unpacked from, if known."""
    stamp = stamp_of(tree)
    of = stamp.read_text().split()[-1] if stamp.is_file() else commit_of(tree)
    return version_of(tree) + (f" of {of}" if of else "")
