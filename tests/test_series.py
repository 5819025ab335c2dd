# SPDX-License-Identifier: GPL-2.0-only
"""The queue as mails, on a small tree and a small queue made here."""

from __future__ import annotations

import contextlib
import difflib
import email.policy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from email.parser import Parser
from email.utils import formataddr
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import REAL_BUILD

from redoubt.cli import ship
from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.cost import tables
from redoubt.linux import topics
from redoubt.linux.source import Source
from redoubt.ship import cover, lint, recipients, report, series
from redoubt.ship.recipients import Recipients
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


LETTER = "mm: do all of it\n\nWhat for.\n\nNumbers\n=======\n\none  1\ntwo  2\n"

# Finds one thing, the word BAD in a line that is added, and a mail that is not signed off.
CHECKPATCH = r"""
my ($name, $line, $bad, $signed) = ("", 0, 0, 0);
open(my $in, "<", $ARGV[-1]) or die "cannot open $ARGV[-1]\n";
while (<$in>) {
    if (/^\+\+\+ b\/(\S+)/) { $name = $1; next; }
    if (/^@@ -\S+ \+(\d+)/) { $line = $1 - 1; next; }
    $signed = 1 if /^Signed-off-by: /;
    $line++ unless /^-/;
    if (/^\+.*BAD/) { print "$name:$line: ERROR:BADNESS: bad\n"; $bad = 1; }
}
if (!$signed) { print "$name:$line: ERROR:MISSING_SIGN_OFF: not signed\n"; $bad = 1; }
exit $bad;
"""

# Knows who looks after arch/um/, and who after the rest.
GET_MAINTAINER = r"""
open(my $in, "<", $ARGV[-1]) or die "cannot open $ARGV[-1]\n";
my $text = join("", <$in>);
if ($text =~ m{^\+\+\+ b/arch/um/}m) {
    print "\"Ulla M. (UML)\" <ulla\@example.org> (maintainer:USER MODE LINUX (UML))\n";
}
print "J\xc3\xb6rg Core <core\@example.org> (maintainer:CORE,reviewer:MEMORY)\n";
print "rev\@example.org (reviewer:MEMORY)\n";
print "linux-list\@example.org (open list)\n";
"""


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

    def export(self, **options: Any) -> list[Path]:
        """Export the queue."""
        return series.export(self.pristine, self.out, repo=self.repo, **options)

    def check(
        self,
        build: Callable[[Path, str], bool | None] | None = None,
        full: bool = False,
        **options: Any,
    ) -> series.Report:
        """Check the mails."""
        return series.check(
            self.pristine, self.out, build=build, repo=self.repo, full=full, **options
        )

    def give_scripts(self) -> None:
        """Put stand-ins for the kernel's own scripts into the pristine tree."""
        write(self.pristine, {"scripts/checkpatch.pl": CHECKPATCH})
        write(self.pristine, {"scripts/get_maintainer.pl": GET_MAINTAINER})


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
        ("patches/core/COVER", "mm: add", "Add", "must begin with a subsystem"),
        ("patches/core/COVER", "\nMore.", "\n---\nMore.", "end the message at the line '---'"),
        ("patches/core/COVER", "\nMore.", "\ndiff --git a b", "the line 'diff --git a b'"),
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
    assert topics.touched(patch) == {"x.lua"}
    patch.write_text("nothing\n")
    with pytest.raises(RedoubtError, match="changes no file"):
        topics.touched(patch)


# === Signed-off-by and context ===================================================================

SIGNED = "Signed-off-by: Jörg Test <joerg@example.org>"


def test_each_mail_is_signed_off_by_its_author_once(queue: Queue) -> None:
    queue.edit("patches/core/COVER", "\nMore.\n", f"\n{SIGNED}\nReviewed-by: A <a@example.org>\n")
    texts = [mail.read_text() for mail in queue.export()]
    assert [text.count(SIGNED) for text in texts] == [1, 1]
    assert f"\n\n{SIGNED}\nReviewed-by: A <a@example.org>\n---\n" in texts[0]
    assert f"On this architecture.\n\n{SIGNED}\n---\n" in texts[1]
    assert queue.check().ok


