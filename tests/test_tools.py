# SPDX-License-Identifier: GPL-2.0-only
"""tools/: files for programs of others agree with the kernel here, and those programs take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from redoubt.core import paths
from redoubt.targets import ARM64, PC, X86_64, Target

TOOLS = paths.repo() / "tools"
# What is for tests here only, and on no branch.
LOCAL = {"vuln", "vuln-jit", "bench"}


# === TuxSuite ====================================================================================


@pytest.fixture
def jobs() -> dict[str, Any]:
    """The jobs of the plan by their names."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    plan = yaml.safe_load((TOOLS / "tuxsuite/plan.yaml").read_text())
    return {job["name"]: job for job in plan["jobs"]}


@pytest.mark.parametrize(
    ("target", "more"),
    [(X86_64, {"x86-mktme"}), (ARM64, set())],
    ids=lambda value: value.name if isinstance(value, Target) else None,
)
def test_the_plan_builds_what_is_tested_here(
    jobs: dict[str, Any], target: Target, more: set[str]
) -> None:
    build = jobs[target.name]["build"]
    assert build["target_arch"] == target.arch
    base, *added = build["kconfig"]
    files = {Path(one) for one in added if not one.startswith("CONFIG_")}
    assert base == "defconfig"
    assert all((paths.repo() / file).is_file() for file in files)
    assert {file.stem for file in files} == {*target.ours, *target.observers, *more} - LOCAL


def test_the_plan_boots_with_protection_and_without(jobs: dict[str, Any]) -> None:
    kunit = [test for test in jobs["x86_64"]["tests"] if test["tests"] == ["kunit"]]
    assert all(test["boot_args"].startswith("kunit.enable=1 kunit.autorun=1") for test in kunit)
    assert sum("kpkeys_hardened_pgtables=off" in test["boot_args"] for test in kunit) == 1
    assert sum("asi=on" in test["boot_args"] for test in kunit) == 1
    # The other CPUs that TuxRun emulates have no keys.
    assert {test["parameters"]["cpu"] for test in jobs["x86_64"]["tests"]} == {PC.cpu}
    for name, job in jobs.items():
        tests = [one for test in job["tests"] for one in test["tests"]]
        built = set(job["build"]["make_variables"]["TARGETS"].split())
        selftests = {one.partition("kselftest-")[2] for one in tests if one != "kunit"}
        assert selftests == built, name
        assert {test["device"] for test in job["tests"]} == {f"qemu-{name}"}


def test_tuxsuite_takes_the_plan(tmp_path: Path, jobs: dict[str, Any]) -> None:
    config = pytest.importorskip("tuxsuite.config", reason="needs tuxsuite: pip install tuxsuite")
    plan = config.PlanConfig(None, None, str(TOOLS / "tuxsuite/plan.yaml"))
    assert plan.schema_warning == ""
    assert [len(one["tests"]) for one in plan.plan] == [len(job["tests"]) for job in jobs.values()]
