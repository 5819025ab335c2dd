# SPDX-License-Identifier: GPL-2.0-only
"""The client of QEMU's monitor, with somebody else on the other end of the socket."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redoubt.core.errors import GuestError, RedoubtError
from redoubt.machine.qmp import Qmp

GREETING = {"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}
# What is said to a request; None: nothing, and the connection is closed.
Answer = Callable[[dict[str, Any]], list[Any] | None]
Serve = Callable[..., Path]


def empty(request: dict[str, Any]) -> list[Any]:
    return [{"return": {}, "id": request["id"]}]


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def serve(tmp_path: Path, asked: list[dict[str, Any]]) -> Iterator[Serve]:
    """Start a machine's monitor that speaks as it is told; a text is sent as it is."""
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def start(
        answer: Answer = empty, greeting: Any = GREETING, late: float = 0, cut: int | None = None
    ) -> Path:
        path = tmp_path / "monitor"

        def send(connection: socket.socket, value: Any) -> None:
            text = value if isinstance(value, str) else json.dumps(value) + "\r\n"
            data = text.encode()
            for start in range(0, len(data), cut or len(data)):
                connection.sendall(data[start : start + (cut or len(data))])

        def talk() -> None:
            time.sleep(late)
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))
                server.listen()
                connection, _ = server.accept()
                sockets.append(connection)
                if greeting is not None:
                    send(connection, greeting)
                for line in connection.makefile("rb"):
                    asked.append(json.loads(line))
                    given = answer(asked[-1])
                    if given is None:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    for value in given:
                        send(connection, value)

        threads.append(threading.Thread(target=talk, daemon=True))
        threads[-1].start()
        return path

    yield start
    for one in sockets:
        # The thread may be reading from it: that ends, and then it may be closed.
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(5)
    for one in sockets:
        one.close()


def after_capabilities(*values: Any) -> Answer:
    """An answer to what comes after the first request; the number is put in where it is missing."""

    def answer(request: dict[str, Any]) -> list[Any] | None:
        if request["execute"] == "qmp_capabilities":
            return empty(request)
        return [
            {"id": request["id"], **value} if isinstance(value, dict) else value for value in values
        ]

    return answer


def test_requests_and_answers(serve: Serve, asked: list[dict[str, Any]]) -> None:
    with Qmp(serve(after_capabilities({"return": "RIP=1\r\n"})), 5) as monitor:
        assert monitor.human("info registers") == "RIP=1\r\n"
    with pytest.raises(GuestError):
        monitor.stop()
    assert [one["execute"] for one in asked] == ["qmp_capabilities", "human-monitor-command"]
    assert asked[1]["arguments"] == {"command-line": "info registers"}
    assert "arguments" not in asked[0]
    assert asked[0]["id"] != asked[1]["id"]


def test_the_machine_is_stopped_resumed_and_ended(
    serve: Serve, asked: list[dict[str, Any]]
) -> None:
    with Qmp(serve(), 5) as monitor:
        monitor.stop()
        monitor.resume()
        monitor.quit()
    assert [one["execute"] for one in asked][1:] == ["stop", "cont", "quit"]


def test_events_in_between_are_passed_over(serve: Serve) -> None:
    events = [{"event": "STOP", "timestamp": {}, "id": None}] * 3
    with Qmp(serve(after_capabilities(*events, {"return": 7})), 5) as monitor:
        assert monitor.execute("stop") == 7


def test_an_answer_that_comes_byte_by_byte(serve: Serve) -> None:
    long = "x" * 5000
    with Qmp(serve(after_capabilities({"return": long}), cut=7), 5) as monitor:
        assert monitor.human("info registers") == long


def test_a_monitor_that_is_not_there_yet(serve: Serve) -> None:
    with Qmp(serve(late=0.3), 5) as monitor:
        monitor.stop()


def test_a_monitor_that_never_comes(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match=r"does not listen on .*/nobody"):
        Qmp(tmp_path / "nobody", 0.2)


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    with pytest.raises(RedoubtError, match="too long") as caught:
        Qmp(tmp_path / ("x" * 100), 0.2)
    assert "TMPDIR" in str(caught.value.hint)


def test_somebody_else_listens(serve: Serve) -> None:
    with pytest.raises(GuestError, match="does not speak QMP"):
        Qmp(serve(greeting={"hello": 1}), 5)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"error": {"class": "GenericError", "desc": "no such thing"}}, "refuses 'stop'.*no such"),
        ({"error": {"class": "GenericError"}, "id": None}, "refuses 'stop': .*GenericError"),
        ({"return": {}, "id": 999}, "answers 'stop' with"),
        ({"else": 1}, "answers 'stop' with"),
        ("[1]\n", r"says \[1\]"),
        ("QEMU is not well\n", "no JSON"),
    ],
)
def test_answers_that_are_none(serve: Serve, value: Any, says: str) -> None:
    with (
        Qmp(serve(after_capabilities(value)), 5) as monitor,
        pytest.raises(GuestError, match=says),
    ):
        monitor.stop()


def test_a_monitor_for_people_that_says_no_text(serve: Serve) -> None:
    with (
        Qmp(serve(after_capabilities({"return": {}})), 5) as monitor,
        pytest.raises(GuestError, match="answers 'info registers'"),
    ):
        monitor.human("info registers")


def test_a_machine_that_goes_away(serve: Serve) -> None:
    def answer(request: dict[str, Any]) -> list[Any] | None:
        return empty(request) if request["execute"] == "qmp_capabilities" else None

    with (
        Qmp(serve(answer), 5) as monitor,
        pytest.raises(GuestError, match="ended before it gave an answer to 'stop'"),
    ):
        monitor.stop()


def test_a_machine_that_says_nothing(serve: Serve) -> None:
    with (
        Qmp(serve(after_capabilities()), 0.3) as monitor,
        pytest.raises(GuestError, match=r"an answer to 'stop' within 0\.3 s"),
    ):
        monitor.stop()


def test_events_do_not_prolong_the_time(serve: Serve) -> None:
    def answer(request: dict[str, Any]) -> list[Any]:
        if request["execute"] == "qmp_capabilities":
            return empty(request)
        time.sleep(0.15)
        return [{"event": "RTC_CHANGE"}] * 5 + ['{"return": ']

    started = time.monotonic()
    with (
        Qmp(serve(answer), 0.4) as monitor,
        pytest.raises(GuestError, match="within"),
    ):
        monitor.stop()
    assert time.monotonic() - started < 3


def test_no_greeting(serve: Serve) -> None:
    with pytest.raises(GuestError, match="did not give its greeting"):
        Qmp(serve(greeting=None), 0.3)
