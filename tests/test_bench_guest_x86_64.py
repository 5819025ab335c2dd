# SPDX-License-Identifier: GPL-2.0-only
"""The workloads of the benchmark that only a PC has, booted with protection off."""

from __future__ import annotations

from test_bench_guest import samples
from test_guest_x86_64 import machine, pytestmark, run  # noqa: F401

from redoubt.cost import prices

# A mapping of 4 MB has 2 tables of entries, and one at each of two levels above.
TABLES = 4


def test_every_workload_of_a_pc() -> None:
    large = ["fork-large:4M:2:2", "munmap-large:4M:2:2"]
    own = ["boot:0:1:1:0", "null-syscall:0:64:2", "storm:8:1:1:0"]
    turns = ["read-by-two:4K:1:1", "pipe:0:16:1", "thread-switch:0:16:1", "buildlike:1:1:1"]
    result = run(["/bin/bench", *own, *large, *turns], machine("thp_anon=64K:madvise"))
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    assert "@bench: done" in result.console
    found = samples(result)
    assert [line["workload"] for line in found] == [
        "boot", "null-syscall", "null-syscall", "storm",
        "fork-large", "fork-large", "munmap-large", "munmap-large",
        *(name.partition(":")[0] for name in turns),
    ]  # fmt: skip
    boot, call, _, storm, *mapped = found[:8]
    assert all(int(line["ns"]) > 0 for line in found[8:])
    # The counter of the CPU began with the CPU, the kernel's clock with the kernel.
    assert int(boot["ns"]) > 0
    assert int(boot["stat_clock_ns"]) > 0
    assert int(call["ns"]) > 0
    for line in (boot, storm):
        pages = [int(line[f"stat_direct_map_{size}"]) for size in ("4k", "2m", "1g")]
        assert 200 << 10 < 4 * pages[0] + 2048 * pages[1] + (pages[2] << 20) <= 256 << 10
        assert line["stat_pool_blocks"] == "0"
    assert all(int(line["tables"]) == 2 * TABLES for line in mapped)


def test_small_pages_are_not_taken_for_large_folios() -> None:
    result = run(["/bin/bench", "munmap:4M:1:1", "munmap-large:4M:1:1"])
    assert (result.outcome, result.status, result.complaints) == ("finished", 1, ())
    assert [line["workload"] for line in samples(result)] == ["munmap"]
    last = [line for line in result.console if line.startswith("bench: ")]
    assert last == ["bench: munmap-large of size 4194304, 1 times: Operation not supported"]


def test_prices_of_a_pc() -> None:
    result = run(["/bin/prices"], machine())
    assert (result.outcome, result.status, result.complaints) == ("finished", 0, ())
    found = prices.parse(result.console)
    assert {"switch", "flush-page", "load-root"} <= found.keys() <= prices.TITLES.keys()
    assert all(price.ns > 0 and price.ticks > 0 for price in found.values())
    # The emulated CPU has no PCIDs: loading a root that keeps the TLB would be a fault.
    assert "@price: keep-root absent: Operation not supported" in result.console
