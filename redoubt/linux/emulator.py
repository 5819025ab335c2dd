# SPDX-License-Identifier: GPL-2.0-only
"""Our emulator: Debian's QEMU with the patches of emulator/, for hardware that no other has.

It is obtained, patched and built as the kernel is: the source comes from the archive, and nothing
of it is committed. See emulator/README.md for what the patches model.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import alone, run_logged, said
from redoubt.core.progress import Progress
from redoubt.linux import debian, tree

PACKAGE = "qemu"
# The patches are for this one; a later point release of the same Debian may need a refresh.
SERIES = "10.0"
PROGRAMS = ("qemu-system-aarch64", "qemu-system-x86_64")
WITHOUT = "no other emulator has permission overlays, nor PCIDs"
MEND = paths.prerequisites("arm64", "x86_64")
_LIBRARIES = ("glib-2.0", "pixman-1")
# pkg-config does not know it on Debian 12.
_FDT = "libfdt.so"
# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = ".emulator-*"

# No more than what a kernel is booted with, so that the build is short.
_CONFIGURE = (
    "--target-list=aarch64-softmmu,x86_64-softmmu",
    "--with-devices-aarch64=kernel", "--with-devices-x86_64=kernel",
    "--without-default-features", "--without-default-devices",
    "--enable-system", "--enable-tcg", "--enable-fdt=system", "--enable-trace-backends=nop",
    "--disable-debug-info", "--disable-docs", "--disable-install-blobs", "--disable-tools",
    "--disable-guest-agent", "--disable-werror", "--with-pkgversion=redoubt",
)  # fmt: skip
# What ninja says of each step.
_STEP = re.compile(r"^\[(\d+/\d+)\] \S+ .*?([^/ ]+)$")
_STAMP = ".redoubt-stamp"
# In the build directory: the key of the tree that was built.
_BUILT = ".redoubt-built"


def place() -> Path:
    """Where everything of the emulator is built."""
    return paths.build_dir() / "emulator"


def program(name: str) -> Path:
    """The emulator of that name, which is there when it has been built."""
    return place() / "out" / name


def _all_there() -> bool:
    return all(program(name).exists() for name in PROGRAMS)


def lacking() -> RedoubtError | None:
    """What keeps the emulator from being built here, with what mends it; None if nothing does."""
    if _all_there():
        return None
    for name in ("apt-get", "dpkg-source", "pkg-config"):
        if not shutil.which(name):
            return RedoubtError(f"{name} not found, which builds the emulator", MEND)
    if not (said(["gcc", f"-print-file-name={_FDT}"]) or "").startswith("/"):
        return RedoubtError("libfdt is missing, which the emulator is built with", MEND)
    for library in _LIBRARIES:
        if subprocess.run(["pkg-config", "--exists", library], check=False).returncode:
            return RedoubtError(f"{library} is missing, which the emulator is built with", MEND)
    return None


def patches() -> list[Path]:
    """The patches of emulator/series, in order.

    Raises RedoubtError if one does not exist.
    """
    directory = paths.repo() / "emulator"
    names = (directory / "series").read_text().split()
    for name in names:
        if not (directory / name).is_file():
            raise RedoubtError(f"emulator/series names {name}, which does not exist")
    return [directory / name for name in names]


def obtain(progress: Progress) -> Path:
    """Debian's source, downloaded and unpacked once.

    Raises RedoubtError if it cannot be had, or is of another version.
    """
    destination = place() / "pristine"
    # It is renamed into place when complete, so it is.
    if not destination.exists():
        destination.parent.mkdir(parents=True, exist_ok=True)
        archive = debian.Archive(progress, (debian.RELEASE,), WITHOUT, kind="deb-src")
        archive.update()
        with tempfile.TemporaryDirectory(dir=paths.build_dir(), prefix=UNFINISHED[:-1]) as name:
            description = archive.download_source(PACKAGE, Path(name))
            _unpack(description, destination, progress)
    version = (destination / "VERSION").read_text().strip()
    if not version.startswith(SERIES + "."):
        raise RedoubtError(
            f"{destination} is QEMU {version}; the patches are for {SERIES}",
            f"rm -r {destination}, if the patches are refreshed for it",
        )
    return destination


def _unpack(description: Path, destination: Path, progress: Progress) -> None:
    partial = description.with_name("tree")
    with progress.step(f"Unpacking {description.stem}"):
        # apt has verified it.
        run_logged(
            ["dpkg-source", "--no-check", "-x", description, partial],
            paths.build_dir() / "log" / "emulator-source.log",
            what=f"unpacking {description.name}",
        )
        # The state of quilt, of Debian's patches: they count as source here.
        shutil.rmtree(partial / ".pc", ignore_errors=True)
        partial.rename(destination)


def _key(queue: tree.Queue) -> str:
    known = hashlib.sha256(f"{queue.kernel}\n".encode())
    for patch in queue.patches:
        known.update(patch.read_bytes())
    return known.hexdigest()


def make_tree(progress: Progress) -> Path:
    """The patched source; only files that differ are written, so that little is compiled again.

    Raises RedoubtError if it cannot be had, or a patch does not apply exactly.
    """
    pristine = obtain(progress)
    ours = place() / "tree"
    stamp = ours / _STAMP
    queue = tree.Queue(pristine, (), tuple(patches()))
    key = _key(queue)
    before = json.loads(stamp.read_text()) if stamp.exists() else {}
    if before.get("key") == key:
        return ours
    with (
        progress.step("Applying the emulator's patches"),
        tempfile.TemporaryDirectory(dir=paths.build_dir(), prefix=UNFINISHED[:-1]) as name,
    ):
        scratch = Path(name) / "patched"
        scratch.mkdir()
        touched = tree.patched(pristine, queue, scratch)
        if not before:
            # Nothing, or something unfinished.
            shutil.rmtree(ours, ignore_errors=True)
            run_logged(
                ["cp", "-a", "--reflink=auto", pristine, Path(name) / "tree"],
                paths.build_dir() / "log" / "emulator-source.log",
                what="copying the emulator's source",
            )
            (Path(name) / "tree").rename(ours)
        stamp.unlink(missing_ok=True)
        for file in {*touched, *before.get("touched", ())}:
            patched = scratch / file if (scratch / file).exists() else pristine / file
            _write(patched, ours / file)
        partial = stamp.with_name(stamp.name + ".partial")
        partial.write_text(json.dumps({"key": key, "touched": touched}))
        partial.rename(stamp)
    return ours


def _write(source: Path, file: Path) -> None:
    """Make a file of the tree what it should be; one that is so already keeps its age."""
    if not source.exists():
        file.unlink(missing_ok=True)
    elif not file.exists() or file.read_bytes() != source.read_bytes():
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, file)
        shutil.copymode(source, file)


def ready(name: str, progress: Progress) -> Path:
    """The emulator of that name, as it was built if the patches are still the same.

    Raises RedoubtError as `build` does.
    """
    built = place() / "out" / _BUILT
    queue = tree.Queue(place() / "pristine", (), tuple(patches()))
    if not (_all_there() and built.exists() and built.read_text() == _key(queue)):
        build(progress)
    return program(name)


def build(progress: Progress) -> None:
    """Build the emulators, with what has changed in their tree since they were built.

    Raises RedoubtError if the source cannot be had, or the build fails.
    """
    with alone("emulator"):
        source = make_tree(progress)
        out = place() / "out"
        _configure(source, out, progress)
        (out / _BUILT).unlink(missing_ok=True)
        with progress.step("Building the emulator"):
            run_logged(
                [_script("ninja"), "-C", out, f"-j{os.cpu_count() or 1}", *PROGRAMS],
                paths.build_dir() / "log" / "build-emulator.log",
                what="building the emulator",
                env=_environment(),
                on_line=_counter(progress),
            )
        (out / _BUILT).write_text(_key(tree.Queue(place() / "pristine", (), tuple(patches()))))


def _configure(source: Path, out: Path, progress: Progress) -> None:
    compiler = "ccache gcc" if shutil.which("ccache") else "gcc"
    command: list[str | Path] = [
        source / "configure", f"--python={sys.executable}", f"--cc={compiler}", *_CONFIGURE
    ]  # fmt: skip
    stamp = out / _STAMP
    words = "\n".join(map(str, command))
    if stamp.exists() and stamp.read_text() == words:
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with progress.step("Configuring the emulator"):
        run_logged(
            command,
            paths.build_dir() / "log" / "configure-emulator.log",
            what="configuring the emulator",
            cwd=out,
            env=_environment(),
            on_line=progress.detail,
        )
    stamp.write_text(words)


def _script(name: str) -> Path:
    """A program that pip has put beside the Python that runs us."""
    return Path(sys.executable).with_name(name)


def _environment() -> dict[str, str]:
    return {
        "CCACHE_DIR": str(paths.cache_dir() / "ccache"),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_BASEDIR": str(paths.build_dir()),
        # Where meson looks for ninja.
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
    }


def _counter(progress: Progress) -> Callable[[str], None]:
    def step(line: str) -> None:
        if match := _STEP.match(line):
            progress.detail(f"{match[1]} {match[2]}")

    return step
