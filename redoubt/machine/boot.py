# SPDX-License-Identifier: GPL-2.0-only
"""Booting a kernel, running a command in it and understanding how that ended."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import GuestError, RedoubtError
from redoubt.core.process import run_lines
from redoubt.core.progress import Progress
from redoubt.linux.build import Build
from redoubt.machine import cpio, debugger, guest, host, qemu, share

_EXIT = re.compile(r"^@redoubt: exit=(\d+)$")
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
# The first line of what a kernel prints when it is unhappy with itself.
_SPLAT = re.compile(
    r"^(?:\[[^]]*\] ?)*(?:"
    r"WARNING: |BUG: |kernel BUG at |INFO: (?:possible|task|rcu|suspicious)|"
    r"Kernel panic|Oops|Unable to handle|general protection|Bad page state|"
    r"rcu: INFO|=+\[ BUG|Kernel mode fault|Modules linked in|------------\[ cut here|UBSAN: |"
    r"unchecked MSR access error|Call Trace:"
    r")"
)
_BREAKPOINT = re.compile(r"Oops: int3: ")
# The byte before the one in brackets, which comes next, is the one that was executed.
_EXECUTED = re.compile(r"^(?:\[[^]]*\] ?)*Code: .*?([0-9a-f]{2}) <[0-9a-f]{2}>")
_INT3 = "cc"
# Kept apart from the splats, as attacks and tests provoke them.
_VIOLATION = re.compile(r"^(?:\[[^]]*\] ?)*kpkeys: violation: ")
MEMORY_MB = 256
_HOST_EXTRA_MB = 1024
_STARTS = 3
# Seconds until an emulated machine says its first word; 5 to 10 are usual.
_START_S = 120.0


def is_complaint(line: str) -> bool:
    """Is a line of the console what a kernel nobody attacks must not say?"""
    return bool(_SPLAT.match(line) or _VIOLATION.match(line))


def stale_breakpoint(lines: Sequence[str]) -> bool:
    """Did an emulated CPU stop at a breakpoint that is not in memory?

    Linux changes its code under a breakpoint. QEMU 7.2 can miss the end of that if another of its
    CPUs meets the place for the first time just then: it keeps the breakpoint for good. That the
    kernel finds other code there shows that it was the emulator, and no breakpoint of anybody's.
    """
    oops = False
    for line in lines:
        if match := _EXECUTED.match(line):
            if oops and match[1] != _INT3:
                return True
            oops = False
        oops = oops or bool(_BREAKPOINT.search(line))
    return False


@dataclass(frozen=True)
class Result:
    """How a boot ended.

    `outcome` is "finished" (the command ran; `status` is its exit status), "panic", "hang" (time
    ran out) or "died" (the kernel went away without a word). `console` is the guest's output,
    `splats` the complaints of its kernel in it, `violations` the writes its protection refused.
    """

    outcome: str
    status: int | None
    console: tuple[str, ...]
    splats: tuple[str, ...]
    log: Path
    detail: str = ""
    violations: tuple[str, ...] = ()

    @property
    def complaints(self) -> tuple[str, ...]:
        """Everything that a kernel nobody attacks must not say."""
        return self.violations + self.splats

    def describe(self) -> str:
        """What happened, with the lines of the guest that tell why and where the whole log is."""
        what = {
            "finished": f"the command in the guest ended with status {self.status}",
            "panic": f"the guest's kernel panicked: {self.detail}",
            "hang": f"the guest hung: {self.detail}",
            "died": "the guest died without a word",
        }[self.outcome]
        if self.outcome == "finished" and self.complaints:
            what += f", and its kernel complained: {self.complaints[0]}"
        lines = "\n".join(f"    {line}" for line in self._telling())
        return f"{what}\n{lines}\n    (whole console: {self.log})"

    def _telling(self) -> list[str]:
        """The last lines, and before them those about the first complaint.

        Another boot may have the log before anybody reads it.
        """
        last = max(len(self.console) - 15, 0)
        complained = (at for at, line in enumerate(self.console) if line in self.complaints[:1])
        first = next(complained, None)
        if first is None:
            return list(self.console[last:])
        start, end = max(first - 5, 0), first + 15
        if end >= last:
            return list(self.console[min(start, last) :])
        return [*self.console[start:end], "[…]", *self.console[last:]]


@dataclass(frozen=True)
class Machine:
    """What to boot: a kernel with arguments, on which host, with how many CPUs.

    `cpu` is another model of an emulated CPU than the target's. `pinned` is the CPU of this machine
    that everything runs on; with `count_instructions` the clock of an emulated machine shows 1 ns
    for each of its instructions. `devices` are further options of the emulator, and `files` what
    the guest has in addition: from its path there to the file here. `share` is a folder of this
    machine that it has as well. With `debugger`, a socket, the machine waits there for gdb; one
    that is a process of this machine is started by gdb.
    """

    build: Build
    programs: Path
    host: str
    args: tuple[str, ...] = ()
    cpus: int = 1
    memory_mb: int = MEMORY_MB
    cpu: str | None = None
    pinned: int | None = None
    count_instructions: bool = False
    devices: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    share: Path | None = None
    debugger: Path | None = None

    @property
    def emulated(self) -> bool:
        """Is there an emulator that may fail to start?"""
        return self.host == host.EMULATED

    @property
    def ready(self) -> str | None:
        """What the line has in it before which the console is not the guest's, if there is one."""
        return host.READY if self.emulated and not self.build.target.emulator else None


