# SPDX-License-Identifier: GPL-2.0-only
"""Journeys of docs/: short, in words that the tool knows, and done by scripts/journeys."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import typer.main
from conftest import write_tree

from redoubt.cli import common
from redoubt.core import paths

SCRIPT = paths.repo() / "scripts" / "journeys"
PAGES = paths.repo() / "docs" / "journeys"
VERBS = vars(typer.main.get_command(common.app))["commands"]

PAGE = """\
# One

```sh
echo quick in $PWD   # said
echo "$GREETING"
```

```
echo an example
```

```sh builds
echo long > ~/built
```

```sh root
echo as root
```

```sh by-hand
echo typed
```
"""
MAKEFILE = "defconfig:\n\tmkdir $(O)\n\techo CONFIG_$(ARCH)=y > $(O)/.config\n"
INDEX = "# Index\n\n```{toctree}\njourneys/one\njourneys/two\n```\n"


def journeys(repo: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    home = {"HOME": str(repo), "PATH": f"{Path(shutil.which('git') or '').parent}:/usr/bin:/bin"}
    return subprocess.run(
        [repo / "scripts" / "journeys", *words], env={**home, **env}, cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def listed(repo: Path, *names: str) -> list[list[str]]:
    done = journeys(repo, "--list", *names)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with the script and two journeys of its own."""
    where = write_tree(tmp_path, {
        "docs/index.md": INDEX, "docs/journeys/one.md": PAGE,
        "docs/journeys/two.md": "# Two\n\n```sh builds\nfalse\necho never\n```\n",
        ".venv/bin/redoubt": "#!/bin/sh\n",
    })  # fmt: skip
    (where / "scripts").mkdir()
    for script in (SCRIPT, SCRIPT.with_name("in-debian")):
        shutil.copy(script, where / "scripts")
    return where


def test_ours_are_short_and_all_in_the_list() -> None:
    found = defaultdict(list)
    for name, kind, command in listed(paths.repo()):
        found[name].append(command)
        assert kind in ("quick", "builds", "root", "by-hand"), command
        assert not command.endswith("\\"), command
    assert set(found) == {file.stem for file in PAGES.glob("*.md")}
    assert all(1 <= len(commands) <= 4 for commands in found.values())


def test_ours_use_verbs_and_options_that_exist() -> None:
    known = 0
    for _, _, command in listed(paths.repo()):
        for part in re.findall(r"\bredoubt [a-z][^)]*", command):
            _, verb, *words = shlex.split(part, comments=True)
            options = {name for one in VERBS[verb].params for name in one.opts}
            own = words[: words.index("--")] if "--" in words else words
            assert {word for word in own if word.startswith("--")} <= options, command
            known += 1
    assert known > 10


def test_commands_are_those_of_the_blocks(repo: Path) -> None:
    assert listed(repo) == [
        ["one", "quick", "echo quick in $PWD   # said"],
        ["one", "quick", 'echo "$GREETING"'],
        ["one", "builds", "echo long > ~/built"],
        ["one", "root", "echo as root"],
        ["one", "by-hand", "echo typed"],
        ["two", "builds", "false"],
        ["two", "builds", "echo never"],
    ]
    assert listed(repo, "two") == [["two", "builds", "false"], ["two", "builds", "echo never"]]


def test_what_builds_nothing_is_done(repo: Path) -> None:
    done = journeys(repo, GREETING="hello")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert f"quick in {repo}" in said and "hello" in said
    for left in ("echo typed", "echo as root", "echo long > ~/built"):
        assert f"not done: {left}" in said
    # Each command is shown as it stands on the page, without its comment.
    assert "$ echo quick in $PWD" in said
    assert said[-1] == "1 passed, 0 failed, 1 skipped"
    assert list((repo / "build").iterdir()) == []


def test_a_command_that_fails_ends_its_journey_only(repo: Path) -> None:
    done = journeys(repo, "--builds", "two", "one", GREETING="hello")
    assert done.returncode == 1
    assert "never" not in done.stdout.splitlines()
    assert "journeys: two failed" in done.stderr
    assert done.stdout.endswith("\n1 passed, 1 failed, 0 skipped\n")
    # The home directory was not the user's.
    assert not (repo / "built").exists()
    assert list((repo / "build").iterdir()) == []


