# SPDX-License-Identifier: GPL-2.0-only
"""Our tree: a copy of the pristine kernel, each file of kernel/ linked in, all patches pushed.

Files are linked one by one, so that an edit in kernel/ is an edit of the tree, and patches are
pushed with quilt, so that `quilt edit` and `quilt refresh` work in it. Files of kernel/ that a
patch changes, as those of local topics do, are copied instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import NoSpaceError, RedoubtError
from redoubt.core.process import Ended, alone, run_lines, run_logged
from redoubt.core.progress import Progress, Silent
from redoubt.linux.version import identity

STAMP = ".redoubt-stamp"
# Directories of this name in the build directory were left by a run that was killed.
UNFINISHED = ".tree-*"
# A change here rebuilds every tree.
_FORMAT = 2
_TOUCHED = re.compile(r"^\+\+\+ [^/\s]+/(\S+)", re.MULTILINE)
# Files that editors and patch leave.
_LEAVINGS = ("~", ".orig", ".rej", ".swp", ".pyc")
# What patch says when it had to guess: with one line of context that is not good enough.
_GUESSED = re.compile(r"^Hunk #\d+ (?:succeeded at .*(?:offset|fuzz)|FAILED)", re.MULTILINE)


@dataclass(frozen=True)
class Queue:
    """What makes a pristine tree ours: the files of kernel/ and the patches, in order.

    Files that are `copied` instead of linked leave the tree without a link to the repository.
    """

    kernel: Path
    files: tuple[str, ...]
    patches: tuple[Path, ...]
    copied: bool = False


def series(repo: Path) -> list[str]:
    """The names that patches/series has, in order."""
    lines = (repo / "patches" / "series").read_text().splitlines()
    return [name for line in lines if (name := line.split("#")[0].strip())]


def queue(repo: Path) -> Queue:
    """The queue of a repository."""
    kernel = repo / "kernel"
    files = sorted(str(file.relative_to(kernel)) for file in kernel.rglob("*") if file.is_file())
    patches = [repo / "patches" / name for name in series(repo)]
    for patch in patches:
        if not patch.is_file():
            name = patch.relative_to(repo / "patches")
            raise RedoubtError(f"patches/series names {name}, which does not exist")
    return Queue(kernel, tuple(files), tuple(patches))


def _judge(code: int, text: str, what: str) -> None:
    if code:
        how = "does not apply"
        hint = "mend it in patches/ (see CONTRIBUTING.md, 'Change the kernel')"
    elif _GUESSED.search(text):
        how = "applies only with an offset or fuzz, so it may have hit the wrong place"
        hint = "refresh it on the pinned kernel: quilt push && quilt refresh -U1"
    else:
        return
    lines = [f"    {line}" for line in text.splitlines() if line.strip()]
    raise RedoubtError("\n".join((f"{what} {how}:", *lines[-10:])), hint)


def run_patch(directory: Path, patch: Path, *options: str) -> tuple[Ended, list[str]]:
    """Apply a patch to a directory, or as further options of patch say; also what it printed."""
    lines: list[str] = []
    # With --batch it would turn a patch around that looks as if it were to be.
    way = ("--force",) if "--reverse" in options else ("--batch", "--forward")
    ended = run_lines(
        ["patch", "-p1", "--no-backup-if-mismatch", *way, *options,
         "-d", directory, "-i", patch],
        lines.append,
        env={"LC_ALL": "C"},
    )  # fmt: skip
    return ended, lines


def apply_series(pristine_copy: Path, patches: list[Path]) -> None:
    """Apply patches to a tree without quilt, exactly where they say."""
    for patch in patches:
        ended, lines = run_patch(pristine_copy, patch, "--fuzz=0")
        _judge(ended.code, "\n".join(lines), f"patch {patch.parent.name}/{patch.name}")


def _quilt_push(dest: Path, repo: Path) -> None:
    lines: list[str] = []
    ended = run_lines(
        ["quilt", "--quiltrc", "-", "push", "-a", "--fuzz=0"],
        lines.append,
        cwd=dest,
        env={"LC_ALL": "C", "QUILT_PATCHES": str(repo / "patches"), "QUILT_PC": ".pc"},
    )
    text = "\n".join(lines)
    # The last patch named before the first guess, or of all.
    guess = _GUESSED.search(text)
    before = text[: guess.start()] if guess else text
    applying = re.findall(r"^Applying patch (\S+)", before, re.MULTILINE)
    name = Path(applying[-1] if applying else "?")
    _judge(ended.code, text, f"patch {name.parent.name}/{name.name}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _key(pristine: Path, version: str, ours: Queue, repo: Path) -> str:
    known = hashlib.sha256(f"{_FORMAT}\n{pristine}\n{version}\n{repo}\n".encode())
    known.update("\n".join(ours.files).encode())
    for patch in ours.patches:
        known.update(f"\n{patch}\n".encode() + patch.read_bytes())
    for name in ours.files if ours.copied else _patched_files(ours):
        known.update(_digest(ours.kernel / name).encode())
    return known.hexdigest()


def newer(directory: str, since_ns: int) -> Iterator[str]:
    """Files below a directory that were written later, but for what tools leave behind."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in (".pc", "__pycache__"):
                    yield from newer(entry.path, since_ns)
            elif (
                entry.is_file(follow_symlinks=False)
                and entry.stat().st_mtime_ns > since_ns
                and not entry.name.endswith(_LEAVINGS)
            ):
                yield entry.path


