# SPDX-License-Identifier: GPL-2.0-only
"""What counts as the same result, as a difference, and as a test that did not run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import KERNEL, REAL_BUILD, Sandbox, write_tree
from guests import ended, machine

from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.progress import Progress, Silent
from redoubt.linux import rootless
from redoubt.linux.build import Build
from redoubt.machine import host, qemu
from redoubt.machine.boot import Machine, Result
from redoubt.ship.stick import plan
from redoubt.suite import linear_map
from redoubt.suite.run import Run
from redoubt.targets import ARM64, TARGETS, X86_64, Target, get_variant
from redoubt.trial import attack, experiment, selftests
from redoubt.trial.check import Walk
from redoubt.trial.selftests import AGAIN, Outcome, Report, Round

MACHINE = machine()
ON = get_variant(X86_64, "on")
CLEAN = Walk(9, 0, 0, 0, 0)
SPLAT = "[    1.5] WARNING: mm/memory.c:12 at do_fault+0x10/0x20, CPU#0: cow/81"


def block(category: str, *tests: Sequence[str]) -> list[str]:
    """What a category leaves on the console; a test is its command, its lines, its result."""
    lines = []
    for command, *_ in tests:
        name = command.removeprefix("bash ").removeprefix("./")
        lines += [f"[    1.0] @selftest: begin {name}", f"[    2.0] @selftest: end {name}"]
    lines.append(f"@selftests: category {category}")
    for number, (command, *said, result) in enumerate(tests, 1):
        lines += [f"# running {command}", *(f"# {line}" for line in said)]
        lines.append(result.replace("N", str(number)))
    return [*lines, "1..9", "", f"@selftests: done {category}"]


def outcomes(*tests: Sequence[str]) -> dict[tuple[str, str], str]:
    found, done, current = selftests.parse(block("cow", *tests))
    assert (done, current) == (["cow"], None)
    return {key: outcome.result for key, outcome in found.outcomes.items()}


def test_a_test_and_its_parts_are_results() -> None:
    assert outcomes(
        ["./cow", "TAP version 13", "1..2", "ok 1 fork", "not ok 2 - exit", "not ok N cow # exit=1"]
    ) == {("cow", "fork"): "ok", ("cow", "exit"): "not ok", ("cow", ""): "not ok"}


def test_a_part_that_ends_after_its_test_counts_if_it_fails() -> None:
    said = ["ok 1 test test_ptrace_of_child (iteration 1)",
            "ok 2 test test_pkey_alloc_exhaust (iteration 1)",
            "not ok 3 test test_ptrace_modifies_pkru (iteration 1)"]  # fmt: skip
    assert outcomes(["./protection_keys_64", *said, "ok N protection_keys_64"]) == {
        ("protection_keys_64", "test test_ptrace_of_child (iteration 1)"): "ok",
        ("protection_keys_64", "test test_ptrace_modifies_pkru (iteration 1)"): "not ok",
        ("protection_keys_64", ""): "ok",
    }


def test_parts_of_one_name_are_told_apart() -> None:
    found = outcomes(["./cow", "ok 1 fork", "not ok 2 fork", "ok N cow"])
    assert found["cow", "fork"] == "ok"
    assert found["cow", "fork (2)"] == "not ok"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("map at 0x7f0000001000", "map at N"),
        ("Extra pages 223 (0.5%), extra thread faults 23.",
         "Extra pages N (N), extra thread faults N."),
        ("a child with 2MB of memory allocations", "a child with NMB of memory allocations"),
        ("12 pages of 2 MB", "12 pages of 2 MB"),
    ],
)  # fmt: skip
def test_addresses_and_measured_numbers_do_not_name_a_part(said: str, name: str) -> None:
    assert ("cow", name) in outcomes(["./cow", f"ok 1 {said}", "ok N cow"])


@pytest.mark.parametrize("line", ["ok 1 fork # SKIP no swap", "ok 1 # SKIP fork"])
def test_a_part_that_is_skipped_did_not_pass(line: str) -> None:
    assert outcomes(["./cow", line, "ok N cow"])["cow", "fork"] == "skip"


def test_an_expected_failure_is_neither_passed_nor_failed() -> None:
    found = outcomes(["./cow", "not ok 1 fork # XFAIL known", "ok N cow"])
    assert found["cow", "fork"] == "not ok (XFAIL)"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["1..0 # SKIP no secretmem"], "no secretmem"),
        (["TAP version 13", "ok 1 # SKIP no pkeys", "Totals: pass:0 skip:1"], "no pkeys"),
        (["you need modprobe", "[SKIP]"], "you need modprobe"),
        (["ok 1 # SKIP no KSM", "# 1 skipped test(s) detected. Consider more"], "no KSM"),
    ],
)
def test_a_test_that_skips_itself_says_why(said: list[str], why: str) -> None:
    found, _, _ = selftests.parse(
        block("cow", ["bash ./cow.sh go", *said, "ok N cow.sh go # SKIP"])
    )
    assert found.outcomes["cow.sh go", ""] == Outcome("skip", why)


def test_a_test_that_skips_all_its_parts_did_not_pass() -> None:
    said = ["ok 1 one # SKIP NUMA not available", "ok 2 two # SKIP NUMA not available"]
    assert outcomes(["./cow", *said, "ok N cow"])["cow", ""] == "skip"
    assert outcomes(["./cow", *said, "ok 3 three", "ok N cow"])["cow", ""] == "ok"


def test_what_is_never_started_has_its_reason() -> None:
    for test, why in selftests.LEFT_OUT.items():
        found, _, _ = selftests.parse(
            block("thp", [f"./{test}", "@selftest: left out", f"ok N {test} # SKIP"])
        )
        assert found.outcomes[test, ""] == Outcome("skip", why)


def test_a_test_that_ran_out_of_time_did_not_fail() -> None:
    found, _, _ = selftests.parse(
        block("cow", ["./cow", "@selftest: no end after 9 s", "not ok N cow # exit=124"])
    )
    outcome = found.outcomes["cow", ""]
    assert outcome.result == "late"
    assert "9 s" in outcome.why


def test_a_program_that_was_not_built_did_not_fail() -> None:
    found = outcomes(["./cow", "./cow: No such file or directory", "not ok N cow # exit=127"])
    assert found == {("cow", ""): "skip"}


def test_a_complaint_is_of_the_test_that_runs() -> None:
    lines = ["[    1.0] @selftest: begin cow", SPLAT, "[    2.0] @selftest: end cow", SPLAT]
    found, _, _ = selftests.parse(lines)
    assert [test for test, _ in found.complaints] == ["cow", "-"]


def test_a_console_that_ends_in_a_test_names_it() -> None:
    lines = [*block("mmap", ["./droppable", "ok N droppable"]), "[ 3.0] @selftest: begin cow -a 1"]
    _, done, current = selftests.parse(lines)
    assert (done, current) == (["mmap"], "cow -a 1")


# === Machines that die ===========================================================================


def booting(monkeypatch: pytest.MonkeyPatch, *results: Result) -> list[Sequence[str]]:
    """Boots end as told, in their order; returns what the guests are told to run."""
    left, commands = list(results), []

    def boot(_: Machine, words: Sequence[str], **__: object) -> Result:
        commands.append(words)
        return left.pop(0)

    monkeypatch.setattr(experiment, "boot", boot)
    return commands


def panicked(*lines: str) -> Result:
    return ended(lines, "panic", detail="it is over")


GOOD = block("mmap", ["./droppable", "ok N droppable"])


def test_a_panic_does_not_lose_the_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    again = block(
        "cow", ["./cow", "@selftest: left out", "ok N cow # SKIP"], ["./rmap", "ok N rmap"]
    )
    dead = panicked(*GOOD, "[    3.0] @selftest: begin cow")
    commands = booting(monkeypatch, dead, ended(again))
    found = selftests.run(MACHINE, ["mmap", "cow"], "name", Silent())
    results = {test: outcome.result for (test, _), outcome in found.outcomes.items()}
    assert results == {"droppable": "ok", "cow": "crash", "rmap": "ok"}
    assert found.outcomes["cow", ""].why == "panic: it is over"
    left_out = [words[3].split(",") for words in commands]
    assert left_out == [[*selftests.LEFT_OUT], [*selftests.LEFT_OUT, "cow"]]
    assert commands[1][4:] == ["cow"]


def test_a_panic_outside_any_test_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    booting(monkeypatch, panicked(*GOOD))
    with pytest.raises(RedoubtError, match="it is over"):
        selftests.run(MACHINE, ["mmap", "cow"], "name", Silent())


def test_a_test_that_cannot_be_left_out_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = panicked("[    3.0] @selftest: begin cow")
    booting(monkeypatch, dead, dead)
    with pytest.raises(RedoubtError, match="cut short"):
        selftests.run(MACHINE, ["cow"], "name", Silent())


# === Comparing ===================================================================================


def a_round(complaint: str = "", **results: str) -> Round:
    found = Round({(test, ""): Outcome(result) for test, result in results.items()})
    found.of = dict.fromkeys(results, "mmap")
    found.walks = [CLEAN]
    if complaint:
        found.complaints.append(("cow", complaint))
    return found


def report(pristine: Sequence[Round], ours: Sequence[Round]) -> Report:
    return Report("x86_64", ON, tuple(pristine), tuple(ours))


def test_the_same_results_are_good_also_if_some_fail() -> None:
    both = [a_round(cow="ok", rmap="not ok", ksm="skip")]
    found = report(both, both)
    assert found.ok
    assert found.passed == ["cow"]
    assert list(found.failing) == ["rmap"]
    assert list(found.not_run) == ["ksm"]


def test_nothing_that_passed_is_not_good() -> None:
    both = [a_round(ksm="skip")]
    assert not report(both, both).ok


@pytest.mark.parametrize(("before", "after"), [("ok", "not ok"), ("not ok", "ok"), ("ok", "skip")])
def test_a_difference_is_wrong_in_either_direction(before: str, after: str) -> None:
    found = report([a_round(cow=before, rmap="ok")], [a_round(cow=after, rmap="ok")])
    assert [one.key for one in found.wrong] == [("cow", "")]
    assert not found.ok


def test_a_test_that_only_one_kernel_has_is_a_difference() -> None:
    found = report([a_round(cow="ok", rmap="ok")], [a_round(cow="ok")])
    assert [one.key for one in found.wrong] == [("rmap", "")]


def test_a_part_that_only_one_kernel_has_is_a_difference() -> None:
    ours = a_round(cow="ok")
    pristine = a_round(cow="ok")
    pristine.outcomes["cow", "fork"] = Outcome("ok")
    assert [one.key for one in report([pristine], [ours]).wrong] == [("cow", "fork")]


def test_a_test_that_gives_up_early_differs_once() -> None:
    pristine, ours = a_round(cow="ok"), a_round(cow="not ok")
    pristine.outcomes["cow", "fork"] = pristine.outcomes["cow", "exit"] = Outcome("ok")
    ours.outcomes["cow", "fork"] = Outcome("not ok")
    found = report([pristine], [ours])
    assert [one.key for one in found.wrong] == [("cow", ""), ("cow", "fork")]


def test_a_test_without_time_says_nothing_of_its_other_parts() -> None:
    ours, pristine = a_round(cow="late", rmap="ok"), a_round(cow="late", rmap="ok")
    pristine.outcomes["cow", "fork"] = Outcome("ok")
    assert report([pristine], [ours]).ok


@pytest.mark.parametrize(
    ("pristine", "ours", "wrong", "unstable"),
    [
        ("+++", "---", ["cow"], []),
        ("+++", "-+-", ["cow"], []),
        # It does not come again.
        ("+++", "-++", [], ["cow"]),
        # It varies on pristine.
        ("+-+", "-++", [], ["cow"]),
    ],
)
def test_a_difference_has_to_come_again(
    pristine: str, ours: str, wrong: list[str], unstable: list[str]
) -> None:
    rounds = {"+": a_round(cow="ok", rmap="ok"), "-": a_round(cow="not ok", rmap="ok")}
    found = report([rounds[one] for one in pristine], [rounds[one] for one in ours])
    assert [one.key[0] for one in found.wrong] == wrong
    assert [one.key[0] for one in found.unstable] == unstable
    assert found.passed == ["rmap"]


def test_a_complaint_of_ours_alone_is_a_failure() -> None:
    line = "WARNING: mm/memory.c:12 at do_fault+0x10/0x20, CPU#0: cow/81"
    ours = [a_round(line, cow="ok")]
    assert report([a_round(cow="ok")], ours).complaints == [f"cow: {line}"]
    assert not report([a_round(cow="ok")], ours).ok
    # The pristine kernel says it of another process on another CPU.
    other = a_round(line.replace("cow/81", "cow/99").replace("#0", "#1"), cow="ok")
    assert report([other], ours).complaints == []


@pytest.mark.parametrize("walks", [[], [Walk(9, 1, 0, 0, 0)], [CLEAN, Walk(9, 0, 0, 0, 1)]])
def test_page_tables_have_to_be_protected_at_the_end(walks: list[Walk]) -> None:
    both = [a_round(cow="ok")]
    assert report(both, both).ok
    ours = a_round(cow="ok")
    ours.walks = walks
    found = report(both, [ours])
    assert len(found.unprotected) == 1
    assert not found.ok
    off = replace(found, variant=get_variant(X86_64, "off"))
    assert off.unprotected == []


def test_categories_that_differ_are_run_again_on_both(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(machine: Machine, wanted: Sequence[str], name: str, _: Progress) -> Round:
        asked.append((machine.args[0], tuple(wanted)))
        bad = machine.args[0] == "ours" and name.endswith("-1")
        return a_round(cow="not ok" if bad else "ok", rmap="ok")

    monkeypatch.setattr(selftests, "run", run)
    machines = [machine(args=(name,)) for name in ("pristine", "ours")]
    found = selftests.compare(X86_64, ON, *machines, [["mmap", "thp"]], Silent())
    every, again = ("mmap", "thp"), ("mmap",)
    first = [("pristine", every), ("ours", every)]
    assert asked == first + [("pristine", again), ("ours", again)] * AGAIN
    assert found.wrong == []


def test_tests_of_guests_have_a_boot_of_their_own_on_one_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert selftests.boots_of(["kvm"]) == [["kvm"]]
    boots = selftests.boots_of(["mmap", "kvm", "thp"])
    assert boots == [["mmap", "thp"], ["kvm"]]
    cpus = []

    def run(machine: Machine, *_: object) -> Round:
        cpus.append(machine.cpus)
        return a_round(cow="ok")

    monkeypatch.setattr(selftests, "run", run)
    both = [machine(cpus=2), machine(cpus=2)]
    selftests.compare(X86_64, ON, *both, boots, Silent())
    assert cpus == [2, 1, 2, 1]


def test_json_has_every_test_with_the_results_of_all_runs() -> None:
    shown = report([a_round(cow="ok", rmap="ok")], [a_round(cow="not ok", rmap="ok")]).as_json()
    assert shown["ok"] is False
    assert shown["tests"][0] == {
        "test": "cow", "category": "mmap", "pristine": ("ok",), "ours": ("not ok",), "why": "",
    }  # fmt: skip
    assert shown["differences"] == [
        {"test": "cow", "part": "", "pristine": ("ok",), "ours": ("not ok",)}
    ]


# === Building ====================================================================================


def test_categories_are_those_of_the_runner(tmp_path: Path) -> None:
    (tmp_path / "selftests").mkdir()
    (tmp_path / "selftests/run_vmtests.sh").write_text(
        'CATEGORY="mmap" run_test ./a\n\tCATEGORY="memory-failure" run_test ./b\n'
        'CATEGORY="mmap" run_test ./c\n'
    )
    known = ["mmap", "memory-failure", "others", *selftests.COLLECTIONS, "kvm"]
    assert selftests.chosen(X86_64, tmp_path, []) == known
    some = ["ptrace", "others", "mmap"]
    assert selftests.chosen(X86_64, tmp_path, some) == ["mmap", "others", "ptrace"]
    assert selftests.chosen(ARM64, tmp_path, ["arm64/pauth"]) == ["arm64/pauth"]
    for unknown in ("cow", "arm64/pauth"):
        with pytest.raises(UsageError, match=f"unknown category '{unknown}'") as caught:
            selftests.chosen(X86_64, tmp_path, [unknown])
    assert caught.value.hint == "categories: " + ", ".join(known)


def test_the_source_of_the_tests_is_not_written_to(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel"
    for name in ("Kbuild", "tools/include/a.h", "tools/testing/selftests/lib.mk",
                 "tools/testing/selftests/mm/cow.c"):  # fmt: skip
        (kernel / name).parent.mkdir(parents=True, exist_ok=True)
        (kernel / name).write_text(name)
    (kernel / "Makefile").write_text(KERNEL["Makefile"])
    shadow = tmp_path / "shadow"
    selftests.shadow(kernel, selftests._MM, shadow)
    here = shadow / "tools/testing/selftests/mm"
    assert here.resolve() == here
    (here / "local_config.mk").write_text("made")
    (here / "cow.c").write_text("changed")
    assert (kernel / "tools/testing/selftests/mm/cow.c").read_text().endswith("cow.c")
    assert not (kernel / "tools/testing/selftests/mm/local_config.mk").exists()
    assert (shadow / "tools/testing/selftests/lib.mk").read_text().endswith("lib.mk")
    assert (shadow / "tools/include/a.h").exists()
    # Until the kernel is another, what make has made stays.
    selftests.shadow(kernel, selftests._MM, shadow)
    assert (here / "local_config.mk").exists()
    (kernel / "Makefile").write_text(KERNEL["Makefile"].replace("SUBLEVEL = 4", "SUBLEVEL = 5"))
    selftests.shadow(kernel, selftests._MM, shadow)
    assert not (here / "local_config.mk").exists()


def test_a_target_with_the_flavour_can_be_compared() -> None:
    known = [t.name for t in TARGETS.values() if selftests.FLAVOUR in t.flavours]
    assert known == ["x86_64", "arm64"]


def test_its_kernel_is_not_one_more_to_compare_the_linear_map_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(linear_map, "compared", lambda _, flavour: iter([asked.append(flavour)]))
    list(linear_map.flavours(Run(ARM64, "auto", True, Silent())))
    others = {selftests.FLAVOUR, attack.FLAVOUR, plan.FLAVOUR}
    assert asked == [name for name in ARM64.flavours if name not in others]


@pytest.mark.parametrize(
    "text", ["./cow", "bash ./cow", "test=./cow", "[ -x ./cow ]", '$(dirname "$0")/cow\n']
)
def test_what_a_script_calls_is_not_run_again(text: str) -> None:
    assert selftests._calls(text, "cow")


@pytest.mark.parametrize("text", ["# cow tests", "run_test ./cow_32", "./cow-on", "./cow.sh", ""])
def test_what_a_script_only_speaks_of_has_to_be_run(text: str) -> None:
    assert not selftests._calls(text, "cow")


def packages_in(where: Path, *names: str) -> Path:
    """Unpacked packages with some programs."""
    (where / "bin").mkdir(parents=True)
    for name in names:
        (where / "bin" / name).write_text(f"foreign {name}")
        (where / "bin" / name).chmod(0o755)
    return where


def test_a_guest_of_another_architecture_gets_programs_of_that(tmp_path: Path) -> None:
    packages = packages_in(tmp_path / "packages", "bash-static", "busybox")
    selftests.system(tmp_path / "root", packages)
    assert (tmp_path / "root/bin/bash").read_text() == "foreign bash-static"
    assert (tmp_path / "root/usr/bin/busybox").read_text() == "foreign busybox"
    # And a pgrep that finds what runs.
    pgrep = [str(tmp_path / "root/usr/bin/pgrep"), "-f", f"600 {tmp_path}"]
    # It has no command line yet while it is being started.
    shell = ["sh", "-c", "echo; read line", "600", str(tmp_path)]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sleeper:
        assert sleeper.stdout
        sleeper.stdout.readline()
        found = subprocess.run(pgrep, capture_output=True, text=True)
        sleeper.communicate()
    assert found.stdout.split() == [str(sleeper.pid)]
    assert found.returncode == 0
    assert subprocess.run(pgrep).returncode == 1


def test_a_program_that_is_gone_is_told(tmp_path: Path) -> None:
    packages = packages_in(tmp_path / "packages", "bash-static")
    with pytest.raises(RedoubtError, match="has no busybox") as caught:
        selftests.system(tmp_path / "root", packages)
    assert caught.value.hint == f"rm -r {packages}"


@pytest.mark.parametrize("target", [X86_64, ARM64], ids=lambda target: target.name)
def test_tests_are_linked_with_libraries_of_their_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: Target
) -> None:
    said: list[str] = []
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    (tmp_path / "build/log").mkdir(parents=True)
    monkeypatch.setattr(selftests, "shadow", lambda *_: None)
    monkeypatch.setattr(selftests, "run_logged", lambda *_, **__: None)

    def make(words: list[str], take: Callable[[str], None], **_: object) -> None:
        said.extend(words)
        if "COLLECTION=exec" in words:
            for line in ("exec:execveat", "make: a warning", "exec:check-exec-tests.sh"):
                take(line)

    monkeypatch.setattr(selftests, "run_lines", make)
    packages = tmp_path / "packages" if target is ARM64 else None
    found = selftests._compile(target, tmp_path, tmp_path / "top", packages, Silent())
    assert list(found) == ["mm", *selftests.collections(target)]
    assert ("arm64/pauth" in found) == (target is ARM64)
    assert found["exec"].tests == ["execveat", "check-exec-tests.sh"]
    # Each is made, and then asked for what its tests are.
    flags = [word for word in said if str(word).startswith("USER")][:2]
    include = f" -idirafter {packages}/usr/include" if packages else ""
    library = f" -L{packages}/usr/lib/aarch64-linux-gnu" if packages else ""
    assert flags == [f"USERCFLAGS=-static{include}", f"USERLDFLAGS=-static -s{library}"]


def test_a_collection_is_copied_but_for_what_is_left_out(tmp_path: Path) -> None:
    built = tmp_path / "built"
    write_tree(built, dict.fromkeys(("sud_test", "sud_benchmark", "data/input"), ""))
    (tmp_path / "tests").mkdir()
    name = "syscall_user_dispatch"
    programs = selftests.Programs(built, ["sud_test", "sud_benchmark", "run.sh"])
    selftests._collection(tmp_path / "tests", name, programs)
    there = tmp_path / "tests/programs" / name
    assert (there / "sud_test").exists()
    assert (there / "data/input").exists()
    assert not (there / "sud_benchmark").exists()
    # It is said that one is left out. Scripts are not run at all.
    assert (
        tmp_path / "tests/lists" / name
    ).read_text() == f"{name}/sud_test\n{name}/sud_benchmark\n"
    assert (tmp_path / "tests" / name / "sud_benchmark").readlink() == Path("/bin/selftest")


def test_tests_in_a_directory_of_their_architecture_are_called_without_it(tmp_path: Path) -> None:
    built = tmp_path / "built"
    write_tree(built, dict.fromkeys(("irqfd_test", "irqfd_test.o", "x86/cpuid_test"), ""))
    (tmp_path / "tests").mkdir()
    programs = selftests.Programs(built, ["irqfd_test", "cpuid_test", "not_built"])
    selftests._collection(tmp_path / "tests", "kvm", programs)
    there = tmp_path / "tests/programs/kvm"
    assert (there / "cpuid_test").exists()
    assert (tmp_path / "tests/lists/kvm").read_text().splitlines() == [
        "kvm/irqfd_test", "kvm/cpuid_test", "kvm/not_built",
    ]  # fmt: skip
    # What they were made of would only fill the guest's memory.
    assert not (there / "irqfd_test.o").exists()


# === In a guest ==================================================================================

PROGRAMS = {
    "good": "echo ok 1 it is good; sleep 300 &",
    "late": "trap 'echo put back; exit' TERM; sleep 300 & wait",
    "lost": "echo not ok 1 lost",
    # It reads what lies beside it, and opens itself by its name.
    "sub/directory": """cat input; grep -q '^#!' "$0" && echo ok 2 it is itself""",
}
RUNNER = """#!/bin/bash
for test in good late lost missing sub/directory; do
	echo "# running ./$test"
	./$test 2>&1 | sed 's/^/# /'
	status=${PIPESTATUS[0]}
	[ $status = 0 ] && echo "ok 1 $test" || echo "not ok 1 $test # exit=$status"
