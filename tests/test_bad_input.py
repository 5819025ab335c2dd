# SPDX-License-Identifier: GPL-2.0-only
"""Each verb, given what does not exist: one message before any work, and nothing left behind."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main
from conftest import Done

from redoubt.cli import common
from redoubt.core import paths
from redoubt.core.process import run_lines
from redoubt.linux import source

Call = Callable[..., Done]
VERBS = vars(typer.main.get_command(common.app))["commands"]
CONFIG = paths.repo() / "configs" / "kernel" / "base.config"

# Judged by places in the kernel's source, so that it has to be there: in test_mutate.py.
LATER = {("mutate", "--only")}
# By verb: arguments, and what is said of them. What a verb alone refuses stands with its own tests.
BAD = {
    "attack": {
        "vax": "unknown target 'vax'", "um --only own-ptx": "no attack 'own-ptx'",
        "um --repeat 0": "--repeat", "um --flavour pink": "no flavour 'pink'",
        "um --host mars": "mars", "um --json /nowhere/r": "cannot write /nowhere/r",
    },
    "audit": {"vax": "unknown target 'vax'", "um --json /nowhere/r": "cannot write /nowhere/r"},
    "bench": {
        "vax": "unknown target 'vax'", "um forc": "forc", "um --kind weight": "weight",
        "um --rounds 0": "--rounds", "um --variant pink": "unknown variant 'pink'",
        "um --seed x": "--seed", "um --arg 'a\nb'": "newline",
        "um --json /nowhere/r": "cannot write /nowhere/r",
    },
    "branch": {
        "--topic asj": "no topic asj", "--onto /nowhere": "no kernel tree", "--try": "--try is for",
        "--onto /etc": "/etc", "--output /etc/passwd": "--output",
    },
    "build": {
        "vax": "unknown target 'vax'", "um --variant pink": "unknown variant 'pink'",
        "um --config /nowhere": "cannot read /nowhere", "um --with asi": "--with is for",
        "um --config /etc/passwd": "sets no option",
        f"um --config {CONFIG} --with asj": "has no feature 'asj'",
    },
    "check": {
        "vax": "unknown target 'vax'", "um --cpus 3": "--cpus", "um --stress -1": "--stress",
        "um --variant pink": "'pink'", "um --host mars": "mars", "um --append 'a\nb'": "newline",
        "um --json /nowhere/r": "cannot write /nowhere/r",
    },
    "conversions": {
        "vax": "unknown target 'vax'", "um": "um", "x86_64 --variant pink": "'pink'",
        "x86_64 --json /nowhere/r": "cannot write /nowhere/r",
    },
    "deb": {
        "vax": "unknown target 'vax'", "um": "um", "x86_64 --config /nowhere": "/nowhere",
        "x86_64 --config small --with asi": "--with is for",
        "x86_64 --tools --install": "--tools makes a package",
        "x86_64 --json /nowhere/r": "cannot write /nowhere/r",
    },
    "diff": {"7.3.4 8.0.1": "8.0.1", "/nowhere 7.3.5": "/nowhere", "7.3.4 /etc": "/etc"},
    "doctor": {"um": "unexpected extra argument"},
    "emulator": {"--mails /etc/passwd": "--mails", "um": "unexpected extra argument"},
    "exits": {
        "vax": "unknown target 'vax'", "um": "um", "x86_64 --times 0": "--times",
        "x86_64 --variant pink": "'pink'", "x86_64 --cpus 0": "--cpus",
        "x86_64 --json /nowhere/r": "cannot write /nowhere/r",
    },
    "flushes": {
        "vax": "unknown target 'vax'", "um": "um", "x86_64-mktme --times 0": "--times",
        "--variant pink": "'pink'", "--json /nowhere/r": "cannot write /nowhere/r",
    },
    "image": {
        "vax": "unknown target 'vax'", "um": "um is no real machine",
        "x86_64 --stress 0": "--stress",
        "x86_64 --kernel /etc/passwd": "is no kernel that x86_64 boots",
        "x86_64 --output /nowhere/a.img": "cannot write /nowhere/a.img",
        "x86_64 --plain /etc/passwd": "--plain",
    },
    "import": {
        "/nowhere/results-x.json": "cannot read /nowhere/results-x.json",
        "/etc/passwd": "passwd is no name of results", "": "Missing argument",
    },
    "kunit": {
        "vax": "unknown target 'vax'", "um a.b.c": "no pattern", "um --flavour pink": "'pink'",
        "um --variant pink": "'pink'", "um --cpus 0": "--cpus", "um --host mars": "mars",
        "um --json /nowhere/r": "cannot write /nowhere/r",
        "um --junit /nowhere/r": "cannot write /nowhere/r",
        "um --ktap /nowhere/r": "cannot write /nowhere/r",
    },
    "linear-map": {
        "vax": "unknown target 'vax'", "um": "the linear map of um",
        "arm64 --json /nowhere/r": "cannot write /nowhere/r",
    },
    "lint": {"vax": "unknown target 'vax'", "um --docs": "--docs checks no objects"},
    "mktme": {
        "vax": "unknown target 'vax'", "um": "um", "--bug bee": "unknown bug 'bee'",
        "--bits 99": "--bits", "--variant pink": "'pink'",
    },
    "mutate": {
        "vax": "unknown target 'vax'", "um --sample 0": "--sample", "um --add": "--add needs",
        "um --seed x": "--seed", "um --host mars": "mars",
        "um --json /nowhere/r": "cannot write /nowhere/r",
    },
    "offcheck": {"vax": "unknown target 'vax'", "um --json /": "is a directory"},
    "oracle": {
        "vax": "unknown target 'vax'", "um": "um", "x86_64 --root square": "square",
        "x86_64 --at home": "home",
        "x86_64 --variant pink": "'pink'", "x86_64 --append 'a\nb'": "newline",
        "x86_64 --json /nowhere/r": "cannot write /nowhere/r",
    },
    "report": {"--out /": "is a directory", "um": "unexpected extra argument"},
    "results": {"um": "unexpected extra argument"},
    "run": {
        "vax": "unknown target 'vax'", "um --kernel /nowhere": "cannot read /nowhere",
        "um --cpus 0": "--cpus", "um --host mars": "mars", "um --share /nowhere": "/nowhere",
        "um --variant pink": "'pink'", "um --memory 1": "--memory", "um --timeout 0": "--timeout",
        "um --append 'a\nb'": "newline", "x86_64 --qemu-opts \"'\"": "--qemu-opts",
    },
    "selftests": {
        "vax": "unknown target 'vax'", "x86_64 thp bpf": "run alone",
        "x86_64 --variant pink": "unknown variant 'pink'",
        "x86_64 --json /nowhere/r": "cannot write /nowhere/r",
    },
    "series": {
        "--topic asj": "no topic asj", "--json r": "--json is for a check", "--each": "--each is",
        "--output /etc/passwd": "--output",
    },
    "source": {"7.3.4": "unexpected extra argument"},
    "stress": {
        "vax": "unknown target 'vax'", "um --minutes 0": "--minutes", "um --flavour pink": "'pink'",
        "um --variant pink": "'pink'", "um --host mars": "mars", "um --append 'a\nb'": "newline",
        "um --json /nowhere/r": "cannot write /nowhere/r",
    },
    "test": {
        "vax": "unknown target 'vax'", "um --only nap": "no step 'nap'", "um --host mars": "mars",
        "um --quick --long": "--quick leaves out",
        "um --ktap /nowhere/r": "cannot write /nowhere/r",
        "um --junit /nowhere/r": "cannot write /nowhere/r",
        "um --json /nowhere/r": "cannot write /nowhere/r",
    },
    "tree": {"7.3.4": "unexpected extra argument"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_is_obtained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even a kernel source: the message comes first."""

    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr(source, "obtain", work)
    monkeypatch.setattr(source, "packaged", work)
    monkeypatch.setattr(f"{run_lines.__module__}.run_lines", work)
    monkeypatch.chdir(tmp_path)


def test_no_verb_is_left_out() -> None:
    assert set(BAD) == {command.name for command in common.app.registered_commands}


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_with_a_value_is_left_out(verb: str) -> None:
    tried = {word for words in BAD[verb] for word in shlex.split(words)}
    options = [one for one in VERBS[verb].params if one.param_type_name == "option"]
    taking = [one for one in options if not one.is_flag and not one.is_eager]
    left = [one.opts[0] for one in taking if tried.isdisjoint(one.opts)]
    assert [name for name in left if (verb, name) not in LATER] == []


@pytest.mark.parametrize(
    ("verb", "words", "says"),
    [(verb, words, says) for verb, bad in BAD.items() for words, says in bad.items()],
)
def test_what_does_not_exist_is_told_before_work(
    call: Call, tmp_path: Path, verb: str, words: str, says: str
) -> None:
    done = call(verb, *shlex.split(words))
    assert (done.code, done.out) == (2, ""), done
    assert says in done.err
    # One message of ours with a hint, or a box of the parser's.
    assert done.err.count("redoubt: ") + done.err.count("Error") == 1
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []
