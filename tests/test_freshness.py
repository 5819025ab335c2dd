# SPDX-License-Identifier: GPL-2.0-only
"""How far results are behind the code, in small repositories and in this one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import Done, write_tree

from redoubt.cli.common import app
from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.machine import provenance
from redoubt.ship import freshness, origins, report
from redoubt.suite import code
from redoubt.suite.run import Run, Skipped
from redoubt.targets import ARM64, UM, X86_64

CONFIG = """\
distance = 2
reason = "a test"

[built_for]
asi = ["x86_64"]

[measures]
each = ["redoubt/machine"]
other = ["guest", "redoubt"]
bench = ["redoubt/cost"]

[again]
"old.json" = "make old"
"""
OLDER = '[[older]]\nreason = "a good one"\nfiles = {{ "{}" = "{}" }}\n'


def a_patch(*names: str) -> str:
    return "Subject\n\n" + "".join(
        f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n" for name in names
    )


FILES = {
    "configs/results.toml": CONFIG,
    "patches/topics": (
        "topic core\ncommon.patch\n\tmm/core.c\nx86.patch\narm64.patch\n\tarch/arm64/mm/core.c\n\n"
        "topic asi\nisolate.patch\n\tmm/asi/core.c\n"
    ),
    "patches/series": "core/common.patch\ncore/x86.patch\ncore/arm64.patch\nasi/isolate.patch\n",
    "patches/core/common.patch": a_patch("mm/memory.c"),
    "patches/core/x86.patch": a_patch("arch/x86/mm/init.c"),
    "patches/core/arm64.patch": a_patch("arch/arm64/mm/mmu.c"),
    "patches/asi/isolate.patch": a_patch("mm/page_alloc.c"),
    "kernel/mm/core.c": "",
    "kernel/mm/asi/core.c": "",
    "kernel/arch/arm64/mm/core.c": "",
}
MACHINE = {"cpu": "one", "cores": 2, "kernel": "6.1", "emulators": ["qemu: 1"]}


class Repository:
    """A repository of a queue, with results."""

    def __init__(self, where: Path) -> None:
        self.where = write_tree(where, FILES)
        self.git("init", "-q", "-b", "main")
        self.head = self.commit("README.md")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *who, *words], cwd=self.where, check=True, capture_output=True, text=True,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
        ).stdout.strip()  # fmt: skip

    def commit(self, *names: str) -> str:
        """Change some files, and commit that."""
        for name in names:
            file = self.where / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((file.read_text() if file.exists() else "") + "\n")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "Change something")
        return self.git("rev-parse", "HEAD")

    def result(self, name: str, target: str, **fields: Any) -> None:
        """A result of the first commit, or what the fields say."""
        value = {
            "machine": MACHINE, "commit": self.head, "dirty": False,
            "command": f"redoubt bench {target} --json results/{name}",
            "date": "2026-01-02T03:04:05+00:00", "target": target, **fields,
        }  # fmt: skip
        write_tree(self.where, {f"results/{name}": json.dumps(value)})

    def older(self, file: str, commit: str) -> None:
        config = self.where / "configs/results.toml"
        config.write_text(CONFIG + OLDER.format(file, commit))

    def judge(self) -> freshness.Report:
        return freshness.judge(self.where, self.where / "results")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


# === The code that decides a figure ==============================================================


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("kernel/mm/core.c", {"um", "x86_64", "arm64"}),
        ("patches/core/common.patch", {"um", "x86_64", "arm64"}),
        ("patches/core/x86.patch", {"um", "x86_64"}),
        ("patches/core/arm64.patch", {"arm64"}),
        ("kernel/arch/arm64/mm/core.c", {"arm64"}),
        ("kernel/mm/asi/core.c", {"x86_64"}),
        ("patches/asi/isolate.patch", {"x86_64"}),
        ("configs/kernel/arm64.config", {"arm64"}),
        ("configs/kernel/debug-um.config", {"um"}),
        ("emulator/poe.patch", {"arm64"}),
        ("redoubt/machine/boot.py", {"um", "x86_64", "arm64"}),
        ("redoubt/cost/bench.py", {"um", "x86_64", "arm64"}),
        # A file of which nothing is known.
        ("kernel/mm/taken-away.c", {"um", "x86_64", "arm64"}),
        ("redoubt/trial/attack.py", set()),
        ("patches/topics", set()),
        ("patches/core/COVER", set()),
        ("kernel/Documentation/mm/kpkeys.rst", set()),
        ("docs/testing.md", set()),
    ],
)
def test_commits_that_decide(repo: Repository, name: str, counted: set[str]) -> None:
    for target in ("um", "x86_64", "arm64"):
        repo.result(f"{target}.json", target)
    repo.commit(name)
    behind = {one.origin.targets[0]: one.behind for one in repo.judge().found}
    assert behind == {one: int(one in counted) for one in ("um", "x86_64", "arm64")}


def test_mails_have_all_of_the_queue(repo: Repository) -> None:
    repo.result("series.json", "", command="redoubt series --json x")
    repo.commit("kernel/Documentation/a.rst")
    repo.commit("patches/core/COVER")
    (one,) = repo.judge().found
    assert (one.origin.verb, one.origin.targets, one.behind) == ("series", (), 2)


def test_a_verb_that_nothing_is_known_of_is_decided_by_all_code(repo: Repository) -> None:
    repo.result("new.json", "um", command="redoubt new um --json x")
    repo.commit("redoubt/trial/new.py")
    assert repo.judge().found[0].behind == 1


# === The gate ====================================================================================


def test_a_stale_result_is_told_with_its_command(repo: Repository) -> None:
    repo.result("bench-um.json", "um", command="redoubt bench um --json x.json --quick")
    repo.commit("kernel/mm/core.c")
    assert not any(text.endswith("more") for text in freshness.render(repo.judge()))
    repo.commit("kernel/mm/core.c")
    assert (found := repo.judge()).ok
    assert any(text.endswith("2  bears 0 more") for text in freshness.render(found))
    repo.commit("kernel/mm/core.c")
    found = repo.judge()
    assert found.problems == (
        ("bench-um.json: 3 commits behind this code, more than 2",
         "redoubt bench um --json results/bench-um.json --quick"),
    )  # fmt: skip
    assert freshness.problems(found)[1].startswith("    redoubt bench um")


def test_the_configuration_knows_better_commands(repo: Repository) -> None:
    write_tree(repo.where, {"results/old.json": '[{"target": "um", "suites": []}]'})
    ((_, again),) = repo.judge().problems
    assert again == "make old"


def test_a_result_that_is_listed_may_be_older(repo: Repository) -> None:
    repo.result("bench-um.json", "um")
    for _ in range(3):
        repo.commit("kernel/mm/core.c")
    repo.older("bench-um.json", repo.head[:12])
    found = repo.judge()
    assert found.ok
    lines = freshness.render(found)
    assert "bench-um.json: 3 commits behind this code, more than 2 (a good one)" in lines
    assert "0 of 1 files of results/ are at most 2 commits behind" in lines[-1]
    # Another measurement of that file has to be fresh, and the entry has to go.
    repo.result("bench-um.json", "um", commit=repo.git("rev-parse", "HEAD~3^{commit}"), dirty=True)
    repo.older("bench-um.json", "0" * 12)
    problems = [text for text, _ in repo.judge().problems]
    assert len(problems) == 2
    assert "bench-um.json: the code it was measured on had changes" in problems[0]
    assert problems[1].endswith("results/ has no bench-um.json of commit 000000000000")


def test_a_commit_of_another_history(repo: Repository) -> None:
    repo.git("checkout", "-q", "-b", "other")
    other = repo.commit("kernel/mm/core.c")
    repo.git("checkout", "-q", "main")
    repo.result("bench-um.json", "um", commit="f" * 40)
    repo.result("bench-arm64.json", "arm64", commit=other)
    assert [text for text, _ in repo.judge().problems] == [
        f"bench-arm64.json: commit {other[:12]} is not in this history",
        f"bench-um.json: commit {'f' * 12} is not in this history",
    ]


def test_answers_of_several_runs_are_as_old_as_the_oldest(repo: Repository) -> None:
    last = repo.commit("kernel/mm/core.c")
    mutants = [{"commit": repo.head}, {"commit": last}, {}]
    command = "redoubt mutate um --only a --json x --add --only b"
    repo.result("mutate-um.json", "um", commit=last, mutants=mutants, command=command)
    (one,) = repo.judge().found
    assert (one.origin.commit, one.behind) == (last[:12], 1)
    assert one.again == "redoubt mutate um --json results/mutate-um.json"


def test_a_part_of_the_history_is_not_judged(repo: Repository, tmp_path: Path) -> None:
    repo.result("bench-um.json", "um")
    for _ in range(3):
        repo.commit("kernel/mm/core.c")
    assert not repo.judge().ok
    url = f"file://{repo.where}"
    subprocess.run(["git", "clone", "-q", "--depth=1", url, tmp_path / "shallow"], check=True)
    subprocess.run(["cp", "-r", repo.where, tmp_path / "tarball"], check=True)
    subprocess.run(["rm", "-r", tmp_path / "tarball/.git"], check=True)
    for name, says in (("shallow", "git fetch --unshallow"), ("tarball", "no git repository")):
        where = tmp_path / name
        found = freshness.judge(where, where / "results")
        assert found.ok and says in found.unknown
        assert [one.behind for one in found.found] == [None]
        lines = freshness.render(found)
        assert any(f"cannot tell how far results/ is behind the code: {found.unknown}" == line
                   for line in lines)  # fmt: skip
        # It is wrong nevertheless.
        (where / "results/bench-um.json").write_text("{}")
        assert not freshness.judge(where, where / "results").ok


# === What a result has to say ====================================================================


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"machine": {}}, "it does not say: machine"),
        ({"commit": None}, "it does not say: commit"),
        ({"commit": "abc"}, "it does not say: commit"),
        ({"dirty": None}, "it does not say: dirty"),
        ({"dirty": True}, "changes that are in no commit"),
        ({"date": "yesterday"}, "it does not say: date"),
        ({"command": "make"}, "it does not say: command"),
        ({"target": "x86_64", "machine": {**MACHINE, "emulators": []}}, "which emulator ran"),
        ({"target": "vax"}, "there is no target vax"),
        ({"command": "redoubt bench um --json /home/me/x.json"}, "/home/me/x.json"),
        ({"command": "redoubt bench um --json=../x.json"}, "../x.json"),
    ],
)
def test_a_result_has_to_say_where_it_comes_from(
    repo: Repository, fields: dict[str, Any], says: str
) -> None:
    repo.result("x.json", **{"target": "um", **fields})
    ((problem, _),) = repo.judge().problems
    assert says in problem


def test_what_may_be_missing(repo: Repository) -> None:
    repo.result("um.json", "um", machine={**MACHINE, "emulators": []})
    older = {name: value for name, value in MACHINE.items() if name != "emulators"}
    repo.result("arm64.json", "arm64", machine={**older, "qemu": "QEMU 7.2"},
                command="redoubt bench arm64 --json /dev/stdout")  # fmt: skip
    assert repo.judge().ok


def test_nothing_is_no_result(repo: Repository) -> None:
    with pytest.raises(RedoubtError, match="no results"):
        repo.judge()
    write_tree(repo.where, {"results/x.json": "{"})
    with pytest.raises(RedoubtError, match=r"cannot read .*x\.json"):
        repo.judge()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("distance = 2\n", "", "distance"),
        ("distance = 2", 'distance = "2"', "distance"),
        ('"a test"', '""', "reason"),
        ("[again]", "[agian]", "agian"),
        ('asi = ["x86_64"]', 'asi = "x86_64"', "asi"),
        ('each = ["redoubt/machine"]\n', "", "each"),
        ('"make old"\n', '"make old"\n[[older]]\nreason = "x"\n', "lacks files"),
    ],
)
def test_a_configuration_that_is_damaged(repo: Repository, old: str, new: str, says: str) -> None:
    file = repo.where / "configs/results.toml"
    file.write_text(CONFIG.replace(old, new))
    with pytest.raises(RedoubtError, match=f"results.toml.*{says}"):
        freshness.config(repo.where)


def test_a_result_that_is_made_now_says_all() -> None:
    made = provenance.collect(["bench", "um", "--json", "/tmp/somewhere/x.json"])
    made |= {"target": "um", "commit": "a" * 40, "dirty": False}
    assert origins.read("x.json", made).lacks == ()


# === This repository =============================================================================


def test_ours_are_fresh_or_listed() -> None:
    """Older ones are for the step of redoubt test: they need a measurement, and no other code."""
    found = freshness.judge(paths.repo(), paths.results_dir())
    assert [text for text, _ in found.problems if "commits behind" not in text] == []
    topics = {line.split()[1] for line in (paths.repo() / "patches/topics").read_text().splitlines()
              if line.startswith("topic ")}  # fmt: skip
    assert freshness.config(paths.repo()).built_for.keys() <= topics


def test_what_measures_exists() -> None:
    known = freshness.config(paths.repo())
    for names in known.measures.values():
        assert [name for name in names if not list(paths.repo().glob(name))] == []


def test_each_command_that_measures_again_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    tool = typer.main.get_command(app)
    makefile = (paths.repo() / "Makefile").read_text()
    for one in freshness.judge(paths.repo(), paths.results_dir()).found:
        program, verb, *words = shlex.split(one.again)
        if program == "make":
            assert f"{verb.rpartition('-')[0]}-%:" in makefile
            continue
        assert program == "redoubt"
        tool.commands[verb].make_context(verb, [*words])  # type: ignore[attr-defined]
        assert f"results/{one.origin.file}" in words


def test_the_documents_say_how_old_results_are(repo: Repository) -> None:
    known = freshness.config(repo.where)
    found = [
        origins.read(f"{day}.json", {"commit": str(day) * 40, "date": f"2026-01-0{day}"})
        for day in (3, 1, 2)
    ]
    said = freshness.line(found, known)
    assert "commits 111111111111 (2026-01-01) to 333333333333 (2026-01-03): 3 of 3 files" in said
    assert freshness.line([origins.read("x.json", [])], known) == ""
    (line,) = [line for line in report.readme_block(report.load(paths.results_dir())).splitlines()
               if "Measured on commits" in line]  # fmt: skip
    assert line.removeprefix("- ") in report.page(report.load(paths.results_dir())).replace(
        "&#39;", "'"
    )


# === The verb and the step =======================================================================


@pytest.fixture
def here(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(paths, "repo", lambda: repo.where)
    monkeypatch.setattr(paths, "results_dir", lambda: repo.where / "results")
    repo.result("bench-um.json", "um")
    return repo


def test_the_verb(call: Callable[..., Done], here: Repository) -> None:
    done = call("results")
    assert done.code == 0
    assert "\nbench-um.json  bench      um  2026-01-02" in done.out
    for _ in range(3):
        here.commit("kernel/mm/core.c")
    done = call("results")
    assert done.code == 1
    assert "\nbench-um.json: 3 commits behind this code, more than 2\n    redoubt bench" in done.out


def test_the_verb_needs_a_checkout(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "installed", lambda: True)
    done = call("results")
    assert done.code == 1
    assert "redoubt results needs a checkout of the repository" in done.err


def test_the_step(here: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(UM, "auto", False, Silent())
    (item,) = code.results_judged(run)
    assert (item.passed, item.failed) == (1, 0)
    for _ in range(3):
        here.commit("kernel/mm/core.c")
    (item,) = code.results_judged(run)
    assert (item.passed, item.failed) == (0, 1)
    assert "3 commits behind this code" in item.detail
    subprocess.run(["rm", "-r", here.where / ".git"], check=True)
    with pytest.raises(Skipped, match="cannot tell how far results/ is behind"):
        list(code.results_judged(run))
    # A result that does not say where it comes from is wrong in any copy of the repository.
    here.result("bench-um.json", "um", commit=None)
    (item,) = code.results_judged(run)
    assert item.failed == 1
    monkeypatch.setattr(paths, "installed", lambda: True)
    with pytest.raises(Skipped, match="has no history"):
        list(code.results_judged(run))


def test_targets_of_several_entries() -> None:
    entries = [{"target": name, "suites": []} for name in ("um", "-", "arm64", "um")]
    assert origins.read("x", entries).targets == ("um", "arm64")
    assert {UM.name, X86_64.name, ARM64.name} >= set(origins.read("x", entries).targets)
