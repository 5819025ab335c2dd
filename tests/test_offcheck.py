# SPDX-License-Identifier: GPL-2.0-only
"""The comparison of two builds, on objects compiled here: what must pass and what must not."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from redoubt.core.errors import RedoubtError
from redoubt.image import offcheck

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("gcc") or not shutil.which("objdump"),
    reason="needs gcc and objdump for x86-64",
)

FLAGS = ["-O2", "-fno-pie", "-fcf-protection=none"]

HEADER = """
/* shared by all */
void slowpath(const char *file, int line, const char *function);
#define WARN() slowpath("file.c", __LINE__, __func__)
#define FLAGS 3
struct place { const char *file; unsigned int line; };
struct debug { const char *file; unsigned int line : 18; unsigned int flags : 8; };
struct bug { int where; unsigned short line; unsigned short flags; };
"""

SOURCE = """
#include "header.h"
int value = 7;
const char *name = "name";
int counter;
void other(void);
void third(void);
int work(int argument);
int work(int argument)
{
    if (argument > 200)
        WARN();
    other();
    counter += argument;
    return argument + 300;
}
struct place place = { "file.c", __LINE__ + (0) };
struct debug debug = { "file.c", __LINE__ + (0), FLAGS };
struct bug bug = { 1, __LINE__ + (0), 2 };
static char space[64];
char *spot(void);
char *spot(void)
{
    return space;
}
int work2(int argument);
int work2(int argument)
{
    other(); third();
    return argument;
}
int (*swap[])(int) = { work, work2 };
"""


@dataclass
class Pair:
    """A pristine and a patched source tree with their builds."""

    root: Path

    def __post_init__(self) -> None:
        for side in ("pristine", "patched"):
            self.write(side, "header.h", HEADER)
            self.write(side, "mm/file.c", SOURCE)
            build = self.root / f"{side}-build"
            (build / "mm").mkdir(parents=True)
            (build / "source").symlink_to(self.root / side)
            (build / ".config").write_text("CONFIG_A=y\n# CONFIG_B is not set\n")

    def write(self, side: str, name: str, text: str) -> None:
        """Write a source file."""
        path = self.root / side / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def patch(self, name: str, old: str, new: str) -> None:
        """Change the patched source."""
        path = self.root / "patched" / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} is not in {name} once"
        path.write_text(text.replace(old, new))

    def compile(self, side: str, name: str, *flags: str) -> None:
        """Compile one file the way the kernel's build does, its record of files included."""
        source, build = self.root / side, self.root / f"{side}-build"
        path = build / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unit = source / Path(name).with_suffix(".c")
        # Absolute paths like an out-of-tree build; the header is named relative to the build.
        subprocess.run(
            ["gcc", *FLAGS, f"-I{source}", *flags, "-c", "-o", str(path), str(unit)],
            check=True,
        )
        path.with_name(f".{path.name}.cmd").write_text(
            f"savedcmd_{name} := gcc\n\nsource_{name} := {unit}\n\ndeps_{name} := \\\n"
            f"    $(wildcard include/config/B) \\\n  ../{side}/header.h \\\n\n"
            f"{name}: $(deps_{name})\n"
        )

    def compare(self) -> offcheck.Report:
        """Compile both sides and compare."""
        for side in ("pristine", "patched"):
            self.compile(side, "mm/file.o")
        return self.report()

    def stamp(self, name: str, *flags: str, **texts: str) -> None:
        """Compile a text for each of these sides, with the time of the build for {}."""
        times = {"pristine": "#1 SMP Mon Jan 1 10:00", "patched": "#1 SMP Tue Jan 2 11:00"}
        for side, text in texts.items():
            time = times[side]
            header = f'#define UTS_VERSION "{time}"\n'
            self.write(f"{side}-build", "include/generated/utsversion.h", header)
            self.write(side, f"{name}.c", f'const char banner[] = "{text.format(time)}";\n')
            self.compile(side, f"{name}.o", *flags)

    def report(self) -> offcheck.Report:
        """Compare what is compiled."""
        return offcheck.compare(self.root / "pristine-build", self.root / "patched-build")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Two trees with the same content."""
    return Pair(tmp_path)


def test_the_same_source_in_two_places_is_identical(pair: Pair) -> None:
    report = pair.compare()
    assert report.ok
    assert (report.compared, report.identical, report.line_changes) == (1, 1, ())
    assert offcheck.render(report)[-1] == "offcheck: clean"


def test_line_numbers_that_moved_are_let_through_and_listed(pair: Pair) -> None:
    pair.patch("mm/file.c", "int counter;", "int counter;\n/* a */\n/* b */")
    report = pair.compare()
    assert report.ok, offcheck.render(report)
    assert report.identical == 0
    line = SOURCE.split("\n").index("        WARN();") + 1
    place = SOURCE.split("\n").index('struct place place = { "file.c", __LINE__ + (0) };') + 1
    found = {
        (change.section.split(".")[1], change.file, change.old, change.new)
        for change in report.line_changes
    }
    assert found == {
        ("data", "mm/file.c", place, place + 2),
        ("data", "mm/file.c", place + 1, place + 3),
        ("data", "mm/file.c", place + 2, place + 4),
        ("text", "mm/file.c", line, line + 2),
    }


def test_lines_that_move_up_are_let_through(pair: Pair) -> None:
    for side in ("pristine", "patched"):
        pair.write(side, "mm/file.c", "/* first */\n/* second */\n" + SOURCE)
    pair.patch("mm/file.c", "/* first */\n/* second */\n", "")
    report = pair.compare()
    assert report.ok, offcheck.render(report)
    assert {change.new - change.old for change in report.line_changes} == {-2}
    assert len(report.line_changes) == 4


def test_a_line_of_a_header_may_move_too(pair: Pair) -> None:
    inline = "\nstatic inline void check(int x)\n{\n\tif (x)\n\t\tWARN();\n}\n"
    for side in ("pristine", "patched"):
        pair.write(side, "header.h", HEADER + inline)
        pair.write(side, "mm/file.c", SOURCE.replace("other();\n", "other(); check(argument);\n"))
    pair.patch("header.h", "/* shared by all */", "/* shared by all */\n")
    report = pair.compare()
    assert report.ok, offcheck.render(report)
    assert {change.file for change in report.line_changes} == {"header.h"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("argument + 300", "argument + 302"),  # an immediate, but of no line
        ("argument > 200", "argument >= 200"),  # another instruction
        ("    other();\n", "    other(); other();\n"),
        ("    other();\n", "    third();\n"),
        ("int value = 7;", "int value = 9;"),
        ('"name"', '"nome"'),
        ("int counter;", "int counter, more;"),  # only .bss
        ("int counter;", "static int counter;"),  # only the symbol table
        ("int counter;", '__attribute__((visibility("hidden"))) int counter;'),
        ("int value = 7;", 'int value __attribute__((section(".mine"))) = 7;'),
        ("void other(void);", "void other(void) __attribute__((weak));"),
        ("int value = 7;", "int value __attribute__((aligned(64))) = 7;"),
        ("const char *name", "const char *const name"),
        (", FLAGS };\n", ", 5 };\n"),  # the bits beside a line number
        # One of: alignment, size without bytes, a name, a section, and nothing else.
        ("int counter;", "int counter __attribute__((aligned(64)));"),
        ("static char space[64];", "static char space[65];"),
        ("int counter;", 'int counter; extern int also __attribute__((alias("counter")));'),
        ("int counter;", 'int counter; static int x __attribute__((section(".mine"), used));'),
        # Relocations alone: the same names are used in another order.
        ("{ work, work2 }", "{ work2, work }"),
        ("other(); third();", "third(); other();"),
    ],
)
def test_any_other_difference_is_one(pair: Pair, old: str, new: str) -> None:
    pair.patch("mm/file.c", old, new)
    report = pair.compare()
    assert [difference.object for difference in report.differing] == ["mm/file.o"]
    assert report.differing[0].detail
    assert not report.ok
    assert offcheck.render(report)[-1] == "offcheck: the kernels differ"


def test_a_number_that_looks_like_a_moved_line_is_judged_by_the_source(pair: Pair) -> None:
    # Two lines more above, and a constant that is two more as well: it is line 300 of a file that
    # has no such line.
    pair.patch("mm/file.c", "int counter;", "int counter;\n\n")
    pair.patch("mm/file.c", "argument + 300", "argument + 302")
    assert not pair.compare().ok


def test_a_line_moves_by_what_was_added_above_it(pair: Pair) -> None:
    # The line is in the file, but nothing above it was added: the number is not its new line.
    pair.patch("mm/file.c", "bug = { 1, __LINE__", "bug = { 1, 2 + __LINE__")
    pair.patch("mm/file.c", ", 2 };\n", ", 2 };\n/* a */\n/* b */\n")
    assert not pair.compare().ok


def test_an_assertion_may_have_another_name_for_what_it_asks(pair: Pair) -> None:
    pair.patch("mm/file.c", "        WARN();", "        /* a */\n        WARN( );")
    assert pair.compare().ok
    # Another assertion would print something else.
    pair.patch("mm/file.c", "        WARN( );", "        (void)0, WARN( );")
    assert not pair.compare().ok


def test_the_bits_beside_a_line_that_moved_count(pair: Pair) -> None:
    pair.patch("mm/file.c", "int counter;", "int counter;\n")
    pair.patch("header.h", "FLAGS 3", "FLAGS 7")
    assert not pair.compare().ok


def test_a_byte_behind_a_line_that_moved_counts(pair: Pair) -> None:
    odd = "struct { unsigned short line; char kind; } __attribute__((packed))"
    odd += ' odd __attribute__((section(".odd"))) = { __LINE__ + (0), KIND };\n'
    for side in ("pristine", "patched"):
        pair.write(side, "mm/file.c", "#define KIND 1\n" + SOURCE + odd)
    pair.patch("mm/file.c", "int counter;", "int counter;\n")
    assert pair.compare().ok
    pair.patch("mm/file.c", "#define KIND 1", "#define KIND 9")
    assert "section .odd" in pair.compare().differing[0].detail[0]


def test_a_number_on_a_line_without_a_parenthesis_is_no_line_number(pair: Pair) -> None:
    number = SOURCE.split("\n").index("    counter += argument;") + 1
    for side in ("pristine", "patched"):
        pair.write(side, "mm/file.c", SOURCE.replace("value = 7", f"value = {number}"))
    pair.patch("mm/file.c", "int counter;", "int counter;\n")
    pair.patch("mm/file.c", f"value = {number}", f"value = {number + 1}")
    assert not pair.compare().ok


def test_without_the_compilers_record_no_number_may_differ(pair: Pair) -> None:
    pair.patch("mm/file.c", "int counter;", "int counter;\n")
    assert pair.compare().ok
    (pair.root / "pristine-build/mm/.file.o.cmd").unlink()
    assert not pair.report().ok


def test_the_numbers_of_local_names_do_not_count(pair: Pair) -> None:
    local = 'static int calls __asm__("calls.3") = 1;\nint tick(void);\nint tick(void)\n{\n'
    local += "\treturn ++calls;\n}\n"
    for side in ("pristine", "patched"):
        pair.write(side, "mm/file.c", SOURCE + local)
    pair.patch("mm/file.c", "calls.3", "calls.4")
    report = pair.compare()
    assert report.ok, offcheck.render(report)
    names = [
        subprocess.check_output(["nm", str(pair.root / f"{side}-build/mm/file.o")])
        for side in ("pristine", "patched")
    ]
    assert names[0] != names[1], "the test shows nothing if the names are the same"


def test_an_object_on_one_side_is_a_finding(pair: Pair) -> None:
    assert pair.compare().ok
    extra = pair.root / "patched-build/mm/extra.o"
    shutil.copy(pair.root / "patched-build/mm/file.o", extra)
    report = pair.report()
    assert not report.ok
    assert (report.only_pristine, report.only_patched) == ((), ("mm/extra.o",))
    extra.rename(pair.root / "pristine-build/mm/extra.o")
    report = pair.report()
    assert not report.ok
    assert (report.only_pristine, report.only_patched) == (("mm/extra.o",), ())


def test_host_programs_and_intermediate_files_are_left_out(pair: Pair) -> None:
    assert pair.compare().ok
    build = pair.root / "patched-build"
    for name in ("scripts/kconfig/conf.o", "tools/x.o", ".tmp_vmlinux1.o", "vmlinux.o"):
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        (build / name).write_text("not compared")
    report = pair.report()
    assert report.ok
    assert report.compared == 1
    # Only at the top: a directory of the kernel may have such a name.
    (build / "mm/tools").mkdir()
    shutil.copy(build / "mm/file.o", build / "mm/tools/file.o")
    assert pair.report().only_patched == ("mm/tools/file.o",)


def test_the_build_time_is_masked_in_its_object_only(pair: Pair) -> None:
    name = "init/version-timestamp"
    pair.stamp(name, pristine="Linux {}", patched="Linux {}")
    assert pair.compare().ok
    pair.stamp(name, patched="Minux {}")
    assert [item.object for item in pair.report().differing] == [f"{name}.o"]
    pair.stamp("mm/file", pristine="{}", patched="{}")
    assert [item.object for item in pair.report().differing] == [f"{name}.o", "mm/file.o"]


def test_boot_code_of_32_bits_is_compared_byte_by_byte(pair: Pair) -> None:
    pair.stamp("arch/x86/boot/version", "-m32", pristine="Linux {}", patched="Linux {}")
    name = "arch/x86/boot/a20"

    def build(side: str, result: int) -> bytes:
        pair.write(side, f"{name}.c", f"int f(void) {{ return {result}; }}\n")
        # For debuggers it says where it was compiled.
        pair.compile(side, f"{name}.o", "-m32", "-g")
        return (pair.root / f"{side}-build/{name}.o").read_bytes()

    assert build("pristine", 1) != build("patched", 1)
    assert pair.compare().ok
    build("patched", 2)
    (difference,) = pair.report().differing
    assert difference.object == f"{name}.o"
    assert "not an object of 64 bits" in difference.detail[0]


def test_what_holds_the_whole_kernel_is_left_out(pair: Pair) -> None:
    for side in ("pristine", "patched"):
        for name in ("arch/x86/boot/compressed/piggy", "arch/x86/boot/header"):
            pair.write(side, f"{name}.c", f'const char x[] = "{side}";\n')
            pair.compile(side, f"{name}.o")
    report = pair.compare()
    assert report.ok
    assert report.compared == 1


def test_the_text_of_the_configuration_may_have_our_options(pair: Pair) -> None:
    name = "arch/um/kernel/config.c"
    lines = ['"CONFIG_A=y\\n",', '"# CONFIG_B is not set\\n",']

    def build(side: str, *more: str) -> None:
        text = "\n".join(["const char *config[] = {", *lines, *more, "};", ""])
        pair.write(side, name, text)
        # The kernel generates this file in the build directory.
        pair.write(f"{side}-build", name, text)
        pair.compile(side, name.replace(".c", ".o"))

    build("pristine")
    build("patched", '"# CONFIG_OURS is not set\\n",', '"CONFIG_ARCH_OURS=y\\n",')
    report = pair.compare()
    assert report.ok, offcheck.render(report)
    assert report.config_text
    for more in ('"CONFIG_A=y\\n",', '"anything\\n",', '"CONFIG_OURS=y",'):
        build("patched", more)
        assert not pair.report().ok
    # The source must be there to be judged.
    build("patched", '"# CONFIG_OURS is not set\\n",')
    assert pair.report().ok
    (pair.root / "patched-build" / name).unlink()
    assert not pair.report().ok
    build("patched")
    assert not pair.report().config_text


def test_the_detail_shows_the_first_differing_lines(pair: Pair) -> None:
    pair.patch("mm/file.c", "argument + 300", "argument + 302")
    detail = "\n".join(pair.compare().differing[0].detail)
    assert "section .text" in detail
    assert "0x12c" in detail
    assert "0x12e" in detail
    data = json.loads(json.dumps(pair.report().as_json()))
    assert data["ok"] is False
    assert data["differing"][0]["object"] == "mm/file.o"


def test_builds_that_do_not_compare_are_refused(pair: Pair) -> None:
    with pytest.raises(RedoubtError, match="no object file in common"):
        pair.report()
    assert pair.compare().ok
    config = pair.root / "patched-build/.config"
    config.write_text("CONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_OURS is not set\n")
    assert pair.report().ok
    config.write_text("CONFIG_A=m\nCONFIG_B=y\n")
    with pytest.raises(RedoubtError, match="different configurations: CONFIG_A, CONFIG_B"):
        pair.report()
    config.write_text("CONFIG_A=y\n# CONFIG_B is not set\n")
    (pair.root / "patched").rename(pair.root / "elsewhere")
    with pytest.raises(RedoubtError, match=r"the source tree of .*patched-build is gone"):
        pair.report()
    config.unlink()
    with pytest.raises(RedoubtError, match=r"not a kernel build: no \.config"):
        pair.report()


def test_a_damaged_object_is_an_error_and_not_a_difference(pair: Pair) -> None:
    assert pair.compare().ok
    path = pair.root / "patched-build/mm/file.o"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RedoubtError, match=r"file\.o is a (damaged|truncated) ELF file"):
        pair.report()
