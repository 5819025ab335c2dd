# SPDX-License-Identifier: GPL-2.0-only
"""The package of what an installed kernel is looked at with: tools/status, for any architecture.

dpkg-deb alone makes it: there is nothing to build but the manual page.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from redoubt import __version__
from redoubt.core import paths
from redoubt.core.process import run_logged

NAME = "redoubt-tools"
PROGRAM = "redoubt-status"
_UNIT = "redoubt-violations.service"
_SCRIPTS = ("postinst", "prerm", "postrm")
_ABOUT = "say which protections of the kernel are active, and what they refused"
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: the authors of Redoubt
License: GPL-2.0-only
 The license is in /usr/share/common-licenses/GPL-2 on Debian systems.
"""


def _control(version: str, author: str) -> str:
    return f"""\
Package: {NAME}
Version: {version}
Architecture: all
Maintainer: {author}
Depends: python3 (>= 3.11)
Section: admin
Priority: optional
Description: state of a kernel with protected page tables
 The program {PROGRAM} says which protections of Redoubt the running
 kernel has, which of them are active, and what was refused. A service writes
 each refusal to the journal.
"""


def _put(file: Path, content: bytes, mode: int = 0o644) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(mode)
    return file


def make(version: str, seconds: int, author: str, changelog: str, into: Path) -> Path:
    """Make the package in a directory, with files of this age (seconds since 1970).

    Raises RedoubtError if that fails.
    """
    logs = paths.build_dir() / "log"
    source = paths.repo() / "tools" / "status"
    package = into / f"{NAME}_{version}_all.deb"
    with tempfile.TemporaryDirectory(dir=into, prefix=f"{NAME}-") as name:
        root = Path(name) / "root"
        program = _put(
            root / "usr/bin" / PROGRAM, (source / "redoubt_status.py").read_bytes(), 0o755
        )
        _put(root / "usr/lib/systemd/system" / _UNIT, (source / _UNIT).read_bytes())
        page = Path(name) / "page"
        run_logged(
            ["help2man", "--no-info", f"--version-string={__version__}", f"--name={_ABOUT}",
             f"--output={page}", program],
            logs / "deb-tools-man.log", what=f"making the manual page of {PROGRAM}",
        )  # fmt: skip
        share = root / "usr/share"
        documents = share / "doc" / NAME
        _put(share / f"man/man1/{PROGRAM}.1.gz", gzip.compress(page.read_bytes(), mtime=0))
        _put(documents / "changelog.Debian.gz", gzip.compress(changelog.encode(), mtime=0))
        _put(documents / "copyright", _COPYRIGHT.encode())
        _put(root / "DEBIAN/control", _control(version, author).encode())
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
