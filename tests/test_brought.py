# SPDX-License-Identifier: GPL-2.0-only
"""Results of real machines: what is taken, what is refused, and what is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_BUILD, Done
from guests import AUDIT

from redoubt.core.errors import RedoubtError
from redoubt.linux import source
from redoubt.linux.source import Source
from redoubt.ship import report
from redoubt.ship.stick import brought, plan
from redoubt.ship.stick.brought import Brought
from redoubt.targets import X86_64

SRC = REAL_BUILD / "src"
needs_parser = pytest.mark.skipif(
    not (SRC / "tools/testing/kunit/kunit_parser.py").exists(), reason="no source: redoubt source"
)

KTAP = ["KTAP version 1", "1..1", "    KTAP version 1", "    # Subtest: kpkeys_levels", "    1..2",
        "    ok 1 guard", "    ok 2 mask", "ok 1 kpkeys_levels"]  # fmt: skip
LIST = ["  own-pte  in-scope  own PTE maps a file", "  page-cache  out-of-scope  contents altered"]
WON = "outcome=succeeded prize=taken attacker=exit 0 alive=yes"
STOPPED = "outcome=failed prize=intact attacker=signal 9 alive=yes"
VIOLATION = "kpkeys: violation: write to 0x1 (pkey 1) at level default, ip x, own-pte[7]"
ATTACKED = {
    "off": [f"@attack: own-pte {WON}", f"@attack: page-cache {WON}"],
    "on": [VIOLATION, f"@attack: own-pte {STOPPED}", f"@attack: page-cache {WON}"],
}
HARDWARE = ["model name: Some CPU", "hypervisor: no", "pks: yes", "memory: 16000000 kB"]
WALK = ["tables 100", "untagged 0", "aliases 0", "unlinked 0", "foreign 0"]
HARDENED = ["kpkeys: page tables hardened, 3 levels"]
# Of a kernel that switches, and of one that does not.
PRICES = [
    [f"@price: switch ops=1000 ns={ns},{ns},90000000", "@price: ibpb ops=10 ns=9000,10000,11000",
     "@price: user-key absent: Operation not supported",
     "@price: counter ticks=300 ns=100", "@price: done"]
    for ns in (42000, 2000)
]  # fmt: skip
# ns for an operation in each variant.
NS = {"off": 1000, "on": 1100, "asi": 1500}


def output(step: str) -> tuple[list[str], list[str]]:
    """The words of a machine of silicon with keys in a step: output and messages of the kernel."""
    entry, _, name = step.partition("/")
    if name == "bench":
        lines = [
            f"@bench: workload=fork size=67108864 ops=1 ns={NS[entry] + 10 * n} host_ns=0 "
            f"host_calls=0 tables=9 free_ns=0 sample={n}"
            for n in (1, 2, 3)
        ]
        return [*lines, "@bench: done"], []
    said: dict[str, tuple[list[str], list[str]]] = {
        "prices": (PRICES[entry != "on"] if name == "prices" else [], []),
        "kunit": ([], KTAP),
        "hardware": (HARDWARE, []),
        "log": ([], HARDENED if entry.endswith("on") else []),
        "check": (WALK, []),
        "check again": (WALK, []),
        "audit": (AUDIT, []),
        "audit again": (AUDIT, []),
        "list": (LIST, []),
        "attacks": (
            LIST,
            ["redoubt:     30 s, of about 30", *ATTACKED.get(entry.removeprefix("attack-"), [])],
        ),
    }
    return said.get(name, ([], []))


Lines = list[dict[str, Any]]


def journal() -> Lines:
    """The journal of a machine that was asked everything and answered well."""
    asked = plan.make(X86_64)
    steps = [f"{entry.name}/{step.name}" for entry in asked.entries for step in entry.steps]
    lines: Lines = [
        {"image": {"format": 1, "target": "x86_64", "commit": "c" * 40, "dirty": False,
                   "command": "redoubt image x86_64", "date": "2026-11-30T00:00:00+00:00",
                   "options": {"CONFIG_KPKEYS_HARDENED_CRED": "y"}, "steps": steps,
                   "specs": ["fork:67108864:1:3:1"]}},
    ]  # fmt: skip
    last = ""
    for step in steps:
        if last != step.partition("/")[0]:
            last = step.partition("/")[0]
            lines.append({"boot": last, "machine": "some-cpu"})
        told, log = output(step)
        lines += [
            {"step": step, "event": "begin"},
            {"step": step, "event": "end", "status": 0, "seconds": 1.5, "output": told, "log": log},
        ]
    return [*lines, {"boot": "finish", "machine": "some-cpu"}]


def at(lines: Lines, step: str, event: str = "end") -> dict[str, Any]:
    """The line of a step."""
    return next(line for line in lines if (line.get("step"), line.get("event")) == (step, event))


def write(where: Path, lines: Any) -> Path:
    file = where / "results-some-cpu.json"
    file.write_text(json.dumps({"journal": lines}))
    return file


def judged(where: Path, lines: Lines) -> Brought:
    return brought.judge(brought.read(write(where, lines)), SRC)


# === Judging =====================================================================================


@needs_parser
def test_good_results(tmp_path: Path) -> None:
    found = judged(tmp_path, journal())
    assert (found.problems, found.wrong) == ((), ())
    assert (found.keys, found.silicon, found.ok) == (True, True, True)
    assert found.kunit == {"kunit-off": (2, 0, 0), "kunit-on": (2, 0, 0)}
    assert {(one.attack, one.variant): one.outcome for one in found.attacks} == {
        ("own-pte", "off"): "succeeded", ("page-cache", "off"): "succeeded",
        ("own-pte", "on"): "blocked", ("page-cache", "on"): "succeeded",
    }  # fmt: skip
    assert found.times == {"fork 64 MiB": {"off": 1020.0, "on": 1120.0, "asi": 1520.0}}
    assert [walk.tables for walk in found.walks] == [100, 100]
    # The median of ns and ticks for each of a thousand.
    assert found.as_json()["prices"]["on"] == {
        "switch": {"ns": 42.0, "ticks": 126.0}, "ibpb": {"ns": 1000.0, "ticks": 3000.0}
    }  # fmt: skip
    text = list(brought.render(found))
    assert "model name: Some CPU" in text
    assert "attacks, on: 1 blocked, 1 succeeded" in text
    assert not [line for line in text if line.startswith(("INCOMPLETE", "WRONG"))]


@needs_parser
def test_a_step_that_took_the_machine_down(tmp_path: Path) -> None:
    lines = journal()
    lines[lines.index(at(lines, "on/stress"))] = {"step": "on/stress", "event": "died"}
    # And the kernel of one that never came to its first program.
    lines = [line for line in lines if line.get("step") != "kunit-on/kunit"]
    found = judged(tmp_path, lines)
    assert found.problems == ("kunit-on/kunit: never ran", "on/stress: died")
    assert found.steps["on/stress"] == "died"
    # All else counts.
    assert found.kunit == {"kunit-off": (2, 0, 0)}
    assert found.times["fork 64 MiB"]["on"] == 1120.0


@needs_parser
def test_the_last_step_died_and_nobody_booted_again(tmp_path: Path) -> None:
    lines = journal()
    lines = lines[: lines.index(at(lines, "asi/audit again"))]
    assert judged(tmp_path, lines).problems == ("asi/audit again: died",)


@needs_parser
@pytest.mark.parametrize(
    ("step", "change", "problem"),
    [
        ("on/log", {"log": []}, "on/log: the kernel does not protect page tables"),
        ("off/log", {"log": HARDENED}, "off/log: the kernel protects page tables"),
        ("on/bench", {"output": ["@bench: done"]}, "on/bench: fork:67108864:1:3:1: 0 different"),
        ("on/stress", {"status": 124}, "on/stress: ended with status 124"),
        ("on/prices", {"output": PRICES[0][:-1]}, "on/prices: the list of prices has no end"),
        ("off/log", {"log": ["e1000: 52:54:00:12:34:56"]}, "off/log: there may be a serial"),
        ("off/hardware", {"output": ["Serial Number: 7", *HARDWARE]}, "off/hardware: there may be"),
    ],
)
def test_implausible_results(
    tmp_path: Path, step: str, change: dict[str, Any], problem: str
) -> None:
    lines = journal()
    at(lines, step).update(change)
    (told,) = judged(tmp_path, lines).problems
    assert told.startswith(problem)


@needs_parser
def test_boots_of_two_machines(tmp_path: Path) -> None:
    lines = journal()
    lines[-1]["machine"] = "other-cpu"
    assert judged(tmp_path, lines).problems == ("the boots are of 2 machines: some-cpu, other-cpu",)


@needs_parser
@pytest.mark.parametrize(
    ("step", "change", "wrong"),
    [
        ("attack-on/attacks", {"log": ATTACKED["off"]}, "attack-on/attacks: own-pte succeeded"),
        ("attack-off/attacks", {"log": ATTACKED["on"]}, "attack-off/attacks: own-pte blocked"),
        ("attack-on/attacks", {"log": ATTACKED["on"][:2]}, "attack-on/attacks: page-cache error"),
        ("attack-on/list", {"output": []}, "attack-on/attacks: the machine does not say"),
        ("on/check", {"output": [*WALK[:1], "untagged 1", *WALK[2:]]}, "on/check: "),
        ("kunit-on/kunit", {"log": [*KTAP[:5], "    not ok 1 guard", *KTAP[6:]]}, "kunit-on/kunit"),
        ("asi/audit again", {"output": AUDIT[:-1]}, "asi/audit again: "),
        (
            "asi/audit",
            {"output": ["sensitive 9", "ordinary 9", "leaks 1", *AUDIT[3:]]},
            "asi/audit",
        ),
        ("kunit-on/kunit", {"log": []}, "kunit-on/kunit: kunit failed"),
    ],
)
def test_what_did_not_end_as_it_should(
    tmp_path: Path, step: str, change: dict[str, Any], wrong: str
) -> None:
    lines = journal()
    at(lines, step).update(change)
    found = judged(tmp_path, lines)
    assert found.wrong and found.wrong[0].startswith(wrong)
    # That is a result, and nothing of it is missing.
    assert found.problems == ()
    assert not found.ok


@needs_parser
def test_a_program_that_says_what_is_out_of_its_reach(tmp_path: Path) -> None:
    lines = journal()
    ended = "outcome=failed prize=intact attacker=exit 4 alive=yes"
    at(lines, "attack-on/attacks").update(
        output=["@attack: own-pte out of reach: no table came back"],
        log=[f"@attack: own-pte {ended}", ATTACKED["on"][-1]],
    )
    found = judged(tmp_path, lines)
    assert found.wrong == ()
    assert [one.outcome for one in found.attacks if one.variant == "on"] == ["blocked", "succeeded"]


@needs_parser
def test_a_machine_without_keys(tmp_path: Path) -> None:
    lines = journal()
    for entry in ("off", "on", "asi"):
        at(lines, f"{entry}/hardware")["output"] = [*HARDWARE[:2], "pks: no"]
    for name in ("on/log", "attack-on/log"):
        at(lines, name)["log"] = ["kpkeys: page tables not hardened: no keys"]
    at(lines, "attack-on/attacks")["log"] = ATTACKED["off"]
    for name in ("on/check", "on/check again"):
        at(lines, name).update(output=["cat: no such device"], status=1)
    found = judged(tmp_path, lines)
    assert (found.problems, found.wrong, found.keys) == ((), (), False)
    # There, protection that is on blocks nothing, and must not seem to.
    at(lines, "attack-on/attacks")["log"] = ATTACKED["on"]
    assert judged(tmp_path, lines).wrong


@needs_parser
def test_a_virtual_machine_is_no_silicon(tmp_path: Path) -> None:
    lines = journal()
    at(lines, "off/hardware")["output"] = [HARDWARE[0], "hypervisor: yes", "pks: yes"]
    found = judged(tmp_path, lines)
    assert not found.silicon
    assert any("a virtual machine, of which times say nothing" in s for s in brought.render(found))


# === Reading =====================================================================================


def _swapped(lines: Lines) -> None:
    begin = lines.index(at(lines, "off/log", "begin"))
    lines[begin], lines[begin + 1] = lines[begin + 1], lines[begin]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda lines: lines.pop(0), "expected one image"),
        (lambda lines: lines.insert(0, lines[0]), "expected one image"),
        (lambda lines: lines[0]["image"].update(format=2), "of format 1"),
        (lambda lines: lines[0]["image"].pop("commit"), "'commit'"),
        (lambda lines: lines[0]["image"].update(target="vax"), "unknown target 'vax'"),
        (lambda lines: lines[0]["image"].update(options=[]), "options of the image is no dict"),
        (
            lambda lines: lines[0]["image"]["steps"].pop(),
            "nobody asked for the step asi/audit again",
        ),
        (lambda lines: lines.append(at(lines, "on/log")), "on/log ends without a begin"),
        (lambda lines: lines.append(at(lines, "on/log", "begin")), "on/log begins twice"),
        (_swapped, "off/log ends without a begin"),
        (lambda lines: at(lines, "on/log").update(event="sang"), "unknown event 'sang'"),
        (lambda lines: at(lines, "on/log").update(seconds=-1), "on/log took -1.0 s"),
        (lambda lines: at(lines, "on/log").update(log="text"), "a text is no list of lines"),
        (lambda lines: at(lines, "on/log").pop("status"), "'status'"),
    ],
)
def test_what_contradicts_itself_is_none(
    tmp_path: Path, spoil: Callable[[Lines], object], why: str
) -> None:
    lines = journal()
    spoil(lines)
    with pytest.raises(RedoubtError, match="is no result of an image") as caught:
        brought.read(write(tmp_path, lines))
    assert why in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"journal": 7}', '{"journal": [7]}', "é"])
def test_another_file_is_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "results-x.json"
    file.write_text(text)
    with pytest.raises(RedoubtError, match="is no result of an image"):
        brought.read(file)


@pytest.mark.parametrize("name", ["results-.json", "results-A.json", "x.json", "results-a.txt"])
def test_names(name: str) -> None:
    with pytest.raises(RedoubtError, match="is no name of results"):
        brought.name_of(Path("/somewhere") / name)


# === The verb ====================================================================================


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that results are added to."""
    monkeypatch.setattr("redoubt.core.paths.results_dir", lambda: tmp_path / "results")
    monkeypatch.setattr(source, "obtain", lambda _: Source(SRC, "7.3.4"))
    return tmp_path / "results" / "hardware"


