# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's machine protocol (QMP) for callers that wait for each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from qemu.qmp import QMPClient, QMPError

from redoubt.core.errors import GuestError


class Qmp:
    """A connection to the monitor of a running machine; to be used with `with`.

    `timeout` (seconds) is for connecting, and for each answer. Everything raises GuestError if the
    machine is gone, says nothing or says something else than it should.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        """Connect to the socket at `path`."""
        self._timeout = timeout
        self._runner = asyncio.Runner()
        self._client = QMPClient()
        try:
            self._wait(self._client.connect(str(path)), f"to connect to {path}")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A connection that has failed says so once more.
        with suppress(QMPError, EOFError, OSError):
            self._runner.run(self._client.disconnect())
        self._runner.close()

    def execute(self, command: str, **arguments: Any) -> Any:
        """The answer to a command."""
        return self._wait(self._client.execute(command, arguments or None), f"to {command}")

    def human(self, line: str) -> str:
        """The monitor's answer to a line that a person would type."""
        return str(self.execute("human-monitor-command", **{"command-line": line}))

    def stop(self) -> None:
        """Stop all CPUs."""
        self.execute("stop")

    def resume(self) -> None:
        """Let them go on."""
        self.execute("cont")

    def quit(self) -> None:
        """End the machine at once."""
        self.execute("quit")

    def _wait(self, answer: Coroutine[Any, Any, Any], what: str) -> Any:
        try:
            return self._runner.run(asyncio.wait_for(answer, self._timeout))
        except TimeoutError as error:
            raise GuestError(
                f"QEMU was asked {what}: no answer within {self._timeout:g} s"
            ) from error
        except (QMPError, EOFError, OSError) as error:
            raise GuestError(f"QEMU was asked {what}: {error}") from error
