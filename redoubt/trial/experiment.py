# SPDX-License-Identifier: GPL-2.0-only
"""What experiments share: starting a guest, reading what it counted, judging and showing that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from redoubt.core.errors import GuestError
from redoubt.core.progress import Progress
from redoubt.machine import guest
from redoubt.machine.boot import Machine, Result, boot


class _Judged(Protocol):
    @property
    def problems(self) -> Sequence[str]: ...


class Verdict:
    """The verdict on whatever lists its `problems`."""

    @property
    def ok(self: _Judged) -> bool:
        """Is nothing wrong?"""
        return not self.problems


@dataclass(frozen=True)
class Outcome(Verdict):
    """What a machine went through, what was wrong then, and the boot."""

    name: str
    problems: tuple[str, ...]
    boot: Result


@dataclass(frozen=True)
class Row:
    """One row of a report: counts of the kernel. Further fields say of what."""

    counts: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        fields = {name: value for name, value in vars(self).items() if name != "counts"}
        return {**fields, **self.counts}


AnyRow = TypeVar("AnyRow", bound=Row)


@dataclass(frozen=True)
class Report(Verdict, Generic[AnyRow]):
    """All rows, and what was wrong in words."""

    rows: tuple[AnyRow, ...]
    problems: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        rows = [row.as_json() for row in self.rows]
        return {"ok": self.ok, "problems": list(self.problems), "rows": rows}


def start(
    machine: Machine,
    *commands: Sequence[str],
    name: str,
    timeout: float,
    progress: Progress,
    title: str = "",
    watch: Callable[[str], None] = lambda line: None,
) -> Result:
    """Boot, run the commands one after the other, power off: see boot()."""
    words = commands[0] if len(commands) == 1 else guest.sequence(commands)
    with progress.step(title) if title else nullcontext():
        return boot(machine, words, timeout=timeout, name=name, progress=progress, watch=watch)


def bad_end(result: Result, complaints: Iterable[str] | None = None) -> list[str]:
    """What is wrong with how a guest ended, and what its kernel complained of, or some of it."""
    said = result.complaints if complaints is None else complaints
    problems = [f"kernel: {line}" for line in said]
    if result.outcome != "finished" or result.status:
        problems.append(f"ended with {result.outcome}, status {result.status}")
    return problems


# === Reading a console ===========================================================================


def matches(pattern: re.Pattern[str], lines: Iterable[str]) -> list[re.Match[str]]:
    """The lines that begin as a pattern says."""
    return [match for line in lines if (match := pattern.match(line))]


def said(
    name: str, words: Sequence[str], lines: Iterable[str]
) -> Iterator[tuple[list[str], dict[str, int]]]:
    """The words and counts of each line "@name: word=text ... count=number ..."."""
    head = "".join(rf" {word}=(\S+)" for word in words)
    for match in matches(re.compile(rf"^@{name}:{head}((?: \w+=-?\d+)+)$"), lines):
        *texts, rest = match.groups()
        pairs = (word.split("=") for word in rest.split())
        yield texts, {key: int(value) for key, value in pairs}


class Look(Protocol):
    """One look of a kernel at itself."""

    @property
    def clean(self) -> bool:
        """Did it find nothing wrong?"""
        ...


AnyLook = TypeVar("AnyLook", bound=Look)


def looks(kind: type[AnyLook], lines: Iterable[str]) -> tuple[AnyLook, ...]:
    """All looks on a console, made of lines "field number"; the last field ends one.

    A message of the kernel may follow on the same line of the console.
    """
    fields = list(kind.__annotations__)
    found = []
    counts: dict[str, int] = {}
    for match in matches(re.compile(rf"^({'|'.join(fields)}) (\d+)"), lines):
        counts[match[1]] = int(match[2])
        if match[1] == fields[-1]:
            found.append(kind(*(counts.get(name, 0) for name in fields)))
            counts = {}
    return tuple(found)


def unclean(found: Sequence[Look], expected: int, what: str) -> list[str]:
    """What is wrong with looks of which there must be so many."""
    problems = [f"not clean: {one}" for one in found if not one.clean]
    if len(found) != expected:
        problems.append(f"{len(found)} {what}, expected {expected}")
    return problems


# === Counting, and showing what was counted ======================================================


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

    Raises GuestError if one does not get to its end.
    """
    rows: list[AnyRow] = []
    problems: list[str] = []
    for way, machine in machines.items():
        result = start(
            machine, command, name=f"{command[0].rpartition('/')[2]}-{way}", timeout=timeout,
            progress=progress, title=f"{title} ({way})",
        )  # fmt: skip
        found = parse(result.console, way)
        if result.outcome != "finished" or result.status or not found:
            raise GuestError(f"{len(found)} operations were counted; {result.describe()}")
        problems += [f"{way}: {problem}" for problem in (*judge(found), *result.complaints)]
        rows += found
    return tuple(rows), tuple(problems)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> Iterator[str]:
    """A table for people: so many columns of texts, and then numbers."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, strict=True)
        yield "  ".join(
            cell.ljust(width) if number < texts else cell.rjust(width)
            for number, (cell, width) in enumerate(cells)
        ).rstrip()


def wrong(problems: Iterable[str]) -> Iterator[str]:
    """The problems, for people."""
    return (f"WRONG: {problem}" for problem in problems)
