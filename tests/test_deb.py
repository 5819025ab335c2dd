# SPDX-License-Identifier: GPL-2.0-only
"""Packages: what they are made of, what must not be in them, and that only finished ones count."""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_BUILD, Done, Sandbox, write_tree
from test_interrupt import MESSAGE, interrupt
from test_series import git

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import build, pinned, source, topics, tree
from redoubt.linux.build import Build
from redoubt.machine import boot, doctor, guest, host, kernels
from redoubt.ship.deb import deb, installed, packaged, shipped
from redoubt.ship.deb.installed import Installed
from redoubt.ship.deb.packaged import Booted, Unpacked
from redoubt.targets import ARM64, TARGETS, X86_64, Target, get_variant
from redoubt.trial import check, experiment
from redoubt.trial.check import Walk

PACKED = [target for target in TARGETS.values() if target.debian]
KINDS = pytest.mark.parametrize(
    ("target", "config"), [(t, c) for t in PACKED for c in shipped.CONFIGS],
    ids=lambda value: value if isinstance(value, str) else value.name,
)  # fmt: skip
# The vulnerable driver, the benchmark, and all that stands in for something.
DANGEROUS = {"CONFIG_KPKEYS_VULN_TEST", "CONFIG_KPKEYS_BENCH", "CONFIG_KUNIT",
             "CONFIG_KPKEYS_KUNIT_TEST"}  # fmt: skip
STAND_INS = {"CONFIG_ARM64_ASSUME_BBML3", "CONFIG_ARM64_LINEAR_MAP_KUNIT_TEST"}


def merged(target: Target, config: str) -> dict[str, str]:
    """What the fragments ask for; the last one wins, as in Kconfig's merge."""
    options: dict[str, str] = {}
    for name in shipped.fragments(target, config):
        options |= build.options(build.fragment(name).read_text())
    return options


# === Configuration ===============================================================================


@KINDS
def test_protection_is_on_and_nothing_for_tests(target: Target, config: str) -> None:
    options = merged(target, config)
    for name in ("KPKEYS_HARDENED_PGTABLES", "KPKEYS_CHECK", "MODULES", "DEBUG_INFO_NONE"):
        assert options[f"CONFIG_{name}"] == "y"
    wrong = DANGEROUS | (STAND_INS if target is ARM64 else set())
    assert {options.get(name, "n") for name in wrong} == {"n"}
    assert set(shipped.only_for_tests(target, config)) >= wrong
    # Nothing of the small kernel, whose fragments switch off what distributions have on.
    assert set(target.fragments) & set(shipped.fragments(target, "distro")) == set()


def test_what_the_distribution_has_on_is_not_for_tests(tmp_path: Path) -> None:
    base = tmp_path / "config"
    # No fragment of packages names CMA, one switches KUnit off; the kernel for tests has all.
    base.write_text("CONFIG_CMA=y\nCONFIG_KUNIT=m\n# CONFIG_VM_EVENT_COUNTERS is not set\n")
    assert "CONFIG_CMA" in shipped.only_for_tests(X86_64, "distro")
    off = shipped.only_for_tests(X86_64, "distro", base)
    assert "CONFIG_CMA" not in off
    assert {"CONFIG_KUNIT", "CONFIG_VM_EVENT_COUNTERS"} <= set(off)


@pytest.mark.parametrize("target", PACKED, ids=lambda target: target.name)
def test_what_the_options_of_a_target_are(target: Target) -> None:
    options = merged(target, "distro")
    registers = ["X86_PKS"]
    if target is ARM64:
        registers = ["ARM64_POE", "ARM64_KPKEYS", "ARM64_EARLY_PGTABLE_ARENA"]
    assert {options[f"CONFIG_{name}"] for name in registers} == {"y"}
    # No keys are made or asked for.
    assert options["CONFIG_MODULE_SIG_KEY"] == options["CONFIG_SYSTEM_TRUSTED_KEYS"] == '""'
    assert options["CONFIG_MODULE_SIG_ALL"] == "n"
    # Both kinds can be installed.
    releases = [merged(target, config)["CONFIG_LOCALVERSION"] for config in shipped.CONFIGS]
    assert releases == ['"-redoubt"', '"-redoubt-small"']


def test_only_a_distributions_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def configuration(target: Target, progress: object, *, modules: bool) -> Path:
        asked.append(modules)
        return Path("/shipped")

    monkeypatch.setattr(shipped.distro, "configuration", configuration)
    assert shipped.base(X86_64, "small", Silent()) is None
    assert shipped.base(X86_64, "distro", Silent()) == Path("/shipped")
    assert asked == [True]


# === The tree ====================================================================================

PATCH = """\
--- a/mm/memory.c
+++ b/mm/memory.c
@@ -3,3 +3,3 @@
 int line2;
-int line3;
+int ours{};
 int line4;
"""


def test_the_queue_has_nothing_local() -> None:
    ours = shipped.queue(paths.repo())
    everything = tree.queue(paths.repo())
    gone = [name for name in everything.files if name not in ours.files]
    assert gone
    local = ("kpkeys_vuln", "bench", "host_calls", "bugs", "at_test")
    assert all(any(word in name for word in local) for name in gone)
    assert not any(word in name for word in local for name in ours.files)
    topics = ("bbml3", "walker", "mktme-bugs", "vuln", "bench")
    assert not any(patch.parent.name in topics for patch in ours.patches)
    assert not [name for name in ours.files if "mktme_bug" in (ours.kernel / name).read_text()]
    assert len(ours.patches) > 10
    assert ours.copied


