# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's tests of BPF: what they need, and how one of them says what it found."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.targets import X86_64, get_variant
from redoubt.trial import bpf, selftests


def test_a_program_that_is_missing_is_told_before_kernels_are_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "rsync" else name)
    with pytest.raises(RedoubtError, match="need rsync") as caught:
        bpf.check(X86_64, get_variant(X86_64, "on"), "emulated", Silent())
    assert caught.value.hint == "scripts/prerequisites bpf"


REPO = Path(__file__).resolve().parent.parent


def run(where: Path, test: str, said: str, status: int) -> subprocess.CompletedProcess[str]:
    """One test, with a test_progs that says this."""
    programs = {"test_progs": f"echo '{said}'; exit {status}", "mount": "true", "ip": "true"}
    for name, script in programs.items():
        (where / name).write_text(f"#!/bin/sh\n{script}\n")
        (where / name).chmod(0o755)
    (where / test).symlink_to(REPO / "guest/selftests/bpf.sh")
    env = os.environ | {"PATH": f"{where}:{os.environ['PATH']}"}
    return subprocess.run(
        [f"./{test}"], cwd=where, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("said", "status", "parts", "end"),
    [
        ("#7/1     maps/array:OK\n#7/2     maps/hash:FAIL\n#7       maps:FAIL", 1,
         [("ok", "array"), ("not ok", "hash")], 1),
        ("#7/1     maps/array:OK\n#7/2     maps/hash:SKIP (why)\n#7       maps:OK (SKIP: 1/2)", 0,
         [("ok", "array"), ("skip", "hash")], 0),
        ("#7       maps:SKIP", 0, [], 4),
    ],
    ids=["failed", "some are skipped", "skipped"],
)  # fmt: skip
def test_parts_are_said_as_other_selftests_say_them(
    tmp_path: Path, said: str, status: int, parts: list[tuple[str, str]], end: int
) -> None:
    done = run(tmp_path, "maps", said, status)
    assert done.returncode == end, done.stderr
    lines = [f"# {line}" for line in done.stdout.splitlines()]
    found = [selftests._SUBTEST.match(line) for line in lines]
    assert [
        ("skip" if one[3] else one[1], one[2].strip()) for one in found if one is not None
    ] == parts
