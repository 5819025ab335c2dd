# SPDX-License-Identifier: GPL-2.0-only
"""scripts/man: a page of the tool and of each verb, by help2man, from what --help prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import Sandbox

from redoubt.cli import common
from redoubt.core import paths

SCRIPT = paths.repo() / "scripts" / "man"
VERBS = [str(command.name) for command in common.app.registered_commands]
HELP2MAN = """\
for word; do
	case $word in
	--version-string=*) version=${word#--version-string=} ;;
	--output=*) output=${word#--output=} ;;
	--name=*) name=${word#--name=} ;;
	--help-option=*) option=${word#--help-option=} ;;
	esac
done
[ ! -e "$CONTROL/broken" ] || [ "$option" != "build --help" ] || exit 1
echo "$version $option: $name" > "$output"
"""


@pytest.fixture
def tool(sandbox: Sandbox) -> Path:
    """A tool that knows its verbs as ours does, and answers faster."""
    sandbox.env["TYPER_USE_RICH"] = "0"
    (sandbox.control / "help").write_text(sandbox.run("--help").out)
    sandbox.program("help2man", HELP2MAN)
    answers = (
        "case $1 in",
        '--help) cat "$CONTROL/help" ;;',
        "--version) echo redoubt 1.2.3 '(commit 0123)' ;;",
        '*) printf "Usage: tool %s\\n\\n  Does what\\n  %s does.\\n\\n  More.\\n" "$1" "$1" ;;',
        "esac\n",
    )
    return sandbox.program("tool", "\n".join(answers))


def man(sandbox: Sandbox, tool: Path, into: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in sandbox.env.items() if name != "TYPER_USE_RICH"}
    return subprocess.run([SCRIPT, tool, into], env=env, capture_output=True, text=True)


def test_each_verb_has_a_page(sandbox: Sandbox, tool: Path) -> None:
    into = sandbox.where / "man"
    done = man(sandbox, tool, into)
    assert done.returncode == 0, done.stderr
    pages = {file.name: file.read_text() for file in into.iterdir()}
    assert set(pages) == {"redoubt.1", *(f"redoubt-{verb}.1" for verb in VERBS)}
    assert pages["redoubt-build.1"] == "1.2.3 build --help: Does what build does\n"
    about = "Fetch, build, boot, attack, check and measure a hardened Linux kernel"
    assert pages["redoubt.1"] == f"1.2.3  --help: {about}\n"


def test_pages_are_replaced_as_a_whole_or_not_at_all(sandbox: Sandbox, tool: Path) -> None:
    into = sandbox.where / "man"
    into.mkdir()
    (into / "redoubt-gone.1").touch()
    (sandbox.control / "broken").touch()
    assert man(sandbox, tool, into).returncode == 1
    assert [file.name for file in sandbox.where.glob("man*")] == ["man"]
    assert [file.name for file in into.iterdir()] == ["redoubt-gone.1"]
    (sandbox.control / "broken").unlink()
    assert man(sandbox, tool, into).returncode == 0
    assert not (into / "redoubt-gone.1").exists()


def test_what_is_missing_is_said(sandbox: Sandbox, tool: Path) -> None:
    (sandbox.where / "bin/help2man").unlink()
    sandbox.env["PATH"] = str(sandbox.where / "bin")
    done = man(sandbox, tool, sandbox.where / "man")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1] == "    scripts/prerequisites man"
