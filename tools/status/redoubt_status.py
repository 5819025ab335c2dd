#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Say which protections of the running kernel are active, and whether it refused anything.

It is installed alone, as redoubt-status: the standard library is all it may import. A file that
cannot be read leaves something unknown, which is never taken for well.
"""

from __future__ import annotations

import argparse
import errno
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HELP = """\
Says which protections of Redoubt the running kernel has, which are active, why others are not, and
what was refused: from the kernel's configuration, command line and log, and from debugfs. It needs
root for the log, where kernel.dmesg_restrict is set, and for debugfs.

Exit status: 0 if all that is built in is active and the kernel has logged neither a violation nor
another warning about it, 1 if not or if that cannot be told, 2 for wrong usage.
"""

ACTIVE, INACTIVE, ABSENT, UNKNOWN = "active", "inactive", "not built in", "unknown"
# The worst priority of a line of the log is 0; 4 is a warning.
_WARNING = 4
# Those that a report shows.
_LAST = 5
_KMSG, _DEBUGFS = "dev/kmsg", "sys/kernel/debug"


class Failure(Exception):
    """Nothing can be told, for this reason."""


def _why(error: OSError) -> str:
    """What went wrong with a file, and what mends that."""
    hint = "; run this as root" if error.errno in (errno.EACCES, errno.EPERM) else ""
    return f"{error.filename or 'the output'}: {error.strerror}{hint}"


# === The protections =============================================================================


@dataclass(frozen=True)
class Protection:
    """A protection: its option, and what the kernel logs of it; `needs` names what it stands on.

    Both patterns have a group, for the details and for the reason. A protection that logs nothing
    is `silent`: it is active with what it needs, unless the command line has this switch off. One
    that has to be `asked` for logs nothing either if it was not.
    """

    name: str
    option: str
    active: str = ""
    inactive: str = ""
    needs: str = ""
    silent: str = ""
    asked: str = ""


def _keys(name: str, option: str, needs: str = "page tables") -> Protection:
    return Protection(
        name, option, rf"kpkeys: {name} hardened(?: \((.*)\))?$",
        rf"kpkeys: {name} not hardened: (.*)$", needs,
    )  # fmt: skip


PROTECTIONS = (
    _keys("page tables", "KPKEYS_HARDENED_PGTABLES", ""),
    Protection(
        "mappings of page tables", "KPKEYS_CHECK_MAPPINGS",
        needs="page tables", silent="kpkeys.mappings",
    ),
    _keys("state", "KPKEYS_HARDENED_STATE"),
    _keys("credentials", "KPKEYS_HARDENED_CRED"),
    _keys("saved registers", "KPKEYS_HARDENED_REGS", "credentials"),
    _keys("secrets", "KPKEYS_HARDENED_SECRET"),
    _keys("pointer authentication keys", "KPKEYS_HARDENED_PTRAUTH"),
    Protection(
        "address space isolation", "MITIGATION_ADDRESS_SPACE_ISOLATION",
        r"asi: on: (.*)$", r"asi: inactive: (.*)$", asked="asi",
    ),
    Protection(
        "memory under several keys", "X86_MKTME",
        r"x86/mktme: (\w+: \d+ KeyIDs .*)$", r"x86/mktme: off: (.*)$",
    ),
)  # fmt: skip

# At the beginning of a line: a program can put its name there, which has 15 characters at most.
_VIOLATION = re.compile(r"kpkeys: violation: (.*)")
_OURS = re.compile(r"(?:kpkeys|asi|x86/mktme|mktme): ")
_STATES = tuple(
    re.compile(pattern) for one in PROTECTIONS for pattern in (one.active, one.inactive) if pattern
)
# Of each file of debugfs that checks something: the option it comes with, the protection that it is
# about, the counts that must be 0, and those that must not.
_CHECKS = (
    ("kpkeys/check", "KPKEYS_CHECK", "page tables",
     ("untagged", "aliases", "unlinked", "foreign"), ("tables",)),
    ("asi/audit", "MITIGATION_ADDRESS_SPACE_ISOLATION", "address space isolation",
     ("leaks", "stale", "aliases"), ("sensitive", "ordinary")),
)  # fmt: skip


# === The kernel's log ============================================================================


@dataclass(frozen=True)
class Line:
    """A line of the kernel's log: its number, priority and text."""

    number: int
    priority: int
    text: str

    @property
    def violation(self) -> str | None:
        """The access that was refused, if the line is about one."""
        found = _VIOLATION.match(self.text)
        return found[1] if found else None

    @property
    def warning(self) -> bool:
        """Is it another complaint of our code, and not why a protection is inactive?"""
        if self.priority > _WARNING or not _OURS.match(self.text) or self.violation:
            return False
        return not any(pattern.match(self.text) for pattern in _STATES)


