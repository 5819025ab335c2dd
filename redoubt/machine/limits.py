# SPDX-License-Identifier: GPL-2.0-only
"""How large a machine may be: found out before one is made."""

from __future__ import annotations

import os
from collections.abc import Mapping

from redoubt.core.errors import UsageError
from redoubt.machine import planes
from redoubt.targets import Target

# The kernel's limit of CPUs; a configuration without it is for one.
_NR_CPUS = "CONFIG_NR_CPUS"


def memory_mib() -> int:
    """The memory of this machine, in MiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def needs_memory(target: Target, wanted_mib: int) -> None:
    """Raise UsageError if a machine of the target cannot have so much memory, in MiB, here."""
    have = memory_mib()
    if wanted_mib > have:
        raise UsageError(
            f"{wanted_mib} MiB are more than this machine has", f"--memory {have}, at most"
        )
    if target.keyid_bits and wanted_mib > planes.MOST_MIB:
        raise UsageError(
            f"{target.name} has memory for each KeyID, and no room for {wanted_mib} MiB",
            f"--memory {planes.MOST_MIB}, at most",
        )


def needs_cpus(options: Mapping[str, str], wanted: int) -> None:
    """Raise UsageError if a kernel is not configured for so many CPUs.

    `options` are those of the kernel; without any, it is not known what it was configured for.
    """
    most = int(options.get(_NR_CPUS, 1))
    if options and wanted > most:
        raise UsageError(
            f"the kernel is configured for {most} CPU{'s' if most > 1 else ''}, not for {wanted}",
            f"--cpus {most}, or --kernel FILE with an image built with {_NR_CPUS}={wanted}",
        )
