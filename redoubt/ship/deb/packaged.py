# SPDX-License-Identifier: GPL-2.0-only
"""A kernel out of its packages: what is in there, what must not be, and what it does when booted.

Nothing but the packages counts here, not what was built: they are unpacked, and that is booted.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.linux import build, debian
from redoubt.linux.build import Build
from redoubt.machine import guest, kernels
from redoubt.machine.boot import Machine, Result
from redoubt.ship.deb.shipped import Rules
from redoubt.targets import Target, get_variant
from redoubt.trial import check

ACTIVE = "active"
INACTIVE = "inactive"

STRESS_S = 10
_CPUS = 2
_TIMEOUT = 600.0
_HARDENED = re.compile(r"kpkeys: page tables (hardened \(.*\))$")
_NOT_HARDENED = re.compile(r"kpkeys: page tables not hardened: (.*)$")
# The kernel names what it was given and does not know, which the driver's parameter has to be.
_UNKNOWN = re.compile(r'Unknown kernel command line parameters "([^"]*)"')
_MODULE_LOADED = re.compile(r"stress: .*\bmodule=[1-9]")
_PACKED = ".xz"


@dataclass(frozen=True)
class Unpacked:
    """The files of both packages, each below a directory; `release` is the kernel's name."""

    release: str
    image: Path
    headers: Path

    @property
    def vmlinuz(self) -> Path:
        """The kernel itself."""
        return self.image / f"boot/vmlinuz-{self.release}"

    @property
    def config(self) -> Path:
        """What it was configured with."""
        return self.image / f"boot/config-{self.release}"

    @property
    def sources(self) -> str:
        """Where the headers are, below the root."""
        return f"usr/src/linux-headers-{self.release}"

    @property
    def modules(self) -> Path:
        """Where its modules are."""
        return self.image / f"lib/modules/{self.release}"


def unpack(release: str, image: Path, headers: Path, into: Path) -> Unpacked:
    """Unpack the two packages.

    Raises RedoubtError if that fails, or something is missing that belongs in them.
    """
    log = paths.build_dir() / "log" / "deb-unpack.log"
    found = Unpacked(release, into / "image", into / "headers")
    for package, where in ((image, found.image), (headers, found.headers)):
        where.mkdir(parents=True)
        debian.extract(package, where, log)
    needed = (
        found.vmlinuz, found.config, found.image / f"boot/System.map-{release}",
        found.modules / "modules.dep", found.headers / found.sources / "Makefile",
    )  # fmt: skip
    if missing := [file for file in needed if not file.is_file()]:
        raise RedoubtError(
            "the packages lack\n" + "\n".join(f"    {file.relative_to(into)}" for file in missing),
            f"{log} and the log of the build may say why",
        )
    return found


# === Contents ====================================================================================


def _files(root: Path) -> Iterator[Path]:
    return (file for file in root.rglob("*") if file.is_symlink() or not file.is_dir())


def left_on(config: Path, rules: Rules) -> Iterator[str]:
    """What a configuration has on that must be off, in words."""
    have = build.options(config.read_text())
    for option in rules.off:
        if have.get(option, "n") != "n":
            yield f"{option}={have[option]}, which is for tests"


def faults(found: Unpacked, rules: Rules) -> Iterator[str]:
    """What is wrong with the contents of the packages, in words."""
    try:
        build.verify(found.config, rules.fragments)
    except RedoubtError as error:
        yield error.message
    yield from left_on(found.config, rules)
    for root in (found.image, found.headers):
        for file in _files(root):
            name = file.relative_to(root)
            if word := _local(str(name).encode(), rules.absent):
                yield f"{name}: {word} is local"
            elif file.is_symlink():
                target = os.readlink(file)
                # To a place outside of the packages.
                if target.startswith("/") and not target.startswith(f"/{found.sources}"):
                    yield f"{name} is a link to {target}"
            elif word := _local(file.read_bytes(), rules.absent):
                yield f"{name} has {word} in it, which is local"


