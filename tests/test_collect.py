# SPDX-License-Identifier: GPL-2.0-only
"""redoubt-collect on machines made up of files, and what redoubt import makes of its results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Sandbox
from guests import AUDIT
from test_brought import PRICES, SRC, needs_parser
from test_status import BOOT, Machine

from redoubt.core import paths
from redoubt.linux import source
from redoubt.linux.source import Source
from redoubt.ship import report
from redoubt.ship.stick import brought
from redoubt.ship.stick.brought import Brought

TOOLS = paths.repo() / "tools/status"
HARDWARE = """\
model name: Some CPU (R)
hypervisor: no
pks: yes
command line: root=UUID=4711-12 ip=my-host kpkeys_hardened_cred=off nopti mitigations=off quiet
"""
BENCH = """\
case $1 in
null-syscall:*) for n in 1 2 3; do
	echo "@bench: workload=null-syscall size=0 ops=1 ns=100$n host_ns=0 host_calls=0 tables=0" \\
		"free_ns=0 sample=$n"
	done; echo "@bench: done" ;;
*) echo "bench: memfd_secret: not in this kernel"; exit 1 ;;
esac
"""
ABOUT = {"format": 1, "target": "x86_64", "commit": "c" * 40, "dirty": False,
         "command": "redoubt deb x86_64", "date": "2026-11-30T00:00:00+00:00",
         "specs": ["null-syscall:0:1:3:1", "secret-memory:67108864:1:1:1"]}  # fmt: skip
KUNIT = (
    "KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: {0}\n    1..1\n    ok 1 x\nok 1 {0}\n"
)


class Installed(Machine):
    """A system with the program, and others that it runs."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self.library = sandbox.where / "library"
        self.library.mkdir()
        for name in ("redoubt_collect.py", "redoubt_status.py"):
            shutil.copy(TOOLS / name, self.library)
        (self.library / "collect.json").write_text(json.dumps(ABOUT))
        self.program("hardware", f"cat <<'E'\n{HARDWARE}E")
        self.program("prices", "cat <<'E'\n" + "\n".join(PRICES[0]) + "\nE")
        self.program("bench", BENCH)

    def program(self, name: str, text: str) -> None:
        file = self.library / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.library / "redoubt_collect.py", "--root", self.root, *words],
            env=self.sandbox.env | env, cwd=self.sandbox.where, input=env.get("ANSWER", ""),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    @property
    def results(self) -> Path:
        return self.sandbox.where / "results-some-cpu-r.json"

    def journal(self) -> list[dict[str, Any]]:  # type: ignore[override]
        lines: list[dict[str, Any]] = json.loads(self.results.read_text())["journal"]
        return lines


@pytest.fixture
def machine(sandbox: Sandbox) -> Installed:
    return Installed(sandbox)


def judged(machine: Installed) -> Brought:
    return brought.judge(brought.read(machine.results), SRC)


@needs_parser
def test_what_is_collected_is_taken(machine: Installed) -> None:
    done = machine.run("--yes")
    assert done.returncode == 0, done.stderr
    found = judged(machine)
    assert (found.problems, found.wrong) == ((), ())
    assert (found.target, found.keys, found.silicon) == ("x86_64", True, True)
    assert list(found.steps) == ["on/hardware", "on/log", "on/check", "on/prices", "on/bench"]
    assert found.times == {"null-syscall": {"on": 1002.0}}
    assert found.prices["on"]["switch"].ns == 42.0
    assert [walk.tables for walk in found.walks] == [27]
    # That it is less than an image tells is told.
    assert found.lacking == ("KUnit", "attacks", "protection off")
    said = list(brought.render(found))
    assert "not tried there: KUnit, attacks, protection off" in said
    assert "collected on an installed system with Linux 7.3.4-redoubt" in said
    row = brought.row("file", found.as_json())
    assert row[0] == "Some CPU (R), installed" and set(row[-3:]) == {"-"}


def test_everything_is_shown_and_saved_only_if_that_is_wanted(machine: Installed) -> None:
    done = machine.run("--show")
    assert (done.returncode, machine.results.exists()) == (0, False)
    for text in ("model name: Some CPU (R)", "kpkeys: secrets hardened", "@price: switch",
                 "untagged 0", "workload=null-syscall", '"CONFIG_KPKEYS_CHECK": "y"'):  # fmt: skip
        assert text in done.stdout
    done = machine.run(ANSWER="n\n")
    assert (done.returncode, machine.results.exists()) == (1, False)
    assert "nothing was saved" in done.stderr
    assert "Save this as results-some-cpu-r.json? [y/N]" in done.stdout
    # Nobody answers.
    assert machine.run().returncode == 1
    assert machine.run(ANSWER="y\n").returncode == 0
    done = machine.run("--yes")
    assert done.returncode == 1
    assert "results-some-cpu-r.json is there already" in done.stderr


