# SPDX-License-Identifier: GPL-2.0-only
"""test_progs of the kernel's tools/testing/selftests/bpf, on the pristine kernel and on ours.

They need the types of a kernel, and so kernels of their own. The tests that this machine's clang
and pahole cannot build are left out, as the kernel's Makefile permits.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_logged
from redoubt.core.progress import Progress
from redoubt.linux import build, source
from redoubt.linux.build import Build
from redoubt.machine import kernels
from redoubt.targets import Target, Variant, get_variant
from redoubt.trial import selftests

# Of kernels, and of the tests.
FLAVOUR = NAME = "bpf"
_TESTS = Path("tools/testing/selftests/bpf")
_DEFINED = re.compile(r"^DEFINE_TEST\((\w+)\)$", re.MULTILINE)
# Which of the files that were made no test opens, and programs that have the name of a test.
_LEFT = (
    "*.d", "*.o.*", "*.test.o", "*.skel.h", "*.lskel.h", "*.subskel.h", "tools", "feature",
    "veristat", "xdp_synproxy",
)  # fmt: skip
# Tests in a boot.
_PART = 64
# Programs by their names for make; see scripts/prerequisites.txt for the version.
_LLVM = {
    "CLANG": "clang-19",
    "LLVM_STRIP": "llvm-strip-19",
    "LLVM_OBJCOPY": "llvm-objcopy-19",
    "LLD": "lld-19",
}
_OTHERS = ("pahole", "rsync")


def _needs_programs() -> None:
    for name in (*_LLVM.values(), *_OTHERS):
        if not shutil.which(name):
            raise RedoubtError(f"the tests of BPF need {name}", paths.prerequisites("bpf"))


def _compile(target: Target, kernel: Build, top: Path, progress: Progress) -> selftests.Programs:
    """Build test_progs with the types of a pristine kernel, and tell the names of its tests."""
    linux, tree, programs = source.obtain(progress).path, top / "source", top / "programs"
    log = paths.build_dir() / "log" / f"selftests-{target.name}-bpf.log"
    programs.mkdir(parents=True, exist_ok=True)
    with progress.step("Building the kernel's selftests of BPF"):
        selftests.shadow(linux, _TESTS, tree)
        run_logged(
            [
                "make", f"-j{os.cpu_count() or 1}", "-C", tree / _TESTS, f"ARCH={target.arch}",
                f"OUTPUT={programs}", f"VMLINUX_BTF={kernel.vmlinux}", "TEST_KMODS=",
                "BPF_STRICT_BUILD=0", "SKIP_DOCS=1", "SKIP_LLVM=1", "SKIP_LIBBFD=1",
                "LDFLAGS=-static", *(f"{name}={tool}" for name, tool in _LLVM.items()),
                # One library does not say for which version, and has signed divisions.
                "BPF_TARGET_ENDIAN=--target=bpfel -mcpu=v4",
                "test_progs",
            ],
            log, what="make test_progs", env=build.environment(),
        )  # fmt: skip
    listed = (tree / _TESTS / "prog_tests/tests.h").read_text()
    return selftests.Programs(programs, _DEFINED.findall(listed))


def root(target: Target, kernel: Build, progress: Progress) -> Path:
    """Build what the guest gets besides our programs: tests with the types of a pristine kernel.

    Raises RedoubtError if they cannot be built.
    """
    top = paths.build_dir() / target.name / "selftests-bpf"
    where = top / "root"
    shutil.rmtree(where, ignore_errors=True)
    selftests.system(where)
    programs = _compile(target, kernel, top, progress)
    tests = where / "selftests"
    there = tests / "programs" / NAME
    shutil.copytree(programs.directory, there, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT))
    shutil.copy(paths.repo() / "guest/selftests/bpf.sh", there / "bpf.sh")
    (tests / NAME).mkdir()
    for test in programs.tests:
        (there / test).symlink_to("bpf.sh")
        (tests / NAME / test).symlink_to("/bin/selftest")
    (tests / "lists").mkdir()
    for first in range(0, len(programs.tests), _PART):
        part = programs.tests[first : first + _PART]
        names = "".join(f"{NAME}/{test}\n" for test in part)
        (tests / "lists" / f"{NAME}-{first:03}").write_text(names)
    return where


def check(target: Target, variant: Variant, host: str, progress: Progress) -> selftests.Report:
    """Compare a variant with pristine.

    Raises RedoubtError if a program to build them is missing, as `root` does, or if kernels cannot
    be built or run.
    """
    _needs_programs()
    pristine = get_variant(target, "pristine")
    kernel = kernels.prepare(target, pristine, progress, flavour=FLAVOUR)
    files = root(target, kernel, progress)
    boots = [[file.name] for file in sorted((files / "selftests/lists").iterdir())]
    return selftests.on_kernels(target, variant, host, FLAVOUR, files, boots, progress)
