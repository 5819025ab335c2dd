# SPDX-License-Identifier: GPL-2.0-only
"""The queue as mails, on a small tree and a small queue made here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import REAL_BUILD, write_tree

from redoubt.cli import ship
from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.cost import tables
from redoubt.linux import topics
from redoubt.linux.source import Source
from redoubt.ship import commits, cover, lint, report, series
from redoubt.suite import code
from redoubt.targets import TARGETS

pytestmark = pytest.mark.skipif(
    not shutil.which("git") or not shutil.which("patch"), reason="needs git and patch"
)
needs_perl = pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")

LINUX = Path(os.environ.get("LINUX_SRC") or REAL_BUILD / "src")
needs_source = pytest.mark.skipif(
    not (LINUX / "Kbuild").exists() or not shutil.which("perl"),
    reason="no source (redoubt source), or no perl",
)

# A pristine tree, `linux`, and a repository with a queue, `repo`.
DATA = Path(__file__).with_name("queue")

MAILS = [
    "0001-mm-add-the-core.patch",
    "0002-mm-do-more.patch",
    "0003-um-use-the-core.patch",
    "0004-lib-stand-apart.patch",
]


LETTER = "mm: do all of it\n\nWhat for.\n\nNumbers\n=======\n\none  1\ntwo  2\n"


def git(where: Path, *words: str) -> str:
    """What git says, as the user has set it up."""
    command = ["git", "-C", str(where), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Queue:
    """A pristine tree, a repository with a queue, and a place for mails."""

    def __init__(self, root: Path) -> None:
        self.pristine = root / "linux"
        self.repo = root / "repo"
        self.out = root / "mails"
        shutil.copytree(DATA / "linux", self.pristine)
        shutil.copytree(DATA / "repo", self.repo)
        # Not in the data: git would leave out files of the repository of this test.
        write_tree(self.pristine, {".gitignore": "*.o\nignored/\n"})

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file of the repository."""
        path = self.repo / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} is not in {name} once"
        path.write_text(text.replace(old, new))

    def export(self, **options: Any) -> list[Path]:
        """Export the queue."""
        return series.export(self.pristine, self.out, repo=self.repo, **options)

    def check(
        self,
        build: Callable[[Path, commits.Commit], bool | None] | None = None,
        full: bool = False,
        **options: Any,
    ) -> series.Report:
        """Check the mails."""
        return series.check(
            self.pristine,
            self.out,
            build=build,
            repo=self.repo,
            full=full,
            work_in=self.out.parent / "work",
            **options,
        )

    def give_scripts(self) -> None:
        """Put a stand-in for the kernel's own script into the pristine tree."""
        shutil.copy(DATA / "checkpatch.pl", self.pristine / "scripts")


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue that is in order, and a user with a name."""
    home = tmp_path / "home"
    write_tree(home, {".gitconfig": "[user]\nname = Jörg Test\nemail = joerg@example.org\n"})
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "none"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return Queue(tmp_path)


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of each file below a directory."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_patches_of_the_emulator_are_mails_that_git_takes(queue: Queue, tmp_path: Path) -> None:
    source = tmp_path / "qemu"
    write_tree(source, {"target/arm/cpu.c": "int old;\n"})
    write_tree(
        tmp_path,
        {
            "one.patch": "target/arm: Say more\n\nFor a reason.\n\n--- a/target/arm/cpu.c\n"
            "+++ b/target/arm/cpu.c\n@@ -1 +1 @@\n-int old;\n+int new;\n",
            "two.patch": "configs: Add one\n\nFor another.\n\n--- /dev/null\n"
            "+++ b/configs/one.mak\n@@ -0,0 +1 @@\n+CONFIG_A=y\n",
        },
    )
    patches = [tmp_path / "one.patch", tmp_path / "two.patch"]
    mails = series.export_emulator(source, patches, queue.out, repo=queue.repo)
    assert [mail.name for mail in mails] == [
        "0001-target-arm-Say-more.patch", "0002-configs-Add-one.patch",
    ]  # fmt: skip
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "base")
    git(source, "am", "-q", *map(str, mails))
    assert (source / "target/arm/cpu.c").read_text() == "int new;\n"
    assert (source / "configs/one.mak").read_text() == "CONFIG_A=y\n"
    assert "Signed-off-by: " in git(source, "log", "-1", "--format=%b")


def test_one_mail_per_patch_and_none_for_a_local_topic(queue: Queue) -> None:
    mails = queue.export()
    assert [mail.name for mail in mails] == MAILS
    texts = [mail.read_text() for mail in mails]
    assert "Subject: [PATCH 1/4] mm: add the core" in texts[0]
    assert "joerg@example.org" in texts[0]
    assert "umlauts: äöü" in texts[0]
    # Files arrive with their patch, a message has nothing but files.
    assert "+int core;" in texts[0]
    assert "+int arch;" in texts[2]
    assert "+int apart;" in texts[3]
    # Three lines of context, whatever the stored patches have.
    assert "@@ -8,7 +8,7 @@" in texts[0]
    assert re.search(r"^index [0-9a-f]{12}\.\.[0-9a-f]{12} 100644$", texts[0], re.MULTILINE)
    assert git(queue.out, "--version").split()[2] not in texts[0]
    assert "demo" not in "".join(texts)
    assert not list(queue.out.glob(".*"))


def test_the_mails_give_our_tree(queue: Queue) -> None:
    queue.export()
    report = queue.check()
    assert report.ok
    assert report.files == 8
    assert list(series.render(report))[-1] == "series: clean"
    assert json.loads(json.dumps(report.as_json()))["ok"] is True


def test_git_am_takes_the_mails_on_the_pristine_tree(queue: Queue) -> None:
    # Without our own check: a plain user, a plain repository.
    mails, where = queue.export(), queue.pristine
    git(where, "init", "-q")
    git(where, "add", "-A", "-f")
    git(where, "commit", "-q", "-m", "pristine")
    git(where, "am", *map(str, mails))
    assert git(where, "log", "-2", "--format=%an <%ae>: %s").splitlines() == [
        "Jörg Test <joerg@example.org>: lib: stand apart",
        "Jörg Test <joerg@example.org>: um: use the core",
    ]
    assert (where / "mm/core.c").read_text() == "int core;\n"
    assert "int line10 = 1;\nint more;\n" in (where / "mm/memory.c").read_text()
    assert "echo our tool" in (where / "scripts/tool.sh").read_text()
    assert os.access(where / "mm/run.sh", os.X_OK)


def test_the_same_queue_gives_the_same_mails_whatever_git_is_set_to(queue: Queue) -> None:
    git(queue.repo, "init", "-q")
    git(queue.repo, "add", "patches")
    git(queue.repo, "commit", "-q", "-m", "x")
    queue.export(letter=LETTER)
    before = snapshot(queue.out)
    assert len(before) == 5
    hooks = queue.out.parent / "hooks"
    refuse = "#!/bin/sh\nexit 1\n"
    write_tree(hooks, {"pre-commit": refuse, "applypatch-msg": refuse})
    with open(Path(os.environ["HOME"]) / ".gitconfig", "a") as config:
        config.write(
            "[diff]\nnoprefix = true\ncontext = 9\n[core]\nautocrlf = true\n"
            f"hooksPath = {hooks}\nabbrev = 30\n[commit]\ngpgSign = true\n"
            "[format]\nsubjectPrefix = HEY\nsignOff = true\n[am]\nkeepcr = true\n"
        )
    queue.export(letter=LETTER)
    assert snapshot(queue.out) == before
    assert queue.check(letter=LETTER).ok


def test_mails_of_an_earlier_run_go(queue: Queue) -> None:
    write_tree(queue.out, dict.fromkeys(("0007-old.patch", "notes.txt", "0000-c.txt"), "old"))
    queue.export(letter=LETTER)
    assert (queue.out / "0000-cover-letter.patch").exists()
    queue.export()
    assert sorted(path.name for path in queue.out.iterdir()) == ["0000-c.txt", *MAILS, "notes.txt"]


def test_a_failed_export_leaves_the_old_mails(queue: Queue) -> None:
    queue.export()
    before = snapshot(queue.out)
    queue.edit("patches/arch/0001-use.patch", " int before;", " int other;")
    with pytest.raises(RedoubtError):
        queue.export()
    assert snapshot(queue.out) == before


@pytest.mark.parametrize(
    ("name", "old", "new", "different"),
    [
        ("kernel/mm/core.c", "int core;", "int core2;", "mm/core.c"),
        ("patches/core/0002-more.patch", "+int more;", "+int more2;", "mm/memory.c"),
        ("patches/core/0001-hook.patch", "It does", "It did", "message of core/0001-hook.patch"),
    ],
)
def test_a_queue_that_went_on_differs_from_its_mails(
    queue: Queue, name: str, old: str, new: str, different: str
) -> None:
    queue.export()
    queue.edit(name, old, new)
    built: list[str] = []
    report = queue.check(lambda _tree, last: built.append(str(last.patch)))
    assert (report.ok, report.different, built) == (False, (different,), [])
    assert next(series.render(report)) == f"DIFFERS {different}"


def test_the_right_to_execute_counts(queue: Queue) -> None:
    queue.export()
    (queue.repo / "kernel/mm/run.sh").chmod(0o644)
    assert queue.check().different == ("mm/run.sh",)


@pytest.mark.parametrize("full", [False, True])
def test_a_mail_that_does_more_is_noticed(queue: Queue, full: bool) -> None:
    mails = queue.export()
    extra = "diff --git a/untouched.c b/untouched.c\n--- a/untouched.c\n+++ b/untouched.c\n"
    extra += "@@ -1 +1 @@\n-int untouched;\n+int touched;\n"
    extra += "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n"
    extra += "@@ -0,0 +1 @@\n+int new;\n"
    mails[1].write_text(mails[1].read_text() + extra)
    assert queue.check(full=full).different == ("new.c", "untouched.c")


def test_a_mail_that_is_missing_or_does_not_apply_is_an_error(queue: Queue) -> None:
    mails = queue.export()
    text = mails[2].read_text()
    mails[2].unlink()
    with pytest.raises(RedoubtError, match="4 patches, but the mails make 3 commits"):
        queue.check()
    mails[2].write_text(text.replace(" int before;", " int other;"))
    with pytest.raises(RedoubtError, match=r"git am failed: .*table\.c"):
        queue.check()
    shutil.rmtree(queue.out)
    with pytest.raises(RedoubtError, match="there are no mails"):
        queue.check()


def test_the_whole_tree_can_be_used_even_if_it_is_a_repository(queue: Queue) -> None:
    queue.export()
    git(queue.pristine, "init", "-q")
    git(queue.pristine, "config", "commit.gpgSign", "true")
    (queue.pristine / "link").symlink_to("untouched.c")
    before = snapshot(queue.pristine)
    report = queue.check(full=True)
    assert report.ok
    assert report.full
    # Those of Linux, a link, and ours.
    assert report.files == 7 + 1 + 4
    assert snapshot(queue.pristine) == before


@pytest.mark.parametrize(
    ("each", "names"),
    [
        (False, ["core", "arch", "apart"]),
        (True, [f"{name}.patch" for name in ("core/0001-hook", "core/0002-more", "arch/0001-use",
                                             "apart/0001-stand")]),
    ],
)  # fmt: skip
def test_every_prefix_is_built_as_a_whole_tree(queue: Queue, each: bool, names: list[str]) -> None:
    queue.export()
    before = snapshot(queue.pristine)
    seen: list[tuple[str, bool, bool]] = []

    def build(tree: Path, last: commits.Commit) -> None:
        assert (tree / "untouched.c").read_text() == "int untouched;\n"
        assert not (tree / "mm/demo.c").exists()
        assert os.access(tree / "mm/run.sh", os.X_OK)
        more = "more" in (tree / "mm/memory.c").read_text()
        seen.append((str(last.patch), more, (tree / "arch/um/arch.c").exists()))

    report = queue.check(build, each=each)
    assert list(report.built) == names
    assert seen[-3:] == [
        ("core/0002-more.patch", True, False),
        ("arch/0001-use.patch", True, True),
        ("apart/0001-stand.patch", True, True),
    ]
    assert seen[:-3] == ([("core/0001-hook.patch", False, False)] if each else [])
    # The prefix tree is linked with pristine; replacing a file must not reach through the link.
    assert snapshot(queue.pristine) == before
    assert f"prefixes built: {', '.join(names)}" in series.render(report)


def test_a_prefix_that_is_left_out_is_not_called_built(queue: Queue) -> None:
    queue.export()
    assert queue.check(lambda _tree, last: last.topic.name == "arch").built == ("arch",)


def test_a_prefix_that_does_not_build_is_named(queue: Queue) -> None:
    queue.export()

    def build(_tree: Path, last: commits.Commit) -> None:
        if last.topic.name == "arch":
            raise RedoubtError("no rule to make arch.o")

    with pytest.raises(RedoubtError, match=r"up to arch .*no rule to make arch\.o"):
        queue.check(build)


# === Topics ======================================================================================


def test_a_topic_comes_with_what_it_needs_and_no_more(queue: Queue) -> None:
    assert [mail.name for mail in queue.export(topics=["arch"])] == MAILS[:3]
    assert queue.check(topics=["arch"]).ok
    (mail,) = queue.export(topics=["apart"])
    assert mail.name == "0001-lib-stand-apart.patch"
    report = queue.check(topics=["apart"], full=True)
    assert report.ok
    assert report.alone == ("apart",)
    # They are not all of them.
    with pytest.raises(RedoubtError, match="4 patches, but the mails make 1 commits"):
        queue.check()


def test_what_is_different_without_a_topic_is_said_beside_the_patch(queue: Queue) -> None:
    without = queue.repo / "patches/apart/0001-stand.without-core"
    shutil.copy(DATA / "without-core", without)
    (mail,) = queue.export(topics=["apart"])
    assert "uses_core" not in mail.read_text()
    assert queue.check(topics=["apart"]).ok
    assert "uses_core" in queue.export()[-1].read_text()
    assert queue.check().ok
    without.write_text(without.read_text().replace("apart;", "x;"))
    with pytest.raises(RedoubtError, match="git apply failed"):
        queue.export(topics=["apart"])


def entangle(queue: Queue) -> None:
    """Let `apart` change the line behind one that `core` changes."""
    touch = "\n--- a/mm/Makefile\n+++ b/mm/Makefile\n@@ -3,2 +3,3 @@\n obj-y += core.o\n"
    with (queue.repo / "patches/apart/0001-stand.patch").open("a") as patch:
        patch.write(touch + "+obj-y += apart.o\n obj-y += slab.o\n")
    queue.edit("patches/series", "demo/", "apart/0001-stand.patch\ndemo/")
    queue.edit("patches/demo/0001-demo.patch", "@@ -3,2 +3,3 @@\n obj-y += core.o",
               "@@ -4,2 +4,3 @@\n obj-y += apart.o")  # fmt: skip


def test_a_topic_that_needs_more_than_it_says_is_noticed(queue: Queue) -> None:
    entangle(queue)
    queue.export()
    report = queue.check()
    assert not report.ok
    assert report.alone == ("core", "arch")
    assert report.entangled[0].startswith("apart/0001-stand.patch conflicts in mm/Makefile")
    assert list(series.render(report))[-1] == "series: a topic needs more than it says"
    with pytest.raises(RedoubtError, match="conflicts in mm/Makefile where arch, core are left"):
        queue.export(topics=["apart"])


def test_what_is_said_beside_the_patch_takes_the_place_of_what_conflicts(queue: Queue) -> None:
    entangle(queue)
    without = "--- a/mm/Makefile\n+++ b/mm/Makefile\n@@ -2,2 +2,3 @@\n obj-y += mmap.o\n"
    write_tree(queue.repo, {"patches/apart/0001-stand.without-core":
                       without + "+obj-y += apart.o\n obj-y += slab.o\n"})  # fmt: skip
    (mail,) = queue.export(topics=["apart"])
    assert "+obj-y += apart.o" in mail.read_text()
    assert "core.o" not in mail.read_text()
    assert "+int uses_core;" in mail.read_text()
    assert queue.check(topics=["apart"]).ok


def test_nothing_is_left_behind(queue: Queue, tmp_path: Path) -> None:
    queue.export()
    trees: list[Path] = []
    for _ in range(2):
        queue.check(lambda tree, _last: trees.append(tree))
    assert len(trees) == 6
    assert len(set(trees)) == 1
    assert trees[0].is_relative_to(tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_user_without_a_name_is_told_how_to_set_one(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(os.environ["HOME"]) / ".gitconfig").unlink()
    with pytest.raises(RedoubtError, match="git does not know who you are"):
        queue.export()
    mails = series.export(
        queue.pristine, queue.out, repo=queue.repo, author=("Some One", "one@example.org")
    )
    assert "From: Some One <one@example.org>" in mails[0].read_text()
    # The check needs no name.
    assert queue.check().ok


HOOK, MORE = "patches/core/0001-hook.patch", "patches/core/0002-more.patch"


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("patches/topics", "topic arch ", "topic core ", "topic core stands here twice"),
        ("patches/topics", "topic demo local", "topic demo lokal", "expected 'topic NAME'"),
        ("patches/topics", "# comment", "0001-first.patch", "expected 'topic NAME'"),
        ("patches/topics", "\tmm/core.c", "\tmm/core.c mm/b.c", "path of one file"),
        ("patches/topics", "\tarch/um/arch.c", "\tmm/core.c", "mm/core.c is introduced twice"),
        ("patches/topics", "topic core", "topic core local", "topic arch follows the local core"),
        ("patches/topics", "mm/core.c", "mm/none.c", "there is no kernel/mm/none.c"),
        ("patches/topics", "results *-um.json\n", "\tmm/early.c\n", "arrives with no patch"),
        ("patches/topics", "needs core", "needs apart", "arch needs apart, no earlier topic"),
        ("patches/topics", "0002-more", "0001-hook", "0001-hook.patch stands here twice"),
        ("patches/topics", "0002-more.patch", "0002-more", "expected the name of a patch"),
        ("patches/topics", "0002-more", "0003-none", "0003-none.patch, which does not exist"),
        ("patches/topics", "\tlib/apart.c\n", "", "changes no file, and none arrives with it"),
        ("patches/series", "core/0001-hook.patch\n", "", "lacks core/0001-hook.patch"),
        ("patches/series", "core/0001", "other/0001", "lacks core/0001-hook.patch"),
        ("patches/series", "core/0002-more.patch", "core/0002-more.patch -p0", "lacks core/0002"),
        ("patches/series", "demo/", "apart/0001-stand.patch\ndemo/", "no patch of patches/topics"),
        ("patches/series", "core/0002-more.patch\narch/0001-use.patch",
         "arch/0001-use.patch\ncore/0002-more.patch", "in different orders"),
        (HOOK, "core\n\nIt", "core\nIt", "an empty line"),
        (HOOK, "mm: add", "[PATCH] mm: add", "without a \\[tag\\]"),
        (HOOK, "mm: add", "Add", "must begin with a subsystem"),
        (HOOK, "\nMore.", "\n---\nMore.", "the message at the line '---'"),
        (HOOK, "\nMore.", "\ndiff --git a b", "the line 'diff --git a b'"),
        (HOOK, "--- a/mm/memory.c", "--- /dev/null", "adds or removes"),
        (HOOK, "+++ b/mm/memory.c", "+++ b/../x", "cannot resolve"),
        ("patches/apart/0001-stand.patch", "\nIt needs nothing.\n", "", "an empty line"),
        # Applies, but elsewhere or by leaving out context.
        (MORE, "-11,2 +11,3", "-12,2 +12,3", "0002-more"),
        (MORE, " int line11;", " int line12;", "0002-more"),
    ],
)  # fmt: skip
def test_a_queue_that_is_wrong_is_refused(
    queue: Queue, name: str, old: str, new: str, message: str
) -> None:
    queue.edit(name, old, new)
    with pytest.raises(RedoubtError, match=message):
        queue.export()
    assert not queue.out.exists()


def test_a_queue_that_does_not_fit_the_tree_is_refused(queue: Queue) -> None:
    write_tree(queue.pristine, {"mm/core.c": "Linux has it\n"})
    with pytest.raises(RedoubtError, match=r"kernel/mm/core\.c: Linux has this file"):
        queue.export()
    (queue.pristine / "mm/core.c").unlink()
    (queue.pristine / "mm/memory.c").unlink()
    with pytest.raises(RedoubtError, match=r"a patch changes mm/memory\.c, which is no file"):
        queue.export()
    for side in "ab":
        queue.edit("patches/arch/0001-use.patch", f"{side}/ignored/table.c", f"{side}/mm/core.c")
    with pytest.raises(RedoubtError, match=r"a patch changes mm/core\.c, a file of kernel/"):
        queue.export()


def test_a_place_that_takes_no_mails_is_an_error(queue: Queue) -> None:
    queue.out.write_text("a file")
    with pytest.raises(RedoubtError, match="cannot write the mails"):
        queue.export()


def test_lines_that_look_like_headers_are_no_files(tmp_path: Path) -> None:
    patch = tmp_path / "one.patch"
    patch.write_text(
        "About --- and +++.\n\n--- a/x.lua\n+++ b/x.lua\n@@ -1,3 +1,3 @@\n one\n"
        "--- old comment\n+++ new comment\n three\n"
    )
    assert topics.touched(patch) == {"x.lua"}
    patch.write_text("nothing\n")
    with pytest.raises(RedoubtError, match="changes no file"):
        topics.touched(patch)


# === Signed-off-by and context ===================================================================

SIGNED = "Signed-off-by: Jörg Test <joerg@example.org>"


def test_each_mail_is_signed_off_by_its_author_once(queue: Queue) -> None:
    reviewed = "Reviewed-by: A <a@example.org>\n"
    hook = queue.repo / "patches/core/0001-hook.patch"
    text = hook.read_text()
    # Behind other trailers, or where it stands.
    for before, after in (
        (f"{SIGNED}\n{reviewed}", f"{SIGNED}\n{reviewed}"),
        (reviewed, f"{reviewed}{SIGNED}\n"),
    ):
        hook.write_text(text.replace("\nMore.\n", f"\n{before}"))
        texts = [mail.read_text() for mail in queue.export()]
        assert [text.count(SIGNED) for text in texts] == [1, 1, 1, 1]
        assert f"\n\n{after}---\n" in texts[0]
        assert f"On this architecture.\n\n{SIGNED}\n---\n" in texts[2]
    assert queue.check().ok


@pytest.mark.parametrize("other", ["", "Signed-off-by: Some One <one@example.org>\n"])
def test_a_mail_that_its_author_did_not_sign_is_noticed(queue: Queue, other: str) -> None:
    mails = queue.export()
    mails[0].write_text(mails[0].read_text().replace(f"{SIGNED}\n", other))
    assert queue.check().different == ("message of core/0001-hook.patch",)


# === The cover letter ============================================================================


def test_the_cover_letter_has_the_text_the_list_of_mails_and_the_diffstat(queue: Queue) -> None:
    cover_letter, *mails = queue.export(letter=LETTER)
    assert cover_letter.name == "0000-cover-letter.patch"
    text = cover_letter.read_text()
    assert "\nSubject: [PATCH 0/4] mm: do all of it\n" in text
    assert "Subject: [PATCH 1/4] mm: add the core" in mails[0].read_text()
    body = text.partition("\n\n")[2]
    assert body.startswith(LETTER.partition("\n\n")[2])
    assert "\nJörg Test (4):\n  mm: add the core\n  mm: do more\n  um: use the core\n" in text
    assert re.search(r"^ mm/memory\.c +\| +3 \+", text, re.MULTILINE)
    assert " create mode 100644 arch/um/arch.c\n" in text
    report = queue.check(letter=LETTER)
    assert report.ok
    assert [mail.name for mail in report.mails] == [mail.name for mail in mails]


def test_a_long_subject_is_known_again(queue: Queue) -> None:
    subject = "mm: do all of it, " + "and then some of it again, " * 5 + "at once"
    letter = LETTER.replace("mm: do all of it", subject)
    assert subject not in queue.export(letter=letter)[0].read_text()
    assert queue.check(letter=letter).ok


@pytest.mark.parametrize(("old", "new"), [("two  2", "two  3"), ("do all of it", "do some of it")])
def test_a_cover_letter_that_is_out_of_date_is_noticed(queue: Queue, old: str, new: str) -> None:
    queue.export(letter=LETTER)
    assert queue.check(letter=LETTER.replace(old, new)).different == ("cover letter",)
    (queue.out / "0000-cover-letter.patch").unlink()
    assert queue.check(letter=LETTER).different == ("cover letter",)
    assert queue.check().ok


# --- its text


def repository(where: Path) -> Path:
    """What the text of a cover letter is made of."""
    return Path(shutil.copytree(Path(__file__).with_name("letter"), where, dirs_exist_ok=True))


def test_the_text_has_stress_and_no_packages(tmp_path: Path) -> None:
    where = repository(tmp_path)
    origin = {
        "machine": {"cpu": "a", "cores": 2, "kernel": "6"},
        "commit": "c", "dirty": False, "command": "redoubt x", "date": "2026-01-02", "ok": False,
    }  # fmt: skip
    mutants = {"mutants": [{"outcome": "survived"}], "target": "um", "sites": 5}
    packages = {"packages": [], "boot": None, "target": "x86_64", "config": "small"}
    for name, value in (("mutate-um", mutants), ("deb-x86_64", packages)):
        write_tree(where, {f"results/{name}.json": json.dumps(origin | value)})
    text = cover.letter(where, Source(tmp_path, "7.3.4"))
    told = "um, 1 of 5 places taken out: 1 survived. It\n  failed.\n"
    assert f"\n- results/mutate-um.json: {told}" in text
    assert "deb-x86_64" not in text


def test_the_text_comes_from_the_threat_model_and_results(tmp_path: Path) -> None:
    text = cover.letter(repository(tmp_path), Source(tmp_path / "linux", "7.3.4"))
    assert text.startswith(
        "mm: do all of it\n\nThis is what for.\n\nmm: protect\n===========\n\nThis protects.\n\n"
        "mm: isolate\n===========\n\nThis isolates.\n\nmm: end\n=======\n\nThis is the last.\n\n"
        "Base\n====\n"
    )
    assert "\nbase-version: Linux 7.3.4, a tree given as LINUX_SRC\n" in text
    assert "\n- A frame: The window is as long as an interrupt takes, which is long\n" in text
    assert "\n  enough to wrap.\n" in text
    assert "\n- Other data: `cred`.\n\nTests\n" in text
    assert "Not used" not in text
    lines = [line.split() for line in text.splitlines()]
    # The tests of the tool say nothing about the kernel.
    assert ["um", "-", "0", "0", "0"] in lines
    assert ["um", "on", "7", "1", "2"] in lines
    assert "\nFailed:\n- um on: attacks\n" in text
    assert "\nCosts\n=====\n\nNothing was measured.\n" in text


def test_a_topic_has_a_text_of_its_own_and_of_what_it_needs(tmp_path: Path) -> None:
    base = Source(tmp_path / "linux", "7.3.4")
    repository(tmp_path)
    text = cover.letter(tmp_path, base, ["asi"])
    assert text.startswith("mm: isolate\n\nThis isolates.\n\nmm: protect\n===========\n")
    assert "do all of it" not in text
    assert "Known ways around it" in text
    # The results are those of what was asked for.
    assert "\nNo results.\n" in text
    assert ["um", "on", "7", "1", "2"] in [
        line.split() for line in cover.letter(tmp_path, base, ["kpkeys"]).splitlines()
    ]
    assert "Known ways around it" not in cover.letter(tmp_path, base, ["last"])
    both = cover.letter(tmp_path, base, ["kpkeys", "last"])
    assert both.startswith("mm: do all of it\n")
    assert "isolate" not in both


def test_the_package_is_named_if_the_tree_is_its(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    base = Source(tmp_path.resolve() / "build" / "src", "7.3.9")
    text = cover.letter(repository(tmp_path), base)
    assert "\nbase-version: Linux 7.3.9, Debian's package linux-source-7.3\n" in text


def test_a_commit_is_named_if_the_tree_is_one(queue: Queue, tmp_path: Path) -> None:
    base, repo = Source(queue.pristine, "7.3.4"), repository(tmp_path / "letter")
    for words in (["init"], ["add", "."], ["commit", "-m", "all"]):
        git(queue.pristine, *words)
    text = cover.letter(repo, base)
    head = git(queue.pristine, "rev-parse", "HEAD")
    assert f"\nbase-commit: {head}\n\nThat is Linux 7.3.4.\n" in text
    # Another file than the commit has: then it is no base that anybody else could check out.
    (queue.pristine / "mm/memory.c").write_text("int other;\n")
    assert "base-commit: " not in cover.letter(repo, base)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("patches/COVER", "mm: do", "do", "must begin with a subsystem"),
        ("patches/COVER", "This is", "Das ist für", "cannot have this line: Das ist für"),
        ("configs/threat-model.toml", "[[out_of_scope]]", "[[else]]", "is damaged: 'out_of_scope'"),
        ("configs/threat-model.toml", 'id = "frame"', 'name = "frame"', "is damaged: .* 'name'"),
        ("configs/threat-model.toml", 'status = "open"', 'status = "closed"', "frame must be cl"),
        ("results/test-long-um.json", "suites", "sweets", "neither the result"),
    ],
)
def test_a_text_that_cannot_be_made_is_an_error(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    file = repository(tmp_path) / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(RedoubtError, match=message):
        cover.letter(tmp_path, Source(tmp_path, "7.3.4"))


def test_our_own_cover_letter_can_be_sent() -> None:
    base = Source(Path("linux"), "7.3.4")
    text = cover.letter(paths.repo(), base)
    assert text == cover.letter(paths.repo(), base)
    results = report.load(paths.results_dir())
    commands = [found.provenance["command"] for _, found in results.benchmarks]
    assert commands
    for command in commands:
        assert f"    {command}\n" in text
    lines = text.splitlines()
    assert [line for line in lines if len(line) > 75 and line.strip() not in commands] == []
    # A mailbox may be cut there.
    assert [line for line in lines if line.startswith("From ")] == []
    # Numbers keep their unit.
    assert [line for line in lines if line.lstrip().startswith("%")] == []
    for _, found in results.benchmarks:
        for figure in found.figures:
            if figure.workload == "fork" and figure.variant == "on" and figure.ratio is not None:
                assert tables.cell(figure) in text
    assert len(results.linear_maps) == text.count("ours/pristine")


def test_what_a_mock_meets_is_not_just_met(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("fork, on/off", "time", "≤ +2 %", "(R) +3 %")
    verdicts = ("met", "met (mock)", "missed (mock)", "undecided")
    rows = tuple((*row, verdict) for verdict in verdicts)
    one = tables.Table("targets", "", tables.TARGETS, rows)
    monkeypatch.setattr(tables, "targets", lambda _: one)
    assert list(cover._demands(None)) == [  # type: ignore[arg-type]
        "Of 4 demands, 2 are met, 1 of them with a mock.",
        "- fork, on/off (time): demanded ≤ +2\u00a0%, found (R) +3\u00a0%: missed (mock)",
        "- fork, on/off (time): demanded ≤ +2\u00a0%, found (R) +3\u00a0%: undecided",
    ]


NARROW = """\
A heading that is long

              some
              long
