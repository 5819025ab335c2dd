# SPDX-License-Identifier: GPL-2.0-only
"""The disk image for real machines: its file system, its menu, its kernel, and its program."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import standin
from conftest import Done

from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.core.progress import Silent
from redoubt.linux import rootless
from redoubt.linux.build import Build
from redoubt.machine import kernels
from redoubt.ship.stick import esp, firmware, image, plan, uki
from redoubt.ship.stick.firmware import Form
from redoubt.suite import real
from redoubt.targets import ARM64, TARGETS, X86_64, Target

ORIGIN: dict[str, Any] = {"commit": "c" * 40, "dirty": False, "command": "redoubt image x86_64",
                          "date": "2026-11-30T00:00:00+00:00"}  # fmt: skip

needs_tools = pytest.mark.skipif(
    not all(Path(esp.program(name)).is_absolute() for name in ("mformat", "mcopy", "sfdisk")),
    reason="no mtools or fdisk: scripts/prerequisites image",
)


def efi_program(file: Path) -> Path:
    """A program for EFI that does nothing."""
    source = file.with_suffix(".c")
    source.write_text("int _start(void) { return 0; }\n")
    made = file.with_suffix(".o")
    subprocess.run(
        ["gcc", "-c", "-ffreestanding", "-fno-asynchronous-unwind-tables", "-fno-ident",
         "-o", made, source], check=True,
    )  # fmt: skip
    subprocess.run(
        ["ld", "-m", "i386pep", "--subsystem", "10", "-e", "_start", "-o", file, made], check=True
    )
    return file


@pytest.fixture
def built(tmp_path: Path) -> Build:
    """A kernel that firmware starts, with a configuration as the flavour has it."""
    directory = tmp_path / "kernel"
    directory.mkdir()
    names = ("image", "image-x86_64")
    fragments = [paths.repo() / "configs" / "kernel" / f"{name}.config" for name in names]
    options = "CONFIG_BLK_DEV_INITRD=y\nCONFIG_KPKEYS_HARDENED_CRED=y\n"
    (directory / ".config").write_text(options + "".join(one.read_text() for one in fragments))
    return Build(X86_64, directory, efi_program(directory / "bzImage"), directory / "vmlinux")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    made = tmp_path / "programs"
    (made / "attacks").mkdir(parents=True)
    for name in ("init", "tour", "attacks/own-pte"):
        (made / name).write_text(name)
    return made


# === The plan ====================================================================================


def test_all_variants_and_then_the_end() -> None:
    made = plan.make(X86_64)
    assert [entry.name for entry in made.entries] == [
        "kunit-off", "kunit-on", "attack-off", "attack-on", "off", "on", "asi", "finish"
    ]  # fmt: skip
    assert [entry.name for entry in plan.make(ARM64).entries] == [
        "kunit-off", "kunit-on", "attack-off", "attack-on", "off", "on", "finish"
    ]  # fmt: skip
    args = {entry.name: made.args(entry, "redoubt-1") for entry in made.entries}
    assert "kpkeys_hardened_pgtables=on" in args["on"]
    assert "kpkeys_hardened_pgtables=off" in args["off"]
    assert {"asi=on", "kpkeys_hardened_pgtables=off"} <= set(args["asi"])
    # KUnit provokes violations: nothing else happens in these boots.
    assert {"kunit.enable=1", "kunit.autorun=1"} <= set(args["kunit-on"])
    assert all("kunit.enable=0" in args[name] for name in ("attack-on", "off", "on", "asi"))
    # The vulnerable driver is nowhere else.
    vulnerable = [name for name, words in args.items() if "kpkeys_vuln=on" in words]
    assert vulnerable == ["attack-off", "attack-on"]
    for name, words in args.items():
        assert f"redoubt.entry={name}" in words
        assert {"redoubt.partition=redoubt-1", "panic=10"} <= set(words)
        # Keys are read from the last console.
        assert [word for word in words if word.startswith("console=")][-1] == "console=tty0"


def test_each_step_may_take_the_machine_down_once() -> None:
    for entry in plan.make(X86_64).entries[:-1]:
        # A kernel that dies in KUnit has shown what it does.
        assert entry.tries == (1 if "kunit" in entry.name else len(entry.steps) + 1)


def test_steps_as_the_program_reads_them() -> None:
    lines = [line.split("\t") for line in plan.make(X86_64, stress_s=7).lines()]
    by_name = {f"{line[0]}/{line[1]}": line for line in lines}
    assert by_name["on/stress"][2:] == ["7", "670", "/bin/stress", "7"]
    assert by_name["kunit-on/kunit"][4:] == []
    # The benchmark comes before stress, which leaves memory in pieces.
    names = {entry: [line[1] for line in lines if line[0] == entry] for entry in ("on", "asi")}
    assert names["on"] == ["hardware", "log", "check", "prices", "bench", "stress", "check again"]
    assert names["asi"] == ["hardware", "log", "audit", "prices", "bench", "stress", "audit again"]
    assert "off/check" not in by_name
    # In small pages, which are the usual ones afterwards.
    words = by_name["on/bench"][4:]
    assert words.index("never") < words.index("/bin/bench") < len(words) - 4
    assert words[-1] == "never" and words[-5] == "madvise"
    assert all(int(line[3]) > int(line[2]) for line in lines)


def test_what_is_measured_fits_into_small_machines() -> None:
    specs = plan.make(X86_64).specs
    assert {"fork", "munmap", "fault", "switch"} <= {spec.workload for spec in specs}
    assert max(spec.size for spec in specs) == 64 << 20
    quick = plan.make(X86_64, quick=True).specs
    assert sum(spec.samples for spec in quick) < sum(spec.samples for spec in specs)


# === The disk ====================================================================================


@needs_tools
def test_a_disk_with_files(tmp_path: Path) -> None:
    (tmp_path / "kernel").write_bytes(b"k" * 3_000_000)
    disk = tmp_path / "disk.img"
    name = "loader/entries/01-kunit-off+1.conf"
    esp.make({"EFI/BOOT/BOOTX64.EFI": tmp_path / "kernel", name: b"title x\n"}, "redoubt-1", disk)
    assert esp.read(disk, name) == b"title x\n"
    assert esp.read(disk, "EFI/BOOT/BOOTX64.EFI") == b"k" * 3_000_000
    assert esp.read(disk, "nothing") is None
    assert esp.names(disk, "loader/entries") == [name]
    told = subprocess.run(
        [esp.program("sfdisk"), "--json", disk], capture_output=True, text=True, check=True
    )
    table = json.loads(told.stdout)["partitiontable"]
    (partition,) = table["partitions"]
    assert (table["label"], partition["name"]) == ("gpt", "redoubt-1")
    assert partition["type"] == "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
    # Room for the results, and nothing else is left beside it.
    assert partition["size"] * 512 >= 128 << 20
    assert {file.name for file in tmp_path.iterdir()} == {"kernel", "disk.img"}


@needs_tools
def test_a_disk_that_cannot_be_made_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    bad = tmp_path / "bin"
    bad.mkdir()
    (bad / "mcopy").write_text("#!/bin/sh\necho no room; exit 1\n")
    (bad / "mcopy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bad}:/usr/bin:/bin")
    where = tmp_path / "out"
    where.mkdir()
    with pytest.raises(RedoubtError, match="mcopy of the disk image failed"):
        esp.make({"file": b"x"}, "redoubt-1", where / "disk.img")
    assert not list(where.iterdir())


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(RedoubtError) as caught:
        image.needs(X86_64)
    assert "mformat, mcopy, sfdisk not found" in caught.value.message
    assert caught.value.hint == "scripts/prerequisites image"


# === The kernel ==================================================================================


def test_a_unified_kernel_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    stub = efi_program(tmp_path / "stub.efi")
    contents = {".linux": b"kernel" * 1000, ".initrd": b"initramfs" * 2000}
    parts = {name: tmp_path / name[1:] for name in contents}
    for name, file in parts.items():
        file.write_bytes(contents[name])
    made = tmp_path / "made.efi"
    uki.make(stub, parts, made, "objcopy")
    found = {section.name: section for section in uki.sections(made)}
    data = made.read_bytes()
    for name, content in contents.items():
        section = found[name]
        assert data[section.offset : section.offset + section.size] == content
        assert section.address % 4096 == 0
    assert found[".osrel"].size and ".cmdline" not in found
    # No two of them are at the same place.
    placed = sorted(found.values(), key=lambda section: section.address)
    for one, following in itertools.pairwise(placed):
        assert one.end <= following.address


@pytest.mark.parametrize("content", [b"", b"MZ", b"#!/bin/sh", b"MZ" + bytes(200)])
def test_a_kernel_without_a_stub_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bzImage"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="no EFI stub") as caught:
        uki.needs_stub(file)
    assert "CONFIG_EFI_STUB=y" in str(caught.value.hint)


def test_a_kernel_that_cannot_find_the_disk_is_refused(built: Build) -> None:
    image.needs_options(built)
    config = built.directory / ".config"
    config.write_text(config.read_text().replace("CONFIG_VFAT_FS=y", "CONFIG_VFAT_FS=m"))
    with pytest.raises(UsageError, match="without CONFIG_VFAT_FS"):
        image.needs_options(built)
    # Nothing is known of a kernel without a configuration.
    config.unlink()
    image.needs_options(built)


# === All of it ===================================================================================


@needs_tools
def test_an_image(
    tmp_path: Path, built: Build, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    where = tmp_path / "debian/usr/lib/systemd/boot/efi"
    where.mkdir(parents=True)
    efi_program(where / "linuxx64.efi.stub")
    (where / "systemd-bootx64.efi").write_bytes(b"boot loader")
    asked: list[Any] = []

    def foreign(*words: Any) -> Path:
        asked.append(words[:2])
        return tmp_path / "debian"

    monkeypatch.setattr(rootless, "foreign", foreign)
    made = plan.make(X86_64)
    disk, plain = tmp_path / "disk.img", tmp_path / "plain"
    image.make(built, programs, made, ORIGIN, disk, Silent(), plain)
    assert asked == [("amd64", ("systemd-boot-efi",))]
    assert esp.read(disk, "EFI/BOOT/BOOTX64.EFI") == b"boot loader"
    # The last is never counted down: something can always be started.
    assert esp.names(disk, "loader/entries") == [
        f"loader/entries/{name}.conf"
        for name in ("01-kunit-off+1", "02-kunit-on+1", "03-attack-off+4", "04-attack-on+4",
                     "05-off+6", "06-on+8", "07-asi+8", "08-finish")
    ]  # fmt: skip
    entry = (esp.read(disk, "loader/entries/06-on+8.conf") or b"").decode().splitlines()
    assert entry[:3] == [
        "title Redoubt: protection on", "sort-key redoubt06", "efi /EFI/redoubt/redoubt.efi"
    ]  # fmt: skip
    args = entry[3].removeprefix("options ").split()
    (partition,) = [word for word in args if word.startswith("redoubt.partition=redoubt-")]
    assert (plain / "cmdline-on").read_text().split() == args
    assert (plain / "vmlinuz").read_bytes() == built.image.read_bytes()
    archive = (plain / "initramfs").read_bytes()
    assert archive in (esp.read(disk, "EFI/redoubt/redoubt.efi") or b"")
    # The program, its steps, and where the image is from.
    for part in (
        b"bin/attacks/own-pte\0",
        b"attack-on\tattacks\t30\t",
        b'"commit": "cccc',
        b"/bin/tour\n",
    ):
        assert part in archive
    # Each image looks for its own partition.
    image.make(built, programs, made, ORIGIN, tmp_path / "other.img", Silent())
    other = (esp.read(tmp_path / "other.img", "loader/entries/06-on+8.conf") or b"").decode()
    assert partition not in other.split()


def test_results_say_where_they_are_from(built: Build) -> None:
    told = image.about(built, plan.make(X86_64), ORIGIN)
    assert told["commit"] == "c" * 40
    assert told["options"]["CONFIG_KPKEYS_HARDENED_CRED"] == "y"
    assert not [name for name in told["options"] if "USB" in name]
    assert told["steps"][:3] == ["kunit-off/kunit", "kunit-on/kunit", "attack-off/log"]
    assert "fork:67108864:1:8:1" in told["specs"]


def test_a_new_kernel_is_one_for_real_machines(
    call: Any, monkeypatch: pytest.MonkeyPatch, built: Build, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def prepare(target: Any, variant: Any, progress: Any, *, flavour: str) -> Build:
        asked.append((target.name, variant.name, flavour))
        return built

    monkeypatch.setattr(kernels, "prepare", prepare)
    monkeypatch.setattr("redoubt.machine.guest.programs", lambda *_: tmp_path)
    monkeypatch.setattr(esp, "needs", lambda: None)
    monkeypatch.setattr(image, "make", lambda *words: asked.append(words[4]))
    done: Done = call("image", "x86_64", "--output", str(tmp_path / "a.img"))
    assert (done.code, asked) == (0, [("x86_64", "on", "image"), tmp_path / "a.img"])
    assert f"dd if={tmp_path / 'a.img'} of=/dev/STICK" in done.out


# === The emulated machine ========================================================================


def started(target: Target, bus: str = "usb", **form: Any) -> list[str]:
    disk, code, variables = map(Path, ("disk", "code", "variables"))
    return firmware.command(target, disk, code, variables, bus, Form(**form))


def test_each_target_has_firmware() -> None:
    assert all(firmware.possible(target) for target in (X86_64, ARM64))
    assert not firmware.possible(TARGETS["um"])
    words = started(standin.emulated(ARM64), "nvme")
    assert words[0] == "qemu-system-aarch64"
    assert words[words.index("-machine") + 1] == "virt"
    assert "if=pflash,format=raw,readonly=on,file=code" in words
    assert "nvme,serial=redoubt,drive=disk" in words


def test_a_machine_with_nodes() -> None:
    words = started(X86_64, cpus=8, nodes=2, memory_mb=4096)
    assert words[words.index("-m") + 1] == "4096M"
    assert [word for word in words if "id=node" in word or "nodeid" in word] == [
        "memory-backend-ram,id=node0,size=2048M", "node,nodeid=0,cpus=0-3,memdev=node0",
        "memory-backend-ram,id=node1,size=2048M", "node,nodeid=1,cpus=4-7,memdev=node1",
    ]  # fmt: skip
    assert "-numa" not in started(X86_64, cpus=8)


def test_a_machine_without_a_serial_port_has_a_screen() -> None:
    for target, screen in ((X86_64, "VGA"), (standin.emulated(ARM64), "ramfb")):
        assert "-serial" in started(target)
        words = started(target, serial=False, cpu="max,pks=off")
        assert "-serial" not in words and screen in words
        assert words[words.index("-cpu") + 1] == "max,pks=off"


# === The journal of the program ==================================================================

_JOURNAL = """\
#include <stdio.h>
#include <string.h>
#include "journal.h"
#include "kernel-log.h"
static void seen(const char *step, const char *event) { printf("%s %s\\n", step, event); }
int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "add")) return !journal_add(argv[2], argv[3]);
	if (!strcmp(argv[1], "publish")) return !journal_publish(argv[2], argv[3]);
	if (!strcmp(argv[1], "lines")) { json_lines(stdout, argv[2], strlen(argv[2])); return 0; }
	if (!strcmp(argv[1], "text")) { log_text(argv[2]); fputs(argv[2], stdout); return 0; }
	(void)argc;
	journal_read(argv[2], seen);
	return 0;
}
"""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls the functions of the journal."""
    where = tmp_path_factory.mktemp("journal")
    (where / "main.c").write_text(_JOURNAL)
    folder = paths.repo() / "guest" / "image"
    subprocess.run(
        ["gcc", "-std=gnu11", f"-I{folder}", "-o", where / "journal", where / "main.c",
         folder / "journal.c", folder / "kernel-log.c", "-idirafter", folder.parent / "lib"],
        check=True,
    )  # fmt: skip
    return where / "journal"


