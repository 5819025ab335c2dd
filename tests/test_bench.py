# SPDX-License-Identifier: GPL-2.0-only
"""The plan of the benchmark, its boots, and what is read off a guest's console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress, Silent
from redoubt.cost import bench, workloads
from redoubt.cost.bench import Plan, Way
from redoubt.cost.workloads import EVENTS, INSTRUCTIONS, MIB, MOCK, TIME, VARIANTS, WORKLOADS, Spec
from redoubt.linux.build import Build
from redoubt.machine import boot, host, qemu
from redoubt.machine.boot import Machine, Result
from redoubt.targets import TARGETS, UM, X86_64, Target

SPEC = Spec("fork", 64 * MIB, 2, 3, 1)


def line(sample: int, spec: Spec = SPEC, **changed: object) -> str:
    fields: dict[str, object] = {
        "workload": spec.workload, "size": spec.size, "ops": spec.ops, "ns": 1000 + sample,
        "host_ns": 10, "host_calls": 1, "tables": 66, "free_ns": 100, "stat_switches_pgtables": 8,
        "sample": sample, **changed,
    }  # fmt: skip
    return "@bench: " + " ".join(f"{k}={v}" for k, v in fields.items() if v is not None)


def console(*specs: Spec) -> list[str]:
    lines = [line(number, spec) for spec in specs for number in range(1, spec.samples + 1)]
    return [*lines, "@bench: done"]


# === What the guest says =========================================================================


def test_samples() -> None:
    other = Spec("vmalloc", 4, 256, 1, 1)
    text = ["[    0.1] Linux", *console(SPEC, other)[:2], "noise", *console(SPEC, other)[2:]]
    fork, vmalloc = bench.parse(text, [SPEC, other])
    assert (fork.workload, fork.size, fork.ops) == ("fork", 64 * MIB, 2)
    assert fork.ns == (1101, 1102, 1103)  # with what RCU freed
    assert (fork.host_ns, fork.host_calls, fork.tables) == ((10,) * 3, (1,) * 3, (66,) * 3)
    assert fork.stats == {"switches_pgtables": (8, 8, 8)}
    assert (vmalloc.workload, vmalloc.size, vmalloc.ns) == ("vmalloc", 4, (1101,))


def test_waiting_for_rcu_is_not_on_account_of_the_operation() -> None:
    (fork,) = bench.parse(console(SPEC), [SPEC], waits=True)
    assert fork.ns == (1001, 1002, 1003)
    assert fork.stats["free_ns"] == (100,) * 3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (console(SPEC)[:-1], "did not reach its end"),
        ([], "did not reach its end"),
        (["@bench: done"], "0 different samples"),
        (console(SPEC)[1:], "2 different samples"),
        ([line(1), line(2), line(2), "@bench: done"], "2 different samples of 3"),
        ([line(1), *console(SPEC)], "3 different samples of 4"),
        ([*console(SPEC), line(1, Spec("munmap", 4096, 1, 1, 1))], "nobody asked for"),
        ([line(1, ns="12x"), *console(SPEC)[1:]], "makes no sense"),
        ([line(1, ns=-5), *console(SPEC)[1:]], "makes no sense"),
        ([line(1, tables=None), *console(SPEC)[1:]], "makes no sense"),
        ([line(1, workload=""), *console(SPEC)[1:]], "makes no sense"),
        ([line(1, stat_switches_pgtables="many"), *console(SPEC)[1:]], "makes no sense"),
        (["@bench:", *console(SPEC)], "makes no sense"),
        (["@bench: fork [   12.3] random: crng init done", *console(SPEC)], "makes no sense"),
        ([line(1, ns=0, host_ns=0), *console(SPEC)[1:]], "ns=0"),
        ([line(1, ns=10, host_ns=10), *console(SPEC)[1:]], "host_ns=10"),
        ([line(1, ops=3), *console(SPEC)[1:]], "ops=3"),
        ([line(1, stat_switches_pgtables=None), *console(SPEC)[1:]], "different statistics"),
    ],
)
def test_output_that_is_not_to_be_trusted(lines: list[str], message: str) -> None:
    with pytest.raises(RedoubtError, match=message):
        bench.parse(lines, [SPEC])


def test_a_boot_survives_its_json() -> None:
    made = bench.Boot(MOCK, 3, 1, "on", bench.parse(console(SPEC), [SPEC]))
    assert bench.from_json(made.as_json()) == made
    for broken in ({}, {**made.as_json(), "series": [{}]}, {**made.as_json(), "series": 3}):
        with pytest.raises(RedoubtError, match="not a boot"):
            bench.from_json(broken)


# === The plan ====================================================================================


def test_rounds_are_interleaved_and_shuffled() -> None:
    variants = VARIANTS[TIME]
    rounds = workloads.interleaved(variants, 40, 5)
    assert len(rounds) == 40
    # No variant waits for another to be done with all its boots.
    assert all(sorted(order) == sorted(variants) for order in rounds)
    # None has a place of its own.
    for place in range(len(variants)):
        assert set(Counter(order[place] for order in rounds)) == set(variants)
    assert rounds == workloads.interleaved(variants, 40, 5)
    assert rounds != workloads.interleaved(variants, 40, 6)


def test_workloads_by_name() -> None:
    both = workloads.chosen(["munmap", "fork"], "um")
    assert [work.name for work in both] == ["fork", "munmap"]
    whole = [work.name for work in workloads.chosen(["kernbench-system"], "arm64")]
    assert whole == ["kernbench", "kernbench-system"]
    with pytest.raises(RedoubtError, match="unknown workload 'spoon'") as caught:
        workloads.chosen(["spoon"], "um")
    assert "munmap" in str(caught.value.hint)


def test_a_target_has_the_workloads_it_can_do() -> None:
    counted = {
        "null-syscall", "open-close", "key-read", "secret-memory", "interrupt", "fork-large",
        "munmap-large", "pipe", "thread-switch", "dm-crypt", "bpf-run",
    }  # fmt: skip
    pc = {
        "boot", "storm", "page-cache", "file-read", "file-read-large", "file-write", "read-by-two",
        "vm-exit",
    }  # fmt: skip
    has = {name: [work.name for work in workloads.chosen([], name)] for name in TARGETS}
    # Only who names them waits for them.
    slow = {"kernbench", "kernbench-system", "fio-randread"}
    assert has["x86_64"] == [name for name in WORKLOADS if name not in slow]
    assert set(has["um"]) == set(WORKLOADS) - pc - counted - slow
    assert set(has["arm64"]) == set(WORKLOADS) - pc - slow
    named = {work.name for work in workloads.chosen(["kernbench", "fio-randread"], "arm64")}
    assert named == {"kernbench", "fio-randread"}
    with pytest.raises(RedoubtError, match="um has no workload 'fork-large'") as caught:
        workloads.chosen(["fork-large"], "um")
    assert "munmap-large" not in str(caught.value.hint)


def test_specs() -> None:
    assert str(SPEC) == "fork:67108864:2:3:1"
    timed = Plan(UM, (WORKLOADS["fork"],), 8, 1).specs(TIME, "on")
    assert [spec.size for spec in timed] == [64 * MIB, 256 * MIB, 1024 * MIB]
    counted = WORKLOADS["vmalloc"].specs(EVENTS, "on")
    assert {spec.samples for spec in counted} == {1}
    # A machine boots once.
    assert list(map(str, WORKLOADS["boot"].specs(INSTRUCTIONS, "on"))) == ["boot:0:1:1:0"]
    assert WORKLOADS["boot"].specs(EVENTS, "on") == []
    # It takes half a minute to fill a mapping of 1 GiB there.
    large = WORKLOADS["fork-large"].specs(INSTRUCTIONS, "on")
    assert [(spec.size, spec.samples, spec.warmup) for spec in large] == [
        (64 * MIB, 7, 1), (1024 * MIB, 1, 1),
    ]  # fmt: skip
    # A build is its own, with all that its processes read, and a part of it is not built.
    for kind in (TIME, EVENTS, INSTRUCTIONS):
        assert list(map(str, WORKLOADS["kernbench"].specs(kind, "on"))) == ["kernbench:0:1:1:0"]
        assert WORKLOADS["kernbench-system"].specs(kind, "on") == []
    # The pristine kernel has nothing to switch.
    switch = WORKLOADS["switch"]
    assert switch.specs(TIME, "on")
    assert not switch.specs(TIME, "pristine")
    assert not switch.specs(TIME, "pristine-b")


@pytest.mark.parametrize(
    ("name", "size", "label"),
    [
        ("fork", 64 * MIB, "64 MiB"), ("fork", 1024 * MIB, "1 GiB"), ("fork", 4096, "4 KiB"),
        ("vmalloc", 1, "1 page"), ("vmalloc", 16, "16 pages"), ("exec-exit", 0, "-"),
        ("storm", 64, "64 processes"), ("storm", 1, "1 process"),
    ],
)  # fmt: skip
def test_sizes_for_people(name: str, size: int, label: str) -> None:
    assert WORKLOADS[name].label(size) == label


def test_limits() -> None:
    def limits(target: str, kind: str, variant: str = "on") -> dict[str, list[float | None]]:
        found = {
            name: [work.limit_at(target, kind, size, variant)
                   for size in (work.emulated if kind == INSTRUCTIONS else work.sizes)]
            for name, work in WORKLOADS.items()
        }  # fmt: skip
        return {name: those for name, those in found.items() if any(those)}

    assert limits("um", TIME) == limits("um", MOCK) == {
        "fork": [None, None, 1.02], "munmap": [None, None, 1.01], "fault": [1.02],
        "exec-exit": [1.02], "vmalloc": [1.06, None, None, None, None], "vm_map_ram": [1.1, 1.1],
    }  # fmt: skip
    # What is demanded of a time on one target says nothing about instructions on another.
    assert limits("um", INSTRUCTIONS) == limits("x86_64", TIME) == {}
    assert limits("x86_64", INSTRUCTIONS) == {
        "null-syscall": [1.0], "open-close": [1.02], "key-read": [1.1], "dm-crypt": [1.01],
        "secret-memory": [0.5],
        "fork": [1.01] * 2, "munmap": [1.005] * 2, "fork-large": [1.02] * 2,
        "munmap-large": [1.02] * 2, "fault": [1.003], "mprotect": [1.01],
    }  # fmt: skip
    assert limits("arm64", INSTRUCTIONS) == {
        "key-read": [1.1], "dm-crypt": [1.01],
        "secret-memory": [0.5], "fork": [1.01] * 2, "munmap": [1.005] * 2,
        "fork-large": [1.02] * 2, "munmap-large": [1.02] * 2, "fault": [1.005],
    }  # fmt: skip
    assert limits("x86_64", INSTRUCTIONS, "off") == {"fault": [1.003], "page-cache": [1.003]}
    assert limits("x86_64", INSTRUCTIONS, "asi") == {
        "file-read": [1.02, None, 1.01], "file-read-large": [None, 1.01],
        "file-write": [1.02, None, 1.01], "page-cache": [1.05], "exec-exit": [1.04],
        "buildlike": [1.01], "vm-exit": [1.1],
    }  # fmt: skip


# === Ways ========================================================================================


@pytest.mark.parametrize(
    ("pku", "emulator", "expected"),
    [
        (True, True, {TIME: "native", EVENTS: "native", INSTRUCTIONS: "emulated"}),
        (True, False, {TIME: "native", EVENTS: "native", INSTRUCTIONS: None}),
        (False, True, {TIME: None, MOCK: "native", EVENTS: "native", INSTRUCTIONS: "emulated"}),
        (False, False, {TIME: None, MOCK: "native", EVENTS: "native", INSTRUCTIONS: None}),
    ],
)
def test_what_a_machine_can_give(
    monkeypatch: pytest.MonkeyPatch, pku: bool, emulator: bool, expected: dict[str, str | None]
) -> None:
    monkeypatch.setattr(host, "has_pku", lambda: pku)
    monkeypatch.setattr(qemu, "found", lambda _: emulator)
    found = bench.chosen_ways(UM, [TIME, EVENTS, INSTRUCTIONS])
    assert {way.kind: way.host for way in found} == expected
    # Counting instructions takes too long for those who did not ask.
    assert {way.kind for way in bench.chosen_ways(UM, [])} == {*expected} - {INSTRUCTIONS}
    for way in found:
        assert bool(way.missing) == (way.host is None)
    lacking = {way.kind: way.missing for way in found}
    if not emulator:
        assert "qemu-system-x86" in lacking[INSTRUCTIONS]
    assert {way.kind for way in bench.chosen_ways(UM, ["time"])} <= {TIME, MOCK}
    with pytest.raises(RedoubtError, match="unknown kind 'speed'"):
        bench.chosen_ways(UM, ["time", "speed"])


@pytest.mark.parametrize("problem", [None, RedoubtError("too old", "mend it")])
def test_an_emulated_target_is_counted_and_never_timed(
    monkeypatch: pytest.MonkeyPatch, problem: RedoubtError | None
) -> None:
    monkeypatch.setattr(host, "has_pku", lambda: True)
    monkeypatch.setattr(qemu, "problem", lambda emulator: problem)
    where = None if problem else "emulated"
    found = {way.kind: way for way in bench.chosen_ways(X86_64, [])}
    assert {kind: way.host for kind, way in found.items()} == {
        TIME: None, EVENTS: where, INSTRUCTIONS: where,
    }  # fmt: skip
    assert "clock" in found[TIME].missing
    assert found[EVENTS].missing == ("too old; mend it" if problem else "")
    assert [way.kind for way in bench.chosen_ways(X86_64, ["events"])] == [EVENTS]


@pytest.mark.parametrize("pku", [True, False])
def test_only_what_has_no_keys_is_mocked(monkeypatch: pytest.MonkeyPatch, pku: bool) -> None:
    asked: list[tuple[str, bool]] = []

    def workbench(target: Target, *_: object, mock: bool, **__: object) -> Any:
        asked.append((target.name, mock))
        return SimpleNamespace(bench_machine=lambda variant: None)

    monkeypatch.setattr(host, "has_pku", lambda: pku)
    monkeypatch.setattr(bench.kernels, "bench_workbench", workbench)
    for target, where in ((UM, "native"), (X86_64, "emulated")):
        bench.machine(target, "on", Way(EVENTS, where), Silent())
    assert asked == [("um", not pku), ("x86_64", False)]


# === Boots =======================================================================================


def maker(target: Target, variant: str, way: Way, progress: Progress) -> Machine:
    place = Path("/nowhere") / variant
    return Machine(Build(target, place, place, place), place, way.host or "")


class Guests:
    """Kernels that measure what they are told, or fail in the boot of that number."""

    def __init__(self, **failing: Any) -> None:
        self.started: list[tuple[Machine, Sequence[str]]] = []
        self.failing = failing

    def __call__(self, machine: Machine, command: Sequence[str], **rest: Any) -> Result:
        assert rest["timeout"] > 0
        self.started.append((machine, command))
        specs = []
        options = [word for word in command[1:] if word.startswith("--")]
        for word in command[1 + len(options) :]:
            name, *numbers = word.split(":")
            specs.append(Spec(name, *map(int, numbers)))
        said = [f"@quiet: {1000 - len(self.started)} noisy=0"] if options else []
        lines = ("Linux", *console(*specs)[:-1], *said, "@bench: done")
        result: dict[str, Any] = {"outcome": "finished", "status": 0, "console": lines,
                                  "splats": (), "log": Path("log")}  # fmt: skip
        if len(self.started) == 4:
            result |= self.failing
        return Result(**result)


PLAN = Plan(UM, (WORKLOADS["fork"], WORKLOADS["switch"]), 3, 9)


def ran(
    kind: str, where: str = "emulated", target: Target = UM, **failing: Any
) -> tuple[list[bench.Boot], list[tuple[Machine, Sequence[str]]]]:
    """The boots of a kind, and what was started for them."""
    guests = Guests(**failing)
    plan = replace(PLAN, target=target)
    boots = bench.run(plan, Way(kind, where), Silent(), maker=maker, start=guests)
    return boots, guests.started


def test_timed_boots() -> None:
    boots, started = ran(MOCK, "native")
    order = workloads.interleaved(VARIANTS[MOCK], 3, 9)
    assert [made.variant for made in boots] == [name for round in order for name in round]
    assert [(made.round, made.place) for made in boots] == [
        (number, place) for number in range(3) for place in range(5)
    ]
    for made, (machine, command) in zip(boots, started, strict=True):
        assert made.kind == MOCK
        assert machine.build.directory.name == made.variant
        assert machine.pinned == bench.measuring_cpu()
        assert not machine.count_instructions
        assert command[0] == "/bin/bench"
        # A fork of 1 GiB breaks off as much again.
        assert machine.memory_mb > 2048
        names = [series.workload for series in made.series]
        assert ("switch" in names) != made.variant.startswith("pristine")


def test_programs_of_debian_have_boots_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Target] = []

    def files(target: Target, _: Progress) -> dict[str, Path]:
        asked.append(target)
        return {"": Path("/debian")}

    monkeypatch.setattr(bench.userland, "files", files)
    works = (*PLAN.works, WORKLOADS["kernbench"], WORKLOADS["kernbench-system"])
    for target, kind, where in ((UM, MOCK, "native"), (X86_64, INSTRUCTIONS, "emulated")):
        guests = Guests()
        plan = replace(PLAN, target=target, works=works)
        boots = bench.run(plan, Way(kind, where), Silent(), maker=maker, start=guests)
        for number, made in enumerate(boots):
            (plain, usual), (full, command) = guests.started[2 * number : 2 * number + 2]
            assert not plain.files
            assert not any(word.startswith("kernbench") for word in usual)
            assert full.files == {"": Path("/debian")}
            # What takes minutes is not repeated because somebody used the core at its end.
            assert command == ["/bin/bench", "kernbench:0:1:1:0"]
            # Both are one boot of the round.
            assert [series.workload for series in made.series][-1] == "kernbench"
            assert made.series[0].workload == "fork"
            assert full.memory_mb >= 2048
        assert len(guests.started) == 2 * len(boots)
    assert asked == [UM, X86_64]


def test_programs_are_there_before_kernels_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object) -> dict[str, Path]:
        raise RedoubtError("no network")

    def none(*_: object) -> Machine:
        pytest.fail("a kernel was built")

    monkeypatch.setattr(bench.userland, "files", offline)
    plan = replace(PLAN, works=(WORKLOADS["fio-randread"],))
    with pytest.raises(RedoubtError, match="no network"):
        bench.run(plan, Way(MOCK, "native"), Silent(), maker=none, start=Guests())


def test_where_there_is_no_room_or_time_less_is_counted() -> None:
    plan = replace(PLAN, works=(*PLAN.works, WORKLOADS["kernbench"]))
    for name, much in {"x86_64": True, "arm64": True, "x86_64-mktme": False, "um": False}.items():
        specs = replace(plan, target=TARGETS[name]).specs(INSTRUCTIONS, "off")
        assert {spec.size for spec in specs} == {0, 64 * MIB} | ({1024 * MIB} if much else set())
        assert ("kernbench" in {spec.workload for spec in specs}) == much
    assert "kernbench" in {spec.workload for spec in plan.specs(TIME, "off")}


def test_boots_tell_each_other_how_fast_the_core_is() -> None:
    told = [command[1] for _, command in ran(MOCK, "native")[1]]
    assert told == ["--quiet=0", *(f"--quiet={1000 - number}" for number in range(1, len(told)))]
    # Not where time means nothing.
    _, started = ran(EVENTS, "native")
    assert not any(word.startswith("--") for _, command in started for word in command)


def test_instructions_are_counted_twice_and_events_once() -> None:
    boots, started = ran(INSTRUCTIONS)
    here = {variant.name for variant in UM.variants}
    assert here < set(VARIANTS[INSTRUCTIONS])
    assert Counter(made.variant for made in boots) == dict.fromkeys(here, 2)
    assert all(machine.count_instructions for machine, _ in started)
    assert all(machine.pinned is None for machine, _ in started)
    boots, _ = ran(EVENTS)
    assert Counter(made.variant for made in boots) == {"on": 1, "on-unbatched": 1}


# Whose RCU frees at once, and where the load of this machine is no event.
@pytest.mark.parametrize(("target", "first", "counting"), [(UM, 1101, False), (X86_64, 1001, True)])
def test_events_of_a_target(target: Target, first: int, counting: bool) -> None:
    boots, started = ran(EVENTS, target=target)
    assert {series.ns[0] for made in boots for series in made.series} == {first}
    assert {machine.count_instructions for machine, _ in started} == {counting}


def test_a_counting_pc_has_memory_to_map_with_pages_of_each_size() -> None:
    memory = [ran(INSTRUCTIONS, target=one)[1][0][0].memory_mb for one in (X86_64, UM)]
    assert memory[0] > 2048
    assert memory[1] < 1024


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        ({"outcome": "died", "status": None}, "died without a word"),
        ({"outcome": "hang", "status": None, "detail": "no end"}, "hung"),
        ({"outcome": "panic", "status": None, "detail": "oh no"}, "panicked: oh no"),
        ({"status": 1}, "status 1"),
        ({"splats": ("WARNING: x",)}, "WARNING: x"),
        ({"violations": ("kpkeys: violation: x",)}, "violation: x"),
        ({"console": ("@bench: done",)}, "different samples"),
        ({"console": ("Linux",)}, "did not reach its end"),
    ],
)
def test_a_boot_that_went_wrong_is_no_result(failing: dict[str, Any], message: str) -> None:
    with pytest.raises(RedoubtError, match=message) as caught:
        ran(TIME, "native", **failing)
    assert caught.value.message.startswith("measuring ")


def test_pinned_and_counting_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = tmp_path / "linux"
    image.write_text("")
    made = Machine(Build(UM, tmp_path, image, image), tmp_path, host.NATIVE, pinned=1)
    words = boot._made_ready(made, tmp_path, Silent())
    assert words[:4] == ["taskset", "-c", "1", str(image)]


def test_a_machine_that_counts_its_instructions(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    image = tmp_path / "bzImage"
    made = Machine(Build(X86_64, tmp_path, image, image), tmp_path, host.EMULATED)
    plain = boot._made_ready(made, tmp_path, Silent())
    counting = boot._made_ready(replace(made, count_instructions=True), tmp_path, Silent())
    assert counting == [*plain, *qemu.COUNTING]
    assert "shift=0,sleep=off" in counting
