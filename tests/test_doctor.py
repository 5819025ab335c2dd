# SPDX-License-Identifier: GPL-2.0-only
"""The doctor's judgement of machines that are described to it, and once of this one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import write_tree

from redoubt.core.errors import RedoubtError
from redoubt.machine import doctor, qemu
from redoubt.machine.doctor import GIB, Prerequisite
from redoubt.targets import UM, X86_64


def prerequisite(group: str, thing: str, *, found: bool) -> Prerequisite:
    return Prerequisite(group, thing, f"{thing}-pkg", found, f"does {thing}")


def script(tmp_path: Path, text: str) -> Path:
    return write_tree(tmp_path, {"script": f"#!/bin/sh\n{text}\n"}) / "script"


def test_one_command_mends_everything() -> None:
    table = [
        prerequisite("base", "one", found=False),
        prerequisite("base", "two", found=True),
        prerequisite("base", "three", found=False),
        prerequisite("lint", "four", found=False),
    ]
    one, two, three, four = doctor.tools(table, pku=True, root=True)
    apt = "apt-get update && apt-get install --no-install-recommends -y"
    assert (one.ok, one.needed, one.fix) == (False, True, f"{apt} one-pkg three-pkg")
    assert three.fix == one.fix
    assert (two.ok, two.fix) == (True, None)
    assert (four.ok, four.needed) == (False, False)
    assert four.fix == f"{apt} one-pkg three-pkg four-pkg"
    assert "does one" in one.detail


def test_who_is_not_root_uses_sudo() -> None:
    command = doctor.install_command(["a", "b", "a"], root=False)
    assert command == ("sudo apt-get update && sudo apt-get install --no-install-recommends -y a b")


@pytest.mark.parametrize("pku", [True, False])
def test_the_emulator_is_needed_without_protection_keys(pku: bool) -> None:
    """Also where another target needs it, which is nothing that um has to have."""
    table = [
        prerequisite(group, "thing", found=False) for group in ("no-pku", "no-pku,x86_64", "x86_64")
    ]
    found = doctor.tools(table, pku=pku, root=True)
    assert [(one.ok, one.needed) for one in found] == [
        (False, not pku), (False, not pku), (False, False)
    ]  # fmt: skip


def test_the_machine_of_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.emulated(UM) is None
    monkeypatch.setattr(qemu, "found", lambda emulator: False)
    lacking = doctor.emulated(X86_64)
    assert lacking and (lacking.name, lacking.ok, lacking.needed) == ("x86_64", False, False)
    assert lacking.fix == "sudo apt-get install qemu-system-x86"
    monkeypatch.setattr(qemu, "problem", lambda emulator: None)
    there = doctor.emulated(X86_64)
    assert there and there.ok


@pytest.mark.parametrize(
    ("flags", "emulator", "ok", "says"),
    [
        ("fpu pku ospke", False, True, "natively"),
        ("fpu pku", True, False, "kernel has not switched it on"),
        ("fpu", True, False, "emulated by QEMU"),
        ("fpu", False, False, "skipped"),
    ],
)
def test_protection_keys(tmp_path: Path, flags: str, emulator: bool, ok: bool, says: str) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    finding = doctor.protection_keys(cpuinfo, emulator=emulator)
    assert finding.ok is ok
    assert says in finding.detail


def test_space(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    not_yet = tmp_path / "not" / "yet"
    assert doctor.space("build space", not_yet, free // 2).ok
    assert not not_yet.exists()
    lacking = doctor.space("build space", not_yet, free * 2)
    assert not lacking.ok
    assert lacking.fix and "REDOUBT_BUILD" in lacking.fix


def test_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9999999 kB\nMemAvailable:  2097152 kB\n")
    assert doctor.memory(2 * GIB, meminfo).ok
    assert not doctor.memory(2 * GIB + 1, meminfo).ok


def test_a_directory_of_somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert doctor.writable("build directory", tmp_path / "new") is None
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    finding = doctor.writable("build directory", tmp_path / "new")
    assert finding and not finding.ok and finding.needed


def test_source_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINUX_SRC", str(tmp_path))
    found = [f for f in doctor.examine() if f.name == "kernel source"]
    assert [f.ok for f in found] == [False]
    assert str(tmp_path) in found[0].detail


def test_the_report_of_the_script(tmp_path: Path) -> None:
    file = script(tmp_path, r"printf 'base\tgcc\tgcc\tno\tbuilds it all\n'")
    assert doctor.prerequisites(file) == [
        Prerequisite("base", "gcc", "gcc", False, "builds it all")
    ]


@pytest.mark.parametrize("text", ["echo what is this", "echo broken >&2; exit 3"])
def test_a_report_that_is_not_understood(tmp_path: Path, text: str) -> None:
    with pytest.raises(RedoubtError):
        doctor.prerequisites(script(tmp_path, text))


def test_this_machine() -> None:
    findings = {finding.name: finding for finding in doctor.examine()}
    assert {"gcc", "lib:libc.a", "protection keys", "build space", "memory"} <= findings.keys()
    assert findings["gcc"].ok == (shutil.which("gcc") is not None)
    assert all(f.fix is None for f in findings.values() if f.ok)
    needed = [finding.needed for finding in doctor.examine()]
    assert needed == sorted(needed, reverse=True)
