# SPDX-License-Identifier: GPL-2.0-only
"""Debian packages of the protected kernel, by the kernel's own packaging (make bindeb-pkg).

It leaves packages above the directory that it builds in, finished or not. From there they go to
their place all at once, when their contents were checked and their kernel has booted.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_logged
from redoubt.core.progress import Progress
from redoubt.linux import build, own, pinned, source, tree
from redoubt.linux.own import Own
from redoubt.machine import doctor, guest, provenance
from redoubt.ship import commits
from redoubt.ship.deb import installed, packaged, shipped, tools
from redoubt.targets import Target

# Directories of this name in the build directory were left by a run that was killed.
_SCRATCH = ".new-"
UNFINISHED = f"deb/{_SCRATCH}*"

# Of prerequisites: for packages, and to install them.
_GROUP, _INSTALL_GROUP = "deb", "deb-install"
# And for redoubt-tools alone, which has nothing of its own but a manual page to make.
_TOOLS_GROUP = "man"
# Programs in linux-headers are of the packages' architecture, and Debian's need a library of it.
_FOREIGN_GROUPS = {"arm64": "deb-arm64"}
# Only these two: the third that there is has the headers of the C library.
_GOALS = "binary-image,binary-headers"
_SUITE = "unstable"
# What the kernel's packaging calls it.
_SOURCE = "linux-upstream"


@dataclass(frozen=True)
class Version:
    """The version of packages, and when what they are made of was committed (seconds since 1970).

    `changed` is whether that is not all that they are made of.
    """

    text: str
    seconds: int
    changed: bool


def version_of(linux: str, repo: Path) -> Version:
    """The version for what is checked out: the same each time, and higher for a later commit."""
    commit, changed = provenance.commit(repo)
    seconds = provenance.committed(repo)
    if commit is None or seconds is None:
        epoch = datetime(2026, 1, 1, tzinfo=UTC)
        return Version(f"{linux}+redoubt0-1", int(epoch.timestamp()), False)
    when = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M")
    mark = ".changed" if changed else ""
    return Version(f"{linux}+redoubt{when}.{commit[:12]}{mark}-1", seconds, bool(changed))


@dataclass(frozen=True)
class Report:
    """The packages that were made, of which kernel, and what that did when it was booted.

    `seconds` is how long building and packing took; `boot` and `installed` are None if nobody asked
    for it, or it did not come to that.
    """

    target: str
    config: str
    release: str
    version: Version
    packages: tuple[Path, ...]
    modules: int
    seconds: float
    boot: packaged.Booted | None
    installed: installed.Installed | None = None

    @property
    def ok(self) -> bool:
        """True if the packages are where they belong."""
        return all(one is None or one.ok for one in (self.boot, self.installed))

    def as_json(self) -> dict[str, Any]:
        """The report as plain values, see docs/packages.md."""
        packages = [
            {"name": file.name.split("_")[0], "file": str(file), "size": file.stat().st_size}
            for file in self.packages
        ]
        return {
            "ok": self.ok,
            "target": self.target,
            "config": self.config,
            "release": self.release,
            "version": self.version.text,
            "packages": packages,
            "modules": self.modules,
            "seconds": round(self.seconds, 1),
            "boot": self.boot and self.boot.as_json(),
            "installed": self.installed and self.installed.as_json(),
        }


def place_of(target: Target, config: str) -> Path:
    """Where finished packages are. Those for trying out never take the place of the others."""
    name = target.name if config == shipped.DISTRO else f"{target.name}-{config}"
    return paths.build_dir() / "deb" / name


def needs(target: Target, config: str, *, install: bool = False) -> None:
    """Raise RedoubtError unless packages of this kind can be made here, with what mends it.

    `config` is one of shipped.CONFIGS, or own.NAME.
    """
    shipped.needs_packages(target)
    if install:
        installed.needs(target)
    if config != own.NAME:
        shipped.fragments(target, config)
    build.needs_compiler(target)
    groups = {_GROUP, _INSTALL_GROUP} if install else {_GROUP}
    if config != shipped.SMALL and target.debian in _FOREIGN_GROUPS:
        groups.add(_FOREIGN_GROUPS[target.debian])
    doctor.need("packages cannot be made", groups)


# === Building ====================================================================================


def _changelog(source: str, what: str, version: Version, author: str) -> str:
    """The changelog of packages; the one that the kernel makes has the time of the build."""
    when = format_datetime(datetime.fromtimestamp(version.seconds, UTC))
    return (
        f"{source} ({version.text}) {_SUITE}; urgency=low\n\n  * {what}\n\n -- {author}  {when}\n"
    )


def _maintainer(author: tuple[str, str]) -> str:
    return "{} <{}>".format(*author)


def _environment(version: Version, author: tuple[str, str], changelog: Path) -> dict[str, str]:
    name, address = author
    hook = shlex.quote(f"--hook-init=cp {shlex.quote(str(changelog))} debian/changelog")
    return {
        **build.environment(),
        "KDEB_PKGVERSION": version.text,
        "KDEB_CHANGELOG_DIST": _SUITE,
        "DEBFULLNAME": name,
        "DEBEMAIL": address,
        # The age of the files in the packages.
        "SOURCE_DATE_EPOCH": str(version.seconds),
        # -d: it asks for more than these two need, and for libraries of a foreign architecture.
        # needs() has looked for what they do need.
        "DPKG_FLAGS": f"{hook} --rules-target={_GOALS} -d",
    }


def _make(
    target: Target,
    config: str,
    version: Version,
    author: tuple[str, str],
    base: Path | None,
    rules: shipped.Rules,
    progress: Progress,
) -> tuple[str, Path, Path]:
    """Configure, build and pack; continues where an earlier run was interrupted.

    Returns the kernel's release and the packages of its image and headers.

    Raises RedoubtError if the configuration must not be shipped, before hours of building.
    """
    pristine = source.obtain(progress).path
    linux = tree.materialise(
        pristine, paths.build_dir() / "tree-shipped",
        part=shipped.queue(paths.repo()), progress=progress,
    )  # fmt: skip
    above = paths.build_dir() / target.name / f"deb-{config}"
    objects = above / "linux"
    objects.mkdir(parents=True, exist_ok=True)
    logs = paths.build_dir() / "log"
    for left in above.glob("*.deb"):
        left.unlink()
    changelog = above / "changelog"
    changelog.write_text(
        _changelog(_SOURCE, "Linux with protected page tables.", version, _maintainer(author)),
        encoding="utf-8",
    )
    with progress.step(f"Building packages of {target.name} ({config})"):
        log = logs / f"deb-config-{target.name}-{config}.log"
        build.configure(target, linux, objects, rules.fragments, log, base)
        if wrong := list(packaged.left_on(objects / ".config", rules)):
            what = f"a kernel with the options of {objects}"
            raise _unfit(what, wrong, "configs/kernel/deb.config can clear them")
        run_logged(
            [*build.make_args(target, linux, objects), f"-j{os.cpu_count() or 1}", "bindeb-pkg"],
            logs / f"deb-{target.name}-{config}.log",
            what=f"building packages of {target.name} ({config})",
            env=_environment(version, author, changelog),
            on_line=build.counter(progress),
        )
    release = (objects / "include/config/kernel.release").read_text().strip()
    image, headers = (
        above / f"linux-{kind}-{release}_{version.text}_{target.debian}.deb"
        for kind in ("image", "headers")
    )
    if {image, headers} != (there := set(above.glob("*.deb"))):
        names = ", ".join(sorted(file.name for file in there)) or "nothing"
        raise RedoubtError(
            f"expected {image.name} and {headers.name}; the kernel's packaging made {names}"
        )
    return release, image, headers


def _make_tools(
    target: Target, version: Version, author: tuple[str, str], into: Path, progress: Progress
) -> Path:
    """Pack the programs for a system that the kernel is installed in."""
    who = _maintainer(author)
    programs = guest.programs(progress, target.cross_compile)
    changelog = _changelog(tools.NAME, f"{tools.PROGRAM} for this kernel.", version, who)
    return tools.make(target, programs, version.text, version.seconds, who, changelog, into)


def make_tools(target: Target, progress: Progress) -> Path:
    """Make redoubt-tools alone, of the pinned kernel's version; returns the package.

    Raises RedoubtError if it cannot be made; an earlier one is replaced, or stays.
    """
    doctor.need("packages cannot be made", {_TOOLS_GROUP})
    repo = paths.repo()
    author = commits.author_of(repo, "packages have a maintainer")
    version = version_of(pinned.load(repo).release, repo)
    place = paths.build_dir() / "deb" / "tools"
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=_SCRATCH) as name:
        made = _make_tools(target, version, author, Path(name), progress)
        return _publish((made,), place, Path(name))[0]


def _unfit(what: str, wrong: Sequence[str], hint: str) -> RedoubtError:
    """What must not be shipped, and why."""
    return RedoubtError(
        f"{what} must not be shipped:\n"
        + "\n".join(f"    {line}" for line in wrong[:20])
        + (f"\n    and {len(wrong) - 20} more" if len(wrong) > 20 else ""),
        hint,
    )


# === All of it ===================================================================================


def make(
    target: Target,
    config: str,
    host: str | None,
    progress: Progress,
    *,
    install: bool = False,
    mine: Own | None = None,
) -> Report:
    """Make the packages, look into them, boot their kernel on `host` unless that is None.

    With `mine`, `config` is own.NAME. With `install` they are installed in a Debian then, and that
    is booted.

    If all of that is well they replace the earlier ones, else they stay where they were made.
    Raises RedoubtError if they cannot be made, or have in them what must not be.
    """
    needs(target, config)
    repo = paths.repo()
    author = commits.author_of(repo, "packages have a maintainer")
    version = version_of(source.obtain(progress).version, repo)
    started = time.monotonic()
    base = shipped.base(target, config, progress, mine)
    rules = shipped.rules(target, config, repo, base, mine)
    release, image, headers = _make(target, config, version, author, base, rules, progress)
    small = _make_tools(target, version, author, image.parent, progress)
    seconds = time.monotonic() - started
    place = place_of(target, config)
    place.parent.mkdir(parents=True, exist_ok=True)
    booted = tried = None
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=_SCRATCH) as name:
        scratch = Path(name)
        with progress.step("Looking into the packages"):
            found = packaged.unpack(release, image, headers, scratch / "unpacked")
            modules = sum(1 for _ in found.modules.rglob("*.ko*"))
            wrong = list(packaged.faults(found, rules))
        if wrong:
            names = f"{image.name} and {headers.name}"
            raise _unfit(names, wrong, f"they are in {image.parent}")
        if host:
            built = packaged.bootable(target, found, scratch / "boot")
            machine = packaged.machine(built, host, progress)
            booted = packaged.start(machine, progress)
            if install and booted.ok:
                tried = installed.check_packages(machine, found, (image, headers), progress)
        report = Report(
            target.name, config, release, version, (image, headers, small), modules, seconds,
            booted, tried,
        )  # fmt: skip
        if report.ok:
            report = replace(report, packages=_publish(report.packages, place, scratch))
    return report


def _publish(packages: tuple[Path, ...], place: Path, scratch: Path) -> tuple[Path, ...]:
    """Put the packages in their place, all at once and in place of those that are there."""
    fresh = scratch / "fresh"
    fresh.mkdir()
    for package in packages:
        shutil.copyfile(package, fresh / package.name)
    if place.exists():
        place.rename(scratch / "old")
    fresh.rename(place)
    return tuple(place / package.name for package in packages)


# === Words =======================================================================================


def render(report: Report) -> Iterator[str]:
    """The report as lines of text."""
    where = report.packages[0].parent
    yield f"Linux {report.release} for {report.target}, configuration {report.config}, in {where}"
    for file in report.packages:
        yield f"  {file.name}: {file.stat().st_size} bytes"
    yield f"{report.modules} modules, built in {report.seconds:.0f} s"
    if report.version.changed:
        yield "made of files that are not committed"
    booted, tried = report.boot, report.installed
    if booted is None:
        yield "not booted"
        return
    said = booted.said
    if booted.protection == packaged.INACTIVE:
        said = f"not hardened: {said}"
    yield f"booted: protection {booted.protection}: page tables {said}"
    yield from _found(booted)
    if tried:
        said = "; ".join(tried.said) or "not hardened"
        yield f"installed in Debian {tried.suite} and booted: page tables {said}"
        yield from _found(tried)


def _found(judged: packaged.Judged) -> Iterator[str]:
    if judged.ok and judged.tables:
        yield f"checker: {judged.tables} page table pages, all protected"
    yield from (f"WRONG: {problem}" for problem in judged.problems)
