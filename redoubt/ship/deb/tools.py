# SPDX-License-Identifier: GPL-2.0-only
"""The package of what an installed kernel is looked at with: tools/status, and static programs.

dpkg-deb alone makes it: there is nothing to build but the manual pages.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redoubt import __version__
from redoubt.core import paths
from redoubt.core.process import run_logged
from redoubt.cost.workloads import WORKLOADS, Spec
from redoubt.machine import provenance
from redoubt.ship.stick.image import FORMAT
from redoubt.targets import Target

NAME = "redoubt-tools"
PROGRAM = "redoubt-status"
_COLLECT = "redoubt-collect"
_LIBRARY = "usr/lib/redoubt"
# What collects runs these, of the guests' programs; and these workloads, which leave files,
# settings and processes of others alone.
_PROGRAMS = ("hardware", "prices", "bench")
_WORKLOADS = ("null-syscall", "key-read", "pipe", "thread-switch", "secret-memory")
_UNIT = "redoubt-violations.service"
_SCRIPTS = ("postinst", "prerm", "postrm")
_ABOUT = {
    PROGRAM: "say which protections of the kernel are active, and what they refused",
    _COLLECT: "collect what this machine and its kernel tell",
}
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: the authors of Redoubt
License: GPL-2.0-only
 The license is in /usr/share/common-licenses/GPL-2 on Debian systems.
"""


def _control(version: str, architecture: str, author: str) -> str:
    return f"""\
Package: {NAME}
Version: {version}
Architecture: {architecture}
Maintainer: {author}
Depends: python3 (>= 3.11)
Section: admin
Priority: optional
Description: state of a kernel with protected page tables
 The program {PROGRAM} says which protections of Redoubt the running
 kernel has, which of them are active, and what was refused. A service writes
 each refusal to the journal. {_COLLECT} reports on the hardware and times a
 few operations.
"""


def _put(file: Path, content: bytes, mode: int = 0o644) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(mode)
    return file


def about(target: Target, seconds: int) -> dict[str, Any]:
    """What the program that collects knows of itself, as image.about() has it of an image."""
    origin = provenance.collect(["deb", target.name])
    known = (WORKLOADS[name] for name in _WORKLOADS)
    specs = (
        Spec(one.name, size, one.ops, one.samples, 1)
        for one in known if one.on(target.name) for size in one.emulated
    )  # fmt: skip
    return {
        "format": FORMAT,
        "target": target.name,
        **{name: origin[name] for name in ("commit", "dirty", "command")},
        # The package is the same whenever it is made.
        "date": datetime.fromtimestamp(seconds, UTC).isoformat(),
        "specs": list(map(str, specs)),
    }


def _library(target: Target, programs: Path, seconds: int) -> Iterator[tuple[str, bytes, int]]:
    """Files beside the program that collects: name, content and mode."""
    collects = paths.repo() / "tools" / "status" / "redoubt_collect.py"
    yield collects.name, collects.read_bytes(), 0o755
    yield "collect.json", json.dumps(about(target, seconds), indent=1).encode() + b"\n", 0o644
    for name in _PROGRAMS:
        yield name, (programs / name).read_bytes(), 0o755


def make(
    target: Target, programs: Path, version: str, seconds: int, author: str, changelog: str,
    into: Path,
) -> Path:  # fmt: skip
    """Make the package in a directory, with files of this age (seconds since 1970).

    `programs` are those of guests of the target. Raises RedoubtError if that fails.
    """
    logs = paths.build_dir() / "log"
    source = paths.repo() / "tools" / "status"
    package = into / f"{NAME}_{version}_{target.debian}.deb"
    with tempfile.TemporaryDirectory(dir=into, prefix=f"{NAME}-") as name:
        root = Path(name) / "root"
        _put(root / "usr/bin" / PROGRAM, (source / "redoubt_status.py").read_bytes(), 0o755)
        for file, content, mode in _library(target, programs, seconds):
            _put(root / _LIBRARY / file, content, mode)
        (root / _LIBRARY / "redoubt_status.py").symlink_to(f"../../bin/{PROGRAM}")
        (root / "usr/bin" / _COLLECT).symlink_to("../lib/redoubt/redoubt_collect.py")
        _put(root / "usr/lib/systemd/system" / _UNIT, (source / _UNIT).read_bytes())
        share = root / "usr/share"
        documents = share / "doc" / NAME
        for page, content in _pages(root / "usr/bin", Path(name) / "page").items():
            _put(share / f"man/man1/{page}.1.gz", gzip.compress(content, mtime=0))
        _put(documents / "changelog.Debian.gz", gzip.compress(changelog.encode(), mtime=0))
        _put(documents / "copyright", _COPYRIGHT.encode())
        _put(root / "DEBIAN/control", _control(version, target.debian, author).encode())
        for script in _SCRIPTS:
            _put(root / "DEBIAN" / script, (source / script).read_bytes(), 0o755)
        # Whatever the umask here.
        for directory in (root, *(one for one in root.rglob("*") if one.is_dir())):
            directory.chmod(0o755)
        unfinished = Path(name) / package.name
        run_logged(
            ["dpkg-deb", "--root-owner-group", "--build", root, unfinished],
            logs / "deb-tools.log", what=f"packing {NAME}",
            env={"SOURCE_DATE_EPOCH": str(seconds)},
        )  # fmt: skip
        unfinished.rename(package)
    return package


def _pages(programs: Path, scratch: Path) -> Mapping[str, bytes]:
    """The manual page of each program in a directory."""
    made = {}
    for program, words in _ABOUT.items():
        run_logged(
            ["help2man", "--no-info", f"--version-string={__version__}", f"--name={words}",
             f"--output={scratch}", programs / program],
            paths.build_dir() / "log" / "deb-tools-man.log",
            what=f"making the manual page of {program}",
        )  # fmt: skip
        made[program] = scratch.read_bytes()
    return made
