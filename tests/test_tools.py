# SPDX-License-Identifier: GPL-2.0-only
"""tools/: files for programs of others agree with the kernel here, and those programs take them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from redoubt.core import paths
from redoubt.core.progress import Silent
from redoubt.linux import build, debian
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


# === kernel-hardening-checker ====================================================================

CHECKER = TOOLS / "hardening-checker/redoubt_hardening_checker.py"
HEADER = (
    "# Linux/x86 7.3.4 Kernel Configuration\nCONFIG_GCC_VERSION=140200\nCONFIG_CLANG_VERSION=0\n"
)


@dataclass(frozen=True)
class Check:
    reason: str
    decision: str
    name: str
    value: str


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Our checks, with something else in the place of that tool."""
    engine = ModuleType("kernel_hardening_checker.engine")
    engine.OR = lambda *each: each  # type: ignore[attr-defined]
    engine.KconfigCheck = engine.CmdlineCheck = Check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kernel_hardening_checker", ModuleType("tool"))
    monkeypatch.setitem(sys.modules, engine.__name__, engine)
    spec = importlib.util.spec_from_file_location("our_checks", CHECKER)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_checked_options_are_those_of_the_kernel(checks: ModuleType) -> None:
    files = [*(paths.repo() / "patches").rglob("*.patch"), *(paths.repo() / "kernel").rglob("Kco*")]
    defined = set(re.findall(r"^\+?config (\w+)$", "\n".join(map(Path.read_text, files)), re.M))
    # Upstream has it.
    assert {option for _, option, _, _ in checks.OPTIONS} <= {*defined, "ARM64_POE"}
    features = tomllib.loads((paths.repo() / "configs/features.toml").read_text())
    wanted = {one["option"] for name, one in features.items() if name != "linear-map"}
    assert wanted <= {option for _, option, value, _ in checks.OPTIONS if value == "y"}
    text = "".join(file.read_text() for file in (paths.repo() / "kernel").rglob("*.c"))
    for name, _ in (*checks.SWITCHES, *checks.ASKED, *checks.ABSENT):
        assert f'"{name}");' in text or f'early_param("{name}",' in text


def test_checks_are_for_an_architecture(checks: ModuleType) -> None:
    def names(arch: str) -> set[str]:
        found: list[Check] = []
        checks.add_options(found, arch)
        return {one.name for one in found}

    assert names("X86_64") - names("ARM64") == {
        "X86_PKS", "MITIGATION_ADDRESS_SPACE_ISOLATION", "X86_MKTME", "X86_MKTME_EMULATION",
        "ASI_DEBUG",
    }  # fmt: skip
    assert {"ARM64_KPKEYS", "KPKEYS_HARDENED_PTRAUTH"} <= names("ARM64") - names("X86_64")
    assert names("RISCV") == set()


def test_the_checker_is_needed() -> None:
    alone = [sys.executable, "-I", "-S", CHECKER]
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "kernel-hardening-checker is not installed\n    apt-get install" in done.stderr


def _python_with(module: str) -> str | None:
    """The first Python that has it: packages of Debian are the system's only."""
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(FileNotFoundError):
            if not subprocess.run(
                [python, "-c", f"import {module}"], capture_output=True, check=False
            ).returncode:
                return python
    return None


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("arch", ["X86_64", "ARM64"])
def test_the_checker_judges_our_options(
    checks: ModuleType, tmp_path: Path, arch: str, good: bool
) -> None:
    python = _python_with("kernel_hardening_checker")
    if python is None:
        pytest.skip("needs kernel-hardening-checker: apt-get install kernel-hardening-checker")
    _judge(checks, [python], {}, tmp_path, arch, good)


