# SPDX-License-Identifier: GPL-2.0-only
"""The command line: usage, exit codes, what is printed where, and machines without PKU."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import SLOW, Done, Sandbox, write_tree
from rich.console import Console

from redoubt.cli import common, suites, trial
from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.linux import source, topics
from redoubt.linux.build import Build
from redoubt.machine import boot, host, kernels, qemu
from redoubt.ship import commits, htmldocs, lint, series
from redoubt.suite import boots, code, steps, tool
from redoubt.suite.run import Item, Run, verdict
from redoubt.targets import TARGETS, Target, get_target
from redoubt.trial import experiment

Call = Callable[..., Done]
UM = get_target("um")
BENCH = kernels.Workbench(Build(UM, Path("d"), Path("i"), Path("v")), Path("p"), host.EMULATED)


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a kernel that would have to be built."""
    monkeypatch.setattr(kernels, "workbench", lambda *_, **__: BENCH)


def result(*console: str, outcome: str = "finished", status: int | None = 0) -> boot.Result:
    return boot.Result(outcome, status, console, (), Path("log"), "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Usage: redoubt"),
        (["bogus"], "No such command"),
        (["--bogus"], "No such option"),
        (["build"], "Missing argument"),
        (["build", "um", "extra"], "unexpected extra argument"),
        (["run", "um", "--cpus", "3"], "--cpus"),
        (["run", "um", "--timeout", "soon"], "--timeout"),
        (["run", "um", "--timeout", "0"], "--timeout"),
        (["kunit", "um", "no name"], "no pattern of tests"),
        (["kunit", "um", "a.b.c"], "no pattern of tests"),
        (["kunit", "um", "--variant", "pristine"], "has no tests of KUnit"),
        (["kunit", "um", "--flavour", "pink"], "no flavour 'pink'"),
        (["selftests", "x86_64", "thp", "bpf"], "the tests of BPF run alone"),
        (["selftests", "arm64", "bpf"], "no flavour 'bpf'"),
        (["check", "um", "--stress", "-1"], "--stress"),
        (["check", "um", "--json", "/"], "is a directory"),
        (["check", "um", "--json", "/nowhere/r.json"], "No such file or directory"),
        (["test", "um", "--junit", "/nowhere/r.xml"], "No such file or directory"),
        (["test", "um", "--ktap", "/nowhere/r.ktap"], "No such file or directory"),
        (["kunit", "um", "--ktap", "/"], "is a directory"),
    ],
)
def test_wrong_usage_is_told_without_a_traceback(call: Call, words: list[str], says: str) -> None:
    done = call(*words)
    assert done.code == 2
    assert says.lower() in (done.out + done.err).lower()
    assert "Traceback" not in done.err


def listing(monkeypatch: pytest.MonkeyPatch, *console: str) -> None:
    monkeypatch.setattr(host, "needs_enforcing", lambda *_: host.EMULATED)
    monkeypatch.setattr(boots, "kunit_list", lambda *_: result(*console))


def test_tests_of_kunit_are_listed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    named = ("kpkeys_pool", "kpkeys_pool.page_is_taken", "kpkeys_pool.page_is_given_back")
    listing(monkeypatch, "booting", "[    0.1] KTAP version 1", *named, "Run /init", "not.it")
    done = call("kunit", "um", "kpkeys_pool", "--list")
    assert (done.code, done.out.splitlines()) == (0, list(named[1:]))


def test_a_name_that_no_test_of_kunit_has(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, "KTAP version 1", "Run /init")
    done = call("kunit", "um", "nothing", "--list")
    assert done.code == 1
    assert "um has no test of this name" in done.err


def test_steps_are_listed_and_none_is_run(call: Call) -> None:
    done = call("test", "um", "--list", "--only", "offcheck")
    about = "Compare the objects of the kernel with all our options off with the pristine ones."
    assert (done.code, done.out.split()) == (0, ["um", "offcheck", *about.split()])


