# SPDX-License-Identifier: GPL-2.0-only
"""kernel/, patches/ and patches/topics say the same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest
from conftest import REAL_BUILD

from redoubt.core import paths
from redoubt.linux import topics, tree
from redoubt.ship import commits

REPO = paths.repo()
TOPICS = topics.load(REPO)
MAILS = [patch for topic in TOPICS for patch in topic.mails]

# More lines than a reviewer wants to see at once; tests and documentation may have more.
LIMIT = 800


def present() -> set[str]:
    kernel = REPO / "kernel"
    return {str(file.relative_to(kernel)) for file in kernel.rglob("*") if file.is_file()}


def test_each_file_arrives_with_one_patch() -> None:
    listed = [file for patch in MAILS for file in patch.files]
    assert [name for name, count in Counter(listed).items() if count > 1] == []
    assert present() == set(listed)


def test_topics_and_series_have_every_patch() -> None:
    patches = REPO / "patches"
    assert sorted(map(str, MAILS)) == sorted(
        str(file.relative_to(patches)) for file in patches.rglob("*.patch")
    )
    assert [str(patch) for patch in MAILS if patch.changes] == [
        str(file.relative_to(patches)) for file in tree.queue(REPO).patches
    ]


def test_what_is_said_beside_a_patch_is_of_that_patch() -> None:
    names = {topic.name for topic in TOPICS}
    mails = {patch.path.with_suffix(""): patch for patch in MAILS}
    found = list((REPO / "patches").rglob("*.without-*"))
    assert found
    for file in found:
        patch = mails[file.with_suffix("")]
        assert file.suffix.removeprefix(".without-") in names
        changed = topics.touched(patch.path) if patch.changes else set()
        assert topics.touched(file) <= changed | set(patch.files)


@pytest.mark.parametrize(
    "patch", [patch for topic in TOPICS if not topic.local for patch in topic.mails], ids=str
)
def test_a_mail_can_be_read(patch: topics.Patch) -> None:
    text = commits.message(patch.path)
    assert max(map(len, text.splitlines())) <= 75
    added = len(re.findall(r"^\+(?!\+\+ )", patch.path.read_text(), re.MULTILINE))
    for name in patch.files:
        path = PurePosixPath(name)
        test = path.stem.endswith("_test") or {"tests", "selftests"} & set(path.parts)
        if not test and path.parts[0] != "Documentation":
            added += len((REPO / "kernel" / name).read_text().splitlines())
    assert added <= LIMIT


def test_there_is_one_mail_for_each_step_a_reviewer_takes() -> None:
    mails = [patch for topic in TOPICS if not topic.local for patch in topic.mails]
    assert len(mails) >= 45
    exported = [topic for topic in TOPICS if not topic.local]
    assert all((REPO / "patches" / topic.name / "COVER").is_file() for topic in exported)
    local = [topic.name for topic in TOPICS if topic.local]
    assert local == ["bbml3", "walker", "mktme-bugs", "vuln", "bench"]


@pytest.mark.parametrize("patch", tree.queue(REPO).patches, ids=lambda patch: patch.name)
def test_a_patch_only_changes_files(patch: Path) -> None:
    text = patch.read_text()
    assert re.search(r"^\+\+\+ \S", text, re.MULTILINE)
    assert not re.search(r"^(---|\+\+\+) /dev/null", text, re.MULTILINE)
    assert not re.search(r"^(new file|deleted file|rename|copy|old mode|new mode) ", text, re.M)
    assert not re.search(r"^(---|\+\+\+) .*(1970-01-01|Jan +1 1970)", text, re.MULTILINE)


@pytest.mark.guest
@pytest.mark.skipif(not (REAL_BUILD / "src/Kbuild").exists(), reason="no source: redoubt source")
def test_no_file_of_ours_is_one_that_linux_has() -> None:
    assert [name for name in present() if (REAL_BUILD / "src" / name).exists()] == []


@pytest.mark.guest
@pytest.mark.skipif(not (REAL_BUILD / "src/Kbuild").exists(), reason="no source: redoubt source")
def test_each_patched_file_is_one_that_linux_has() -> None:
    """Or, in a topic that is never exported, one of ours."""
    local = {topic.name for topic in TOPICS if topic.local}
    for patch in tree.queue(REPO).patches:
        roots = [REAL_BUILD / "src", *([REPO / "kernel"] if patch.parent.name in local else [])]
        for name in tree._TOUCHED.findall(patch.read_text()):
            assert any((root / name).is_file() for root in roots), f"{patch.name}: {name}"
