# SPDX-License-Identifier: GPL-2.0-only
"""The verb that boots a kernel for a person: what it starts, and what it refuses beforehand."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Sandbox

from redoubt.core.progress import Silent
from redoubt.linux.build import Build
from redoubt.machine import boot, debugger, guest, host, kernels, limits, qemu, share
from redoubt.machine.boot import Machine
from redoubt.targets import ARM64, UM, X86_64, X86_64_MKTME, Target, get_variant

Call = Callable[..., Done]
NINE = "CONFIG_VIRTIO_PCI=y\nCONFIG_NET_9P=y\nCONFIG_NET_9P_VIRTIO=y\nCONFIG_9P_FS=y\n"


@pytest.fixture(autouse=True)
def machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what this machine has nor what is installed here matters."""
    monkeypatch.setattr(host, "has_pku", lambda: False)
    monkeypatch.setattr(qemu, "found", lambda emulator: True)
    monkeypatch.setattr(qemu, "problem", lambda emulator: None)
    monkeypatch.setattr(limits, "memory_mib", lambda: 8192)
    monkeypatch.setattr(debugger.shutil, "which", lambda name: f"/usr/bin/{name}")


def image(target: Target, where: Path, config: str | None = None) -> Path:
    """An image where the build of a kernel leaves it, with a configuration beside it."""
    file = where / "o" / target.image
    file.parent.mkdir(parents=True)
    offset, magic = target.magic
    file.write_bytes(bytes(offset) + magic)
    file.chmod(0o755)
    if config is not None:
        (where / "o/.config").write_text(config)
    return file


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def dry(call: Call, *words: str) -> list[str]:
    """The words of the command that would be run."""
    done = call("run", "--dry-run", *words)
    assert (done.code, done.err) == (0, "")
    (line,) = done.out.splitlines()
    return shlex.split(line)


def test_a_dry_run_makes_nothing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((kernels, "workbench"), (guest, "programs"), (qemu, "obtain")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("work"))
    words = dry(call, "x86_64", "--", "/bin/x")
    assert words[0] == "qemu-system-x86_64"
    assert value(words, "-kernel") == str(tmp_path / "build/x86_64/redoubt" / X86_64.image)
    assert value(words, "-m") == "256M"
    assert value(words, "-smp") == "1"
    assert dry(call, "arm64")[0] == str(tmp_path / "build/emulator/out/qemu-system-aarch64")
    # Two targets boot one kernel.
    assert value(dry(call, "x86_64-mktme"), "-kernel") == value(words, "-kernel")
    assert value(dry(call, "x86_64", "--variant", "pristine"), "-kernel") == str(
        tmp_path / "build/x86_64/pristine" / X86_64.image
    )
    assert dry(call, "um", "--host", "native")[0] == str(
        tmp_path / "build/um/redoubt/linux.stripped"
    )
    assert value(dry(call, "um"), "-kernel") == str(host.kernel_file())
    assert list(tmp_path.iterdir()) == []