def test_a_tree_and_a_configuration_are_there_for_pages_that_name_them(repo: Path) -> None:
    write_tree(repo, {
        "pristine/Makefile": MAKEFILE,
        ".venv/bin/redoubt": f'#!/bin/sh\necho "Linux 7.3.4 in {repo}/pristine"\n',
        "docs/journeys/one.md": "Spoil `~/linux`.\n\n```sh\nrm ~/linux/Makefile\n```\n",
        "docs/journeys/two.md": "```sh builds\ntest -e ~/linux/Makefile\ncat ~/config\n```\n",
    })  # fmt: skip
    done = journeys(repo, "--builds")
    assert done.returncode == 0, done.stderr
    assert "CONFIG_x86_64=y" in done.stdout.splitlines()
    assert done.stdout.endswith("\n2 passed, 0 failed, 0 skipped\n")
    assert (repo / "pristine/Makefile").exists()


@pytest.mark.parametrize("word", ["three", "--build"])
def test_a_journey_that_is_none(repo: Path, word: str) -> None:
    done = journeys(repo, word)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no journey '{word}'" in done.stderr
    assert done.stderr.splitlines()[1] == "journeys:     journeys: one two"
    assert not (repo / "build").exists()


def test_what_takes_root_follows_what_came_before_it(repo: Path) -> None:
    for words, done, left in (
        (["--root"], False, True),
        (["--root", "--builds"], True, False),
        (["--builds"], False, True),
    ):
        said = journeys(repo, *words, "one", GREETING="hello").stdout.splitlines()
        assert ("as root" in said, "not done: echo as root" in said) == (done, left)


def test_transcripts_are_short_and_of_any_place(repo: Path) -> None:
    write_tree(repo, {
        "docs/journeys/two.md": "# Two\n\n```sh\nseq 20\necho ~/a $PWD/b >&2  # both\n"
        "printf '%0200d\\n' 1\nprintf 'a\\rb\\r\\n'\necho '$ make'\n```\n",
    })  # fmt: skip
    done = journeys(repo, "--transcripts", "out/here", GREETING="hello")
    assert done.returncode == 0, done.stdout
    # Of each command the first and the last lines.
    assert (repo / "out/here/two").read_text().splitlines() == [
        "$ seq 20", "1", "2", "3", "4", "[12 lines]", "17", "18", "19", "20",
        "$ echo ~/a $PWD/b >&2", "~/a ~/redoubt/b",
        "$ printf '%0200d\\n' 1", "0" * 110 + " [...]",
        "$ printf 'a\\rb\\r\\n'", "b",
        # What a program prints is no command.
        "$ echo '$ make'", " $ make",
    ]  # fmt: skip


DEBIAN = """\
#!/bin/sh
printf '%s\\n' "$@" >> "$HOME/words"
for word; do
	case $word in
	*upload*as-user*) set -- $word; tail -n 1 "$2" >> "$HOME/words" ;;
	*copy-out*)
		set -- $word
		mkdir -p "$3/out"
		printf '$ a\\nb\\n' > "$3/out/two"
		[ -z "$FAILS" ] || echo "$FAILS" > "$3/out/.status" ;;
	esac
done
"""


@pytest.fixture
def debian(repo: Path) -> Path:
    """The repository, where a Debian is made by a program that says what it was asked for."""
    write_tree(repo, {
        "bin/mmdebstrap": DEBIAN,
        "bin/unshare": '#!/bin/sh\nwhile [ "$1" != env ]; do shift; done\nexec "$@"\n',
        ".venv/bin/python": '#!/bin/sh\necho "deb http://a/debian $3 main"\n',
    })  # fmt: skip
    for words in (["init", "-q"], ["add", "docs"], ["commit", "-q", "-m", "All"]):
        who = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
        subprocess.run(["git", *who, *words], cwd=repo, check=True)
    return repo


