# SPDX-License-Identifier: GPL-2.0-only
"""The pristine kernel: what is taken for one, and how the archive is asked for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import KERNEL, Sandbox, write_tree

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import debian, pinned, source, version

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
	echo "$*" >> "$CONTROL/downloads"
	[ -e "$CONTROL/none" ] || cp "$CONTROL/package" linux-source-7.3_7.3.4-1_all.deb
	;;
esac
"""
PINNED = "7.3.4-1~bpo13+1"
APT_CACHE = """\
case "$*" in
*pkgnames*) [ -e "$CONTROL/no-package" ] || printf 'linux-source-7.3\\nlinux-source\\n' ;;
*madison*)
	[ -e "$CONTROL/no-package" ] || while read -r version; do
		echo "linux-source-7.3 | $version | file:/nowhere/debian trixie-backports/main Packages"
	done < "$CONTROL/versions"
	;;
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
    offer(sandbox, PINNED)
    pin(sandbox)
    return sandbox


def offer(sandbox: Sandbox, *versions: str) -> None:
    """The versions that the archive has, the newest first. Each is the same file."""
    (sandbox.control / "versions").write_text("".join(f"{one}\n" for one in versions))


def pin(sandbox: Sandbox, sha256: str = "") -> None:
    """Pin the file that the archive offers now, or one that has this hash."""
    sha256 = sha256 or debian.digest(sandbox.control / "package")
    sandbox.prelude = (
        "from redoubt.linux import pinned\n"
        f"found = pinned.Pinned('linux-source-7.3', '{PINNED}', '{sha256}')\n"
        "pinned.load = lambda repo: found"
    )


def kept(sandbox: Sandbox) -> list[str]:
    """The packages in the cache, and what is left of others."""
    return sorted(file.name for file in (sandbox.where / "cache/redoubt/packages").iterdir())


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
    pin(sandbox)
    done = sandbox.run("source")
    assert done.code == 1
    assert "unpacking linux-source-7.3" in done.err
    assert not (sandbox.build / "src").exists()
    # It is fetched again, not tripped over again.
    (sandbox.control / "package").write_bytes(good)
    pin(sandbox)
    assert sandbox.run("source").code == 0


def test_a_package_without_source(sandbox: Sandbox) -> None:
    archive(sandbox)
    root = sandbox.where / "package"
    shutil.rmtree(root / "usr")
    subprocess.run(["dpkg-deb", "-b", root, sandbox.control / "package"],
                   check=True, capture_output=True)  # fmt: skip
    pin(sandbox)
    done = sandbox.run("source")
    assert done.code == 1
    assert "has no kernel source in it" in done.err


# === The pinned package ==========================================================================


def test_our_own_pin_is_of_the_series() -> None:
    pin = pinned.load(paths.repo())
    assert pin.package == source.PACKAGE
    assert pin.release.startswith(f"{source.SERIES}.")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[kernel]\npackage = 'p'\nversion = '1'\n", "damaged: .*sha256"),
        ("[kernel]\npackage = 'p'\nversion = '1'\nsha256 = 'abc'\n", "'abc' is no SHA-256"),
        ("[other]\n", "damaged: 'kernel'"),
        ("what", "is damaged"),
        (None, "cannot read"),
    ],
)
def test_a_pin_that_cannot_be_read(tmp_path: Path, text: str | None, says: str) -> None:
    write_tree(tmp_path, {"configs/source.toml": text} if text else {})
    with pytest.raises(RedoubtError, match=says):
        pinned.load(tmp_path)


def test_another_file_than_the_pinned_one(sandbox: Sandbox) -> None:
    archive(sandbox)
    pin(sandbox, "0" * 64)
    done = sandbox.run("source")
    assert (done.code, done.out) == (1, "")
    told = [line for line in done.err.splitlines() if not line.endswith(" ...")]
    assert len(told) == 2
    assert f"linux-source-7.3 {PINNED} from the archive is another file than expected" in told[0]
    assert debian.digest(sandbox.control / "package") in told[0]
    assert "LINUX_SRC=" in told[1]
    assert kept(sandbox) == []
    assert not (sandbox.build / "src").exists()


def test_a_file_in_the_cache_that_is_not_the_pinned_one_is_fetched_again(sandbox: Sandbox) -> None:
    archive(sandbox)
    assert sandbox.run("source").code == 0
    (name,) = kept(sandbox)
    file = sandbox.where / "cache/redoubt/packages" / name
    file.write_bytes(b"damaged")
    shutil.rmtree(sandbox.build)
    done = sandbox.run("source")
    assert done.code == 0, done.err
    assert debian.digest(file) == debian.digest(sandbox.control / "package")


def test_a_pinned_file_in_the_cache_needs_no_network(sandbox: Sandbox) -> None:
    archive(sandbox)
    assert sandbox.run("source").code == 0
    shutil.rmtree(sandbox.build)
    (sandbox.control / "offline").touch()
    assert sandbox.run("source").code == 0


def test_a_newer_version_is_not_taken(sandbox: Sandbox) -> None:
    archive(sandbox)
    offer(sandbox, "7.3.6-1~bpo13+1", PINNED)
    done = sandbox.run("source")
    assert done.code == 0, done.err
    assert f"linux-source-7.3={PINNED}" in (sandbox.control / "downloads").read_text()
    assert "7.3.6" not in done.err


def test_the_newest_is_taken_when_the_pinned_one_is_gone(sandbox: Sandbox) -> None:
    files = {**KERNEL, "Makefile": KERNEL["Makefile"].replace("SUBLEVEL = 4", "SUBLEVEL = 6")}
    archive(sandbox, files)
    offer(sandbox, "7.3.6-1~bpo13+1", "7.3.5-1~bpo13+1")
    done = sandbox.run("source")
    assert done.code == 0, done.err
    (told,) = [line for line in done.err.splitlines() if not line.endswith(" ...")]
    assert f"has linux-source-7.3 {PINNED} no more" in told
    assert told.endswith("taking 7.3.6-1~bpo13+1")
    said = f"Linux 7.3.6 in {sandbox.build / 'src'}\nthe patches were tested with Linux 7.3.4\n"
    assert done.out == said
    again = sandbox.run("source")
    assert (again.code, again.out, again.err) == (0, said, "")


def test_a_new_pin_replaces_the_tree_of_the_old_one(sandbox: Sandbox) -> None:
    archive(sandbox, {**KERNEL, "old": "old\n"})
    assert sandbox.run("source").code == 0
    shutil.rmtree(sandbox.where / "package")
    archive(sandbox, {**KERNEL, "new": "new\n"})
    done = sandbox.run("source")
    assert done.code == 0, done.err
    assert (sandbox.build / "src/new").exists()
    assert not (sandbox.build / "src/old").exists()
    assert [file.name for file in sandbox.build.glob(".src-*")] == []


def test_a_tree_is_told_from_that_of_another_package(kernel: Path) -> None:
    assert version.identity(kernel) == "7.3.4"
    version.stamp_of(kernel).write_text("0123\nlinux-source-7.3_7.3.4-2.deb\n")
    assert version.identity(kernel) == "7.3.4 of linux-source-7.3_7.3.4-2.deb"


def test_an_older_tree_without_a_stamp(sandbox: Sandbox) -> None:
    archive(sandbox)
    older = {**KERNEL, "Makefile": KERNEL["Makefile"].replace("SUBLEVEL = 4", "SUBLEVEL = 3")}
    write_tree(sandbox.build / "src", {**KERNEL, "mine": "mine\n"})
    assert sandbox.run("source").code == 0
    assert (sandbox.build / "src/mine").exists()
    write_tree(sandbox.build / "src", older)
    assert sandbox.run("source").out.startswith("Linux 7.3.4 in ")
    assert not (sandbox.build / "src/mine").exists()


def test_a_point_release_that_is_asked_for(sandbox: Sandbox) -> None:
    files = {**KERNEL, "Makefile": KERNEL["Makefile"].replace("SUBLEVEL = 4", "SUBLEVEL = 5")}
    archive(sandbox, files)
    offer(sandbox, "7.3.5-2~bpo13+1", "7.3.5-1~bpo13+1", PINNED)
    sandbox.env["LINUX_VERSION"] = "7.3.5"
    done = sandbox.run("source")
    where = sandbox.build / "linux-source-7.3_7.3.5-2~bpo13+1"
    assert (done.code, done.out.splitlines()[0]) == (0, f"Linux 7.3.5 in {where}"), done.err
    assert sandbox.run("source").err == ""


@pytest.mark.parametrize(
    ("env", "code", "says"),
    [
        ({"LINUX_VERSION": "7.3.9"}, 1, "no Linux 7.3.9; it has 7.3.4-1~bpo13+1\n    git clone"),
        ({"LINUX_VERSION": "7.4.1"}, 2, "'7.4.1' is no point release of Linux 7.3"),
        ({"LINUX_VERSION": "7.3.4-1"}, 2, "as in: 7.3.4"),
        ({"LINUX_VERSION": "7.3.4", "LINUX_SRC": "/linux"}, 2, "ask for two kernels"),
    ],
)
def test_a_point_release_that_cannot_be_had(
    sandbox: Sandbox, env: dict[str, str], code: int, says: str
) -> None:
    archive(sandbox)
    sandbox.env.update(env)
    done = sandbox.run("source")
    assert (done.code, done.out) == (code, "")
    assert says in done.err


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