def test_everything_in_it_is_a_file_of_its_own_and_keeps_its_age(
    tmp_path: Path, kernel: Path
) -> None:
    ours = write_tree(tmp_path / "kernel", {"mm/kpkeys/core.c": "int core;\n", "mm/a.c": "int a;"})
    patch = tmp_path / "0001.patch"
    part = tree.Queue(ours, ("mm/kpkeys/core.c", "mm/a.c"), (patch,), copied=True)

    def made(number: int) -> dict[str, int]:
        patch.write_text(PATCH.format(number))
        where = tree.materialise(kernel, tmp_path / "build/shipped", part=part)
        files = [file for file in where.rglob("*") if file.is_file() and file.name != tree.STAMP]
        # No link of either kind: who edits the copy does not edit the original.
        assert not any(file.is_symlink() or file.stat().st_nlink > 1 for file in files)
        assert f"int ours{number};" in (where / "mm/memory.c").read_text()
        return {str(file.relative_to(where)): file.stat().st_mtime_ns for file in files}

    first = made(3)
    assert made(3) == first
    second = made(4)
    assert {name for name in second if second[name] != first[name]} == {"mm/memory.c"}
    (ours / "mm/kpkeys/core.c").write_text("int ours;\n")
    third = made(4)
    assert {name for name in third if third[name] != second[name]} == {"mm/kpkeys/core.c"}
    copy = tmp_path / "build/shipped/mm/kpkeys/core.c"
    assert copy.read_text() == "int ours;\n"
    copy.write_text("int mine;\n")
    with pytest.raises(RedoubtError, match=r"has changes .*:\n    mm/kpkeys/core\.c"):
        made(4)


# === What must not be there ======================================================================


def test_words_that_give_away_what_is_local() -> None:
    words = shipped.local_words(paths.repo())
    assert {"KPKEYS_VULN_TEST", "KPKEYS_BENCH", "kpkeys_vuln", "kbench_begin"} <= set(words)
    local = [topic for topic in topics.load(paths.repo()) if topic.local]
    for topic in local:
        for name in topic.files:
            if name.startswith("mm/") and name.endswith(".c"):
                text = (paths.repo() / "kernel" / name).read_text()
                assert any(word in text for word in words), name
    ours = shipped.queue(paths.repo())
    for name in ours.files:
        # In the documentation they stand for an attacker. It is in no package.
        if not name.startswith("Documentation/"):
            text = (paths.repo() / "kernel" / name).read_text()
            assert not any(word in text for word in words), name


@pytest.mark.guest
@pytest.mark.skipif(
    not (REAL_BUILD / "x86_64/redoubt/System.map").exists(), reason="no kernel: redoubt build"
)
def test_the_words_are_found_in_a_kernel_for_tests() -> None:
    words = shipped.local_words(paths.repo())
    map_of_tests = (REAL_BUILD / "x86_64/redoubt/System.map").read_bytes()
    assert packaged._local(map_of_tests, [word for word in words if "vuln" in word])
    assert packaged._local(map_of_tests, [word for word in words if "bench" in word])


RELEASE = "7.3.4-redoubt-small"
SOURCES = f"usr/src/linux-headers-{RELEASE}"
MODULE = f"lib/modules/{RELEASE}/kernel/{build.MODULE}.xz"


def image_files(target: Target = X86_64) -> dict[str, str]:
    # Kconfig drops what it does not know.
    local = {f"CONFIG_{word}" for word in shipped.local_words(paths.repo())}
    options = {k: v for k, v in merged(target, "small").items() if k not in local}
    lines = (f"# {k} is not set\n" if v == "n" else f"{k}={v}\n" for k, v in options.items())
    return {
        f"boot/vmlinuz-{RELEASE}": "kernel\n",
        f"boot/System.map-{RELEASE}": "ffffffff81000000 T startup_64\n",
        f"boot/config-{RELEASE}": "".join(lines),
        f"lib/modules/{RELEASE}/modules.dep": "",
        f"lib/modules/{RELEASE}/modules.builtin": "kernel/fs/nls/nls_base.ko\n",
    }


def header_files() -> dict[str, str]:
    return {
        f"{SOURCES}/Makefile": "VERSION = 7\n",
        f"{SOURCES}/Module.symvers": "0x0\tkpkeys_levels\tvmlinux\tEXPORT_SYMBOL\n",
        f"{SOURCES}/include/linux/kpkeys.h": "/* */\n",
    }


def fill(image: Path, headers: Path, target: Target = X86_64) -> None:
    """The files of two packages that have nothing wrong."""
    write_tree(image, image_files(target))
    (image / MODULE).parent.mkdir(parents=True)
    (image / MODULE).write_bytes(lzma.compress(b"module"))
    write_tree(headers, header_files())
    (headers / f"lib/modules/{RELEASE}").mkdir(parents=True)
    (headers / f"lib/modules/{RELEASE}/build").symlink_to(f"/{SOURCES}")
    (headers / f"{SOURCES}/include/asm").symlink_to("linux")


@pytest.fixture
def found(tmp_path: Path) -> Unpacked:
    made = Unpacked(RELEASE, tmp_path / "image", tmp_path / "headers")
    fill(made.image, made.headers)
    return made


def faults(found: Unpacked, target: Target = X86_64) -> list[str]:
    return list(packaged.faults(found, shipped.rules(target, "small", paths.repo(), None)))


def test_good_packages_have_no_faults(found: Unpacked) -> None:
    assert faults(found) == []


