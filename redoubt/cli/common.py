# SPDX-License-Identifier: GPL-2.0-only
"""What all verbs share: consoles, progress, the options, the lock, and how a verb ends."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from redoubt.core import paths, process
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.linux import emulator, source, tree
from redoubt.machine import host, kernels, provenance
from redoubt.ship import branch, htmldocs
from redoubt.ship.deb import deb
from redoubt.targets import Emulator, Target, Variant, get_target, get_variant

app = typer.Typer(
    help="Fetch, build, boot, attack, check and measure a hardened Linux kernel.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def is_special(file: Path) -> bool:
    """Is it /dev/stdout or a pipe, which cannot be replaced?"""
    return file.exists() and not file.is_file()


def partial(file: Path) -> Path:
    """The name of a file as long as it is not whole."""
    return file.with_name(file.name + ".partial")


class Display:
    """Shows steps: a spinner when a person watches, plain lines when not."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.titles: list[str] = []

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a step until it is done; one that begins meanwhile takes over the line."""
        started = time.monotonic()
        self.titles.append(title)
        try:
            if err.is_terminal:
                self.status = self.status or err.status("")
                self.status.start()
                self.status.update(escape(title))
            else:
                err.print(f"{title} ...", markup=False)
            yield
        finally:
            # Not always the last: steps side by side end in any order.
            self.titles.remove(title)
            if self.status and self.titles:
                self.status.update(escape(self.titles[-1]))
            elif self.status:
                self.status.stop()
                self.status = None
        seconds = time.monotonic() - started
        if err.is_terminal and seconds >= 1:
            err.print(f"{title}: {seconds:.0f} s", markup=False, style="dim")

    def detail(self, text: str) -> None:
        """Show how far the step is, to a person only."""
        if self.status:
            self.status.update(f"{escape(self.titles[-1])}  [dim]{escape(text[:60])}[/dim]")

    def note(self, text: str) -> None:
        """Print a line that stays."""
        err.print(f"redoubt: {text}", markup=False)


_UNFINISHED = [module.UNFINISHED for module in (source, emulator, tree, branch, deb, htmldocs)]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep two runs from building in the same directory."""
    directory = paths.build_dir()
    waiting = f"waiting for another redoubt that works in {directory}"
    with process.alone("run", functools.partial(Display().step, waiting)):
        # What a run left that was killed: nobody else works here now.
        for pattern in _UNFINISHED:
            for left in directory.glob(pattern):
                shutil.rmtree(left, ignore_errors=True)
        yield


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        if is_special(file):
            file.write_bytes(data)
            return
        partial(file).write_bytes(data)
        partial(file).rename(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial(file).unlink()
        raise RedoubtError(f"cannot write {file}: {error.strerror}") from error


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """An error in here is one of the command line."""
    try:
        yield
    except RedoubtError as error:
        raise UsageError(error.message, error.hint) from error


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are: what looks like markup is none."""
    for line in lines:
        out.print(line, markup=False)


def chosen_targets(names: Iterable[str]) -> list[Target]:
    """The targets of these names, each once."""
    return [get_target(name) for name in dict.fromkeys(names)]


def target_and_variant(
    target: str, variant: str, needs: Callable[[Target], object] = lambda target: None
) -> tuple[Target, Variant]:
    """Both by their names; `needs` complains of a target that lacks what the verb is about."""
    chosen = get_target(target)
    with usage():
        needs(chosen)
    return chosen, get_variant(chosen, variant)


def host_for(target: Target, variant: Variant, choice: str = "auto") -> str:
    """The host to boot on, one that enforces if the variant protects."""
    return (host.needs_enforcing if variant.protected else host.pick)(target, choice)


def _dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


class Task:
    """A verb that has a result: with where it comes from, as of now, and which emulators ran."""

    def __init__(self, file: Path | None = None) -> None:
        self.display = Display()
        self.file = file
        self.origin = provenance.collect(sys.argv[1:])
        self.emulators: list[Emulator | None] = []

    def boots(self, target: Target, where: str) -> str:
        """Remember that a target is booted on this host, which is returned."""
        self.emulators.append(host.emulator(target, where))
        return where

    def workbench(
        self, target: Target, variant: Variant, choice: str = "auto", *, flavour: str = ""
    ) -> kernels.Workbench:
        """Build the kernel of a target for a variant."""
        where = self.boots(target, host_for(target, variant, choice))
        with alone():
            return kernels.workbench(target, variant, where, self.display, flavour=flavour)

    def write(
        self, value: Mapping[str, Any], dumps: Callable[[dict[str, Any]], str] = _dumps
    ) -> None:
        """Write the result to the file of --json, if one was asked for."""
        if self.file is not None:
            self.origin["machine"]["emulators"] = provenance.emulators(self.emulators)
            write_bytes(self.file, dumps({**self.origin, **value}).encode())

    def end(
        self,
        value: Mapping[str, Any],
        lines: Iterable[str],
        ok: bool,
        wrong: str = "",
        hint: str | None = None,
    ) -> None:
        """Print and write the result; if it is not ok, exit with 1, after the words if any."""
        print_lines(lines)
        self.write(value)
        if not ok:
            raise RedoubtError(wrong, hint) if wrong else typer.Exit(1)
