# SPDX-License-Identifier: GPL-2.0-only
"""Where a result comes from: the machine, the state of the repository, the command, the time."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.process import said
from redoubt.machine import host, limits, qemu
from redoubt.targets import Emulator


def cpu_model(cpuinfo: Path = host.CPUINFO) -> str:
    """The name the CPU gives itself."""
    for name, value in host.fields(cpuinfo):
        if name in ("model name", "Model", "cpu model") and value:
            return value
    return platform.machine()


def machine() -> dict[str, Any]:
    """This machine, as far as a figure may depend on it; `memory_mib` is in MiB.

    What it emulates other machines with is known when they have run: see `emulators`.
    """
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_mib": limits.memory_mib(),
        "pku": host.has_pku(),
        "kernel": platform.release(),
        "compiler": (said(["gcc", "--version"]) or "").partition("\n")[0] or None,
        "emulators": [],
    }


def emulators(ran: Iterable[Emulator | None]) -> list[str]:
    """The programs that emulated machines, each with its version; None is no emulator."""
    return list(dict.fromkeys(qemu.described(one) for one in ran if one))


def git(repo: Path, *arguments: str) -> str | None:
    """What git says of a repository itself: one around an installed tool is another's."""
    return said(["git", *arguments], repo) if (repo / ".git").exists() else None


def commit(repo: Path) -> tuple[str | None, bool | None]:
    """The commit that is checked out, and whether anything but results/ differs from it.

    Both are None where there is no git repository to ask.
    """
    head = git(repo, "rev-parse", "HEAD")
    if head is None:
        return None, None
    changed = git(repo, "status", "--porcelain", "--", ".", ":!results")
    return head, None if changed is None else bool(changed)


def committed(repo: Path) -> int | None:
    """When the commit that is checked out was made, in seconds since 1970; None if unknown."""
    seconds = git(repo, "log", "-1", "--format=%ct")
    return int(seconds) if seconds else None


def last_commit(file: Path) -> str | None:
    """The commit that last changed a file of the repository, or None if that is unknown."""
    return said(["git", "log", "-1", "--format=%H", "--", file.name], file.parent) or None


def public(argument: str, repo: Path) -> str:
    """An argument without the directories of this machine; those of the repository stay."""
    option = equals = ""
    value = argument
    if argument.startswith("--"):
        # Elsewhere a "=" is of an argument for the kernel.
        option, equals, value = argument.rpartition("=")
    path = Path(value)
    if path.is_relative_to("/dev") or not (path.is_absolute() or ".." in path.parts):
        return argument
    inside = path.is_relative_to(repo) and ".." not in path.parts
    return option + equals + (str(path.relative_to(repo)) if inside else path.name)


def collect(arguments: Sequence[str]) -> dict[str, Any]:
    """All of it, as the first fields of a JSON result; `arguments` are those of redoubt."""
    head, dirty = commit(paths.repo())
    return {
        "machine": machine(),
        "commit": head,
        "dirty": dirty,
        "command": shlex.join(["redoubt", *(public(one, paths.repo()) for one in arguments)]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
