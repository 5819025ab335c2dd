# SPDX-License-Identifier: GPL-2.0-only
"""The built kernel, booted on this machine: statuses, panic, hang and death are told apart.

Nothing here needs protection keys, so everything is native, and quick.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import REAL_BUILD, Sandbox

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import boot, guest, host
from redoubt.machine.boot import Machine
from redoubt.targets import get_target

IMAGE = REAL_BUILD / "um/redoubt/linux.stripped"
PROGRAMS = REAL_BUILD / "guest"
TIMEOUT = 120.0

pytestmark = [
    pytest.mark.guest,
    pytest.mark.usefixtures("marked"),
    pytest.mark.skipif(not IMAGE.exists(), reason=f"no {IMAGE}: redoubt build um"),
    pytest.mark.skipif(not (PROGRAMS / "init").exists(), reason="no guest programs"),
]

# The command line with what this file boots, in place of building it.
CLI = f"""
from pathlib import Path
from redoubt.cli import main
from redoubt.machine import kernels
from redoubt.linux.build import Build
from redoubt.targets import get_target
built = Build(get_target("um"), Path("/"), Path({str(IMAGE)!r}), Path("/"))
kernels.workbench = lambda *_, **__: kernels.Workbench(built, Path({str(PROGRAMS)!r}), "native")
main.main()
"""


def machine(*args: str, image: Path = IMAGE, programs: Path = PROGRAMS) -> Machine:
    built = Build(get_target("um"), image.parent, image, image)
    return Machine(built, programs, host.NATIVE, ("kunit.enable=0", *args))


def run(
    command: Sequence[str], made: Machine | None = None, timeout: float = TIMEOUT
) -> boot.Result:
    return boot.boot(made or machine(), command, timeout=timeout, name="test", progress=Silent())


def test_a_command_and_its_output() -> None:
    result = run(["/bin/cat", "/proc/version"])
    assert (result.outcome, result.status, result.splats) == ("finished", 0, ())
    assert any(line.startswith("Linux version 7.3.") for line in result.console)
    assert result.log.read_text().splitlines() == list(result.console)


@pytest.mark.parametrize(
    ("command", "status"),
    [(["/bin/cat", "/nowhere"], 1), (["/bin/no-such-program"], 127), (["/proc/version"], 126)],
)
def test_the_status_of_a_command(command: list[str], status: int) -> None:
    result = run(command)
    assert (result.outcome, result.status) == ("finished", status)


def test_an_empty_argument_and_one_with_spaces() -> None:
    result = run(["/bin/cat", "a b", ""])
    assert any("a b" in line for line in result.console)
    assert result.status == 1


def test_an_argument_with_a_newline_is_refused() -> None:
    with pytest.raises(RedoubtError, match="must not contain a newline"):
        run(["/bin/cat", "one\ntwo"])


@pytest.mark.parametrize(
    ("arg", "says"), [("init=/nonexistent", "init"), ("rootfstype=nonesuch", "init")]
)
def test_a_panic(sandbox: Sandbox, arg: str, says: str) -> None:
    result = run(["/bin/cat", "/proc/version"], machine(arg))
    assert result.outcome == "panic"
    assert says in result.detail
    assert "the guest's kernel panicked: " in result.describe()
    assert str(result.log) in result.describe()
    assert sandbox.living() == []


def test_a_hang(sandbox: Sandbox) -> None:
    """A command that never ends: time runs out, and nothing of the machine is left."""
    started = time.monotonic()
    seen: list[int] = []
    looking = threading.Timer(6, lambda: seen.extend(family(sandbox)))
    looking.start()
    result = run(["/bin/stress", "600", "2"], timeout=8)
    looking.join()
    assert result.outcome == "hang"
    assert len(seen) >= 3
    assert remaining(seen) == []
    assert "no end after 8 s" in result.describe()
    assert time.monotonic() - started < 30
    assert sandbox.living() == []
    assert list((sandbox.where / "tmp").iterdir()) == []


def test_a_death(sandbox: Sandbox) -> None:
    """Somebody kills the machine: that is neither an end nor a hang."""

    def kill() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            # When it has a family, it has booted.
            seen.extend(family(sandbox))
            if len(seen) >= 3:
                os.kill(kernels(sandbox)[0], signal.SIGKILL)
                return
            seen.clear()
            time.sleep(0.1)

    seen: list[int] = []
    killer = threading.Thread(target=kill)
    killer.start()
    result = run(["/bin/stress", "600", "1"])
    killer.join()
    assert result.outcome == "died"
    assert remaining(seen) == []
    assert sandbox.living() == []


def test_a_kernel_that_is_none(tmp_path: Path) -> None:
    image = tmp_path / "linux"
    with pytest.raises(RedoubtError, match="not found"):
        run(["/bin/cat"], machine(image=image))
    image.write_text("#!/bin/sh\nexit 1\n")
    image.chmod(0o755)
    assert run(["/bin/cat"], machine(image=image)).outcome == "died"


@pytest.mark.parametrize(
    ("command", "code"), [(["/bin/cat", "/proc/version"], 0), (["/bin/no-such"], 127)]
)
def test_run_passes_the_status_on(sandbox: Sandbox, command: list[str], code: int) -> None:
    done = sandbox.run("run", "um", "--", *command, code=CLI)
    assert done.code == code, done.err
    assert "Linux version 7.3." in done.out
    assert "Traceback" not in done.err


def test_run_reports_a_panic(sandbox: Sandbox) -> None:
    done = sandbox.run("run", "um", "--append", "init=/nonexistent", "--", "/bin/cat", code=CLI)
    assert done.code == 1
    assert "the guest's kernel panicked" in done.err
    assert str(sandbox.build / "log/boot-run-um.log") in done.err


def test_a_folder_of_this_machine_is_in_the_guest(sandbox: Sandbox) -> None:
    folder = sandbox.where / "a folder, shared"
    folder.mkdir()
    (folder / "file").write_text("from outside\n")
    (folder / "empty").touch()
    command = ["/bin/then", "/bin/cat", "/share/file", "++", "/bin/put", "/share/empty", "inside"]
    done = sandbox.run(
        "run", "um", "--host", "native", "--share", str(folder), "--", *command, code=CLI
    )
    assert done.code == 0, done.err
    assert "from outside" in done.out.splitlines()
    assert (folder / "empty").read_text() == "inside"


def test_a_given_image_boots_with_what_was_asked_for(sandbox: Sandbox) -> None:
    code = (
        "from redoubt.cli import main\nfrom redoubt.machine import guest\n"
        f"guest.programs = lambda *_: guest.Path({str(PROGRAMS)!r})\nmain.main()\n"
    )
    done = sandbox.run(
        "run", "um", "--kernel", str(IMAGE), "--host", "native", "--memory", "96",
        "--append", "asked=for", "--", "/bin/cat", "/proc/cmdline", code=code,
    )  # fmt: skip
    assert done.code == 0, done.err
    (line,) = (line for line in done.out.splitlines() if line.startswith("panic=-1"))
    assert "asked=for" in line.split()
    assert re.search(r"^Memory: \d+K/98304K available", done.out, re.MULTILINE)


def test_run_refuses_a_newline(sandbox: Sandbox) -> None:
    done = sandbox.run("run", "um", "--", "/bin/cat", "a\nb", code=CLI)
    assert (done.code, done.out) == (2, "")
    assert done.err == "redoubt: an argument for the guest must not contain a newline\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_interrupting_a_guest(sandbox: Sandbox, number: signal.Signals) -> None:
    running = sandbox.start("run", "um", "--", "/bin/stress", "600", "2", code=CLI)
    assert running.stdout
    while "@redoubt" not in (said := running.stdout.readline()) and "Run /init" not in said:
        assert said, running.communicate()
    time.sleep(1)
    seen = family(sandbox)
    assert len(seen) >= 3
    running.send_signal(number)
    done = sandbox.finish(running)
    assert remaining(seen) == []
    assert done.code == 130
    assert done.err.splitlines()[-1].startswith("redoubt: interrupted")
    assert sandbox.living() == []
    assert list((sandbox.where / "tmp").iterdir()) == []


def test_a_root_directory_is_complete(tmp_path: Path) -> None:
    root = guest.root_directory(PROGRAMS, tmp_path / "root", ["/bin/x", "y z"])
    assert (root / "etc/redoubt/cmd").read_text() == "/bin/x\ny z\n"
    assert os.access(root / "init", os.X_OK)
    assert subprocess.run([root / "bin/cat", __file__], capture_output=True).returncode == 0
    # As much again as all else, in machines of 64 MiB.
    assert not (root / "bin/attacks").exists()
    for name, command in (("attacked", ["/bin/attack", "--all"]), ("shell", [])):
        assert list(
            (guest.root_directory(PROGRAMS, tmp_path / name, command) / "bin/attacks").iterdir()
        )


def kernels(sandbox: Sandbox) -> list[int]:
    """The processes of UML kernels that runs have started."""
    return sorted(pid for pid, words in sandbox.processes().items() if str(IMAGE) in words)


def family(sandbox: Sandbox) -> list[int]:
    """All processes in the sessions of these kernels.

    The processes of a guest have given away the memory that their environment was in.
    """
    sessions = {os.getsid(pid) for pid in kernels(sandbox)}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) in sessions:
                found.append(int(entry.name))
    return found


def remaining(pids: list[int]) -> list[int]:
    """Those that still exist when the dead have had a moment to be buried."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return []
        time.sleep(0.05)
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