def said(program: Path, *words: str | Path) -> str:
    done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_journal_is_read_back(journal: Path, tmp_path: Path) -> None:
    file, to = tmp_path / "journal", tmp_path / "results"
    said(journal, "add", file, '{"image": {"format": 1}}')
    said(journal, "add", file, '{"step": "on/check again", "event": "begin"}')
    said(journal, "add", file, '{"step": "on/check again", "event": "end", "status": 0}')
    assert said(journal, "read", file) == "on/check again begin\non/check again end\n"
    said(journal, "publish", file, to)
    assert [list(line) for line in json.loads(to.read_text())["journal"]] == [
        ["image"], ["step", "event"], ["step", "event", "status"]
    ]  # fmt: skip


def test_a_line_that_was_cut_off_is_nobodys(journal: Path, tmp_path: Path) -> None:
    file, to = tmp_path / "journal", tmp_path / "results"
    file.write_text(
        '{"step": "a/b", "event": "begin"}\n{"step": "a/b", "event": "end", "output": ["x'
    )
    said(journal, "add", file, '{"step": "a/b", "event": "died"}')
    assert said(journal, "read", file) == "a/b begin\na/b died\n"
    said(journal, "publish", file, to)
    assert [line["event"] for line in json.loads(to.read_text())["journal"]] == ["begin", "died"]


