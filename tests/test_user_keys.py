# SPDX-License-Identifier: GPL-2.0-only
"""Which of the kernel's own tests of keys of user mode pass, and which notice ignored keys."""

from __future__ import annotations

import pytest
from guests import ended

from redoubt.machine.boot import Result
from redoubt.trial import user_keys

DONE = "@selftests: done others"
TOTALS = "# # Totals: pass:{} fail:{} xfail:0 xpass:0 skip:0 error:0"
GIVEN_UP = ["# Bail out! test 0 (iteration 1)", TOTALS.format(3, 0)]


def said(handlers: list[str], keys: list[str], *end: str) -> Result:
    lines = ["# running ./pkey_sighandler_tests", *handlers, "# running ./protection_keys", *keys]
    return ended([*lines, *end])


GOOD = said([TOTALS.format(5, 0)], [TOTALS.format(462, 0)], DONE)
# One hangs, the other gives up.
IGNORING = said(["# ok 1 test"], GIVEN_UP, DONE)


def test_they_pass_and_notice_keys_that_are_ignored() -> None:
    report = user_keys.judge(GOOD, IGNORING)
    assert report.ok
    assert report.passed == {"pkey_sighandler_tests": 5, "protection_keys": 462}


@pytest.mark.parametrize(
    ("enforcing", "ignoring", "problem"),
    [
        (said([TOTALS.format(5, 0)], GIVEN_UP, DONE), IGNORING, "protection_keys does not pass"),
        (
            said([TOTALS.format(4, 1)], [TOTALS.format(462, 0)], DONE), IGNORING,
            "pkey_sighandler_tests does not pass",
        ),
        (
            GOOD, said([], [TOTALS.format(462, 0)], DONE),
            "protection_keys passes where no key is enforced",
        ),
    ],
)  # fmt: skip
def test_what_does_not_pass_or_notice(enforcing: Result, ignoring: Result, problem: str) -> None:
    assert user_keys.judge(enforcing, ignoring).problems == (problem,)


def test_a_boot_that_is_cut_short_is_no_evidence() -> None:
    (problem,) = user_keys.judge(GOOD, said([], [])).problems
    assert "the command in the guest ended" in problem
