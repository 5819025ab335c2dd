# SPDX-License-Identifier: GPL-2.0-only
"""The commands that start emulated machines, and what is said when there is no emulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import boot, cpio, host, kernels, qemu
from redoubt.machine.boot import Machine
from redoubt.targets import PC, TARGETS, UM, X86_64, X86_64_PCID, get_variant


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "root/bin").mkdir(parents=True)
    (tmp_path / "root/init").write_text("init")
    image = tmp_path / "bzImage"
    bench = kernels.Workbench(Build(X86_64, tmp_path, image, image), tmp_path, host.EMULATED)
    return bench.machine(get_variant(X86_64, "on"), "pti=off", cpus=2)


def test_a_target_boots_on_its_machine(machine: Machine, tmp_path: Path) -> None:
    words = boot._made_ready(machine, tmp_path, Silent())
    assert words[0] == "qemu-system-x86_64"
    assert value(words, "-cpu") == "max"
    assert value(words, "-smp") == "2"
    assert value(words, "-m") == "256M"
    assert value(words, "-kernel") == str(machine.build.image)
    assert not {"-icount", "-enable-kvm"} & {*words}
    args = value(words, "-append").split()
    assert args[:3] == ["console=ttyS0", "panic=-1", "pti=on"]
    # Of two the last one counts.
    assert args.index("pti=on") < args.index("pti=off")
    assert "kpkeys_hardened_pgtables=on" in args
    assert not [arg for arg in args if arg.startswith(("root", "mem=", "ncpus", "con="))]
    words = boot._made_ready(replace(machine, cpu="max,-pks"), tmp_path, Silent())
    assert value(words, "-cpu") == "max,-pks"


def test_its_root_directory_is_the_initramfs(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(
        cpio, "write", lambda entries, to: written.extend(one.name for one in entries)
    )
    boot._made_ready(machine, tmp_path, Silent())
    assert written == ["bin", "init"]


def test_uml_on_an_emulated_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "obtain_kernel", lambda progress: None)
    monkeypatch.setattr(host, "kernel_file", lambda: Path("vmlinuz"))
    written: dict[str, bytes] = {}
    monkeypatch.setattr(
        cpio, "write", lambda entries, to: written.update((one.name, one.data) for one in entries)
    )
    (tmp_path / "root").mkdir()
    (tmp_path / "root/init").write_text("guest's")
    (tmp_path / "host-init").write_text("host's")
    image = tmp_path / "linux"
    image.write_text("uml")
    made = Machine(Build(UM, tmp_path, image, image), tmp_path, host.EMULATED, ("last",))
    words = boot._made_ready(made, tmp_path, Silent())
    assert value(words, "-kernel") == "vmlinuz"
    # The host gets more than its guest.
    assert int(value(words, "-m").rstrip("M")) > 1024
    args = value(words, "-append").split()
    assert args[0] == "console=ttyS0"
    assert "mitigations=off" in args and "pti=on" not in args
    assert written["init"] == b"host's"
    assert written["linux"] == b"uml"
    assert written["root-fs/init"] == b"guest's"
    cmdline = written["cmdline"].decode().splitlines()
    assert {"rootflags=/root-fs", "mem=256M", "panic=-1"} <= {*cmdline}
    assert cmdline[-1] == "last"


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_can_lose_its_keys(name: str) -> None:
    target = TARGETS[name]
    assert target.no_keys
    for way in target.no_keys:
        assert way.args or way.cpu
        # Only an emulated CPU comes in models.
        assert not way.cpu or target.emulator


def test_a_measured_machine_has_no_huge_pages(tmp_path: Path) -> None:
    made = kernels.Workbench(Build(X86_64, tmp_path, tmp_path, tmp_path), tmp_path, host.EMULATED)
    machine = made.bench_machine(get_variant(X86_64, "off"))
    assert "transparent_hugepage=never" in machine.args
    assert "transparent_hugepage=never" not in made.machine(get_variant(X86_64, "off")).args


def test_a_kernel_boots_as_that_of_another_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two targets share a kernel, and each is booted by an emulator of its own."""
    monkeypatch.setattr(qemu.built, "ready", lambda *_: None)
    monkeypatch.setattr(qemu.built, "program", lambda name: tmp_path / "ours" / name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "init").write_text("init")
    made = kernels.Workbench(Build(X86_64, tmp_path, tmp_path, tmp_path), tmp_path, host.EMULATED)
    machine = made.of(X86_64_PCID).machine(get_variant(X86_64, "on"), cpus=2)
    (tmp_path / "root/bin").mkdir(parents=True)
    words = boot._made_ready(machine, tmp_path, Silent())
    assert words[0] == str(tmp_path / "ours/qemu-system-x86_64")
    # It does not come with firmware.
    assert "/usr/share/seabios" in words
    assert words[words.index("-smp") + 1] == "2"
    words = boot._made_ready(made.machine(get_variant(X86_64, "on")), tmp_path, Silent())
    assert words[0] == "qemu-system-x86_64"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)", (7, 2)),
        ("QEMU emulator version 11.1.3", (11, 1)),
        ("qemu", None),
    ],
)
def test_the_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, expected: tuple[int, int] | None
) -> None:
    program = tmp_path / PC.program
    program.write_text(f"#!/bin/sh\necho '{text}'\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert qemu.version(PC) is None
    program.chmod(0o755)
    assert qemu.version(PC) == expected
    assert qemu.described(PC) == f"{PC.program}: {text}"