name   size   name
first  1 MiB  +1.0 %
2nd    -      -

name   size   b
first  1 MiB  12345678
2nd    -      -

name   size   last
first  1 MiB  yes
2nd    -      no""".splitlines()


def test_a_table_can_be_made_narrow() -> None:
    columns = ("name", "size", "some long name", "b", "last")
    rows = (("first", "1 MiB", "+1.0 %", "12345678", "yes"), ("2nd", "-", "-", "-", "no"))
    one = tables.Table("kind", "A heading that is long", columns, rows)
    assert tables.text(one, 22) == NARROW
    assert tables.text(one, 37)[4:] == [
        "name   size     name         b  last",
        "first  1 MiB  +1.0 %  12345678  yes",
        "2nd    -           -         -  no",
    ]
    assert tables.text(one)[2] == "name   size   some long name         b  last"
    chosen = tables.only(one, ("last", "name", "x"))
    assert (chosen.columns, chosen.rows) == (("name", "last"), (("first", "yes"), ("2nd", "no")))


# === checkpatch ==================================================================================


@needs_perl
def test_checkpatch_judges_the_mails(queue: Queue) -> None:
    queue.give_scripts()
    judge = partial(lint.check_mails, queue.pristine)
    queue.export(letter=LETTER)
    report = queue.check(judge=judge)
    assert report.ok
    assert report.findings == ()
    assert list(series.render(report))[-2:] == ["checkpatch --strict: 0 findings", "series: clean"]

    queue.edit("kernel/mm/core.c", "int core;", "int BAD;")
    queue.export(letter=LETTER)
    report = queue.check(judge=judge)
    assert not report.ok
    assert report.different == ()
    lines = list(series.render(report))
    assert lines[0] == "mm/core.c:1: checkpatch: BADNESS: bad"
    assert lines[-2:] == [
        "checkpatch --strict: 1 findings",
        "series: the mails are not fit to be sent",
    ]
    assert json.loads(json.dumps(report.as_json()))["findings"][0]["file"] == "mm/core.c"
    # Nobody looked.
    assert queue.check().findings is None


@needs_perl
def test_a_mail_that_is_not_signed_off_is_a_finding(queue: Queue) -> None:
    queue.give_scripts()
    mails = queue.export()
    mails[1].write_text(mails[1].read_text().replace(f"{SIGNED}\n", ""))
    (finding,) = lint.check_mails(queue.pristine, mails)
    assert str(finding) == f"{mails[1].name}:1: checkpatch: MISSING_SIGN_OFF: not signed"


@pytest.mark.guest
@needs_source
def test_the_real_checkpatch_takes_such_mails(queue: Queue) -> None:
    write_tree(queue.repo, {"kernel/mm/core.c": "// SPDX-License-Identifier: GPL-2.0\nint core;\n"})
    queue.edit("patches/core/0001-hook.patch", "core\n\nIt", "core\n\n" + "x " * 50 + "\nIt")
    found = [str(one) for one in lint.check_mails(LINUX, queue.export())]
    name = "0001-mm-add-the-core.patch:1: checkpatch: COMMIT_LOG_LONG_LINE"
    assert [one for one in found if one.startswith(name)]
    # Signed with a name that is not ASCII, and by its author.
    assert [one for one in found if "SIGN" in one] == []


# === The command =================================================================================


@needs_perl
@pytest.mark.parametrize("bad", [False, True])
def test_the_command_takes_its_own_mails_back(
    queue: Queue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    bad: bool,
) -> None:
    repository(queue.repo)
    shutil.copytree(DATA / "repo", queue.repo, dirs_exist_ok=True)
    queue.give_scripts()
    makefile = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n"
    write_tree(queue.pristine, {"Makefile": makefile, "Kbuild": ""})
    monkeypatch.setenv("LINUX_SRC", str(queue.pristine))
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(paths, "repo", lambda: queue.repo)
    if bad:
        queue.edit("kernel/mm/core.c", "int core;", "int BAD;")
    before = snapshot(queue.pristine)
    result = tmp_path / "result.json"
    with pytest.raises(typer.Exit) if bad else nullcontext():
        ship.export_series(check_mails=True, output=queue.out, json_file=result)
    said = capsys.readouterr().out.splitlines()
    names = ["0000-cover-letter.patch", *MAILS]
    assert said[:5] == [str(queue.out / name) for name in names]
    assert said[-1] == ("series: the mails are not fit to be sent" if bad else "series: clean")
    assert json.loads(result.read_text())["ok"] is not bad
    # They are still the user's, and no others were looked at.
    assert not (tmp_path / "build" / "series-test").exists()
    texts = [(queue.out / name).read_text() for name in names]
    assert all(SIGNED in text for text in texts[1:])
    assert snapshot(queue.pristine) == before


def test_a_result_is_that_of_a_check(tmp_path: Path) -> None:
    with pytest.raises(RedoubtError, match="--json") as caught:
        ship.export_series(json_file=tmp_path / "result.json")
    assert caught.value.hint == "redoubt series --check-mails --json FILE"


@pytest.mark.parametrize("targets", [["um"], ["um", "x86_64"], []])
def test_what_the_suite_asks_of_the_series(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, targets: list[str]
) -> None:
    asked_for: dict[str, Any] = {}
    exported: list[Path] = []

    def take_back(_: Path, mails: Path, **options: Any) -> series.Report:
        asked_for.update(options, mails=mails)
        return series.Report((), 0, (), (), False)

    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path))
    monkeypatch.setattr(code.source, "obtain", lambda _: Source(tmp_path / "linux", "7.3.4"))
    monkeypatch.setattr(code.series, "export", lambda _, out, **__: exported.append(out))
    monkeypatch.setattr(code.series, "check", take_back)
    given = tmp_path / "mine" if not targets else None
    code.series_check([TARGETS[name] for name in targets], Silent(), mails=given)
    assert asked_for["full"] is bool(targets)
    assert asked_for["letter"].startswith("mm: ")
    assert asked_for["judge"].args == (tmp_path / "linux",)
    if given:
        assert (exported, asked_for["mails"], asked_for["build"]) == ([], given, None)
    else:
        # Those that the user has made stay as they are.
        assert exported == [asked_for["mails"]] != [paths.build_dir() / "series"]
        assert callable(asked_for["build"])
