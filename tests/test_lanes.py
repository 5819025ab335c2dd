# SPDX-License-Identifier: GPL-2.0-only
"""Work side by side: all of it is done, in two processes at most, and none is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest

from redoubt.core.errors import Interrupted
from redoubt.core.lanes import side_by_side
from redoubt.core.progress import Progress, Silent


class Shown(Silent):
    """What a person sees."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Note when it begins and ends."""
        self.told.append(title)
        yield
        self.told.append(f"{title}, done")

    def detail(self, text: str) -> None:
        """Note it."""
        self.told.append(text)

    def note(self, text: str) -> None:
        """Note it, as what it is."""
        self.told.append(f"note: {text}")


def count(name: str, progress: Progress) -> Iterator[str]:
    with progress.step(name):
        for number in range(3):
            progress.detail(f"{name} is at {number}")
            yield f"{name}{number}"


def noting(progress: Progress) -> Iterator[str]:
    progress.note("of another kernel")
    yield "done"


def test_a_note_of_a_job_is_told() -> None:
    shown = Shown()
    assert not side_by_side([noting, noting], 2, shown, lambda *_: None)
    assert shown.told == ["note: of another kernel"] * 2


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_all_results_come_each_job_in_its_order(at_once: int) -> None:
    found: dict[int, list[str]] = {number: [] for number in range(4)}
    shown = Shown()
    jobs = [partial(count, name) for name in "abcd"]
    assert not side_by_side(jobs, at_once, shown, lambda n, result: found[n].append(result))
    assert found == {n: [f"{name}{i}" for i in range(3)] for n, name in enumerate("abcd")}
    for name in "abcd":
        mine = [text for text in shown.told if text.startswith(name)]
        assert mine == [name, *(f"{name} is at {i}" for i in range(3)), f"{name}, done"]


def test_two_run_at_the_same_time() -> None:
    """Each waits for a word of the other, which comes only if that runs meanwhile."""
    pipes = [os.pipe(), os.pipe()]

    def meet(number: int, progress: Progress) -> Iterator[int]:
        os.write(pipes[number][1], b"here")
        yield len(os.read(pipes[1 - number][0], 4))

    found: list[int] = []
    jobs = [partial(meet, 0), partial(meet, 1)]
    assert not side_by_side(jobs, 2, Silent(), lambda _, result: found.append(result))
    assert found == [4, 4]


@pytest.mark.parametrize("how", ["raises", "is killed"])
def test_the_broken_one_is_named_and_the_rest_goes_on(how: str) -> None:
    def breaks(progress: Progress) -> Iterator[str]:
        with progress.step("short"):
            yield "half"
            if how == "raises":
                raise ValueError("as planned")
            os.kill(os.getpid(), signal.SIGKILL)

    shown = Shown()
    found: list[tuple[int, str]] = []
    jobs = [breaks, partial(count, "b")]
    assert side_by_side(jobs, 1, shown, lambda n, result: found.append((n, result))) == [0]
    assert found == [(0, "half"), *((1, f"b{i}") for i in range(3))]
    # No title of what is gone is left on the terminal.
    assert "short, done" in shown.told


def test_an_interruption_ends_them_all() -> None:
    """They unwind, as what they have started has to end, too."""
    unwound = os.pipe()

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    def endless(progress: Progress) -> Iterator[int]:
        try:
            yield os.getpid()
            # The signal may come before a pause for good begins.
            while True:
                time.sleep(0.05)
        finally:
            os.write(unwound[1], b"x")

    pids: list[int] = []

    def show(_: int, pid: int) -> None:
        pids.append(pid)
        if len(pids) == 2:
            raise Interrupted

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(Interrupted):
            side_by_side([endless, endless], 2, Silent(), show)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert all(gone(pid) for pid in pids)
    assert os.read(unwound[0], 2) == b"xx"
