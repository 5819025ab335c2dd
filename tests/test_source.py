# SPDX-License-Identifier: GPL-2.0-only
"""The pristine kernel: what is taken for one, and how the archive is asked for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import KERNEL, Sandbox, write_tree

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import debian, source

APT_GET = """\
case "$*" in
*indextargets*) [ -e "$CONTROL/no-mirror" ] || echo "file:/nowhere/debian" ;;
*update*)
	if [ -e "$CONTROL/offline" ]; then
		echo "Err:1 file:/nowhere/debian trixie-backports InRelease"
		echo "E: Failed to fetch the index" >&2
		exit 100
	fi
	;;
*download*)
	if [ -e "$CONTROL/slow" ]; then
		echo part > linux-source-7.3_partial.deb
		touch "$CONTROL/started"
		sleep 300 &
		sleep 300
	fi
	[ -e "$CONTROL/none" ] || cp "$CONTROL/package" linux-source-7.3_7.3.4-1_all.deb
	;;
esac
"""
APT_CACHE = """\
case "$*" in
*pkgnames*) [ -e "$CONTROL/no-package" ] || printf 'linux-source-7.3\\nlinux-source\\n' ;;
*policy*) printf 'linux-source-7.3:\\n  Installed: (none)\\n  Candidate: 7.3.4-1~bpo13+1\\n' ;;
esac
"""


def archive(sandbox: Sandbox, files: dict[str, str] | None = None) -> Sandbox:
    """A sandbox with an archive that offers a package with a kernel."""
    if not shutil.which("dpkg-deb") or not debian.KEYRING.exists():
        pytest.skip("this is no Debian system")
    root = sandbox.where / "package"
    write_tree(root, {"DEBIAN/control": "Package: linux-source-7.3\nVersion: 7.3.4-1\n"
                      "Architecture: all\nMaintainer: nobody\nDescription: a test\n"})  # fmt: skip
    write_tree(root / "linux-source-7.3", KERNEL if files is None else files)
    tarball = root / "usr/src/linux-source-7.3.tar.xz"
    tarball.parent.mkdir(parents=True)
    subprocess.run(
        ["tar", "-I", "xz -0", "-cf", tarball, "-C", root, "linux-source-7.3"], check=True
    )
    shutil.rmtree(root / "linux-source-7.3")
    subprocess.run(
        ["dpkg-deb", "-Znone", "-b", root, sandbox.control / "package"],
        check=True, capture_output=True,
    )  # fmt: skip
    sandbox.program("apt-get", APT_GET)
    sandbox.program("apt-cache", APT_CACHE)
    return sandbox


# === A tree the user gives =======================================================================


def test_a_tree_is_taken_as_it_is(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINUX_SRC", str(kernel))
    assert source.obtain(Silent()) == source.Source(kernel, "7.3.4")


def test_a_link_to_a_tree_is_not_taken_for_one(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LINUX_SRC", raising=False)
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    (tmp_path / "build").mkdir()
    (tmp_path / "build/src").symlink_to(kernel)
    assert source.obtain(Silent()).path == kernel


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"Makefile": "VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 9\n"}, "is Linux 7.2.9; the patch"),
        ({"Makefile": "VERSION = 7\nPATCHLEVEL = 30\nSUBLEVEL = 1\n"}, "is Linux 7.30.1; the"),
        (
            {"Makefile": KERNEL["Makefile"].replace("EXTRAVERSION =", "EXTRAVERSION = -rc2")},
            "is Linux 7.3.4-rc2; the",
        ),
        ({"Makefile": "all:\n\techo\n"}, "is not a kernel tree"),
    ],
)
def test_a_tree_of_another_kind(sandbox: Sandbox, change: dict[str, str], says: str) -> None:
    sandbox.env["LINUX_SRC"] = str(write_tree(sandbox.where / "linux", {**KERNEL, **change}))
    done = sandbox.run("source")
    assert done.code == 1
    assert says in done.err
    assert "LINUX_SRC=/path/to/linux-7.3" in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_no_tree_at_all(sandbox: Sandbox) -> None:
    (sandbox.where / "file").touch()
    (sandbox.where / "directory").mkdir()
    for where in (sandbox.where / name for name in ("nowhere", "file", "directory")):
        sandbox.env["LINUX_SRC"] = str(where)
        done = sandbox.run("source")
        assert (done.code, done.out) == (1, "")
        assert f"{where} is not a kernel tree" in done.err
        assert "Traceback" not in done.err


# === The archive =================================================================================


def test_from_the_archive_once(sandbox: Sandbox) -> None:
    archive(sandbox)
    done = sandbox.run("source")
    assert (done.code, done.out) == (0, f"Linux 7.3.4 in {sandbox.build / 'src'}\n"), done.err
    assert (sandbox.build / "src/mm/memory.c").read_text() == KERNEL["mm/memory.c"]
    # Plain lines, as nobody watches.
    assert "Downloading linux-source-7.3 7.3.4-1~bpo13+1 ...\n" in done.err
    assert "\x1b" not in done.err
    again = sandbox.run("source")
    assert (again.code, again.err) == (0, "")


def test_the_download_outlives_the_build_directory(sandbox: Sandbox) -> None:
    archive(sandbox)
    assert sandbox.run("source").code == 0
    shutil.rmtree(sandbox.build)
    (sandbox.control / "package").unlink()
    done = sandbox.run("source")
    assert done.code == 0, done.err
    assert "Downloading" not in done.err


def test_no_network(sandbox: Sandbox) -> None:
    archive(sandbox)
    (sandbox.control / "offline").touch()
    done = sandbox.run("source")
    assert done.code == 1
    assert "reading the package index failed" in done.err
    assert "Failed to fetch" in done.err
    assert "is the network there" in done.err
    assert "LINUX_SRC=" in done.err
    (sandbox.control / "offline").unlink()
    assert sandbox.run("source").code == 0


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no-mirror", "apt has no Debian mirror"),
        ("no-package", "the archive has no linux-source-7.3 in trixie-backports"),
        ("none", "apt-get did not download linux-source-7.3"),
    ],
)
def test_an_archive_that_lacks_it(sandbox: Sandbox, what: str, says: str) -> None:
    archive(sandbox)
    (sandbox.control / what).touch()
    done = sandbox.run("source")
    assert (done.code, done.out) == (1, "")
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_package_that_is_damaged(sandbox: Sandbox) -> None:
    archive(sandbox)
    good = (sandbox.control / "package").read_bytes()
    (sandbox.control / "package").write_bytes(good[: len(good) // 2])
    done = sandbox.run("source")
    assert done.code == 1
    assert "unpacking linux-source-7.3" in done.err
    assert not (sandbox.build / "src").exists()
    # It is fetched again, not tripped over again.
    (sandbox.control / "package").write_bytes(good)
    assert sandbox.run("source").code == 0


def test_a_package_without_source(sandbox: Sandbox) -> None:
    archive(sandbox)
    root = sandbox.where / "package"
    shutil.rmtree(root / "usr")
    subprocess.run(["dpkg-deb", "-b", root, sandbox.control / "package"],
                   check=True, capture_output=True)  # fmt: skip
    done = sandbox.run("source")
    assert done.code == 1
    assert "has no kernel source in it" in done.err


# apt as it is on a system that has never read an index: it names sources only if asked to.
FRESH_APT = """#!/bin/sh
case "$*" in
*--no-release-info*) printf 'http://a.invalid/tools\\nhttp://b.invalid/debian/\\n' ;;
esac
"""


def test_the_mirror_is_found_before_there_is_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"apt-get": FRESH_APT})
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert debian.mirror() == "http://b.invalid/debian/"


def test_no_debian(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RedoubtError, match="no apt-get") as caught:
        debian.mirror()
    assert caught.value.hint and "LINUX_SRC=" in caught.value.hint


def test_no_keyring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(debian, "KEYRING", tmp_path / "keyring")
    with pytest.raises(RedoubtError, match="keyring is missing"):
        debian.Archive(Silent()).update()


def test_the_newest_version_is_taken() -> None:
    versions = ["7.3.4-1~bpo13+1", "7.3.10-1~bpo13+1", "7.3.9-2"]
    assert max(versions, key=debian._version_key) == "7.3.10-1~bpo13+1"