def test_without_a_journal(journal: Path, tmp_path: Path) -> None:
    assert said(journal, "read", tmp_path / "none") == ""
    failed = subprocess.run([journal, "publish", tmp_path / "none", tmp_path / "to"])
    assert failed.returncode == 1
    failed = subprocess.run([journal, "add", "/nowhere/file", "{}"])
    assert failed.returncode == 1


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []), ("a\nb", ["a", "b"]), ("a\n\nb\n", ["a", "", "b"]),
        ('say "\\" \t', ['say "\\" \t']), ("\x1b[0m", ["\x1b[0m"]), ("é", ["Ã©"]),
    ],
)  # fmt: skip
def test_lines_in_json(journal: Path, text: str, lines: list[str]) -> None:
    assert json.loads(said(journal, "lines", text)) == lines


@pytest.mark.parametrize(
    ("told", "text"),
    [("plain", "plain"), (r"a\x0ab", "a\nb"), (r"\x5cx0a", r"\x0a"), (r"\xzz", r"\xzz"), ("", "")],
)
def test_a_message_as_the_kernel_had_it(journal: Path, told: str, text: str) -> None:
    assert said(journal, "text", told) == text


def test_the_plan_fits_into_the_program() -> None:
    text = (paths.repo() / "guest/image/tour.c").read_text()

    def limit(name: str) -> int:
        return int(text.partition(f"#define {name}\t")[2].split()[0])

    for target in (X86_64, ARM64):
        lines = list(plan.make(target).lines())
        assert len(lines) <= limit("MAX_STEPS")
        assert max(line.count("\t") for line in lines) < limit("MAX_WORDS")
        entries = plan.make(target).entries
        assert all(len(entry.name) < 64 for entry in entries)
    # Names are what separates entry and step, and stand in JSON as they are.
    for entry in plan.make(X86_64).entries:
        for name in (entry.name, *(step.name for step in entry.steps)):
            assert not set(name) & set('/"\\\t')


def test_a_plan_for_an_emulated_machine() -> None:
    made = real.emulated(plan.make(X86_64))
    args = [made.args(entry, "p") for entry in made.entries]
    assert all("no_timer_check" in words and "redoubt.linger=0" in words for words in args)
    assert not any("pti=on" in words for words in args)
    made = real.emulated(plan.make(ARM64))
    assert not any("no_timer_check" in made.args(entry, "p") for entry in made.entries)


def test_a_longer_wait_at_the_end() -> None:
    made = replace(plan.make(X86_64), linger_s=3)
    assert "redoubt.linger=3" in made.args(made.entries[-1], "p")
