# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own tools/testing/selftests of mm and of tasks, on the pristine kernel and on ours.

Nothing is expected of a test but that both kernels give the same result.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.process import output, run_lines, run_logged
from redoubt.core.progress import Progress
from redoubt.linux import build, rootless, source
from redoubt.linux.version import version_of
from redoubt.machine import kernels
from redoubt.machine.boot import Machine, is_complaint
from redoubt.targets import Target, Variant, get_variant
from redoubt.trial.check import Walk, parse_walks
from redoubt.trial.experiment import matches, start

FLAVOUR = "selftests"
# What the tests and their huge pages need: the largest mapping has 2 GiB. On two CPUs they race.
MEMORY_MB = 3072
CPUS = 2
# What they get on one target only stands with its flavour.
ARGS = (
    # The notes of guest/selftests/selftest.c are not to be dropped when there are many.
    "printk.devkmsg=on",
    # Pages that migrate need another node.
    "numa=fake=2",
    # In KiB: the disk they swap to.
    "ramdisk_size=131072",
)
# Seconds for each program, and for a boot.
PROGRAM_S = 480
BOOT_S = 4800.0
# How often a category is run again in which the kernels differ, on both.
AGAIN = 2
# What a guest of another architecture than this machine's is made of: the shell, what scripts call,
# and libraries that tests are linked with.
PACKAGES = (
    "bash-static", "busybox-static", "libcap-dev", "libcap-ng-dev", "libnuma-dev", "liburing-dev",
)  # fmt: skip
# What the runner does not run, as of the kernel's Makefile.
OTHERS = "others"
# Directories of other selftests: what a task is, what it may do, and who changes that. Programs
# only: scripts need more of a system than the guest has.
COLLECTIONS = (
    "breakpoints", "capabilities", "cgroup", "clone3", "core", "exec", "filesystems/overlayfs",
    "namespaces", "pidfd", "ptrace", "seccomp", "signal", "syscall_user_dispatch", "timers",
)  # fmt: skip
# And of an architecture.
_OF_ARCHITECTURE = {"arm64": ("arm64/abi", "arm64/pauth"), "x86_64": ("kvm",)}

# Each in a boot of its own, on one CPU: KVM replaces instructions for each guest, and the emulator
# sometimes executes what another CPU has just replaced.
ONE_CPU = ("kvm",)

OK, FAILED, SKIPPED, LATE, CRASHED = "ok", "not ok", "skip", "late", "crash"

# Never started, and why.
_MEASURES = "measures time, which means nothing under emulation"
_CLOCKS = "compares clocks, which differ while this machine has other work"
LEFT_OUT = {
    "folio_split_race_test": "no end within minutes under emulation: 16 threads race 100 times",
    "breakpoints/step_after_suspend_test": "the emulated machine does not come back from suspend",
    "exec/load_address.0x1000000": "a file of 50 MB, for which the guest has no memory",
    "pidfd/pidfd_autoreap_test": "asks how a process ended before the kernel has noted it: parts "
    "fail now and then, on the pristine kernel as well",
    "seccomp/seccomp_benchmark": _MEASURES,
    "syscall_user_dispatch/sud_benchmark": _MEASURES,
    "kvm/access_tracking_perf_test": _MEASURES,
    "kvm/dirty_log_perf_test": _MEASURES,
    "kvm/memslot_perf_test": _MEASURES,
    **{
        f"kvm/{name}": _CLOCKS
        for name in (
            "apic_bus_clock_test", "hyperv_clock", "kvm_clock_test", "nested_tsc_adjust_test",
        )
    },
    "kvm/hardware_disable_test": "no end within 8 minutes under emulation: 512 processes",
    "kvm/mmu_stress_test": "no end within 8 minutes under emulation: 128 GB of a guest's memory",
    **{
        f"timers/{name}": _MEASURES
        for name in (
            "inconsistency-check", "mqueue-lat", "nanosleep", "nsleep-lat", "raw_skew",
            "set-timer-lat",
        )
    },
}  # fmt: skip

# Parts that are heard or not, as it happens: the test ends in a process for which the runner does
# not wait, see become_child() of protection_keys.c. That they pass says nothing; a failure counts.
UNHEARD = (
    "test test_pkey_alloc_exhaust ",
    "test test_pkey_alloc_free_attach_pkey0 ",
    "test test_ptrace_modifies_pkru ",
)

