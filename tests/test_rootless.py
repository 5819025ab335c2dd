# SPDX-License-Identifier: GPL-2.0-only
"""Programs of another Debian than this one, and of another architecture."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

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
    root = where / f"{name}.tree"
    for file, text in {
        **files,
        "DEBIAN/control": f"Package: {name}\nVersion: 1\nArchitecture: all\n"
        "Maintainer: x <x@localhost>\nDescription: x\n",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    subprocess.run(["dpkg-deb", "-b", root, where / f"{name}.deb"], check=True, capture_output=True)


PROGRAM = ("amd64", ("bochs",))


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An archive with a program and a library."""
    source = tmp_path / "archive"
    source.mkdir()
    package(source, "bochs", {"usr/bin/bochs-bin": ""})
    package(source, "libc", {f"{LIBRARIES}/ld-linux-x86-64.so.2": ""})

    def download(self: debian.Archive, names: Sequence[str], into: Path) -> list[Path]:
        return sorted(source.glob("*.deb"))

    monkeypatch.setattr(debian.Archive, "update", lambda self: None)
    monkeypatch.setattr(debian.Archive, "download_whole", download)


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


def test_what_ends_half_way_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, downloads: None, cache: Path
) -> None:
    def fail(*_: object) -> None:
        raise RedoubtError("unpacking failed")

    monkeypatch.setattr(debian, "extract", fail)
    with pytest.raises(RedoubtError, match="unpacking failed"):
        rootless.system(*PROGRAM, Silent())
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert not list((cache / "redoubt/rootless").glob(".partial-*"))


def test_a_program_is_started_by_its_own_loader(downloads: None) -> None:
    root = rootless.system(*PROGRAM, Silent())
    assert rootless.Unpacked(root).command("bochs-bin") == [
        str(root / LIBRARIES / "ld-linux-x86-64.so.2"),
        "--library-path",
        str(root / LIBRARIES),
        str(root / "usr/bin/bochs-bin"),
    ]


def test_a_file_that_is_gone_is_told(downloads: None) -> None:
    found = rootless.Unpacked(rootless.system(*PROGRAM, Silent()))
    (found.root / "usr/bin/bochs-bin").unlink()
    with pytest.raises(RedoubtError, match="is missing") as caught:
        found.command("bochs-bin")
    assert caught.value.hint == f"rm -r {found.root}"


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


def test_other_packages_have_another_place(foreign_archive: list[str]) -> None:
    assert rootless.foreign(*BASH, Silent()) != rootless.foreign("arm64", BASH[1][:1], Silent())
    assert len(foreign_archive) == 3


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
