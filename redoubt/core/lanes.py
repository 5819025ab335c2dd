# SPDX-License-Identifier: GPL-2.0-only
"""Several pieces of work side by side, each in a process of its own.

Booting a guest keeps one CPU busy, or none. Processes, as an interruption has to reach whatever
runs, which it does in the main thread of each only.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

from redoubt.core.errors import Interrupted
from redoubt.core.progress import Progress

T = TypeVar("T")
Job = Callable[[Progress], Iterator[T]]

_RESULT, _STEP, _DONE, _DETAIL, _NOTE = range(5)


class _Teller:
    """The progress of a job, told to the process that shows it."""

    def __init__(self, end: connection.Connection) -> None:
        self.end = end

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        self.end.send((_STEP, title))
        try:
            yield
        finally:
            # Nobody listens any more after an interruption.
            with contextlib.suppress(OSError):
                self.end.send((_DONE, None))

    def detail(self, text: str) -> None:
        self.end.send((_DETAIL, text))

    def note(self, text: str) -> None:
        self.end.send((_NOTE, text))


def _run(job: Job[T], end: connection.Connection) -> None:
    try:
        for result in job(_Teller(end)):
            end.send((_RESULT, result))
    except Interrupted:
        raise SystemExit(1) from None


@dataclass
class _Lane:
    """A job that runs, and the steps of it that are shown."""

    number: int
    process: BaseProcess
    end: connection.Connection
    shown: list[AbstractContextManager[None]] = field(default_factory=list)

    def show(self, kind: int, text: str, progress: Progress) -> None:
        if kind == _STEP:
            self.shown.append(progress.step(text))
            self.shown[-1].__enter__()
        elif kind == _DONE:
            self.done()
        elif kind == _NOTE:
            progress.note(text)
        else:
            progress.detail(text)

    def done(self) -> None:
        self.shown.pop().__exit__(None, None, None)

    def close(self) -> None:
        while self.shown:
            self.done()
        self.end.close()


def side_by_side(
    jobs: Sequence[Job[T]],
    at_once: int,
    progress: Progress,
    show: Callable[[int, T], None],
) -> list[int]:
    """Do jobs, `at_once` of them at a time, begun in their order.

    `show` gets the number of a job and a result of it, one that can be pickled, when it is there.
    Returns the numbers of those that ended before they were through: a traceback is on stderr, or
    something has killed them. Whatever happens here, none of the processes is left.
    """
    fork = multiprocessing.get_context("fork")
    waiting = list(enumerate(jobs))
    lanes: dict[connection.Connection, _Lane] = {}
    broken: list[int] = []
    try:
        while waiting or lanes:
            while waiting and len(lanes) < at_once:
                number, job = waiting.pop(0)
                ours, theirs = fork.Pipe(duplex=False)
                process = fork.Process(target=_run, args=(job, theirs))
                process.start()
                theirs.close()
                lanes[ours] = _Lane(number, process, ours)
            for end in connection.wait(list(lanes)):
                lane = lanes[end]  # type: ignore[index]
                try:
                    kind, what = lane.end.recv()
                except EOFError:
                    del lanes[lane.end]
                    lane.close()
                    lane.process.join()
                    if lane.process.exitcode:
                        broken.append(lane.number)
                    continue
                if kind == _RESULT:
                    show(lane.number, what)
                else:
                    lane.show(kind, what, progress)
    finally:
        for lane in lanes.values():
            if lane.process.pid:
                lane.process.terminate()
        for lane in lanes.values():
            lane.close()
            lane.process.join()
    return sorted(broken)
