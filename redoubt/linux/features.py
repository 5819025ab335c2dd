# SPDX-License-Identifier: GPL-2.0-only
"""The features of the patches by the names that users give them, see configs/features.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from redoubt.core.errors import RedoubtError, UsageError
from redoubt.targets import Target

# Without it there is none of the others that use protection keys.
DEFAULT = "pgtables"


@dataclass(frozen=True)
class Feature:
    """One feature: fields of configs/features.toml, with options as Kconfig names them."""

    about: str
    option: str
    needs: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    on: Mapping[str, list[str]] = field(default_factory=dict)


def load(repo: Path, target: Target) -> dict[str, Feature]:
    """The features that a target can have, by name; RedoubtError if the file is damaged."""
    file = repo / "configs" / "features.toml"
    try:
        known = {
            name: Feature(**{**found, "needs": tuple(found.get("needs", ()))})
            for name, found in tomllib.loads(file.read_text(encoding="utf-8")).items()
        }
    except OSError as error:
        raise RedoubtError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, AttributeError, TypeError) as error:
        raise RedoubtError(f"{file} is damaged: {error}") from error
    return {name: one for name, one in known.items() if not one.only or target.arch in one.only}


def named(repo: Path, target: Target, texts: Iterable[str]) -> tuple[str, ...]:
    """The features of names in texts, separated by commas, and those they need.

    Raises UsageError, which lists what there is, for a name that the target has no feature of.
    """
    known = load(repo, target)
    asked = [name.strip() for text in texts for name in text.split(",")]
    if wrong := [name for name in asked if name not in known]:
        listed = ", ".join(f"{name} ({one.about})" for name, one in known.items())
        raise UsageError(f"target {target.name} has no feature '{wrong[0]}'", f"features: {listed}")
    found: list[str] = []
    for name in asked:
        _add(known, name, found)
    return tuple(found)


def _add(known: Mapping[str, Feature], name: str, found: list[str]) -> None:
    for needed in known[name].needs:
        _add(known, needed, found)
    if name not in found:
        found.append(name)


def lines(repo: Path, target: Target, names: Collection[str] | None) -> Iterator[str]:
    """A fragment that has these features on and all others off.

    With None it has protected page tables, and says nothing of the others: Kconfig decides.
    """
    for name, one in load(repo, target).items():
        if name in ((DEFAULT,) if names is None else names):
            for option in (*one.on.get(target.arch, ()), one.option):
                yield f"CONFIG_{option}=y"
        elif names is not None:
            yield f"# CONFIG_{one.option} is not set"
