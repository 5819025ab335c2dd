# SPDX-License-Identifier: GPL-2.0-only
"""The ways around protected page tables, from configs/threat-model.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.ship import templates

# In the repository.
FILE = Path("configs", "threat-model.toml")
OPEN, CLOSED = "open", "closed"
_KINDS = {"attack": "attack", "kunit": "KUnit", "selftest": "selftest"}


@dataclass(frozen=True)
class Bypass:
    """A way around, and what closes it or why it is open; the file explains the fields."""

    id: str
    group: str
    title: str
    status: str
    shown_by: tuple[str, ...]
    closed_by: str = ""
    why: str = ""
    limits: str = ""
    finding: str = ""


@dataclass(frozen=True)
class OutOfScope:
    """A thing that the protection is not meant to stop."""

    title: str
    why: str
    shown_by: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """All of the file."""

    bypasses: tuple[Bypass, ...]
    out_of_scope: tuple[OutOfScope, ...]


def load(repo: Path) -> Model:
    """Read the file of a repository.

    Raises RedoubtError if it is missing, has a field that is unknown or lacks one.
    """
    file = repo / FILE
    try:
        value = tomllib.loads(file.read_text(encoding="utf-8"))
        bypasses = tuple(Bypass(**_fields(one)) for one in value["bypass"])
        out_of_scope = tuple(OutOfScope(**_fields(one)) for one in value["out_of_scope"])
    except OSError as error:
        raise RedoubtError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise RedoubtError(f"{file} is damaged: {error}") from error
    for one in bypasses:
        if {OPEN: bool(one.why), CLOSED: bool(one.closed_by)}.get(one.status) is not True:
            raise RedoubtError(f"{file}: {one.id} must be closed by something or say why it is not")
    return Model(bypasses, out_of_scope)


def _fields(one: dict[str, Any]) -> dict[str, Any]:
    return one | {"shown_by": tuple(one["shown_by"])}


def markdown(model: Model) -> str:
    """The part of docs/threat-model.md that has a heading for each way around."""
    return templates.render("threats.md.j2", model=model, tests=_tests)


def _tests(names: tuple[str, ...]) -> str:
    if not names:
        return "No test."
    found: dict[str, list[str]] = {}
    for name in names:
        kind, _, rest = name.partition(" ")
        label = _KINDS.get(kind, "")
        found.setdefault(label, []).append(f"`{rest}`" if label else f"`{name}`")
    told = (f"{label} {', '.join(those)}".strip() for label, those in found.items())
    return f"Tests: {'; '.join(told)}."
