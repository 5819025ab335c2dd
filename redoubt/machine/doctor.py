# SPDX-License-Identifier: GPL-2.0-only
"""What this machine has and lacks for building, booting and attacking our kernels.

What programs are needed stands in scripts/prerequisites.txt, and scripts/prerequisites looks for
them, here as well as before the tool is installed.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import output, said
from redoubt.linux import debian
from redoubt.machine import host, qemu
from redoubt.targets import PC, TARGETS, Target

GIB = 1 << 30

# Free space in bytes: for source, tree and all builds of a first `make test`; for what a run adds
# when these are there; for the downloads and ccache.
SPACE_FIRST = 5 * GIB
SPACE_AGAIN = GIB
SPACE_CACHE = GIB

# Memory in bytes: the emulated machine is given 2 GiB, a native boot 256 MiB; the rest is for the
# compilers of a build.
MEMORY_EMULATED = 3 * GIB
MEMORY_NATIVE = GIB

# Programs whose version is worth telling.
_VERSIONED = ("gcc", "ld", "make", "ccache", "quilt", "git", "sparse", PC.program)


@dataclass(frozen=True)
class Finding:
    """One thing this machine has (`ok`) or lacks.

    What is not `needed` only makes a part impossible or slow, and `detail` says which. `fix` is
    the command that mends it.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    fix: str | None = None


@dataclass(frozen=True)
class Prerequisite:
    """A line of the report of scripts/prerequisites; `group` may be several, with commas."""

    group: str
    thing: str
    package: str
    found: bool
    purpose: str


def prerequisites(script: Path | None = None) -> list[Prerequisite]:
    """What the table of prerequisites names, and whether this machine has it."""
    script = script or paths.repo() / "scripts" / "prerequisites"
    result = []
    for line in output([script, "--report"], what=str(script)).splitlines():
        words = line.split("\t")
        if len(words) != 5 or words[3] not in ("yes", "no"):
            raise RedoubtError(f"{script} printed a line that is not understood: {line}")
        result.append(Prerequisite(words[0], words[1], words[2], words[3] == "yes", words[4]))
    return result


def need(cannot: str, groups: Collection[str], things: Collection[str] | None = None) -> None:
    """Raise RedoubtError, which begins with what then `cannot` be done, if these groups lack any.

    Only some `things` of them are looked at if they are named.
    """
    lacking = [
        one
        for one in prerequisites()
        if not one.found
        and not set(groups).isdisjoint(one.group.split(","))
        and (things is None or one.thing in things)
    ]
    if lacking:
        raise RedoubtError(
            f"{cannot} here, there is no\n"
            + "\n".join(f"    {one.thing}, which {one.purpose} ({one.package})" for one in lacking),
            paths.prerequisites(*sorted(groups)),
        )


def install_command(packages: Sequence[str], *, root: bool) -> str:
    """The one command that installs Debian packages, for root or with sudo."""
    sudo = "" if root else "sudo "
    names = " ".join(dict.fromkeys(packages))
    return f"{sudo}apt-get update && {sudo}apt-get install --no-install-recommends -y {names}"


def tools(table: Sequence[Prerequisite], *, pku: bool, root: bool) -> list[Finding]:
    """A finding for each prerequisite; those that lack share the command that mends them all.

    QEMU is needed only where the CPU has no protection keys; what `make lint` or a target other
    than um uses never.
    """
    groups = {"base"} if pku else {"base", "no-pku"}

    def needed(thing: Prerequisite) -> bool:
        return not groups.isdisjoint(thing.group.split(","))

    lacking = [thing for thing in table if not thing.found]
    findings = []
    for thing in table:
        need, fix = needed(thing), None
        if thing.found:
            version = said([thing.thing, "--version"]) if thing.thing in _VERSIONED else None
            detail = version.splitlines()[0] if version else "found"
        else:
            detail = f"not found; {thing.purpose}"
            packages = [one.package for one in lacking if needed(one) or not need]
            fix = install_command(packages, root=root)
        findings.append(Finding(thing.thing, thing.found, need, detail, fix))
    return findings


