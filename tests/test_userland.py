# SPDX-License-Identifier: GPL-2.0-only
"""What a guest gets of Debian and of a kernel to build."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import KERNEL, write_tree

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.cost import userland
from redoubt.cost.workloads import WORKLOADS
from redoubt.linux import rootless, source
from redoubt.targets import ARM64, UM, X86_64, X86_64_MKTME

PACKAGES = {
    "usr/bin/dash": "", "usr/bin/python3.13": "", "usr/bin/x86_64-linux-gnu-lto-dump-14": "",
    "usr/lib64/ld-linux-x86-64.so.2": "", "usr/lib/x86_64-linux-gnu/libc.so.6": "",
    "usr/lib/x86_64-linux-gnu/libtsan.so.2": "", "usr/lib/python3/x.py": "",
    "usr/lib/gcc/x86_64-linux-gnu/14/libgcc.a": "", "usr/lib/gcc/x86_64-linux-gnu/14/libasan.a": "",
    "usr/libexec/gcc/x86_64-linux-gnu/14/cc1": "", "usr/libexec/gcc/x86_64-linux-gnu/14/lto1": "",
    "usr/share/bison/skeletons/c.m4": "", "usr/share/doc/gcc/README": "", "etc/fio.conf": "",
    "usr/share/bash-completion/gcc": "", "usr/include/stdio.h": "", "var/lib/x": "",
}  # fmt: skip
SOURCE = {
    **KERNEL, "Kconfig": "", "include/linux/mm.h": "", "init/main.c": "", "scripts/a/b.sh": "",
    "drivers/net/Kconfig": "", "drivers/net/a.c": "", "kernel/sched/sched.h": "",
    "kernel/sched/core.c": "", "kernel/sched/rq-offsets.c": "", "mm/internal.h": "",
    "arch/x86/Makefile": "", "arch/x86/kernel/a.c": "", "arch/arm64/Makefile": "",
    "arch/arm64/boot/dts/a.dts": "", "arch/x86/entry/syscalls/syscall_32.tbl": "",
    "arch/um/Kconfig": "", "Documentation/Kconfig": "",
}  # fmt: skip


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A place with unpacked packages and a kernel tree, which nothing downloads."""
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    (tmp_path / "build").mkdir()
    write_tree(tmp_path / "packages", PACKAGES)
    (tmp_path / "packages/usr/bin/sh").symlink_to("dash")
    write_tree(tmp_path / "linux", SOURCE)
    (tmp_path / "linux/include/dt-bindings").symlink_to("linux")

    def system(architecture: str, packages: object, _: object) -> Path:
        assert architecture in ("amd64", "arm64")
        assert packages == userland.PACKAGES
        return tmp_path / "packages"

    monkeypatch.setattr(rootless, "system", system)
    monkeypatch.setattr(source, "obtain", lambda _: SimpleNamespace(path=tmp_path / "linux"))
    return tmp_path


def there(root: Path) -> set[str]:
    return {
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.is_symlink() or not file.is_dir()
    }


def test_a_guest_gets_what_it_runs_and_builds(given: Path) -> None:
    root = userland.root(X86_64, Silent())
    assert there(root) == {
        "usr/bin/dash", "usr/bin/sh", "usr/bin/awk", "bin/sh", "usr/include/stdio.h",
        "usr/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/libc.so.6",
        "usr/lib/gcc/x86_64-linux-gnu/14/libgcc.a", "usr/libexec/gcc/x86_64-linux-gnu/14/cc1",
        "usr/share/bison/skeletons/c.m4",
        "lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu",
        "linux/Makefile", "linux/Kbuild", "linux/Kconfig", "linux/include/linux/mm.h",
        "linux/include/dt-bindings", "linux/init/main.c", "linux/scripts/a/b.sh",
        "linux/scripts/kconfig/merge_config.sh", "linux/drivers/net/Kconfig",
        "linux/kernel/sched/sched.h", "linux/kernel/sched/rq-offsets.c", "linux/mm/internal.h",
        "linux/arch/x86/Makefile", "linux/arch/x86/entry/syscalls/syscall_32.tbl",
        "linux/arch/x86/kernel/a.c", "linux/arch/um/Kconfig",
        "linux/Documentation/Kconfig",
    }  # fmt: skip
    # In the guest they lead to what is there, below the directories that it has already.
    links = {name: os.readlink(root / name) for name in ("bin/sh", "lib/x86_64-linux-gnu",
                                                         "lib64/ld-linux-x86-64.so.2")}  # fmt: skip
    assert links == {
        "bin/sh": "/usr/bin/dash", "lib/x86_64-linux-gnu": "/usr/lib/x86_64-linux-gnu",
        "lib64/ld-linux-x86-64.so.2": "/usr/lib64/ld-linux-x86-64.so.2",
    }  # fmt: skip


def test_of_another_architecture_it_gets_that(given: Path) -> None:
    files = there(userland.root(ARM64, Silent()))
    # And the table that each architecture is compared with.
    assert {"linux/arch/arm64/Makefile", "linux/arch/x86/entry/syscalls/syscall_32.tbl"} <= files
    assert not {"linux/arch/x86/Makefile", "linux/arch/arm64/boot/dts/a.dts"} & files


def test_it_is_made_once_and_again_for_another_kernel(given: Path) -> None:
    root = userland.root(X86_64, Silent())
    (root / "mark").touch()
    # User mode of all three is the same.
    assert {userland.root(one, Silent()) for one in (UM, X86_64, X86_64_MKTME)} == {root}
    assert (root / "mark").exists()
    other = KERNEL["Makefile"].replace("SUBLEVEL = 4", "SUBLEVEL = 5")
    (given / "linux/Makefile").write_text(other)
    assert userland.root(X86_64, Silent()) == root
    assert not (root / "mark").exists()
    assert (root / "linux/Makefile").read_text() == other


def test_it_is_made_again_if_more_belongs_to_it(
    given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "linux/drivers/net/a.c" not in there(userland.root(X86_64, Silent()))
    monkeypatch.setattr(userland, "_SOURCE", (*userland._SOURCE, "drivers/*.c"))
    assert "linux/drivers/net/a.c" in there(userland.root(X86_64, Silent()))


def test_what_ends_half_way_is_made_again(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RedoubtError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(userland, "_copy", full)
        with pytest.raises(RedoubtError, match="no space"):
            userland.root(X86_64, Silent())
    assert {one.name for one in paths.build_dir().iterdir()} == {".locks"}
    assert (userland.root(X86_64, Silent()) / "bin/sh").is_symlink()


def test_each_workload_has_its_script(given: Path) -> None:
    files = userland.files(X86_64, Silent())
    names = {name for name, work in WORKLOADS.items() if work.debian}
    assert names == {"fio-randread", "kernbench"}
    assert files.pop("") == userland.root(X86_64, Silent())
    assert set(files) == {f"usr/lib/redoubt/{name}.sh" for name in names}
    for script in files.values():
        assert os.access(script, os.X_OK)
        subprocess.run(["sh", "-n", script], check=True)
    text = (paths.repo() / "guest/bench/bench-user.c").read_text()
    assert all(f'"{name}"' in text for name in names)
