# SPDX-License-Identifier: GPL-2.0-only
"""The wrapper of QEMU's monitor client: each failure is one for people, and no connection leaks."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redoubt.core.errors import GuestError
from redoubt.machine.qmp import Qmp

GREETING = {"QMP": {"version": {}, "capabilities": []}}
# The answer to a request, without its number; nothing: the connection is closed.
Serve = Callable[..., Path]


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def serve(tmp_path: Path, asked: list[dict[str, Any]]) -> Iterator[Serve]:
    """A machine's monitor that gives one answer to all that is asked after the capabilities."""
    with contextlib.ExitStack() as stack:

        def talk(server: socket.socket, answer: Any, greeting: Any) -> None:
            with contextlib.suppress(OSError), server.accept()[0] as connection:
                connection.sendall(json.dumps(greeting).encode() + b"\r\n")
                while data := connection.recv(65536):
                    request = json.loads(data)
                    asked.append(request)
                    given = {"return": {}} if len(asked) == 1 else answer
                    if given is None:
                        return
                    if given:
                        number = {name: one for name, one in request.items() if name == "id"}
                        connection.sendall(json.dumps(given | number).encode() + b"\r\n")

        def start(answer: Any = None, greeting: Any = GREETING) -> Path:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(tmp_path / "monitor"))
            server.listen()
            thread = threading.Thread(target=talk, args=(server, answer, greeting), daemon=True)
            thread.start()
            stack.callback(thread.join, 5)
            return tmp_path / "monitor"

        yield start


def test_requests_and_answers(serve: Serve, asked: list[dict[str, Any]]) -> None:
    with Qmp(serve({"return": "RIP=1\r\n"}), 5) as monitor:
        assert monitor.human("info registers") == "RIP=1\r\n"
        monitor.stop()
        monitor.resume()
        monitor.quit()
    assert [one["execute"] for one in asked][1:] == [
        "human-monitor-command", "stop", "cont", "quit",
    ]  # fmt: skip
    assert asked[1]["arguments"] == {"command-line": "info registers"}
    assert "arguments" not in asked[2]


@pytest.mark.parametrize("name", ["nobody", "x" * 100])
def test_a_monitor_that_never_comes(tmp_path: Path, name: str) -> None:
    with pytest.raises(GuestError, match=f"asked to connect to .*/{name}"):
        Qmp(tmp_path / name, 0.2)


def test_somebody_else_listens(serve: Serve) -> None:
    with pytest.raises(GuestError, match="asked to connect to"):
        Qmp(serve(greeting={"hello": 1}), 5)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"error": {"class": "GenericError", "desc": "no such thing"}}, "no such thing"),
        ({"else": 1}, "asked to stop"),
        ([], "no answer within 0.3 s"),
        (None, "asked to stop"),
    ],
    ids=["refused", "no answer", "silent", "gone"],
)
def test_answers_that_are_none(serve: Serve, answer: Any, says: str) -> None:
    with Qmp(serve(answer), 0.3) as monitor, pytest.raises(GuestError, match=says):
        monitor.stop()