def test_names_of_disks_and_hosts_stay_where_they_are(machine: Installed) -> None:
    machine.log(*BOOT, "usb 1-1: SerialNumber: 4711", "e1000e: 52:54:00:12:34:56")
    done = machine.run("--yes")
    assert not [text for text in ("4711", "52:54", "my-host", "quiet") if text in done.stdout]
    assert "command line: kpkeys_hardened_cred=off nopti mitigations=off\n" in done.stdout
    (log,) = [line["log"] for line in machine.journal() if line.get("step") == "on/log"
              and line["event"] == "end"]  # fmt: skip
    assert log == ["Linux version 7.3.4", *BOOT]


@needs_parser
def test_both_ways_to_boot_in_one_file(machine: Installed) -> None:
    assert machine.run("--yes").returncode == 0
    machine.log("kpkeys: page tables not hardened: disabled by kpkeys_hardened_pgtables=off")
    machine.program("prices", "cat <<'E'\n" + "\n".join(PRICES[1]) + "\nE")
    assert machine.run("--yes", "--add", str(machine.results)).returncode == 0
    found = judged(machine)
    assert (found.problems, found.wrong) == ((), ())
    assert found.times == {"null-syscall": {"on": 1002.0, "off": 1002.0}}
    assert found.lacking == ("KUnit", "attacks")
    done = machine.run("--yes", "--add", str(machine.results))
    assert done.returncode == 1
    assert "it has results of this way to boot: off" in done.stderr


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda m: m.program("hardware", "echo model name: Other CPU"), "is of another machine"),
        (lambda m: m.configure("KPKEYS_HARDENED_PGTABLES"), "is not of this kernel"),
        (lambda m: m.results.write_text("{}"), "is no result of this program"),
        (lambda m: m.program("bench", "exit 1"), "other workloads were measured"),
    ],
)
def test_a_file_that_results_do_not_belong_to(machine: Installed, spoil: Any, why: str) -> None:
    assert machine.run("--yes").returncode == 0
    machine.log("kpkeys: page tables not hardened: disabled by kpkeys_hardened_pgtables=off")
    spoil(machine)
    before = machine.results.read_text()
    done = machine.run("--yes", "--add", str(machine.results))
    assert (done.returncode, machine.results.read_text()) == (1, before)
    assert why in done.stderr


@needs_parser
def test_results_of_kunit(machine: Installed) -> None:
    for name in ("kpkeys_levels", "kpkeys_pool"):
        machine.file(f"sys/kernel/debug/kunit/{name}/results", KUNIT.format(name))
    # A suite that did not run.
    machine.file("sys/kernel/debug/kunit/other/results", "")
    assert machine.run("--yes").returncode == 0
    found = judged(machine)
    assert (found.kunit, found.problems, found.wrong) == ({"kunit-on": (2, 0, 0)}, (), ())
    failed = KUNIT.format("kpkeys_pool").replace("ok 1", "not ok 1")
    machine.file("sys/kernel/debug/kunit/kpkeys_pool/results", failed)
    machine.results.unlink()
    assert machine.run("--yes").returncode == 0
    assert judged(machine).wrong == ("kunit-on/kunit: kpkeys_pool failed: kpkeys_pool.x",)


@needs_parser
def test_isolation_is_audited(machine: Installed) -> None:
    machine.configure("KPKEYS_HARDENED_PGTABLES", "MITIGATION_ADDRESS_SPACE_ISOLATION")
    machine.log("kpkeys: page tables not hardened: the CPU has no PKS", "asi: on: 12 blocks")
    machine.file("proc/cmdline", "asi=on\n")
    machine.program("hardware", "echo 'model name: Some CPU (R)'; echo 'pks: no'")
    machine.file("sys/kernel/debug/asi/audit", "\n".join(AUDIT[:6]))
    machine.file("sys/kernel/debug/asi/switches", "\n".join(AUDIT[6:]))
    assert machine.run("--yes").returncode == 0
    found = judged(machine)
    assert (found.problems, found.wrong) == ((), ())
    assert "asi/audit" in found.steps


def test_another_kernel_is_refused(machine: Installed) -> None:
    machine.configure("EXT4_FS")
    done = machine.run("--yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert "7.3.4-redoubt has none of the protections" in done.stderr
    assert machine.run("--yes", "--show").returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_else_than_root_is_told(machine: Installed) -> None:
    for above in (machine.library, *machine.library.parents):
        if str(above).startswith("/tmp/"):
            above.chmod(0o755)
    done = subprocess.run(
        [machine.library / "redoubt_collect.py"], user=65534, cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == ("redoubt-collect: debugfs is for root only: sudo redoubt-collect\n")


@needs_parser
def test_what_is_collected_is_added_without_more_ado(
    machine: Installed, call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("redoubt.core.paths.results_dir", lambda: tmp_path / "kept")
    monkeypatch.setattr(source, "obtain", lambda _: Source(SRC, "7.3.4"))
    assert machine.run("--yes").returncode == 0
    done: Done = call("import", str(machine.results))
    assert done.code == 0
    assert "not tried there: KUnit, attacks, protection off" in done.out
    assert report.load(tmp_path / "kept").hardware.rows[0][0] == "Some CPU (R), installed"
