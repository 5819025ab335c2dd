# SPDX-License-Identifier: GPL-2.0-only
"""The queue as mails, on a small tree and a small queue made here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from redoubt import series
from redoubt.errors import RedoubtError

pytestmark = pytest.mark.skipif(
    not shutil.which("git") or not shutil.which("patch"), reason="needs git and patch"
)

PRISTINE = {
    "Makefile": "VERSION = 7\n",
    ".gitignore": "*.o\nignored/\n",
    "mm/Makefile": "obj-y += memory.o\nobj-y += mmap.o\nobj-y += slab.o\nobj-y += swap.o\n",
    "mm/memory.c": "".join(f"int line{number};\n" for number in range(20)),
    "ignored/table.c": "int before;\nint middle;\nint after;\n",
    "scripts/tool.sh": "#!/bin/sh\necho tool\nexit 0\n",
    "untouched.c": "int untouched;\n",
}

PATCHES = {
    "core/0001-hook.patch": """\
mm: hook

Why.

--- a/mm/Makefile
+++ b/mm/Makefile
@@ -2,2 +2,3 @@
 obj-y += mmap.o
+obj-y += core.o
 obj-y += slab.o
--- a/mm/memory.c
+++ b/mm/memory.c
@@ -10,3 +10,3 @@
 int line9;
-int line10;
+int line10 = 1;
 int line11;
""",
    "core/0002-more.patch": """\
mm: more

--- a/mm/memory.c
+++ b/mm/memory.c
@@ -11,2 +11,3 @@
 int line10 = 1;
+int more;
 int line11;
""",
    "arch/0001-use.patch": """\
--- a/ignored/table.c
+++ b/ignored/table.c
@@ -1,2 +1,3 @@
 int before;
+int added;
 int middle;
--- a/scripts/tool.sh
+++ b/scripts/tool.sh
@@ -2,2 +2,2 @@
-echo tool
+echo our tool
 exit 0
""",
    "demo/0001-demo.patch": """\
--- a/mm/Makefile
+++ b/mm/Makefile
@@ -3,2 +3,3 @@
 obj-y += core.o
+obj-y += demo.o
 obj-y += slab.o
""",
}

KERNEL = {
    "mm/core.c": "int core;\n",
    "mm/run.sh": "#!/bin/sh\n",
    "arch/um/arch.c": "int arch;\n",
    "mm/demo.c": "int demo;\n",
}

TOPICS = """\
# comment
topic core
mm/core.c
mm/run.sh
topic arch   # the backend
arch/um/arch.c