@dataclass
class _Console:
    """Collects the guest's lines; what a host prints before it is `ready` is dropped."""

    ready: str | None
    watch: Callable[[str], None]
    started: bool = False
    lines: list[str] = field(default_factory=list)

    def restart(self) -> None:
        """Forget what another start has said."""
        self.started = False
        self.lines.clear()

    def feed(self, line: str) -> None:
        if self.ready and not self.started:
            self.started = self.ready in line
            return
        self.started = True
        self.lines.append(line)
        self.watch(line)


def kernel_args(machine: Machine, root: str) -> list[str]:
    """The command line of the kernel; `root` is the directory that UML finds its files in."""
    args = ["panic=-1", *machine.build.target.boot_args]
    if machine.debugger and machine.build.target.emulator:
        args += debugger.KERNEL_ARGS
    if machine.emulated:
        # Its time passes by the load of this machine: a grace period may seem to take minutes.
        args.append("rcupdate.rcu_cpu_stall_timeout=300")
    if not machine.build.target.emulator:
        args += [
            "root=/dev/root", "rootfstype=hostfs", f"rootflags={root}", "rw", "init=/init",
            f"mem={machine.memory_mb}M", "con0=fd:0,fd:1", "con=null", "ssl=null", "noreboot",
        ]  # fmt: skip
        if machine.cpus > 1:
            args += ["seccomp=on", f"ncpus={machine.cpus}"]
    return [*args, *machine.args]


def command(machine: Machine, run: Path) -> list[str]:
    """The command that starts a machine whose files are in the directory `run`.

    Nothing is made or obtained for it, so it may be shown and never started.
    """
    pinning = [] if machine.pinned is None else ["taskset", "-c", str(machine.pinned)]
    return [*pinning, *_start(machine, run)]


def _archive(run: Path) -> Path:
    return run / "initramfs"


def _root(run: Path) -> Path:
    return run / "root"


def _start(machine: Machine, run: Path) -> list[str]:
    image = machine.build.image
    if machine.build.target.emulator:
        devices = [
            *machine.devices,
            *(share.devices(machine.share) if machine.share else ()),
            *(debugger.waiting(machine.debugger) if machine.debugger else ()),
        ]
        return qemu.command(
            machine.build.target.emulator, image, _archive(run), kernel_args(machine, ""),
            cpus=machine.cpus, memory_mb=machine.memory_mb, cpu=machine.cpu,
            counting=machine.count_instructions, devices=devices,
        )  # fmt: skip
    if machine.host == host.NATIVE:
        symbols = machine.build.vmlinux
        program = symbols if machine.debugger and symbols.exists() else image
        words = [str(program), f"uml_dir={run}/", *kernel_args(machine, str(_root(run)))]
        return debugger.starting(words) if machine.debugger else words
    return host.command(
        _archive(run), cpus=machine.cpus, memory_mb=machine.memory_mb + _HOST_EXTRA_MB,
        counting=machine.count_instructions, devices=machine.devices,
    )  # fmt: skip


def _made_ready(machine: Machine, run: Path, progress: Progress) -> list[str]:
    """The command, with all that it needs: the emulator, and the root directory as an archive."""
    if emulator := host.emulator(machine.build.target, machine.host):
        qemu.obtain(emulator, progress)
    if machine.build.target.emulator:
        cpio.write(cpio.tree(_root(run)), _archive(run))
    elif machine.host == host.EMULATED:
        host.obtain_kernel(progress)
        host.pack(
            kernel_args(machine, host.ROOT), machine.build.image, machine.programs / "host-init",
            _root(run), _archive(run),
        )  # fmt: skip
    return command(machine, run)