def test_each_step_says_what_it_does() -> None:
    runs = [Run(target, "auto", True, common.Display()) for target in TARGETS.values()]
    for step in steps.chosen(runs, ()):
        assert re.fullmatch(r"[A-Z][a-z]+ .*\.", step.about), step
        assert not re.match(r"(What|Who|Whose|Of|Nobody)\b", step.about), step


def test_a_file_for_the_result_is_tried_and_kept(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text("older")
    assert call("check", "vax", "--json", str(file)).code == 2
    assert file.read_text() == "older"
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_the_version(call: Call) -> None:
    done = call("--version")
    assert done.code == 0
    assert re.fullmatch(
        r"redoubt \d+\.\d+\.\d+( \(commit [0-9a-f]{12}(, with changes)?\))?\n", done.out
    )


def test_all_attacks_have_a_program() -> None:
    programs = {file.stem for file in paths.repo().glob("guest/**/attacks/*.c")}
    assert len(trial.known_attacks()) > 10
    assert set(trial.known_attacks()) <= programs


def test_the_program_itself(sandbox: Sandbox) -> None:
    done = sandbox.run("bogus")
    assert (done.code, done.out) == (2, "")
    assert "No such command" in done.err
    assert "Traceback" not in done.err


VERBS = [command.name for command in common.app.registered_commands]


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS)], ids=str)
def test_help(call: Call, verb: list[str], option: str) -> None:
    done = call(*verb, option)
    assert (done.code, done.err) == (0, "")
    assert "Usage: redoubt" in done.out


@pytest.mark.parametrize(
    ("outcome", "says"),
    [("panic", "kernel panicked"), ("hang", "guest hung"), ("died", "without a word")],
)
def test_a_guest_that_does_not_end_well(
    call: Call, monkeypatch: pytest.MonkeyPatch, outcome: str, says: str
) -> None:
    last = result("the last line", outcome=outcome, status=None)
    monkeypatch.setattr(boot, "boot", lambda *_, **__: last)
    done = call("run", "um", "--", "/bin/x")
    assert done.code == 1
    assert says in done.err
    assert "the last line" in done.err
    assert "(whole console: log)" in done.err


