# SPDX-License-Identifier: GPL-2.0-only
"""What is read in consoles of real guests, kept in logs/ from where they have something to say."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import REAL_BUILD

from redoubt.machine import boot
from redoubt.machine.boot import Result
from redoubt.trial import attack, check, experiment, ktap
from redoubt.trial.asi import asi, exits

needs_kernel = pytest.mark.skipif(
    not (REAL_BUILD / "src/tools/testing/kunit").exists(), reason="needs the kernel's parser"
)


def ended(name: str) -> Result:
    """How the guest of a log ended."""
    lines = (Path(__file__).with_name("logs") / f"{name}.log").read_text().splitlines()
    return boot._judge(lines, False, 1, Path(name))


def test_a_kernel_that_is_attacked() -> None:
    result = ended("attack-um-on")
    attacks = attack.parse_list(result.console)
    assert [one.in_scope for one in attacks] == [True] * 10 + [False] * 3
    pieces = attack.pieces(result.console)
    outcomes = {
        one.name: attack.judge("um", "on", one.name, pieces[one.name][0]).outcome for one in attacks
    }
    assert [name for name, found in outcomes.items() if found == attack.ABSENT] == [
        "sleeping-fault", "preempted-frame", "leaked-level",
    ]  # fmt: skip
    assert [name for name, found in outcomes.items() if found == attack.SUCCEEDED] == [
        "cred", "forged-pgd", "saved-reg",
    ]  # fmt: skip
    assert list(outcomes.values()).count(attack.BLOCKED) == 7
    assert len(result.violations) == 6 and not result.splats


def test_a_kernel_that_dies_of_a_violation() -> None:
    result = ended("panic-um")
    assert (result.outcome, result.detail) == ("panic", "kpkeys: violation")
    assert len(result.violations) == 1
    assert any(line.startswith("Call Trace:") for line in result.splats)
    assert experiment.bad_end(result)[-1] == "ended with panic, status None"


def test_a_kernel_under_stress() -> None:
    result = ended("check-um-on")
    assert check.parse_walks(result.console) == (
        check.Walk(33, 0, 0, 0, 0),
        check.Walk(72, 0, 0, 0, 0),
    )
    assert not experiment.bad_end(result)
    (stress,) = filter(None, map(check._STRESS.match, result.console))
    assert stress.groups() == ("5226", "0", "huge,collapse,swap,ldt,module,cpu")


def test_isolation_under_stress() -> None:
    result = ended("isolation-x86_64")
    assert not asi.unclean(result.console, 1)
    (audit,) = asi.parse_audits(result.console)
    assert (audit.sensitive, audit.ordinary, audit.enter) == (98, 30, 2731)


def test_exits_of_isolation() -> None:
    rows = exits.parse(ended("exits-x86_64").console)
    assert (len(rows), rows[-1].operation, rows[-1].times) == (20, "vm-fault", 10000)
    assert not list(exits.judge(rows))


@needs_kernel
def test_suites_of_kunit() -> None:
    result = ended("kunit-um-on")
    suites = {one.name: one for one in ktap.parse(REAL_BUILD / "src", result.console)}
    assert len(suites) == 6 and not any(one.failed for one in suites.values())
    assert (suites["kpkeys_levels"].passed, suites["kpkeys_levels"].skipped) == (16, 3)
    assert ktap.unfinished(result.console) is None
