# SPDX-License-Identifier: GPL-2.0-only
"""What a machine goes through in its life: sleep, memory that is taken away, another kernel.

Each must end with page tables that are all protected, and a register that still refuses.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from redoubt.core.progress import Progress
from redoubt.linux import rootless
from redoubt.machine.boot import Machine, Result
from redoubt.trial import check, ktap
from redoubt.trial.experiment import Outcome, bad_end, matches, start

SLEEPS = 2
DIMM_MB = 256
DISK_MB = 1024
# To resume, the image and what it is read with have to fit, beside the kernel that reads it.
HIBERNATING_MB = 512
# How often a guest of the guest leaves: more than it has pages.
RUNS = 1000
_TIMEOUT = 600.0

_KUNIT_LATER = ("kunit.enable=1", "kunit.autorun=0")
_KUNIT = "/sys/kernel/debug/kunit"
_ACPI_MEMORY = "/sys/bus/acpi/devices/PNP0C80:00"
# When it is removed, its status, read from the firmware, says that it is not there.
_EJECT = ["/bin/put", f"{_ACPI_MEMORY}/eject", "1", f"{_ACPI_MEMORY}/status", "0"]
_DISK = "/dev/vda"
_DIMM = (
    "-m", "slots=1,maxmem=8G", "-object", f"memory-backend-ram,id=more,size={DIMM_MB}M",
    "-device", "pc-dimm,id=dimm,memdev=more",
)  # fmt: skip
# An arm64 machine has ACPI by its firmware, EFI, and is usually booted without one.
_FIRMWARE = ("qemu-efi-aarch64", "usr/share/qemu-efi-aarch64/QEMU_EFI.fd")
_MEMORY = re.compile(r"^MemTotal:\s+(\d+) kB$")
# What its program says when it gives up; the kernel says the other.
_GAVE_UP = re.compile(r"^kvm: (?!exiting )(.+)")
_KEYS = re.compile(r"^@power: POR_EL0=(\w+) before=(\w+)$")
_HARDENED = "kpkeys: page tables hardened"
_KEXEC = "@power: kexec"
# Where the second kernel ends, as it gets no file system.
_NO_ROOT = "Unable to mount root fs"


def _through(
    machine: Machine,
    commands: Sequence[Sequence[str]],
    name: str,
    progress: Progress,
    looks: int = 1,
    timeout: float = _TIMEOUT,
) -> tuple[Result, list[str]]:
    """Go through commands with so many looks at page tables: the end, and what is wrong with it."""
    name = f"{name}-{machine.build.target.name}"
    result = start(machine, *commands, name=name, timeout=timeout, progress=progress)
    unclean = check.unclean(machine, result.console, looks)
    return result, [*bad_end(result, result.splats), *unclean]


def _failed(suites: Iterable[ktap.Suite]) -> list[str]:
    return [
        f"{suite.name}: {suite.passed} passed, {suite.failures} failed"
        for suite in suites
        if suite.failed or not suite.passed
    ]


def _refusing(
    machine: Machine,
    name: str,
    commands: list[list[str]],
    kernel: Path,
    progress: Progress,
    timeout: float = _TIMEOUT,
) -> Outcome:
    """Go through these commands, then let KUnit write to page tables, and look at them."""
    told = replace(machine, args=(*machine.args, *_KUNIT_LATER))
    later = machine.build.target.kunit_later
    again = [["/bin/put", f"{_KUNIT}/{suite}/run", "again"] for suite in later]
    result, problems = _through(
        told, [*commands, *again, *check.look(machine)], name.split()[0], progress, timeout=timeout
    )
    suites = {suite.name: suite for suite in ktap.parse_runs(kernel, result.console)}
    problems += [f"{suite} did not run" for suite in later if suite not in suites]
    return Outcome(name, (*problems, *_failed(suites.values())), result)


def running(machine: Machine, kernel: Path, progress: Progress, *, timeout: float) -> Outcome:
    """Let KUnit write to page tables of a kernel that has booted, whose constants are read-only.

    Those suites that run while a kernel boots do so before that. `timeout` is in seconds.
    """
    return _refusing(machine, "KUnit after the boot", [], kernel, progress, timeout)


def sleep(machine: Machine, kernel: Path, progress: Progress) -> Outcome:
    """Suspend to RAM and resume, then let KUnit write to page tables, on all CPUs."""
    suspend = ["/bin/power", "suspend", str(SLEEPS)]
    outcome = _refusing(machine, "suspend to RAM", [suspend], kernel, progress)
    if f"@power: resumed={SLEEPS}" not in outcome.boot.console:
        return replace(outcome, problems=(*outcome.problems, "it did not sleep"))
    return outcome


def _lost_keys(result: Result) -> Iterator[str]:
    """What the register of a program's own keys has after it, where there is such a register."""
    for match in matches(_KEYS, result.console):
        if match[1] != match[2]:
            yield f"a program that had POR_EL0 {match[2]} has {match[1]} now"


