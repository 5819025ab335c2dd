# SPDX-License-Identifier: GPL-2.0-only
"""Machines that Bochs emulates: a PC whose CPU has what QEMU's lacks, PCID and INVPCID.

It has no protection keys, and one CPU. Its TLB does not tell PCIDs apart: it is flushed when CR3 is
loaded, also if that is not asked for. So a kernel that computes PCIDs wrong, or uses INVPCID wrong,
fails there; one that forgets a flush does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redoubt.core.process import run_logged
from redoubt.core.progress import Progress
from redoubt.linux import rootless

# Of Debian's, unpacked for us alone: the emulator with its firmware, and what boots a disc.
PACKAGES = ("bochs", "bochsbios", "vgabios", "isolinux", "syslinux-common", "xorriso")
# The oldest model with both whose topology Linux does not warn of is Skylake; this is the newest.
CPU = "tigerlake"
# What its clock takes for a second. Emulated time passes by instructions, and so at no known speed.
_INSTRUCTIONS_PER_SECOND = 200_000_000

_LOADER = "DEFAULT linux\nLABEL linux\nKERNEL linux\nINITRD initrd\nAPPEND {args}\n"
# Debian's is made to stop in its debugger, which is told to go on.
_CONTINUE = "continue\n"
_CONFIGURATION = Path(__file__).with_name("bochsrc.in")


def _disc(root: Path, kernel: Path, archive: Path, args: Sequence[str], where: Path) -> Path:
    tree, disc = where / "disc", where / "disc.iso"
    tree.mkdir()
    (tree / "isolinux.cfg").write_text(_LOADER.format(args=" ".join(args)))
    for name, file in (
        ("linux", kernel),
        ("initrd", archive),
        ("isolinux.bin", root / "usr/lib/ISOLINUX/isolinux.bin"),
        ("ldlinux.c32", root / "usr/lib/syslinux/modules/bios/ldlinux.c32"),
    ):
        (tree / name).write_bytes(file.read_bytes())
    run_logged(
        [
            *rootless.Unpacked(root).command("xorriso"), "-as", "mkisofs", "-quiet",
            "-o", disc, "-b", "isolinux.bin", "-c", "boot.cat", "-no-emul-boot",
            "-boot-load-size", "4", "-boot-info-table", tree,
        ],
        where / "disc.log",
        what="making a disc to boot from",
    )  # fmt: skip
    return disc


def command(
    kernel: Path,
    archive: Path,
    args: Sequence[str],
    where: Path,
    progress: Progress,
    *,
    memory_mb: int,
) -> list[str]:
    """The command that boots a kernel with an initramfs; its serial port is our stdout.

    `args` are the kernel's arguments after its console, and `where` a directory for what the
    emulator reads.
    """
    root = rootless.system("amd64", PACKAGES, progress)
    disc = _disc(root, kernel, archive, ("console=ttyS0,115200", *args), where)
    configuration, words = where / "bochsrc", where / "bochs.commands"
    configuration.write_text(
        _CONFIGURATION.read_text().format(
            root=root, cpu=CPU, ips=_INSTRUCTIONS_PER_SECOND, memory_mb=memory_mb, disc=disc,
            log=where / "bochs.log",
        )
    )  # fmt: skip
    words.write_text(_CONTINUE)
    return [
        "env", f"LTDL_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu/bochs/plugins",
        *rootless.Unpacked(root).command("bochs-bin"),
        "-q", "-f", str(configuration), "-rc", str(words),
    ]  # fmt: skip
