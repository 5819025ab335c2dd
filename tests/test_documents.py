# SPDX-License-Identifier: GPL-2.0-only
"""README and docs/: links lead somewhere, README leads to each document, and they stay short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from redoubt.core import paths

README = paths.repo() / "README.md"
DOCS = sorted((paths.repo() / "docs").glob("*.md"))
OTHERS = [paths.repo() / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def anchors(file: Path) -> set[str]:
    """The names of the headings of a document, as those who render it make them."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def links(file: Path) -> list[tuple[Path, str]]:
    """Where the links of a document lead: a file and a heading, which may be empty."""
    found = [match for match in LINK.finditer(file.read_text()) if ":" not in match[1]]
    return [((file.parent / one[1]).resolve() if one[1] else file, one[2] or "") for one in found]


@pytest.mark.parametrize("file", [README, *DOCS, *OTHERS], ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    for there, heading in links(file):
        assert there.exists(), f"{file.name} links to {there}"
        assert not heading or heading in anchors(there), f"{file.name} links to {heading}"


def test_readme_leads_to_each_document() -> None:
    seen: set[Path] = set()
    todo = [README]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo += [there for there, _ in links(file) if there.suffix == ".md"]
    assert {*DOCS, *OTHERS} <= seen