def hibernate(machine: Machine, kernel: Path, progress: Progress) -> Outcome:
    """Suspend to a disk, boot from it, then let KUnit write to page tables."""
    name, command = "hibernation", ["/bin/power", "hibernate", _DISK]
    with tempfile.TemporaryDirectory(prefix="redoubt-") as directory:
        disk = Path(directory) / "disk"
        with disk.open("wb") as file:
            file.truncate(DISK_MB << 20)
        saved = replace(
            machine,
            args=(*machine.args, f"resume={_DISK}"),
            memory_mb=max(machine.memory_mb, HIBERNATING_MB),
            devices=(
                *machine.devices, "-drive", f"if=none,id=disk,format=raw,file={disk}",
                "-device", "virtio-blk-device,drive=disk",
            ),
        )  # fmt: skip
        # Both boots have the same commands: the first ends within one, where the second goes on.
        off, on = (_refusing(saved, name, [command], kernel, progress) for _ in range(2))
    if off.boot.outcome == "finished" or "@power: hibernating" not in off.boot.console:
        return Outcome(name, ("it did not go to the disk", *off.problems), off.boot)
    if "@power: hibernated" not in on.boot.console:
        return replace(on, problems=(*on.problems, "it did not come back from the disk"))
    return replace(on, problems=(*on.problems, *_lost_keys(on.boot)))


def _with_acpi(machine: Machine, progress: Progress) -> Machine:
    if machine.build.target.arch != "arm64":
        return machine
    package, file = _FIRMWARE
    unpacked = rootless.foreign("arm64", (package,), progress)
    return replace(machine, devices=(*machine.devices, "-bios", str(unpacked / file)))


def memory(machine: Machine, kernel: Path, progress: Progress) -> Outcome:
    """Add memory, with page tables that map it, and take it away; on arm64, booted by EFI."""
    machine = _with_acpi(machine, progress)
    args = (*machine.args, "memhp_default_state=online_movable")
    look = [["/bin/cat", "/proc/meminfo"], *check.look(machine)]
    commands = [*look, _EJECT, ["/bin/settle"], *look]
    larger = replace(machine, args=args, devices=(*machine.devices, *_DIMM))
    result, problems = _through(larger, commands, "memory", progress, looks=2)
    totals = [int(match[1]) for match in matches(_MEMORY, result.console)]
    if len(totals) != 2 or totals[0] - totals[1] != DIMM_MB * 1024:
        problems.append(f"memory was not taken away: MemTotal {totals} kB")
    return Outcome("memory hotplug", tuple(problems), result)


def kexec(machine: Machine, kernel: Path, progress: Progress) -> Outcome:
    """Start the same kernel once more, which must find the register and protect page tables."""
    emulator = machine.build.target.emulator
    console = f"console={emulator.console} " if emulator else ""
    again = f"{console}panic=-1 kunit.enable=1 kunit.filter_glob=kpkeys_pgtables kunit.autorun=1"
    # Without EFI, Linux takes the ITS's table from before kexec for reserved even if it lies under
    # the new kernel's own image, and fills it.
    if any("gic-version=3" in device for device in machine.devices):
        machine = replace(machine, devices=(*machine.devices, "-machine", "its=off"))
    result = start(
        replace(machine, files={"boot/kernel": machine.build.image}),
        ["/bin/power", "kexec", "/boot/kernel", again],
        name=f"kexec-{machine.build.target.name}", timeout=_TIMEOUT, progress=progress,
    )  # fmt: skip
    lines = result.console
    end = next((i for i, line in enumerate(lines) if _NO_ROOT in line), len(lines))
    # How it ends is as expected.
    problems = [f"kernel: {splat}" for splat in result.splats if splat not in lines[end:]]
    if _KEXEC not in lines:
        problems.append("no other kernel was started")
    else:
        second = lines[lines.index(_KEXEC) + 1 :]
        if not any(_HARDENED in line for line in second):
            problems.append("the second kernel does not protect page tables")
        problems += _failed(ktap.parse(kernel, second))
    if result.outcome != "panic" or _NO_ROOT not in result.detail:
        problems.append(f"the second kernel did not get to its end: {result.outcome}")
    return Outcome("kexec", tuple(problems), result)


def guests(machine: Machine, kernel: Path, progress: Progress) -> Outcome:
    """Run a guest, which KVM enters again and again, then let KUnit write to page tables.

    A guest on arm64 has overlays, and writes to their registers: it must find its own when it is
    back, and the host those that it had.
    """
    outcome = _refusing(machine, "guests of KVM", [["/bin/kvm", str(RUNS)]], kernel, progress)
    problems = list(outcome.problems)
    if f"@kvm: runs={RUNS}" not in outcome.boot.console:
        why = [match[1] for match in matches(_GAVE_UP, outcome.boot.console)]
        problems.append(": ".join(["its guest did not run", *why]))
    return replace(outcome, problems=tuple(problems))


def shadowed_guests(machine: Machine, kernel: Path, progress: Progress) -> Outcome:
    """The same with shadow page tables, which only KVM on x86 has."""
    shadowing = replace(machine, args=(*machine.args, "kvm_amd.npt=0"))
    outcome = guests(shadowing, kernel, progress)
    return replace(outcome, name=f"{outcome.name}, shadow page tables")


Event = Callable[[Machine, Path, Progress], Outcome]
ALL: tuple[Event, ...] = (sleep, memory, kexec, guests, shadowed_guests)


def may_go_through(machine: Machine, event: Event) -> bool:
    """Can it run guests, if the event is about them? An arm64 CPU that starts at EL1 cannot."""
    arm64 = machine.build.target.arch == "arm64"
    if event is shadowed_guests:
        return not arm64
    at_el2 = any("virtualization=on" in option for option in machine.devices)
    return event is not guests or at_el2 or not arm64
