#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""kernel-hardening-checker with checks of Redoubt's options: its arguments, its output.

That tool loads no rules of others, so this adds ours to its functions and then starts it. A patch
would be against one release of it. The licence of this file permits to use it with that tool, which
is under version 3.
"""

from __future__ import annotations

import sys
from typing import Any

try:
    import kernel_hardening_checker as checker
    from kernel_hardening_checker.engine import OR, CmdlineCheck, KconfigCheck
except ImportError:
    sys.exit(
        "redoubt-hardening-checker: kernel-hardening-checker is not installed\n"
        "    apt-get install kernel-hardening-checker (in Debian 13 of backports)"
    )

DECISION = "redoubt"
PROTECTS, PROGRAMS, SURFACE = "self_protection", "harden_userspace", "cut_attack_surface"
OFF = "is not set"
BOTH, X86_64, ARM64 = ("X86_64", "ARM64"), ("X86_64",), ("ARM64",)

# Reason, option, value, architectures.
OPTIONS = (
    (PROTECTS, "KPKEYS_HARDENED_PGTABLES", "y", BOTH),
    (PROTECTS, "KPKEYS_CHECK_MAPPINGS", "y", BOTH),
    (PROTECTS, "KPKEYS_HARDENED_STATE", "y", BOTH),
    (PROTECTS, "KPKEYS_HARDENED_CRED", "y", BOTH),
    (PROTECTS, "KPKEYS_HARDENED_REGS", "y", BOTH),
    (PROTECTS, "KPKEYS_HARDENED_SECRET", "y", BOTH),
    (PROTECTS, "X86_PKS", "y", X86_64),
    (PROTECTS, "MITIGATION_ADDRESS_SPACE_ISOLATION", "y", X86_64),
    (PROTECTS, "ARM64_POE", "y", ARM64),
    (PROTECTS, "ARM64_KPKEYS", "y", ARM64),
    (PROTECTS, "KPKEYS_HARDENED_PTRAUTH", "y", ARM64),
    (PROGRAMS, "X86_MKTME", "y", X86_64),
    # Nothing is encrypted by it.
    (SURFACE, "X86_MKTME_EMULATION", OFF, X86_64),
    # Lets root read the memory of any process.
    (SURFACE, "ASI_DEBUG", OFF, X86_64),
    (SURFACE, "KPKEYS_KUNIT_TEST", OFF, BOTH),
    (SURFACE, "KPKEYS_VULN_TEST", OFF, BOTH),
)  # fmt: skip

# Switches that are on by themselves, and those that have to be on, of the command line.
SWITCHES = (
    ("kpkeys_hardened_pgtables", BOTH),
    ("kpkeys.mappings", BOTH),
    ("kpkeys_hardened_state", BOTH),
    ("kpkeys_hardened_cred", BOTH),
    ("kpkeys_hardened_regs", BOTH),
    ("kpkeys_hardened_secret", BOTH),
    ("kpkeys_hardened_ptrauth", ARM64),
)
ASKED = (("asi", X86_64),)
ABSENT = (("nopks", X86_64),)
_ON = ("on", "1", "y")


def add_options(checks: list[Any], arch: str) -> None:
    """Add checks of a configuration."""
    checks += [
        KconfigCheck(reason, DECISION, option, value)
        for reason, option, value, archs in OPTIONS
        if arch in archs
    ]


def add_arguments(checks: list[Any], arch: str) -> None:
    """Add checks of a command line."""
    for switches, values in ((SWITCHES, (*_ON, OFF)), (ASKED, _ON), (ABSENT, (OFF,))):
        for name, archs in switches:
            if arch in archs:
                each = [CmdlineCheck(PROTECTS, DECISION, name, value) for value in values]
                checks.append(OR(*each) if len(each) > 1 else each[0])


def main() -> None:
    """Start the tool with our checks behind its own."""
    for name, ours in (("add_kconfig_checks", add_options), ("add_cmdline_checks", add_arguments)):
        setattr(checker, name, _both(getattr(checker, name), ours))
    checker.main()


def _both(theirs: Any, ours: Any) -> Any:
    def add(checks: list[Any], arch: str) -> None:
        theirs(checks, arch)
        ours(checks, arch)

    return add


if __name__ == "__main__":
    main()