@needs_parser
def test_good_results_are_added_once(tmp_path: Path, call: Any, here: Path) -> None:
    file = write(tmp_path, journal())
    done: Done = call("import", str(file))
    assert done.code == 0
    assert "model name: Some CPU" in done.out
    kept = json.loads((here / file.name).read_text())
    assert kept["kunit"] == {"kunit-off": [2, 0, 0], "kunit-on": [2, 0, 0]}
    assert kept["image"]["commit"] == "c" * 40
    # With the samples, and without what the kernel said.
    assert at(kept["journal"], "on/bench")["output"][-1] == "@bench: done"
    assert not [line for line in kept["journal"] if "log" in line]
    done = call("import", str(file))
    assert done.code == 2
    assert "is there already" in done.err


@needs_parser
def test_only_shown(tmp_path: Path, call: Any, here: Path) -> None:
    done: Done = call("import", "--show", str(write(tmp_path, journal())))
    assert done.code == 0
    assert "kunit-on: 2 passed, 0 failed, 0 skipped" in done.out
    assert not here.exists()


@needs_parser
def test_incomplete_results_are_added_when_asked_for(tmp_path: Path, call: Any, here: Path) -> None:
    lines = journal()
    lines.remove(at(lines, "asi/bench"))
    file = write(tmp_path, lines)
    done: Done = call("import", str(file))
    assert done.code == 1
    assert "was not added: asi/bench: died" in done.err
    assert "--incomplete" in done.err
    assert not here.exists()
    assert call("import", "--incomplete", str(file)).code == 0
    assert json.loads((here / file.name).read_text())["problems"] == ["asi/bench: died"]


