# SPDX-License-Identifier: GPL-2.0-only
"""Running other programs so that nothing of them outlives us."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import NoSpaceError, RedoubtError

# How long a process group gets to end by itself after SIGTERM, in seconds.
_GRACE = 2.0
# How long a program gets to say its version, for example.
_ANSWER_S = 10
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# The same in the words of a child.
_FULL = tuple(os.strerror(number) for number in NO_SPACE)


# What the make that may have started us tells those that it starts.
_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")


@contextlib.contextmanager
def locked(file: Path, waiting: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Hold the lock that `file` stands for, alone among all processes; made with its directory.

    Where another holds it, the wait happens within the context that `waiting` makes.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with waiting():
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: a signal), and whether the time ran out."""

    code: int
    timed_out: bool

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit {self.code}"
        return f"killed by {signal.Signals(-self.code).name}"


def no_space(what: str) -> NoSpaceError:
    """The error for a full disk: names the fullest of those we write to, and what moves us away."""
    places = {
        "REDOUBT_BUILD": paths.build_dir(),
        "XDG_CACHE_HOME": paths.cache_dir(),
        "TMPDIR": Path(tempfile.gettempdir()),
    }

    def free(name: str) -> int:
        return shutil.disk_usage(paths.existing(places[name])).free

    name = min(places, key=free)
    return NoSpaceError(
        f"{what} failed: no space left; {free(name) >> 20} MiB are free for {places[name]}",
        f"make room there, or set {name} to a directory on another disk, and run it again",
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group. The caller started it, as a session of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue
    # Children that ignored SIGTERM may outlive the leader.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _group(
    command: Sequence[str | Path], cwd: Path | None, env: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    inherited = {name: value for name, value in os.environ.items() if name not in _MAKE}
    try:
        process = subprocess.Popen(
            [str(word) for word in command], cwd=cwd, env={**inherited, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise RedoubtError(
            f"{error.filename}: not found", "redoubt doctor says what is missing"
        ) from error
    try:
        yield process
    finally:
        if process.poll() is None:
            _end(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def alone(
    what: str, waiting: Callable[[], AbstractContextManager[None]] = nullcontext
) -> AbstractContextManager[None]:
    """Hold the lock of a kind of work in the build directory; `waiting` is as for `locked`."""
    directory = paths.build_dir()
    # By itself: an error of this one names what the user knows.
    directory.mkdir(parents=True, exist_ok=True)
    return locked(directory / ".locks" / what, waiting)


def run_lines(
    command: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    silence: float | None = None,
) -> Ended:
    """Run a command and hand over each line of its output (stderr included) as it comes.

    `timeout` is in seconds, and so is `silence`, the time for the first line to come. Whatever
    happens, Ctrl-C included, the process and all its children are gone when this returns.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    started = time.monotonic()
    deadline = started + (math.inf if timeout is None else timeout)
    speak_by = started + (math.inf if silence is None else silence)

    def read(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        with contextlib.suppress(ValueError, OSError):
            for line in process.stdout:
                lines.put(line.decode(errors="replace").rstrip("\r\n"))
        process.stdout.close()
        lines.put(None)

    with _group(command, cwd, env) as process:
        # It closes the pipe: closing it here would wait for whoever still holds the other end.
        threading.Thread(target=read, args=(process,), daemon=True).start()
        timed_out = False
        while True:
            left = min(deadline, speak_by) - time.monotonic()
            if left <= 0:
                timed_out = True
                break
            try:
                line = lines.get(timeout=min(left, 0.5))
            except queue.Empty:
                # A child may keep the pipe open; the command itself is what counts.
                if process.poll() is not None:
                    break
                continue
            if line is None:
                break
            speak_by = math.inf
            on_line(line)
        if timed_out:
            _end(process)
        try:
            # It may have closed its output and still run.
            left = deadline - time.monotonic()
            code = process.wait(None if math.isinf(left) else max(0, left))
        except subprocess.TimeoutExpired:
            timed_out = True
            _end(process)
            code = process.wait()
    return Ended(code, timed_out)


def run_logged(
    command: Sequence[str | Path],
    log: Path,
    *,
    what: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda line: None,
) -> None:
    """Run a command with its output in a file, which an error names, with the last lines."""
    tail: list[str] = []
    full = False

    def keep(line: str) -> None:
        nonlocal full
        out.write(line + "\n")
        full = full or any(text in line for text in _FULL)
        tail.append(line)
        del tail[:-15]
        on_line(line)

    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", buffering=1, encoding="utf-8") as out:
            # Messages in English, whatever the user's language: some are understood here.
            ended = run_lines(command, keep, cwd=cwd, env={"LC_ALL": "C", **(env or {})})
    except OSError as error:
        # The log's own disk, as often as not the one that the command has filled.
        if error.errno in NO_SPACE:
            raise no_space(what) from error
        raise
    if ended.code and full:
        raise no_space(what)
    if ended.code:
        raise RedoubtError(
            f"{what} failed ({ended}):\n" + "\n".join("    " + line for line in tail),
            f"the whole output is in {log}",
        )


def output(command: Sequence[str | Path], *, what: str) -> str:
    """The output of a short command that has to succeed."""
    lines: list[str] = []
    ended = run_lines(command, lines.append)
    if ended.code:
        raise RedoubtError(f"{what} failed ({ended}):\n" + "\n".join(lines[-15:]))
    return "\n".join(lines)


def said(command: Sequence[str], cwd: Path | None = None) -> str | None:
    """The output of a short command that may fail, or be missing: then None."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=_ANSWER_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