def test_it_follows_other_trailers(queue: Queue) -> None:
    queue.edit("patches/core/COVER", "\nMore.\n", "\nReviewed-by: A <a@example.org>\n")
    text = queue.export()[0].read_text()
    assert f"\n\nReviewed-by: A <a@example.org>\n{SIGNED}\n---\n" in text


@pytest.mark.parametrize("other", ["", "Signed-off-by: Some One <one@example.org>\n"])
def test_a_mail_that_its_author_did_not_sign_is_noticed(queue: Queue, other: str) -> None:
    mails = queue.export()
    mails[0].write_text(mails[0].read_text().replace(f"{SIGNED}\n", other))
    assert queue.check().different == ("message of topic core",)


def test_a_mail_has_three_lines_of_context(queue: Queue) -> None:
    before = PRISTINE["mm/memory.c"].splitlines(keepends=True)
    after = "".join(before).replace("int line10;\n", "int line10 = 1;\nint more;\n")
    names = ("a/mm/memory.c", "b/mm/memory.c")
    expected = difflib.unified_diff(before, after.splitlines(keepends=True), *names, n=3)
    text = queue.export()[0].read_text()
    assert "".join(expected) in re.sub(r"^(@@ .* @@).*$", r"\1", text, flags=re.MULTILINE)


# === The cover letter ============================================================================


def test_the_cover_letter_has_the_text_the_list_of_mails_and_the_diffstat(queue: Queue) -> None:
    cover_letter, *mails = queue.export(letter=LETTER)
    assert cover_letter.name == "0000-cover-letter.patch"
    text = cover_letter.read_text()
    assert "\nSubject: [PATCH 0/2] mm: do all of it\n" in text
    assert "Subject: [PATCH 1/2] mm: add the core" in mails[0].read_text()
    body = text.partition("\n\n")[2]
    assert body.startswith(LETTER.partition("\n\n")[2])
    assert "\nJörg Test (2):\n  mm: add the core\n  um: use the core\n" in text
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


