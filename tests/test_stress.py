# SPDX-License-Identifier: GPL-2.0-only
"""What stress leaves out, and that a kernel which could have done it is not let off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import WALK
from guests import machine, say

from redoubt.core import paths
from redoubt.core.progress import Silent
from redoubt.linux import build
from redoubt.linux.build import Build
from redoubt.machine import guest
from redoubt.machine.boot import Machine
from redoubt.targets import TARGETS, UM, X86_64, get_variant
from redoubt.trial import check, shortage

ALWAYS = {"cred", "ptrace", "key"}
KINDS = {"huge", "collapse", "swap", "ldt", "module", "cpu", *ALWAYS}


def configured(where: Path, *fragments: str, cpus: int = 2) -> Machine:
    """A machine with a kernel whose configuration is these fragments."""
    (where / ".config").write_text("".join(build.fragment(one).read_text() for one in fragments))
    return machine(where=where, cpus=cpus)


def checked(machine: Machine, last: str, monkeypatch: pytest.MonkeyPatch) -> check.Report:
    """What the checker makes of a guest whose stress ends with this line, or with several."""
    say(monkeypatch, (*WALK, *last.split("\n"), *WALK))
    return check.run(machine, get_variant(X86_64, "on"), 10, Silent())


def test_x86_64_can_do_everything_and_um_little_of_it(tmp_path: Path) -> None:
    assert check.possible(configured(tmp_path, *X86_64.fragments)) == KINDS
    assert check.possible(configured(tmp_path, *X86_64.fragments, cpus=1)) == KINDS - {"cpu"}
    assert check.possible(configured(tmp_path, *UM.fragments)) == ALWAYS


def test_each_kind_is_an_operation_of_the_guest() -> None:
    sources = (paths.repo() / "guest" / "stress").glob("stress-*.c")
    named = {name for one in sources for name in re.findall(r'\.name = "(\w+)"', one.read_text())}
    assert named == set(check._OPTIONS) == KINDS


def test_what_is_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "@stress: ops=5 refused=0 errors=0 left-out=huge,collapse,swap"
    report = checked(configured(tmp_path, *UM.fragments), said, monkeypatch)
    assert (report.operations, report.stress_errors) == (5, 0)
    assert report.left_out == ("huge", "collapse", "swap")
    assert (report.missing, report.ok) == ((), True)


def test_what_was_configured_must_not_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = configured(tmp_path, *X86_64.fragments, cpus=1)
    last = "@stress: ops=5 refused=0 errors=0 left-out=swap,cpu"
    report = checked(one, last, monkeypatch)
    assert (report.missing, report.ok) == (("swap",), False)
    two = configured(tmp_path, *X86_64.fragments)
    assert checked(two, last, monkeypatch).missing == ("swap", "cpu")
    assert checked(two, "@stress: ops=5 refused=0 errors=0", monkeypatch).ok


@pytest.mark.parametrize("last", ["", "@stress: ops=5 refused=1 errors=0", "@stress: ops=5"])
def test_stress_that_does_not_say_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    assert not checked(configured(tmp_path, "base"), last, monkeypatch).ok


def test_what_went_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = (
        "stress: run_swap:91: not so: got == 1 (errno 0: Success)",
        "stress: a child ended with 0xb",
        "stress: cpu never happened",
    )
    counts = "stress: tables=1 map=4 cpu=0"
    said = "\n".join([*wrong[:2], counts, wrong[2], "@stress: ops=5 refused=0 errors=2"])
    report = checked(configured(tmp_path, "base"), said, monkeypatch)
    assert (report.wrong, report.stress_errors, report.ok) == (wrong, 2, False)


def test_shortage_reads_the_same_line() -> None:
    match = shortage._STRESS.match("@stress: ops=5 refused=7 errors=0 left-out=swap,cpu")
    assert match
    assert match.groups() == ("5", "7", "0")


def test_a_module_gets_into_the_guest(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    (programs / "attacks").mkdir(parents=True)
    (programs / "init").touch()
    built = Build(X86_64, tmp_path, tmp_path, tmp_path)
    assert built.modules == ()
    module = tmp_path / build.MODULE
    module.parent.mkdir(parents=True)
    module.write_text("code")
    root = guest.root_directory(programs, tmp_path / "root", ["/bin/x"], built.modules)
    assert (root / "lib/modules" / module.name).read_text() == "code"


def test_the_module_is_one_of_every_kernel_that_has_modules() -> None:
    for target in TARGETS.values():
        wanted: dict[str, str] = {}
        for name in target.fragments:
            wanted |= build.options(build.fragment(name).read_text())
        expected = "m" if wanted["CONFIG_MODULES"] == "y" else "n"
        assert wanted.get("CONFIG_NLS_ASCII", "n") == expected
