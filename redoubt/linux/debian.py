# SPDX-License-Identifier: GPL-2.0-only
"""Packages from the system's own Debian mirror, without root and without touching the system.

apt runs with a state directory of its own and the mirror that the system is configured for, and
verifies signatures as it always does.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import NoSpaceError, RedoubtError
from redoubt.core.process import locked, output, run_logged
from redoubt.core.progress import Progress

RELEASE = "trixie"
SUITE = f"{RELEASE}-backports"
# The first Debian that we run on: its libraries go with the libc of any later one.
OLDEST = "bookworm"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


WITHOUT_KERNEL = "give a kernel tree: LINUX_SRC=/path/to/linux-7.3"


def available() -> bool:
    """Are the programs here that obtain and unpack packages?"""
    return all(shutil.which(name) for name in ("apt-get", "apt-cache", "dpkg-deb"))


def mirror(without: str = WITHOUT_KERNEL) -> str:
    """The Debian mirror among the sources that the system's apt knows."""
    if not available():
        raise RedoubtError(
            "this is no Debian system: there is no apt-get to obtain packages with", without
        )
    listing = output(
        # Without the option apt hides what it has no index of, which is all on a fresh system.
        ["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)",
         "Identifier: Packages"],
        what="asking apt for its sources",
    )  # fmt: skip
    for uri in dict.fromkeys(listing.split()):
        if uri.rstrip("/").endswith("/debian"):
            return uri
    raise RedoubtError(
        "apt has no Debian mirror in its sources (a URI that ends with /debian)",
        f"add one to /etc/apt/sources.list.d, or do without: {without}",
    )


def source(uri: str, suite: str, kind: str = "deb") -> str:
    """The line for a suite of a mirror in a list of sources; of kind "deb-src" for source."""
    return f"{kind} [signed-by={KEYRING}] {uri} {suite} main"


