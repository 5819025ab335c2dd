# SPDX-License-Identifier: GPL-2.0-only
"""Release candidates, and the mirror of a fresh system."""

from __future__ import annotations

from pathlib import Path

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import debian, source


def kernel(where: Path, version: str, extra: str = "") -> Path:
    """The least that looks like a kernel tree."""
    major, minor, sub = version.split(".")
    where.mkdir()
    (where / "Kbuild").touch()
    (where / "Makefile").write_text(
        f"VERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = {sub}\nEXTRAVERSION ={extra}\n"
    )
    return where


@pytest.mark.parametrize(
    ("version", "extra", "named"),
    [("7.30.1", "", "7.30.1"), ("7.3.0", " -rc2", "7.3.0-rc2")],
)
def test_another_version_is_refused_by_name(
    version: str, extra: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINUX_SRC", str(kernel(tmp_path / "linux", version, extra)))
    with pytest.raises(RedoubtError) as caught:
        source.obtain(Silent())
    assert f"is Linux {named};" in caught.value.message
    assert caught.value.hint is not None
    assert "LINUX_SRC" in caught.value.hint


# apt as it is on a system that has never read an index: it names sources only if asked to.
FRESH_APT = """#!/bin/sh
case "$*" in
*--no-release-info*) printf 'http://a.invalid/tools\\nhttp://b.invalid/debian/\\n' ;;
esac
"""


def test_the_mirror_is_found_before_there_is_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apt-get").write_text(FRESH_APT)
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert debian.mirror() == "http://b.invalid/debian/"
