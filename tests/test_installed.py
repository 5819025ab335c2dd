# SPDX-License-Identifier: GPL-2.0-only
"""Packages that are installed in a Debian: how, and what is said of what it does then."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import debian
from redoubt.linux.build import Build
from redoubt.machine import boot, host
from redoubt.machine.boot import Machine, Result
from redoubt.ship.deb import deb, installed, packaged
from redoubt.targets import ARM64, X86_64

RELEASE = "7.3.4-redoubt-small"
HARDENED = "[    0.5] kpkeys: page tables hardened (pkey 1, x86/pks)"
WALK = ("tables 120", "untagged 0", "aliases 0", "foreign 0")
SAID = (
    HARDENED,
    f"@installed: release={RELEASE}",
    "@installed: root=/dev/vda ext4",
    "@installed: module=2",
    *WALK,
    f"@installed: headers=/usr/src/linux-headers-{RELEASE}",
)


def result(*lines: str, status: int | None = 0, outcome: str = "finished", **more: Any) -> Result:
    return Result(outcome, status, lines, (), Path("log"), **more)


def without(word: str) -> tuple[str, ...]:
    return tuple(line for line in SAID if word not in line)


def test_an_installed_kernel_that_protects_page_tables() -> None:
    found = installed.judge(RELEASE, result(*SAID))
    assert found.problems == ()
    assert (found.tables, found.said) == (120, ("hardened (pkey 1, x86/pks)",))
    assert json.loads(json.dumps(found.as_json())) == {
        "ok": True, "suite": "trixie", "said": ["hardened (pkey 1, x86/pks)"], "tables": 120,
        "problems": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (result(*without("hardened")), "expected one line 'page tables hardened', found []"),
        (result(*SAID, HARDENED), "expected one line 'page tables hardened', found ['hardened"),
        (result(*without("release=")), f"expected 'release={RELEASE}', found []"),
        (result(*without("release="), "@installed: release=6.12.0"), "found ['release=6.12.0']"),
        (result(*without("root="), "@installed: root=/dev/vda ext2"), "found ['root=/dev/vda ext2"),
        (result(*without("module="), "@installed: module=0"), "found ['module=0']"),
        (result(*without("headers=")), "expected 'headers=/usr/src/linux-headers"),
        (result(*SAID, "@installed: unit=systemd-udevd.service"), "unit=systemd-udevd.service"),
        (result(*SAID, "@installed: failed: insmod x", status=1), "failed: insmod x"),
        (result(*without("foreign")), "the checker: []"),
        (result(*without("untagged"), "untagged 1", "foreign 0"), "the checker: ["),
        (result(*SAID, status=None, outcome="hang", detail="no end"), "the guest hung: no end"),
        (result(*SAID, status=None, outcome="panic", detail="no root"), "panicked: no root"),
        (result(*SAID, violations=("kpkeys: violation: x",)), "kernel: kpkeys: violation: x"),
    ],
)
def test_what_is_wrong_with_one(made: Result, says: str) -> None:
    found = installed.judge(RELEASE, made)
    assert not found.ok
    assert says in "\n".join(found.problems)


FAKES = {
    "uname": f"echo {RELEASE}", "findmnt": "echo /dev/vda ext4", "mountpoint": "true",
    "insmod": "true", "rmmod": "true", "sync": "true", "systemctl": "true", "sleep": "true",
    "readlink": f"echo /usr/src/linux-headers-{RELEASE}",
    "cat": "printf 'tables 120\\nuntagged 0\\naliases 0\\nforeign 0\\n'",
    "dmesg": 'case $* in "") printf "hello: loaded\\nhello: unloaded\\n" ;; esac',
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("uname", f"echo {RELEASE}", ""),
        ("systemctl", "case $1 in --failed) echo x.service loaded failed ;; esac", "unit=x.serv"),
        ("insmod", "false", "failed: insmod /root/hello.ko"),
        ("mountpoint", "false", "failed: mountpoint"),
        ("dmesg", 'case $* in --level*) echo "[    9.1] WARNING: x" ;; esac', "WARNING: x"),
        ("readlink", "echo /nowhere", "found ['headers=/nowhere']"),
    ],
)
def test_what_looks_tells_what_is_judged(tmp_path: Path, name: str, text: str, says: str) -> None:
    look = Path(__file__).parent.parent / "guest/installed/look.sh"
    for fake, code in (FAKES | {name: text}).items():
        file = tmp_path / fake
        file.write_text(f"#!/bin/sh\n{code}\n")
        file.chmod(0o755)
    ran = subprocess.run(
        [look],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    judged = boot._judge([HARDENED, *ran.stdout.splitlines()], False, 1.0, Path("log"))
    problems = installed.judge(RELEASE, judged).problems
    assert says in "\n".join(problems)
    assert bool(problems) == bool(says)


def test_packages_are_installed_by_apt_and_what_came_of_it_is_booted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    ran: list[list[str]] = []
    places: list[Any] = []

    def run(words: Sequence[Any], log: Path, env: Any = None, **_: Any) -> None:
        ran.append([str(word) for word in words])
        places.append((env or {}).get("TMPDIR"))

    def attend(machine: Machine, words: Sequence[str], **_: Any) -> Result:
        ran.append(list(words))
        return result(*SAID)

    monkeypatch.setattr(installed, "run_logged", run)
    monkeypatch.setattr(boot, "attend", attend)
    monkeypatch.setattr(debian, "mirror", lambda _: "http://a.invalid/debian/")
    built = Build(X86_64, tmp_path, tmp_path / "image", tmp_path / "vmlinux")
    machine = Machine(built, tmp_path, host.EMULATED, ("kpkeys_vuln=on",), cpus=2)
    found = packaged.Unpacked(RELEASE, tmp_path / "image", tmp_path / "headers")
    packages = [tmp_path / "linux-image.deb", tmp_path / "linux-headers.deb"]
    assert installed.check_packages(machine, found, packages, Silent()).ok

    module, made, started = ran
    # Only root's mmdebstrap can use a directory of ours.
    assert ("unshare" in made) == (places[1] is not None) == (os.geteuid() == 0)
    headers = f"{tmp_path}/headers/usr/src/linux-headers-{RELEASE}"
    assert module[:3] == ["make", "-C", headers]
    hooks = [word.partition("=")[2] for word in made if word.startswith("--customize-hook=")]
    order = [
        f"upload {packages[0]} /tmp/linux-image.deb",
        f"upload {packages[1]} /tmp/linux-headers.deb",
        'chroot "$1" apt-get install -y /tmp/linux-image.deb /tmp/linux-headers.deb',
        'chroot "$1" systemctl enable look.service',
    ]
    assert [hook for hook in hooks if hook in order] == order
    assert made[-3] == "trixie"
    assert made[-1].endswith(" http://a.invalid/debian/ trixie main")
    # The kernel and the image to boot with are those of that system, and so is the disk.
    downloads = dict(hook.split()[1:] for hook in hooks if hook.startswith("download "))
    assert started[started.index("-kernel") + 1] == downloads[f"/boot/vmlinuz-{RELEASE}"]
    assert started[started.index("-initrd") + 1] == downloads[f"/boot/initrd.img-{RELEASE}"]
    assert f"file={made[-2]},format=raw,if=virtio,snapshot=on" in started
    args = started[started.index("-append") + 1].split()
    assert {"root=/dev/vda", "rootfstype=ext4"} <= set(args)
    # As a user boots it: nothing that concerns protection.
    assert not any("kpkeys" in arg for arg in args)


def test_packages_of_another_architecture_are_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installed, "output", lambda *_, **__: "amd64\n")
    monkeypatch.setattr(debian, "mirror", lambda _: "http://a.invalid/debian/")
    installed.needs(X86_64)
    with pytest.raises(RedoubtError, match="arm64 cannot be installed on this machine"):
        deb.needs(ARM64, "small", install=True)


def test_what_was_installed_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    good = installed.judge(RELEASE, result(*SAID))
    report = deb.Report("x86_64", "small", RELEASE, deb.Version("1", 0, False), (), 1, 2.0, None)
    assert report.as_json()["installed"] is None
    for one in (good, replace(good, problems=("no",))):
        made = replace(report, installed=one)
        assert made.ok == one.ok
        assert made.as_json()["installed"]["ok"] == one.ok
