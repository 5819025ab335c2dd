# SPDX-License-Identifier: GPL-2.0-only
"""The arguments and options that several verbs have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from redoubt.cli.common import is_special, partial
from redoubt.core.errors import UsageError
from redoubt.targets import TARGETS


def writable(file: Path | None) -> Path | None:
    """The file, if one can be written there: found out before the work, not after."""
    if file is None:
        return None
    if is_special(file):
        if not os.access(file, os.W_OK):
            raise UsageError(f"cannot write {file}: Permission denied")
        return file
    try:
        # An older file stays as it is until there is a whole new one.
        partial(file).open("wb").close()
        partial(file).unlink()
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
    return file


# Of an option that may be repeated, or that is left out.
Names = list[str] | None


def on_one_line(words: Names) -> Names:
    """The words, if the kernel's command line can have them."""
    if any("\n" in word for word in words or ()):
        raise UsageError("a kernel argument must not contain a newline")
    return words


def target_names() -> list[str]:
    """Return what the shell completes to."""
    return list(TARGETS)


TargetArg = Annotated[
    str, Argument(help=f"One of: {', '.join(TARGETS)}.", autocompletion=target_names)
]
VariantOpt = Annotated[str, Option("--variant", help="pristine (Linux as it is), off, or on.")]
HostOpt = Annotated[
    str,
    Option(
        "--host",
        help="Where um runs: native, emulated (QEMU), or auto: the first that has PKU. "
        "Other targets always run on a machine emulated by QEMU.",
    ),
]
WithOpt = Annotated[
    Names,
    Option(
        "--with",
        help="With --config FILE: these features of the patches and no others, as asi,mktme,cred; "
        "protected page tables and the defaults of Kconfig if left out.",
        metavar="NAMES",
    ),
]
AppendOpt = Annotated[
    Names, Option(help="A further kernel argument; may be repeated.", callback=on_one_line)
]


def _written(name: str, about: str) -> Any:
    """Return an option that names a file, which a verb writes at its end."""
    return Option(name, help=about, dir_okay=False, callback=writable)


JsonOpt = Annotated[Path | None, _written("--json", "Write the result to this file.")]
JunitOpt = Annotated[
    Path | None, _written("--junit", "Write the results to this file, as JUnit's XML.")
]
KtapOpt = Annotated[Path | None, _written("--ktap", "Write the results to this file, as KTAP.")]
CpusOpt = Annotated[int, Option(help="CPUs of the guest.", min=1, max=2)]
