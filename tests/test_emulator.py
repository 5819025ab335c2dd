# SPDX-License-Identifier: GPL-2.0-only
"""Obtaining, patching and building the emulator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import debian, emulator

PROGRAM = "qemu-system-x86_64"
PATCH = """\
target: Say two

--- a/target/one.c
+++ b/target/one.c
@@ -1 +1 @@
-one
+two
"""
ADDS = """\
target: Add a file

--- /dev/null
+++ b/target/new.c
@@ -0,0 +1 @@
+new
"""
# Unpacks what there is of QEMU: configuring and building only say that they were done.
DPKG_SOURCE = """\
#!/bin/sh
for tree; do :; done
mkdir -p $tree/target $tree/.pc
echo 10.0.13 > $tree/VERSION
echo one > $tree/target/one.c
echo other > $tree/target/other.c
cat > $tree/configure <<'END'
#!/bin/sh
echo configured >> $SAID
END
chmod +x $tree/configure
"""
NINJA = """\
#!/bin/sh
echo built >> $SAID
[ ! -e $SAID.broken ] || exit 1
cd $2 && touch qemu-system-aarch64 qemu-system-x86_64
"""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What the fake programs have done, one a line; the patches are in tmp_path/repo/emulator."""
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for name, text in (("dpkg-source", DPKG_SOURCE), ("ninja", NINJA)):
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    monkeypatch.setattr(emulator, "_script", lambda name: tmp_path / "bin" / name)
    monkeypatch.setattr(paths, "repo", lambda: tmp_path / "repo")
    (tmp_path / "repo/emulator").mkdir(parents=True)
    series(tmp_path, say=PATCH)

    def download(_: debian.Archive, package: str, into: Path) -> Path:
        with (tmp_path / "said").open("a") as log:
            log.write("downloaded\n")
        (into / f"{package}_10.dsc").touch()
        return into / f"{package}_10.dsc"

    monkeypatch.setattr(debian.Archive, "update", lambda self: None)
    monkeypatch.setattr(debian.Archive, "download_source", download)
    return tmp_path / "said"


def series(tmp_path: Path, **patches: str) -> None:
    directory = tmp_path / "repo/emulator"
    for name, text in patches.items():
        (directory / f"{name}.patch").write_text(text)
    (directory / "series").write_text("".join(f"{name}.patch\n" for name in patches))


def test_it_is_built_once(said: Path, tmp_path: Path) -> None:
    program = emulator.ready(PROGRAM, Silent())
    assert program.exists()
    assert said.read_text().split() == ["downloaded", "configured", "built"]
    assert (tmp_path / "build/emulator/tree/target/one.c").read_text() == "two\n"
    assert (tmp_path / "build/emulator/pristine/target/one.c").read_text() == "one\n"
    assert emulator.ready(PROGRAM, Silent()) == program
    assert said.read_text().split() == ["downloaded", "configured", "built"]


def test_asked_for_it_looks_at_what_has_changed_in_the_tree(said: Path) -> None:
    emulator.build(Silent())
    emulator.build(Silent())
    assert said.read_text().split() == ["downloaded", "configured", "built", "built"]


def test_other_patches_change_only_what_differs(said: Path, tmp_path: Path) -> None:
    emulator.build(Silent())
    tree = tmp_path / "build/emulator/tree/target"
    age = {name: (tree / name).stat().st_mtime_ns for name in ("one.c", "other.c")}
    series(tmp_path, say=PATCH, add=ADDS)
    emulator.ready(PROGRAM, Silent())
    assert said.read_text().split()[-1] == "built"
    assert (tree / "new.c").read_text() == "new\n"
    assert {name: (tree / name).stat().st_mtime_ns for name in age} == age
    series(tmp_path, add=ADDS)
    emulator.ready(PROGRAM, Silent())
    assert (tree / "one.c").read_text() == "one\n"
    series(tmp_path, say=PATCH)
    emulator.ready(PROGRAM, Silent())
    assert not (tree / "new.c").exists()
    assert said.read_text().split().count("configured") == 1


def test_a_tree_that_was_not_finished_is_made_again(said: Path, tmp_path: Path) -> None:
    emulator.build(Silent())
    tree = tmp_path / "build/emulator/tree"
    (tree / ".redoubt-stamp").unlink()
    (tree / "target/other.c").write_text("half")
    emulator.build(Silent())
    assert (tree / "target/other.c").read_text() == "other\n"


def test_a_build_that_fails_is_not_taken_for_one(said: Path) -> None:
    emulator.ready(PROGRAM, Silent())
    broken = said.with_name("said.broken")
    broken.touch()
    with pytest.raises(RedoubtError, match="building the emulator failed"):
        emulator.build(Silent())
    with pytest.raises(RedoubtError, match="building the emulator failed"):
        emulator.ready(PROGRAM, Silent())
    broken.unlink()
    assert emulator.ready(PROGRAM, Silent()).exists()


def test_a_source_of_another_version_is_refused(said: Path, tmp_path: Path) -> None:
    emulator.obtain(Silent())
    (tmp_path / "build/emulator/pristine/VERSION").write_text("10.2.0\n")
    with pytest.raises(RedoubtError, match=r"is QEMU 10\.2\.0; the patches are for 10\.0"):
        emulator.build(Silent())


def test_a_patch_that_does_not_exist_is_named(said: Path, tmp_path: Path) -> None:
    (tmp_path / "repo/emulator/say.patch").unlink()
    with pytest.raises(RedoubtError, match=r"emulator/series names say\.patch"):
        emulator.build(Silent())


def test_a_patch_that_does_not_apply_leaves_no_tree(said: Path, tmp_path: Path) -> None:
    series(tmp_path, say=PATCH.replace("-one", "-three"))
    with pytest.raises(RedoubtError, match="does not apply"):
        emulator.build(Silent())
    assert not (tmp_path / "build/emulator/tree").exists()
    assert not list((tmp_path / "build").glob(emulator.UNFINISHED))


@pytest.mark.parametrize("missing", ["dpkg-source", "pixman-1", "libfdt"])
def test_it_says_what_it_takes(
    missing: str, said: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = tmp_path / "bin"
    for name in ("apt-get", "dpkg-source", "pkg-config"):
        (there / name).write_text(f"#!/bin/sh\n[ $2 != {missing} ]\n")
        (there / name).chmod(0o755)
    # It answers with the bare name of a file that it does not find.
    found = "" if missing == "libfdt" else "/lib/"
    (there / "gcc").write_text(f"#!/bin/sh\necho {found}libfdt.so\n")
    (there / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(there))
    (there / missing).unlink(missing_ok=True)
    problem = emulator.lacking()
    assert problem
    assert missing in problem.message
    assert problem.hint == "scripts/prerequisites arm64 x86_64"


def test_nothing_is_lacking_of_one_that_is_built(
    said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.build(Silent())
    monkeypatch.setenv("PATH", "")
    assert emulator.lacking() is None


def test_the_series_has_all_patches() -> None:
    """And each is a mail: a subject, a body that says why, no traces of git."""
    directory = paths.repo() / "emulator"
    assert sorted(emulator.patches()) == sorted(directory.glob("*.patch"))
    for patch in emulator.patches():
        subject, blank, *rest = patch.read_text().splitlines()
        assert ": " in subject
        assert not blank
        assert not rest[0].startswith("---")
        assert not any(line.startswith(("diff ", "index ")) for line in rest)