def _drift(dest: Path, stamp: dict[str, dict[str, str]]) -> list[str]:
    written = newer(str(dest), (dest / STAMP).stat().st_mtime_ns)
    names = (os.path.relpath(path, dest) for path in written)
    changed = [name for name in names if name not in {**stamp["patched"], **stamp["linked"]}]
    for name, digest in stamp["patched"].items():
        file = dest / name
        if not file.is_file() or _digest(file) != digest:
            changed.append(name)
    for name, link in stamp["linked"].items():
        if _content(dest / name) != link:
            changed.append(name)
    return changed


def _content(file: Path) -> str | None:
    """Where a link leads, or the digest of a file; None if there is neither."""
    if file.is_symlink():
        return os.readlink(file)
    return _digest(file) if file.is_file() else None


def _read_stamp(dest: Path) -> dict[str, dict[str, str]] | None:
    try:
        stamp = json.loads((dest / STAMP).read_text())
    except (OSError, ValueError):
        return None
    parts = ("key", "patched", "linked")
    if not isinstance(stamp, dict) or any(not isinstance(stamp.get(n), dict) for n in parts):
        return None
    return stamp


def patched(pristine: Path, ours: Queue, into: Path) -> list[str]:
    """Patch copies of the files that a queue changes, and of no others; returns their names.

    They are files of the pristine tree, or of kernel/.
    """
    touched = copy_touched(pristine, ours, into)
    apply_series(into, list(ours.patches))
    return touched


def copy_touched(pristine: Path, ours: Queue, into: Path) -> list[str]:
    """Copy the files that a queue changes, as they are before; returns their names."""
    touched = touched_by(ours)
    for file in touched:
        (into / file).parent.mkdir(parents=True, exist_ok=True)
        source = (ours.kernel if file in ours.files else pristine) / file
        if source.is_file():
            shutil.copy2(source, into / file)
    return touched


def _refreshed(pristine: Path, dest: Path, ours: Queue, changed: list[str]) -> bool:
    """Do the patches, as they are now, make the changed files what they are now?"""
    touched = touched_by(ours)
    if not set(changed) <= set(touched):
        return False
    with tempfile.TemporaryDirectory(prefix="redoubt-") as name:
        scratch = Path(name)
        try:
            patched(pristine, ours, scratch)
        except NoSpaceError:
            raise
        except RedoubtError:
            return False
        return all(
            (dest / file).is_file() and _digest(scratch / file) == _digest(dest / file)
            for file in touched
        )


def _undo(pristine: Path, dest: Path, stamp: dict[str, dict[str, str]]) -> dict[str, int]:
    """Make a tree pristine again; much faster than a new copy, and keeps what make knows of it.

    Returns when the patched files were written, in ns.
    """
    (dest / STAMP).unlink()
    written = {}
    for name in stamp["linked"]:
        (dest / name).unlink(missing_ok=True)
    for name in stamp["patched"]:
        written[name] = (dest / name).stat().st_mtime_ns
        if not (pristine / name).is_file():
            (dest / name).unlink()
            continue
        shutil.copy2(pristine / name, dest / name)
        # Newer than the objects of what it was, also if no patch changes it any more.
        os.utime(dest / name)
    shutil.rmtree(dest / ".pc", ignore_errors=True)
    return written


def _redress(dest: Path, before: dict[str, str], written: dict[str, int]) -> None:
    """Files that are patched as before are as old as before: make has nothing to do for them."""
    for name, digest in before.items():
        file = dest / name
        if file.is_file() and not file.is_symlink() and _digest(file) == digest:
            os.utime(dest / name, ns=(written[name], written[name]))


