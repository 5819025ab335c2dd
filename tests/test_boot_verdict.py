# SPDX-License-Identifier: GPL-2.0-only
"""How the end of a boot is understood from its console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redoubt.linux.build import Build
from redoubt.machine import boot, host, kernels
from redoubt.machine.boot import Result, _judge
from redoubt.targets import get_target

LOG = Path("boot.log")
VIOLATION = "kpkeys: violation: write to 0x60a68000 (pkey 1) at level default, ip f+0x0/0x8, x[51]"


def judge(*lines: str, timed_out: bool = False) -> Result:
    return _judge(list(lines), timed_out, 30.0, LOG)


@pytest.mark.parametrize(
    "line",
    [
        "BUG: sleeping function called from invalid context at mm/slab.h:1",
        "WARNING: possible recursive locking detected",
        "[    0.100000] WARNING: CPU: 0 PID: 1 at mm/x.c:1",
        "[    0.100000][    T1] BUG: Bad page state in process init",
        "UBSAN: array-index-out-of-bounds in mm/x.c:1:2",
        "INFO: task init:1 blocked for more than 120 seconds.",
        "Call Trace:",
        "BUG: unable to handle page fault for address: ffff888001a2b000",
        "Oops: general protection fault, maybe for address 0x0: 0000 [#1] SMP PTI",
        "unchecked MSR access error: WRMSR to 0x6e1 (tried to write 0x0000000055555558)",
    ],
)
def test_a_complaint_of_the_kernel_is_seen(line: str) -> None:
    result = judge("Linux version 7.3.4", line, "@redoubt: exit=0")
    assert (result.outcome, result.status) == ("finished", 0)
    assert result.splats == (line,)
    assert line in result.describe()


def test_what_is_about_the_first_complaint_is_shown() -> None:
    before = [f"before {i}" for i in range(100)]
    after = [f"after {i}" for i in range(100)]
    told = judge(*before, "Call Trace:", *after, "@redoubt: exit=0").describe().splitlines()
    shown = [line.strip() for line in told[1:-1]]
    assert shown == [
        *before[-5:], "Call Trace:", *after[:14], "[…]", *after[-14:], "@redoubt: exit=0",
    ]  # fmt: skip
    # No line twice if the complaint is among the last ones.
    told = judge(*before, "Call Trace:", "@redoubt: exit=0").describe().splitlines()
    assert [line.strip() for line in told[1:-1]] == [
        *before[-13:],
        "Call Trace:",
        "@redoubt: exit=0",
    ]


def test_a_violation_is_seen_and_told_from_a_splat() -> None:
    # The checks must notice it; KUnit provokes it, so there it must be no splat.
    result = judge(VIOLATION, "@redoubt: exit=0")
    assert result.violations == (VIOLATION,)
    assert result.splats == ()
    assert result.complaints == (VIOLATION,)


def test_an_ordinary_boot_has_no_complaints() -> None:
    result = judge("kpkeys: page tables hardened (pkey 1, um/pku)", "tables 27", "@redoubt: exit=3")
    assert (result.outcome, result.status, result.complaints) == ("finished", 3, ())


def test_panic_hang_and_death_are_told_apart() -> None:
    panic = judge("Kernel panic - not syncing: Attempted to kill init!", "@redoubt: exit=0")
    hang = judge("Run /init as init process", timed_out=True)
    death = judge("Run /init as init process")
    assert [panic.outcome, hang.outcome, death.outcome] == ["panic", "hang", "died"]
    assert "Attempted to kill init!" in panic.describe()
    for result in (panic, hang, death):
        assert result.status is None
        assert str(LOG) in result.describe()
    assert "Run /init as init process" in hang.describe()


def test_the_end_marker_has_to_stand_alone() -> None:
    assert judge("said: @redoubt: exit=0").outcome == "died"


@pytest.mark.parametrize(
    ("status", "complaint", "code"),
    [(0, "", 0), (1, "", 1), (130, "", 130), (0, "BUG: x", 1), (7, "BUG: x", 7)],
)
def test_run_exits_with_the_status_and_tells_of_an_oops(
    status: int, complaint: str, code: int, call: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    splats = (complaint,) if complaint else ()
    result = Result("finished", status, (*splats, "last words"), splats, LOG)
    built = Build(get_target("um"), Path("d"), Path("i"), Path("v"))
    bench = kernels.Workbench(built, Path("p"), host.NATIVE)
    monkeypatch.setattr(kernels, "workbench", lambda *args, **options: bench)
    monkeypatch.setattr(boot, "boot", lambda *args, **options: result)
    done = call("run", "um", "--", "/bin/x", "--flag")
    assert done.code == code
    assert bool(done.err) == bool(complaint)
    told = "kernel complained: BUG: x" in done.err and str(LOG) in done.err
    assert told == bool(complaint)
