# SPDX-License-Identifier: GPL-2.0-only
"""A small client of QEMU's machine protocol (QMP): one request, one answer, nothing at once.

QMP is JSON, an object a line: QEMU's docs/interop/qmp-spec.rst.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redoubt.core.errors import GuestError, RedoubtError

# What the kernel takes for the path of a socket, with the zero at its end.
_LONGEST_PATH = 108
_RETRY_S = 0.05
_CHUNK = 65536


class Qmp:
    """A connection to the monitor of a machine; to be used with `with`.

    `timeout` (seconds) is for connecting, and for each answer. Everything raises GuestError if the
    machine is gone, says nothing or says something else than it should.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        """Connect to the socket at `path`, which may still have to appear."""
        if len(str(path).encode()) >= _LONGEST_PATH:
            raise RedoubtError(
                f"the path of a socket is too long: {path}", "set TMPDIR to a shorter one"
            )
        self._timeout = timeout
        self._number = 0
        self._read = bytearray()
        self._socket = _connect(path, timeout)
        try:
            if "QMP" not in self._receive(self._deadline(), "its greeting"):
                raise GuestError(f"what listens on {path} does not speak QMP")
            self.execute("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def execute(self, command: str, **arguments: Any) -> Any:
        """The answer to a command."""
        self._number += 1
        request: dict[str, Any] = {"execute": command, "id": self._number}
        if arguments:
            request["arguments"] = arguments
        deadline = self._deadline()
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise GuestError(f"QEMU does not take '{command}': {error}") from error
        while True:
            answer = self._receive(deadline, f"an answer to '{command}'")
            # Events come whenever they like.
            if "event" in answer:
                continue
            # Without the number, the request was not even understood.
            if "error" in answer and answer.get("id") in (None, self._number):
                error_text = answer["error"].get("desc", answer["error"])
                raise GuestError(f"QEMU refuses '{command}': {error_text}")
            if answer.get("id") != self._number or "return" not in answer:
                raise GuestError(f"QEMU answers '{command}' with {answer}")
            return answer["return"]

    def human(self, line: str) -> str:
        """What the monitor for people says to a line."""
        said = self.execute("human-monitor-command", **{"command-line": line})
        if not isinstance(said, str):
            raise GuestError(f"QEMU answers '{line}' with {said}")
        return said

    def stop(self) -> None:
        """Stop all CPUs."""
        self.execute("stop")

    def resume(self) -> None:
        """Let them go on."""
        self.execute("cont")

    def quit(self) -> None:
        """End the machine at once."""
        self.execute("quit")

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _receive(self, deadline: float, what: str) -> dict[str, Any]:
        line = self._line(deadline, what)
        try:
            value = json.loads(line)
        except ValueError as error:
            raise GuestError(f"QEMU says what is no JSON, in place of {what}: {line!r}") from error
        if not isinstance(value, dict):
            raise GuestError(f"QEMU says {value} in place of {what}")
        return value

    def _line(self, deadline: float, what: str) -> bytes:
        while b"\n" not in self._read:
            left = deadline - time.monotonic()
            if left <= 0:
                raise GuestError(f"QEMU did not give {what} within {self._timeout:g} s")
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(_CHUNK)
            except TimeoutError:
                continue
            except OSError as error:
                raise GuestError(f"QEMU did not give {what}: {error}") from error
            if not data:
                raise GuestError(f"QEMU ended before it gave {what}")
            self._read += data
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read[:] = rest
        return line


def _connect(path: Path, timeout: float) -> socket.socket:
    deadline = time.monotonic() + timeout
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.settimeout(timeout)
        try:
            one.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            one.close()
            # It is there before anybody listens on it.
            if time.monotonic() >= deadline:
                raise GuestError(f"QEMU does not listen on {path}: {error.strerror}") from error
            time.sleep(_RETRY_S)
        except OSError as error:
            one.close()
            raise GuestError(f"cannot connect to QEMU at {path}: {error}") from error
        else:
            return one