def _dress(dest: Path, ours: Queue, repo: Path | None, base: str, key: str) -> None:
    """Link and patch a pristine copy, then stamp it; without `repo`, not with quilt."""
    linked = {}
    patched = _patched_files(ours)
    for name in ours.files:
        file = dest / name
        if file.exists() or file.is_symlink():
            raise RedoubtError(
                f"kernel/{name} is a file that Linux has",
                "what changes an existing file is a patch: move it to patches/",
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        if ours.copied or name in patched:
            # patch does not follow links. A copy is as old as the original, so that make has
            # nothing to do for what has not changed.
            shutil.copy2(ours.kernel / name, file)
            if name not in patched:
                linked[name] = _digest(file)
        else:
            file.symlink_to(ours.kernel / name)
            linked[name] = str(ours.kernel / name)
    if repo is None:
        apply_series(dest, list(ours.patches))
    elif ours.patches:
        _quilt_push(dest, repo)
    _write_stamp(dest, ours, linked, base, key)


def touched_by(ours: Queue) -> list[str]:
    """The files that patches of a queue change or add."""
    return sorted({n for patch in ours.patches for n in _TOUCHED.findall(patch.read_text())})


def _patched_files(ours: Queue) -> list[str]:
    """The files of kernel/ that the patches change."""
    return sorted(set(ours.files) & set(touched_by(ours)))


def _write_stamp(dest: Path, ours: Queue, linked: dict[str, str], base: str, key: str) -> None:
    stamp = {
        "key": {"base": base, "sha256": key},
        "patched": {name: _digest(dest / name) for name in touched_by(ours)},
        "linked": linked,
    }
    partial = dest / (STAMP + ".partial")
    partial.write_text(json.dumps(stamp, indent=1))
    partial.rename(dest / STAMP)


def materialise(
    pristine: Path,
    dest: Path,
    *,
    repo: Path | None = None,
    part: Queue | None = None,
    progress: Progress | None = None,
) -> Path:
    """Make `dest` our tree on top of `pristine`; quick when it is that already.

    With `part` it gets that part of the queue only, and no state of quilt, which knows the whole.

    Raises RedoubtError if a patch does not apply exactly, a file of kernel/ exists in Linux, or
    somebody changed the tree without refreshing the patches.
    """
    with alone("tree"):
        return _materialise(pristine, dest, repo or paths.repo(), part, progress or Silent())


def _materialise(
    pristine: Path, dest: Path, repo: Path, part: Queue | None, progress: Progress
) -> Path:
    ours = part or queue(repo)
    quilted = None if part else repo
    version = identity(pristine)
    base = f"{version} in {pristine}"
    key = _key(pristine, version, ours, repo)

    stamp = _read_stamp(dest)
    if stamp:
        changed = _drift(dest, stamp)
        current = stamp["key"].get("sha256") == key
        if changed and not current and _refreshed(pristine, dest, ours, changed):
            # Edited with quilt, and refreshed: the tree is only ahead of its stamp.
            links = set(ours.files) - set(_patched_files(ours))
            same = stamp["key"].get("base") == base and set(stamp["linked"]) == links
            _write_stamp(dest, ours, stamp["linked"], base, key if same else "")
            return _materialise(pristine, dest, repo, part, progress)
        if changed:
            names = "".join(f"\n    {name}" for name in changed[:10])
            raise RedoubtError(
                f"{dest} has changes that are not in patches/:{names}",
                f"keep them with `quilt refresh` there, or drop them: rm {dest / STAMP}",
            )
        if current:
            return dest

    with progress.step("Applying the patches"):
        if stamp and stamp["key"].get("base") == base:
            written = _undo(pristine, dest, stamp)
            _dress(dest, ours, quilted, base, key)
            _redress(dest, stamp["patched"], written)
            return dest

        # Nothing, or something unfinished: start from a fresh copy.
        dest.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=dest.parent, prefix=UNFINISHED[:-1]) as name:
            partial = Path(name) / "tree"
            partial.mkdir()
            # The history may be larger than the kernel, and would show in the version of a build.
            files = sorted(file for file in pristine.iterdir() if file.name != ".git")
            run_logged(
                ["cp", "-a", "--reflink=auto", "-t", partial, *files],
                dest.parent / "log" / "tree.log",
                what="copying the kernel",
            )
            _dress(partial, ours, quilted, base, key)
            if dest.exists():
                dest.rename(Path(name) / "old")
            partial.rename(dest)
    return dest
