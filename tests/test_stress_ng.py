# SPDX-License-Identifier: GPL-2.0-only
"""What stress-ng did, could not do or was not asked for, and what makes a run a failure."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import WALK, Done, pool
from guests import ended, machine, say

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import build, rootless
from redoubt.machine import host
from redoubt.machine.boot import Machine, Result
from redoubt.suite import flavours
from redoubt.suite.run import Run
from redoubt.targets import ARM64, TARGETS, UM, X86_64, Target, get_variant
from redoubt.trial import check, experiment, stress
from redoubt.trial.stress import CLASSES

ON, OFF = get_variant(UM, "on"), get_variant(UM, "off")


def recorded(name: str) -> str:
    """What stress-ng 0.19.02 has said, with --log-brief --metrics, and its figures."""
    return (Path(__file__).with_name("logs") / f"stress-ng-{name}").read_text()


SAID, FIGURES = recorded("passed.log"), recorded("passed.yaml")
SKIPPED, NO_FIGURES = recorded("skipped.log"), "metrics:\n...\n"
# A worker of fork got a SIGSEGV.
FAILED, FAILED_FIGURES = recorded("failed.log"), recorded("failed.yaml")
# Files may have one block here: nothing was done, which stress-ng calls passed, and the report ends
# where the block did.
CUT = FIGURES[: FIGURES.index("47.57")].replace("fork", "memfd").replace("920", "0")
PASSED_NOTHING = SKIPPED.replace(
    "skipped: 2: userfaultfd (1) swap (1)\npassed: 0", "skipped: 0\npassed: 2: memfd (1) shm (1)"
)


# === A guest that says what we want ==============================================================

# Reports of a round in which each class that um has did something.
ALIVE = ("malloc", "fork", "vm", "mmap", "mremap", "vma")


def report_of(**operations: int) -> str:
    """The figures of stress-ng for stressors and their operations."""
    entries = [
        f"    - stressor: {name.replace('_', '-')}\n      bogo-ops: {done}\n"
        for name, done in operations.items()
    ]
    return "metrics:\n" + "\n".join(entries) + "\n...\n"


def asked(*stressors: str) -> str:
    return stress.words(stressors)


@cache
def digest(said: str, figures: str) -> list[str]:
    """What guest/stress/stress.sh shows of it."""
    script = (paths.repo() / "guest/stress/stress.sh").read_text()
    function = script[script.index("digest() {") :]
    function = function[: function.index("\n}\n") + 3]
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / one for one in ("said", "yaml")]
        for file, text in zip(files, (said, figures), strict=True):
            file.write_text(text)
        words = ["sh", "-c", f'{function} digest "$@"', "sh", *map(str, files)]
        return subprocess.check_output(words, text=True).splitlines()


def turn(number: int, stressors: Sequence[str], said: str = SAID, figures: str = "",
         status: str = "0") -> list[str]:  # fmt: skip
    """A round as guest/stress/stress.sh puts it on the console."""
    shown = digest(said, figures or report_of(**dict.fromkeys(stressors, 5)))
    begun = f"@stress-ng: begin {number} {asked(*stressors)}"
    return [begun, *shown, f"@stress-ng: end {number} status={status}"]


def part(*turns: list[str], checks: int = 2, refused: int = 0, modules: int = 0, cpus: int = 0,
         failed: int = 0, swap_kb: int = 0) -> list[str]:  # fmt: skip
    """One call of guest/stress/stress.sh."""
    return [
        *(line for one in turns for line in one),
        *WALK * checks,
        f"@stress-ng: checks={checks} refused={refused}",
        f"@stress-ng: modules={modules} cpus={cpus} failed={failed} swap_kb={swap_kb}",
        "@stress-ng: over",
    ]


FIRST, SECOND = part(turn(0, ALIVE)), part(turn(1, ALIVE))
LAST = ["switches_pgtables 9", "violations 0"]


def console(
    first: list[str] = FIRST, second: list[str] = SECOND, **replaced: list[str]
) -> list[str]:
    """A good run, but for what is replaced."""
    return [
        *replaced.get("boot", pool()), *WALK, *first,
        *replaced.get("half", pool()), *WALK, *second,
        *replaced.get("at_last", pool()), *WALK, *replaced.get("faults", []),
        *replaced.get("statistics", LAST),
    ]  # fmt: skip


Configured = Callable[..., Machine]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """A machine with a kernel whose configuration is these fragments."""

    def make(*fragments: str, target: Target = UM, cpus: int = 2) -> Machine:
        names = fragments or (*target.fragments, "kpkeys")
        where = tmp_path / "-".join((target.name, *names))
        where.mkdir(exist_ok=True)
        text = "".join(build.fragment(one).read_text() for one in names)
        (where / ".config").write_text(text)
        return machine(target, where, cpus=cpus, memory_mb=stress.MEMORY_MB)

    return make


Judge = Callable[..., stress.Report]


@pytest.fixture
def judge(configured: Configured) -> Judge:
    """What is made of a console."""

    def make(
        lines: list[str], machine: Machine | None = None, variant: str = "on", **how: Any
    ) -> stress.Report:
        way = get_variant(UM, variant)
        return stress.parse(ended(lines, **how), machine or configured(), way, 60)

    return make


# === What stress-ng says =========================================================================


def test_operations_are_read_from_its_report() -> None:
    (one,) = stress.parse_rounds(turn(7, ("fork", "vm"), SAID, FIGURES))
    assert (one.number, one.stressors, one.status, one.whole) == (7, ("fork", "vm"), "0", True)
    assert one.operations == {"fork": 920, "vm": 66565}
    assert one.listed("passed") == ("fork", "vm")
    assert one.listed("skipped") == one.listed("failed") == ()


def test_no_more_is_shown_than_what_is_judged() -> None:
    """User-Mode Linux was seen to wait for ever for its host to take more than it can buffer."""
    shown = turn(7, ("fork", "vm"), SAID, FIGURES)
    assert sum(len(line) + 2 for line in shown) < 512
    assert "| failed: 0" in shown


def test_messages_of_the_kernel_and_the_checker_between_do_no_harm() -> None:
    lines = turn(7, ("fork", "vm"), SAID, FIGURES)
    mixed = [word for line in lines for word in (line, "[    1.5] CPU1: online", *WALK)]
    assert list(stress.parse_rounds(mixed)) == list(stress.parse_rounds(lines))


def test_what_is_skipped_says_why() -> None:
    (one,) = stress.parse_rounds(turn(1, ("userfaultfd", "swap"), SKIPPED, NO_FIGURES))
    assert (one.operations, one.whole) == ({}, True)
    assert one.listed("skipped") == ("userfaultfd", "swap")
    assert one.about("userfaultfd") == "stressor will be skipped, insufficient privilege"
    assert one.about("swap").startswith("will be skipped, need to be running with CAP_SYS_ADMIN")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("disabled 'mlock' as it may hang the machine", "as it may hang the machine"),
        ("mlock stressor must not run as root, skipping it", "must not run as root, skipping it"),
        ("stress-ng: fail:  [97] mlock: munlock failed, errno=12", "munlock failed, errno=12"),
        ("mlock-more: not of it", ""),
        ("mlock: using 4M per stressor instance (total 4M of 971.18M available memory)", ""),
    ],
)
def test_each_way_to_say_why(said: str, why: str) -> None:
    (one,) = stress.parse_rounds(turn(1, ("mlock",), said, NO_FIGURES))
    assert one.about("mlock") in (why, f"stressor {why}")


def test_figures_are_nothing_that_is_said_of_a_stressor() -> None:
    (one,) = stress.parse_rounds(turn(1, ("fork", "vm"), SAID, FIGURES))
    assert one.about("fork") == ""
    assert one.about("vm") == ""


@pytest.mark.parametrize("figures", [CUT, FIGURES.removesuffix("\n...\n"), "metrics:\n"])
def test_a_report_that_is_cut_short_is_not_whole(figures: str) -> None:
    (one,) = stress.parse_rounds(turn(1, ("memfd", "shm"), PASSED_NOTHING, figures))
    assert not one.whole


def test_a_round_without_an_end_is_seen() -> None:
    lines = [*turn(1, ("fork",)), "@stress-ng: begin 2 --vm 1 --vm-bytes 8M --mmap 1", "| vm: x"]
    one, two = stress.parse_rounds(lines)
    assert (one.status, two.status) == ("0", None)
    assert two.stressors == ("vm", "mmap")
    # Another beginning is no end, either.
    assert [r.status for r in stress.parse_rounds([*lines, *turn(3, ("vm",))])] == ["0", None, "0"]


# === What is a failure ===========================================================================


def test_a_good_run_has_no_problems(judge: Judge) -> None:
    report = judge(console())
    assert report.problems == ()
    assert report.operations["fork"] == 10
    assert report.leaked == 0
    assert report.left_out == {"userfaultfd": "no CONFIG_USERFAULTFD", "swap": "no CONFIG_SWAP"}


def only(judge: Judge, word: str, lines: list[str], **how: Any) -> None:
    """There is one problem, which has the word in it."""
    (problem,) = judge(lines, **how).problems
    assert word in problem


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind not in ("userfaultfd", "swap")])
def test_a_class_that_did_nothing(judge: Judge, kind: str) -> None:
    idle = [one for one in ALIVE if one not in CLASSES[kind]]
    lines = console(part(turn(0, ALIVE, figures=report_of(**dict.fromkeys(idle, 5)))),
                    part(turn(1, idle)))  # fmt: skip
    only(judge, f"class {kind}: no operations", lines)


def test_a_class_of_zeros_did_nothing_even_if_it_passed(judge: Judge) -> None:
    figures = report_of(malloc=5, fork=5, vm=0, mmap=5, mremap=5, vma=5)
    lines = console(part(turn(0, ALIVE, figures=figures)), part(turn(1, ALIVE, figures=figures)))
    only(judge, "class vm: no operations", lines)
    (one,) = (one for one in judge(lines).stressors if one.name == "vm")
    assert (one.outcome, one.rounds) == (stress.IDLE, 2)


def test_a_class_that_the_kernel_could_run_is_not_let_off(
    judge: Judge, configured: Configured
) -> None:
    machine = configured(*X86_64.fragments, *X86_64.flavours["selftests"], target=X86_64)
    changed = {"modules": 3, "cpus": 2}
    lines = console(part(turn(0, ALIVE), **changed), part(turn(1, ALIVE), **changed, swap_kb=9))
    problems = judge(lines, machine).problems
    assert problems == ("class userfaultfd: no operations", "class swap: no operations")
    # Nor if stress-ng has skipped it.
    skipped = console(part(turn(0, ALIVE), **changed),
                      part(turn(1, ALIVE), turn(2, ("userfaultfd", "swap"), SKIPPED, NO_FIGURES),
                           **changed, swap_kb=9))  # fmt: skip
    report = judge(skipped, machine)
    assert report.problems == problems
    (one,) = (one for one in report.stressors if one.name == "userfaultfd")
    why = "stressor will be skipped, insufficient privilege"
    assert (one.outcome, one.why) == (stress.SKIPPED, why)


def test_what_fails_is_told_with_its_reason(judge: Judge) -> None:
    second = part(turn(1, ALIVE), turn(2, ("fork", "vm"), FAILED, FAILED_FIGURES, "2"))
    only(judge, "round 2: fork failed", console(second=second))
    (one,) = (one for one in judge(console(second=second)).stressors if one.name == "fork")
    assert (one.outcome, one.operations) == (stress.FAILED, 10)


@pytest.mark.parametrize("figures", [CUT, "metrics:"])
def test_a_round_without_a_whole_report(judge: Judge, figures: str) -> None:
    second = part(turn(1, ALIVE), turn(2, ("memfd", "shm"), PASSED_NOTHING, figures, "0"))
    only(judge, "round 2: no whole report, status 0: successful run", console(second=second))


def test_stress_ng_that_is_not_there(judge: Judge) -> None:
    said = "ash: stress-ng: not found"
    gone = turn(0, ALIVE, said, "metrics:", "127")
    problems = judge(console(part(gone), part(gone))).problems
    assert problems[0] == f"round 0: no whole report, status 127: {said}"


def test_a_stressor_that_was_late_is_no_failure_but_did_not_run(judge: Judge) -> None:
    late = turn(2, ("bigheap", "munmap"), SAID, report_of(munmap=3), "late")
    report = judge(console(second=part(turn(1, ALIVE), late)))
    assert report.problems == ()
    found = {one.name: (one.outcome, one.why) for one in report.stressors}
    assert found["bigheap"] == (stress.LATE, "no end of round 2")
    # It was ended by force, and left nothing.
    killed = turn(2, ("bigheap", "munmap"), "terminating", "\n", "late")
    assert judge(console(second=part(turn(1, ALIVE), killed))).ok
    others = part(turn(0, [one for one in ALIVE if one != "vm"]))
    killed = turn(1, ("vm",), "", "\n", "late")
    only(judge, "class vm: no operations", console(others, part(killed)))
    assert found["munmap"] == (stress.RAN, "")
    assert found["env"] == (stress.UNREACHED, "the time was up")
    assert found["swap"] == (stress.LEFT_OUT, "no CONFIG_SWAP")
    assert found["madvise"] == (stress.LEFT_OUT, stress.TOO_SLOW["madvise"])


def test_a_guest_that_hangs_says_where(judge: Judge) -> None:
    begun = f"@stress-ng: begin 1 {asked('vm', 'mmap')}"
    lines = [*pool(), *WALK, *FIRST, *pool(), *WALK, begun]
    (problem,) = judge(lines, outcome="hang", detail="no end after 9 s").problems
    assert problem == ("the guest did not survive: hang in round 1 (vm, mmap): no end after 9 s")
    (problem,) = judge([], outcome="died").problems
    assert problem == "the guest did not survive: died"
    dirty = ["tables 9", "untagged 1", "aliases 0", "foreign 0"]
    assert len(judge([*lines, *dirty], outcome="hang").problems) == 2


def test_a_command_that_fails_in_the_guest(judge: Judge) -> None:
    only(judge, "ended with status 125", console(), status=125)
    short = [line for line in console() if line != "@stress-ng: over"]
    only(judge, "0 parts of the stress ended, expected 2", short)


def test_what_the_kernel_says_counts_but_for_traces_of_refused_memory(judge: Judge) -> None:
    provoked = "Unable to handle swap header version -2"
    assert judge(console(), splats=("Call Trace:", provoked)).ok
    only(judge, "Unable to handle", console(), splats=("Unable to handle kernel paging request",))
    only(judge, "WARNING: mm", console(), splats=("WARNING: mm", "Call Trace:"))
    only(judge, "kpkeys: violation", console(), violations=("kpkeys: violation: write",))


@pytest.mark.parametrize(
    ("statistics", "word"), [(["violations 1"], "1 violations"), ([], "not seen")]
)
def test_violations_that_the_kernel_counted(judge: Judge, statistics: list[str], word: str) -> None:
    only(judge, word, console(statistics=statistics))


def test_a_kernel_that_does_not_count_is_not_asked(judge: Judge, configured: Configured) -> None:
    mute = configured(*UM.fragments, "kpkeys-bench")
    assert judge(console(statistics=[]), mute).ok
    asked = [one[-1] for one in stress.commands(mute, True, 60)]
    assert check.STATS not in asked
    assert check.FILE in asked


def test_a_checker_that_finds_something_or_does_not_run(judge: Judge) -> None:
    dirty = ["untagged pte 0x60a4b000 of vm", "tables 9", "untagged 1", "aliases 0", "foreign 0"]
    report = judge(console([*FIRST, *dirty]))
    assert [problem[:10] for problem in report.problems] == ["not clean:"]
    assert report.exceptions == (dirty[0],)
    never = part(turn(0, ALIVE), checks=0)
    only(judge, "never ran during the stress", console(never, never))
    only(judge, "failed 1 times", console(second=part(turn(1, ALIVE), refused=1)))
    lost = [line for line in SECOND if line != "foreign 0"]
    only(judge, "5 walks of the checker, expected 7", console(second=lost))


@pytest.mark.parametrize(
    ("at_last", "word"),
    [
        ({"free": 385}, "5 pages"),
        ({"free": 391}, "-1 pages"),
        ({"blocks": 4, "free": 390 + 3 * 512, "blocks_added": 4}, "4 blocks, 1 after boot"),
        ({"stuck": 4}, "stuck 4"),
        ({"bad_frees": 1}, "bad_frees 1"),
        ({"reserve": 1, "free": 391}, "reserve 1"),
    ],
)
def test_a_pool_that_is_not_as_it_was(judge: Judge, at_last: dict[str, int], word: str) -> None:
    assert any(word in problem for problem in judge(console(at_last=pool(**at_last))).problems)


def test_a_short_run_is_judged_by_what_was_after_boot(judge: Judge, monkeypatch: Any) -> None:
    monkeypatch.setattr(stress, "_SHORT_S", 61)
    short = [*pool(), *WALK, *FIRST, *pool(), *WALK, *LAST]
    assert judge(short).ok
    short = [*pool(), *WALK, *FIRST, *pool(free=385), *WALK, *LAST]
    only(judge, "part 1: 5 pages more", short)
    assert not judge(console()).ok


def test_a_table_that_stays_may_keep_a_block(judge: Judge) -> None:
    def later(tables: int, empty: int = 0) -> list[str]:
        shown = pool(blocks=5, blocks_added=5, tables=tables, free=490 + 4 * 512 - tables)
        return [line.replace("empty 0", f"empty {empty}") for line in shown]

    assert judge(console(at_last=later(102))).ok
    only(judge, "part 2: 5 blocks, 1 after boot", console(at_last=later(101)))
    assert judge(console(at_last=later(102, empty=2))).ok
    only(judge, "3 blocks are kept", console(at_last=later(102, empty=3)))


def test_tables_that_stay_keep_no_more_than_four_blocks_at_the_end_of_a_long_run(
    judge: Judge, monkeypatch: Any
) -> None:
    many = pool(blocks=6, blocks_added=6, tables=120, free=490 + 5 * 512 - 120)
    assert judge(console(at_last=many)).ok
    monkeypatch.setattr(stress, "_LONG_S", 60)
    assert judge(console(half=many)).ok
    only(judge, "part 2: 6 blocks, 1 after boot", console(at_last=many))


def test_data_of_the_pool_may_grow_and_no_page_be_lost(judge: Judge) -> None:
    grown = pool(free=380, own=17)
    assert judge(console(half=grown, at_last=grown)).ok
    only(judge, "part 2: 1 pages more", console(half=grown, at_last=pool(free=379, own=17)))
    only(judge, "part 2: -1 pages more", console(half=grown, at_last=pool(free=380, own=18)))


def test_a_pool_that_was_not_seen(judge: Judge) -> None:
    only(judge, "seen at rest 2 times, expected 3", console(at_last=[]))
    for lost in ("stuck 0", "node 0 blocks 1 empty 0 small_pages 0 free 390 clean 390"):
        cut = [line for line in pool() if line != lost]
        only(judge, "seen at rest 2 times, expected 3", console(at_last=cut))


def test_a_kernel_that_protects_nothing_although_it_should(judge: Judge) -> None:
    tables = ["PageTables: 400 kB", "@settle: rounds=3"]
    report = judge(console(boot=tables, half=tables, at_last=tables))
    assert report.problems == ("the pool was seen at rest 0 times, expected 3",)
    assert list(stress.render(report))


def test_without_protection_there_is_no_checker_and_no_pool(judge: Judge) -> None:
    tables = ["PageTables: 400 kB", "@settle: rounds=3"]
    plain = [line for line in FIRST if line not in WALK and "checks=" not in line]
    lines = [*tables, *plain, *tables, *plain, *tables]
    report = judge(lines, variant="off")
    assert (report.problems, report.leaked) == ((), None)
    assert list(stress.render(report))


@pytest.mark.parametrize("what", ["modules", "cpus", "swap_kb"])
def test_what_the_machine_can_do_has_to_happen(
    judge: Judge, configured: Configured, what: str
) -> None:
    machine = configured(*X86_64.fragments, *X86_64.flavours["selftests"], target=X86_64)
    everything = (*ALIVE, "userfaultfd", "pageswap")
    done = {"modules": 2, "cpus": 2, "swap_kb": 9}

    def run(**changed: int) -> list[str]:
        return console(part(turn(0, everything), **changed), part(turn(1, everything), **changed))

    assert judge(run(**done), machine).ok
    only(judge, "configured, and nothing happened", run(**{**done, what: 0}), machine=machine)
    only(judge, "2 failures", run(**done, failed=1), machine=machine)


def fault_rounds(*names: str, injected: int = 9) -> list[str]:
    return [
        line
        for name in names
        for line in (
            *WALK, "@stress: ops=9 refused=7 errors=0", "@faults: checks tried=1 done=1",
            f"@faults: round={name} injected={injected} status=0", *pool(), *WALK,
        )
    ]  # fmt: skip


def test_allocations_fail_where_the_kernel_can_do_that(
    judge: Judge, configured: Configured
) -> None:
    machine = configured(*UM.fragments, *UM.flavours["debug"])
    assert judge(console(faults=fault_rounds(*stress.FAULT_ROUNDS)), machine).ok
    only(judge, "no faults in slab", console(faults=fault_rounds("pages")),
         machine=machine)  # fmt: skip
    none = fault_rounds(*stress.FAULT_ROUNDS, injected=0)
    assert judge(console(faults=none), machine).problems == tuple(
        f"round {name}: no faults" for name in stress.FAULT_ROUNDS
    )


# === What is asked for ===========================================================================


NAMES = [name for names in CLASSES.values() for name in names]


def test_every_stressor_has_a_turn_and_the_first_round_has_every_class() -> None:
    turns = stress.rounds({})
    assert len(turns[0]) == len(CLASSES)
    assert {name for turn in turns for name in turn} == set(NAMES)
    assert len(NAMES) == len(set(NAMES))
    assert set(stress.OPTIONS) | set(stress.SIZES) | set(stress.NEEDS) <= set(NAMES)


def test_a_class_of_one_is_not_in_every_round() -> None:
    one = [number for number, turn in enumerate(stress.rounds({})) if "userfaultfd" in turn]
    assert one == list(range(0, len(stress.rounds({})), 4))


# What stress-ng 0.19.02 says of less: "Value 1048576 is out of range for memfd-bytes".
FEWEST_MB = {"memfd": 2, "mmaptorture": 16, "numa": 1, "shm": 1, "shm-sysv": 1}


def test_sizes_are_none_that_stress_ng_refuses() -> None:
    for name, sizes in stress.SIZES.items():
        for size in sizes:
            kb = int(size[:-1]) * {"K": 1, "M": 1024}[size[-1]]
            assert kb >= 1024 * FEWEST_MB.get(name, 0)


def test_what_the_kernel_lacks_is_not_asked_for(configured: Configured) -> None:
    without = stress.left_out(configured())
    turns = stress.rounds(without)
    assert without["swap"] == without["pageswap"] == "no CONFIG_SWAP"
    assert not {name for one in turns for name in one} & set(without)
    assert len(turns[0]) == len(CLASSES) - 2


@pytest.mark.parametrize(
    ("options", "left_out"),
    [("", False), ("PREEMPTION", True), ("PREEMPTION PREEMPT_RCU", False)],
)
def test_readers_that_keep_a_writer_from_its_cpu_are_not_asked_for(
    configured: Configured, tmp_path: Path, options: str, left_out: bool
) -> None:
    machine = configured(*X86_64.fragments, target=X86_64)
    with (machine.build.directory / ".config").open("a") as out:
        out.writelines(f"CONFIG_{option}=y\n" for option in options.split())
    assert set(stress.left_out(machine)) & {"madvise", "vma"} == ({"vma"} if left_out else set())


def test_a_slow_machine_has_less_to_do_and_longer_rounds(configured: Configured) -> None:
    slow = configured()
    quick = [replace(slow, host=host.NATIVE), configured(target=X86_64)]
    assert stress.slow(slow)
    assert not any(stress.slow(one) for one in quick)
    # But every class has something.
    assert set(stress.left_out(slow)) - set(stress.left_out(quick[0])) == set(stress.TOO_SLOW)
    for names in CLASSES.values():
        assert not set(names) <= set(stress.TOO_SLOW)

    def script(machine: Machine) -> list[str]:
        return next(one for one in stress.commands(machine, True, 60) if "ash" in one)

    assert script(slow)[3:6] == ["30", "30", "270"]
    assert script(quick[0])[3:6] == ["30", "10", "210"]
    assert "--mmap-bytes 256K" in " ".join(script(slow))
    assert "--mmap-bytes 8M" in " ".join(script(quick[0]))


def test_the_flavour_of_the_selftests_lacks_but_a_file_to_swap_to(configured: Configured) -> None:
    for target in (X86_64, ARM64):
        assert stress.flavour_of(target) == "selftests"
        fragments = (*target.fragments, *target.flavours["selftests"])
        machine = configured(*fragments, target=target)
        assert stress.left_out(machine) == {"swap": "no CONFIG_EXT2_FS"}
    assert stress.flavour_of(UM) == ""


def test_rounds_fit_into_the_time() -> None:
    turns = len(stress.rounds({}))
    assert stress.round_s(10, turns) == stress.SHORTEST_S
    assert stress.round_s(turns * 20, turns) == 20
    assert stress.round_s(86400, turns) == stress.LONGEST_S


@pytest.mark.parametrize("variant", [ON, OFF], ids=lambda variant: variant.name)
@pytest.mark.parametrize(("seconds", "parts"), [(16, 1), (60, 2), (3600, 2)])
def test_the_guest_is_looked_at_before_between_and_after(
    configured: Configured, variant: Any, seconds: int, parts: int
) -> None:
    said = stress.commands(configured(), variant.protected, seconds)
    names = [one[0] if one[0] != "/usr/bin/busybox" else one[2] for one in said]
    look = ["/bin/settle", "/bin/cat"] if variant.protected else ["/bin/settle"]
    script = "/bin/stress.sh"
    statistics = ["/bin/cat"] if variant.protected else []
    assert names == [*look, *[script, *look] * parts, *statistics]
    calls = [one for one in said if script in one]
    assert all(one == calls[0] for one in calls)
    assert calls[0][3] == str(seconds // parts)
    assert calls[0][6:8] == ["5", check.FILE if variant.protected else "-"]
    faulty = configured(*UM.fragments, *UM.flavours["debug"])
    more = stress.commands(faulty, variant.protected, seconds)
    assert [one[1] for one in more if one[0] == "/bin/faults"] == ["pages", "slab"]


# === What the guest gets =========================================================================


def elf(where: Path, source: str, *flags: str) -> Path:
    """A program or library made of C."""
    where.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-x", "c", "-", "-x", "none", "-o", where, *flags]
    subprocess.run(command, input=source.encode(), check=True)
    return where


needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


@needs_gcc
def test_a_program_brings_its_loader_and_all_its_libraries(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    inner = elf(libraries / "libinner.so.1", "int f(void){return 1;}", "-shared", "-nostdlib",
                "-Wl,-soname,libinner.so.1")  # fmt: skip
    outer = elf(libraries / "libouter.so.1", "int f(void); int g(void){return f();}", "-shared",
                "-nostdlib", "-Wl,-soname,libouter.so.1", inner)  # fmt: skip
    loader = libraries / "ld-test.so.2"
    program = elf(tmp_path / "usr/bin/hello", "int g(void); void _start(void){g();}", "-nostdlib",
                  "-Wl,--dynamic-linker,/lib64/ld-test.so.2", "-Wl,--allow-shlib-undefined",
                  outer)  # fmt: skip
    with pytest.raises(RedoubtError, match=r"has no ld-test\.so\.2") as caught:
        rootless.program(tmp_path, "hello")
    assert caught.value.hint == f"rm -r {tmp_path}"
    shutil.copy(inner, loader)
    assert rootless.program(tmp_path, "hello") == {
        "usr/bin/hello": program,
        "lib64/ld-test.so.2": loader,
        "usr/lib/x86_64-linux-gnu/libouter.so.1": outer,
        "usr/lib/x86_64-linux-gnu/libinner.so.1": inner,
    }
    inner.unlink()
    with pytest.raises(RedoubtError, match=r"has no libinner\.so\.1"):
        rootless.program(tmp_path, "hello")


@needs_gcc
def test_a_static_program_is_all_there_is(tmp_path: Path) -> None:
    program = elf(tmp_path / "usr/bin/hello", "void _start(void){}", "-nostdlib", "-static")
    assert rootless.program(tmp_path, "hello") == {"usr/bin/hello": program}


def test_packages_are_of_the_guests_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(rootless, "system", lambda *given: asked.append(given[:2]) or tmp_path)
    monkeypatch.setattr(rootless, "program", lambda root, name: {f"usr/bin/{name}": root / name})
    for target in TARGETS.values():
        found = stress.files(target, Silent())
        assert set(found) == {"usr/bin/stress-ng", "usr/bin/busybox", "bin/stress.sh"}
        assert found["bin/stress.sh"] == paths.repo() / "guest/stress/stress.sh"
    architectures = {"um": "amd64", "x86_64": "amd64", "arm64": "arm64"}
    expected = [(architectures[target.arch], stress.PACKAGES) for target in TARGETS.values()]
    assert asked == expected


def test_the_script_is_one() -> None:
    script = paths.repo() / "guest/stress/stress.sh"
    shell = shutil.which("dash") or shutil.which("sh")
    assert shell
    subprocess.run([shell, "-n", script], check=True)


# === The verb ====================================================================================


@pytest.fixture
def stressed(
    monkeypatch: pytest.MonkeyPatch, configured: Configured, call: Callable[..., Done]
) -> Callable[..., Done]:
    """The verb, with a guest that has that console."""

    def run(lines: list[str], *words: str, **how: Any) -> Done:
        made = configured()
        monkeypatch.setattr(host, "needs_enforcing", lambda *_: host.EMULATED)
        monkeypatch.setattr(stress, "machine", lambda *_: made)
        say(monkeypatch, lines, **how)
        return call("stress", "um", *words)

    return run


def test_success_and_failure_are_the_exit_code(
    stressed: Callable[..., Done], tmp_path: Path
) -> None:
    file = tmp_path / "stress.json"
    done = stressed(console(), "--json", str(file))
    assert (done.code, done.err.count("redoubt:")) == (0, 0)
    assert "no measure of speed" in done.out
    assert "left out: no CONFIG_USERFAULTFD" in done.out
    found = json.loads(file.read_text())
    assert found["ok"] is True
    assert found["classes"][0] == {"class": "memory", "bogo_ops": 10, "left_out": None}
    assert (found["violations"], found["leaked"], found["checks"]) == (0, 0, 7)
    assert {"machine", "commit", "dirty", "command", "date"} <= set(found)

    failed = stressed(console(statistics=["violations 3"]))
    assert failed.code == 1
    assert failed.err.count("redoubt:") == 1
    assert "redoubt: the stress failed: 3 violations\n    its console: log" in failed.err


def test_a_time_that_is_none(stressed: Callable[..., Done]) -> None:
    assert stressed(console(), "--minutes", "0").code == 2


def test_the_suite_counts_classes_that_were_left_out_as_skipped(
    monkeypatch: pytest.MonkeyPatch, configured: Configured
) -> None:
    made = configured()
    seconds: list[int] = []
    monkeypatch.setattr(host, "lacking", lambda *_: None)
    monkeypatch.setattr(host, "pick", lambda *_: host.EMULATED)
    monkeypatch.setattr(stress, "machine", lambda *_: made)

    def boot(*_: object, timeout: float, **__: object) -> Result:
        seconds.append(int(timeout))
        return ended([*pool(), *WALK, *FIRST, *pool(), *WALK, *LAST])

    monkeypatch.setattr(experiment, "boot", boot)
    (item,) = flavours.stress_ng(Run(UM, "auto", True, Silent()))
    assert (item.passed, item.failed, item.skipped) == (1, 0, 2)
    assert seconds == [3 * flavours.STRESS_NG_S + int(stress._MARGIN)]
    say(monkeypatch, [], outcome="died")
    (item,) = flavours.stress_ng(Run(UM, "auto", True, Silent()))
    assert (item.passed, item.failed) == (0, 1)
    assert "died" in item.detail
