# SPDX-License-Identifier: GPL-2.0-only
"""Stopping a machine where the attacker of guest/oracle/oracle.c is, and the registers there."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import numpy as np

from redoubt.core.errors import GuestError, RedoubtError
from redoubt.machine.qmp import Qmp
from redoubt.trial.oracle.pagewalk import Memory

# In user mode; in a guest of its own; in the kernel while that handles what its guest left for.
PLACES = ("user", "guest", "exit")
_SAID = re.compile(rf"^@oracle: ({'|'.join(PLACES)})((?: 0x[0-9a-f]+-0x[0-9a-f]+)*)$")

_REGISTER = re.compile(r"\b(RIP|R15|CPL|CR0|CR3|CR4|EFER) *=([0-9a-f]+)")
# QEMU shows it instead of RDI if the CPU does not run 64-bit code.
_EDI = re.compile(r"\bEDI=([0-9a-f]{8})\b")
_CR0_PG, _CR4_LA57 = 1 << 31, 1 << 12
_EFER_LMA, _EFER_NXE, _EFER_SVME = 1 << 10, 1 << 11, 1 << 12

# Words of a page in which a CPU of AMD keeps the state of its host, in the layout of a VMCB's
# state save area (AMD64 Architecture Programmer's Manual, Volume 2, appendix B).
_SAVED = 0x400
_AT = {
    name: (_SAVED + offset) // 8
    for name, offset in {
        "efer": 0xD0,
        "cr4": 0x148,
        "cr3": 0x150,
        "cr0": 0x158,
        "rip": 0x178,
    }.items()
}
_UPPER_HALF = 1 << 63

# Seconds between two looks at a CPU.
_PAUSE = 0.05
_TRIES = 100


@dataclass(frozen=True)
class Spot:
    """One of `PLACES`, and where the code of it lies. A guest has none that the host knows."""

    place: str
    code: tuple[range, ...] = ()


def spot(line: str) -> Spot | None:
    """Where the attacker is, if this line of the console says so."""
    match = _SAID.match(line)
    if not match:
        return None
    ends = [one.split("-") for one in match[2].split()]
    return Spot(match[1], tuple(range(int(start, 16), int(end, 16)) for start, end in ends))


@dataclass(frozen=True)
class Registers:
    """The registers of a CPU that matter here."""

    rip: int
    r15: int
    cpl: int
    cr0: int
    cr3: int
    cr4: int
    efer: int

    @property
    def levels(self) -> int:
        """The levels of the page tables.

        Raises RedoubtError if the CPU does not use such page tables.
        """
        if not (self.cr0 & _CR0_PG and self.efer & _EFER_LMA and self.efer & _EFER_NXE):
            raise RedoubtError(
                f"the CPU is not in 64-bit mode: CR0 {self.cr0:#x}, EFER {self.efer:#x}"
            )
        return 5 if self.cr4 & _CR4_LA57 else 4


def parse_registers(text: str) -> Registers:
    """The registers in what QEMU's monitor says to `info registers`.

    Raises RedoubtError if one is missing.
    """
    values = {name.lower(): int(value, 16) for name, value in _REGISTER.findall(text)}
    missing = Registers.__dataclass_fields__.keys() - values.keys()
    if missing:
        raise RedoubtError(f"QEMU does not show {', '.join(sorted(missing))}: {text[:200]!r}")
    return Registers(**values)


def _is_at(wanted: Spot, magic: int, shown: str) -> bool:
    if edi := _EDI.search(shown):
        return wanted.place == "guest" and int(edi[1], 16) == magic & 0xFFFF_FFFF
    if wanted.place == "guest":
        return False
    seen = parse_registers(shown)
    if not any(seen.rip in code for code in wanted.code):
        return False
    if wanted.place == "exit":
        return seen.cpl == 0
    return seen.cpl == 3 and seen.r15 == magic


def catch(monitor: Qmp, wanted: Spot, magic: int) -> Registers | None:
    """Stop the machine where the attacker says that it is; in a guest, its registers say nothing.

    Any process may be at these addresses in user mode: the attacker has `magic` in a register, too,
    and its guest the low half. What handles an exit runs for no other guest. Raises GuestError if
    the attacker is never seen there.
    """
    for _ in range(_TRIES):
        monitor.stop()
        shown = monitor.human("info registers")
        if _is_at(wanted, magic, shown):
            return None if wanted.place == "guest" else parse_registers(shown)
        monitor.resume()
        time.sleep(_PAUSE)
    raise GuestError(
        f"the attacker is not running ({wanted.place}), in {_TRIES} looks; the last: {shown[:300]}"
    )


def of_host(memory: Memory) -> Registers:
    """The registers that the CPU will have when it leaves the guest, from where it keeps them.

    Of a machine with one CPU of AMD. Raises GuestError if there is no such place, or more.
    """
    efer = memory[:, _AT["efer"]]
    on = np.uint64(_EFER_SVME | _EFER_LMA)
    is_host = (
        (efer & on == on)
        & (efer >> np.uint64(16) == 0)
        & (memory[:, _AT["cr0"]] & np.uint64(_CR0_PG) != 0)
        & (memory[:, _AT["cr0"]] >> np.uint64(32) == 0)
        & (memory[:, _AT["cr3"]] != 0)
        & (memory[:, _AT["rip"]] >= np.uint64(_UPPER_HALF))
    )
    (pages,) = np.nonzero(is_host)
    if len(pages) != 1:
        raise GuestError(f"the state of the host is in {len(pages)} places of memory, not in one")
    saved = {name: int(memory[pages[0], at]) for name, at in _AT.items()}
    return Registers(r15=0, cpl=0, **saved)
