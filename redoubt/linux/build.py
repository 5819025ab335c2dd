# SPDX-License-Identifier: GPL-2.0-only
"""Configuring and compiling a kernel, out of tree."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import alone, run_lines, run_logged
from redoubt.core.progress import Progress
from redoubt.targets import Target

_SET = re.compile(r"^(CONFIG_\w+)=(.*)$")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")
_UNMET = re.compile(r"unmet direct dependencies detected for (\w+)\n *Depends on \[[nm]\]: (.*)")
_NONE: Mapping[str, str] = {}
_COMPILED = re.compile(r"^\s+(?:CC|AS|LD|AR|LINK|CHECK)\s+(?:\[M\]\s+)?(\S+)")

# Small and silent: what a guest loads and unloads, where the configuration makes a module of it.
MODULE = "fs/nls/nls_ascii.ko"


@dataclass(frozen=True)
class Build:
    """A built kernel: its directory, the image to boot and the one with symbols."""

    target: Target
    directory: Path
    image: Path
    vmlinux: Path

    @property
    def modules(self) -> tuple[Path, ...]:
        """The modules that guests get."""
        module = self.directory / MODULE
        return (module,) if module.exists() else ()

    def configuration(self) -> dict[str, str]:
        """The options it was built with, "n" for those that are not set."""
        config = self.directory / ".config"
        return options(config.read_text()) if config.exists() else {}


def fragment(name: str) -> Path:
    """The configuration fragment of that name in configs/kernel/."""
    return paths.repo() / "configs" / "kernel" / f"{name}.config"


def options(text: str) -> dict[str, str]:
    """The options that a configuration or fragment sets; "n" for the ones it unsets."""
    found = {}
    for line in text.splitlines():
        if match := _SET.match(line):
            found[match[1]] = match[2]
        elif match := _UNSET.match(line):
            found[match[1]] = "n"
    return found


@dataclass(frozen=True)
class Refused:
    """A line of a fragment that did not take effect, and what its option is instead."""

    name: str
    value: str
    file: str
    found: str

    def __str__(self) -> str:
        return f"{self.name}={self.value} ({self.file}): is {self.found}"


def refused(config: Path, fragments: Sequence[Path]) -> list[Refused]:
    """The lines of the fragments that did not take effect; later fragments win."""
    have = options(config.read_text())
    wanted = {
        name: (value, file.name)
        for file in fragments
        for name, value in options(file.read_text()).items()
    }
    return [
        Refused(name, value, file, have.get(name, "n"))
        for name, (value, file) in wanted.items()
        if have.get(name, "n") != value
    ]


def verify(config: Path, fragments: Sequence[Path], reasons: Mapping[str, str] = _NONE) -> None:
    """Check that every line of the fragments took effect; `reasons` say why an option did not."""
    if wrong := refused(config, fragments):
        lines = []
        for one in wrong:
            lines.append(f"    {one}")
            if one.name in reasons:
                lines.append(f"        it depends on {reasons[one.name]}")
        raise RedoubtError(
            "Kconfig did not take these options:\n" + "\n".join(lines),
            "a dependency is missing, or the option does not exist in this kernel",
        )


def _reasons(
    target: Target, source: Path, directory: Path, wrong: Sequence[Refused]
) -> dict[str, str]:
    """The dependencies that options lack, in the words of Kconfig.

    It only says so of options that are selected all the same: hence one more that selects them, on
    top of the configuration in a directory, which is spoilt.
    """
    asked = [one.name.removeprefix("CONFIG_") for one in wrong if one.value in ("y", "m")]
    kconfig = directory / "Kconfig.asking"
    selects = "".join(f"\tselect {name}\n" for name in asked)
    # Its first statement is in no file that is sourced.
    top = (source / "Kconfig").read_text() if (source / "Kconfig").is_file() else ""
    kconfig.write_text(f"{top}\nconfig REDOUBT_ASKS\n\tdef_bool y\n{selects}")
    lines: list[str] = []
    run_lines(
        [*make_args(target, source, directory), f"KBUILD_KCONFIG={kconfig}", "olddefconfig"],
        lines.append,
        env=environment(),
    )
    return {f"CONFIG_{name}": why for name, why in _UNMET.findall("\n".join(lines))}


def cached(compiler: str) -> str:
    """What runs a compiler through ccache, where there is one and it knows all that counts."""
    if not shutil.which("ccache"):
        return compiler
    return f"{paths.repo() / 'scripts' / 'cached'} {compiler}"


def make_args(target: Target, source: Path, directory: Path) -> list[str]:
    """The make command for a target, up to the goals."""
    cross = [f"CROSS_COMPILE={target.cross_compile}"] if target.cross_compile else []
    return [
        "make", "-C", str(source), f"O={directory}", f"ARCH={target.arch}",
        f"CC={cached(target.compiler)}", *cross,
    ]  # fmt: skip


def environment() -> dict[str, str]:
    """What makes builds repeatable and lets ccache serve every checkout."""
    return {
        "CCACHE_DIR": str(paths.cache_dir() / "ccache"),
        "CCACHE_NOHASHDIR": "1",
        # By the headers that make knows of anyway, instead of preprocessing everything twice. Then
        # it does not see what is included by the assembler: scripts/cached does.
        "CCACHE_DEPEND": "1",
        "KBUILD_BUILD_USER": "redoubt",
        "KBUILD_BUILD_HOST": "redoubt",
        # Else it counts how often vmlinux was linked.
        "KBUILD_BUILD_VERSION": "1",
        # Also the age of the files in the archive that is built in.
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
        "LC_ALL": "C",
    }


def configure(
    target: Target,
    source: Path,
    directory: Path,
    fragments: Sequence[Path],
    log: Path,
    base: Path | None = None,
) -> None:
    """Configure `source` in a directory: the fragments, merged as `compile_kernel` does."""
    stamp = directory / ".redoubt-config"
    known = hashlib.sha256(f"{source}\n".encode())
    for file in (
        *((base,) if base else ()),
        *fragments,
        *sorted((paths.repo() / "kernel").rglob("Kconfig*")),
        *sorted((paths.repo() / "patches").rglob("*.patch")),
    ):
        known.update(file.read_bytes())
    config = directory / ".config"
    if config.exists() and stamp.exists() and stamp.read_text() == known.hexdigest():
        return

    def make(where: Path, goal: str) -> None:
        words = [*make_args(target, source, where), goal]
        run_logged(words, log, what=f"make {goal}", env=environment())

    stamp.unlink(missing_ok=True)
    scratch = directory / ".config-new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    if base:
        shutil.copyfile(base, scratch / ".config")
    else:
        make(scratch, "tinyconfig")
    run_logged(
        [source / "scripts/kconfig/merge_config.sh", "-m", "-Q", "-O", scratch,
         scratch / ".config", *fragments],
        log,
        what="merging the configuration",
        env={**environment(), "ARCH": target.arch},
    )  # fmt: skip
    make(scratch, "olddefconfig")
    if wrong := refused(scratch / ".config", fragments):
        given = scratch / "given"
        shutil.copyfile(scratch / ".config", given)
        reasons = _reasons(target, source, scratch, wrong)
        try:
            verify(given, fragments, reasons)
        finally:
            shutil.rmtree(scratch)
    # Only a configuration that differs makes make start over.
    if not config.exists() or config.read_bytes() != (scratch / ".config").read_bytes():
        shutil.copyfile(scratch / ".config", config)
    shutil.rmtree(scratch)
    make(directory, "olddefconfig")
    stamp.write_text(known.hexdigest())


def needs_compiler(target: Target) -> None:
    """Raise RedoubtError if there is no compiler for another machine than this one."""
    if target.cross_compile and not shutil.which(target.compiler):
        raise RedoubtError(
            f"{target.compiler} not found, which builds {target.name}",
            paths.prerequisites(target.name),
        )


def counter(progress: Progress) -> Callable[[str], None]:
    """What is given each line that make prints, and shows how many files are compiled."""
    count = 0

    def compiled(line: str) -> None:
        nonlocal count
        if match := _COMPILED.match(line):
            count += 1
            progress.detail(f"{count} {match[1]}")

    return compiled


def compile_kernel(
    target: Target,
    source: Path,
    kind: str,
    fragments: Sequence[str | Path],
    progress: Progress,
    *,
    directory: Path | None = None,
    base: Path | None = None,
) -> Build:
    """Configure and build `source` for a target under <build>/<target>/<kind>.

    The fragments, by name or as files, are merged into the configuration `base`, or into the
    smallest one.
    """
    needs_compiler(target)
    made = located(target, kind, directory)
    directory = made.directory
    directory.mkdir(parents=True, exist_ok=True)
    log = paths.build_dir() / "log" / f"build-{target.name}-{kind}.log"
    with progress.step(f"Building {target.name} ({kind})"), alone("kernel"):
        files = [one if isinstance(one, Path) else fragment(one) for one in fragments]
        configure(target, source, directory, files, log, base)
        run_logged(
            [*make_args(target, source, directory), f"-j{os.cpu_count() or 1}"],
            log,
            what=f"building {target.name} ({kind})",
            env=environment(),
            on_line=counter(progress),
        )
        if made.image != directory / target.image:
            _strip(directory / target.image, made.image)
    return made


def located(target: Target, kind: str, directory: Path | None = None) -> Build:
    """Where `compile_kernel` puts a kernel; nothing is built, and it may not be there."""
    directory = directory or paths.build_dir() / target.name / kind
    image = directory / target.image
    # An image that is made from vmlinux has no symbols; this one would have them.
    if target.image == target.vmlinux:
        image = image.with_name(image.name + ".stripped")
    return Build(target, directory, image, directory / target.vmlinux)


def _strip(image: Path, small: Path) -> None:
    """Make a copy of the image without symbols."""
    if not small.exists() or small.stat().st_mtime <= image.stat().st_mtime:
        partial = image.with_name(image.name + ".partial")
        run_logged(
            ["strip", "-o", partial, image],
            paths.build_dir() / "log" / "strip.log",
            what=f"stripping {image.name}",
        )
        partial.rename(small)
