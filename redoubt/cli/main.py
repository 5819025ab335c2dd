# SPDX-License-Identifier: GPL-2.0-only
"""How the tool starts, and how it ends: exit codes, messages, interruptions."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, NoReturn

import typer
from typer import Option

from redoubt import __version__
from redoubt.cli import (
    cost,
    image,
    isolation,
    kernel,
    memory_keys,
    mutate,
    real,
    run,
    ship,
    suites,
    trial,
)
from redoubt.cli.common import app, err, out
from redoubt.core import paths, process
from redoubt.core.errors import Interrupted, RedoubtError, UsageError
from redoubt.machine import provenance

# Each adds its verbs to the app when it is imported; help shows them in this order.
_VERBS = (kernel, run, suites, trial, isolation, memory_keys, image, cost, mutate, ship, real)


def _tell_version(asked: bool) -> None:
    if asked:
        commit, dirty = provenance.commit(paths.repo())
        known = f" (commit {commit[:12]}{', with changes' if dirty else ''})" if commit else ""
        out.print(f"redoubt {__version__}{known}", markup=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", help="Show the version.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    pass


def _fail(message: str, hint: str | None = None, code: int = 1) -> NoReturn:
    err.print(f"redoubt: {message}", markup=False, style="red")
    if hint:
        err.print(f"    {hint}", markup=False)
    sys.exit(code)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(number: int, frame: object) -> None:
    """Unwind: everything that runs is ended, everything half-made removed, undisturbed."""
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted


def main() -> None:
    """Run the tool; exits with 0 only on success, 130 when interrupted, 2 on wrong usage."""
    for number in _ENDING:
        # Under nohup, or in the background of a script, some are ignored on purpose.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        app(prog_name="redoubt")
    except RedoubtError as error:
        _fail(error.message, error.hint, 2 if isinstance(error, UsageError) else 1)
    except Interrupted:
        err.print("redoubt: interrupted; running it again is safe", markup=False)
        sys.exit(130)
    except OSError as error:
        if error.errno in process.NO_SPACE:
            full = process.no_space("writing " + str(error.filename or "a file"))
            _fail(full.message, full.hint)
        if not error.filename:
            raise
        _fail(f"{error.filename}: {error.strerror}")