class Archive:
    """The package index of some suites, in private state under the user's cache.

    `without` says how to do without it, for the case that it cannot be had. `architecture` is
    Debian's name of another than this machine's, which need not know of it. Of kind "deb-src" it
    is the index of source packages.
    """

    def __init__(
        self,
        progress: Progress,
        suites: Sequence[str] = (SUITE,),
        without: str = WITHOUT_KERNEL,
        architecture: str = "",
        kind: str = "deb",
    ) -> None:
        self.kind = kind
        self.progress = progress
        self.suites = suites
        self.without = without
        self.architecture = architecture
        # Each has an index of its own.
        parts = ("apt", *((architecture, *suites) if architecture else suites[1:]))
        if kind != "deb":
            parts = ("apt", kind, *suites)
        self.state = paths.cache_dir() / "-".join(parts)
        self.log = self.state / "log"

    def _options(self) -> list[str]:
        settings: dict[str, str | Path] = {
            "Dir::State": self.state / "state",
            "Dir::State::status": self.state / "status",
            "Dir::Cache": self.state / "cache",
            "Dir::Etc::sourcelist": self.state / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Acquire::Languages": "none",
            # A mirror that does not answer: fail instead of waiting for minutes.
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "30",
        }
        if os.geteuid() == 0:
            # The user _apt may not be able to write to root's directories.
            settings["APT::Sandbox::User"] = "root"
        if self.architecture:
            settings["APT::Architecture"] = self.architecture
            settings["APT::Architectures"] = self.architecture
        return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def update(self) -> None:
        """Fetch the index, from a mirror that can be reached and is trusted.

        Others who use the same cache wait for as long as this object lives.
        """
        if not KEYRING.exists():
            raise RedoubtError(
                f"{KEYRING} is missing: nothing could be verified",
                "sudo apt-get install debian-archive-keyring",
            )
        for directory in ("state/lists/partial", "cache/archives/partial"):
            (self.state / directory).mkdir(parents=True, exist_ok=True)
        waiting = partial(self.progress.step, "Waiting for another redoubt to download")
        self._held = contextlib.ExitStack()
        self._held.enter_context(locked(self.state / "lock", waiting))
        (self.state / "status").touch()
        known = mirror(self.without)
        (self.state / "sources.list").write_text(
            "".join(f"{source(known, suite, self.kind)}\n" for suite in self.suites)
        )
        with self.progress.step(f"Reading the package index of {' and '.join(self.suites)}"):
            try:
                run_logged(
                    ["apt-get", *self._options(), "update", "--error-on=any"],
                    self.log,
                    what="reading the package index",
                )
            except NoSpaceError:
                raise
            except RedoubtError as error:
                raise RedoubtError(
                    error.message,
                    "is the network there, and the mirror in /etc/apt right? "
                    f"Or do without: {self.without}",
                ) from error

    def newest(self, pattern: str) -> tuple[str, str] | None:
        """Name and version of the newest package whose name matches a shell pattern."""
        listing = output(
            ["apt-cache", *self._options(), "pkgnames"], what="listing the package index"
        )
        found: list[tuple[str, str]] = []
        for name in fnmatch.filter(listing.split(), pattern):
            policy = output(
                ["apt-cache", *self._options(), "policy", name], what="reading the package index"
            )
            for line in policy.splitlines():
                if line.strip().startswith("Candidate:") and "(none)" not in line:
                    found.append((name, line.split()[1]))
        return max(found, key=lambda entry: _version_key(entry[1]), default=None)

    def newest_file(self, *patterns: str) -> Path:
        """The file of the newest package whose name matches the first pattern that any does."""
        for pattern in patterns:
            if found := self.newest(pattern):
                return self.download(*found)
        raise self.lacks(patterns[0])

    def lacks(self, package: str) -> RedoubtError:
        """The error for a package that is in none of the suites."""
        of = f" of {self.architecture}" if self.architecture else ""
        suites = " and ".join(self.suites)
        return RedoubtError(f"the archive has no {package}{of} in {suites}", self.without)

    def versions(self, package: str) -> list[str]:
        """The versions of a package that the archive has, the newest first; empty if none."""
        listing = output(
            ["apt-cache", *self._options(), "madison", package], what="reading the package index"
        )
        rows = [line.split("|") for line in listing.splitlines()]
        return [row[1].strip() for row in rows if len(row) == 3 and row[0].strip() == package]

    def download(self, package: str, version: str, sha256: str = "") -> Path:
        """The package file, from the cache or the mirror; apt checks its signature.

        With `sha256`, in hexadecimal, it must have that. Raises RedoubtError if the mirror's has
        another, and keeps nothing of it; another file in the cache is replaced.
        """
        file = cached(package, version, self.architecture)
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and (not sha256 or digest(file) == sha256):
            return file
        with (
            self.progress.step(f"Downloading {package} {version}"),
            tempfile.TemporaryDirectory(dir=file.parent, prefix=".partial-") as partial,
        ):
            run_logged(
                ["apt-get", *self._options(), "download", f"{package}={version}"],
                self.log,
                what=f"downloading {package}",
                cwd=Path(partial),
                on_line=self.progress.detail,
            )
            came = next(Path(partial).glob("*.deb"), None)
            if not came:
                raise RedoubtError(f"apt-get did not download {package}", f"see {self.log}")
            if sha256 and (found := digest(came)) != sha256:
                raise RedoubtError(
                    f"{package} {version} from the archive is another file than expected: "
                    f"its SHA-256 is {found}, not {sha256}",
                    f"it was not kept; try another mirror, or {self.without}",
                )
            came.rename(file)
        return file

    def download_source(self, package: str, into: Path) -> Path:
        """The description (.dsc) of a source package, with its files beside it; apt verifies them.

        Raises RedoubtError if it cannot be had.
        """
        with self.progress.step(f"Downloading the source of {package}"):
            run_logged(
                ["apt-get", *self._options(), "source", "--download-only", package],
                self.log,
                what=f"downloading the source of {package}",
                cwd=into,
                on_line=self.progress.detail,
            )
        description = next(into.glob(f"{package}_*.dsc"), None)
        if not description:
            raise RedoubtError(f"apt-get did not download {package}", f"see {self.log}")
        return description

    def download_whole(self, packages: Sequence[str], into: Path) -> list[Path]:
        """The package files of packages and all they depend on, as if nothing were installed.

        The newest suite counts. They are left in `into`.
        """
        (into / "partial").mkdir(parents=True)
        what = f"{' and '.join(packages)} with all dependencies"
        with self.progress.step(f"Downloading {what}"):
            run_logged(
                ["apt-get", *self._options(), "-o", f"Dir::Cache::archives={into}",
                 "--download-only", "--no-install-recommends", "-y",
                 "-t", self.suites[0], "install", *packages],
                self.log,
                what=f"downloading {what}",
                on_line=self.progress.detail,
            )  # fmt: skip
        return sorted(into.glob("*.deb"))


def cached(package: str, version: str, architecture: str = "") -> Path:
    """The place in the cache of a package file, which may not be there."""
    kind = f"_{architecture}" if architecture else ""
    return paths.cache_dir() / "packages" / f"{package}_{version.replace(':', '%3a')}{kind}.deb"


def digest(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _version_key(version: str) -> tuple[int, ...]:
    """Enough to order versions of one packaging: the numbers in it."""
    return tuple(int(part) for part in "".join(c if c.isdigit() else " " for c in version).split())


def extract(package: Path, into: Path, log: Path) -> None:
    """Unpack the files of a package into a directory."""
    run_logged(["dpkg-deb", "-x", package, into], log, what=f"unpacking {package.name}")


@contextlib.contextmanager
def unpacked(package: Path, beside: Path, log: Path) -> Iterator[Path]:
    """The files of a package, for as long as something of them is taken to the path `beside`."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=beside.parent, prefix=".partial-") as name:
        extract(package, Path(name), log)
        yield Path(name)
