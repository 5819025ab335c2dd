# SPDX-License-Identifier: GPL-2.0-only
"""Where a result comes from: the machine, the state of the repository, the command, the time."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.machine import host, qemu
from redoubt.targets import Emulator

_SECONDS = 10


def _said(command: Sequence[str], cwd: Path | None = None) -> str | None:
    """What a short command says, or None if it cannot be asked."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _first_line(command: Sequence[str]) -> str | None:
    said = _said(command)
    return said.splitlines()[0] if said else None


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name the CPU gives itself."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        text = ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return platform.machine()


def machine() -> dict[str, Any]:
    """This machine, as far as a figure may depend on it; `memory_mib` is in MiB.

    What it emulates other machines with is known when they have run: see `emulators`.
    """
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "pku": host.has_pku(),
        "kernel": platform.release(),
        "compiler": _first_line(["gcc", "--version"]),
        "emulators": [],
    }


def emulators(ran: Iterable[Emulator | None]) -> list[str]:
    """The programs that emulated machines, each with its version; None is no emulator."""
    return list(dict.fromkeys(qemu.described(one) for one in ran if one))


def _git(repo: Path, *arguments: str) -> str | None:
    """What git says of a repository itself: one around an installed tool is another's."""
    return _said(["git", *arguments], repo) if (repo / ".git").exists() else None


def commit(repo: Path) -> tuple[str | None, bool | None]:
    """The commit that is checked out, and whether anything but results/ differs from it.

    Both are None where there is no git repository to ask.
    """
    head = _git(repo, "rev-parse", "HEAD")
    if head is None:
        return None, None
    changed = _git(repo, "status", "--porcelain", "--", ".", ":!results")
    return head, None if changed is None else bool(changed)


def committed(repo: Path) -> int | None:
    """When the commit that is checked out was made, in seconds since 1970; None if unknown."""
    said = _git(repo, "log", "-1", "--format=%ct")
    return int(said) if said else None


def last_commit(file: Path) -> str | None:
    """The commit that last changed a file of the repository, or None if that is unknown."""
    return _said(["git", "log", "-1", "--format=%H", "--", file.name], file.parent) or None


def collect(arguments: Sequence[str]) -> dict[str, Any]:
    """All of it, as the first fields of a JSON result; `arguments` are those of redoubt."""
    head, dirty = commit(paths.repo())
    return {
        "machine": machine(),
        "commit": head,
        "dirty": dirty,
        "command": shlex.join(["redoubt", *arguments]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