def test_an_unforeseen_file_error_is_one_line(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    sandbox.build.write_text("in the way")
    done = sandbox.run("source")
    assert done.code == 1
    assert done.err == f"redoubt: {sandbox.build}: File exists\n"


# === Without protection keys =====================================================================


@pytest.fixture
def no_pku(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "has_pku", lambda: False)
    monkeypatch.setattr(qemu, "found", lambda emulator: False)


@pytest.mark.parametrize(
    ("verb", "target", "says"),
    [
        ("attack", "um", "no protection keys: this CPU has no PKU, and there is no QEMU"),
        ("check", "um", "no protection keys: this CPU has no PKU, and there is no QEMU"),
        *((verb, "x86_64", "qemu-system-x86_64 not found") for verb in ("attack", "check", "run")),
    ],
)
def test_what_needs_keys_refuses(
    call: Call, no_pku: None, verb: str, target: str, says: str
) -> None:
    done = call(verb, target)
    assert (done.code, done.out) == (1, "")
    message, hint = done.err.splitlines()
    assert message.startswith(f"redoubt: {says}")
    assert "sudo apt-get install qemu-system-x86" in hint


def test_native_is_refused_without_pku_even_with_qemu(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "has_pku", lambda: False)
    monkeypatch.setattr(qemu, "found", lambda emulator: True)
    done = call("attack", "um", "--host", "native")
    assert done.code == 1
    assert "the CPU of this machine has no PKU" in done.err
    assert "there is no QEMU" not in done.err


BOOTLESS = (
    "tool.unit", "tool.guests", "code.audited", "code.linted", "code.results_judged",
    "code.series_checked",
)  # fmt: skip


def quiet(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setattr(f"redoubt.suite.{name}", lambda run, flavour="": iter(()))


def test_protection_tests_are_counted_as_skipped(
    call: Call, no_pku: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quiet(monkeypatch, *BOOTLESS, "flavours.stress_ng")
    said = result("kpkeys: page tables not hardened: no protection keys on this host")
    monkeypatch.setattr(boots, "boot", lambda *_, **__: said)
    done = call("test", "um", "--json", str(tmp_path / "result.json"))
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "ok    on   no protection keys: 1 passed, 0 failed, 0 skipped"
    assert lines[1] == "skip  off  KUnit: 0 passed, 0 failed, 1 skipped"
    assert lines[2] == f"          {host.NO_HOST}"
    assert lines[-1] == "1 passed, 0 failed, 5 skipped"
    suites = {
        e["variant"]: e["suites"]
        for e in json.loads((tmp_path / "result.json").read_text())["tested"]
    }
    assert suites["off"][0] == {
        "name": "KUnit", "passed": 0, "failed": 0, "skipped": 1, "detail": host.NO_HOST,
    }  # fmt: skip
    assert [entry["skipped"] for entry in suites["on"]] == [0, 1, 1, 1]


def test_an_emulated_target_without_qemu_is_skipped(
    call: Call, no_pku: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(monkeypatch, *BOOTLESS)
    # Lines in the order of the steps.
    monkeypatch.setattr("redoubt.suite.steps.AT_ONCE", 1)
    done = call("test", "x86_64")
    lines = done.out.splitlines()
    assert lines[0] == "skip  on   no protection keys: 0 passed, 0 failed, 1 skipped"
    assert lines[1] == "          qemu-system-x86_64 not found"
    assert lines[12] == (
        "skip  on   oracle: secrets of another, from outside: 0 passed, 0 failed, 1 skipped"
    )
    assert lines[14] == "skip  on   address space isolation: 0 passed, 0 failed, 1 skipped"
    assert lines[16].startswith("skip  on   16 s of stress-ng, plain kernel: ")
    assert lines[-1] == "0 passed, 0 failed, 9 skipped"


# === The test verb ===============================================================================


def run_items(monkeypatch: pytest.MonkeyPatch, *items: Item) -> None:
    monkeypatch.setattr(tool, "unit", lambda run: iter(items))
    # Lines in the order of the steps.
    monkeypatch.setattr("redoubt.suite.steps.AT_ONCE", 1)
    quiet(
        monkeypatch, "boots.booted", "isolation.from_outside", "isolation.from_inside",
        "memory_keys.encryption", "flavours.stress_ng", *BOOTLESS[1:],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([Item("a", "on", 2, 0, 0)], 0),
        ([Item("a", "on", 2, 0, 1)], 0),
        ([Item("a", "on", 2, 1, 0, "why")], 1),
        # Nothing that passed is nothing that was shown.
        ([Item("a", "on", 0, 0, 3)], 1),
        ([], 1),
    ],
)
def test_the_exit_code_of_a_test_run(
    call: Call, monkeypatch: pytest.MonkeyPatch, items: list[Item], code: int
) -> None:
    run_items(monkeypatch, *items)
    assert call("test", "um").code == code


def test_the_json_of_a_test_run(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_items(
        monkeypatch, Item("a", "on", 2, 0, 1), Item("b", "off", 1, 0, 0),
        verdict("c", "on", True, "hidden"), verdict("d", "-", False, "shown"),
    )  # fmt: skip
    done = call("test", "um", "--json", str(tmp_path / "r"))
    assert done.code == 1
    assert "hidden" not in done.out
    # The end says again what failed, and only that.
    failed = "FAIL  -    d: 0 passed, 1 failed, 0 skipped\n          shown\n"
    assert done.out.count(failed) == 2
    assert done.out.endswith(f"\nFailed:\n{failed}\n4 passed, 1 failed, 1 skipped\n")
    written = json.loads((tmp_path / "r").read_text())
    assert written["tested"] == [
        {"target": "um", "variant": "on", "suites": [
            {"name": "a", "passed": 2, "failed": 0, "skipped": 1, "detail": ""},
            {"name": "c", "passed": 1, "failed": 0, "skipped": 0, "detail": ""}]},
        {"target": "um", "variant": "off", "suites": [
            {"name": "b", "passed": 1, "failed": 0, "skipped": 0, "detail": ""}]},
        {"target": "um", "variant": "-", "suites": [
            {"name": "d", "passed": 0, "failed": 1, "skipped": 0, "detail": "shown"}]},
    ]  # fmt: skip
    assert written["command"] == "redoubt test um --json r"
    # Numbers, not truth values that compare like them.
    assert not re.search(r"true|false", json.dumps(written["tested"]))


def test_a_test_run_is_written_for_other_tools(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_items(monkeypatch, Item("a", "on", 2, 1, 0, "why"))
    junit, lines = tmp_path / "r.xml", tmp_path / "r.ktap"
    assert call("test", "um", "--junit", str(junit), "--ktap", str(lines)).code == 1
    assert ElementTree.parse(junit).getroot().attrib["failures"] == "1"
    assert lines.read_text().splitlines()[-3:] == ["  # why", "  not ok 1 a", "not ok 1 um on"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["build", "r.ktap", "r.xml"]


def test_a_report_is_the_last_that_is_printed(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Lines of ours after it would be taken for some of it, if both go to one pipe."""
    run_items(monkeypatch, Item("a", "on", 2, 0, 0))
    monkeypatch.setattr(suites, "write_bytes", lambda file, data: print(data.decode()))
    done = call("test", "um", "--ktap", str(tmp_path / "r"))
    assert "2 passed, 0 failed" in done.out
    assert done.out.rstrip().endswith("  ok 1 a\nok 1 um on")


def test_the_time_that_is_left_is_told(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run_items(monkeypatch, Item("a", "on", 2, 0, 0))
    record = paths.build_dir() / "log/steps.json"
    assert " left\n" not in call("test", "um", "--only", "tool").err
    assert list(json.loads(record.read_text())) == ["- tool"]
    record.write_text('{"- tool": 600, "um audit": 1200}')
    done = call("test", "um", "--only", "tool", "--only", "audit")
    assert done.err.splitlines() == ["about 30 min left", "about 20 min left"]
    kept = json.loads(record.read_text())
    assert kept["um audit"] < 1 and kept["- tool"] < 1


def test_single_steps_can_be_run(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run_items(monkeypatch, Item("tool", "-", 5, 0, 0))
    monkeypatch.setattr(code, "audited", lambda run: iter([Item("audit", "-", 1, 0, 0)]))
    # It takes no --long to run a slow one.
    monkeypatch.setattr(
        "redoubt.suite.flavours.debug", lambda run: iter([Item("debug", "on", 2, 0, 0)])
    )
    done = call("test", "um", "--only", "debug flavour", "--only", "audit")
    assert done.out.endswith("\n3 passed, 0 failed, 0 skipped\n")
    assert done.code == 0


def test_a_quick_run_has_few_steps_of_um(call: Call) -> None:
    def steps_of(*words: str) -> list[list[str]]:
        done = call("test", *words, "--quick", "--list")
        assert done.code == 0
        return [[*line.split("  ")[0].split(), line[14:].split("  ")[0]]
                for line in done.out.splitlines()]  # fmt: skip

    tool = [["-", "tool"], ["-", "results"]]
    assert steps_of() == [*tool, ["um", "boots"], ["um", "audit"]]
    assert steps_of("x86_64") == [*tool, ["x86_64", "boots"], ["x86_64", "audit"]]
    assert steps_of("um", "--only", "offcheck") == [["um", "offcheck"]]


def test_a_quick_run_is_no_measure_of_others(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    quick: list[bool] = []

    def unit(run: Run) -> Iterator[Item]:
        quick.append(run.quick)
        yield Item("tool", "-", 5, 0, 0)

    monkeypatch.setattr("redoubt.suite.steps.AT_ONCE", 1)
    monkeypatch.setattr(tool, "unit", unit)
    assert call("test", "um", "--quick", "--only", "tool").code == 0
    assert call("test", "um", "--only", "tool").code == 0
    record = json.loads((paths.build_dir() / "log/steps.json").read_text())
    assert list(record) == ["- tool, quick", "- tool"]


@pytest.mark.parametrize("quick", [True, False])
def test_what_is_booted_in_a_quick_run(monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    booted: list[str] = []

    def note(name: str) -> Callable[..., Iterator[Item]]:
        def noting(*_: object, **how: object) -> Iterator[Item]:
            booted.append(name)
            return iter(())

        return noting

    for name in ("without_keys", "kunit", "attacks", "odd_cpu", "checks", "_policies"):
        monkeypatch.setattr(boots, name, note(name))
    monkeypatch.setattr(boots, "running", lambda *_: Item("running", "on", 1, 0, 0))
    monkeypatch.setattr(kernels, "workbench", lambda *_: None)
    monkeypatch.setattr(host, "lacking", lambda *_: None)
    monkeypatch.setattr(host, "enforcing", lambda *_: host.NATIVE)
    list(boots.booted(Run(UM, "auto", False, common.Display(), quick=quick)))
    assert booted[:3] == ["without_keys", "kunit", "kunit"]
    assert "attacks" in booted
    assert len(booted) == 4 if quick else {"odd_cpu", "checks", "_policies"} < set(booted)


def test_several_targets_are_one_run(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is about no target is done once, and the last line is the sum of all."""
    run_items(monkeypatch, Item("tool", "-", 5, 0, 0))
    monkeypatch.setattr(
        boots, "booted", lambda run: iter([Item(f"boot {run.target.name}", "on", 1, 0, 0)])
    )
    monkeypatch.setattr(code, "audited", lambda run: iter([Item("audit", "-", 1, 0, 0)]))

    def once(runs: list[Run]) -> Iterator[Item]:
        yield Item("series of " + " and ".join(run.target.name for run in runs), "-", 1, 0, 0)

    monkeypatch.setattr(code, "series_checked", once)
    monkeypatch.setattr(qemu, "problem", lambda emulator: None)
    done = call("test", "um", "x86_64", "um", "--json", str(tmp_path / "r"))
    assert done.code == 0
    assert [line.split(": ")[0] for line in done.out.splitlines() if ":" in line] == [
        "ok    -       -    tool",
        "ok    um      on   boot um",
        "ok    x86_64  on   boot x86_64",
        "ok    um      -    audit",
        "ok    x86_64  -    audit",
        "ok    -       -    series of um and x86_64",
    ]
    assert done.out.endswith("\n10 passed, 0 failed, 0 skipped\n")
    found = {
        (entry["target"], entry["variant"]): [one["name"] for one in entry["suites"]]
        for entry in json.loads((tmp_path / "r").read_text())["tested"]
    }
    assert found == {
        ("um", "-"): ["tool", "audit", "series of um and x86_64"],
        ("um", "on"): ["boot um"],
        ("x86_64", "on"): ["boot x86_64"],
        ("x86_64", "-"): ["audit"],
    }


def test_which_prefixes_of_the_series_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    built = [target for target in TARGETS.values() if not target.built_as]
    expected = [("arm64", "first"), *((one.name, "second") for one in built), ("um", "third")]
    compiled: list[tuple[str, str]] = []
    files = {
        "first": "arch/arm64/mm/a.c", "second": "mm/b.c", "third": "arch/um/c.c",
        "fourth": "arch/riscv/c.c",
    }  # fmt: skip
    patches = {name: topics.Patch(Path(f"{name}.patch"), False, (files[name],)) for name in files}
    known = {name: topics.Topic(name, mails=(patch,)) for name, patch in patches.items()}
    last = {name: commits.Commit(known[name], patches[name], "") for name in known}

    def compile_kernel(target: Target, _: Path, kind: str, *__: object, **___: object) -> None:
        compiled.append((target.name, kind.removeprefix("series-")))

    def take_back(
        *_: Path, build: Callable[[Path, commits.Commit], bool], **__: object
    ) -> series.Report:
        built = [name for name in known if build(Path("tree"), last[name])]
        return series.Report((), 0, (), tuple(built), False)

    monkeypatch.setattr(code.source, "obtain", lambda _: source.Source(Path("p"), "7.3.4"))
    monkeypatch.setattr(code.series, "export", lambda *_, **__: [])
    monkeypatch.setattr(code.commits, "chosen", lambda *_: known.values())
    monkeypatch.setattr(code.cover, "letter", lambda *_: "")
    monkeypatch.setattr(code.series, "check", take_back)
    monkeypatch.setattr(code.build, "compile_kernel", compile_kernel)
    report = code.series_check(built, common.Display())
    assert compiled == expected
    assert report.built == tuple(dict.fromkeys(topic for _, topic in expected))


@pytest.mark.parametrize(
    ("name", "machines"),
    [
        ("um", [("", host.NATIVE, "nopku", None)]),
        ("x86_64", [(" (-cpu max,-pks)", host.EMULATED, "", "max,-pks"),
                    (" (nopks)", host.EMULATED, "nopks", None)]),
    ],
)  # fmt: skip
def test_the_keys_are_taken_away(
    monkeypatch: pytest.MonkeyPatch, name: str, machines: list[tuple[str, str, str, str | None]]
) -> None:
    booted: list[boot.Machine] = []

    def fake(machine: boot.Machine, *_: object, **__: object) -> boot.Result:
        booted.append(machine)
        return result("kpkeys: page tables not hardened: no keys")

    monkeypatch.setattr(boots, "boot", fake)
    target = get_target(name)
    made = kernels.Workbench(Build(target, Path("d"), Path("i"), Path("v")), Path("p"), "emulated")
    items = list(boots.without_keys(Run(target, "auto", False, common.Display()), made))
    assert [item.name for item in items] == [f"no protection keys{how}" for how, *_ in machines]
    assert all(item.passed for item in items)
    for machine, (_, where, arg, cpu) in zip(booted, machines, strict=True):
        assert (machine.host, machine.cpu) == (where, cpu)
        assert not arg or arg in machine.args


def test_a_step_that_cannot_run_is_a_failure_and_the_rest_goes_on(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: Run) -> None:
        raise RedoubtError("the patches do not apply", "mend them")

    quiet(monkeypatch, *BOOTLESS, "flavours.stress_ng")
    monkeypatch.setattr(boots, "booted", broken)
    monkeypatch.setattr(code, "audited", lambda run: iter([Item("audit", "-", 1, 0, 0)]))
    done = call("test", "um")
    assert done.code == 1
    assert "the patches do not apply\n          mend them\n" in done.out
    assert done.out.endswith("\n1 passed, 1 failed, 0 skipped\n")


def test_lint_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = lint.Finding("mm/a.c", 3, "checkpatch", "no")
    asked: list[object] = []

    def check(tree: Path, builds: dict[Path, str]) -> lint.Report:
        asked.append(builds)
        return lint.Report((wrong,), (), ("mm/a.c",), 1, 1, 0)

    monkeypatch.setattr(kernels, "our_tree", lambda _: Path("tree"))
    monkeypatch.setattr(lint, "lint", check)
    monkeypatch.setattr(htmldocs, "check", lambda *_: htmldocs.Report((), (), (), 1))
    (item,) = code.linted(run := Run(UM, "auto", False, common.Display()))
    assert asked == [{}]
    assert (item.failed, item.detail) == (1, str(wrong))
    (item,) = code.documented(run)
    assert (item.passed, item.failed) == (1, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def test_a():\n    pass\n", (1, 0, 0)),
        ("def test_a():\n    assert 0\n", (0, 1, 0)),
        ("import pytest\ndef test_a(): pytest.skip('so')\ndef test_b(): pass\n", (1, 0, 1)),
        ("import nowhere\n", (0, 1, 0)),
        ("", (0, 1, 0)),
        ("import os\ndef test_a():\n    os._exit(0)\n", (0, 1, 0)),
    ],
)
def test_pytest_is_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, expected: tuple[int, int, int]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(text)
    monkeypatch.setattr(tool.paths, "repo", lambda: tmp_path)
    (item,) = tool.unit(Run(UM, "auto", False, common.Display()))
    assert (item.passed, item.failed, item.skipped) == expected
    assert bool(item.detail) is (expected != (1, 0, 0))


@pytest.mark.parametrize("quick", [True, False])
def test_a_quick_run_leaves_out_slow_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick: bool
) -> None:
    write_tree(tmp_path, {
        "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow", "guest", "network"]\n',
        "tests/test_it.py": "import pytest\ndef test_a(): pass\n"
        "@pytest.mark.slow\ndef test_b(): pass\n",
    })  # fmt: skip
    monkeypatch.setattr(tool.paths, "repo", lambda: tmp_path)
    (item,) = tool.unit(Run(UM, "auto", False, common.Display(), quick=quick))
    assert (item.passed, item.failed) == (1 if quick else 2, 0)


def test_slow_tests_are_known_by_files_that_exist() -> None:
    assert {f"{name}.py" for name in SLOW} <= {
        file.name for file in Path(__file__).parent.glob("test_*.py")
    }


# === Attack and check ============================================================================


SUCCESS = "@attack: a outcome=succeeded prize=uid 0 attacker=exit 0 alive=yes"


def attack_with(
    monkeypatch: pytest.MonkeyPatch, on: str, after: str = "finished", off: str = SUCCESS
) -> None:
    console = {"off": off, "on": on}
    monkeypatch.setattr(host, "needs_enforcing", lambda *_: host.EMULATED)

    def fake(machine: boot.Machine, *_: object, **__: object) -> boot.Result:
        variant = "off" if "kpkeys_hardened_pgtables=off" in machine.args else "on"
        lines = ["a in-scope alters a thing", *console[variant].splitlines()]
        return result(*lines, outcome="finished" if variant == "off" else after)

    monkeypatch.setattr(experiment, "boot", fake)


STOPPED = (
    "kpkeys: violation: write to 0x1 (pkey 1) at level default, ip x+0x1, a[7]\n"
    "@attack: a outcome=failed prize=intact attacker=signal 11 alive=yes"
)


@pytest.mark.parametrize(
    ("on", "mark", "detail", "outcome"),
    [
        (STOPPED, "BLOCKED", "kpkeys: violation: write to 0x1", "blocked"),
        ("@attack: a not on this target: no huge", "NOT HERE", "    on: no huge", "absent"),
    ],
)
def test_an_attack_that_does_not_succeed(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    on: str, mark: str, detail: str, outcome: str,
) -> None:  # fmt: skip
    attack_with(monkeypatch, on)
    done = call("attack", "um", "--json", str(tmp_path / "r"))
    assert done.code == 0, done.err
    assert re.search(rf"SUCCEEDED +{mark}", done.out)
    assert detail in done.out
    entries = json.loads((tmp_path / "r").read_text())["attacks"]
    assert [set(entry) for entry in entries] == [
        {"target", "attack", "variant", "outcome", "detail", "flavour", "counts"}
    ] * 2
    assert [entry["outcome"] for entry in entries] == ["succeeded", outcome]


@pytest.mark.parametrize(
    ("on", "after"),
    [
        ("@attack: a outcome=succeeded prize=uid 0 attacker=exit 0 alive=yes", "finished"),
        ("@attack: a outcome=failed prize=intact attacker=exit 1 alive=yes", "finished"),
        ("nothing", "finished"),
        # The machine went down after the last attack.
        (STOPPED, "panic"),
        (STOPPED, "hang"),
        (STOPPED, "died"),
    ],
)
def test_an_attack_that_does_not(
    call: Call, monkeypatch: pytest.MonkeyPatch, on: str, after: str
) -> None:
    attack_with(monkeypatch, on, after)
    done = call("attack", "um")
    assert done.code == 1
    assert "not as it should be: a (on)" in done.err


@pytest.mark.parametrize(
    ("on", "code", "shown", "counts"),
    [
        (f"{STOPPED}\n{STOPPED}", 0, r"BLOCKED 2/2", {"blocked": 2}),
        (f"{STOPPED}\n{SUCCESS}", 1, r"ERROR +$", {"blocked": 1, "succeeded": 1}),
    ],
)
def test_attacks_that_are_repeated(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on: str, code: int, shown: str,
    counts: dict[str, int],
) -> None:  # fmt: skip
    attack_with(monkeypatch, on, off=f"{SUCCESS}\n{SUCCESS}")
    monkeypatch.setattr(trial, "known_attacks", lambda: ["a"])
    done = call("attack", "um", "--repeat", "2", "--only", "a", "--json", str(tmp_path / "r"))
    assert done.code == code, done.err
    assert re.search(r"SUCCEEDED 2/2 +" + shown, done.out, re.MULTILINE)
    entries = json.loads((tmp_path / "r").read_text())["attacks"]
    assert [entry["counts"] for entry in entries] == [{"succeeded": 2}, counts]


def test_a_guest_without_attacks(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    attack_with(monkeypatch, STOPPED)
    monkeypatch.setattr(experiment, "boot", lambda *_, **__: result("c out-of-scope x"))
    done = call("attack", "um")
    assert done.code == 1
    assert "does not say which attacks it has" in done.err


@pytest.mark.parametrize(("foreign", "code"), [("0", 0), ("1", 1)])
def test_check(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, foreign: str, code: int
) -> None:
    monkeypatch.setattr(host, "needs_enforcing", lambda *_: host.EMULATED)
    walk = ("tables 9", "untagged 0", f"foreign {foreign}")
    monkeypatch.setattr(experiment, "boot", lambda *_, **__: result(*walk, *walk))
    monkeypatch.setattr(qemu, "described", lambda emulator: f"{emulator.program}: 9")
    done = call("check", "um", "--json", str(tmp_path / "r"))
    assert done.code == code
    written = json.loads((tmp_path / "r").read_text())
    origin = {name: written.pop(name) for name in ("machine", "commit", "dirty", "command", "date")}
    assert written == {
        "target": "um", "variant": "on", "tables": 9, "untagged": 0, "foreign": int(foreign),
        "splats": 0,
    }  # fmt: skip
    assert origin["machine"]["emulators"] == ["qemu-system-x86_64: 9"]
    assert origin["command"] == "redoubt check um --json r"


# === What a person sees ==========================================================================


def test_plain_lines_when_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(common, "err", Console(file=out, soft_wrap=True))
    display = common.Display()
    with display.step("Building [um]"):
        display.detail("never shown")
        with display.step("Inner"):
            pass
    assert out.getvalue() == "Building [um] ...\nInner ...\n"


def test_steps_within_steps_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "err", Console(file=io.StringIO(), force_terminal=True, width=80))
    display = common.Display()
    with display.step("Outer"):
        assert display.status
        display.detail("what looks like [/markup] and [bold]")
        with pytest.raises(RedoubtError), display.step("Inner"):
            assert display.titles == ["Outer", "Inner"]
            raise RedoubtError("x")
        assert display.titles == ["Outer"]
        assert display.status
    assert (display.status, display.titles) == (None, [])

    # Side by side: the spinner stays as long as one of them runs, in whatever order they end.
    first, second = display.step("One"), display.step("Two")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert display.titles == ["Two"]
    assert display.status
    second.__exit__(None, None, None)
    assert (display.status, display.titles) == (None, [])


def test_a_terminal_gets_a_spinner(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    sandbox.env["TERM"] = "xterm"
    leader, follower = pty.openpty()
    process = sandbox.start(
        "build", "um", "--variant", "pristine", setup=lambda: os.dup2(follower, 2)
    )
    os.close(follower)
    text = b""
    with contextlib.suppress(OSError):
        while part := os.read(leader, 4096):
            text += part
    os.close(leader)
    assert sandbox.finish(process).code == 0
    assert b"\x1b[" in text
    assert b"Building um (pristine)" in text