def test_the_command_of_a_dry_run_is_that_of_a_boot(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = image(X86_64, tmp_path, "CONFIG_NR_CPUS=2\n" + NINE)
    asked = ("--kernel", str(file), "--cpus", "2", "--share", str(tmp_path), "--qemu-opts", "-d x")
    planned = dry(call, "x86_64", *asked)
    booted: list[Machine] = []
    monkeypatch.setattr(guest, "programs", lambda *_: tmp_path)
    monkeypatch.setattr(boot, "interactive", lambda made, _: booted.append(made) or 7)
    monkeypatch.setattr(kernels, "workbench", lambda *_, **__: pytest.fail("a build"))
    assert call("run", "x86_64", *asked).code == 7
    (machine,) = booted
    assert boot.command(machine, Path(value(planned, "-initrd")).parent) == planned


def test_what_was_asked_for_is_in_the_command(call: Call, tmp_path: Path) -> None:
    file = image(X86_64, tmp_path, "CONFIG_NR_CPUS=64\n" + NINE)
    folder = tmp_path / "a, b"
    folder.mkdir()
    words = dry(
        call, "x86_64", "--kernel", str(file), "--cpus", "12", "--memory", "3000",
        "--append", "one", "--append", "two=2", "--qemu-opts", "-device 'x,y= z' -d int",
        "--share", str(folder),
    )  # fmt: skip
    assert value(words, "-kernel") == str(file)
    assert value(words, "-smp") == "12"
    assert value(words, "-m") == "3000M"
    assert value(words, "-append").endswith(" one two=2")
    assert value(words, "-device") == "x,y= z"
    assert value(words, "-d") == "int"
    shared = value(words, "-virtfs")
    assert f"path={tmp_path}/a,, b,mount_tag=share," in shared
    assert "-gdb" not in words and "-S" not in words


def test_qemu_has_its_options_where_um_runs_on_it(call: Call) -> None:
    assert value(dry(call, "um", "--qemu-opts", "-d int"), "-d") == "int"


def test_a_kernel_that_has_9p_shares_a_folder(call: Call, tmp_path: Path) -> None:
    words = dry(call, "x86_64", "--share", str(tmp_path))
    assert "/x86_64/redoubt-share/" in value(words, "-kernel")
    assert f"path={tmp_path},mount_tag=share," in value(words, "-virtfs")
    words = dry(call, "x86_64", "--share", str(tmp_path), "--gdb")
    assert "/x86_64/redoubt-gdb/" in value(words, "-kernel")
    assert "-virtfs" in words


def test_a_machine_that_waits_for_gdb(call: Call) -> None:
    words = dry(call, "x86_64", "--gdb")
    assert "-S" in words
    assert value(words, "-gdb").startswith("unix:/")
    # Symbols are where the file says, and tell of lines and variables.
    assert "nokaslr" in value(words, "-append").split()
    assert "/x86_64/redoubt-gdb/" in value(words, "-kernel")
    assert "/x86_64/redoubt/" in value(dry(call, "x86_64"), "-kernel")
    # That of a target that boots the kernel of another has none.
    assert "/x86_64/redoubt/" in value(dry(call, "x86_64-mktme", "--gdb"), "-kernel")
    words = dry(call, "um", "--gdb", "--host", "native")
    assert words[0] == "gdb"
    assert "nostop noprint pass" in value(words, "-ex")
    assert words[words.index("--args") + 1].endswith("linux.stripped")


def test_how_to_attach_gdb_is_told_before_the_machine_starts(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = image(X86_64, tmp_path)
    sockets: list[Path] = []

    def interactive(machine: Machine, progress: object, command: list[str]) -> int:
        assert machine.debugger and machine.debugger.parent.is_dir()
        assert machine.debugger.parent.stat().st_mode & 0o077 == 0
        # A longer one cannot be bound.
        assert len(str(machine.debugger)) < 108
        assert command == ["/bin/x"]
        sockets.append(machine.debugger)
        return 0

    monkeypatch.setattr(guest, "programs", lambda *_: tmp_path)
    monkeypatch.setattr(boot, "interactive", interactive)
    done = call("run", "x86_64", "--kernel", str(file), "--gdb", "--", "/bin/x")
    assert done.code == 0
    assert f"    gdb -ex 'target remote {sockets[0]}'\n" in done.out
    assert f"gdb knows no names: there is no {tmp_path}/o/vmlinux" in done.out
    assert not sockets[0].parent.exists()
    for name in ("vmlinux", "vmlinux-gdb.py"):
        (tmp_path / "o" / name).write_text("symbols")
    done = call("run", "x86_64", "--kernel", str(file), "--gdb", "--", "/bin/x")
    (line,) = (line for line in done.out.splitlines() if line.startswith("    gdb"))
    words = shlex.split(line)
    assert words[-1] == str(tmp_path / "o/vmlinux")
    assert value(words, "-iex") == f"add-auto-load-safe-path {tmp_path}/o"
    assert "gdb knows no names" not in done.out


def test_the_gdb_of_another_architecture(tmp_path: Path) -> None:
    built = Build(ARM64, tmp_path, tmp_path / "Image", tmp_path / "vmlinux")
    assert debugger.attaching(built, Path("/s")) == "gdb-multiarch -ex 'target remote /s'"


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        ("um --memroy 3", "there is no option '--memroy'", "redoubt run --help"),
        ("um --cpus 3", "configured for 2 CPUs, not for 3", "--cpus 2, or --kernel"),
        ("arm64 --cpus 5", "configured for 4 CPUs, not for 5", "--cpus 4"),
        ("um --memory 9000", "9000 MiB are more than this machine has", "--memory 8192"),
        ("x86_64-mktme --memory 2049", "no room for 2049 MiB", "--memory 2048"),
        ("um --share /nowhere", "cannot share /nowhere: it is no directory", ""),
        ("um --share /", "does not see the folders of this one", "--host native"),
        ("x86_64-mktme --share /", "without CONFIG_VIRTIO_PCI, CONFIG_NET_9P, ", "CONFIG_9P_FS=y"),
        ("arm64 --share /", "the emulator of arm64 is built without 9p", "um and x86_64"),
        ("x86_64 --qemu-opts '-d \"x'", "cannot split --qemu-opts: No closing quot", "close"),
        ("um --host native --qemu-opts -d", "no QEMU runs here", "--host emulated"),
        ("um --gdb", "gdb does not see into the emulated machine", "--host native"),
        ("x86_64 --kernel /nowhere", "cannot read /nowhere: No such file", ""),
        ("x86_64 --kernel /", "cannot read /: Is a directory", ""),
        ("x86_64 --kernel /etc/passwd", "is no kernel that x86_64 boots", "arch/x86/boot/bzImage"),
        ("um --append 'a\nb'", "a kernel argument must not contain a newline", ""),
        ("um -- x 'a\nb'", "an argument for the guest must not contain a newline", ""),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_before_any_work(
    call: Call, tmp_path: Path, words: str, says: str, hint: str
) -> None:
    done = call("run", *shlex.split(words))
    assert (done.code, done.out) == (2, "")
    message, *rest = done.err.splitlines()
    assert message.startswith("redoubt: ") and says in message
    assert hint in "".join(rest)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["--memory 63", "--cpus 0", "--cpus 256", "--memory x"])
def test_numbers_have_sensible_ranges(call: Call, tmp_path: Path, words: str) -> None:
    done = call("run", "um", *words.split())
    assert done.code == 2
    assert words.split()[0] in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_given_kernel_is_asked_for_its_configuration(call: Call, tmp_path: Path) -> None:
    file = image(X86_64, tmp_path, "CONFIG_NR_CPUS=8\nCONFIG_NET_9P=m\n")
    done = call("run", "x86_64", "--kernel", str(file), "--cpus", "9")
    assert (done.code, done.out) == (2, "")
    assert "configured for 8 CPUs, not for 9" in done.err
    done = call("run", "x86_64", "--kernel", str(file), "--share", "/")
    assert "CONFIG_NET_9P, " in done.err
    # Where none is beside it, the kernel itself will say.
    (tmp_path / "o/.config").unlink()
    assert value(dry(call, "x86_64", "--kernel", str(file), "--cpus", "9"), "-smp") == "9"
    assert "-virtfs" in dry(call, "x86_64", "--kernel", str(file), "--share", "/")


def test_a_given_kernel_that_cannot_be_started(call: Call, tmp_path: Path) -> None:
    file = image(UM, tmp_path)
    os.chmod(file, 0o644)
    done = call("run", "um", "--host", "native", "--kernel", str(file))
    assert (done.code, done.out) == (2, "")
    assert "is not executable" in done.err and f"chmod +x {file}" in done.err
    # On an emulated machine it is started there, from an archive.
    dry(call, "um", "--host", "emulated", "--kernel", str(file))


def test_the_guest_is_told_what_to_mount(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "init").write_text("init")
    for target, words in (
        (UM, ["hostfs", "none", str(tmp_path)]),
        (X86_64, ["9p", "share", "trans=virtio,version=9p2000.L,msize=131072"]),
    ):
        made = share.mount(target, tmp_path)
        root = guest.root_directory(programs, tmp_path / target.name, ["x"], share=made)
        assert (root / "etc/redoubt/share").read_text().splitlines() == words
        assert (root / "share").is_dir()
    root = guest.root_directory(programs, tmp_path / "without", ["x"])
    assert not (root / "share").exists() and not (root / "etc/redoubt/share").exists()


def test_what_is_configured_is_what_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options that are looked at before a build are those of the fragments it merges."""
    built: list[tuple[str, ...]] = []
    monkeypatch.setattr(kernels, "our_tree", lambda _: Path("/ours"))
    monkeypatch.setattr(
        kernels.build, "compile_kernel",
        lambda target, tree, kind, fragments, _: built.append(fragments)
        or Build(target, Path(kind), Path("image"), Path("vmlinux")),
    )  # fmt: skip
    for target in (UM, X86_64, X86_64_MKTME, ARM64):
        way = get_variant(target, "on")
        kernels.prepare(target, way, Silent())
        merged: dict[str, str] = {}
        for name in built[-1]:
            merged |= kernels.build.options(kernels.build.fragment(name).read_text())
        assert kernels.configured(target, way) == merged


def test_gdb_gets_the_interrupt_and_nothing_is_left(sandbox: Sandbox) -> None:
    """Ctrl-C, which the whole terminal gets, stops the kernel in gdb and not the tool."""
    file = image(UM, sandbox.where)
    (sandbox.where / "programs").mkdir()
    (sandbox.where / "programs/init").write_text("init")
    sandbox.program(
        "gdb", 'echo "$@" > "$CONTROL/words"; sleep 1; kill -INT $PPID; sleep 0.3; exit 3\n'
    )
    code = (
        "from redoubt.cli import main\nfrom redoubt.machine import guest\n"
        f"guest.programs = lambda *_: guest.Path({str(sandbox.where / 'programs')!r})\nmain.main()"
    )
    done = sandbox.run("run", "um", "--kernel", str(file), "--host", "native", "--gdb", code=code)
    assert (done.code, done.err) == (3, "")
    assert f"--args {file} uml_dir=" in (sandbox.control / "words").read_text()
    assert list((sandbox.where / "tmp").iterdir()) == []
    assert sandbox.living() == []
