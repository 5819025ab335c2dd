# SPDX-License-Identifier: GPL-2.0-only
"""What is read off a guest's console: boots, attacks, the checker, KUnit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from conftest import REAL_BUILD
from guests import AUDIT, ended, machine, say

from redoubt.cli import trial
from redoubt.core.errors import GuestError
from redoubt.core.progress import Silent
from redoubt.linux import source
from redoubt.linux.source import Source
from redoubt.machine import boot, host
from redoubt.suite import boots
from redoubt.suite.run import Run
from redoubt.targets import X86_64, get_target, get_variant
from redoubt.trial import attack, check, ktap
from redoubt.trial.asi import asi
from redoubt.trial.asi.asi import Audit
from redoubt.trial.attack import ABSENT, BLOCKED, ERROR, SUCCEEDED, Attack, Outcome
from redoubt.trial.case import FAILED, PASSED, SKIPPED, Case
from redoubt.trial.check import Walk

LOG = Path("log")


def judged(*lines: str, timed_out: bool = False) -> boot.Result:
    return boot._judge(list(lines), timed_out, 5, LOG)


# === Boots =======================================================================================


@pytest.mark.parametrize("status", [0, 1, 137])
def test_a_command_that_ended(status: int) -> None:
    result = judged("Linux version 7.3.4", "output", f"@redoubt: exit={status}", "reboot: Down")
    assert (result.outcome, result.status, result.splats) == ("finished", status, ())
    # It had said so before the time ran out.
    assert judged(f"@redoubt: exit={status}", timed_out=True).outcome == "finished"


def test_a_panic_counts_for_more_than_a_status() -> None:
    line = "Kernel panic - not syncing: kpkeys: violation"
    result = judged("@redoubt: exit=0", line, "Kernel panic - not syncing: second")
    assert (result.outcome, result.status, result.detail) == ("panic", None, "kpkeys: violation")
    assert line in result.splats
    assert result.describe().startswith("the guest's kernel panicked: kpkeys: violation\n")


def test_hang_and_death() -> None:
    hang = judged("booting", timed_out=True).describe()
    assert "the guest hung: no end after 5 s\n    booting\n" in hang
    assert "died without a word" in judged("booting").describe()
    assert judged().outcome == "died"


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: mm/kpkeys/core.c:12 at kpkeys_set", "[    1.234567] WARNING: CPU: 0 PID: 1",
        "BUG: unable to handle kernel NULL pointer", "kernel BUG at mm/slub.c:1!",
        "BUG: sleeping function called from invalid context", "Bad page state in process x",
        "INFO: possible circular locking dependency detected", "INFO: task x blocked for more",
        "INFO: rcu_sched self-detected stall", "rcu: INFO: rcu_preempt detected stalls",
        "------------[ cut here ]------------", "Kernel panic - not syncing: x",
    ],
)  # fmt: skip
def test_complaints_of_a_kernel(line: str) -> None:
    assert judged("fine", line, "@redoubt: exit=0").splats == (line,)


@pytest.mark.parametrize(
    "line",
    [
        "kpkeys: violation: write to 0x1 (pkey 1) at level default, ip x+0x1, own-pte[5]",
        "kpkeys: page tables hardened (pkey 1, um/pku)", "DEBUG: fine", "a WARNING: of a program",
    ],
)  # fmt: skip
def test_what_is_no_complaint(line: str) -> None:
    assert judged(line).splats == ()


def test_the_emulated_hosts_own_words_are_dropped() -> None:
    seen: list[str] = []
    console = boot._Console(host.READY, seen.append)
    before = ("SeaBIOS", "Kernel panic - not syncing: x", "@redoubt: host ready")
    for line in (*before, "Linux", "end"):
        console.feed(line)
    assert (console.lines, seen) == (["Linux", "end"], ["Linux", "end"])


# === Attacks =====================================================================================

VIOLATION = (
    "kpkeys: violation: write to 0x60a3f000 (pkey 1) at level default, ip store+0x8, own-pte[33]"
)

REASON = "@attack: own-pte out of reach: nothing came back"
ABSENT_LINE = "@attack: leaked-level not on this target: no huge pages"


def line(
    name: str = "own-pte", outcome: str = "failed", prize: str = "intact", how: str = "signal 11",
    alive: str = "yes",
) -> str:  # fmt: skip
    return f"@attack: {name} outcome={outcome} prize={prize} attacker={how} alive={alive}"


def verdict(*lines: str) -> tuple[str, str]:
    found = attack.judge("um", "on", "own-pte", lines)
    assert (found.target, found.attack, found.variant) == ("um", "own-pte", "on")
    return found.outcome, found.detail


def test_blocked_with_the_kernels_line() -> None:
    assert verdict("noise", "[ 1.2] " + VIOLATION, line()) == (BLOCKED, VIOLATION)


def test_blocked_as_the_memory_is_out_of_reach() -> None:
    assert verdict(REASON, line(how="exit 4")) == (BLOCKED, "nothing came back")
    # The program has to say so, itself, and to end that way.
    assert verdict(line(how="exit 4"))[0] == ERROR
    assert verdict(REASON.replace("own-pte", "own-pmd"), line(how="exit 4"))[0] == ERROR
    assert verdict(REASON, line(how="exit 1"))[0] == ERROR


def test_succeeded_with_the_prize() -> None:
    prize = "root-only file read and altered"
    said = line(outcome="succeeded", prize=prize, how="exit 0")
    assert verdict(said) == (SUCCEEDED, prize)
    # A violation that stopped nothing has not blocked anything.
    assert verdict(VIOLATION, line(outcome="succeeded", prize="uid 0"))[0] == SUCCEEDED


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((), "did not say"),
        ((VIOLATION,), "did not say"),
        ((VIOLATION, line(name="own-pmd")), "did not say"),
        ((VIOLATION, line().replace("failed", "maybe")), "did not say"),
        ((VIOLATION, line()[:-5]), "did not say"),
        ((VIOLATION, line(alive="no")), "did not work any more"),
        ((line(outcome="succeeded", alive="no"),), "did not work any more"),
        ((VIOLATION, line(prize="root-only file read")), "not intact: root-only file read"),
        ((VIOLATION, line(how="exit 0")), "was not stopped by the kernel (exit 0)"),
        ((VIOLATION, line(how="exit 1")), "was not stopped by the kernel (exit 1)"),
        (
            ("own-pte: no page is left", line(how="exit 1")),
            "was not stopped by the kernel (exit 1); own-pte: no page is left",
        ),
        # It is the runner that stopped it then.
        ((VIOLATION, line(how="timeout 60")), "was not stopped by the kernel (timeout 60)"),
        ((line(),), "died (signal 11) without a violation"),
        # The violation of another program proves nothing.
        ((VIOLATION.replace("own-pte[", "other["), line()), "without a violation"),
        ((VIOLATION.replace("own-pte[", "own-pte2["), line()), "without a violation"),
    ],
)
def test_everything_else_is_an_error(lines: tuple[str, ...], says: str) -> None:
    outcome, detail = verdict(*lines)
    assert outcome == ERROR
    assert says in detail


def test_a_long_name_as_the_kernel_cuts_it() -> None:
    name = "a-name-of-twenty-chr"
    said = VIOLATION.replace("own-pte", name[:15])
    assert attack.judge("um", "on", name, [said, line(name=name)]).outcome == BLOCKED


def test_each_attack_has_its_own_piece_of_the_console() -> None:
    last = line(name="own-pmd")
    pieces = attack.pieces(["boot", VIOLATION, line(), "between", last, "end"])
    assert pieces == {"own-pte": [["boot", VIOLATION, line()]], "own-pmd": [["between", last]]}
    assert attack.judge("um", "on", "own-pmd", pieces["own-pmd"][0]).outcome == ERROR


def test_each_run_of_an_attack_has_its_own_piece_of_the_console() -> None:
    pieces = attack.pieces([VIOLATION, line(), ABSENT_LINE, line(), ABSENT_LINE])
    assert pieces == {
        "own-pte": [[VIOLATION, line()], [line()]],
        "leaked-level": [[ABSENT_LINE], [ABSENT_LINE]],
    }


def test_absent_as_the_guest_says_so() -> None:
    found = attack.judge("um", "on", "leaked-level", [line(), ABSENT_LINE])
    assert (found.outcome, found.detail) == (ABSENT, "no huge pages")
    # Another attack is absent, and this one was not heard of.
    assert attack.judge("um", "on", "own-pte", [ABSENT_LINE]).outcome == ERROR


def outcomes(*what: str) -> list[Outcome]:
    return [Outcome("um", "x", "on", one, f"{one}, {i}") for i, one in enumerate(what)]


@pytest.mark.parametrize(
    ("came", "outcome", "detail", "counts"),
    [
        ([BLOCKED], BLOCKED, "blocked, 0", {BLOCKED: 1}),
        ([SUCCEEDED] * 3, SUCCEEDED, "succeeded, 0", {SUCCEEDED: 3}),
        ([ABSENT] * 2, ABSENT, "absent, 0", {ABSENT: 2}),
        (
            [BLOCKED, BLOCKED, SUCCEEDED],
            ERROR, "blocked 2 times, succeeded 1 times: succeeded, 2", {BLOCKED: 2, SUCCEEDED: 1},
        ),
        (
            [ERROR, BLOCKED, BLOCKED],
            ERROR, "blocked 2 times, error 1 times: error, 0", {BLOCKED: 2, ERROR: 1},
        ),
    ],
)  # fmt: skip
def test_several_runs_have_to_agree(
    came: list[str], outcome: str, detail: str, counts: dict[str, int]
) -> None:
    merged = attack.merge(outcomes(*came))
    assert (merged.outcome, merged.detail, merged.counts) == (outcome, detail, counts)


def test_the_list_of_attacks() -> None:
    said = ("own-pte in-scope writes its own", "cred out-of-scope a b")
    assert attack.parse_list(["Linux version", *said, "x y z", ""]) == [
        Attack("own-pte", True, "writes its own"), Attack("cred", False, "a b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "in_scope", "outcome", "expected"),
    [
        ("off", True, SUCCEEDED, True), ("off", True, BLOCKED, False), ("off", True, ERROR, False),
        ("off", False, SUCCEEDED, True), ("off", False, ERROR, False),
        ("on", True, BLOCKED, True), ("on", True, SUCCEEDED, False), ("on", True, ERROR, False),
        ("on", False, SUCCEEDED, True), ("on", False, BLOCKED, False), ("on", False, ERROR, False),
        ("off", True, ABSENT, False), ("on", True, ABSENT, False), ("on", False, ABSENT, False),
    ],
)  # fmt: skip
def test_what_is_expected(variant: str, in_scope: bool, outcome: str, expected: bool) -> None:
    way = get_variant(get_target("um"), variant)
    came = Outcome("um", "x", variant, outcome, "")
    assert attack.as_expected(Attack("x", in_scope, ""), came, way, {}) is expected


@pytest.mark.parametrize(
    ("name", "built", "stopped"),
    [
        ("cred", "y", True), ("cred", "n", False), ("own-pte", "n", True),
        # There is no such option without that of credentials.
        ("saved-reg", "n", False),
    ],
)  # fmt: skip
def test_what_a_kernel_without_an_option_does_not_stop(
    name: str, built: str, stopped: bool
) -> None:
    way, options = get_variant(get_target("um"), "on"), {"CONFIG_KPKEYS_HARDENED_CRED": built}
    came = Outcome("um", name, "on", BLOCKED if stopped else SUCCEEDED, "")
    assert attack.as_expected(Attack(name, True, ""), came, way, options)


def test_options_are_of_attacks_that_there_are() -> None:
    assert attack._STOPPED_BY.keys() <= set(trial.known_attacks())


def test_the_json_of_an_attack() -> None:
    assert Outcome("um", "own-pte", "on", BLOCKED, "why", "plain", {BLOCKED: 2}).as_json() == {
        "target": "um", "attack": "own-pte", "variant": "on", "outcome": "blocked", "detail": "why",
        "flavour": "plain", "counts": {"blocked": 2},
    }  # fmt: skip


# === The checker =================================================================================

CLEAN = ("tables 120", "untagged 0", "aliases 0", "foreign 0")


def report(
    console: tuple[str, ...],
    *,
    errors: int = 0,
    audits: tuple[Audit, ...] | None = None,
    **how: Any,
) -> check.Report:
    result = ended(console, splats=tuple(x for x in console if x.startswith("WARNING")), **how)
    return check.Report(
        "um", "on", check.parse_walks(console), (), 10, errors, result.splats, result,
        audits=audits,
    )  # fmt: skip


def test_a_message_of_the_kernel_behind_a_count() -> None:
    console = ("tables 120pagefault_out_of_memory: 13 callbacks suppressed", *CLEAN[1:])
    assert check.parse_walks(console) == (Walk(120, 0, 0, 0, 0),)


def test_audits_of_address_space_isolation() -> None:
    console = (*CLEAN, *AUDIT, *CLEAN, *AUDIT[:2], "leaks 1", "missing 2", "stale 3",
               "aliases 0", "exit_fault 6", *AUDIT[6:7], "unrestricted 4[ 1.0] x")  # fmt: skip
    first, last = asi.parse_audits(console)
    assert (first, last) == (Audit(9, 9, 0, 0, 0, 0, 5, 0), Audit(9, 9, 1, 2, 3, 0, 5, 4))
    # What is missing is slow only.
    assert first.clean and replace(first, missing=2).clean
    # A kernel with blocks of one kind does not isolate, nor one that never enters.
    for field in ("sensitive", "ordinary", "enter"):
        assert not replace(first, **{field: 0}).clean
    for field in ("leaks", "stale", "aliases", "unrestricted"):
        assert not replace(first, **{field: 1}).clean
    walked = (*CLEAN, *CLEAN)
    assert report(walked, audits=(first, first)).ok
    assert not report(walked, audits=(first, last)).ok
    # Asked for, and not there.
    assert not report(walked, audits=()).ok
    assert not report(walked, audits=(first,)).ok


def test_two_walks() -> None:
    console = (*CLEAN, "@stress: ops=5 errors=0", "tables 130", "untagged 0", "foreign 0")
    assert check.parse_walks(console) == (Walk(120, 0, 0, 0, 0), Walk(130, 0, 0, 0, 0))
    assert report(console).ok
    assert report(console).as_json() == {
        "target": "um", "variant": "on", "tables": 130, "untagged": 0, "foreign": 0, "splats": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "second",
    [
        ("tables 0", "untagged 0", "foreign 0"),
        ("tables 9", "untagged 1", "foreign 0"),
        ("tables 9", "untagged 0", "aliases 1", "foreign 0"),
        ("tables 9", "untagged 0", "unlinked 1", "foreign 0"),
        ("tables 9", "untagged 0", "foreign 1"),
        ("untagged 0", "foreign 0"),
        ("tables 9", "untagged 0"),
        (),
        ("cat: /sys/kernel/debug/kpkeys/check: No such file or directory",),
        ("tables 9", "untagged 0", "foreign 0", "WARNING: at mm"),
        ("tables 9", "untagged 0", "foreign 0", *CLEAN),
    ],
)
def test_a_walk_that_is_not_clean(second: tuple[str, ...]) -> None:
    assert not report((*CLEAN, *second)).ok


def test_a_bad_end_is_bad() -> None:
    assert not report(CLEAN * 2, status=1).ok
    assert not report(CLEAN * 2, outcome="hang").ok
    assert not report(CLEAN * 2, errors=1).ok
    assert report(CLEAN * 2).ok


def test_the_worst_walk_is_reported() -> None:
    console = ("tables 9", "untagged 2", "aliases 1", "foreign 4", *CLEAN, "WARNING: x")
    assert report(console).as_json() == {
        "target": "um", "variant": "on", "tables": 120, "untagged": 3, "foreign": 4, "splats": 1,
    }  # fmt: skip


# === KUnit =======================================================================================

GOOD = """\
[    0.1] booting
KTAP version 1
1..2
    KTAP version 1
    # Subtest: kpkeys_levels
    1..3
    ok 1 one
    ok 2 two # SKIP no protection keys
    ok 3 three
