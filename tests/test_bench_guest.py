# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark in the kernel and the program that drives it, booted natively.

Protection is off, and no time is looked at: what is tested is that each workload runs, works on as
many page tables as its size says, and fails cleanly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_guest import machine, pytestmark, run  # noqa: F401

from redoubt.machine import boot

SIZED = ("fork", "exit", "munmap", "fault", "mprotect")
PAGES = ("vmalloc", "vmalloc-random", "vm_map_ram")
# A mapping of 4 MB has 2 tables of entries, and one at each level above but the highest.
SIZE, TABLES = 4 << 20, 4


def bench(specs: Sequence[str], *arguments: str) -> boot.Result:
    return run(["/bin/bench", *specs], machine("kpkeys_hardened_pgtables=off", *arguments))


def samples(result: boot.Result) -> list[dict[str, str]]:
    lines = [line for line in result.console if line.startswith("@bench: workload=")]
    return [dict(word.split("=", 1) for word in line.split()[1:]) for line in lines]


def test_every_workload() -> None:
    specs = [f"{name}:4M:2:2" for name in SIZED] + [f"{name}:16:10:2" for name in PAGES]
    specs += ["nothing:0:5:2", "switch:0:1000:2", "exec-exit:0:3:2", "buildlike:2:1:2"]
    result = bench(specs)
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    assert "@bench: done" in result.console
    found = samples(result)
    assert [(line["workload"], line["sample"]) for line in found] == [
        (spec.split(":")[0], number) for spec in specs for number in ("1", "2")
    ]
    for line in found:
        assert 0 <= int(line["host_ns"]) <= int(line["ns"])
        if line["workload"] in SIZED:
            assert (int(line["size"]), line["ops"]) == (SIZE, "2")
            assert int(line["tables"]) == 2 * TABLES
        if line["workload"] in PAGES:
            # At the least, each page is mapped and unmapped.
            assert int(line["host_calls"]) >= 20
    # What the kernel counts comes with it: nothing, as protection is off.
    switches = [int(line["stat_switches_pgtables"]) for line in found]
    assert switches == [0] * len(found)


@pytest.mark.parametrize(
    "spec",
    ["", "fork", "fork:1M:1", "fork:1M:0:1", "fork:x:1:1", "fork:1M:1:1:1:1", "fork:1T:1:1",
     "fork:99999999999G:1:1", ":1:1:1", "a-name-that-is-too-long:1:1:1"],
)  # fmt: skip
def test_a_spec_that_is_none_is_refused_before_anything_runs(spec: str) -> None:
    result = bench(["nothing:0:1:1", spec])
    assert (result.outcome, result.status) == ("finished", 1)
    assert f"bench: '{spec}' is not WORKLOAD:SIZE:OPS:SAMPLES[:WARMUP]" in result.console
    assert samples(result) == []


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nonsense:1:1:1", "Invalid argument"),
        ("fork:1:1:1", "Invalid argument"),
        ("fork:0:1:1", "Invalid argument"),
        ("fork:64G:1:1", "Cannot allocate memory"),
        ("vmalloc:0:1:1", "Invalid argument"),
        ("vmalloc:5000:1:1", "Argument list too long"),
    ],
)
def test_what_the_kernel_refuses_ends_the_run(spec: str, says: str) -> None:
    result = bench(["nothing:0:1:1", spec, "nothing:0:1:1"])
    assert (result.outcome, result.status, result.complaints) == ("finished", 1, ())
    assert len(samples(result)) == 1
    last = [line for line in result.console if line.startswith("bench: ")]
    assert len(last) == 1
    assert re.fullmatch(rf"bench: {spec.split(':')[0]} of size \d+, 1 times: {says}", last[0])


def test_a_script_prepares_measures_and_cleans(tmp_path: Path) -> None:
    made = machine("kpkeys_hardened_pgtables=off")
    # In the place of a script, a program that prints the files which its arguments name.
    words = ("prepare", "measure", "clean", "7")
    files = {word: tmp_path / word for word in words}
    for word, file in files.items():
        file.write_text(f"said {word}\n")
    files["usr/lib/redoubt/kernbench.sh"] = made.programs / "cat"
    result = run(["/bin/bench", "kernbench:7:2:1:0"], replace(made, files=files))
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    said = [line.removeprefix("said ") for line in result.console if line.startswith("said ")]
    assert said == ["prepare", "7", "measure", "7", "measure", "7", "clean", "7"]
    (line,) = samples(result)
    assert int(line["ns"]) == int(line["stat_user_ns"]) + int(line["stat_system_ns"])
    # It fails as its script does.
    result = run(["/bin/bench", "fio-randread:7:1:1:0"], made)
    assert (result.outcome, result.status) == ("finished", 1)
    assert "bench: /usr/lib/redoubt/fio-randread.sh: No such file or directory" in result.console


def test_no_memory_is_lost() -> None:
    specs = [f"{name}:16M:2:0:3" for name in SIZED]
    specs += ["vmalloc:64:100:0:3", "vm_map_ram:64:100:0:3", "exec-exit:0:10:0:3"]
    # The first adds what each CPU has counted for itself to what the second shows.
    read = ["/bin/cat", "/proc/sys/vm/stat_refresh", "++", "/bin/cat", "/proc/vmstat"]
    result = run(["/bin/then", "/bin/bench", *specs, "++", *read, "++", "/bin/bench", *specs,
                  "++", *read])  # fmt: skip
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    # Each round used hundreds of tables and thousands of pages; other processes have some, too.
    for name, slack in (("nr_page_table_pages", 50), ("nr_anon_pages", 50)):
        before, after = (
            int(line.split()[1]) for line in result.console if line.startswith(f"{name} ")
        )
        assert abs(after - before) <= slack, name
