# SPDX-License-Identifier: GPL-2.0-only
"""scripts/prerequisites with machines made up of a directory of programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
SCRIPT = REPO / "scripts" / "prerequisites"
TABLE = REPO / "scripts" / "prerequisites.txt"

GROUPS = {
    "base", "no-pku", "deb", "deb-arm64", "deb-install", "lint", "selftests", "x86_64",
    "arm64", "bpf", "image", "man", "own",
}  # fmt: skip

# What the script itself uses, and Debian always has.
ESSENTIAL = ("sh", "env", "dirname", "grep", "true")


class Machine:
    """A machine that has only the programs it is given."""

    def __init__(self, top: Path) -> None:
        self.bin = top / "bin"
        self.bin.mkdir()
        self.log = top / "apt.log"
        self.table = top / "table"
        for name in ESSENTIAL:
            path = shutil.which(name)
            assert path
            (self.bin / name).symlink_to(path)
        self.program("id", "echo 1000")

    def program(self, name: str, text: str = "true") -> None:
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def apt(self, install: str) -> None:
        """An apt-get that logs its arguments and does `install` when asked to install."""
        self.program(
            "apt-get", f'echo "$@" >>{self.log}\ncase $1 in install) {install} ;; esac\ntrue'
        )

    def makes(self, name: str) -> str:
        """The command that makes a program appear, as an installation does."""
        true = shutil.which("true")
        ln = shutil.which("ln")
        return f"{ln} -s {true} {self.bin / name}"

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments],
            env={
                "PATH": str(self.bin),
                "PYTHON": sys.executable,
                "REDOUBT_PREREQUISITES": str(self.table),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.table.write_text(
        "# a comment\n\nbase frobber frob-pkg frobs\nbase frobd frob-pkg frobs more\n"
        "lint linter lint-pkg only lint\n"
    )
    return made


def test_nothing_missing_is_silent(machine: Machine) -> None:
    machine.program("frobber")
    machine.program("frobd")
    machine.apt("true")
    ran = machine.run()
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert machine.asked() == []


APT = "apt-get update && apt-get install --no-install-recommends -y frob-pkg"


def test_a_user_is_told_the_one_command(machine: Machine) -> None:
    machine.apt("true")
    ran = machine.run()
    assert ran.returncode == 1
    assert "missing: frobber frobd" in ran.stderr
    assert ran.stderr.splitlines()[-1] == f"redoubt: run as root: {APT}"
    # Whose sudo asks for a password is told to use it.
    machine.program("sudo", "exit 1")
    ran = machine.run()
    assert ran.returncode == 1
    assert "run: sudo apt-get update && sudo apt-get install" in ran.stderr
    assert machine.asked() == []


def test_no_debian(machine: Machine) -> None:
    ran = machine.run()
    assert ran.returncode == 1
    assert "no apt-get; on Debian these come from: frob-pkg" in ran.stderr


@pytest.mark.parametrize("program", [("id", "echo 0"), ("sudo", 'shift; exec "$@"')])
def test_root_and_whose_sudo_does_not_ask_install(
    machine: Machine, program: tuple[str, str]
) -> None:
    machine.apt(f"{machine.makes('frobber')}; {machine.makes('frobd')}")
    machine.program(*program)
    ran = machine.run()
    assert ran.returncode == 0, ran.stderr
    update, install = machine.asked()
    assert update.startswith("update")
    assert install.startswith("install --no-install-recommends -y frob-pkg ")
    assert machine.run().returncode == 0
    assert len(machine.asked()) == 2


def test_packages_of_another_architecture(machine: Machine) -> None:
    machine.table.write_text("base frobber frob-pkg:vax frobs\n")
    machine.apt(machine.makes("frobber"))
    machine.program("dpkg", f'echo dpkg "$@" >>{machine.log}')
    ran = machine.run()
    assert ran.stderr.splitlines()[-1] == (
        f"redoubt: run as root: dpkg --add-architecture vax && {APT}:vax"
    )
    assert machine.asked() == []
    machine.program("id", "echo 0")
    ran = machine.run()
    assert ran.returncode == 0, ran.stderr
    tell, update, install = machine.asked()
    assert tell == "dpkg --add-architecture vax"
    assert update.startswith("update")
    assert install.startswith("install --no-install-recommends -y frob-pkg:vax ")


@pytest.mark.parametrize(
    ("makes", "says"),
    [(None, "apt-get failed"), ("frobber", "still missing after the installation: frobd")],
)
def test_an_installation_that_does_not_help(machine: Machine, makes: str | None, says: str) -> None:
    machine.apt(machine.makes(makes) if makes else "exit 100")
    machine.program("id", "echo 0")
    ran = machine.run()
    assert ran.returncode == 1
    assert says in ran.stderr


def test_a_group_is_asked_for_by_each_of_its_names(machine: Machine) -> None:
    machine.table.write_text("base,lint both both-pkg x\nlint,x86_64 shared shared-pkg x\n")
    assert "missing: both\n" in machine.run().stderr
    machine.program("both")
    assert machine.run().returncode == 0
    assert machine.run("lint").returncode == 1
    for words in (("lint",), ("x86_64",), ("x86_64", "lint")):
        assert "missing: shared\n" in machine.run(*words).stderr
    machine.program("shared")
    assert machine.run("x86_64", "lint").returncode == 0


def test_report(machine: Machine) -> None:
    machine.program("frobber")
    ran = machine.run("--report")
    assert ran.returncode == 0
    assert ran.stdout.splitlines() == [
        "base\tfrobber\tfrob-pkg\tyes\tfrobs",
        "base\tfrobd\tfrob-pkg\tno\tfrobs more",
        "lint\tlinter\tlint-pkg\tno\tonly lint",
    ]


def test_a_library_is_looked_for_with_gcc(machine: Machine) -> None:
    machine.table.write_text("base lib:libx.a x-dev links\n")
    machine.program("gcc", "echo libx.a")
    assert "\tno\t" in machine.run("--report").stdout
    machine.program("gcc", "echo /usr/lib/libx.a")
    assert "\tyes\t" in machine.run("--report").stdout


@pytest.mark.parametrize("group", sorted(GROUPS - {"base", "no-pku"}))
def test_each_group_can_be_asked_for(machine: Machine, group: str) -> None:
    machine.table.write_text(f"{group} frobber frob-pkg frobs\n")
    machine.program("frobber")
    ran = machine.run(group)
    assert (ran.returncode, ran.stderr) == (0, "")
    (machine.bin / "frobber").unlink()
    assert "missing: frobber" in machine.run(group).stderr


def test_unknown_argument(machine: Machine) -> None:
    ran = machine.run("--nonsense")
    assert ran.returncode == 2
    assert "--nonsense" in ran.stderr


def test_every_group_can_be_asked_for(machine: Machine) -> None:
    machine.table.write_text("")
    ran = machine.run(*sorted(GROUPS - {"base", "no-pku"}))
    assert (ran.returncode, ran.stderr) == (0, "")


def test_python_is_recent_enough() -> None:
    python = subprocess.check_output([SCRIPT, "--python"], text=True).strip()
    code = "import sys, venv, ensurepip; print(sys.version_info >= (3, 11))"
    assert subprocess.check_output([python, "-c", code], text=True) == "True\n"


def test_an_old_python_is_passed_over(machine: Machine) -> None:
    machine.program("oldpython", "exit 1")
    env = {**os.environ, "PYTHON": str(machine.bin / "oldpython")}
    assert "oldpython" not in subprocess.check_output([SCRIPT, "--python"], env=env, text=True)


def test_the_table_is_well_formed() -> None:
    lines = [line.split(None, 3) for line in TABLE.read_text().splitlines()]
    entries = [words for words in lines if words and not words[0].startswith("#")]
    assert len(entries) > 10
    for words in entries:
        assert len(words) == 4, words
        assert {*words[0].split(",")} <= GROUPS, words
    things = [words[1] for words in entries]
    assert len(set(things)) == len(things)
