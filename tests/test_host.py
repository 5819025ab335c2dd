# SPDX-License-Identifier: GPL-2.0-only
"""Where kernels run, on machines that are described here."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write_tree

from redoubt.core.errors import RedoubtError
from redoubt.machine import host
from redoubt.targets import UM, X86_64

PROGRAM = "qemu-system-x86_64"


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
    assert not host.has_pku(tmp_path / "nowhere")


def machine(monkeypatch: pytest.MonkeyPatch, where: Path, *, pku: bool, qemu: str | None) -> None:
    """Make this machine look like another, with a QEMU that says it is of a version."""
    monkeypatch.setattr(host, "has_pku", lambda: pku)
    monkeypatch.setenv("PATH", str(where))
    if qemu is not None:
        text = f"#!/bin/sh\necho 'QEMU emulator version {qemu} (Debian)'\n"
        write_tree(where, {PROGRAM: text})


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
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, choice: str, pku: bool, qemu: bool,
    expected: str | None,
) -> None:  # fmt: skip
    # For user pages any version will do.
    machine(monkeypatch, tmp_path, pku=pku, qemu="5.2.0" if qemu else None)
    assert host.enforcing(UM, choice) == expected
    if expected:
        assert host.pick(UM, choice) == expected
    elif choice == "emulated":
        with pytest.raises(RedoubtError, match="not found") as caught:
            host.pick(UM, choice)
        assert caught.value.hint == "sudo apt-get install qemu-system-x86"
    else:
        # It boots all the same, without protection.
        assert host.pick(UM, choice) == "native"


@pytest.mark.parametrize("pku", [True, False])
@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("7.2.22", None),
        ("11.1.3", None),
        ("7.1.0", "is version 7.1, which has no protection keys: 7.2 does"),
        ("of no kind", "does not say which version it is"),
        (None, "not found"),
    ],
)
def test_an_emulated_target_wants_a_qemu_with_its_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pku: bool, version: str | None, says: str
) -> None:
    # What this CPU has does not matter.
    machine(monkeypatch, tmp_path, pku=pku, qemu=version)
    for choice in ("auto", "emulated"):
        if not says:
            assert host.enforcing(X86_64, choice) == host.pick(X86_64, choice) == "emulated"
            continue
        assert host.enforcing(X86_64, choice) is None
        with pytest.raises(RedoubtError, match=says) as caught:
            host.pick(X86_64, choice)
        assert caught.value.hint and "apt-get install qemu-system-x86" in caught.value.hint


def test_an_emulated_target_has_no_native_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, tmp_path, pku=True, qemu="7.2.22")
    for asked in (host.enforcing, host.pick):
        with pytest.raises(RedoubtError, match="x86_64 has no native host"):
            asked(X86_64, "native")
        with pytest.raises(RedoubtError, match="unknown host 'here'"):
            asked(X86_64, "here")
