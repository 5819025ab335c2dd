# SPDX-License-Identifier: GPL-2.0-only
"""A place of its own for the tool: fake programs, a small kernel tree, and the way to start it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from redoubt.cli import main
from redoubt.core import paths

# Where the kernel is that `redoubt build` has made; the tests build in places of their own.
REAL_BUILD = paths.build_dir()

KERNEL = {
    "Makefile": "# SPDX\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n",
    "Kbuild": "# Kbuild\n",
    "mm/memory.c": "".join(f"int line{number};\n" for number in range(20)),
    "mm/mmap.c": "int map;\n",
    # Merges as little as the fake make configures.
    "scripts/kconfig/merge_config.sh": '#!/bin/sh\nout=$4\nshift 5\ncat "$@" >> "$out/.config"\n',
}

# Configures and builds as make does in a kernel, as far as the tool can see.
MAKE = """\
for word; do case $word in O=*) out=${word#O=} ;; esac; done
case "$*" in
*tinyconfig*) : > "$out/.config" ;;
*olddefconfig*) ;;
*)
	echo "  CC      mm/memory.o"
	if [ -e "$CONTROL/slow" ]; then
		touch "$CONTROL/started"
		sleep 300 &
		sleep 300
	fi
	if [ -e "$CONTROL/full" ]; then
		echo "fatal error: error writing to /tmp/cc.s: No space left on device"
		seq 100
		exit 2
	fi
	[ ! -e "$CONTROL/noisy" ] || yes "a line of output" | head -n 200000
	[ ! -e "$CONTROL/broken" ] || { echo "mm/memory.c:1: error: no"; exit 2; }
	echo image > "$out/linux"
	;;
esac
"""

# What the checker says when all is well.
WALK = ["tables 100", "untagged 0", "aliases 0", "foreign 0"]
# Of a pool, after boot.
EVENTS = {
    "blocks_added": 1, "blocks_returned": 0, "small_added": 0, "small_returned": 0, "splits": 0,
    "failed_allocs": 0, "failed_tags": 0, "failed_untags": 0, "bad_takes": 0,
    "bad_frees": 0, "refused": 0,
}  # fmt: skip


def pool(*, free: int = 390, tables: int = 100, blocks: int = 1, small: int = 0,
         **values: int) -> list[str]:  # fmt: skip
    """A pool at rest as a guest shows it; all is well unless something is replaced."""
    shown = {
        "cached": 16,
        "reserve": 2,
        "spare": 2,
        "own": 7,
        "other": 0,
        "stuck": 0,
        **EVENTS,
        **values,
    }
    return [
        f"PageTables:        {4 * tables} kB",
        f"node 0 blocks {blocks} empty 0 small_pages {small} free {free} clean {free}",
        *(f"{name} {value}" for name, value in shown.items()),
        "@settle: rounds=4",
    ]


def write_tree(where: Path, files: dict[str, str]) -> Path:
    """Files by their names below a directory."""
    for name, text in files.items():
        file = where / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)
    return where


# They build, start programs, or make repositories: redoubt test --quick has no time for that.
SLOW = {
    "test_applied", "test_applying", "test_branch", "test_build", "test_cli", "test_deb",
    "test_documents", "test_emulator", "test_freshness", "test_full_disk", "test_htmldocs",
    "test_installed", "test_interrupt", "test_journeys", "test_manual", "test_own",
    "test_prerequisites", "test_process", "test_series", "test_source", "test_status",
    "test_tools", "test_tree", "test_wheel",
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of those files."""
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker(pytest.mark.slow)


@dataclass(frozen=True)
class Done:
    """How the tool ended, and what it said."""

    code: int
    out: str
    err: str


@dataclass
class Sandbox:
    """The tool as a program, with directories, PATH and environment of its own."""

    where: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    env: dict[str, str] = field(default_factory=dict)
    # Python that runs before the tool, to replace something of it.
    prelude: str = ""

    def __post_init__(self) -> None:
        for name in ("bin", "control", "tmp", "home"):
            (self.where / name).mkdir()
        self.env = {
            **os.environ,
            "PATH": f"{self.where / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.where / "home"),
            "XDG_CACHE_HOME": str(self.where / "cache"),
            "REDOUBT_BUILD": str(self.build),
            "CONTROL": str(self.control),
            "TMPDIR": str(self.where / "tmp"),
            # Every process that comes of a run carries this.
            "REDOUBT_TEST": self.mark,
        }
        for name in ("LINUX_SRC", "LINUX_VERSION", "MAKEFLAGS", "MFLAGS"):
            self.env.pop(name, None)

    @property
    def build(self) -> Path:
        return self.where / "build"

    @property
    def control(self) -> Path:
        """Files in here tell the fake programs what to do, and are their answers."""
        return self.where / "control"

    def program(self, name: str, text: str) -> Path:
        """A fake program, first on the PATH."""
        file = self.where / "bin" / name
        file.write_text("#!/bin/sh\n" + text)
        file.chmod(0o755)
        return file

    def toolchain(self) -> None:
        """Programs that build KERNEL, which is then LINUX_SRC."""
        self.program("make", MAKE)
        self.program("strip", 'cp "$3" "$2"\n')
        self.env["LINUX_SRC"] = str(write_tree(self.where / "linux", KERNEL))

    def start(
        self, *words: str, code: str | None = None, setup: Callable[[], object] | None = None
    ) -> subprocess.Popen[str]:
        """Start the tool, with signals as a shell in the foreground has them.

        `code` is Python to run instead of the module; `setup` runs in the process before it.
        """

        def prepare() -> None:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            if setup:
                setup()

        if not code and self.prelude:
            code = f"{self.prelude}\nfrom redoubt.cli import main\nmain.main()"
        how = ["-c", code] if code else ["-m", "redoubt"]
        return subprocess.Popen(
            [sys.executable, *how, *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=prepare,
        )

    def finish(self, process: subprocess.Popen[str], timeout: float = 30) -> Done:
        out, err = process.communicate(timeout=timeout)
        return Done(process.returncode, out, err)

    def run(
        self, *words: str, code: str | None = None, setup: Callable[[], object] | None = None
    ) -> Done:
        return self.finish(self.start(*words, code=code, setup=setup))

    def wait_for(self, file: str, process: subprocess.Popen[str]) -> None:
        """Wait until a fake program says that it has come so far."""
        end = time.monotonic() + 20
        while not (self.control / file).exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, f"{file} did not come"
            time.sleep(0.02)

    def processes(self) -> dict[int, str]:
        """The processes that came of runs in here and still exist, with their command lines."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"REDOUBT_TEST={self.mark}".encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        return found

    def living(self) -> list[str]:
        return list(self.processes().values())

    def close(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path)
    yield made
    made.close()


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    """Let the processes of a boot be found, and its log be its own."""
    monkeypatch.setenv("REDOUBT_TEST", sandbox.mark)
    monkeypatch.setenv("REDOUBT_BUILD", str(sandbox.build))
    monkeypatch.setattr(tempfile, "tempdir", str(sandbox.where / "tmp"))


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A tree that looks like the pinned kernel's."""
    return write_tree(tmp_path / "linux", KERNEL)


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Callable[..., Done]]:
    """The command line in this process, to be used with fakes; builds in a directory of its own."""
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    kept = {number: signal.getsignal(number) for number in main._ENDING}

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["redoubt", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Done(code if isinstance(code, int) else int(bool(code)), captured.out, captured.err)

    yield run
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "redoubt-test", str(where)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def enlarge(disk: Path) -> None:
    """Make room on a small disk."""
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
