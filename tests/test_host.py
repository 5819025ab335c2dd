# SPDX-License-Identifier: GPL-2.0-only
"""Where um runs, on machines that are described here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from redoubt import host
from redoubt.errors import RedoubtError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\nflags\t\t: fpu pku ospke sse\nbugs : none\n", True),
        ("flags\t\t: fpu ospke\n", True),
        # The CPU has it, and the kernel does not use it.
        ("flags\t\t: fpu pku sse\n", False),
        ("flags\t\t: fpu notospke\n", False),
        ("model name : ospke\nflags : fpu\n", False),
        ("flags\n", False),
        ("", False),
    ],
)
def test_protection_keys(tmp_path: Path, text: str, expected: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(text)
    assert host.has_pku(cpuinfo) is expected


def test_no_cpuinfo(tmp_path: Path) -> None:
    assert not host.has_pku(tmp_path / "nowhere")


def machine(monkeypatch: pytest.MonkeyPatch, where: Path, *, pku: bool, qemu: bool) -> None:
    """Make this machine look like another."""
    monkeypatch.setattr(host, "has_pku", lambda: pku)
    monkeypatch.setenv("PATH", str(where))
    if qemu:
        (where / host.QEMU).write_text("#!/bin/sh\n")
        (where / host.QEMU).chmod(0o755)


@pytest.mark.parametrize(
    ("choice", "pku", "qemu", "expected"),
    [
        ("auto", True, True, "native"),
        ("auto", True, False, "native"),
        ("auto", False, True, "emulated"),
        ("auto", False, False, None),
        ("native", True, True, "native"),
        ("native", False, True, None),
        ("emulated", True, True, "emulated"),
        ("emulated", True, False, None),
    ],
)
def test_the_host_that_enforces(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    choice: str,
    pku: bool,
    qemu: bool,
    expected: str | None,
) -> None:
    machine(monkeypatch, tmp_path, pku=pku, qemu=qemu)
    assert host.enforcing(choice) == expected
    if expected:
        assert host.pick(choice) == expected
    elif choice == "emulated":
        with pytest.raises(RedoubtError, match="not found") as caught:
            host.pick(choice)
        assert caught.value.hint == "sudo apt-get install qemu-system-x86"
    else:
        # It boots all the same, without protection.
        assert host.pick(choice) == "native"


@pytest.mark.skipif(not shutil.which("cpio"), reason="needs cpio")
def test_the_initramfs_is_one_that_cpio_understands(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/program").write_bytes(b"odd")
    (root / "bin/program").chmod(0o755)
    (root / "bin/sh").symlink_to("program")
    (root / "empty").touch()
    archive = tmp_path / "archive"
    host.initramfs(
        {"init": root / "bin/program"}, {"cmdline": b"a\nb\n"}, {"root-fs": root}, archive
    )
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["cpio", "-id", "--quiet"], stdin=archive.open("rb"), cwd=out, check=True)
    assert (out / "init").read_bytes() == b"odd"
    assert (out / "cmdline").read_text() == "a\nb\n"
    assert (out / "root-fs/bin/program").stat().st_mode & 0o777 == 0o755
    assert (out / "root-fs/bin/sh").readlink() == Path("program")
    assert (out / "root-fs/empty").read_bytes() == b""
