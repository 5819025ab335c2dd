# SPDX-License-Identifier: GPL-2.0-only
"""redoubt-status on machines made up of files: it never takes what it does not know for well."""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import Sandbox, write_tree

from redoubt.core import paths

PROGRAM = paths.repo() / "tools/status/redoubt_status.py"
RELEASE = "7.3.4-redoubt"
KEYS = (
    "KPKEYS_HARDENED_PGTABLES", "KPKEYS_CHECK_MAPPINGS", "KPKEYS_HARDENED_STATE",
    "KPKEYS_HARDENED_CRED", "KPKEYS_HARDENED_REGS", "KPKEYS_HARDENED_SECRET", "KPKEYS_CHECK",
)  # fmt: skip
BOOT = (
    "kpkeys: page tables hardened (pkey 1, x86/pks)",
    "kpkeys: state hardened (pkey 3, 12 pages)",
    "kpkeys: credentials hardened (pkey 4)",
    "kpkeys: saved registers hardened",
    "kpkeys: secrets hardened (pkey 5)",
)
WRITE = "write to 0x60a6e008 (pkey 1) at level default, ip kpkeys_x+0x0/0x10, own-pte[34]"
VIOLATION = f"<1>kpkeys: violation: {WRITE}"
WALK = "tables 27\nuntagged 0\naliases 0\nunlinked 0\nforeign 0\n"


