# SPDX-License-Identifier: GPL-2.0-only
"""Running programs: nothing outlives us, nothing blocks us, failures are told in words."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from redoubt.core import process
from redoubt.core.errors import Interrupted, NoSpaceError, RedoubtError


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pid: int, within: float = 3) -> bool:
    end = time.monotonic() + within
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_lines_of_both_streams_and_the_code() -> None:
    lines: list[str] = []
    ended = process.run_lines(["sh", "-c", "echo one; echo two >&2; printf three; exit 7"],
                              lines.append)  # fmt: skip
    assert lines == ["one", "two", "three"]
    assert (ended.code, ended.timed_out, str(ended)) == (7, False, "exit 7")


def test_bytes_that_are_no_text() -> None:
    lines: list[str] = []
    process.run_lines(["printf", r"a\377b\r\n"], lines.append)
    assert lines == ["a\ufffdb"]


def test_a_time_limit_ends_everything() -> None:
    lines: list[str] = []
    started = time.monotonic()
    ended = process.run_lines(
        ["sh", "-c", "trap '' TERM; (trap '' TERM; sleep 300) & echo $!; sleep 300"],
        lines.append, timeout=0.5,
    )  # fmt: skip
    assert ended.timed_out
    assert ended.code == -signal.SIGKILL
    assert time.monotonic() - started < 6
    assert gone(int(lines[0]))


def test_a_time_limit_for_a_silent_program_without_output() -> None:
    started = time.monotonic()
    ended = process.run_lines(["sh", "-c", "exec >&- 2>&-; sleep 300"], print, timeout=0.5)
    assert ended.timed_out
    assert time.monotonic() - started < 6


def test_a_child_that_keeps_the_pipe_open_is_not_waited_for() -> None:
    lines: list[str] = []
    started = time.monotonic()
    ended = process.run_lines(["sh", "-c", "sleep 300 & echo $!; exit 3"], lines.append)
    assert ended.code == 3
    assert time.monotonic() - started < 5
    assert gone(int(lines[0]))


def test_a_child_in_a_session_of_its_own_does_not_block() -> None:
    lines: list[str] = []
    started = time.monotonic()
    ended = process.run_lines(["sh", "-c", "setsid sleep 8 & echo $!"], lines.append)
    assert ended.code == 0
    assert time.monotonic() - started < 5
    # Nobody can know of it; it is this test's to end.
    os.kill(int(lines[0]), signal.SIGKILL)


@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt, ValueError])
def test_an_exception_ends_everything(error: type[BaseException]) -> None:
    seen: list[int] = []

    def fail(line: str) -> None:
        seen.append(int(line))
        raise error

    with pytest.raises(error):
        process.run_lines(["sh", "-c", "sleep 300 & echo $!; wait"], fail)
    assert gone(seen[0])


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    for _ in range(5):
        process.run_lines(["true"], print)
    end = time.monotonic() + 2
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.02)
    assert threading.active_count() <= before


def test_a_missing_program() -> None:
    with pytest.raises(RedoubtError, match="no-such-program: not found") as caught:
        process.run_lines(["no-such-program"], print)
    assert caught.value.hint and "redoubt doctor" in caught.value.hint


def test_a_missing_directory_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(RedoubtError, match="nowhere"):
        process.run_lines(["true"], print, cwd=tmp_path / "nowhere")


def test_a_program_that_must_not_be_run(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("text")
    with pytest.raises((RedoubtError, OSError), match="program"):
        process.run_lines([tmp_path / "program"], print)


def test_a_failure_names_the_last_lines_and_the_log(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    with pytest.raises(RedoubtError) as caught:
        process.run_logged(["sh", "-c", "seq 100; exit 9"], log, what="counting")
    assert caught.value.message.startswith("counting failed (exit 9):\n    86\n")
    assert caught.value.message.endswith("    100")
    assert caught.value.hint == f"the whole output is in {log}"
    assert len(log.read_text().splitlines()) == 100


def test_a_signal_is_named(tmp_path: Path) -> None:
    with pytest.raises(RedoubtError, match=r"dying failed \(killed by SIGKILL\)"):
        process.run_logged(["sh", "-c", "kill -9 $$"], tmp_path / "log", what="dying")
    with pytest.raises(RedoubtError, match="killed by SIGSEGV"):
        process.output(["sh", "-c", "kill -11 $$"], what="dying")


def test_a_child_on_a_full_disk_is_told_apart(tmp_path: Path) -> None:
    text = "echo 'tar: x: Cannot write: No space left on device'; seq 50; exit 2"
    with pytest.raises(NoSpaceError, match="unpacking failed: no space left") as caught:
        process.run_logged(["sh", "-c", text], tmp_path / "log", what="unpacking")
    assert caught.value.hint and "make room" in caught.value.hint


def test_what_only_mentions_a_full_disk_is_no_failure(tmp_path: Path) -> None:
    process.run_logged(
        ["echo", "No space left on device"], tmp_path / "log", what="talking"
    )  # fmt: skip
    assert (tmp_path / "log").read_text() == "No space left on device\n"


def test_a_log_can_be_read_while_the_command_runs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process.run_logged(["sh", "-c", f"echo one; sleep 0.5; cp {log} {log}.so-far"], log, what="x")
    assert Path(f"{log}.so-far").read_text() == "one\n"


def test_messages_are_in_english_whatever_the_user_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    process.run_logged(["sh", "-c", "echo $LC_ALL"], tmp_path / "log", what="asking")
    assert (tmp_path / "log").read_text() == "C\n"


def test_a_command_that_says_nothing_is_ended() -> None:
    started = time.monotonic()
    ended = process.run_lines(["sleep", "60"], lambda line: None, timeout=60, silence=0.3)
    assert ended.timed_out
    # Once it spoke, it may be silent.
    lines: list[str] = []
    ended = process.run_lines(["sh", "-c", "echo a; sleep 6; echo b"], lines.append, silence=5)
    assert (ended.timed_out, ended.code, lines) == (False, 0, ["a", "b"])
    assert time.monotonic() - started < 30
