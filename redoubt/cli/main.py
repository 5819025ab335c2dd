# SPDX-License-Identifier: GPL-2.0-only
"""How the tool starts, and how it ends: exit codes, messages, interruptions."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from redoubt.cli import cost, image, isolation, kernel, memory_keys, mutate, ship, trial
from redoubt.cli.common import app, err
from redoubt.core import process
from redoubt.core.errors import Interrupted, RedoubtError

# Each adds its verbs to the app when it is imported; help shows them in this order.
_VERBS = (kernel, trial, isolation, memory_keys, image, cost, mutate, ship)


def _fail(message: str, hint: str | None = None) -> NoReturn:
    err.print(f"redoubt: {message}", markup=False, style="red")
    if hint:
        err.print(f"    {hint}", markup=False)
    sys.exit(1)


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
        _fail(error.message, error.hint)
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