def _local(data: bytes, words: Sequence[str]) -> str | None:
    """The first word of these in some data."""
    return next((word for word in words if word.encode() in data), None)


# === Boot ========================================================================================


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What a packaged kernel did: the page tables the checker walked, and all that is wrong."""

    tables: int
    problems: tuple[str, ...]
    result: Result

    @property
    def ok(self) -> bool:
        """True if nothing was wrong."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain values, see docs/packages.md."""
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "result"}
        return {"ok": self.ok, **told}


@dataclass(frozen=True, kw_only=True)
class Booted(Judged):
    """What the kernel out of the package did.

    `protection` is ACTIVE or INACTIVE, `said` the kernel's own words about it.
    """

    protection: str
    said: str


def bootable(target: Target, found: Unpacked, into: Path) -> Build:
    """The unpacked kernel as a build: with its configuration, and a module for its guests."""
    into.mkdir(parents=True)
    shutil.copyfile(found.config, into / ".config")
    for packed in found.modules.glob(f"kernel/{build.MODULE}*"):
        module = into / build.MODULE
        module.parent.mkdir(parents=True)
        data = packed.read_bytes()
        module.write_bytes(lzma.decompress(data) if packed.suffix == _PACKED else data)
    return Build(target, into, found.vmlinuz, found.vmlinuz)


def _words(pattern: re.Pattern[str], lines: Sequence[str]) -> list[str]:
    return [match[1] for line in lines if (match := pattern.search(line))]


def protection(lines: Sequence[str]) -> list[str]:
    """What a kernel says of page tables that it protects."""
    return _words(_HARDENED, lines)


def machine(built: Build, host: str, progress: Progress) -> Machine:
    """What a kernel out of a package is booted on, by itself or as it was installed."""
    programs = guest.programs(progress, built.target.cross_compile)
    memory_mb = kernels.DISTRO_MEMORY_MB
    return Machine(built, programs, host, kernels.VULN, cpus=_CPUS, memory_mb=memory_mb)


def start(machine: Machine, progress: Progress) -> Booted:
    """Boot it as a user would, with no argument that concerns protection, and judge that.

    It is given the one that switches the vulnerable driver on, which it must not know. Raises
    RedoubtError if the machine cannot be started at all.
    """
    built = machine.build
    report = check.run(machine, get_variant(built.target, "on"), STRESS_S, progress)
    return _judge(built, report)


def _common(built: Build, result: Result) -> list[str]:
    """What has to be, protected or not."""
    problems = [f"kernel: {line}" for line in result.complaints]
    if result.outcome != "finished" or result.status:
        problems.append(result.describe())
    unknown = " ".join(_words(_UNKNOWN, result.console)).split()
    problems += [
        f"it knows {arg}, which is the vulnerable driver's"
        for arg in kernels.VULN
        if arg not in unknown
    ]
    if not any(map(_MODULE_LOADED.match, result.console)):
        problems.append("no module of the package was loaded")
    return problems


def _judge(built: Build, report: check.Report) -> Booted:
    """A kernel that finds keys says so in one line, and all its tables are protected."""
    result = report.boot
    said, silent = _words(_HARDENED, result.console), _words(_NOT_HARDENED, result.console)
    problems = _common(built, result)
    if len(said) != 1 or silent:
        problems.append(f"expected one line 'page tables hardened', found {[*said, *silent]}")
    problems += [f"the checker: {walk}" for walk in report.walks if not walk.clean]
    if len(report.walks) != 2:
        problems.append(f"{len(report.walks)} walks of the checker, expected 2")
    if report.missing:
        problems.append(f"configured, but left out by the stress: {', '.join(report.missing)}")
    if not report.ok and not problems:
        problems.append(result.describe())
    return Booted(
        protection=ACTIVE if said and not silent else INACTIVE,
        said="; ".join([*said, *silent]),
        tables=max((walk.tables for walk in report.walks), default=0),
        problems=tuple(problems),
        result=result,
    )
