# SPDX-License-Identifier: GPL-2.0-only
"""Documents that are made of a template; all templates stand beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render(name: str, **values: Any) -> str:
    """The document that a template makes of some values; it ends with one newline.

    Raises TypeError if a value lacks what the template needs of it.
    """
    # Loaded here as few verbs need it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return made.get_template(name).render(values).strip() + "\n"
    except UndefinedError as error:
        raise TypeError(error.message) from error