def _judge(lines: list[str], timed_out: bool, timeout: float, log: Path) -> Result:
    status = panic = None
    for line in lines:
        if match := _EXIT.match(line):
            status = int(match[1])
        elif match := _PANIC.search(line):
            panic = panic or match[1]
    if panic is not None:
        outcome, status, detail = "panic", None, panic
    elif status is not None:
        outcome, detail = "finished", ""
    elif timed_out:
        outcome, detail = "hang", f"no end after {timeout:g} s"
    else:
        outcome, detail = "died", ""
    splats = tuple(line for line in lines if _SPLAT.match(line))
    violations = tuple(line for line in lines if _VIOLATION.match(line))
    return Result(outcome, status, tuple(lines), splats, log, detail, violations)


def boot(
    machine: Machine,
    command: Sequence[str],
    *,
    timeout: float,
    name: str,
    progress: Progress,
    watch: Callable[[str], None] = lambda line: None,
) -> Result:
    """Boot, run a command in the guest, power off.

    `timeout` is in seconds; on an emulated host time passes slowly. The console is kept in
    <build>/log/boot-<name>.log, and each line given to `watch` as it comes.
    """
    with tempfile.TemporaryDirectory(prefix="redoubt-") as directory:
        run = Path(directory)
        _make_root(machine, run, command)
        words = _made_ready(machine, run, progress)
        return attend(machine, words, timeout=timeout, name=name, progress=progress, watch=watch)


def attend(
    machine: Machine,
    words: Sequence[str],
    *,
    timeout: float,
    name: str,
    progress: Progress,
    watch: Callable[[str], None] = lambda line: None,
) -> Result:
    """Start a machine with this command and wait for its end; all else as for `boot`.

    The guest tells how it ended by a line "@redoubt: exit=STATUS".
    """
    log = paths.build_dir() / "log" / f"boot-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    console = _Console(machine.ready, watch)
    # Line by line: a boot takes up to hours, and is looked at while it does.
    with log.open("w", buffering=1) as out:

        def keep(line: str) -> None:
            out.write(line + "\n")
            console.feed(line)

        # The emulator fails in one of hundreds of starts: the machine resets or spins before its
        # kernel says a word, or has a stale breakpoint. No start leaves anything to the next one.
        silence = _START_S if machine.emulated else None
        for _ in range(_STARTS):
            console.restart()
            ended = run_lines(words, keep, timeout=timeout, silence=silence)
            if not machine.emulated or (console.started and not stale_breakpoint(console.lines)):
                break
            progress.detail("the emulator failed, once more")
    if machine.emulated and not console.started:
        how = f"silent for {_START_S:g} s" if ended.timed_out else f"exit {ended.code}"
        raise GuestError(
            f"the emulated machine did not start ({how}, tried {_STARTS} times)",
            f"its console is in {log}",
        )
    return _judge(console.lines, ended.timed_out, timeout, log)


@contextlib.contextmanager
def _interrupts_left_to_gdb() -> Iterator[None]:
    """Ctrl-C stops the kernel that gdb has started; it reaches us as well."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _make_root(machine: Machine, run: Path, command: Sequence[str]) -> None:
    shared = share.mount(machine.build.target, machine.share) if machine.share else ()
    guest.root_directory(
        machine.programs, _root(run), command, machine.build.modules, machine.files, shared
    )


def interactive(machine: Machine, progress: Progress, command: Sequence[str] = ()) -> int:
    """Boot with the guest's console on this terminal; returns the exit code of the machine.

    The guest runs a shell, or the command. It has as much time as it wants.
    """
    with tempfile.TemporaryDirectory(prefix="redoubt-") as directory:
        run = Path(directory)
        _make_root(machine, run, command)
        words = _made_ready(machine, run, progress)
        try:
            process = subprocess.Popen(words)
        except OSError as error:
            raise RedoubtError(f"{words[0]}: {error.strerror}") from error
        # On the guest's terminal, Ctrl-C is a character for the guest; this is for other times.
        try:
            with _interrupts_left_to_gdb() if words[0] == debugger.PROGRAM else nullcontext():
                return process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(2)
                except subprocess.TimeoutExpired:
                    process.kill()
