# SPDX-License-Identifier: GPL-2.0-only
"""Ctrl-C at any time: it ends with 130, nothing is left running or half-made, and a rerun works."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any

import pytest
from conftest import Done, Sandbox
from test_source import archive

from redoubt.core import process

SIGNALS = pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
BUILD = ("build", "um", "--variant", "pristine")
MESSAGE = "redoubt: interrupted; running it again is safe"


def slow(sandbox: Sandbox, *words: str, **how: Any) -> subprocess.Popen[str]:
    """The tool in the middle of what is slow."""
    (sandbox.control / "slow").touch()
    running = sandbox.start(*words, **how)
    sandbox.wait_for("started", running)
    return running


def interrupt(sandbox: Sandbox, number: signal.Signals, *words: str) -> Done:
    """Interrupt the tool, and check that nothing is left."""
    running = slow(sandbox, *words)
    end = time.monotonic() + 5
    while len(sandbox.living()) < 3:
        assert time.monotonic() < end
        time.sleep(0.02)
    running.send_signal(number)
    done = sandbox.finish(running, timeout=15)
    assert sandbox.living() == []
    (sandbox.control / "slow").unlink()
    (sandbox.control / "started").unlink()
    return done


@SIGNALS
def test_in_mid_download(sandbox: Sandbox, number: signal.Signals) -> None:
    archive(sandbox)
    done = interrupt(sandbox, number, "source")
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == MESSAGE
    assert "Traceback" not in done.err
    # The part of a package that had come is gone, too.
    assert list((sandbox.where / "cache/redoubt/packages").iterdir()) == []
    assert [entry.name for entry in sandbox.build.iterdir()] == [".locks"]

    again = sandbox.run("source")
    assert again.code == 0, again.err
    assert (sandbox.build / "src/Kbuild").exists()


@SIGNALS
def test_in_mid_build(sandbox: Sandbox, number: signal.Signals) -> None:
    sandbox.toolchain()
    done = interrupt(sandbox, number, *BUILD)
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == MESSAGE
    assert "Traceback" not in done.err
    assert not (sandbox.build / "um/pristine/linux.stripped").exists()

    again = sandbox.run(*BUILD)
    assert again.code == 0, again.err
    assert (sandbox.build / "um/pristine/linux.stripped").exists()


def test_programs_that_do_not_listen(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    sandbox.program("make", "trap '' TERM INT HUP\ntouch $CONTROL/started\nsleep 300 & sleep 300\n")
    running = sandbox.start(*BUILD)
    sandbox.wait_for("started", running)
    running.send_signal(signal.SIGINT)
    done = sandbox.finish(running, timeout=15)
    assert done.code == 130
    assert sandbox.living() == []


def test_impatience_does_not_cut_the_cleaning_short(sandbox: Sandbox) -> None:
    archive(sandbox)
    running = slow(sandbox, "source")
    for _ in range(20):
        running.send_signal(signal.SIGINT)
        time.sleep(0.005)
    done = sandbox.finish(running, timeout=15)
    assert done.code == 130
    assert "Traceback" not in done.err
    assert sandbox.living() == []
    assert list((sandbox.where / "cache/redoubt/packages").iterdir()) == []


def test_while_waiting_for_another(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    first = slow(sandbox, *BUILD)
    second = sandbox.start("source")
    assert second.stderr
    assert "waiting for another redoubt" in second.stderr.readline()
    second.send_signal(signal.SIGINT)
    assert sandbox.finish(second).code == 130
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    assert sandbox.finish(first).code == 130
    assert sandbox.living() == []


def test_what_a_script_ignores_stays_ignored(sandbox: Sandbox) -> None:
    """A job in the background of a script ignores SIGINT; SIGTERM ends it all the same."""
    sandbox.toolchain()
    running = slow(sandbox, *BUILD, setup=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    running.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    assert sandbox.finish(running, timeout=15).code == 130
    assert sandbox.living() == []


def test_a_kill_that_cannot_be_caught(sandbox: Sandbox) -> None:
    archive(sandbox)
    running = slow(sandbox, "source")
    running.kill()
    # Its children hold the output open, and are nobody's now.
    running.wait(5)
    sandbox.close()
    (sandbox.control / "slow").unlink()
    again = sandbox.run("source")
    assert again.code == 0, again.err


def test_the_grace_is_short_enough_for_these_tests() -> None:
    assert 2 * process._GRACE < 15
