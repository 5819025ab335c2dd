# SPDX-License-Identifier: GPL-2.0-only
"""The threat model names tests, attacks and verbs that exist, and every attack there is."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from redoubt.cli import main
from redoubt.core import paths
from redoubt.ship import threats

MODEL = threats.load(paths.repo())
NAMED = sorted({name for one in (*MODEL.bypasses, *MODEL.out_of_scope) for name in one.shown_by})
ATTACKS = paths.repo() / "guest" / "attack" / "attacks"


def sources(pattern: str) -> str:
    return "\n".join(file.read_text() for file in (paths.repo() / "kernel").rglob(pattern))


KUNIT = set(re.findall(r"KUNIT_CASE\w*\((\w+)", sources("*_test.c")))
SELFTESTS = set(
    re.findall(r"^TEST(?:_F)?\((?:\w+, )?(\w+)\)", sources("tools/**/*.c"), re.MULTILINE)
)
VERBS = get_command(main.app).commands  # type: ignore[attr-defined]


def test_ids_are_unique() -> None:
    ids = [one.id for one in MODEL.bypasses]
    assert len(ids) == len(set(ids)) > 40
    assert [one for one in ids if not re.fullmatch(r"[a-z0-9-]+", one)] == []


def test_groups_are_not_scattered() -> None:
    groups = [one.group for one in MODEL.bypasses]
    assert groups == sorted(groups, key=groups.index)


@pytest.mark.parametrize("name", NAMED)
def test_what_shows_it_exists(name: str) -> None:
    kind, _, rest = name.partition(" ")
    if kind == "attack":
        assert (ATTACKS / f"{rest}.c").is_file()
    elif kind == "redoubt":
        assert rest.split()[0] in VERBS
    else:
        assert rest in {"kunit": KUNIT, "selftest": SELFTESTS}[kind]


def test_every_attack_is_named() -> None:
    attacks = {file.stem for file in ATTACKS.glob("*.c") if "int main(" in file.read_text()}
    assert len(attacks) > 10
    assert {f"attack {name}" for name in attacks} <= set(NAMED)


def test_an_attack_is_blocked_where_the_way_is_closed() -> None:
    listed = (paths.repo() / "guest" / "attack" / "attack.c").read_text()
    in_scope = dict(re.findall(r'\{ "([\w-]+)", (true|false), PRIZE', listed))
    for one in MODEL.bypasses:
        for name in one.shown_by:
            kind, _, attack = name.partition(" ")
            if kind == "attack":
                assert in_scope[attack] == ("true" if one.status == threats.CLOSED else "false")
