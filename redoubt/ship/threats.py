# SPDX-License-Identifier: GPL-2.0-only
"""The ways around protected page tables, from configs/threat-model.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError

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
    return "\n".join(_lines(model)) + "\n"


def _lines(model: Model) -> Iterator[str]:
    group = ""
    for one in model.bypasses:
        if one.group != group:
            group = one.group
            yield from (f"## {group}", "")
        yield from (f"### {one.id}: {one.title}", "")
        text = f"**Open.** {one.why}" if one.status == OPEN else f"**Closed.** {one.closed_by}"
        parts = (text, one.limits, _shown(one.shown_by), one.finding and f"({one.finding})")
        yield from (" ".join(filter(None, parts)), "")
    yield from ("## Out of scope", "")
    for other in model.out_of_scope:
        shown = _shown(other.shown_by) if other.shown_by else ""
        yield f"- **{other.title}.** {other.why} {shown}".rstrip()


def _shown(names: tuple[str, ...]) -> str:
    """The tests, each kind named once."""
    if not names:
        return "No test."
    found: dict[str, list[str]] = {}
    for name in names:
        kind, _, rest = name.partition(" ")
        label = _KINDS.get(kind, "")
        found.setdefault(label, []).append(f"`{rest}`" if label else f"`{name}`")
    told = (f"{label} {', '.join(those)}".strip() for label, those in found.items())
    return f"Tests: {'; '.join(told)}."
