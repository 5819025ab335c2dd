# SPDX-License-Identifier: GPL-2.0-only
"""A folder of this machine that a guest has as /share: by hostfs on UML, by 9p on QEMU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from redoubt.core.errors import UsageError
from redoubt.machine import host
from redoubt.targets import Target

# Of a target whose usual kernel has no 9p: the one that has.
FLAVOUR = "share"
# The name of the folder for guests; init mounts it as /share.
_TAG = "share"
_UML_OPTIONS = ("CONFIG_HOSTFS",)
_PC_OPTIONS = ("CONFIG_VIRTIO_PCI", "CONFIG_NET_9P", "CONFIG_NET_9P_VIRTIO", "CONFIG_9P_FS")


def needs(target: Target, where: str, options: Mapping[str, str], folder: Path) -> None:
    """Raise UsageError if a guest on the host `where` cannot have a folder.

    `options` are those of the kernel; without any, it is not known what it was configured for.
    """
    if not folder.is_dir():
        raise UsageError(f"cannot share {folder}: it is no directory")
    if "\n" in str(folder):
        raise UsageError("a directory with a newline in its name cannot be shared")
    if target.emulator and target.emulator.ours:
        raise UsageError(
            f"the emulator of {target.name} is built without 9p: it cannot share a folder",
            "--share works on um and x86_64",
        )
    if not target.emulator and where != host.NATIVE:
        raise UsageError(
            "the emulated machine that um runs on does not see the folders of this one",
            "--host native; um is not protected there without PKU",
        )
    wanted = _PC_OPTIONS if target.emulator else _UML_OPTIONS
    missing = [name for name in wanted if options.get(name) != "y"]
    if options and missing:
        raise UsageError(
            f"the kernel cannot mount a folder: it is built without {', '.join(missing)}",
            f"--kernel FILE with an image that has {', '.join(f'{name}=y' for name in wanted)}",
        )


def devices(folder: Path) -> tuple[str, ...]:
    """The options by which QEMU gives a folder to its guest."""
    # QEMU takes two commas for one.
    path = str(folder).replace(",", ",,")
    options = f"local,path={path},mount_tag={_TAG},security_model=none,multidevs=remap"
    return ("-virtfs", options)


def mount(target: Target, folder: Path) -> tuple[str, str, str]:
    """The arguments of the mount in the guest: type, source and options."""
    if target.emulator:
        # In QEMU's words: larger messages make for fewer of them.
        return ("9p", _TAG, "trans=virtio,version=9p2000.L,msize=131072")
    return ("hostfs", "none", str(folder))
