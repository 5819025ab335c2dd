# SPDX-License-Identifier: GPL-2.0-only
"""The threat model names tests and attacks that exist, and hides nothing from the cover letter."""

from __future__ import annotations

import re

import pytest

from redoubt.core import paths

TEXT = (paths.repo() / "docs" / "threat-model.md").read_text()
ROWS = [line.strip("|").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]
# What stands behind the word, up to the end of the sentence.
KUNIT = re.compile(r"KUnit:? ((?:[^.;]|\.\w)*)")
ATTACK = re.compile(r"attack `([\w-]+)`")
SOURCES = "\n".join(
    file.read_text()
    for file in (paths.repo() / "kernel").rglob("*.c")
    if file.name.endswith("_test.c")
)


def named(pattern: re.Pattern[str]) -> list[str]:
    return [name for found in pattern.findall(TEXT) for name in re.findall(r"`([^`]+)`", found)]


def test_it_is_one_table() -> None:
    # The cover letter is made of the first.
    assert TEXT.count("| bypass | answer |") == 1
    assert len(ROWS) > 40
    assert [row for row in ROWS if len(row) != 2] == []


def test_what_is_open_is_said_first() -> None:
    # Only then it stands in the cover letter.
    for bypass, answer in ROWS:
        assert "**Open" not in answer.removeprefix("**Open.**"), bypass
        assert not re.search(r"\*\*open", answer), bypass


def test_tests_that_are_named_exist() -> None:
    names = [name for name in named(KUNIT) if re.fullmatch(r"\w+", name)]
    assert len(names) > 20
    for name in names:
        known = rf"KUNIT_CASE\w*\({name}[,)]|\.name = \"{name}\""
        assert re.search(known, SOURCES), name


@pytest.mark.parametrize("attack", sorted(set(ATTACK.findall(TEXT))))
def test_attacks_that_are_named_exist(attack: str) -> None:
    assert (paths.repo() / "guest" / "attacks" / f"{attack}.c").is_file()