def protection_keys(cpuinfo: Path = host.CPUINFO, *, emulator: bool) -> Finding:
    """Whether the CPU has protection keys, and where the um kernel runs for that."""
    if host.has_pku(cpuinfo):
        return Finding("protection keys", True, False, "PKU; um runs natively (--host native)")
    why = (
        "this CPU has PKU, but the running kernel has not switched it on"
        if "pku" in host.flags(cpuinfo)
        else "this CPU has no PKU"
    )
    then = (
        "um runs in a machine emulated by QEMU (--host emulated), which is no place to measure time"
        if emulator
        else "without QEMU the tests of protection on um are skipped, and the demo cannot run"
    )
    return Finding("protection keys", False, False, f"{why}; {then}")


def emulated(target: Target) -> Finding | None:
    """Whether the machine a target boots on can be emulated; None if it boots on no such one."""
    if target.emulator is None:
        return None
    problem = qemu.problem(target.emulator)
    if problem:
        return Finding(target.name, False, False, problem.message, problem.hint)
    return Finding(target.name, True, False, f"boots on {target.emulator.program}")


def space(name: str, directory: Path, needed: int) -> Finding:
    """Whether the file system of a directory (which need not exist yet) has `needed` bytes free."""
    free = shutil.disk_usage(paths.existing(directory)).free
    detail = f"{free / GIB:.1f} GiB free in {directory}, {needed / GIB:.0f} GiB needed"
    variable = "REDOUBT_BUILD" if name == "build space" else "XDG_CACHE_HOME"
    fix = f"export {variable}=DIRECTORY (on a file system with more room), or make room"
    ok = free >= needed
    return Finding(name, ok, True, detail, None if ok else fix)


def writable(name: str, directory: Path) -> Finding | None:
    """A finding if a directory (or what it would be made in) cannot be written to."""
    there = paths.existing(directory)
    if os.access(there, os.W_OK | os.X_OK):
        return None
    return Finding(name, False, True, f"{there} is not writable", f"sudo chown $USER {there}")


def memory(needed: int, meminfo: Path = Path("/proc/meminfo")) -> Finding:
    """Whether `needed` bytes of memory are available; with less things are slow, or get killed."""
    free = int(dict(host.fields(meminfo)).get("MemAvailable", "0 kB").split()[0]) << 10
    detail = f"{free / GIB:.1f} GiB available, {needed / GIB:.0f} GiB needed"
    return Finding("memory", free >= needed, False, detail)


def _package_source() -> Finding:
    given = os.environ.get("LINUX_SRC")
    if given:
        ok = Path(given, "Makefile").is_file()
        detail = f"LINUX_SRC={given}" + ("" if ok else " is not a kernel tree")
        return Finding("kernel source", ok, True, detail, None if ok else "unset LINUX_SRC")
    if debian.available():
        return Finding("kernel source", True, True, "Debian's package, through apt")
    detail = "no apt here to fetch Debian's package with"
    return Finding("kernel source", False, True, detail, debian.WITHOUT_KERNEL)


def examine() -> list[Finding]:
    """Everything that matters for Redoubt on this machine, needed things first."""
    pku = host.has_pku()
    emulator = qemu.found(host.MACHINE)
    machine = platform.machine()
    ok = machine == "x86_64"
    again = (paths.build_dir() / "tree").is_dir()
    directories = {"build directory": paths.build_dir(), "cache directory": paths.cache_dir()}
    findings = [
        Finding("machine", ok, True, machine + ("" if ok else "; the um target needs x86-64")),
        Finding("python", True, True, f"{platform.python_version()} runs this"),
        _package_source(),
        *tools(prerequisites(), pku=pku, root=os.geteuid() == 0),
        protection_keys(emulator=emulator),
        *filter(None, map(emulated, TARGETS.values())),
        space("build space", paths.build_dir(), SPACE_AGAIN if again else SPACE_FIRST),
        space("cache space", paths.cache_dir(), SPACE_CACHE),
        memory(MEMORY_NATIVE if pku else MEMORY_EMULATED),
        *filter(None, (writable(name, where) for name, where in directories.items())),
    ]
    return sorted(findings, key=lambda finding: not finding.needed)
