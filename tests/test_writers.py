# SPDX-License-Identifier: GPL-2.0-only
"""Stores to page tables around the helpers: what the semantic patch finds, and what is known."""

import shutil
from pathlib import Path

import pytest

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.ship import writers

SOURCE = """
static void by_helper(pte_t *ptep, pte_t pte) { set_pte(ptep, pte); }
static void plain(pte_t *ptep, pte_t pte) { *ptep = pte; }
static void member(p4d_t *p4d) { p4d->p4d = p4d->p4d & ~8UL; }
static void once(pmd_t *pmdp, pmd_t pmd) { WRITE_ONCE(*pmdp, pmd); }
static pte_t local(pte_t pte) { pte_t other = pte; other.pte |= 1; return other; }
"""


def test_entries_need_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "writers.toml"
    file.write_text('[store]\n"mm/a.c:f" = " "\n')
    with pytest.raises(RedoubtError, match=r"mm/a\.c:f has no reason"):
        writers.known(file)
    assert writers.known(tmp_path / "missing.toml") == {}


def test_ours_have_reasons() -> None:
    assert writers.known(paths.repo() / "configs" / "writers.toml")


def test_only_sources_that_name_an_entry_are_read(tmp_path: Path) -> None:
    (tmp_path / "mm").mkdir()
    (tmp_path / "mm" / "entry.c").write_text("pte_t *p;\n")
    (tmp_path / "mm" / "other.c").write_text("int pte_table;\n")
    assert writers.candidates(tmp_path) == ["mm/entry.c"]


@pytest.mark.skipif(not shutil.which("spatch"), reason="needs spatch (scripts/prerequisites lint)")
def test_stores_are_found(tmp_path: Path) -> None:
    (tmp_path / "mm").mkdir()
    (tmp_path / "mm" / "some.c").write_text(SOURCE)
    found = writers.stores(
        tmp_path, ["mm/some.c"], paths.repo() / "kernel" / writers.SEMANTIC_PATCH
    )
    assert found == {"mm/some.c:plain": 3, "mm/some.c:member": 4, "mm/some.c:once": 5}
