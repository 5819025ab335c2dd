# SPDX-License-Identifier: GPL-2.0-only
"""What counts as a lost page, a wrong answer or a test that tested nothing."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import WALK, pool
from guests import ended

from redoubt.trial import shortage
from redoubt.trial.shortage import ROUNDS


def stressed(name: str, *, injected: int = 50, ops: int = 9, errors: int = 0, checks: int = 1,
             status: int = 0) -> list[str]:  # fmt: skip
    return [
        *WALK * checks,
        f"@stress: ops={ops} refused=7 errors={errors}",
        f"@faults: checks tried=3 done={checks}",
        f"@faults: round={name} injected={injected} status={status}",
    ]


def console(**replaced: list[str]) -> list[str]:
    """A good run, but for the parts that are replaced."""
    after = {
        "blocks": pool(small_added=5, small_returned=5),
        "pages": pool(small_added=5, small_returned=5, failed_allocs=3),
        "slab": pool(small_added=5, small_returned=5, failed_allocs=3),
    }
    lines = [*pool(), *WALK]
    for name in ROUNDS:
        lines += replaced.get(name, stressed(name))
        lines += replaced.get(f"after_{name}", after[name]) + WALK
    lines += replaced.get("cgroup", ["@cgroup: failures=0"])
    at_last = pool(small_added=5, small_returned=5, failed_allocs=4)
    return [*lines, *replaced.get("at_last", at_last), *WALK]


def problems(lines: list[str], *, variant: str = "on", **how: Any) -> tuple[str, ...]:
    return tuple(shortage.judge(ended(lines, **how), variant == "on"))


def test_a_good_run_has_no_problems() -> None:
    assert problems(console()) == ()


def test_a_page_that_is_neither_free_nor_in_use_is_held_by_the_pool() -> None:
    (state,) = shortage.parse_pools(pool(free=390, tables=100))
    assert state.held == 512 - 390 - 16 - 2 - 7 - 100


def test_pages_of_objects_are_in_use() -> None:
    grown = {"small": 160, "other": 160, "small_added": 45, "small_returned": 5}
    assert problems(console(at_last=pool(failed_allocs=4, **grown))) == ()


def test_what_the_checker_says_later_is_not_of_the_pool_at_rest() -> None:
    before = list(shortage.parse_pools(pool(tables=100)))
    lines = [*pool(tables=100), *WALK, "switches_pgtables 7"]
    assert list(shortage.parse_pools(lines)) == before


@pytest.mark.parametrize(
    ("at_last", "word"),
    [
        ({"free": 380}, "neither free nor in use"),
        ({"free": 391}, "neither free nor in use"),
        ({"tables": 90}, "neither free nor in use"),
        ({"own": 8}, "neither free nor in use"),
        ({"other": 1}, "neither free nor in use"),
        ({"blocks": 4, "free": 390 + 3 * 512, "blocks_added": 4}, "4 blocks"),
        ({"reserve": 1, "free": 391}, "reserve 1"),
        ({"stuck": 4}, "stuck 4"),
        ({"bad_takes": 1}, "bad_takes 1"),
        ({"bad_frees": 1}, "bad_frees 1"),
        ({"refused": 1}, "refused 1"),
        ({"blocks_added": 2}, "2 of blocks were added"),
        ({"small_added": 7}, "2 of small were added"),
        ({"small": 480, "free": 870, "small_added": 125}, "480 pages in small blocks"),
    ],
)
def test_a_pool_that_is_not_as_it_was(at_last: dict[str, int], word: str) -> None:
    shown = {"small_added": 5, "small_returned": 5, "failed_allocs": 4, **at_last}
    (problem,) = problems(console(at_last=pool(**shown)))
    assert problem.startswith("after memory cgroups: ")
    assert word in problem


@pytest.mark.parametrize(
    ("replaced", "word"),
    [
        ({"pages": stressed("pages", injected=0)}, "no faults"),
        ({"pages": stressed("pages", errors=1)}, "1 errors"),
        ({"pages": stressed("pages", status=1)}, "ended with 1"),
        ({"pages": stressed("pages", ops=0)}, "stress ended"),
        ({"pages": ["@faults: round=pages injected=5 status=137"]}, "ended with 137"),
        ({"pages": stressed("pages", checks=0)}, "never ran meanwhile"),
        ({"pages": []}, "no round pages"),
        ({"after_blocks": pool()}, "small_added stayed 0"),
        ({"after_pages": pool(small_added=5, small_returned=5)}, "failed_allocs stayed 0"),
        (
            {"at_last": pool(small_added=5, small_returned=5, failed_allocs=3)},
            "memory cgroups: failed_allocs stayed 3",
        ),
        ({"cgroup": ["@cgroup: failures=2"]}, "memory cgroups: 2 failures"),
        ({"cgroup": []}, "memory cgroups: None failures"),
        ({"slab": [*stressed("slab"), "tables 9", "untagged 1", "foreign 0"]}, "not clean"),
    ],
)
def test_a_round_that_went_wrong_or_tested_nothing(
    replaced: dict[str, list[str]], word: str
) -> None:
    found = problems(console(**replaced))
    assert any(word in problem for problem in found), found


def test_a_bad_end_is_bad() -> None:
    assert "hang" in problems(console(), outcome="hang")[0]
    assert "status 1" in problems(console(), status=1)[0]
    assert problems([]) != ()


def test_what_the_kernel_says_counts_but_for_traces_of_refused_memory() -> None:
    assert problems(console(), splats=("Call Trace:",)) == ()
    assert problems(console(), splats=("WARNING: mm", "Call Trace:")) == ("kernel: WARNING: mm",)


def test_without_protection_there_is_no_pool_to_judge() -> None:
    tables = ["PageTables: 400 kB", "@settle: rounds=3"]
    lines = [*tables]
    for name in ("pages", "slab"):
        lines += [
            "@stress: ops=9 refused=7 errors=0", f"@faults: round={name} injected=5 status=0",
            *tables,
        ]  # fmt: skip
    assert problems([*lines, "@cgroup: failures=0", *tables], variant="off") == ()
    assert problems([*lines, "@cgroup: failures=1", *tables], variant="off") != ()


def test_the_checker_is_asked_where_there_is_one() -> None:
    for protected in (True, False):
        words = shortage.commands(protected, 20, 2)
        assert (["/bin/cat", "/sys/kernel/debug/kpkeys/check"] in words) is protected
        names = [command[1] for command in words if command[0] == "/bin/faults"]
        assert tuple(names) == shortage.rounds(protected)
