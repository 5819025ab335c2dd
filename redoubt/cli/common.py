# SPDX-License-Identifier: GPL-2.0-only
"""What all verbs share: consoles, progress, the options, the lock, writing of results."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from redoubt.core import paths, process
from redoubt.core.errors import RedoubtError
from redoubt.linux import source as source_module
from redoubt.linux import tree as tree_module
from redoubt.machine import host as host_module
from redoubt.machine import kernels
from redoubt.ship import branch as branch_module
from redoubt.ship import htmldocs as htmldocs_module
from redoubt.ship.deb import deb as deb_module
from redoubt.ship.deb import shipped
from redoubt.targets import TARGETS, Target, Variant, get_target, get_variant

app = typer.Typer(
    help="Fetch, build, boot, attack, check and measure a hardened Linux kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


out = Console(highlight=False, soft_wrap=True, emoji=False)


err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


TargetArg = Annotated[str, typer.Argument(help=f"One of: {', '.join(TARGETS)}.")]


VariantOpt = Annotated[
    str, typer.Option("--variant", help="pristine (Linux as it is), off, or on.")
]


HostOpt = Annotated[
    str,
    typer.Option(
        "--host",
        help="Where um runs: native, emulated (QEMU), or auto: the first that has PKU. "
        "Other targets always run on a machine emulated by QEMU.",
    ),
]


AppendOpt = Annotated[
    list[str] | None, typer.Option(help="A further kernel argument; may be repeated.")
]


JsonOpt = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file.", dir_okay=False)
]


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
                if self.status is None:
                    self.status = err.status(escape(title))
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


_UNFINISHED = (
    source_module.UNFINISHED,
    tree_module.UNFINISHED,
    branch_module.UNFINISHED,
    shipped.UNFINISHED,
    deb_module.UNFINISHED,
    htmldocs_module.UNFINISHED,
)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep two runs from building in the same directory."""
    directory = paths.build_dir()

    def waiting() -> contextlib.nullcontext[None]:
        err.print(f"waiting for another redoubt that works in {directory}", markup=False)
        return contextlib.nullcontext()

    with process.alone("run", waiting):
        # What a run left that was killed: nobody else works here now.
        for pattern in _UNFINISHED:
            for left in directory.glob(pattern):
                shutil.rmtree(left, ignore_errors=True)
        yield


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    partial = file.with_name(file.name + ".partial")
    try:
        partial.write_bytes(data)
        partial.rename(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise RedoubtError(f"cannot write {file}: {error.strerror}") from error


def write_json(file: Path | None, value: Any) -> None:
    """Write a value as JSON; a string is JSON already."""
    if file is not None:
        text = value if isinstance(value, str) else json.dumps(value, indent=2) + "\n"
        write_bytes(file, text.encode())


def print_lines(lines: list[str]) -> None:
    """Print lines as they are: what looks like markup is none."""
    for line in lines:
        out.print(line, markup=False)


def chosen_targets(names: Iterable[str]) -> list[Target]:
    """The targets of these names, each once."""
    return [get_target(name) for name in dict.fromkeys(names)]


def workbench(
    target: str, variant: str, host: str, display: Display
) -> tuple[Target, Variant, kernels.Workbench]:
    """Build the kernel of a target for a variant; raises RedoubtError as `kernels.workbench`."""
    chosen = get_target(target)
    way = get_variant(chosen, variant)
    return chosen, way, kernels.workbench(chosen, way, host_module.pick(chosen, host), display)