done
"""


def ready(target: Target) -> tuple[Path, Path, Path | None]:
    """The image, programs and packages of a guest; skips the test if one was not built."""
    images = [REAL_BUILD / target.name / kind / target.image for kind in ("redoubt", "pristine")]
    image = next((image for image in images if image.exists()), None)
    prefix = target.cross_compile.removesuffix("-")
    programs = REAL_BUILD / ("guest" + (f"-{prefix}" if prefix else ""))
    packages = rootless.place_of(target.arch, selftests.PACKAGES) if prefix else None
    if not image:
        pytest.skip(f"no {images[0]}: redoubt build {target.name}")
    if not (programs / "selftest").exists():
        pytest.skip("no guest programs")
    if not target.emulator or qemu.problem(target.emulator):
        pytest.skip("no QEMU with protection keys")
    if not prefix and not shutil.which("bash-static"):
        pytest.skip("no static bash")
    if packages and not packages.exists():
        pytest.skip(f"no {packages}: redoubt selftests {target.name}")
    return image, programs, packages


@pytest.mark.guest
@pytest.mark.parametrize("target", [X86_64, ARM64], ids=lambda target: target.name)
def test_programs_are_limited_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, target: Target
) -> None:
    image, programs, packages = ready(target)
    monkeypatch.setenv("REDOUBT_BUILD", str(sandbox.build))
    monkeypatch.setenv("REDOUBT_TEST", sandbox.mark)
    monkeypatch.setattr(selftests, "PROGRAM_S", 5)
    where = tmp_path / "root"
    selftests.system(where, packages)
    tests = where / "selftests"
    for directory in (tests / "programs/sub", tests / "sub"):
        directory.mkdir(parents=True)
    (tests / "programs/sub/input").write_text("ok 1 it is found\n")
    for name, text in PROGRAMS.items():
        (tests / "programs" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tests / "programs" / name).chmod(0o755)
        (tests / name).symlink_to("/bin/selftest")
    (tests / "run_vmtests.sh").write_text(RUNNER)
    (tests / "run_vmtests.sh").chmod(0o755)
    made = Machine(
        Build(target, image.parent, image, image), programs, host.EMULATED,
        ("kunit.enable=0", *target.flavour_args.get(selftests.FLAVOUR, ()), *selftests.ARGS),
        files={".": where},
    )  # fmt: skip
    # Without end if what "good" leaves behind held the pipe of the runner.
    found = selftests.run(made, ["mmap"], "limits", Silent())
    results = {key: outcome.result for key, outcome in found.outcomes.items()}
    assert results == {
        ("good", ""): "ok", ("good", "it is good"): "ok", ("late", ""): "late",
        ("lost", ""): "ok", ("lost", "lost"): "not ok", ("missing", ""): "skip",
        ("sub/directory", ""): "ok", ("sub/directory", "it is found"): "ok",
        ("sub/directory", "it is itself"): "ok",
    }  # fmt: skip
    console = found.logs[0].read_text()
    assert "# put back" in console
    assert "@selftest: begin late" in console
    assert "@selftest: end late" in console