def append(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write(text)


@pytest.mark.parametrize(
    ("package", "file", "text", "says"),
    [
        ("image", f"boot/config-{RELEASE}", "CONFIG_KPKEYS_VULN_TEST=y\n",
         "CONFIG_KPKEYS_VULN_TEST=n (deb.config): is y"),
        ("image", f"boot/config-{RELEASE}", "CONFIG_KUNIT=m\n", "CONFIG_KUNIT=m, which is for t"),
        ("image", f"boot/config-{RELEASE}", "# CONFIG_KPKEYS_VULN_TEST is not set\n",
         f"boot/config-{RELEASE} has KPKEYS_VULN_TEST in it, which is local"),
        ("image", f"boot/config-{RELEASE}", "# CONFIG_KPKEYS_HARDENED_PGTABLES is not set\n",
         "CONFIG_KPKEYS_HARDENED_PGTABLES=y (deb.config): is n"),
        ("image", f"boot/System.map-{RELEASE}", "ffffffff8138d7a0 t kpkeys_vuln_open\n",
         f"boot/System.map-{RELEASE} has kpkeys_vuln in it"),
        ("image", f"boot/System.map-{RELEASE}", "ffffffff81379e90 T kbench_pause\n",
         f"boot/System.map-{RELEASE} has kbench_pause in it"),
        ("image", f"lib/modules/{RELEASE}/modules.builtin", "kernel/mm/kpkeys_vuln/vuln.ko\n",
         "modules.builtin has kpkeys_vuln in it"),
        ("image", f"lib/modules/{RELEASE}/kernel/mm/kpkeys_vuln/vuln.ko.xz", "",
         "kpkeys_vuln/vuln.ko.xz: kpkeys_vuln is local"),
        ("headers", f"{SOURCES}/Module.symvers", "0x0\tkbench_begin\tvmlinux\tEXPORT_SYMBOL\n",
         f"{SOURCES}/Module.symvers has kbench_begin in it"),
        ("headers", f"{SOURCES}/mm/kpkeys_bench/Kconfig", "", "kpkeys_bench is local"),
        ("headers", f"{SOURCES}/include/generated/autoconf.h", "#define CONFIG_KPKEYS_BENCH 1\n",
         "autoconf.h has KPKEYS_BENCH in it"),
    ],
)  # fmt: skip
def test_each_trace_of_what_is_local_is_a_fault(
    found: Unpacked, package: str, file: str, text: str, says: str
) -> None:
    append(getattr(found, package) / file, text)
    assert says in "\n".join(faults(found))


def test_the_stand_ins_are_faults(tmp_path: Path) -> None:
    made = Unpacked(RELEASE, tmp_path / "image", tmp_path / "headers")
    fill(made.image, made.headers, ARM64)
    assert faults(made, ARM64) == []
    for option in sorted(STAND_INS):
        append(made.config, f"{option}=y\n")
        assert f"{option}=y, which is for tests" in faults(made, ARM64)


def test_a_link_to_the_repository_is_a_fault(found: Unpacked) -> None:
    link = found.headers / f"{SOURCES}/include/linux/pool.h"
    link.symlink_to(paths.repo() / "kernel/mm/kpkeys/pool.h")
    assert faults(found) == [
        f"{SOURCES}/include/linux/pool.h is a link to {paths.repo()}/kernel/mm/kpkeys/pool.h"
    ]


# === Version and needs ===========================================================================


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Commits in a repository of their own, at a time; returns the name of the last one."""
    where = tmp_path / "repo"
    where.mkdir()
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")

    def commit(seconds: int) -> str:
        (where / "file").write_text(str(seconds))
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"@{seconds} +0000")
        git(where, "add", "file")
        git(where, "commit", "-q", "-m", "x")
        return git(where, "rev-parse", "HEAD")

    git(where, "init", "-q", "--template=")
    return commit


def test_the_version_is_that_of_the_commit(repo: Callable[..., str], tmp_path: Path) -> None:
    head = repo(1_795_000_000)
    version = deb.version_of("7.3.4", tmp_path / "repo")
    assert version == deb.Version(f"7.3.4+redoubt202611181106.{head[:12]}-1", 1_795_000_000, False)
    assert deb.version_of("7.3.4", tmp_path / "repo") == version
    (tmp_path / "repo/file").write_text("edited")
    changed = deb.version_of("7.3.4", tmp_path / "repo")
    assert (changed.text, changed.changed) == (version.text.replace("-1", ".changed-1"), True)


@pytest.mark.skipif(not shutil.which("dpkg"), reason="needs dpkg")
def test_versions_grow(repo: Callable[..., str], tmp_path: Path) -> None:
    versions = [deb.version_of("7.3.4", tmp_path).text]
    for seconds in (1_795_000_000, 1_795_000_060, 1_795_090_000):
        repo(seconds)
        versions.append(deb.version_of("7.3.4", tmp_path / "repo").text)
    versions.append(deb.version_of("7.3.5", tmp_path).text)
    for old, new in itertools.pairwise(versions):
        subprocess.run(["dpkg", "--compare-versions", old, "lt", new], check=True)
        subprocess.run(["dpkg", "--validate-version", new], check=True)


@pytest.mark.skipif(not shutil.which("dpkg-parsechangelog"), reason="needs dpkg-dev")
def test_the_changelog_is_one(tmp_path: Path) -> None:
    version = deb.Version("7.3.4+redoubt202611181106.0123456789ab-1", 1_795_000_000, False)
    file = tmp_path / "changelog"
    file.write_text(deb._changelog("linux-upstream", "It is.", version, "A B <a@example.org>"))
    said = subprocess.run(
        ["dpkg-parsechangelog", "-l", file], check=True, capture_output=True, text=True
    )
    fields = dict(line.split(": ", 1) for line in said.stdout.splitlines() if ": " in line)
    assert (fields["Version"], fields["Timestamp"]) == (version.text, str(version.seconds))
    assert (fields["Maintainer"], fields["Source"]) == ("A B <a@example.org>", "linux-upstream")
    assert said.stderr == ""


def test_what_the_kernels_packaging_gets() -> None:
    version = deb.Version("7.3.4+redoubt0-1", 1_795_000_000, False)
    env = deb._environment(version, ("A B", "a@example.org"), Path("/b/changelog"))
    assert env["KDEB_PKGVERSION"] == version.text
    assert (env["DEBFULLNAME"], env["DEBEMAIL"]) == ("A B", "a@example.org")
    assert env["SOURCE_DATE_EPOCH"] == "1795000000"
    assert env["KBUILD_BUILD_TIMESTAMP"] == build.environment()["KBUILD_BUILD_TIMESTAMP"]
    # As the shell of make takes it apart.
    said = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {env['DPKG_FLAGS']}"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert said.stdout.splitlines() == [
        "--hook-init=cp /b/changelog debian/changelog",
        "--rules-target=binary-image,binary-headers",
        "-d",
    ]


def test_the_table_has_what_packages_need() -> None:
    things = {one.thing for one in doctor.prerequisites() if "deb" in one.group.split(",")}
    assert things >= {
        "dpkg-buildpackage",
        "dh_builddeb",
        "kmod",
        "zstd",
        "lib:libelf.so",
        "help2man",
    }


def test_missing_programs_are_named_with_what_installs_them(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    table.write_text("deb sh dash is there\ndeb frobber frob-pkg frobs\nlint linter lint-pkg no\n")
    monkeypatch.setenv("REDOUBT_PREREQUISITES", str(table))
    monkeypatch.setattr(deb.build, "needs_compiler", lambda _: None)
    done = call("deb", "x86_64")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        "redoubt: packages cannot be made here, there is no",
        "    frobber, which frobs (frob-pkg)",
        "    scripts/prerequisites deb",
    ]
    assert not (paths.build_dir() / "deb").exists()
    # Debian's for arm64 have programs of that architecture in them, which need a library.
    table.write_text("deb-arm64 frobber frob-pkg:arm64 frobs\n")
    done = call("deb", "arm64")
    assert done.code == 1
    assert "frobber, which frobs (frob-pkg:arm64)" in done.err
    assert "scripts/prerequisites deb deb-arm64" in done.err
    for target, config in ((X86_64, "distro"), (ARM64, "small")):
        deb.needs(target, config)


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (["vax"], "unknown target 'vax'", "targets: um, x86_64, x86_64-pcid, x86_64-mktme, arm64"),
        (["um"], "there are no packages for um", "targets: x86_64, arm64"),
        (
            ["x86_64", "--config", "huge"],
            "unknown configuration 'huge'",
            "one of: distro, small; or a file",
        ),
        (
            ["x86_64", "--with", "asi"],
            "--with is for a .config of yours, not for 'distro'",
            "redoubt deb x86_64 --config FILE --with asi",
        ),
    ],
)
def test_bad_words(call: Callable[..., Done], words: list[str], says: str, hint: str) -> None:
    done = call("deb", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"redoubt: {says}\n    {hint}\n"


def test_a_target_without_a_compiler(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = call("deb", "arm64")
    assert done.code == 1
    assert "aarch64-linux-gnu-gcc not found" in done.err
    assert "scripts/prerequisites arm64" in done.err


# === Making ======================================================================================

# Configures as the one of conftest does; its packages are made of directories in $CONTROL.
MAKE = """\
for word; do case $word in O=*) out=${word#O=} ;; esac; done
case "$*" in
*tinyconfig*) : > "$out/.config" ;;
*olddefconfig*) ;;
*bindeb-pkg*)
	env > "$CONTROL/env"
	echo "$*" >> "$CONTROL/made"
	echo "  CC      mm/memory.o"
	mkdir -p "$out/include/config"
	echo RELEASE > "$out/include/config/kernel.release"
	pack() {
		tar -C "$CONTROL/$1" -cf "$out/../linux-$1-RELEASE_${KDEB_PKGVERSION}_amd64.deb" .
	}
	pack image
	if [ -e "$CONTROL/slow" ]; then
		touch "$CONTROL/started"
		sleep 300 &
		sleep 300
	fi
	[ ! -e "$CONTROL/broken" ] || { echo "mm/memory.c:1: error: no"; exit 2; }
	pack headers
	;;
