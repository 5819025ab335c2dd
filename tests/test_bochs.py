# SPDX-License-Identifier: GPL-2.0-only
"""The other emulator: what it is told, and what it boots from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import write_tree

from redoubt.core.progress import Silent
from redoubt.linux import rootless
from redoubt.linux.build import Build
from redoubt.machine import bochs, boot, host, kernels
from redoubt.targets import X86_64, get_variant


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where its packages would be unpacked."""
    root = tmp_path / "packages"
    names = (
        "usr/lib/ISOLINUX/isolinux.bin", "usr/lib/syslinux/modules/bios/ldlinux.c32",
        "usr/bin/bochs-bin", "usr/bin/xorriso", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    )  # fmt: skip
    write_tree(root, {name: Path(name).name for name in names})

    def system(architecture: str, wanted: tuple[str, ...], _: Any) -> Path:
        assert (architecture, wanted) == ("amd64", bochs.PACKAGES)
        return root

    monkeypatch.setattr(rootless, "system", system)
    return root


def test_a_target_boots_there(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []
    monkeypatch.setattr(
        bochs, "run_logged", lambda words, *_, **__: made.append([str(word) for word in words])
    )
    (tmp_path / "root/bin").mkdir(parents=True)
    (tmp_path / "root/init").write_text("init")
    image = tmp_path / "bzImage"
    image.write_text("kernel")
    bench = kernels.Workbench(Build(X86_64, tmp_path, image, image), tmp_path, host.EMULATED)
    machine = replace(bench, bochs=True).machine(get_variant(X86_64, "on"), "asi=on")

    words = boot._command(machine, tmp_path, Silent())
    assert words[:1] == ["env"] and str(packages / "usr/bin/bochs-bin") in words
    configuration = Path(words[words.index("-f") + 1]).read_text()
    assert "dev=/dev/stdout" in configuration and f"megs: {machine.memory_mb}\n" in configuration
    assert f"cpu: model={bochs.CPU}," in configuration
    assert not re.search(r"[{}]", configuration)

    (disc,) = made
    tree = Path(disc[-1])
    assert f'path="{disc[disc.index("-o") + 1]}"' in configuration
    assert (tree / "linux").read_text() == "kernel"
    assert (tree / "initrd").read_bytes().startswith(b"070701")
    assert (tree / "isolinux.bin").read_text() == "isolinux.bin"
    append = re.search(r"^APPEND (.*)$", (tree / "isolinux.cfg").read_text(), re.MULTILINE)
    assert append and append[1].startswith("console=ttyS0,115200 panic=-1 pti=on ")
    assert append[1].endswith(" asi=on")


def test_a_workbench_makes_such_machines(tmp_path: Path) -> None:
    bench = kernels.Workbench(Build(X86_64, tmp_path, tmp_path, tmp_path), tmp_path, host.EMULATED)
    on = get_variant(X86_64, "on")
    assert not bench.machine(on).bochs
    assert replace(bench, bochs=True).kunit_machine(on).bochs
