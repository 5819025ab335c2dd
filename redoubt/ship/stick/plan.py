# SPDX-License-Identifier: GPL-2.0-only
"""The work of a real machine: entries of the boot menu, and the steps of each.

Protection is chosen on the kernel's command line, so each way to boot is an entry of systemd-boot's
menu, on the disk itself. systemd-boot counts tries of an entry down in the name of its file before
it starts it, and starts the first that has some left: so a kernel that dies before its first
program, or a machine that hangs, still comes to the next entry. The program removes the file of an
entry when its steps are done. Nothing of this needs variables of the firmware, which
LoaderEntryOneShot or BootNext would write to, on a machine that is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from redoubt.cost import workloads
from redoubt.cost.workloads import MIB, TIME, Spec
from redoubt.machine import guest, kernels
from redoubt.targets import ARM64, X86_64, Target, Variant, get_variant
from redoubt.trial import check
from redoubt.trial.asi import asi

# The flavour of the kernel that has drivers for real machines.
FLAVOUR = "image"
TARGETS = (X86_64.name, ARM64.name)
FINISH = "finish"
STRESS_S = 120
LINGER_S = 600
# Names of steps that results are read from.
KUNIT, LOG, HARDWARE, STRESS, BENCH, PRICES, LIST, ATTACKS = (
    "kunit", "log", "hardware", "stress", "bench", "prices", "list", "attacks",
)  # fmt: skip
CHECKS = ("check", "check again")
AUDITS = ("audit", "audit again")

_NO_KUNIT = ("kunit.enable=0",)
# Huge pages would hide what an entry costs, as when guests are measured (redoubt/targets.py).
_HUGE = "/sys/kernel/mm/transparent_hugepage"
_LARGER = f"{_HUGE}/hugepages-64kB/enabled"
_SMALL_PAGES = (
    ["/bin/put", f"{_HUGE}/enabled", "never"], ["/bin/put", _LARGER, "madvise"]
)  # fmt: skip
_USUAL_PAGES = (
    ["/bin/put", f"{_HUGE}/enabled", "madvise"], ["/bin/put", _LARGER, "never"]
)  # fmt: skip
_VARIANTS = ("off", "on", "asi")
# Larger ones than this one need a machine of more memory than some have.
_LARGEST = 64 * MIB
# Seconds until a machine has booted, which a step that runs no command is expected to take.
_BOOT_S = 40
# A step that hangs is killed, much later than it should end: an emulated machine is slow.
_PATIENCE_S = 600
_PATIENCE = 10
# A panic and a hang end in a restart; all consoles get the program's messages and little else, and
# the log keeps everything.
_ARGS = (
    "panic=10", "softlockup_panic=1", "hung_task_panic=1", "watchdog_thresh=60",
    "loglevel=3", "printk.devkmsg=on", "log_buf_len=8M",
)  # fmt: skip
# The last is the one that keys are read from.
_CONSOLES = {"x86_64": ("console=ttyS0,115200", "console=tty0"), "arm64": ("console=tty0",)}


@dataclass(frozen=True)
class Step:
    """Something to do in a boot: it takes about so many seconds on a machine of today.

    Without a command, the messages of the kernel so far are what counts.
    """

    name: str
    seconds: int
    command: tuple[str, ...] = ()

    @property
    def limit(self) -> int:
        """Seconds after which it is killed."""
        return _PATIENCE_S + _PATIENCE * self.seconds


@dataclass(frozen=True)
class Entry:
    """A way to boot, with the arguments of the kernel that make it so."""

    name: str
    args: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    title: str = ""

    @property
    def tries(self) -> int:
        """How often it may be started: each step may take the machine down."""
        return len(self.steps) + 1 if self.name.partition("-")[0] != KUNIT else 1


@dataclass(frozen=True)
class Plan:
    """All boots in their order, and the workloads that are measured in each variant."""

    target: Target
    entries: tuple[Entry, ...]
    specs: tuple[Spec, ...]
    linger_s: int = LINGER_S

    @property
    def minutes(self) -> int:
        """Minutes for everything on a machine of today."""
        return 1 + sum(step.seconds for entry in self.entries for step in entry.steps) // 60

    def lines(self) -> Iterator[str]:
        """The steps as the program tour reads them."""
        for entry in self.entries:
            for step in entry.steps:
                words = (entry.name, step.name, str(step.seconds), str(step.limit), *step.command)
                yield "\t".join(words)

    def args(self, entry: Entry, partition: str) -> list[str]:
        """The command line of the kernel for an entry."""
        return [
            *_CONSOLES[self.target.arch], *_ARGS, *entry.args,
            f"redoubt.entry={entry.name}", f"redoubt.partition={partition}",
            f"redoubt.linger={self.linger_s}",
        ]  # fmt: skip


def make(target: Target, *, stress_s: int = STRESS_S, quick: bool = False) -> Plan:
    """Make the plan for a target; `quick` measures less, which shows that it works and no cost."""
    variants = [get_variant(target, one.name) for one in target.variants if one.name in _VARIANTS]
    specs = tuple(_specs(target, quick))
    tested = [one for one in variants if one.name in ("off", "on")]
    entries = [
        *(_kunit(target, one) for one in tested),
        *(_attacked(one) for one in tested),
        *(_measured(one, specs, stress_s) for one in variants),
    ]
    last = Entry(FINISH, get_variant(target, "off").boot_args, title="write the results")
    return Plan(target, (*entries, last), specs)


def _specs(target: Target, quick: bool) -> Iterator[Spec]:
    names = workloads.chosen([], target.name)
    for one in names:
        # The only machine that makes much of two variants of a kernel.
        for spec in one.specs(TIME, "on", quick=quick):
            if one.unit or spec.size <= _LARGEST:
                yield spec


def _kunit(target: Target, variant: Variant) -> Entry:
    args = (
        *variant.boot_args, "kunit.enable=1", "kunit.autorun=1",
        f"kunit.filter_glob={target.kunit}",
        # Else the last message about it may come into the head of a suite's report.
        "initramfs_async=0",
    )  # fmt: skip
    return Entry(
        f"{KUNIT}-{variant.name}", args, (Step(KUNIT, _BOOT_S),), f"KUnit, {_words(variant)}"
    )


def _attacked(variant: Variant) -> Entry:
    """A boot of their own: attacks that succeed leave damage, by which a machine may die later."""
    steps = (
        Step(LOG, _BOOT_S),
        Step(LIST, 1, (guest.ATTACK, "--list")),
        Step(ATTACKS, 30, (guest.ATTACK, "--all")),
    )
    args = (*variant.boot_args, *_NO_KUNIT, *kernels.VULN)
    return Entry(f"attack-{variant.name}", args, steps, f"attacks, {_words(variant)}")


def _measured(variant: Variant, specs: Sequence[Spec], stress_s: int) -> Entry:
    look = [Step(CHECKS[0], 2, ("/bin/cat", check.FILE))] if variant.protected else []
    if asi.ARGS[0] in variant.boot_args:
        look = [Step(AUDITS[0], 2, ("/bin/cat", asi.AUDIT, asi.SWITCHES))]
    again = [replace(one, name=f"{one.name} again") for one in look]
    measure = guest.sequence([*_SMALL_PAGES, ["/bin/bench", *map(str, specs)], *_USUAL_PAGES])
    steps = [
        # The first, as little else says why a kernel does not protect.
        Step(HARDWARE, 1, ("/bin/hardware",)),
        Step(LOG, _BOOT_S),
        *look,
        Step(PRICES, 2, ("/bin/prices",)),
        Step(BENCH, 2 * len(specs), tuple(measure)),
        Step(STRESS, stress_s, ("/bin/stress", str(stress_s))),
        *again,
    ]
    args = (*variant.boot_args, *_NO_KUNIT)
    return Entry(variant.name, args, tuple(steps), _words(variant))


def variant_of(entry: str) -> str:
    """The name of the variant that an entry boots."""
    return entry.rpartition("-")[2]


def _words(variant: Variant) -> str:
    return {
        "off": "protection off", "on": "protection on", "asi": "address space isolation"
    }[variant.name]  # fmt: skip
