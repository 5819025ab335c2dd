# SPDX-License-Identifier: GPL-2.0-only
"""Memory planes: an emulated machine with memory of its own behind the addresses of each KeyID.

They stand in for a memory controller that encrypts with several keys (MKTME): what is written
under one KeyID is not found under another. See kernel/Documentation/arch/x86/mktme.rst for what
that shows and what not.
"""

from __future__ import annotations

from pathlib import Path

from redoubt.targets import KEYID_PHYS_BITS

# Bits of a KeyID that machines have been seen to start with.
BITS = range(1, 5)
# Memory must lie below the hole for PCI.
MOST_MIB = 2048
# GiB: room for the last plane and what QEMU puts in between.
_ROOM_GIB = 4


def keyids(bits: int) -> range:
    """The KeyIDs of so many bits, without 0."""
    return range(1, 1 << bits)


def address(keyid: int, bits: int) -> int:
    """Where the plane of a KeyID of so many bits begins, in physical addresses."""
    return keyid << (KEYID_PHYS_BITS - bits)


def options(bits: int, memory_mb: int) -> list[str]:
    """QEMU's options for a plane as large as memory for each KeyID of `bits` bits but 0.

    Without bits, none. There is no machine with more than MOST_MIB.
    """
    return _planes(bits, "memory-backend-ram", memory_mb) if bits else []


def shared_options(bits: int, memory_mb: int, file: Path) -> list[str]:
    """The same for planes that are all one memory, with that of KeyID 0: it is in `file`.

    Nothing is encrypted then, not even as if: whoever uses a wrong KeyID does not see that.
    """
    backend = f"memory-backend-file,share=on,mem-path={file}"
    return [
        "-object", f"{backend},id=memory,size={memory_mb}M",
        "-machine", "memory-backend=memory",
        *_planes(bits, backend, memory_mb),
    ]  # fmt: skip


def _planes(bits: int, backend: str, memory_mb: int) -> list[str]:
    last = keyids(bits)[-1]
    made = ["-m", f"slots={last},maxmem={(address(last, bits) >> 30) + _ROOM_GIB}G"]
    for keyid in keyids(bits):
        made += [
            "-object", f"{backend},id=plane{keyid},size={memory_mb}M",
            "-device",
            f"pc-dimm,id=dimm{keyid},memdev=plane{keyid},addr={address(keyid, bits):#x}",
        ]  # fmt: skip
    return made