@pytest.fixture(scope="module")
def debians_checker(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The checker that Debian has, unpacked, as what to set for Python to find it."""
    where = tmp_path_factory.mktemp("checker")
    archive = debian.Archive(Silent(), (debian.SUITE, debian.RELEASE))
    archive.update()
    package = archive.newest_file("kernel-hardening-checker")
    debian.extract(package, where, where / "log")
    return {"PYTHONPATH": str(where / "usr/lib/python3/dist-packages")}


@pytest.mark.network
@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("arch", ["X86_64", "ARM64"])
def test_debians_checker_judges_our_options(
    checks: ModuleType, debians_checker: dict[str, str], tmp_path: Path, arch: str, good: bool
) -> None:
    _judge(checks, [sys.executable, "-P"], debians_checker, tmp_path, arch, good)


def _judge(
    checks: ModuleType,
    python: list[str],
    env: dict[str, str],
    tmp_path: Path,
    arch: str,
    good: bool,
) -> None:
    """Have the checker look at a configuration and a command line of our options."""
    ours = {option: value for _, option, value, archs in checks.OPTIONS if arch in archs}
    lines = [
        f"CONFIG_{option}=y" if (value == "y") == good else f"# CONFIG_{option} is not set"
        for option, value in ours.items()
    ]
    switches = [name for name, archs in checks.SWITCHES if arch in archs]
    wrong = [*(f"{name}=off" for name in switches), "asi=off", "nopks"]
    (tmp_path / "config").write_text("\n".join([f"{HEADER}CONFIG_{arch}=y", *lines, ""]))
    (tmp_path / "cmdline").write_text("asi=on quiet\n" if good else f"{' '.join(wrong)}\n")
    done = subprocess.run(
        [*python, CHECKER, "-m", "json", "-c", tmp_path / "config",
         "-l", tmp_path / "cmdline"],
        capture_output=True, text=True, check=True, env={**os.environ, **env},
    )  # fmt: skip
    found = {
        one["option_name"].removeprefix("CONFIG_"): one["check_result_bool"]
        for one in json.loads(done.stdout)
        if one["decision"] == "redoubt"
    }
    asked = [name for name, archs in (*checks.ASKED, *checks.ABSENT) if arch in archs]
    assert found == dict.fromkeys([*ours, *switches, *asked], good)


# === syzkaller ===================================================================================

SYZ = TOOLS / "syzkaller"
KERNEL = paths.repo() / "kernel"
HEADER_OF_KEYS = KERNEL / "arch/x86/include/uapi/asm/mktme.h"


def descriptions() -> str:
    return (SYZ / "redoubt.txt").read_text()


def described_calls() -> set[str]:
    return set(re.findall(r"^([a-z]\w*(?:\$\w+)?)\(", descriptions(), re.M))


def constants() -> dict[str, int]:
    lines = re.findall(r"^(\w+) = (\d+)$", (SYZ / "redoubt.txt.const").read_text(), re.M)
    return {name: int(value) for name, value in lines}


def test_described_calls_are_those_of_the_kernel() -> None:
    source = (KERNEL / "arch/x86/mm/mktme/syscalls.c").read_text()
    calls = {
        name: int(count) for count, name in re.findall(r"^SYSCALL_DEFINE(\d)\((\w+),", source, re.M)
    }
    described = {
        name: re.sub(r"\[[^]]*\]", "", arguments).count(",") + 1
        for name, arguments in re.findall(r"^(mktme_\w+)\((.*)\)", descriptions(), re.M)
    }
    assert described == calls == {"mktme_key_create": 2, "mktme_mprotect": 4}
    patches = "\n".join(map(Path.read_text, (paths.repo() / "patches/mktme").glob("*.patch")))
    table = re.findall(r"^\+(\d+)\s+\w+\s+(mktme_\w+)\s", patches, re.M)
    assert {(str(constants()[f"__NR_{name}"]), name) for name in calls} == {*table}


def test_the_described_struct_has_the_fields_of_the_kernel() -> None:
    struct = re.search(
        r"^struct mktme_key_args \{(.*?)^\};", HEADER_OF_KEYS.read_text(), re.M | re.S
    )
    assert struct
    sizes = {"__u32": 4, "__aligned_u64": 8}
    fields = [(name, sizes[kind]) for kind, name in re.findall(r"(\w+) (\w+);", struct[1])]
    described = re.search(r"^mktme_key_args \{(.*?)^\}", descriptions(), re.M | re.S)
    assert described
    lines = [line.split(None, 1) for line in described[1].splitlines() if line.strip()]
    assert [(name, 8 if kind.startswith("ptr64") else 4) for name, kind in lines] == fields
    assert all("int32" in kind or kind.startswith("ptr64") for _, kind in lines)


def test_constants_are_those_of_the_kernel() -> None:
    header, known = HEADER_OF_KEYS.read_text(), constants()
    for name, value in re.findall(r"^#define (MKTME_AES\w+)\s+(\d+)$", header, re.M):
        assert known[name] == int(value)
    command = re.search(r"^#define MKTME_KEY_REVOKE\s+_IO\('(.)', (\w+)\)$", header, re.M)
    assert command and known["MKTME_KEY_REVOKE"] == ord(command[1]) << 8 | int(command[2], 16)
    text = re.sub(r"#.*|\"[^\"]*\"|\$\w+", "", descriptions())
    used = set(re.findall(r"\b[A-Z][A-Z0-9_]{3,}\b", text))
    assert used <= set(known)
    called = {f"__NR_{name.partition('$')[0]}" for name in described_calls()}
    assert set(known) == used | called


def test_described_files_are_those_of_the_kernel() -> None:
    text = "".join(file.read_text() for file in KERNEL.rglob("*.c"))
    made = set(re.findall(r'debugfs_create_\w+\("(\w+)", 0', text))
    described = re.findall(r'"/sys/kernel/debug/(\w+)/(\w+)"', descriptions())
    assert {directory for directory, _ in described} == {"kpkeys", "asi", "mktme"}
    # Files of local topics are not on a branch.
    assert {name for _, name in described} == made - {"ctl", "run", "bugs"}


def test_the_manager_fuzzes_what_is_described() -> None:
    config = json.loads((SYZ / "manager.cfg").read_text())
    assert described_calls() <= set(config["enable_syscalls"])
    assert len(set(config["enable_syscalls"])) == len(config["enable_syscalls"])
    assert f"-cpu {PC.cpu}" in config["vm"]["qemu_args"]
    options = build.options((SYZ / "kernel.config").read_text())
    assert options["CONFIG_KCOV"] == "y" and "CONFIG_KASAN" not in options