esac
""".replace("RELEASE", RELEASE)

DPKG_DEB = """\
case $1 in
--root-owner-group) tar -C "$3" -cf "$4" . ;;
*) tar -xf "$2" -C "$3" ;;
esac
"""
HELP2MAN = """\
for word; do case $word in --output=*) output=${word#--output=} ;; esac; done
[ ! -e "$CONTROL/no-page" ] || { echo "help2man: no"; exit 1; }
echo "${word##*/}" > "$output"
"""

# The queue of this repository does not go with the small tree of the tests.
STUB = """
from pathlib import Path
from redoubt.cli import main
from redoubt.linux import tree
from redoubt.machine import guest
tree.materialise = lambda pristine, *_, **__: pristine
guest.programs = lambda *_: guest.place()
main.main()
"""


def guest_programs(sandbox: Sandbox) -> Path:
    """Those of the guests' programs that the package of tools has."""
    place = sandbox.build / "guest"
    write_tree(place, dict.fromkeys(("hardware", "prices", "bench"), "static"))
    return place


@pytest.fixture
def shop(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Fake programs that make packages, good ones unless a test changes what they are made of."""
    sandbox.toolchain()
    sandbox.program("make", MAKE)
    sandbox.program("dpkg-deb", DPKG_DEB)
    sandbox.program("help2man", HELP2MAN)
    fill(sandbox.control / "image", sandbox.control / "headers")
    table = sandbox.where / "table"
    table.write_text("deb make make builds\n")
    sandbox.env |= {
        "REDOUBT_PREREQUISITES": str(table),
        "GIT_AUTHOR_NAME": "A B",
        "GIT_AUTHOR_EMAIL": "a@example.org",
    }
    for name, value in sandbox.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tree, "materialise", lambda pristine, *_, **__: pristine)
    place = guest_programs(sandbox)
    monkeypatch.setattr(guest, "programs", lambda *_: place)
    return sandbox


def booted(*problems: str) -> Booted:
    result = boot.Result("finished", 0, ("hello",), (), Path("log"))
    return Booted(
        protection=packaged.ACTIVE, said="hardened (pkey 1, x86/pks)", tables=27,
        problems=problems, result=result,
    )  # fmt: skip


def make(host: str | None = None) -> deb.Report:
    return deb.make(X86_64, "small", host, Silent())


def test_packages_come_to_their_place(shop: Sandbox) -> None:
    report = make()
    place = shop.build / "deb/x86_64-small"
    version = deb.version_of("7.3.4", paths.repo()).text
    names = [f"linux-{kind}-{RELEASE}_{version}_amd64.deb" for kind in ("image", "headers")]
    names.append(f"redoubt-tools_{version}_amd64.deb")
    assert {file.name for file in place.iterdir()} == {*names}
    assert report.packages == tuple(place / name for name in names)
    assert (report.ok, report.boot, report.modules) == (True, None, 1)
    assert [entry.name for entry in place.parent.iterdir()] == ["x86_64-small"]
    said = (shop.control / "env").read_text().splitlines()
    assert "DEBFULLNAME=A B" in said
    assert f"KDEB_PKGVERSION={version}" in said
    changelog = shop.build / "x86_64/deb-small/changelog"
    assert version in changelog.read_text()
    words = (shop.control / "made").read_text().split()
    assert {"bindeb-pkg", "ARCH=x86_64", f"O={shop.build}/x86_64/deb-small/linux"} <= set(words)


needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg")


@pytest.fixture
def small(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of tools, made by the real dpkg-deb in a directory of its own."""
    sandbox.program("help2man", HELP2MAN)
    for name, value in sandbox.env.items():
        monkeypatch.setenv(name, value)
    place = guest_programs(sandbox)
    monkeypatch.setattr(guest, "programs", lambda *_: place)
    into = sandbox.where / "made"
    into.mkdir()
    before = os.umask(0o077)
    try:
        version = deb.Version("7.3.4+redoubt0-1", 1_795_000_000, False)
        file = deb._make_tools(X86_64, version, ("A B", "a@example.org"), into, Silent())
    finally:
        os.umask(before)
    assert [*into.iterdir()] == [file]
    return file


def dpkg_deb(*words: str | Path) -> str:
    env = {**os.environ, "TZ": "UTC"}
    return subprocess.run(
        ["dpkg-deb", *words], check=True, capture_output=True, text=True, env=env
    ).stdout


@needs_dpkg
def test_the_package_of_tools_has_what_a_system_needs(small: Path, tmp_path: Path) -> None:
    fields = dict(
        line.split(": ", 1) for line in dpkg_deb("-f", small).splitlines() if line[0] != " "
    )
    assert (fields["Package"], fields["Architecture"]) == ("redoubt-tools", "amd64")
    assert (fields["Version"], fields["Depends"]) == ("7.3.4+redoubt0-1", "python3 (>= 3.11)")
    assert fields["Maintainer"] == "A B <a@example.org>"
    modes = {}
    links = {}
    for line in dpkg_deb("-c", small).splitlines():
        mode, owner, _, day, _, name, *to = line.split()
        name = name.removeprefix("./usr/")
        assert (owner, day) == ("root/root", "2026-11-18")
        assert mode[0] in "-l" or mode == "drwxr-xr-x"
        if to:
            links[name] = to[-1]
        elif mode[0] == "-":
            modes[name] = mode
    assert links == {
        "bin/redoubt-collect": "../lib/redoubt/redoubt_collect.py",
        "lib/redoubt/redoubt_status.py": "../../bin/redoubt-status",
    }
    assert modes == {
        "bin/redoubt-status": "-rwxr-xr-x",
        "lib/redoubt/bench": "-rwxr-xr-x",
        "lib/redoubt/collect.json": "-rw-r--r--",
        "lib/redoubt/hardware": "-rwxr-xr-x",
        "lib/redoubt/prices": "-rwxr-xr-x",
        "lib/redoubt/redoubt_collect.py": "-rwxr-xr-x",
        "lib/systemd/system/redoubt-violations.service": "-rw-r--r--",
        "share/man/man1/redoubt-collect.1.gz": "-rw-r--r--",
        "share/man/man1/redoubt-status.1.gz": "-rw-r--r--",
        "share/doc/redoubt-tools/changelog.Debian.gz": "-rw-r--r--",
        "share/doc/redoubt-tools/copyright": "-rw-r--r--",
    }
    dpkg_deb("-x", small, tmp_path / "root")
    about = json.loads((tmp_path / "root/usr/lib/redoubt/collect.json").read_text())
    assert (about["target"], about["date"]) == ("x86_64", "2026-11-18T11:06:40+00:00")
    assert "null-syscall:0:256:10:1" in about["specs"]
    for name in ("redoubt-status", "redoubt-collect"):
        program = tmp_path / "root/usr/bin" / name
        # Alone, without anything of this repository, and with the system's Python.
        done = subprocess.run(
            ["/usr/bin/env", "-i", "/usr/bin/python3", program, "--help"],
            capture_output=True, text=True, check=False, cwd="/",
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: {name} [-h]")
        page = (tmp_path / f"root/usr/share/man/man1/{name}.1.gz").read_bytes()
        assert gzip.decompress(page) == f"{name}\n".encode()
        for word in shipped.local_words(paths.repo()):
            assert word not in program.read_text()
    assert not list((tmp_path / "root").rglob("__pycache__"))


@needs_dpkg
def test_the_package_of_tools_alone_takes_no_kernel(
    shop: Sandbox, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "obtain", lambda _: pytest.fail("a kernel was asked for"))
    (shop.where / "bin/dpkg-deb").unlink()
    left = write_tree(shop.build / "deb/tools", {"redoubt-tools_1-1_amd64.deb": "old"})
    done = call("deb", "x86_64", "--tools")
    version = deb.version_of(pinned.load(paths.repo()).release, paths.repo()).text
    file = left / f"redoubt-tools_{version}_amd64.deb"
    assert (done.code, done.out) == (0, f"{file}\n"), done.err
    assert [*left.iterdir()] == [file]
    assert [*left.parent.iterdir()] == [left]


@pytest.mark.parametrize(
    "words", ["--config small", "--with asi", "--no-boot", "--install", "--json r"]
)
def test_the_package_of_tools_alone_takes_nothing_else(
    call: Callable[..., Done], words: str
) -> None:
    done = call("deb", "x86_64", "--tools", *words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err == "redoubt: --tools makes a package for any kernel, and takes nothing else\n"


def test_what_the_package_of_tools_lacks_is_named(shop: Sandbox, call: Callable[..., Done]) -> None:
    (shop.where / "table").write_text("deb,man frobber frob-pkg frobs\nlint linter no no\n")
    done = call("deb", "x86_64", "--tools")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[1:] == [
        "    frobber, which frobs (frob-pkg)", "    scripts/prerequisites man"
    ]  # fmt: skip
    assert not (shop.build / "deb/tools").exists()


@needs_dpkg
def test_the_package_of_tools_is_the_same_each_time(small: Path) -> None:
    first = small.read_bytes()
    version = deb.Version("7.3.4+redoubt0-1", 1_795_000_000, False)
    made = deb._make_tools(X86_64, version, ("A B", "a@example.org"), small.parent, Silent())
    assert made == small
    assert small.read_bytes() == first


@needs_dpkg
@pytest.mark.parametrize(
    ("script", "words", "systemd", "asked"),
    [
        ("postinst", ["configure", ""], True,
         ["helper enable UNIT", "systemctl daemon-reload", "invoke restart UNIT"]),
        # The administrator may have disabled it since.
        ("postinst", ["configure", "7.3.3-1"], True,
         ["systemctl daemon-reload", "invoke restart UNIT"]),
        ("postinst", ["configure", ""], False, ["helper enable UNIT"]),
        ("prerm", ["remove"], True, ["invoke stop UNIT"]),
        ("prerm", ["upgrade", "7.3.5-1"], True, []),
        ("prerm", ["remove"], False, []),
        ("postrm", ["remove"], True, ["systemctl daemon-reload"]),
        ("postrm", ["purge"], True, ["helper purge UNIT"]),
        ("postrm", ["upgrade", "7.3.5-1"], True, []),
    ],
)  # fmt: skip
def test_the_service_comes_and_goes_with_its_package(
    small: Path, sandbox: Sandbox, script: str, words: list[str], systemd: bool, asked: list[str]
) -> None:
    dpkg_deb("-e", small, sandbox.where / "scripts")
    file = sandbox.where / "scripts" / script
    there = sandbox.where if systemd else sandbox.where / "none"
    file.write_text(file.read_text().replace("/run/systemd/system", str(there)))
    for name in ("deb-systemd-helper", "deb-systemd-invoke", "systemctl"):
        sandbox.program(name, f'echo {name.split("-")[-1]} "$@" >> "$CONTROL/asked"\n')
    subprocess.run([file, *words], check=True, env=sandbox.env)
    log = sandbox.control / "asked"
    said = log.read_text().splitlines() if log.exists() else []
    assert said == [line.replace("UNIT", "redoubt-violations.service") for line in asked]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_systemd_understands_the_service(tmp_path: Path) -> None:
    unit = paths.repo() / "tools/status/redoubt-violations.service"
    text = unit.read_text()
    assert "ExecStart=/usr/bin/redoubt-status --follow\n" in text
    copy = tmp_path / unit.name
    copy.write_text(text.replace("/usr/bin/redoubt-status", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and unit.name not in done.stderr, done.stderr


@pytest.fixture
def old(shop: Sandbox) -> Sandbox:
    write_tree(shop.build / "deb/x86_64-small", {"linux-image-old.deb": "old"})
    return shop


def test_earlier_packages_are_replaced_but_not_those_of_the_other_kind(old: Sandbox) -> None:
    # What was left where they are made is not taken for new.
    write_tree(old.build / "x86_64/deb-small", {"linux-image-left.deb": "half"})
    there = (old.build / "deb/x86_64-small").iterdir
    packages = make().packages
    assert {*there()} == {*packages}
    assert deb.place_of(X86_64, "distro") == old.build / "deb/x86_64"


def unfinished(shop: Sandbox) -> None:
    """What was there before is there, and nothing else."""
    assert [entry.name for entry in (shop.build / "deb").iterdir()] == ["x86_64-small"]
    assert [file.read_text() for file in (shop.build / "deb/x86_64-small").iterdir()] == ["old"]


def configured(shop: Sandbox, option: str) -> None:
    on = f'*olddefconfig*) echo {option} >> "$out/.config" ;;'
    shop.program("make", MAKE.replace("*olddefconfig*) ;;", on))


@pytest.mark.parametrize(
    ("spoil", "says", "hint"),
    [
        (lambda shop: (shop.control / "broken").touch(),
         r"building packages of x86_64 \(small\) failed.*mm/memory\.c:1: error: no", None),
        (lambda shop: (shop.control / "no-page").touch(),
         r"making the manual page of redoubt-status failed.*help2man: no", None),
        (lambda shop: shop.program("make", MAKE.replace("pack headers", ":")),
         "expected linux-image-.* made linux-image", None),
        (lambda shop: append(shop.control / f"image/boot/System.map-{RELEASE}", "0 t kpkeys_vuln"),
         f"shipped:\n    boot/System.map-{RELEASE} has kpkeys_vuln in it, which is local",
         "they are in .*x86_64/deb-small$"),
        (lambda shop: configured(shop, "CONFIG_CMA=y"),
         "must not be shipped:\n    CONFIG_CMA=y, which is for tests",
         "configs/kernel/deb.config can clear them"),
        (lambda shop: (shop.control / f"image/boot/vmlinuz-{RELEASE}").unlink(),
         "the packages lack\n    image/boot/vmlinuz", "the log of the build may say why"),
        (lambda shop: shutil.rmtree(shop.control / "image/lib/modules"),
         "the packages lack\n    image/lib/modules", "the log of the build may say why"),
    ],
)  # fmt: skip
def test_what_is_not_let_through(
    old: Sandbox, spoil: Callable[[Sandbox], Any], says: str, hint: str | None
) -> None:
    spoil(old)
    with pytest.raises(RedoubtError) as caught:
        make()
    assert re.search(says, caught.value.message, re.DOTALL)
    assert re.search(hint or "", caught.value.hint or "")
    # An option that is for tests is refused before hours of building.
    assert (old.control / "made").exists() == ("CONFIG_CMA" not in says)
    unfinished(old)


def test_a_build_that_failed_is_continued(old: Sandbox) -> None:
    (old.control / "broken").touch()
    with pytest.raises(RedoubtError):
        make()
    (old.control / "broken").unlink()
    assert make().ok


def test_a_kernel_that_does_not_protect_is_not_let_through(
    old: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaged, "start", lambda *_: booted("it does not"))
    report = make(host.EMULATED)
    assert not report.ok
    assert {one.parent for one in report.packages} == {old.build / "x86_64/deb-small"}
    unfinished(old)
    monkeypatch.setattr(packaged, "start", lambda *_: booted())
    assert make(host.EMULATED).ok
    assert len(list((old.build / "deb/x86_64-small").iterdir())) == 3


def test_the_kernel_out_of_the_package_is_booted(
    shop: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def start(machine: boot.Machine, progress: object) -> Booted:
        seen["image"] = machine.build.image.read_text()
        seen["options"] = machine.build.configuration()["CONFIG_KPKEYS_STATS"]
        seen["modules"] = [module.read_bytes() for module in machine.build.modules]
        seen["where"] = machine.host
        return booted()

    monkeypatch.setattr(packaged, "start", start)
    monkeypatch.setattr(guest, "programs", lambda *_: guest_programs(shop))
    assert make(host.EMULATED).ok
    assert seen == {
        "image": "kernel\n", "options": "n", "modules": [b"module"], "where": host.EMULATED,
    }  # fmt: skip


@pytest.mark.parametrize("good", [True, False])
def test_what_boots_is_installed_and_kept_if_that_is_well(
    shop: Sandbox, monkeypatch: pytest.MonkeyPatch, good: bool
) -> None:
    asked: list[tuple[str, ...]] = []

    def tried(machine: object, found: object, packages: tuple[Path, ...], _: object) -> Installed:
        asked.append(tuple(file.name.split("-")[1] for file in packages))
        problems = () if good else ("unit=x.service",)
        return Installed(
            suite="trixie", said=("hardened",), tables=9, problems=problems, result=booted().result
        )

    monkeypatch.setattr(guest, "programs", lambda *_: guest_programs(shop))
    monkeypatch.setattr(packaged, "start", lambda *_: booted("no"))
    monkeypatch.setattr(installed, "check_packages", tried)
    report = deb.make(X86_64, "small", host.EMULATED, Silent(), install=True)
    assert (report.ok, report.installed, asked) == (False, None, [])

    monkeypatch.setattr(packaged, "start", lambda *_: booted())
    report = deb.make(X86_64, "small", host.EMULATED, Silent(), install=True)
    assert asked == [("image", "headers")]
    assert report.ok == good
    assert (shop.build / "deb/x86_64-small").exists() == good
    lines = list(deb.render(report))
    assert "installed in Debian trixie and booted: page tables hardened" in lines
    assert ("WRONG: unit=x.service" in lines) == (not good)


def said(call: Callable[..., Done], *words: str) -> Done:
    return call("deb", "x86_64", "--config", "small", *words)


@pytest.fixture
def counter(shop: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The command in the shop, on a machine that boots everything well."""
    monkeypatch.setenv("REDOUBT_BUILD", str(shop.build))
    monkeypatch.setattr(host, "needs_enforcing", lambda *_: host.EMULATED)
    monkeypatch.setattr(packaged, "start", lambda *_: booted())
    return shop


def test_packages_with_a_configuration_of_the_users(
    counter: Sandbox, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaged, "start", lambda *_: pytest.fail("it was booted"))
    packed = 'CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION=y\nCONFIG_LOCALVERSION="-redoubt"\n'
    (counter.control / f"image/boot/config-{RELEASE}").write_text(packed)
    # An option that only kernels for tests have: here it is the user's choice.
    file = write_tree(counter.where, {"mine": "CONFIG_MINE=y\nCONFIG_KUNIT=y\n"}) / "mine"
    done = call("deb", "x86_64", "--config", str(file), "--with", "asi")
    assert done.code == 0, done.err
    place = counter.build / "deb/x86_64-own"
    assert done.out.startswith(f"Linux {RELEASE} for x86_64, configuration own, in {place}\n")
    assert "\nnot booted\n" in done.out
    options = build.options((counter.build / "x86_64/deb-own/linux/.config").read_text())
    assert options["CONFIG_MINE"] == options["CONFIG_KUNIT"] == "y"
    assert options["CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION"] == "y"
    assert options["CONFIG_KPKEYS_HARDENED_PGTABLES"] == "n"
    assert options["CONFIG_LOCALVERSION"] == '"-redoubt"'


@pytest.mark.parametrize("option", ["--boot", "--install"])
def test_a_kernel_of_the_users_is_not_booted(
    call: Callable[..., Done], tmp_path: Path, option: str
) -> None:
    file = write_tree(tmp_path, {"mine": "CONFIG_MINE=y\n"}) / "mine"
    done = call("deb", "x86_64", "--config", str(file), option)
    assert (done.code, done.out) == (2, "")
    assert "may lack what our guests need" in done.err


def test_what_is_said(
    counter: Sandbox, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(deb, "version_of", lambda *_: deb.Version("7.3.4+redoubt0-1", 0, True))
    file = tmp_path / "result.json"
    done = said(call, "--json", str(file))
    assert done.code == 0, done.err
    place = counter.build / "deb/x86_64-small"
    sizes = {one.name.split("-")[1]: one.stat().st_size for one in place.iterdir()}
    lines = done.out.splitlines()
    assert lines[0] == f"Linux {RELEASE} for x86_64, configuration small, in {place}"
    assert lines[1] == f"  linux-image-{RELEASE}_7.3.4+redoubt0-1_amd64.deb: {sizes['image']} bytes"
    assert lines[2].endswith(f": {sizes['headers']} bytes")
    assert (
        lines[3]
        == f"  redoubt-tools_7.3.4+redoubt0-1_amd64.deb: {sizes['tools_7.3.4+redoubt0']} bytes"
    )
    assert lines[4].startswith("1 modules, built in ")
    assert lines[5:] == [
        "made of files that are not committed",
        "booted: protection active: page tables hardened (pkey 1, x86/pks)",
        "checker: 27 page table pages, all protected",
    ]
    written = json.loads(file.read_text())
    assert written["ok"] is True
    assert written["command"].startswith("redoubt deb x86_64")
    assert written["packages"][0] == {
        "name": f"linux-image-{RELEASE}", "size": sizes["image"],
        "file": str(place / f"linux-image-{RELEASE}_7.3.4+redoubt0-1_amd64.deb"),
    }  # fmt: skip
    assert written["boot"] == {
        "ok": True, "protection": "active", "said": "hardened (pkey 1, x86/pks)", "tables": 27,
        "problems": [],
    }  # fmt: skip
    assert (written["release"], written["installed"]) == (RELEASE, None)


def test_a_boot_that_is_wrong_is_an_error(
    counter: Sandbox, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaged, "start", lambda *_: booted("it does not"))
    done = said(call)
    assert done.code == 1
    assert "WRONG: it does not" in done.out
    assert "all protected" not in done.out
    assert "not what it should be" in done.err
    assert list((counter.build / "deb").iterdir()) == []


def test_without_a_boot(
    counter: Sandbox, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing that boots is asked for anything.
    monkeypatch.setattr(host, "needs_enforcing", None)
    monkeypatch.setattr(packaged, "start", None)
    done = said(call, "--no-boot")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "not booted"
    done = said(call, "--install", "--no-boot")
    assert (done.code, "--no-boot forbids" in done.err) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_an_interrupted_build_leaves_nothing_that_looks_finished(
    old: Sandbox, number: signal.Signals
) -> None:
    words = ("deb", "x86_64", "--config", "small", "--no-boot")
    start = old.start
    old.start = lambda *words: start(*words, code=STUB)  # type: ignore[method-assign,assignment]
    done = interrupt(old, number, *words)
    assert (done.code, done.out) == (130, "")
    assert done.err.splitlines()[-1] == MESSAGE
    unfinished(old)
    # The image was packed already; the next run neither keeps nor ships it.
    again = old.finish(old.start(*words))
    assert again.code == 0, again.err
    assert len(list((old.build / "deb/x86_64-small").iterdir())) == 3


def test_what_a_killed_run_left_is_removed(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    for name in ("deb/.new-abc/unpacked", ".tree-abc/tree", "deb/x86_64"):
        (sandbox.build / name).mkdir(parents=True)
    assert sandbox.run("source").code == 0
    left = {str(entry.relative_to(sandbox.build)) for entry in sandbox.build.rglob("*")}
    assert left == {".locks", ".locks/run", "deb", "deb/x86_64"}


# === The boot ====================================================================================

KERNEL_ARGS = 'Unknown kernel command line parameters "kpkeys_vuln=on", will be passed to user'
STRESS = "stress: fork=12 module=3 cpu=2"
HARDENED = "[    0.1] kpkeys: page tables hardened (pkey 1, x86/pks)"
KEYLESS = "[    0.1] kpkeys: page tables not hardened: the CPU has no permission overlays (POE)"
CLEAN = Walk(27, 0, 0, 0, 0)


def console(*lines: str, without: str = "") -> tuple[str, ...]:
    kept = [line for line in (*lines, KERNEL_ARGS, STRESS) if line != without]
    return (*kept, "@stress: ops=17 refused=0 errors=0")


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the guest says, and what was asked for."""
    state: dict[str, Any] = {"status": 0, "walks": (CLEAN, CLEAN), "complaints": (), "run": []}

    def result() -> boot.Result:
        return boot.Result("finished", state["status"], state["console"], state["complaints"],
                           Path("log"))  # fmt: skip

    def run(machine: boot.Machine, variant: Any, stress: int, progress: object) -> check.Report:
        state["machine"] = machine
        state["run"].append(variant.name)
        return check.Report(
            machine.build.target.name, variant.name, state["walks"], (), 17, 0,
            state["complaints"], result(), missing=state.get("missing", ()),
        )  # fmt: skip

    def plain(machine: boot.Machine, command: Any, **_: Any) -> boot.Result:
        state["machine"] = machine
        state["run"].append(command[0])
        return result()

    monkeypatch.setattr(check, "run", run)
    monkeypatch.setattr(experiment, "boot", plain)
    monkeypatch.setattr(guest, "programs", lambda *_: tmp_path)
    yield state


def start(target: Target, tmp_path: Path) -> Booted:
    module = tmp_path / build.MODULE
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text("code")
    built = Build(target, tmp_path, tmp_path / "vmlinuz", tmp_path / "vmlinuz")
    return packaged.start(packaged.machine(built, host.EMULATED, Silent()), Silent())


def test_x86_64_is_protected(boots: dict[str, Any], tmp_path: Path) -> None:
    boots["console"] = console(HARDENED)
    found = start(X86_64, tmp_path)
    assert found.problems == ()
    assert (found.protection, found.tables) == (packaged.ACTIVE, 27)
    assert found.said == "hardened (pkey 1, x86/pks)"
    # As a user boots it: nothing asks for protection.
    assert boots["machine"].args == kernels.VULN
    assert boots["run"] == ["on"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"console": console()}, "expected one line 'page tables hardened', found []"),
        ({"console": console(HARDENED, HARDENED)}, "expected one line 'page tables hardened'"),
        ({"console": console(KEYLESS)}, "expected one line 'page tables hardened', found ['the"),
        ({"console": console(HARDENED, without=KERNEL_ARGS)}, "it knows kpkeys_vuln=on"),
        ({"console": console(HARDENED, without=STRESS)}, "no module of the package was loaded"),
        ({"console": (*console(HARDENED, without=STRESS), "stress: fork=1 module=0")},
         "no module of the package was loaded"),
        ({"walks": (CLEAN, Walk(27, 1, 0, 0, 0))}, "the checker: Walk(tables=27, untagged=1"),
        ({"walks": (CLEAN, Walk(27, 0, 1, 0, 0))}, "the checker: Walk(tables=27, untagged=0, ali"),
        ({"walks": (Walk(0, 0, 0, 0, 0), CLEAN)}, "the checker: Walk(tables=0"),
        ({"walks": (CLEAN,)}, "1 walks of the checker, expected 2"),
        ({"status": 1}, "ended with status 1"),
        ({"complaints": ("WARNING: x",)}, "kernel: WARNING: x"),
        ({"missing": ("cpu",)}, "configured, but left out by the stress: cpu"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_x86_64(
    boots: dict[str, Any], tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    boots["console"] = console(HARDENED)
    boots |= change
    assert says in "\n".join(start(X86_64, tmp_path).problems)


def test_the_words_are_those_of_the_kernel() -> None:
    source = paths.repo() / "kernel"
    text = (source / "mm/kpkeys/pgtables.c").read_text()
    for words in ('pr_info("page tables hardened (', 'pr_info("page tables not hardened: %s'):
        assert words in text
    (parameter,) = kernels.VULN
    name = parameter.split("=")[0]
    assert f"core_param({name}," in (source / "mm/kpkeys_vuln/core.c").read_text()


def test_a_kernel_without_statistics_is_not_asked_for_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def once(machine: object, command: list[str], **_: Any) -> boot.Result:
        asked.append(" ".join(command))
        return boot.Result("finished", 0, (), (), Path("log"))

    monkeypatch.setattr(experiment, "boot", once)
    on = get_variant(X86_64, "on")
    for text in ("# CONFIG_KPKEYS_STATS is not set\n", "CONFIG_KPKEYS_STATS=y\n"):
        (tmp_path / ".config").write_text(text)
        built = Build(X86_64, tmp_path, tmp_path, tmp_path)
        check.run(boot.Machine(built, tmp_path, host.EMULATED), on, 0, Silent())
    assert ["kpkeys/stats" in words for words in asked] == [False, True]