def test_the_same_text_gives_the_same_cover_letter(queue: Queue) -> None:
    for command in (["init", "-q"], ["add", "patches"], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", str(queue.repo), *command], check=True)
    queue.export(letter=LETTER)
    before = snapshot(queue.out)
    queue.export(letter=LETTER)
    assert snapshot(queue.out) == before
    assert len(before) == 3


def test_the_cover_letter_of_an_earlier_run_goes(queue: Queue) -> None:
    queue.export(letter=LETTER)
    queue.export()
    assert not (queue.out / "0000-cover-letter.patch").exists()


# --- its text


def repository(where: Path) -> Path:
    """What the text of a cover letter is made of."""
    write(
        where,
        {
            "patches/COVER": "mm: do all of it\n\nThis is what for.\n",
            "configs/threat-model.toml": (
                '[[bypass]]\nid = "spilled"\ngroup = "g"\ntitle = "A spilled level"\n'
                'status = "closed"\nclosed_by = "Not used."\nshown_by = []\n'
                '[[bypass]]\nid = "frame"\ngroup = "g"\ntitle = "A frame"\nstatus = "open"\n'
                'why = "The window is as long as an interrupt takes, which is long enough to wrap."'
                "\nshown_by = []\n"
                '[[out_of_scope]]\ntitle = "Other data"\nwhy = "`cred`."\nshown_by = []\n'
            ),
            "results/test-long-um.json": json.dumps(
                [
                    {"target": "um", "variant": "-", "suites": [suite_of("tool", 9, 1, 1)]},
                    {
                        "target": "um",
                        "variant": "on",
                        "suites": [suite_of("levels", 3, 0, 2), suite_of("attacks", 4, 1, 0)],
                    },
                ]
            ),
        },
    )
    return where


def test_the_text_has_stress_and_no_packages(tmp_path: Path) -> None:
    where = repository(tmp_path)
    origin = {
        "machine": {"cpu": "a", "cores": 2, "kernel": "6"},
        "commit": "c", "dirty": False, "command": "redoubt x", "date": "2026-01-02", "ok": False,
    }  # fmt: skip
    mutants = {"mutants": [{"outcome": "survived"}], "target": "um", "sites": 5}
    packages = {"packages": [], "boot": None, "target": "x86_64", "config": "small"}
    for name, value in (("mutate-um", mutants), ("deb-x86_64", packages)):
        write(where, {f"results/{name}.json": json.dumps(origin | value)})
    text = cover.letter(where, Source(tmp_path, "7.3.4"))
    told = "um, 1 of 5 places taken out: 1 survived. It\n  failed.\n"
    assert f"\n- results/mutate-um.json: {told}" in text
    assert "deb-x86_64" not in text


def suite_of(name: str, passed: int, failed: int, skipped: int) -> dict[str, Any]:
    return {"name": name, "passed": passed, "failed": failed, "skipped": skipped}


def test_the_text_comes_from_the_threat_model_and_results(tmp_path: Path) -> None:
    text = cover.letter(repository(tmp_path), Source(tmp_path / "linux", "7.3.4"))
    assert text.startswith("mm: do all of it\n\nThis is what for.\n\nBase\n====\n")
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


def test_the_package_is_named_if_the_tree_is_its(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    base = Source(tmp_path.resolve() / "build" / "src", "7.3.9")
    text = cover.letter(repository(tmp_path), base)
    assert "\nbase-version: Linux 7.3.9, Debian's package linux-source-7.3\n" in text


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("patches/COVER", "mm: do", "do", "must begin with a subsystem"),
        ("patches/COVER", "This is", "Das ist für", "cannot have this line: Das ist für"),
        ("configs/threat-model.toml", "[[out_of_scope]]", "[[else]]", "is damaged: 'out_of_scope'"),
        ("configs/threat-model.toml", 'id = "frame"', 'name = "frame"', "is damaged: .* 'name'"),
        (
            "configs/threat-model.toml",
            'status = "open"',
            'status = "closed"',
            "frame must be closed",
        ),
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


def test_what_a_mock_meets_is_not_just_met() -> None:
    columns = ("target", "kind", "demanded", "found", "verdict")
    row = ("fork, on/off", "time", "≤ +2 %", "(R) +3 %")
    verdicts = ("met", "met (mock)", "missed (mock)", "undecided")
    one = tables.Table("targets", "", columns, tuple((*row, verdict) for verdict in verdicts))
    assert list(cover._demands(one)) == [
        "Of 4 demands, 2 are met, 1 of them with a mock.",
        "- fork, on/off (time): demanded ≤ +2\u00a0%, found (R) +3\u00a0%: missed (mock)",
        "- fork, on/off (time): demanded ≤ +2\u00a0%, found (R) +3\u00a0%: undecided",
    ]


def test_a_table_can_be_made_narrow() -> None:
    one = tables.Table(
        "kind",
        "A heading that is long",
        ("name", "size", "some long name", "b", "last"),
        (("first", "1 MiB", "+1.0 %", "12345678", "yes"), ("2nd", "-", "-", "-", "no")),
    )
    assert tables.text(one, 37) == [
        "A heading that is long",
        "",
        "                some",
        "                long",
        "name   size     name         b  last",
        "first  1 MiB  +1.0 %  12345678  yes",
        "2nd    -           -         -  no",
    ]
    assert tables.text(one, 22) == [
        "A heading that is long",
        "",
        "              some",
        "              long",
        "name   size   name",
        "first  1 MiB  +1.0 %",
        "2nd    -      -",
        "",
        "name   size   b",
        "first  1 MiB  12345678",
        "2nd    -      -",
        "",
        "name   size   last",
        "first  1 MiB  yes",
        "2nd    -      no",
    ]
    assert tables.text(one)[2] == "name   size   some long name         b  last"


def test_columns_are_chosen_by_name() -> None:
    one = tables.Table("kind", "heading", ("a", "b", "c"), (("1", "2", "3"),))
    assert tables.only(one, ("c", "a", "x")) == tables.Table(
        "kind", "heading", ("a", "c"), (("1", "3"),)
    )


# === Recipients ==================================================================================

WHO = [
    '"Some One (Firm)" <one@example.org> (maintainer:A SUBSYSTEM (WITH/PARTS))',
    "Two <two@example.org> (supporter:ANOTHER,reviewer:A SUBSYSTEM)",
    "list@example.org (maintainer:THIRD)",
    "Thr\u00e9e <three@example.org> (reviewer:A SUBSYSTEM)",
    "Two Again <TWO@example.org> (reviewer:THIRD)",
    "one-list@example.org (open list:A SUBSYSTEM (WITH/PARTS))",
]


def test_maintainers_come_first() -> None:
    assert recipients.parse(WHO) == Recipients(
        (
            '"Some One (Firm)" <one@example.org>',
            "Two <two@example.org>",
            "list@example.org",
        ),
        ("=?utf-8?b?VGhyw6ll?= <three@example.org>", "one-list@example.org"),
    )


def test_what_is_no_recipient_is_an_error() -> None:
    with pytest.raises(RedoubtError, match="no recipient: cannot open MAINTAINERS"):
        recipients.parse([WHO[0], "cannot open MAINTAINERS"])


def asked(queue: Queue) -> Callable[[Path], Recipients]:
    """Whom the stand-in in the pristine tree names."""
    queue.give_scripts()
    return partial(recipients.ask, queue.pristine)


@needs_perl
def test_recipients_stand_beside_the_mails(queue: Queue) -> None:
    written = queue.export(letter=LETTER, ask=asked(queue))
    assert written[-1] == queue.out / "recipients"
    for mail in written[:-1]:
        head = mail.read_text().partition("\n\n")[0]
        assert not re.search(r"^(To|Cc):", head, re.MULTILINE)
    core = f"To: {formataddr(('Jörg Core', 'core@example.org'))}"
    assert core.isascii()
    others = ["Cc: rev@example.org", "Cc: linux-list@example.org"]
    uml = 'To: "Ulla M. (UML)" <ulla@example.org>'
    _, every, first, second = written[-1].read_text().strip().split("\n\n")
    assert every.splitlines() == ["0000-cover-letter.patch", core, uml, *others]
    assert first.splitlines() == ["0001-mm-add-the-core.patch", core, *others]
    assert second.splitlines() == ["0002-um-use-the-core.patch", uml, core, *others]
    assert queue.check(letter=LETTER).ok
    # They were those of other mails.
    queue.export()
    assert not (queue.out / "recipients").exists()


@needs_perl
def test_recipients_can_be_written_into_the_mails(queue: Queue) -> None:
    ask = asked(queue)
    queue.export(ask=ask)
    written = queue.export(letter=LETTER, ask=ask, address=True)
    assert not (queue.out / "recipients").exists()
    found = []
    for mail in written:
        message = Parser(policy=email.policy.default).parsestr(mail.read_text())
        found.append([[one.addr_spec for one in message[name].addresses] for name in ("To", "Cc")])
        assert "Jörg Core" in str(message["To"])
        assert message["Subject"].startswith("[PATCH ")
    cc = ["rev@example.org", "linux-list@example.org"]
    core, uml = "core@example.org", "ulla@example.org"
    assert found == [[[core, uml], cc], [[core], cc], [[uml, core], cc]]
    assert queue.check(letter=LETTER).ok


@needs_perl
def test_without_recipients_nothing_is_written(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = asked(queue)
    queue.export()
    before = snapshot(queue.out)
    write(queue.pristine, {"scripts/get_maintainer.pl": "print STDERR 'no tree';\nexit 1;\n"})
    with pytest.raises(RedoubtError, match=r"nobody for 0001-.*\(exit 1\)\n    no tree"):
        queue.export(ask=ask)
    write(queue.pristine, {"scripts/get_maintainer.pl": "exit 0;\n"})
    with pytest.raises(RedoubtError, match="nobody for 0001-"):
        queue.export(ask=ask)
    monkeypatch.setattr(recipients.shutil, "which", lambda _: None)
    with pytest.raises(RedoubtError, match="perl: not found") as caught:
        queue.export(ask=ask)
    assert caught.value.hint == "run: scripts/prerequisites lint"
    assert snapshot(queue.out) == before


@pytest.mark.guest
@needs_source
def test_maintainers_of_new_files_are_known(tmp_path: Path) -> None:
    mail = tmp_path / "0001-new.patch"
    mail.write_text(
        "From: A <a@example.org>\nSubject: [PATCH] mm: new\n\nNew.\n---\n"
        "diff --git a/mm/none/none.c b/mm/none/none.c\nnew file mode 100644\n"
        "--- /dev/null\n+++ b/mm/none/none.c\n@@ -0,0 +1 @@\n+int none;\n"
    )
    assert "linux-mm@kvack.org" in recipients.ask(LINUX, mail).cc


# === checkpatch ==================================================================================


@needs_perl
def test_checkpatch_judges_the_mails(queue: Queue) -> None:
    queue.give_scripts()
    judge = partial(lint.check_mails, queue.pristine)
    queue.export(letter=LETTER)
    report = queue.check(judge=judge)
    assert report.ok
    assert report.findings == ()
    assert series.render(report)[-2:] == ["checkpatch --strict: 0 findings", "series: clean"]

    queue.edit("kernel/mm/core.c", "int core;", "int BAD;")
    queue.export(letter=LETTER)
    report = queue.check(judge=judge)
    assert not report.ok
    assert report.different == ()
    lines = series.render(report)
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
    write(queue.repo, {"kernel/mm/core.c": "// SPDX-License-Identifier: GPL-2.0\nint core;\n"})
    queue.edit("patches/core/COVER", "mm: add the core\n\n", "mm: add the core\n\n" + "x " * 50)
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
    queue.give_scripts()
    makefile = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n"
    write(queue.pristine, {"Makefile": makefile, "Kbuild": ""})
    monkeypatch.setenv("LINUX_SRC", str(queue.pristine))
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    monkeypatch.setattr(paths, "repo", lambda: queue.repo)
    if bad:
        queue.edit("kernel/mm/core.c", "int core;", "int BAD;")
    before = snapshot(queue.pristine)
    result = tmp_path / "result.json"
    with pytest.raises(typer.Exit) if bad else contextlib.nullcontext() as ended:
        ship.export_series(check_mails=True, address=True, output=queue.out, json_file=result)
    assert not ended or ended.value.exit_code == 1
    said = capsys.readouterr().out.splitlines()
    names = ["0000-cover-letter.patch", "0001-mm-add-the-core.patch", "0002-um-use-the-core.patch"]
    assert said[:3] == [str(queue.out / name) for name in names]
    assert said[-1] == ("series: the mails are not fit to be sent" if bad else "series: clean")
    assert json.loads(result.read_text())["ok"] is not bad
    # They are still the user's, with recipients, and no others were looked at.
    assert not (tmp_path / "build" / "series-test").exists()
    texts = [(queue.out / name).read_text() for name in names]
    assert [text.count("\nTo: ") for text in texts] == [1, 1, 1]
    assert all(SIGNED in text for text in texts[1:])
    assert snapshot(queue.pristine) == before


def test_a_result_is_that_of_a_check(tmp_path: Path) -> None:
    with pytest.raises(RedoubtError, match="--json") as caught:
        ship.export_series(json_file=tmp_path / "result.json")
    assert caught.value.hint == "redoubt series --check-mails --json FILE"


@pytest.mark.parametrize(
    ("targets", "sampled"), [(["um"], True), (["um", "x86_64"], False), ([], True)]
)
def test_what_the_suite_asks_of_the_series(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, targets: list[str], sampled: bool
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
    code.series_check([TARGETS[name] for name in targets], Silent(), sampled=sampled, mails=given)
    assert asked_for["full"] is not sampled
    assert asked_for["letter"].startswith("mm: ")
    assert asked_for["judge"].args == (tmp_path / "linux",)
    if given:
        assert (exported, asked_for["mails"], asked_for["build"]) == ([], given, None)
    else:
        # Those that the user has made stay as they are.
        assert exported == [asked_for["mails"]] != [paths.build_dir() / "series"]
        assert callable(asked_for["build"])