# What scripts call and busybox lacks, in guest/selftests.
_SCRIPTS = ("sudo", "pgrep")

_SELFTESTS = Path("tools/testing/selftests")
_MM = _SELFTESTS / "mm"
_CATEGORY = re.compile(r'^\s*CATEGORY="([\w-]+)" run_test', re.MULTILINE)
_BEGIN = re.compile(r"@selftests: category (\S+)$")
_DONE = re.compile(r"@selftests: done (\S+)$")
_NOTE = re.compile(r"@selftest: (begin|end) (.*)$")
_RUNNING = re.compile(r"^# running (.*)$")
_RESULT = re.compile(r"^(ok|not ok) \d+ (.*?)(?: # (SKIP|exit=\d+).*)?$")
_SUBTEST = re.compile(r"^#\s+(ok|not ok) \d+(.*?)(?:\s+# (SKIP|XFAIL|TODO)\b\s*(.*))?$")
_TOO_LATE = re.compile(r"@selftest: no end after (\d+) s$")
# What stands around the words of a test.
_FRAME = re.compile(
    r"^(?:\[(?:SKIP|PASS)\]|\S*--\S*|PASSED: .*|running .*|Totals:.*|"
    r"\d+ skipped test.*|Planned tests.*|1\.\.\d+.*|TAP.*)$"
)
_NOT_THERE = "exit=127"
# An address, or another number that differs from run to run: some tests name what they measured.
_NUMBER = re.compile(
    r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+\.\d+%|(?<=Extra pages )\d+|(?<=extra thread faults )\d+|"
    r"\b\d+(?=MB of memory allocations)"
)
_STAMP = re.compile(r"^(?:\[[^]]*\] ?)*")
_DIGITS = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b")


# === What runs in the guest ======================================================================


def shadow(kernel: Path, tests: Path, where: Path) -> None:
    """Make a kernel tree of links with a copy of these tests: their Makefile writes where they are.

    One that is there already stays, so that make has little to do.
    """
    stamp, made = where.with_suffix(".of"), f"{kernel} {version_of(kernel)}\n"
    if stamp.exists() and stamp.read_text() == made:
        return
    shutil.rmtree(where, ignore_errors=True)
    part = Path()
    for name in tests.parts:
        (where / part).mkdir(parents=True)
        for entry in (kernel / part).iterdir():
            if entry.name != name:
                (where / part / entry.name).symlink_to(entry)
        part /= name
    shutil.copytree(kernel / part, where / part)
    stamp.write_text(made)


@dataclass(frozen=True)
class Programs:
    """Programs of the tests of one kind: where they are, and the names of those that are tests."""

    directory: Path
    tests: Sequence[str]


def _compile(
    target: Target, kernel: Path, top: Path, packages: Path | None, progress: Progress
) -> dict[str, Programs]:
    """Build the tests, static, with the kernel's own Makefiles, by the directories they are in.

    Libraries come from the unpacked `packages`, or are those of this machine.
    """
    tree, headers = top / "source", top / "headers"
    log = paths.build_dir() / "log" / f"selftests-{target.name}.log"
    make = build.make_args(target, kernel, headers)
    headers.mkdir(parents=True, exist_ok=True)
    include = library = ""
    if packages:
        # After what the compiler has itself, so that nothing takes the place of that.
        include = f" -idirafter {packages}/usr/include"
        library = f" -L{packages}/usr/lib/{target.cross_compile.removesuffix('-')}"
    with progress.step("Building the kernel's selftests"):
        run_logged([*make, "headers"], log, what="make headers", env=build.environment())
        shadow(kernel, _MM, tree)
        said: list[str] = []
        found = {}
        for name in (_MM.name, *collections(target)):
            programs = top / "programs" / name
            programs.mkdir(parents=True, exist_ok=True)
            made: list[str | Path] = [
                "make", "-k", f"-j{os.cpu_count() or 1}", "-C", tree / _SELFTESTS / name,
                f"ARCH={target.arch}", f"CROSS_COMPILE={target.cross_compile}",
                f"OUTPUT={programs}", f"O={headers}",
                f"KHDR_INCLUDES=-isystem {headers}/usr/include",
                f"USERCFLAGS=-static{include}", f"USERLDFLAGS=-static -s{library}",
            ]  # fmt: skip
            # What lacks a library is left out by -k, and found missing when it is run.
            run_lines([*made, "all"], said.append, env=build.environment())
            listed: list[str] = []
            run_lines(
                [*made, "-s", "--no-print-directory", f"COLLECTION={name}", "emit_tests"],
                listed.append,
                env=build.environment(),
            )
            found[name] = Programs(
                programs, [line.partition(":")[2] for line in listed if line.startswith(f"{name}:")]
            )
        log.with_suffix(".make.log").write_text("".join(f"{line}\n" for line in said))
    return found


