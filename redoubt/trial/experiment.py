# SPDX-License-Identifier: GPL-2.0-only
"""What experiments share: starting a guest, reading what it counted, and judging its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.machine import guest
from redoubt.machine.boot import Machine, Result, boot


@dataclass(frozen=True)
class Outcome:
    """What a machine went through, what was wrong then, and the boot."""

    name: str
    problems: tuple[str, ...]
    boot: Result

    @property
    def ok(self) -> bool:
        """True if nothing was wrong."""
        return not self.problems


class Row(Protocol):
    """One row of a report."""

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        ...


AnyRow = TypeVar("AnyRow", bound=Row)


@dataclass(frozen=True)
class Report(Generic[AnyRow]):
    """All rows, and what was wrong in words."""

    rows: tuple[AnyRow, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Did everything run to its end, and was nothing wrong?"""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return {
            "ok": self.ok,
            "problems": list(self.problems),
            "rows": [row.as_json() for row in self.rows],
        }


def start(
    machine: Machine,
    *commands: Sequence[str],
    title: str,
    name: str,
    timeout: float,
    progress: Progress,
    watch: Callable[[str], None] = lambda line: None,
) -> Result:
    """Boot, run the commands one after the other, power off: see boot()."""
    words = commands[0] if len(commands) == 1 else guest.sequence(commands)
    with progress.step(title):
        return boot(machine, words, timeout=timeout, name=name, progress=progress, watch=watch)


def bad_end(result: Result, complaints: Iterable[str] | None = None) -> list[str]:
    """What is wrong with how a guest ended, and what its kernel complained of, or some of it."""
    said = result.complaints if complaints is None else complaints
    problems = [f"kernel: {line}" for line in said]
    if result.outcome != "finished" or result.status:
        problems.append(f"ended with {result.outcome}, status {result.status}")
    return problems


def said(
    name: str, words: Sequence[str], lines: Iterable[str]
) -> Iterator[tuple[list[str], dict[str, int]]]:
    """The words and counts of each line "@name: word=text ... count=number ..."."""
    head = " ".join(rf"{word}=(\S+)" for word in words)
    pattern = re.compile(rf"^@{name}: {head}((?: \w+=-?\d+)+)$")
    for line in lines:
        if match := pattern.match(line):
            *texts, rest = match.groups()
            pairs = (word.split("=") for word in rest.split())
            yield texts, {key: int(value) for key, value in pairs}


def looks(lines: Iterable[str], names: Sequence[str]) -> Iterator[list[int]]:
    """The numbers of each look at a file of lines "name number"; the last name ends a look.

    A message of the kernel may follow on the same line of the console.
    """
    pattern = re.compile(rf"^({'|'.join(names)}) (\d+)")
    counts: dict[str, int] = {}
    for match in filter(None, map(pattern.match, lines)):
        counts[match[1]] = int(match[2])
        if match[1] == names[-1]:
            yield [counts.get(name, 0) for name in names]
            counts = {}


def count(
    machines: Mapping[str, Machine],
    command: Sequence[str],
    parse: Callable[[Sequence[str], str], tuple[AnyRow, ...]],
    judge: Callable[[Sequence[AnyRow]], Iterable[str]],
    *,
    title: str,
    timeout: float,
    progress: Progress,
) -> tuple[tuple[AnyRow, ...], tuple[str, ...]]:
    """Have a program count on a machine for each way: all rows, and what was wrong.

    Raises RedoubtError if one does not get to its end.
    """
    rows: list[AnyRow] = []
    problems: list[str] = []
    for way, machine in machines.items():
        name = f"{command[0].rpartition('/')[2]}-{way}"
        result = start(
            machine, command, title=f"{title} ({way})", name=name, timeout=timeout,
            progress=progress,
        )  # fmt: skip
        found = parse(result.console, way)
        if result.outcome != "finished" or result.status or not found:
            raise RedoubtError(f"{len(found)} operations were counted; {result.describe()}")
        problems += [f"{way}: {problem}" for problem in (*judge(found), *result.complaints)]
        rows += found
    return tuple(rows), tuple(problems)
