# SPDX-License-Identifier: GPL-2.0-only
"""kernel/, patches/ and patches/topics say the same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import REAL_BUILD

from redoubt.core import paths
from redoubt.linux import topics, tree

REPO = paths.repo()
TOPICS = (REPO / "patches/topics").read_text()


def listed() -> list[str]:
    return [
        line.strip()
        for line in TOPICS.splitlines()
        if line.strip() and not line.startswith(("#", "topic "))
    ]


def present() -> set[str]:
    kernel = REPO / "kernel"
    return {str(file.relative_to(kernel)) for file in kernel.rglob("*") if file.is_file()}


def test_each_file_belongs_to_one_topic() -> None:
    assert [name for name, count in Counter(listed()).items() if count > 1] == []
    assert present() - set(listed()) == set()


def test_each_listed_file_exists() -> None:
    assert listed()
    assert set(listed()) - present() == set()


def test_the_series_names_every_patch_once_in_the_order_of_topics() -> None:
    queue = tree.queue(REPO)
    names = [str(patch.relative_to(REPO / "patches")) for patch in queue.patches]
    found = {
        str(file.relative_to(REPO / "patches")) for file in (REPO / "patches").rglob("*.patch")
    }
    assert sorted(names) == sorted(found)
    order = re.findall(r"^topic (\S+)", TOPICS, re.MULTILINE)
    assert [name.split("/")[0] for name in names] == sorted(
        (name.split("/")[0] for name in names), key=order.index
    )
    assert {name.split("/")[0] for name in names} <= set(order)


def test_no_topic_is_empty() -> None:
    assert all(topic.files or topic.patches for topic in topics.load(REPO))


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
    for patch in tree.queue(REPO).patches:
        for name in tree._TOUCHED.findall(patch.read_text()):
            assert (REAL_BUILD / "src" / name).is_file(), f"{patch.name}: {name}"