@pytest.mark.parametrize(
    ("option", "suites"),
    [("--clean", ["bookworm", "trixie"]), ("--clean=12", ["bookworm"]), ("--clean=13", ["trixie"])],
)
def test_a_debian_is_made_for_it(debian: Path, option: str, suites: list[str]) -> None:
    done = journeys(debian, option, "--builds", "two", PATH=f"{debian}/bin:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    words = (debian / "words").read_text().splitlines()
    made = [words[at - 1] for at, word in enumerate(words) if word == "/dev/null"]
    assert made == suites
    assert [word for word in words if word.startswith("deb ")] == [
        f"deb http://a/debian {suite} main" for suite in suites
    ]
    hooks = [word.partition("=")[2] for word in words if word.startswith("--customize-hook=")]
    assert re.fullmatch(r"upload \S+/repo.bundle /tmp/repo.bundle", hooks[0])
    # As a user, who is none of the machine's.
    assert 'chroot "$1" runuser -l user -c "sh /tmp/as-user"' in hooks
    inside = "scripts/journeys --root --transcripts /tmp/out --builds two"
    assert words.count(f'( {inside} ) || echo "$?" >/tmp/out/.status') == len(suites)
    assert list((debian / "build").iterdir()) == []


def test_pages_get_what_was_printed(debian: Path) -> None:
    path = f"{debian}/bin:/usr/bin:/bin"
    page = debian / "docs/journeys/two.md"
    before = page.read_text()
    for _ in range(2):
        assert journeys(debian, "--clean=13", "--write", "two", PATH=path).returncode == 0
        assert page.read_text() == (
            f"{before}\n<!-- transcript:begin -->\n\n```console\n$ a\nb\n```\n\n"
            "<!-- transcript:end -->\n"
        )
    assert (debian / "docs/journeys/one.md").read_text() == PAGE
    assert listed(debian, "two") == [["two", "builds", "false"], ["two", "builds", "echo never"]]


def test_journeys_that_end_well_are_shown_beside_one_that_fails(debian: Path) -> None:
    done = journeys(
        debian, "--clean", "--write", "two", PATH=f"{debian}/bin:/usr/bin:/bin", FAILS="3"
    )
    assert done.returncode == 3
    # The other Debian had its turn.
    assert (debian / "words").read_text().splitlines().count("/dev/null") == 2
    assert "```console\n$ a\nb\n```" in (debian / "docs/journeys/two.md").read_text()
    assert list((debian / "build").iterdir()) == []


@pytest.mark.parametrize("words", [["14", "out", "true"], ["12"], []])
def test_a_debian_that_is_none(repo: Path, words: list[str]) -> None:
    done = subprocess.run(
        [repo / "scripts/in-debian", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "in-debian: RELEASE INTO COMMAND, and the release is 12 or 13\n"
    assert not (repo / "build").exists()


def test_only_a_fresh_debian_is_shown(repo: Path) -> None:
    done = journeys(repo, "--write")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--write is for --clean" in done.stderr


def test_what_our_pages_show_is_what_they_say() -> None:
    for page in PAGES.glob("*.md"):
        if not (shown := re.findall(r"^\$ (.*)$", page.read_text(), re.MULTILINE)):
            continue
        quick, known = set(), set()
        for _, kind, command in listed(paths.repo(), page.stem):
            known.add(plain := re.sub(r"  +# .*", "", command))
            quick |= {plain} if kind == "quick" else set()
        # Else do what docs/index.md says: scripts/journeys --clean --write.
        assert quick <= {*shown} <= known, page


def test_what_is_missing_is_said(repo: Path) -> None:
    (repo / "bin").mkdir()
    for name in ("bash", "dirname", "git", "mkdir", "mktemp", "rm"):
        (repo / "bin" / name).symlink_to(str(shutil.which(name)))
    done = journeys(repo, "--clean", "one", PATH=str(repo / "bin"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[2].endswith("scripts/prerequisites deb-install")
    # Once, and not for each Debian.
    assert done.stderr.count("mmdebstrap not found") == 1
    assert list((repo / "build").iterdir()) == []
    (repo / ".venv/bin/redoubt").unlink()
    done = journeys(repo)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1].endswith("make setup")