@needs_parser
def test_machines_in_the_report(tmp_path: Path, call: Any, here: Path) -> None:
    assert call("import", str(write(tmp_path, journal()))).code == 0
    results = report.load(here.parent)
    row = ("Some CPU", "yes", "2 passed, 0 failed", "1 blocked of 2", "0", "0", "1.098", "-", "-")
    assert results.hardware.rows == (row,)
    assert "<td>Some CPU</td>" in report.page(results)
    assert "| Some CPU | yes | 2 passed, 0 failed |" in report.benchmark_block(results)
    (priced,) = results.priced
    assert priced.heading == "Some CPU: Prices: the medians of 15 samples"
    assert priced.heading in report.page(results)
    assert "| 20.0 | 60 |" in report.benchmark_block(results)
    # A virtual machine has no times to compare.
    file = here / "results-some-cpu.json"
    value = json.loads(file.read_text()) | {"silicon": False}
    file.write_text(json.dumps(value))
    assert report.load(here.parent).hardware.rows == ((*row[:6], "-", "-", "-"),)
    # And a file that is none is told.
    file.write_text("{}")
    with pytest.raises(RedoubtError, match="is damaged"):
        report.load(here.parent)


@needs_parser
def test_a_machine_that_died_of_successful_attacks(tmp_path: Path) -> None:
    lines = journal()
    end = at(lines, "attack-off/attacks")
    where = lines.index(end)
    # Each was told when it had succeeded, and then the damage showed.
    told = [{"step": end["step"], "event": "log", "log": [line]} for line in ATTACKED["off"]]
    lines[where : where + 1] = told
    found = judged(tmp_path, lines)
    assert (found.problems, found.wrong) == ((), ())
    assert found.steps["attack-off/attacks"] == "died"
    assert [one.outcome for one in found.attacks if one.variant == "off"] == ["succeeded"] * 2
    # Earlier than that, something is missing.
    lines.remove(told[1])
    found = judged(tmp_path, lines)
    assert found.problems == ("attack-off/attacks: died",)
    assert found.wrong and "page-cache error" in found.wrong[0]