def _static(name: str, package: str, packages: Path | None) -> Path:
    """A static program of the unpacked packages, or of this machine if there are none."""
    if packages:
        found = shutil.which(name, path=f"{packages}/usr/bin:{packages}/bin")
        if not found:
            raise RedoubtError(f"{packages} has no {name}", f"rm -r {packages}")
        return Path(found)
    found = shutil.which(name)
    if not found or "statically linked" not in output(["file", "-L", found], what="file"):
        raise RedoubtError(
            f"the selftests need a static {name} in the guest",
            f"sudo apt-get install {package}",
        )
    return Path(found)


def system(where: Path, packages: Path | None = None) -> None:
    """Make what the tests expect of a system, and the script that runs them.

    Its programs come from the unpacked `packages`, or are those of this machine.
    Raises RedoubtError if there is no static bash and busybox.
    """
    ours = paths.repo() / "guest" / "selftests"
    copies = {
        "bin/bash": _static("bash-static", "bash-static", packages),
        # It knows its applets itself, once it can be run: in the guest.
        "usr/bin/busybox": _static("busybox", "busybox-static", packages),
        "selftests/selftests.sh": ours / "selftests.sh",
        **{f"usr/bin/{name}": ours / name for name in _SCRIPTS},
    }
    for name in ("bin", "etc", "mnt", "usr/bin", "selftests"):
        (where / name).mkdir(parents=True)
    for name, file in copies.items():
        shutil.copy(file, where / name)
    (where / "bin" / "sh").symlink_to("bash")
    (where / "etc/passwd").write_text(
        "root:x:0:0:root:/:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/bash\n"
    )
    (where / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")


def _calls(scripts: str, program: str) -> bool:
    """Do scripts call a program, which they do with a path, or do they merely speak of it?"""
    return re.search(rf"/{re.escape(program)}(?![\w.-])", scripts) is not None


def root(target: Target, progress: Progress) -> Path:
    """Build what the guest gets besides our programs: the tests, the runner, a shell.

    Raises RedoubtError if nothing can be built, or there is no static bash and busybox.
    """
    kernel = source.obtain(progress).path
    top = paths.build_dir() / target.name / "selftests"
    where = top / "root"
    shutil.rmtree(where, ignore_errors=True)
    # Of another architecture, which the kernel and Debian call the same.
    packages = rootless.foreign(target.arch, PACKAGES, progress) if target.cross_compile else None
    system(where, packages)
    compiled = _compile(target, kernel, top, packages, progress)
    if not any(_executables(programs.directory) for programs in compiled.values()):
        log = paths.build_dir() / "log" / f"selftests-{target.name}.make.log"
        raise RedoubtError("none of the kernel's selftests could be built", f"see {log}")
    tests = where / "selftests"
    (tests / "programs").mkdir()
    (tests / "lists").mkdir()
    _memory_tests(kernel, tests, compiled.pop(_MM.name))
    for name, programs in compiled.items():
        _collection(tests, name, programs)
    return where


def _executables(directory: Path) -> list[Path]:
    return [
        file
        for file in sorted(directory.iterdir())
        if file.is_file() and file.stat().st_mode & stat.S_IXUSR
    ]


def _list(tests: Path, name: str, programs: Sequence[str]) -> None:
    file = tests / "lists" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{program}\n" for program in programs))


def _memory_tests(kernel: Path, tests: Path, programs: Programs) -> None:
    """Those of mm, in one directory with the scripts that run them."""
    scripts = sorted((kernel / _MM).glob("*.sh"))
    for script in scripts:
        shutil.copy(script, tests / script.name)
    text = "".join(script.read_text() for script in scripts)
    others = []
    for program in _executables(programs.directory):
        shutil.copy(program, tests / "programs" / program.name)
        (tests / program.name).symlink_to("/bin/selftest")
        if not _calls(text, program.name):
            others.append(program.name)
    _list(tests, OTHERS, others)


def _collection(tests: Path, name: str, programs: Programs) -> None:
    """Those of another directory, with all that was built for them."""
    there = tests / "programs" / name
    ignored = [Path(test).name for test in LEFT_OUT if test.startswith(f"{name}/")]
    shutil.copytree(
        programs.directory, there, symlinks=True,
        ignore=shutil.ignore_patterns(*ignored, "*.o", "*.d"),
    )  # fmt: skip
    (tests / name).mkdir(parents=True)
    binaries = [test for test in programs.tests if not test.endswith((".sh", ".py"))]
    for test in binaries:
        # It is called by its name without the directories it was built in, as after an
        # installation: those of KVM are in one for their architecture.
        if not (there / test).exists() and (found := next(there.rglob(test), None)):
            found.rename(there / test)
        (tests / name / test).symlink_to("/bin/selftest")
    _list(tests, name, [f"{name}/{test}" for test in binaries])


def collections(target: Target) -> tuple[str, ...]:
    """The directories of other tests than those of mm that a target has."""
    return (*COLLECTIONS, *_OF_ARCHITECTURE.get(target.arch, ()))


def chosen(target: Target, where: Path, wanted: Sequence[str]) -> list[str]:
    """The wanted ones of what the runner calls its groups of tests, and of others, in its order.

    All if none is wanted. Raises UsageError for one that there is not.
    """
    text = (where / "selftests/run_vmtests.sh").read_text()
    known = [*dict.fromkeys(_CATEGORY.findall(text)), OTHERS, *collections(target)]
    if unknown := [name for name in wanted if name not in known]:
        raise UsageError(f"unknown category '{unknown[0]}'", "categories: " + ", ".join(known))
    return [name for name in known if not wanted or name in wanted]


def boots_of(categories: Sequence[str]) -> list[list[str]]:
    """All categories in one boot, but for those that have one of their own."""
    together = [name for name in categories if name not in ONE_CPU]
    return [*([together] if together else []), *([name] for name in categories if name in ONE_CPU)]


# === What they say ===============================================================================


@dataclass(frozen=True)
class Outcome:
    """A result, and why it is none or which exit code it was."""

    result: str
    why: str = ""


# A test by its command and, if it is a part of one, the name of that: "" is the test itself.
Key = tuple[str, str]


@dataclass
class Round:
    """One run of some categories on one kernel."""

    outcomes: dict[Key, Outcome] = field(default_factory=dict)
    of: dict[str, str] = field(default_factory=dict)
    # The kernel's complaints, each with the test that ran.
    complaints: list[tuple[str, str]] = field(default_factory=list)
    # Of the checker, where the kernel has one, after each boot that came to its end.
    walks: list[Walk] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    def take(self, other: Round) -> None:
        """Add what another boot of the same round found."""
        self.outcomes.update(other.outcomes)
        self.of.update(other.of)
        self.complaints += other.complaints
        self.walks += other.walks
        self.logs += other.logs


def _skip_reason(lines: Sequence[str]) -> str:
    """What a test that skipped itself says of it: its last words that are no frame."""
    for line in reversed(lines):
        said = line.lstrip("# ").strip()
        if match := re.search(r"\bSKIP\]?:? +(\S.*)", said):
            return match[1]
        if said and not _FRAME.match(said):
            return said
    return ""


def _test(found: Round, test: str, lines: Sequence[str], status: re.Match[str]) -> None:
    skipped = []
    for subtest in matches(_SUBTEST, lines):
        word, name, mark, why = subtest.groups()
        result = SKIPPED if mark == "SKIP" else f"{word} ({mark})" if mark else word
        # What is skipped may have its name behind the mark.
        name = part = _NUMBER.sub("N", name.strip().removeprefix("- ") or why or "")
        if word == OK and name.startswith(UNHEARD):
            continue
        # Several parts may have one name: they are told apart by their order.
        for number in itertools.count(2):
            if (test, part) not in found.outcomes:
                break
            part = f"{name} ({number})"
        found.outcomes[test, part] = Outcome(result, why or "")
        skipped.append(result == SKIPPED)
    late = [match[1] for line in lines if (match := _TOO_LATE.search(line))]
    if test in LEFT_OUT:
        outcome = Outcome(SKIPPED, LEFT_OUT[test])
    elif late:
        outcome = Outcome(LATE, f"no end after {late[0]} s, too slow under emulation")
    elif status[3] == _NOT_THERE:
        outcome = Outcome(SKIPPED, "not built, or a program that it calls is not there")
    elif status[3] == "SKIP" or (status[1] == OK and skipped and all(skipped)):
        outcome = Outcome(SKIPPED, _skip_reason(lines))
    else:
        outcome = Outcome(status[1], status[3] or "")
    found.outcomes[test, ""] = outcome


def parse(console: Sequence[str]) -> tuple[Round, list[str], str | None]:
    """What a console shows: the results, the categories that ended, and the test in which the
    machine was when the console ended, if it was in one."""
    found, done = Round(walks=list(parse_walks(console))), []
    current, category, running = None, None, None
    lines: list[str] = []
    for line in console:
        if match := _NOTE.search(line):
            current = match[2] if match[1] == "begin" else None
        elif match := _BEGIN.match(line):
            category = match[1]
            running, lines = None, []
        elif match := _DONE.match(line):
            done.append(match[1])
            category = None
        elif is_complaint(line):
            found.complaints.append((current or "-", _STAMP.sub("", line)))
        elif category is None:
            continue
        elif match := _RUNNING.match(line):
            running, lines = match[1], []
        elif running and (match := _RESULT.match(line)):
            test = re.sub(r"^(?:bash )?\./", "", running)
            _test(found, test, lines, match)
            found.of[test] = category
            running = None
        else:
            lines.append(line)
    return found, done, current


def run(machine: Machine, wanted: Sequence[str], name: str, progress: Progress) -> Round:
    """Run some categories, on as many boots as it takes.

    A test in which the machine dies is left out of the boots after it, and so does not hide others.
    Raises RedoubtError if the machine cannot be started, or dies outside any test.
    """
    whole, left, out = Round(), list(wanted), dict.fromkeys(LEFT_OUT)
    dead: dict[Key, Outcome] = {}
    while left:
        words = ["/bin/bash", "/selftests/selftests.sh", str(PROGRAM_S), ",".join(out), *left]
        label = f"{name}-{len(whole.logs)}"
        result = start(machine, words, name=label, timeout=BOOT_S, progress=progress)
        found, done, current = parse(result.console)
        found.logs.append(result.log)
        whole.take(found)
        left = [category for category in left if category not in done]
        if left:
            if current is None or current in out:
                raise RedoubtError("the selftests were cut short: " + result.describe())
            out[current] = None
            why = ": ".join(filter(None, (result.outcome, result.detail)))
            dead[current, ""] = Outcome(CRASHED, why)
    whole.outcomes.update(dead)
    return whole


# === Comparing ===================================================================================


@dataclass(frozen=True)
class Difference:
    """A test with what each run of the kernels gave."""

    key: Key
    pristine: tuple[str, ...]
    ours: tuple[str, ...]

    def __str__(self) -> str:
        test, part = self.key
        return (
            f"{test}{': ' + part if part else ''}: "
            f"pristine {', '.join(self.pristine)}; ours {', '.join(self.ours)}"
        )

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        test, part = self.key
        return {"test": test, "part": part, "pristine": self.pristine, "ours": self.ours}


ABSENT = "absent"


def results(rounds: Sequence[Round], key: Key) -> tuple[str, ...]:
    """What the rounds gave that ran the test, in their order."""
    given = []
    for one in rounds:
        whole = one.outcomes.get((key[0], ""))
        if whole is None:
            continue
        found = one.outcomes.get(key)
        # A test that was cut short says nothing of the parts it did not come to.
        if found is None and whole.result in (LATE, CRASHED):
            continue
        given.append(found.result if found else ABSENT)
    return tuple(given)


def differences(pristine: Sequence[Round], ours: Sequence[Round]) -> list[Difference]:
    """Where a run of ours gave what none of the pristine kernel gave."""
    keys = dict.fromkeys(key for one in (*pristine, *ours) for key in one.outcomes)
    found = []
    for key in keys:
        before, after = results(pristine, key), results(ours, key)
        # A part of a test that was cut short on one side.
        if key[1] and not (before and after):
            continue
        if not set(after) <= set(before) or not before or not after:
            found.append(Difference(key, before or (ABSENT,), after or (ABSENT,)))
    # A test that gave up early differs itself: not once more for each part it did not come to.
    whole = {one.key[0] for one in found if not one.key[1]}
    return [
        one
        for one in found
        if not one.key[1] or one.key[0] not in whole or ABSENT not in (*one.pristine, *one.ours)
    ]


@dataclass(frozen=True)
class Report:
    """All runs of both kernels: the first of each ran everything, the others what differed."""

    target: str
    variant: Variant
    pristine: tuple[Round, ...]
    ours: tuple[Round, ...]

    @property
    def suspects(self) -> list[Difference]:
        """Every difference, by whatever it is caused."""
        return differences(self.pristine, self.ours)

    @property
    def wrong(self) -> list[Difference]:
        """The differences that came again, or never had a chance to."""
        again = {one.key for one in differences(self.pristine, self.ours[1:])}
        return [one for one in self.suspects if one.key in again or len(one.ours) < 1 + AGAIN]

    @property
    def unstable(self) -> list[Difference]:
        """What was seen to differ and is not repeated, or differs on the pristine kernel alone."""
        wrong, suspects = self.wrong, self.suspects
        found = [one for one in suspects if one not in wrong]
        known = {one.key for one in suspects}
        for key in self.pristine[0].outcomes:
            before = results(self.pristine, key)
            if key not in known and len(set(before)) > 1:
                found.append(Difference(key, before, results(self.ours, key)))
        return found

    @property
    def complaints(self) -> list[str]:
        """What our kernel complained of and the pristine one did not in the same test."""
        known = {
            (test, _DIGITS.sub("N", line)) for one in self.pristine for test, line in one.complaints
        }
        return [
            f"{test}: {line}"
            for one in self.ours
            for test, line in one.complaints
            if (test, _DIGITS.sub("N", line)) not in known
        ]

    def tests(self, *which: str) -> dict[str, Outcome]:
        """The tests with one of these results in the first run of ours; all if none is named."""
        return {
            test: outcome
            for (test, part), outcome in self.ours[0].outcomes.items()
            if not part and (not which or outcome.result in which)
        }

    @property
    def passed(self) -> list[str]:
        """The tests that both kernels pass, every time and in all parts."""
        odd = {one.key[0] for one in (*self.wrong, *self.unstable)}
        return [test for test in self.tests(OK) if test not in odd]

    @property
    def parts(self) -> int:
        """How many parts of tests both kernels pass."""
        return sum(
            bool(key[1]) and {*results(self.pristine, key), *results(self.ours, key)} == {OK}
            for key in self.ours[0].outcomes
        )

    @property
    def unprotected(self) -> list[str]:
        """The runs after which page tables were not all protected, of a variant that protects."""
        return [
            f"run {number}: {one.walks or 'no walk of the checker'}"
            for number, one in enumerate(self.ours, 1)
            if self.variant.protected and not (one.walks and all(walk.clean for walk in one.walks))
        ]

    @property
    def ok(self) -> bool:
        """True if tests ran, with the same results, and our kernel had nothing to complain of."""
        return bool(self.passed) and not (self.wrong or self.complaints or self.unprotected)

    @property
    def not_run(self) -> dict[str, Outcome]:
        """What could not run here, with the reason."""
        return self.tests(SKIPPED, LATE)

    @property
    def failing(self) -> dict[str, Outcome]:
        """What fails on both kernels."""
        wrong = {one.key for one in self.wrong}
        failed = self.tests(FAILED, CRASHED).items()
        return {test: outcome for test, outcome in failed if (test, "") not in wrong}

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return {
            "target": self.target,
            "variant": self.variant.name,
            "runs": {"pristine": len(self.pristine), "ours": len(self.ours)},
            "ok": self.ok,
            "parts_passed": self.parts,
            "tests": [
                {
                    "test": test, "category": self.ours[0].of.get(test, ""),
                    "pristine": results(self.pristine, (test, "")),
                    "ours": results(self.ours, (test, "")), "why": outcome.why,
                }
                for test, outcome in self.tests().items()
            ],
            "differences": [one.as_json() for one in self.wrong],
            "unstable": [one.as_json() for one in self.unstable],
            "complaints": self.complaints,
            "unprotected": self.unprotected,
        }  # fmt: skip


def compare(
    target: Target,
    variant: Variant,
    pristine: Machine,
    ours: Machine,
    first: Sequence[Sequence[str]],
    progress: Progress,
) -> Report:
    """Run the categories of each boot on both kernels; those in which they differ AGAIN times more.

    Each of these has a boot of its own then: what others left behind may have made the difference.

    Raises RedoubtError as `run` does.
    """
    rounds: dict[str, list[Round]] = {"pristine": [], variant.name: []}
    machines = {"pristine": pristine, variant.name: ours}

    def both(boots: Sequence[Sequence[str]]) -> Report:
        for name, machine in machines.items():
            number = len(rounds[name]) + 1
            with progress.step(f"Selftests on {target.name} ({name}), run {number}"):
                whole = Round()
                for todo in boots:
                    more = f"-{todo[0]}" if len(boots) > 1 else ""
                    label = f"selftests-{target.name}-{name}-{number}{more}"
                    booted = replace(machine, cpus=1) if todo[0] in ONE_CPU else machine
                    whole.take(run(booted, todo, label, progress))
                rounds[name].append(whole)
        return Report(target.name, variant, tuple(rounds["pristine"]), tuple(rounds[variant.name]))

    report = both(first)
    suspect = {difference.key[0] for difference in report.suspects}
    suspect |= {test for test, _ in report.ours[0].complaints}
    of = report.pristine[0].of | report.ours[0].of
    wanted = itertools.chain.from_iterable(first)
    todo = [[name] for name in wanted if any(of.get(test) == name for test in suspect)]
    for _ in range(AGAIN if todo else 0):
        report = both(todo)
    return report


def check(
    target: Target, variant: Variant, host: str, progress: Progress, wanted: Sequence[str] = ()
) -> Report:
    """Compare a variant with pristine; all categories if none is wanted.

    Raises RedoubtError if the target has no kernel for them, or they cannot be built or run.
    """
    # First what may be missing: kernels take long.
    files = root(target, progress)
    boots = boots_of(chosen(target, files, wanted))
    return on_kernels(target, variant, host, FLAVOUR, files, boots, progress)


def on_kernels(
    target: Target,
    variant: Variant,
    host: str,
    flavour: str,
    files: Path,
    boots: Sequence[Sequence[str]],
    progress: Progress,
) -> Report:
    """Run the categories of each boot on a variant with a flavour, and on pristine.

    Raises RedoubtError if these cannot be built or run.
    """
    ways = (get_variant(target, "pristine"), variant)
    made = [kernels.workbench(target, way, host, progress, flavour=flavour) for way in ways]
    pristine, ours = (
        replace(bench.machine(way, *ARGS, cpus=CPUS), memory_mb=MEMORY_MB, files={".": files})
        for bench, way in zip(made, ways, strict=True)
    )
    return compare(target, variant, pristine, ours, boots, progress)


def render(report: Report) -> Iterator[str]:
    """For people: what was compared, what differs, and what was not compared."""
    yield (
        f"{report.target}: {len(report.passed)} tests ({report.parts} parts) pass on pristine "
        f"and on {report.variant.name}; {len(report.wrong)} differ"
    )
    groups: dict[str, Sequence[object]] = {
        "different": report.wrong,
        "complaints of our kernel": report.complaints,
        "page tables not protected": report.unprotected,
        "not the same every time": report.unstable,
        "fail on both": [f"{test}: {one.why}" for test, one in report.failing.items()],
        "not run": [f"{test}: {one.why}" for test, one in report.not_run.items()],
    }
    for title, lines in groups.items():
        if lines:
            yield f"{title}:"
            yield from (f"    {line}" for line in lines)