def _lines(data: str) -> Iterator[Line]:
    """The kernel's own lines: others are of programs that write to the log, this one, too."""
    for record in data.splitlines():
        head, _, text = record.partition(";")
        words = head.split(",")
        # Lines of properties begin with a space.
        if not record.startswith(" ") and len(words) >= 2 and int(words[0]) >> 3 == 0:
            yield Line(int(words[1]), int(words[0]) & 7, text)


def _read_log(file: Path, *, follow: bool = False) -> Iterator[Line | None]:
    """The lines in the kernel's buffer, and then new ones; None where some were overwritten."""
    log = os.open(file, os.O_RDONLY | (0 if follow else os.O_NONBLOCK))
    try:
        while True:
            try:
                data = os.read(log, 1 << 16)
            except BlockingIOError:
                return
            except BrokenPipeError:
                yield None
                continue
            if not data:
                return
            yield from _lines(data.decode(errors="replace"))
    finally:
        os.close(log)


def _read_journal(root: Path) -> list[Line]:
    """The kernel's lines since boot as the journal has them; none if there is no journal."""
    where = [] if root == Path("/") else [f"--root={root}"]
    words = ["journalctl", *where, "--boot", "--quiet", "--output=json"]
    fields = "--output-fields=PRIORITY,MESSAGE"
    try:
        said = subprocess.run(
            [*words, fields, "_TRANSPORT=kernel", "SYSLOG_FACILITY=0"],
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return []
    entries = [json.loads(line) for line in said.stdout.splitlines()]
    return [
        Line(number, int(entry.get("PRIORITY", _WARNING)), entry["MESSAGE"])
        for number, entry in enumerate(entries)
        # Bytes that are no text are a list of numbers.
        if isinstance(entry.get("MESSAGE"), str)
    ]


# === What a machine says =========================================================================


class Kernel:
    """The running kernel, by its files below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.release = (root / "proc/sys/kernel/osrelease").read_text().strip()
        self.options = self._configuration()
        words = (root / "proc/cmdline").read_text().split()
        self.arguments = dict(word.partition("=")[::2] for word in words)
        self.trouble: list[str] = []
        self.log, self.whole = self._log()

    def _configuration(self) -> set[str]:
        packed, plain = self.root / "proc/config.gz", self.root / f"boot/config-{self.release}"
        if packed.exists():
            text = gzip.decompress(packed.read_bytes()).decode()
        elif plain.exists():
            text = plain.read_text()
        else:
            raise Failure(f"neither {packed} nor {plain} is there, which tell what is built in")
        return set(re.findall(r"^CONFIG_(\w+)=y$", text, re.MULTILINE))

    def _log(self) -> tuple[list[Line], bool]:
        """The log since boot, and whether it is whole. The kernel keeps the last lines only."""
        try:
            lines = [line for line in _read_log(self.root / _KMSG) if line]
        except OSError as error:
            lines, why = [], _why(error)
        else:
            if lines and lines[0].number == 0:
                return lines, True
            why = "the kernel has overwritten the beginning of its log"
        # The journal begins with the first line, too, unless it was told to keep less.
        journal = _read_journal(self.root)
        # On arm64 the CPU comes before the version.
        if any(line.text.startswith("Linux version ") for line in journal[:2]):
            return journal, True
        self.trouble.append(f"{why}, and the journal has no log of this boot")
        return lines, False

    def has(self, option: str) -> bool:
        """Is an option built in?"""
        return option in self.options

    def is_on(self, argument: str, otherwise: bool) -> bool:
        """Is a switch of the command line on, as the kernel reads it?"""
        value = self.arguments.get(argument, "").lower()
        if value[:1] in tuple("eyt1") or value.startswith("on"):
            return True
        return False if value[:1] in tuple("dnf0") or value.startswith("of") else otherwise

    def debugfs(self, name: str) -> str | None:
        """A file of debugfs, or None if it cannot be read, after saying why."""
        file = self.root / _DEBUGFS / name
        try:
            return file.read_text()
        except FileNotFoundError:
            why = f"{file} is not there: mount -t debugfs none /sys/kernel/debug"
        except OSError as error:
            why = _why(error)
        self.trouble.append(why)
        return None


def _said(kernel: Kernel, pattern: str) -> str | None:
    """The details in the last line like this, or None if there is no line like this."""
    for line in reversed(kernel.log if pattern else []):
        if found := re.match(pattern, line.text):
            return found[1] or ""
    return None


def states(kernel: Kernel) -> dict[str, tuple[str, str]]:
    """The state of each protection, and the details or the reason."""
    found: dict[str, tuple[str, str]] = {}
    for one in PROTECTIONS:
        found[one.name] = _state(one, kernel, found.get(one.needs, (ACTIVE, ""))[0])
    return found


def _state(one: Protection, kernel: Kernel, below: str) -> tuple[str, str]:
    if not kernel.has(one.option):
        return ABSENT, ""
    inactive = _said(kernel, one.inactive)
    if inactive is not None:
        return INACTIVE, inactive
    active = _said(kernel, one.active)
    if active is not None:
        return ACTIVE, active
    if one.asked and not kernel.is_on(one.asked, False):
        return INACTIVE, f"not asked for, with {one.asked}=on on the command line"
    if below != ACTIVE:
        return below, f"{one.needs}: {below}"
    if one.silent:
        on = kernel.is_on(one.silent, True)
        return (ACTIVE, "") if on else (INACTIVE, f"disabled by {one.silent}=off")
    return UNKNOWN, "the kernel's log does not say" if kernel.whole else "no log since boot"


# === Reports =====================================================================================


def report(kernel: Kernel, check: bool) -> bool:
    """Print all that can be told; returns whether all of it is well."""
    print(f"Linux {kernel.release}\n")
    found = states(kernel)
    for name, (state, why) in found.items():
        print(f"{name:<29}{state}{': ' if why else ''}{why}")
    built_in = [state for state, _ in found.values() if state != ABSENT]
    if not built_in:
        kernel.trouble.append("this kernel has none of the protections")
    print()
    well = _refused(kernel) and bool(built_in) and all(state == ACTIVE for state in built_in)
    if check:
        for one in _CHECKS:
            well = _check(kernel, found, *one) and well
    for line in kernel.trouble:
        print(f"redoubt-status: {line}", file=sys.stderr)
    return well and not kernel.trouble


def _refused(kernel: Kernel) -> bool:
    """Print how much was refused and complained of; returns whether nothing was."""
    violations = [line.violation for line in kernel.log if line.violation]
    warnings = [line.text for line in kernel.log if line.warning]
    number, source = len(violations), "in the log since boot"
    if not kernel.whole:
        source = "in what there is of the log"
    if kernel.has("KPKEYS_STATS") and (stats := kernel.debugfs("kpkeys/stats")) is not None:
        counted = dict(line.split() for line in stats.splitlines())
        # The counter misses what was before it, as another kernel does not count at all.
        if int(counted.get("violations", 0)) >= number:
            number, source = int(counted["violations"]), "counted by the kernel"
    for what, nr, where, last in (
        ("violations", number, source, violations),
        ("other warnings", len(warnings), "", warnings),
    ):
        print(f"{what:<29}{nr}{f', {where}' if where else ''}")
        for text in last[-_LAST:]:
            print(f"    {text}")
    return number == 0 and not warnings


def _check(
    kernel: Kernel, found: dict[str, tuple[str, str]], file: str, option: str, name: str,
    zero: Sequence[str], some: Sequence[str],
) -> bool:  # fmt: skip
    """Run a checker of the kernel's, if what it checks is active; returns whether all is well."""
    if found[name][0] != ACTIVE:
        return True
    if not kernel.has(option):
        kernel.trouble.append(f"{name} cannot be checked: CONFIG_{option} is not built in")
        return False
    said = kernel.debugfs(file)
    if said is None:
        return False
    counts: dict[str, int] = {}
    rest: list[str] = []
    for line in said.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            counts[words[0]] = int(words[1])
        else:
            rest.append(line)
    wrong = [key for key in zero if counts.get(key) != 0]
    wrong += [key for key in some if not counts.get(key)]
    for key, value in counts.items():
        print(f"{f'{file}: {key}':<29}{value}{'  WRONG' if key in wrong else ''}")
    for line in rest:
        print(f"    {line}")
    kernel.trouble += [f"{file} does not count {key}" for key in wrong if key not in counts]
    return not wrong


def follow(root: Path) -> None:
    """Print each violation and warning as it comes, after those that no run before has printed.

    systemd reads the priorities, and keeps the number of the last line until the next boot.
    """
    state = os.environ.get("RUNTIME_DIRECTORY")
    file = Path(state) / "last" if state else None
    last = int(file.read_text()) if file and file.exists() else -1
    marks = "JOURNAL_STREAM" in os.environ
    for line in _read_log(root / _KMSG, follow=True):
        if line is None:
            priority, text = 4, "some of the kernel's log was overwritten before it was read"
        elif line.number <= last:
            continue
        elif line.violation:
            priority, text = 2, f"the kernel refused: {line.violation}"
        elif line.warning:
            priority, text = 4, f"the kernel warns: {line.text}"
        else:
            continue
        print(f"<{priority}>{text}" if marks else text, flush=True)
        if file and line:
            # The old or the new number is there, however this ends.
            fresh = file.with_suffix(".new")
            fresh.write_text(str(line.number))
            fresh.rename(file)


class Help(argparse.RawDescriptionHelpFormatter):
    """Begins as help2man takes for a synopsis."""

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action],
        groups: Iterable[Any], prefix: str | None = None,
    ) -> None:  # fmt: skip
        """Add the words that begin it."""
        super().add_usage(usage, actions, groups, prefix or "Usage: ")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="redoubt-status", description=HELP, allow_abbrev=False,
        formatter_class=Help,
    )  # fmt: skip
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--check", action="store_true",
        help="also have the kernel compare all page tables and their keys, which takes seconds",
    )  # fmt: skip
    kind.add_argument(
        "--follow", action="store_true",
        help="print violations and warnings as they come, for a service",
    )  # fmt: skip
    parser.add_argument(
        "--root", type=Path, default=Path("/"), metavar="DIR",
        help="read /proc, /sys, /dev and /boot below this directory",
    )  # fmt: skip
    return parser.parse_args(words)


def ended(program: str, act: Callable[[], int]) -> int:
    """Act, and say what went wrong in one line; returns the exit status of the program."""
    try:
        return act()
    except Failure as error:
        print(f"{program}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{program}: {_why(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _run(arguments: argparse.Namespace) -> int:
    if arguments.follow:
        follow(arguments.root)
        return 0
    return 0 if report(Kernel(arguments.root), arguments.check) else 1


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; returns the exit status."""
    arguments = _arguments(words)
    return ended("redoubt-status", lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())
