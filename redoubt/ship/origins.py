# SPDX-License-Identifier: GPL-2.0-only
"""Where a file of results/ comes from, as far as it says so itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from redoubt.targets import TARGETS

# Stands for a verb, a date or a commit that a file does not tell.
NONE = "-"
_ADD, _JSON, _ONLY = "--add", "--json", "--only"
_MACHINE = ("cpu", "cores", "kernel")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# A path from the root, or out of the repository, also in --option=PATH; /dev/ is everybody's.
_PRIVATE = re.compile(r"(?:^|[\s='\"])((?:/(?!dev/)|~|\.\./)[^\s'\"]+)")


@dataclass(frozen=True)
class Origin:
    """Where the result `file` comes from; `lacks` says in words what it does not tell.

    `verb` is the command of redoubt, of which `command` is the whole line. `commits` are those that
    parts of it were measured on: several if another run added to it.
    """

    file: str
    verb: str
    targets: tuple[str, ...]
    commits: tuple[str, ...]
    date: str
    command: str
    lacks: tuple[str, ...]

    @property
    def commit(self) -> str:
        """The commit of the last run, shortened, or NONE."""
        return self.commits[0][:12] if self.commits else NONE

    @property
    def again(self) -> str:
        """The command that measures all of it again, into the same file; empty if none is known."""
        words = _words(self.command)
        if _ADD in words:
            # That run measured some places, and kept others of the file.
            words.remove(_ADD)
            while _ONLY in words:
                place = words.index(_ONLY)
                del words[place : place + 2]
        if _JSON not in words[:-1]:
            return ""
        words[words.index(_JSON) + 1] = f"results/{self.file}"
        return shlex.join(words)


def read(file: str, value: Any) -> Origin:
    """The origin of a result, of whatever form it is."""
    fields = value if isinstance(value, dict) else {}
    command = _text(fields, "command")
    words = _words(command)
    entries = fields.get("tested", value)
    named = [fields] if "target" in fields else entries if isinstance(entries, list) else []
    targets = dict.fromkeys(_text(one, "target") for one in named if isinstance(one, dict))
    return Origin(
        file,
        words[1] if len(words) > 1 else "test" if isinstance(value, list) else NONE,
        tuple(name for name in targets if name not in ("", NONE)),
        tuple(dict.fromkeys(_commits(fields))),
        _text(fields, "date")[:10],
        command,
        tuple(_lacks(fields, targets)),
    )


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _commits(fields: dict[str, Any]) -> Iterator[str]:
    """That of the last run first."""
    mutants = fields.get("mutants")
    for one in (fields, *(mutants if isinstance(mutants, list) else ())):
        if isinstance(one, dict) and _COMMIT.fullmatch(commit := _text(one, "commit")):
            yield commit


def _lacks(fields: dict[str, Any], targets: dict[str, None]) -> Iterator[str]:
    machine = fields.get("machine")
    missing = [] if isinstance(machine, dict) and machine.keys() >= set(_MACHINE) else ["machine"]
    if not _COMMIT.fullmatch(_text(fields, "commit")):
        missing.append("commit")
    if not isinstance(fields.get("dirty"), bool):
        missing.append("dirty")
    if not _text(fields, "command").startswith("redoubt "):
        missing.append("command")
    try:
        datetime.fromisoformat(_text(fields, "date"))
    except ValueError:
        missing.append("date")
    if missing:
        yield f"it does not say: {', '.join(missing)}"
    if fields.get("dirty"):
        yield "the code it was measured on had changes that are in no commit"
    if unknown := targets.keys() - {"", NONE} - TARGETS.keys():
        yield f"there is no target {', '.join(sorted(unknown))}"
    emulated = any(name in TARGETS and TARGETS[name].emulator for name in targets)
    # Older files have the version of one emulator in place of the list.
    ran = isinstance(machine, dict) and (machine.get("emulators") or machine.get("qemu"))
    if machine and emulated and not ran:
        yield "it does not say which emulator ran, and its version"
    if private := _PRIVATE.search(_text(fields, "command")):
        yield f"its command names a path of the machine, {private[1]}"


def results(directory: Path) -> list[Path]:
    """The files of a directory that are results."""
    return sorted(directory.glob("*.json"))