topic demo local
mm/demo.c
"""

COVERS = {
    "core": "mm: add the core\n\nIt does things. 'Quotes', \"more\" and umlauts: äöü.\n\nMore.\n",
    "arch": "um: use the core\n\nOn this architecture.\n",
}


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a directory."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Queue:
    """A pristine tree, a repository with a queue, and a place for mails."""

    def __init__(self, root: Path) -> None:
        self.pristine = root / "linux"
        self.repo = root / "repo"
        self.out = root / "mails"
        write(self.pristine, PRISTINE)
        (self.pristine / "scripts/tool.sh").chmod(0o755)
        write(self.repo / "patches", PATCHES)
        write(self.repo / "patches", {f"{name}/COVER": text for name, text in COVERS.items()})
        write(self.repo / "kernel", KERNEL)
        (self.repo / "kernel/mm/run.sh").chmod(0o755)
        write(self.repo, {"patches/topics": TOPICS, "patches/series": "\n".join(PATCHES) + "\n"})

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file of the repository."""
        path = self.repo / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} is not in {name} once"
        path.write_text(text.replace(old, new))

    def export(self) -> list[Path]:
        """Export the queue."""
        return series.export(self.pristine, self.out, repo=self.repo)

    def check(
        self, build: Callable[[Path, str], bool | None] | None = None, full: bool = False
    ) -> series.Report:
        """Check the mails."""
        return series.check(self.pristine, self.out, build=build, repo=self.repo, full=full)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue that is in order, and a user with a name."""
    home = tmp_path / "home"
    write(home, {".gitconfig": "[user]\nname = Jörg Test\nemail = joerg@example.org\n"})
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


def test_one_mail_per_topic_and_none_for_a_local_one(queue: Queue) -> None:
    mails = queue.export()
    assert [mail.name for mail in mails] == [
        "0001-mm-add-the-core.patch",
        "0002-um-use-the-core.patch",
    ]
    texts = [mail.read_text() for mail in mails]
    assert "Subject: [PATCH 1/2] mm: add the core" in texts[0]
    assert "joerg@example.org" in texts[0]
    assert "umlauts: äöü" in texts[0]
    # Three lines of context, whatever the stored patches have.
    assert "@@ -8,7 +8,8 @@" in texts[0]
    assert re.search(r"^index [0-9a-f]{12}\.\.[0-9a-f]{12} 100644$", texts[0], re.MULTILINE)
    version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.split()[2] not in texts[0]
    assert "demo" not in "".join(texts)
    assert not list(queue.out.glob(".*"))


def test_the_mails_give_our_tree(queue: Queue) -> None:
    queue.export()
    report = queue.check()
    assert report.ok
    assert report.files == 7
    assert series.render(report)[-1] == "series: clean"
    assert json.loads(json.dumps(report.as_json()))["ok"] is True


def test_git_am_takes_the_mails_on_the_pristine_tree(queue: Queue) -> None:
    # Without our own check: a plain user, a plain repository.
    mails = queue.export()

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(queue.pristine), *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    git("init", "-q")
    git("add", "-A", "-f")
    git("commit", "-q", "-m", "pristine")
    git("am", *map(str, mails))
    assert git("log", "-2", "--format=%an <%ae>: %s").splitlines() == [
        "Jörg Test <joerg@example.org>: um: use the core",
        "Jörg Test <joerg@example.org>: mm: add the core",
    ]
    assert (queue.pristine / "mm/core.c").read_text() == "int core;\n"
    assert "int line10 = 1;\nint more;\n" in (queue.pristine / "mm/memory.c").read_text()
    assert "echo our tool" in (queue.pristine / "scripts/tool.sh").read_text()
    assert os.access(queue.pristine / "mm/run.sh", os.X_OK)


def test_the_same_queue_gives_the_same_mails_whatever_git_is_set_to(queue: Queue) -> None:
    write(queue.repo, {"README": "so that there is a commit\n"})
    for command in (["init", "-q"], ["add", "README"], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", str(queue.repo), *command], check=True)
    queue.export()
    before = snapshot(queue.out)
    hooks = queue.out.parent / "hooks"
    write(hooks, {"pre-commit": "#!/bin/sh\nexit 1\n", "applypatch-msg": "#!/bin/sh\nexit 1\n"})
    for hook in hooks.iterdir():
        hook.chmod(0o755)
    with open(Path(os.environ["HOME"]) / ".gitconfig", "a") as config:
        config.write(
            "[diff]\nnoprefix = true\ncontext = 9\n[core]\nautocrlf = true\n"
            f"hooksPath = {hooks}\nabbrev = 30\n[commit]\ngpgSign = true\n"
            "[format]\nsubjectPrefix = HEY\nsignOff = true\n[am]\nkeepcr = true\n"
        )
    queue.export()
    assert snapshot(queue.out) == before
    assert queue.check().ok


def test_mails_of_an_earlier_run_go(queue: Queue) -> None:
    write(queue.out, {"0007-old.patch": "old", "notes.txt": "mine", "0000-cover.txt": "mine"})
    queue.export()
    assert sorted(path.name for path in queue.out.iterdir()) == [
        "0000-cover.txt",
        "0001-mm-add-the-core.patch",
        "0002-um-use-the-core.patch",
        "notes.txt",
    ]


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
        ("kernel/mm/core.c", "int core;", "int core2;", ["mm/core.c"]),
        ("patches/core/0002-more.patch", "+int more;", "+int more2;", ["mm/memory.c"]),
        ("patches/core/COVER", "It does", "It did", ["message of topic core"]),
    ],
)
def test_a_queue_that_went_on_differs_from_its_mails(
    queue: Queue, name: str, old: str, new: str, different: list[str]
) -> None:
    queue.export()
    queue.edit(name, old, new)
    built: list[str] = []
    report = queue.check(lambda _tree, topic: built.append(topic))
    assert not report.ok
    assert list(report.different) == different
    assert built == []
    assert series.render(report)[0] == f"DIFFERS {different[0]}"


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
    text = mails[1].read_text()
    mails[1].unlink()
    with pytest.raises(RedoubtError, match="2 topics, but the mails make 1 commits"):
        queue.check()
    mails[1].write_text(text.replace(" int before;", " int other;"))
    with pytest.raises(RedoubtError, match=r"git am failed: .*table\.c"):
        queue.check()
    shutil.rmtree(queue.out)
    with pytest.raises(RedoubtError, match="there are no mails"):
        queue.check()


def test_the_whole_tree_can_be_used_even_if_it_is_a_repository(queue: Queue) -> None:
    queue.export()
    for command in (["init", "-q"], ["config", "commit.gpgSign", "true"]):
        subprocess.run(["git", "-C", str(queue.pristine), *command], check=True)
    (queue.pristine / "link").symlink_to("untouched.c")
    before = snapshot(queue.pristine)
    report = queue.check(full=True)
    assert report.ok
    assert report.full
    assert report.files == len(PRISTINE) + 3 + 1
    assert snapshot(queue.pristine) == before


def test_every_prefix_is_built_as_a_whole_tree(queue: Queue) -> None:
    queue.export()
    before = snapshot(queue.pristine)
    seen: list[tuple[str, bool, bool, bool]] = []

    def build(tree: Path, topic: str) -> None:
        assert (tree / "untouched.c").read_text() == "int untouched;\n"
        assert not (tree / "mm/demo.c").exists()
        assert os.access(tree / "mm/run.sh", os.X_OK)
        seen.append(
            (
                topic,
                (tree / "mm/core.c").exists(),
                (tree / "arch/um/arch.c").exists(),
                "added" in (tree / "ignored/table.c").read_text(),
            )
        )

    report = queue.check(build)
    assert report.built == ("core", "arch")
    assert seen == [("core", True, False, False), ("arch", True, True, True)]
    # The prefix tree is linked with pristine; replacing a file must not reach through the link.
    assert snapshot(queue.pristine) == before
    assert "prefixes built: core, arch" in series.render(report)


def test_a_prefix_that_is_left_out_is_not_called_built(queue: Queue) -> None:
    queue.export()
    assert queue.check(lambda _tree, topic: topic == "arch").built == ("arch",)


def test_a_prefix_that_does_not_build_is_named(queue: Queue) -> None:
    queue.export()

    def build(_tree: Path, topic: str) -> None:
        if topic == "arch":
            raise RedoubtError("no rule to make arch.o")

    with pytest.raises(RedoubtError, match=r"up to topic arch .*no rule to make arch\.o"):
        queue.check(build)


def test_nothing_is_left_behind(queue: Queue, tmp_path: Path) -> None:
    queue.export()
    place = tmp_path / "work"
    trees: list[Path] = []
    for _ in range(2):
        series.check(
            queue.pristine,
            queue.out,
            build=lambda tree, _topic: trees.append(tree),
            repo=queue.repo,
            work_in=place,
        )
    assert len(set(trees)) == 1
    assert trees[0].is_relative_to(place)
    assert list(place.iterdir()) == []
    queue.check()
    assert not list(tmp_path.glob(".redoubt-series-*"))


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


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("patches/topics", "topic arch ", "topic core ", "topic core stands here twice"),
        ("patches/topics", "topic demo local", "topic demo lokal", "expected 'topic NAME'"),
        ("patches/topics", "# comment", "mm/first.c", "below a topic"),
        ("patches/topics", "mm/core.c", "mm/core.c mm/b.c", "path of one file"),
        ("patches/topics", "arch/um/arch.c", "mm/core.c", "mm/core.c is introduced twice"),
        ("patches/topics", "topic core", "topic core local", "topic arch follows the local core"),
        ("patches/topics", "mm/core.c", "mm/none.c", "there is no kernel/mm/none.c"),
        ("patches/series", "core/0001", "other/0001", "belongs to no topic"),
        ("patches/series", "core/0001", "core/0003", "there is no patches/core/0003"),
        ("patches/series", "core/0002-more.patch", "core/0002-more.patch -p0", "with -p1"),
        (
            "patches/series",
            "core/0002-more.patch\narch/0001-use.patch",
            "arch/0001-use.patch\ncore/0002-more.patch",
            "core/0002-more.patch stands behind a later topic",
        ),
        ("patches/core/COVER", "mm: add the core\n\n", "mm: add the core\n", "an empty line"),
        ("patches/core/COVER", "mm: add", "[PATCH] mm: add", "without a \\[tag\\]"),
        # Applies, but elsewhere or by leaving out context.
        ("patches/core/0002-more.patch", "-11,2 +11,3", "-12,2 +12,3", "0002-more"),
        ("patches/core/0002-more.patch", " int line11;", " int line12;", "0002-more"),
        ("patches/core/0001-hook.patch", "--- a/mm/memory.c", "--- /dev/null", "adds or removes"),
        ("patches/core/0001-hook.patch", "+++ b/mm/memory.c", "+++ b/../x", "cannot resolve"),
    ],
)
def test_a_queue_that_is_wrong_is_refused(
    queue: Queue, name: str, old: str, new: str, message: str
) -> None:
    queue.edit(name, old, new)
    with pytest.raises(RedoubtError, match=message):
        queue.export()
    assert not queue.out.exists()


def test_a_queue_that_does_not_fit_the_tree_is_refused(queue: Queue) -> None:
    write(queue.pristine, {"mm/core.c": "Linux has it\n"})
    with pytest.raises(RedoubtError, match=r"kernel/mm/core\.c: Linux has this file"):
        queue.export()
    (queue.pristine / "mm/core.c").unlink()
    (queue.pristine / "mm/memory.c").unlink()
    with pytest.raises(RedoubtError, match=r"a patch changes mm/memory\.c, which is no file"):
        queue.export()


def test_a_patch_may_not_change_a_file_of_ours(queue: Queue) -> None:
    queue.edit("patches/arch/0001-use.patch", "a/ignored/table.c", "a/mm/core.c")
    queue.edit("patches/arch/0001-use.patch", "b/ignored/table.c", "b/mm/core.c")
    with pytest.raises(RedoubtError, match=r"a patch changes mm/core\.c, a file of kernel/"):
        queue.export()


def test_a_topic_needs_a_message_and_an_effect(queue: Queue) -> None:
    (queue.repo / "patches/arch/COVER").unlink()
    with pytest.raises(RedoubtError, match=r"cannot read .*arch/COVER"):
        queue.export()
    write(queue.repo, {"patches/arch/COVER": COVERS["arch"]})
    queue.edit("patches/series", "arch/0001-use.patch\n", "")
    queue.edit("patches/topics", "arch/um/arch.c\n", "")
    with pytest.raises(RedoubtError, match="topic arch changes nothing"):
        queue.export()


def test_a_topic_may_have_files_only_or_patches_only(queue: Queue) -> None:
    queue.edit("patches/series", "arch/0001-use.patch\n", "")
    queue.edit("patches/topics", "mm/core.c\nmm/run.sh\n", "")
    assert len(queue.export()) == 2
    assert queue.check().ok


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
    assert series.touched(patch) == {"x.lua"}
    patch.write_text("nothing\n")
    with pytest.raises(RedoubtError, match="changes no file"):
        series.touched(patch)
