# SPDX-License-Identifier: GPL-2.0-only
"""A configuration of the user's, with features of the patches merged into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import UsageError
from redoubt.linux import build, features
from redoubt.targets import Target

# How its builds and packages are called.
NAME = "own"
# The architecture in the first lines of a configuration, as make was told it, or as arch/ names it.
_MADE_FOR = re.compile(r"^# Linux/(\w+) ", re.MULTILINE)
# Files that a distribution has where it builds its kernel, and nobody else has.
_CERTIFICATES = ("CONFIG_SYSTEM_TRUSTED_KEYS", "CONFIG_SYSTEM_REVOCATION_KEYS")
# What building takes beyond our own configurations, by the options that ask for it: things of the
# group GROUP of scripts/prerequisites.txt.
GROUP = "own"
_THINGS = {
    "lib:libcrypto.so": ("CONFIG_SYSTEM_TRUSTED_KEYRING", "CONFIG_MODULE_SIG"),
    "zstd": ("CONFIG_KERNEL_ZSTD",),
}
# The suffix of a release in packages, lest they be taken for those of somebody else's kernel.
_SUFFIX = '"-redoubt"'


@dataclass(frozen=True)
class Own:
    """A configuration, and the `names` of the features that it gets, or None for the default."""

    file: Path
    names: tuple[str, ...] | None = None

    @property
    def things(self) -> set[str]:
        """What of GROUP the configuration asks for."""
        on = build.options(self.file.read_text())
        return {
            thing
            for thing, names in _THINGS.items()
            if any(on.get(name, "n") != "n" for name in names)
        }

    def fragment(self, target: Target, *, packed: bool = False) -> Path:
        """Write the fragment of our options to the build directory, also for packages."""
        lines = [*features.lines(paths.repo(), target, self.names)]
        suffix = "CONFIG_LOCALVERSION"
        if packed and build.options(self.file.read_text()).get(suffix, '""') in ('""', "n"):
            lines.append(f"{suffix}={_SUFFIX}")
        name = f"{NAME}-packed" if packed else NAME
        file = paths.build_dir() / target.name / f"{name}.config"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))
        return file


def read(target: Target, file: Path, with_: Iterable[str] | None) -> Own:
    """The configuration in a file, with the features of these texts, or None for the default.

    Raises UsageError for a file that is none, or of another architecture, that names certificates
    which are not there, and as `features.named` does.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"cannot read {file}: {why}", "give the .config of a kernel") from error
    found = build.options(text)
    if not found:
        raise UsageError(f"{file} sets no option of a kernel", "give the .config of a kernel")
    made_for = _MADE_FOR.search(text)
    if made_for and made_for[1] not in (target.arch, target.architectures[0]):
        raise UsageError(
            f"{file} is for {made_for[1]}, not for {target.arch}", "give another target, or FILE"
        )
    for name in _CERTIFICATES:
        value = found.get(name, "").strip('"')
        if value not in ("", "n") and not Path(value).is_absolute():
            raise UsageError(
                f"{file} asks for certificates of another source tree: {name}={found[name]}",
                f"scripts/config --file {file} --set-str {name.removeprefix('CONFIG_')} ''",
            )
    names = None if with_ is None else features.named(paths.repo(), target, with_)
    return Own(file.resolve(), names)


def changed(file: Path, config: Path) -> Iterator[str]:
    """The options that are on in a file and off in the configuration that came of it."""
    have = build.options(config.read_text())
    for name, value in build.options(file.read_text()).items():
        if value != "n" and have.get(name, "n") == "n":
            yield name
