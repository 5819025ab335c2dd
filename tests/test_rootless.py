# SPDX-License-Identifier: GPL-2.0-only
"""Packages that are unpacked for a guest, and for no system."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import write_tree

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import debian, rootless

LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def package(where: Path, name: str, files: dict[str, str]) -> None:
    """A package file with some files in it."""
    control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    root = write_tree(where / f"{name}.tree", {**files, "DEBIAN/control": control})
    subprocess.run(["dpkg-deb", "-b", root, where / f"{name}.deb"], check=True, capture_output=True)


BASH = ("arm64", ("bash-static", "libcap-dev"))


@pytest.fixture
def foreign_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An archive of another architecture; says what was downloaded."""
    asked: list[str] = []
    source = tmp_path / "foreign"
    source.mkdir()
    package(source, "bash-static", {"bin/bash-static": ""})
    package(source, "libcap-dev", {"usr/include/sys/capability.h": ""})

    def download(self: debian.Archive, name: str, version: str) -> Path:
        assert (self.suites, self.architecture) == ((debian.OLDEST,), "arm64")
        assert version == "1"
        asked.append(name)
        return source / f"{name}.deb"

    def newest(_: debian.Archive, name: str) -> tuple[str, str] | None:
        return (name, "1") if (source / f"{name}.deb").exists() else None

    monkeypatch.setattr(debian.Archive, "update", lambda self: None)
    monkeypatch.setattr(debian.Archive, "newest", newest)
    monkeypatch.setattr(debian.Archive, "download", download)
    return asked


def test_files_of_another_architecture_are_downloaded_once(
    foreign_archive: list[str], cache: Path
) -> None:
    root = rootless.foreign(*BASH, Silent())
    assert rootless.foreign(*BASH, Silent()) == root
    assert foreign_archive == [*BASH[1]]
    assert root.is_relative_to(cache)
    assert (root / "bin/bash-static").exists()
    assert (root / "usr/include/sys/capability.h").exists()
    assert not list(root.parent.glob(".partial-*"))
    # Other packages have another place.
    assert rootless.foreign("arm64", BASH[1][:1], Silent()) != root
    assert len(foreign_archive) == 3


def test_what_a_guest_runs_comes_with_all_it_depends_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []
    package(tmp_path, "libc", {f"{LIBRARIES}/libc.so.6": ""})

    def download(self: debian.Archive, names: Sequence[str], into: Path) -> list[Path]:
        assert self.suites == (debian.RELEASE,)
        asked.append((self.architecture, tuple(names)))
        return [tmp_path / "libc.deb"]

    monkeypatch.setattr(debian.Archive, "update", lambda self: None)
    monkeypatch.setattr(debian.Archive, "download_whole", download)
    wanted = ("stress-ng", "busybox-static")
    roots = [rootless.system(name, wanted, Silent()) for name in ("amd64", "amd64", "arm64")]
    assert asked == [("amd64", wanted), ("arm64", wanted)]
    assert roots[0] == roots[1] != roots[2]
    assert all(root.is_relative_to(cache) for root in roots)
    assert (roots[2] / LIBRARIES / "libc.so.6").exists()


def test_what_ends_half_way_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, foreign_archive: list[str]
) -> None:
    def fail(*_: object) -> None:
        raise RedoubtError("unpacking failed")

    monkeypatch.setattr(debian, "extract", fail)
    with pytest.raises(RedoubtError, match="unpacking failed"):
        rootless.foreign(*BASH, Silent())
    assert not rootless.place_of(*BASH).exists()
    assert not list(rootless.place_of(*BASH).parent.glob(".partial-*"))


def test_a_package_that_the_other_architecture_lacks(foreign_archive: list[str]) -> None:
    with pytest.raises(RedoubtError, match="no hello of arm64"):
        rootless.foreign("arm64", ("bash-static", "hello"), Silent())
    assert not list((debian.paths.cache_dir() / "rootless").iterdir())


def test_whoever_is_second_takes_what_the_first_has_unpacked(
    monkeypatch: pytest.MonkeyPatch, foreign_archive: list[str], cache: Path
) -> None:
    def other(_: debian.Archive) -> None:
        monkeypatch.setattr(debian.Archive, "update", lambda self: None)
        rootless.foreign(*BASH, Silent())

    monkeypatch.setattr(debian.Archive, "update", other)
    assert (rootless.foreign(*BASH, Silent()) / "bin/bash-static").exists()
    assert len(foreign_archive) == 2


def test_the_index_of_another_architecture_is_another(cache: Path) -> None:
    ours, other = (debian.Archive(Silent(), ("one",), architecture=name) for name in ("", "arm64"))
    assert ours.state != other.state
    assert not [word for word in ours._options() if "Architecture" in word]
    assert {"APT::Architecture=arm64", "APT::Architectures=arm64"} <= {*other._options()}
