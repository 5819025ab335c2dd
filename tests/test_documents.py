# SPDX-License-Identifier: GPL-2.0-only
"""The documents are a site in which each link leads somewhere, and each page is in a list."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import write_tree

from redoubt.core import paths

INDEX = "# Index\n\n```{toctree}\n/README\none\n```\n"
GOOD = {
    "docs/conf.py": (paths.repo() / "docs" / "conf.py").read_text(),
    "docs/index.md": INDEX,
    "docs/one.md": "# One\n\n## A part\n\n[Read me](../README.md), [source](../mm/a.c)\n",
    "README.md": "# Read me\n\n[One](docs/one.md#a-part)\n",
    "mm/a.c": "int a;\n",
    # Built here, and no page.
    "build/left.md": "[nowhere](nowhere.md)\n",
}


def site(repo: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """Build the documents of a repository as `make docs` does, without setting up a .venv."""
    sphinx = f"SPHINX={sys.executable} -m sphinx"
    return subprocess.run(
        ["make", "-f", paths.repo() / "Makefile", "-C", repo, "-o", "setup", "docs", sphinx,
         f"SITE={into}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_ours_are_a_site(tmp_path: Path) -> None:
    built = site(paths.repo(), tmp_path)
    assert built.returncode == 0, built.stderr
    for file in [*paths.repo().glob("*.md"), *(paths.repo() / "docs").rglob("*.md")]:
        page = file.relative_to(paths.repo()).with_suffix(".html")
        assert (tmp_path / page).is_file(), page


def test_a_link_to_a_file_that_is_no_page_leads_to_a_copy(tmp_path: Path) -> None:
    built = site(write_tree(tmp_path / "repo", GOOD), tmp_path / "site")
    assert built.returncode == 0, built.stderr
    (copy,) = (tmp_path / "site").rglob("a.c")
    assert str(copy.relative_to(tmp_path / "site")) in (tmp_path / "site/docs/one.html").read_text()


def test_what_leads_nowhere_fails_each_time(tmp_path: Path) -> None:
    bad = {
        "docs/index.md": INDEX.replace("one", "one\nnone"),
        "docs/one.md": "# One\n\n[page](two.md)\n\n[file](../mm/b.c)\n",
        "docs/alone.md": "# In no list\n",
        "README.md": "# Read me\n\n[heading](docs/one.md#a-part)\n",
    }
    repo = write_tree(tmp_path / "repo", GOOD | bad)
    for _ in range(2):
        built = site(repo, tmp_path / "site")
        assert built.returncode != 0
        for says in (
            "docs/index.md:3: WARNING: toctree contains reference to nonexisting document",
            "docs/one.md:3: WARNING",
            "docs/one.md:5: WARNING",
            "docs/alone.md: WARNING: document isn't included in any toctree",
            "README.md:3: WARNING",
        ):
            assert says in built.stderr