ok 1 kpkeys_levels
    KTAP version 1
    # Subtest: kpkeys_pgtables
    1..1
    ok 1 guard
ok 2 kpkeys_pgtables
"""

needs_parser = pytest.mark.skipif(
    not (REAL_BUILD / "src/tools/testing/kunit/kunit_parser.py").exists(),
    reason="no source: redoubt source",
)


def kunit(text: str) -> list[ktap.Suite]:
    return ktap.parse(REAL_BUILD / "src", text.splitlines())


def failed(suites: list[ktap.Suite]) -> int:
    return sum(suite.failed for suite in suites)


@pytest.mark.guest
@needs_parser
class TestKunit:
    def test_good(self) -> None:
        assert kunit(GOOD) == [
            ktap.Suite("kpkeys_levels", 2, 0, 1), ktap.Suite("kpkeys_pgtables", 1, 0, 0),
        ]  # fmt: skip

    def test_failing(self) -> None:
        text = GOOD.replace(
            "    ok 3 three\nok 1",
            "    # three: EXPECTATION FAILED at mm/a.c:7\n    Expected 1 == 2\n"
            "    not ok 3 three\nnot ok 1",
        )
        first, second = kunit(text)
        assert (first.passed, first.failed, first.skipped) == (1, 1, 1)
        assert first.failures == ("kpkeys_levels.three",)
        assert first.diagnostics == (
            "# three: EXPECTATION FAILED at mm/a.c:7", "Expected 1 == 2",
        )  # fmt: skip
        assert first.cases == (
            Case("one", PASSED), Case("two", SKIPPED),
            Case("three", FAILED, "# three: EXPECTATION FAILED at mm/a.c:7\nExpected 1 == 2"),
        )  # fmt: skip
        assert second.failed == 0

    @pytest.mark.parametrize("lines", range(1, 14))
    def test_truncated(self, lines: int) -> None:
        """A kernel that dies anywhere in the tests has failed, whether it says so or not."""
        for end in ((), ("Kernel panic - not syncing: oops",)):
            assert failed(kunit("\n".join((*GOOD.splitlines()[:lines], *end))))

    @pytest.mark.parametrize("text", ["", "Linux version 7.3.4\n", "KTAP version 1\n1..0\n"])
    def test_empty(self, text: str) -> None:
        assert failed(kunit(text))
        assert sum(suite.passed for suite in kunit(text)) == 0

    def test_a_failure_hidden_by_a_skip(self) -> None:
        said = "    # two: EXPECTATION FAILED at mm/kpkeys/tests/levels_test.c:1\n"
        assert failed(kunit(GOOD.replace("    ok 2 two", f"{said}    ok 2 two"))) == 1

    def test_a_suite_without_tests(self) -> None:
        sub = "    KTAP version 1\n    # Subtest: kpkeys\n    1..0\n"
        assert failed(kunit(f"KTAP version 1\n1..1\n{sub}ok 1 kpkeys\n"))

    @pytest.mark.parametrize("line", ["    ok 1 one\n", "    ok 2 two", "ok 1 kpkeys_levels"])
    def test_a_line_that_was_lost(self, line: str) -> None:
        lost = [one for one in GOOD.splitlines(keepends=True) if not one.startswith(line)]
        assert len(lost) == len(GOOD.splitlines()) - 1
        suites = kunit("".join(lost))
        assert ktap.incomplete(suites) and failed(suites)

    def test_no_line_was_lost(self) -> None:
        assert not ktap.incomplete(kunit(GOOD))
        # Or beside a failure.
        text = GOOD.replace("    ok 1 one\n", "").replace("    ok 3 three", "    not ok 3 three")
        assert not ktap.incomplete(kunit(text))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (4, None),
        (5, ("kpkeys_levels", "kpkeys_levels, in its first test")),
        (6, ("kpkeys_levels", "kpkeys_levels, in its first test")),
        (8, ("kpkeys_levels", "kpkeys_levels, after two")),
        (10, None),
        (12, ("kpkeys_pgtables", "kpkeys_pgtables, in its first test")),
        (15, None),
    ],
)
def test_where_the_console_ends(lines: int, expected: tuple[str, str] | None) -> None:
    assert ktap.unfinished(GOOD.splitlines()[:lines]) == expected


def test_where_the_console_ends_within_a_test_with_parameters() -> None:
    text = RUNS.replace("    ok 1 writers_write", "    not ok 1 writers_write").splitlines()
    assert ktap.unfinished(text) is None
    assert ktap.unfinished(text[:-2]) == (
        "kpkeys_pgtables", "kpkeys_pgtables.writers_write, after set_pte",
    )  # fmt: skip
    assert ktap.unfinished(text[:-1]) == ("kpkeys_pgtables", "kpkeys_pgtables, after writers_write")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    kernel = Source(REAL_BUILD / "src", "7.3.4")
    monkeypatch.setattr(source, "obtain", lambda progress: kernel)
    return Run(X86_64, "auto", False, Silent())


@pytest.mark.guest
@needs_parser
@pytest.mark.parametrize(
    ("outcome", "how"), [("hang", "hung"), ("panic", "panicked"), ("finished", "stopped")]
)
def test_the_words_for_a_test_without_an_end(outcome: str, how: str, run: Run) -> None:
    text = GOOD.replace("ok 1 one", "not ok 1 one").splitlines()[:8]
    items = boots.suites(run, ended(text, outcome), get_variant(X86_64, "on"), 1, "")
    (item,) = [one for one in items if one.name.startswith("kpkeys_levels")]
    assert item.failed
    assert item.detail.splitlines()[0] == (
        f"failed: kpkeys_levels.one; {how} in kpkeys_levels, after two; log: log"
    )


@pytest.mark.guest
@needs_parser
@pytest.mark.parametrize(
    ("lost", "how", "starts", "wrong"),
    [
        (0, {}, 1, False), (1, {}, 2, False), (2, {}, 2, True),
        # What is wrong beside a lost line no other boot mends.
        (1, {"outcome": "hang"}, 1, True), (1, {"status": 1}, 1, True),
        (1, {"splats": ("WARNING: x",)}, 1, True),
    ],
)  # fmt: skip
def test_boots_again_if_a_line_was_lost(
    lost: int, how: dict[str, Any], starts: int, wrong: bool, run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    consoles = [GOOD.replace("    ok 1 one\n", "")] * lost + [GOOD]
    left = list(consoles)
    monkeypatch.setattr(boots, "boot", lambda *_, **__: ended(left.pop(0).splitlines(), **how))
    items = list(boots.kunit(run, MagicMock(), get_variant(X86_64, "on")))
    assert len(consoles) - len(left) == starts
    assert any(one.failed for one in items) == wrong


# As two suites look that were run one by one, with what a kernel says before and between.
RUNS = """[    2.851589] Restarting tasks: Done
[    2.888323]     KTAP version 1
[    2.888370]     # Subtest: kpkeys_levels
[    2.888964]     1..2
[    2.893797]     ok 1 one
[    2.896471]     ok 2 two # SKIP not here
[    2.986973] # kpkeys_levels: pass:1 fail:0 skip:1 total:2
[    2.987231] ok 1 kpkeys_levels
[    3.010575]     KTAP version 1
[    3.010629]     # Subtest: kpkeys_pgtables
[    3.010687]     1..1
[    3.022033]         KTAP version 1
[    3.022033]         # Subtest: writers_write
[    3.026000]         1..1
[    3.032026]         ok 1 set_pte
[    3.069448]     ok 1 writers_write
[    3.268444] ok 1 kpkeys_pgtables
"""


def kunit_runs(text: str) -> list[ktap.Suite]:
    return ktap.parse_runs(REAL_BUILD / "src", text.splitlines())


@pytest.mark.guest
@needs_parser
class TestKunitRuns:
    def test_good(self) -> None:
        assert kunit_runs(RUNS) == [
            ktap.Suite("kpkeys_levels", 1, 0, 1), ktap.Suite("kpkeys_pgtables", 1, 0, 0),
        ]  # fmt: skip

    def test_failing(self) -> None:
        text = RUNS.replace("ok 1 one", "not ok 1 one").replace(
            "ok 1 kpkeys_l", "not ok 1 kpkeys_l"
        )
        first, second = kunit_runs(text)
        assert (first.failed, first.failures) == (1, ("kpkeys_levels.one",))
        assert second.failed == 0

    @pytest.mark.parametrize("lines", [*range(2, 8), *range(9, 17)])
    def test_truncated(self, lines: int) -> None:
        assert failed(kunit_runs("\n".join(RUNS.splitlines()[:lines])))

    def test_none(self) -> None:
        (suite,) = kunit_runs("Linux version 7.3.4\n")
        assert (suite.passed, suite.failed) == (0, 1)


LISTED = "own-pte in-scope own PTE maps a file"
TOLD = "@attack: own-pte outcome=succeeded prize=secret attacker=exit 0 alive=yes"
OUT = line(how="exit 4")


@pytest.mark.parametrize(
    ("consoles", "status", "times", "outcome", "boots"),
    [
        ([(LISTED, TOLD)], 0, 1, SUCCEEDED, 1),
        ([(LISTED, "@attack: own-R13: 80"), (LISTED, TOLD)], 0, 1, SUCCEEDED, 2),
        ([(LISTED, "@attack: own-R13: 80")] * 3, 0, 1, ERROR, 3),
        # The runner says that it failed: no other boot mends that.
        ([(LISTED,)], 1, 1, ERROR, 1),
        ([(LISTED, TOLD, TOLD)], 0, 2, SUCCEEDED, 1),
        ([(LISTED, TOLD), (LISTED, TOLD, TOLD)], 0, 2, SUCCEEDED, 2),
        ([(LISTED, TOLD)], 1, 2, ERROR, 1),
        ([(LISTED, ABSENT_LINE.replace("leaked-level", "own-pte"))], 0, 1, ABSENT, 1),
        ([(LISTED, "@at[ 9] kpkeys" + REASON, OUT), (LISTED, REASON, OUT)], 0, 1, BLOCKED, 2),
        ([(LISTED, OUT)] * 3, 0, 1, ERROR, 3),
    ],
)
def test_an_illegible_console_is_asked_for_again(
    consoles: list[tuple[str, ...]], status: int, times: int, outcome: str, boots: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    booted = say(monkeypatch, *consoles, status=status)
    _, (found,), _ = attack.run(machine(), get_variant(X86_64, "off"), Silent(), times=times)
    assert (found.outcome, len(booted)) == (outcome, boots)


def test_only_some_attacks_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    booted = say(monkeypatch, (LISTED, "cred out-of-scope uid 0", TOLD, TOLD))
    off = get_variant(X86_64, "off")
    attacks, (found,), _ = attack.run(
        machine(), off, Silent(), flavour="plain", times=2, only=["own-pte"]
    )
    assert [one.name for one in attacks] == ["own-pte"]
    assert (found.outcome, found.counts, found.flavour) == (SUCCEEDED, {SUCCEEDED: 2}, "plain")
    assert booted[0][1][-4:] == ["/bin/attack", "--repeat", "2", "own-pte"]
    with pytest.raises(GuestError, match="there is no attack 'own'"):
        attack.run(machine(), off, Silent(), only=["own"])
