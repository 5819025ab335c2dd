# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own tests of protection keys of user mode, on the pristine kernel.

Nothing of ours is in them: they are evidence about an emulated CPU that is independent of us. They
have to pass on it, and each has to fail on one that has the keys and does not enforce them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from redoubt.core.progress import Progress
from redoubt.machine import kernels
from redoubt.machine.boot import Machine, Result
from redoubt.targets import Target, get_variant
from redoubt.trial import selftests
from redoubt.trial.experiment import Verdict, matches, start

TESTS = ("pkey_sighandler_tests", "protection_keys")
# Seconds for each program, and for a boot. Without enforcement, one waits for a fault for ever.
_ENFORCED_S, _IGNORED_S = selftests.PROGRAM_S, 120
_BOOT_S = 2.0 * len(TESTS) * selftests.PROGRAM_S
_LIST = "selftests/others"
# Programs of which a child does the rest, and has to be waited for.
_WAITED_FOR = "selftests/waited-for"
# As the parent that ends before takes its huge pages back to the number there was.
_HUGE_PAGES = ("hugepagesz=2M", "hugepages=8")
_RUNNING = re.compile(r"^# running \./(\S+)$")
# A test that forks leaves its end to its child. One that gives up has totals, too, but no parts.
_TOTALS = re.compile(r"^# # Totals: pass:(\d+) fail:(\d+) xfail:\d+ xpass:\d+ skip:\d+ error:(\d+)")
_GAVE_UP = re.compile(r"^# (?:# )?(?:Bail out!|Planned tests != run tests)")


@dataclass(frozen=True)
class Report(Verdict):
    """How many parts of each test passed, on a CPU that enforces keys, and what was wrong."""

    passed: dict[str, int]
    problems: tuple[str, ...]
    boots: tuple[Result, ...]


def _passed(console: Sequence[str]) -> dict[str, int]:
    """How many parts passed of each test that passes."""
    found: dict[str, int] = {}
    test, gave_up = "", False
    for line in console:
        if match := _RUNNING.match(line):
            test, gave_up = match[1], False
        elif _GAVE_UP.match(line):
            gave_up = True
            found.pop(test, None)
        elif test and not gave_up:
            for totals in matches(_TOTALS, [line]):
                good, bad, errors = map(int, totals.groups())
                if good and not bad and not errors:
                    found[test] = good
    return found


def judge(enforcing: Result, ignoring: Result) -> Report:
    """The verdict on a boot with each CPU."""
    passed, unnoticed = _passed(enforcing.console), _passed(ignoring.console)
    problems = [
        *(f"{test} does not pass" for test in TESTS if test not in passed),
        *(f"{test} passes where no key is enforced" for test in TESTS if test in unnoticed),
    ]
    for boot in (enforcing, ignoring):
        if f"@selftests: done {selftests.OTHERS}" not in boot.console:
            problems.append(boot.describe())
    return Report(passed, tuple(problems), (enforcing, ignoring))


def _boots(machine: Machine, target: Target, progress: Progress) -> Iterator[Result]:
    for what, cpu, seconds in (
        ("enforced", None, _ENFORCED_S), ("ignored", target.ignoring_cpu, _IGNORED_S),
    ):  # fmt: skip
        words = ["/bin/bash", "/selftests/selftests.sh", str(seconds), "", selftests.OTHERS]
        with progress.step(f"Tests of keys that are {what}, on {target.name}"):
            made = replace(machine, cpu=cpu)
            name = f"user-keys-{target.name}-{what}"
            yield start(made, words, name=name, timeout=_BOOT_S, progress=progress)


def check(target: Target, host: str, where: Path, progress: Progress) -> Report:
    """Run the tests with both CPUs; the file that says which is written in the directory `where`.

    Raises RedoubtError if the target has no kernel for them, or they cannot be built or run.
    """
    files = selftests.root(target, progress)
    tests = where / "others"
    tests.write_text("".join(f"{name}\n" for name in TESTS))
    pristine = get_variant(target, "pristine")
    made = kernels.workbench(target, pristine, host, progress, flavour=selftests.FLAVOUR)
    machine = replace(
        made.machine(pristine, *selftests.ARGS, *_HUGE_PAGES, cpus=selftests.CPUS),
        memory_mb=selftests.MEMORY_MB, files={".": files, _LIST: tests, _WAITED_FOR: tests},
    )  # fmt: skip
    return judge(*_boots(machine, target, progress))