def status() -> ModuleType:
    spec = importlib.util.spec_from_file_location("redoubt_status", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def records(*lines: str, start: int = 0, facility: int = 0) -> str:
    """Records of /dev/kmsg; a line may begin with its priority."""
    said = []
    for number, line in enumerate(lines, start):
        priority, _, text = line[1:].partition(">") if line[0] == "<" else ("6", "", line)
        said.append(f"{facility * 8 + int(priority)},{number},{number * 1000},-;{text}\n")
    return "".join(said)


class Machine:
    """A directory of files, and the program that looks at them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.root = sandbox.where / "root"
        self.configure(*KEYS)
        self.log(*BOOT)
        self.file("proc/cmdline", "root=/dev/vda quiet\n")
        self.file("proc/sys/kernel/osrelease", f"{RELEASE}\n")
        self.file("sys/kernel/debug/kpkeys/check", WALK)
        sandbox.program("journalctl", "exit 1")

    def file(self, name: str, text: str) -> None:
        write_tree(self.root, {name: text})

    def configure(self, *options: str) -> None:
        self.file(f"boot/config-{RELEASE}", "".join(f"CONFIG_{one}=y\n" for one in options))

    def log(self, *lines: str, **numbers: int) -> None:
        self.file("dev/kmsg", records("Linux version 7.3.4", *lines, **numbers))

    def journal(self, *lines: str) -> None:
        entries = "".join(f'{{"PRIORITY": "6", "MESSAGE": "{line}"}}\n' for line in lines)
        self.file("journal", entries)
        self.sandbox.program("journalctl", f'echo "$@" > "$CONTROL/asked"; cat {self.root}/journal')

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, "--root", self.root, *words], env=self.sandbox.env | env,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def says(self, code: int, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == code, done.stdout + done.stderr
        assert not (code == 0 and done.stderr)
        return done.stdout + done.stderr


@pytest.fixture
def machine(sandbox: Sandbox) -> Machine:
    return Machine(sandbox)


def states(said: str) -> dict[str, str]:
    """What is said of each protection."""
    lines = said.split("\n\n")[1].splitlines()
    return {line[:29].strip(): line[29:] for line in lines}


# === States ======================================================================================


def test_all_is_active(machine: Machine) -> None:
    assert states(machine.says(0)) == {
        "page tables": "active: pkey 1, x86/pks",
        "mappings of page tables": "active",
        "state": "active: pkey 3, 12 pages",
        "credentials": "active: pkey 4",
        "saved registers": "active",
        "secrets": "active: pkey 5",
        "pointer authentication keys": "not built in",
        "address space isolation": "not built in",
        "memory under several keys": "not built in",
    }


def test_a_configuration_in_proc_is_taken(machine: Machine) -> None:
    packed = machine.root / "proc/config.gz"
    packed.write_bytes(gzip.compress(b"CONFIG_KPKEYS_HARDENED_PGTABLES=y\n"))
    assert states(machine.says(0))["state"] == "not built in"


@pytest.mark.parametrize(
    ("line", "name", "why"),
    [
        ("kpkeys: page tables not hardened: the CPU has no PKS", "page tables", "the CPU has no P"),
        ("kpkeys: state not hardened: disabled by kpkeys_hardened_state=off", "state", "disabled"),
        ("<3>kpkeys: secrets not hardened: no memory with their key: -12", "secrets", "no memory"),
        ("kpkeys: pointer authentication keys not hardened: the CPU has none",
         "pointer authentication keys", "the CPU has none"),
        ("<4>asi: inactive: a pageblock is in several zones",
         "address space isolation", "a pageblock is"),
        ("x86/mktme: off: mktme=off", "memory under several keys", "mktme=off"),
    ],
)  # fmt: skip
def test_what_is_inactive_and_why(machine: Machine, line: str, name: str, why: str) -> None:
    machine.configure(
        *KEYS, "KPKEYS_HARDENED_PTRAUTH", "MITIGATION_ADDRESS_SPACE_ISOLATION", "X86_MKTME"
    )
    words = line.partition(": ")[2].split(" not ")[0]
    machine.log(*(one for one in BOOT if words not in one), line)
    said = machine.says(1)
    assert states(said)[name].startswith(f"inactive: {why}")
    # The reason is no warning of its own.
    assert "other warnings               0\n" in said


def test_what_stands_on_something_inactive_is_inactive(machine: Machine) -> None:
    machine.log("kpkeys: page tables not hardened: the CPU has no PKS")
    found = states(machine.says(1))
    assert found["mappings of page tables"] == "inactive: page tables: inactive"
    assert found["saved registers"] == "inactive: credentials: inactive"


def test_switches_of_the_command_line(machine: Machine) -> None:
    machine.file("proc/cmdline", "kpkeys.mappings=off\n")
    found = states(machine.says(1))
    assert found["mappings of page tables"] == "inactive: disabled by kpkeys.mappings=off"
    machine.file("proc/cmdline", "kpkeys.mappings=off kpkeys.mappings=1\n")
    machine.says(0)


def test_isolation_has_to_be_asked_for(machine: Machine) -> None:
    machine.configure(*KEYS, "MITIGATION_ADDRESS_SPACE_ISOLATION")
    assert "not asked for" in states(machine.says(1))["address space isolation"]
    machine.file("proc/cmdline", "asi=on\n")
    assert states(machine.says(1))["address space isolation"].startswith("unknown")
    machine.log(*BOOT, "asi: on: user mode is entered with a restricted address space")
    assert "active: user mode is" in states(machine.says(0))["address space isolation"]


def test_memory_under_keys(machine: Machine) -> None:
    machine.configure(*KEYS, "X86_MKTME")
    machine.log(*BOOT, "x86/mktme: hardware: 63 KeyIDs from bit 46 on, direct maps of 64 GiB")
    assert "active: hardware: 63 KeyIDs" in states(machine.says(0))["memory under several keys"]


def test_a_program_cannot_say_it(machine: Machine) -> None:
    machine.file("dev/kmsg", records("Linux version 7.3.4") + records(*BOOT, start=1, facility=1))
    assert states(machine.says(1))["page tables"].startswith("unknown")
    # Its name is in the middle of a line of the kernel's own.
    machine.log(*BOOT, f"<1>x[1]: segfault: kpkeys: violation: {WRITE}")
    assert "violations                   0," in machine.says(0)


def test_another_kernel_has_nothing(machine: Machine) -> None:
    machine.configure("MMU")
    assert "this kernel has none of the protections" in machine.says(1)
    (machine.root / f"boot/config-{RELEASE}").unlink()
    assert f"boot/config-{RELEASE} is there, which tell" in machine.says(1)


# === The log =====================================================================================


def test_violations_and_warnings_are_counted(machine: Machine) -> None:
    machine.log(*BOOT, VIOLATION, VIOLATION.replace("own-pte", "own-pmd"))
    said = machine.says(1)
    assert "violations                   2, in the log since boot\n" in said
    assert f"    {WRITE}\n" in said and "own-pmd[34]\n" in said
    machine.log(*BOOT, "<4>kpkeys: the level was still raised")
    said = machine.says(1)
    assert "other warnings               1\n    kpkeys: the level was still raised\n" in said


def test_the_kernels_own_counter_is_believed(machine: Machine) -> None:
    machine.configure(*KEYS, "KPKEYS_STATS")
    machine.file("sys/kernel/debug/kpkeys/stats", "switches_pgtables 12\nviolations 7\n")
    assert "violations                   7, counted by the kernel\n" in machine.says(1)
    machine.file("sys/kernel/debug/kpkeys/stats", "switches_pgtables 12\nviolations 0\n")
    machine.says(0)
    # A counter does not take back what the log says.
    machine.log(*BOOT, VIOLATION)
    assert "violations                   1, in the log since boot\n" in machine.says(1)


def test_a_counter_that_cannot_be_read_is_not_well(machine: Machine) -> None:
    machine.configure(*KEYS, "KPKEYS_STATS")
    said = machine.says(1)
    assert "violations                   0, in the log since boot\n" in said
    assert "kpkeys/stats is not there: mount -t debugfs" in said


def test_a_log_without_its_beginning(machine: Machine) -> None:
    machine.log("nothing of ours", start=5000)
    said = machine.says(1)
    assert states(said)["page tables"] == "unknown: no log since boot"
    assert "the kernel has overwritten the beginning of its log, and the journal has no" in said
    machine.journal("Linux version 7.3.4", *BOOT)
    assert states(machine.says(0))["page tables"] == "active: pkey 1, x86/pks"
    asked = (machine.sandbox.control / "asked").read_text()
    assert "_TRANSPORT=kernel SYSLOG_FACILITY=0" in asked and "--boot" in asked
    # A journal that has lost it, too.
    machine.journal(*BOOT)
    assert "overwritten" in machine.says(1)


def test_a_log_that_may_not_be_read(machine: Machine) -> None:
    if os.geteuid() == 0:
        # Nothing is denied to root, but that something else is there.
        (machine.root / "dev/kmsg").unlink()
        assert "dev/kmsg: No such file or directory" in machine.says(1)
    else:
        (machine.root / "dev/kmsg").chmod(0)
        assert "dev/kmsg: Permission denied; run this as root" in machine.says(1)


def test_errors_say_when_root_is_needed() -> None:
    why = status()._why
    assert why(PermissionError(1, "Operation not permitted", "/dev/kmsg")).endswith(
        "run this as root"
    )
    assert why(FileNotFoundError(2, "No such file", "/x")) == "/x: No such file"


# === The checker =================================================================================


def test_the_checker_runs_when_asked_for(machine: Machine) -> None:
    assert "kpkeys/check" not in machine.says(0)
    said = machine.says(0, "--check")
    assert "kpkeys/check: tables         27\n" in said
    assert "WRONG" not in said


@pytest.mark.parametrize("key", ["untagged", "aliases", "unlinked", "foreign"])
def test_each_thing_that_the_checker_finds_is_wrong(machine: Machine, key: str) -> None:
    found = f"untagged PTE table of init[1] 0x123000\n{WALK.replace(f'{key} 0', f'{key} 2')}"
    machine.file("sys/kernel/debug/kpkeys/check", found)
    said = machine.says(1, "--check")
    assert f"{f'kpkeys/check: {key}':<29}2  WRONG\n" in said
    assert "    untagged PTE table of init[1] 0x123000\n" in said
    machine.file("sys/kernel/debug/kpkeys/check", WALK.replace(f"{key} 0\n", ""))
    assert f"kpkeys/check does not count {key}" in machine.says(1, "--check")


def test_a_checker_that_saw_nothing_is_not_well(machine: Machine) -> None:
    machine.file("sys/kernel/debug/kpkeys/check", WALK.replace("tables 27", "tables 0"))
    assert f"{'kpkeys/check: tables':<29}0  WRONG\n" in machine.says(1, "--check")


def test_isolation_is_checked_as_well(machine: Machine) -> None:
    machine.configure(*KEYS, "MITIGATION_ADDRESS_SPACE_ISOLATION")
    machine.file("proc/cmdline", "asi=on\n")
    machine.log(*BOOT, "asi: on: x")
    audit = "sensitive 9\nordinary 3\nleaks 0\nmissing 4\nstale 0\naliases 0\n"
    machine.file("sys/kernel/debug/asi/audit", audit)
    machine.says(0, "--check")
    machine.file("sys/kernel/debug/asi/audit", audit.replace("leaks 0", "leaks 1"))
    assert f"{'asi/audit: leaks':<29}1  WRONG\n" in machine.says(1, "--check")


def test_no_checker_is_not_well(machine: Machine) -> None:
    (machine.root / "sys/kernel/debug/kpkeys/check").unlink()
    assert "check is not there: mount -t debugfs" in machine.says(1, "--check")
    machine.configure(*(one for one in KEYS if one != "KPKEYS_CHECK"))
    assert "cannot be checked: CONFIG_KPKEYS_CHECK is not built in" in machine.says(1, "--check")


# === The service =================================================================================


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def pipe(machine: Machine) -> Iterator[int]:
    """A log that waits for lines, as the kernel's does: the end that they are written to."""
    file = machine.root / "dev/kmsg"
    file.unlink()
    os.mkfifo(file)
    end = os.open(file, os.O_RDWR)
    yield end
    os.close(end)


def test_each_violation_is_logged_once(machine: Machine, pipe: int, tmp_path: Path) -> None:
    state, said = tmp_path / "state", tmp_path / "said"
    state.mkdir()
    env = machine.sandbox.env | {"RUNTIME_DIRECTORY": str(state), "JOURNAL_STREAM": "8:1"}

    def start() -> subprocess.Popen[bytes]:
        with said.open("ab") as out:
            return subprocess.Popen(
                [PROGRAM, "--root", machine.root, "--follow"], stdout=out, env=env
            )

    lines = (*BOOT, VIOLATION, "<4>kpkeys: the level was still raised")
    # A forwarded line of its own must not come round again.
    own = records(VIOLATION, start=7, facility=1)
    first = start()
    try:
        os.write(pipe, (records(*lines) + own).encode())
        wait(lambda: said.read_text().count("\n") == 2)
        wait(lambda: (state / "last").exists() and (state / "last").read_text() == "6")
        used = os.sysconf("SC_CLK_TCK") * 0.1
        before = sum(map(int, Path(f"/proc/{first.pid}/stat").read_text().split()[13:15]))
        time.sleep(0.5)
        after = sum(map(int, Path(f"/proc/{first.pid}/stat").read_text().split()[13:15]))
        assert after - before < used
    finally:
        first.terminate()
        first.wait()
    second = start()
    try:
        again = records(*lines) + own + records(VIOLATION.replace("own-pte", "late"), start=8)
        os.write(pipe, again.encode())
        wait(lambda: said.read_text().count("\n") == 3)
    finally:
        second.terminate()
        second.wait()
    assert said.read_text().splitlines() == [
        f"<2>the kernel refused: {WRITE}",
        "<4>the kernel warns: kpkeys: the level was still raised",
        f"<2>the kernel refused: {WRITE.replace('own-pte', 'late')}",
    ]


def test_lines_that_were_overwritten_are_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = status()
    answers: list[bytes | OSError] = [BrokenPipeError(32, "x"), records(VIOLATION).encode(), b""]

    def read(*_: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(module.os, "read", read)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    module.follow(machine.root)
    assert capsys.readouterr().out.splitlines() == [
        "some of the kernel's log was overwritten before it was read",
        f"the kernel refused: {WRITE}",
    ]


# === The words ===================================================================================


@pytest.mark.parametrize("words", [["--nonsense"], ["--check", "--follow"], ["x"], ["--che"]])
def test_wrong_usage(machine: Machine, words: list[str]) -> None:
    assert machine.run(*words).returncode == 2


def test_its_options_and_switches_are_those_of_the_kernel() -> None:
    kernel, module = paths.repo() / "kernel", status()
    text = "\n".join(
        file.read_text(errors="replace")
        for top in (kernel, paths.repo() / "patches")
        for file in top.rglob("*")
        if file.is_file() and "Documentation" not in file.parts
    )
    for one in module.PROTECTIONS:
        assert f"config {one.option}\n" in text
        if one.silent:
            assert f'"{one.silent}");' in text
    for file, option, _, zero, some in module._CHECKS:
        assert f'debugfs_create_file("{file.split("/")[1]}"' in text
        assert f"config {option}\n" in text
        assert all(f"{key} %lu\\n" in text for key in (*zero, *some))


@pytest.mark.parametrize(
    "words",
    [
        'pr_info("page tables hardened (pkey %d, %s)\\n"', '"page tables not hardened: %s\\n"',
        'pr_info("state hardened (pkey %d, %d pages)\\n"', '"state not hardened: ',
        'pr_info("credentials hardened (pkey %d)\\n"', '"credentials not hardened: ',
        'pr_info("saved registers hardened\\n"', '"saved registers not hardened: ',
        'pr_info("secrets hardened (pkey %d)\\n"', '"secrets not hardened: ',
        'pr_info("pointer authentication keys hardened (pkey %d)\\n"',
        '"pointer authentication keys not hardened: ',
        'pr_info("on: ', 'pr_warn("inactive: %s\\n"',
        'pr_info("%s: %u KeyIDs from bit', 'pr_info("off: %s\\n"', 'pr_alert("violation: ',
    ],
)  # fmt: skip
def test_the_lines_above_are_those_of_the_kernel(words: str) -> None:
    kernel = paths.repo() / "kernel"
    assert any(words in file.read_text() for file in kernel.rglob("*.c"))


def test_each_feature_of_a_configuration_is_one_of_its_protections() -> None:
    features = tomllib.loads((paths.repo() / "configs/features.toml").read_text())
    # The linear map is created in another way, and nothing is protected.
    others = {"ARM64_EARLY_PGTABLE_ARENA"}
    ours = {one.option for one in status().PROTECTIONS}
    assert {one["option"] for one in features.values()} <= ours | others
