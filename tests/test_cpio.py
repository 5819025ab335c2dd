# SPDX-License-Identifier: GPL-2.0-only
"""The initramfs as cpio reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from redoubt.machine import cpio

pytestmark = pytest.mark.skipif(not shutil.which("cpio"), reason="needs cpio")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "bin").mkdir(parents=True)
    (made / "bin/program").write_bytes(b"odd")
    (made / "bin/program").chmod(0o755)
    (made / "bin/sh").symlink_to("program")
    (made / "empty").touch()
    return made


def unpacked(archive: Path) -> Path:
    out = archive.with_name("out")
    out.mkdir()
    subprocess.run(["cpio", "-id", "--quiet"], stdin=archive.open("rb"), cwd=out, check=True)
    return out


@pytest.mark.parametrize("under", ["", "root-fs"])
def test_a_directory_and_single_files(tmp_path: Path, root: Path, under: str) -> None:
    entries = [
        *([cpio.directory(under)] if under else []), *cpio.tree(root, under),
        cpio.regular("init", b"x", executable=True), cpio.regular("cmdline", b"a\nb\n"),
    ]  # fmt: skip
    cpio.write(entries, tmp_path / "archive")
    out = unpacked(tmp_path / "archive")
    there = out / under
    assert (there / "bin/program").stat().st_mode & 0o777 == 0o755
    assert (there / "bin/program").read_bytes() == b"odd"
    assert (there / "bin/sh").readlink() == Path("program")
    assert (there / "empty").read_bytes() == b""
    assert {path.name for path in there.iterdir()} - {"init", "cmdline"} == {"bin", "empty"}
    assert (out / "init").stat().st_mode & 0o777 == 0o755
    assert (out / "cmdline").stat().st_mode & 0o777 == 0o644
    assert (out / "cmdline").read_text() == "a\nb\n"
