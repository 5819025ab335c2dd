# SPDX-License-Identifier: GPL-2.0-only
"""git in a directory of our own, deaf to the user's configuration.

Hooks, signing, prefixes, styles of conflicts and line endings could all change what comes out.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError


@dataclass(frozen=True)
class Git:
    """git in one directory; `identity` is who commits, as variables of the environment."""

    directory: Path
    identity: Mapping[str, str] = field(default_factory=dict)

    def ended(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a git command, and return how it ended."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return run(
            ["git", *arguments],
            cwd=self.directory,
            env={
                **clean,
                **self.identity,
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_NOSYSTEM": "1",
                # The repository is this directory's, whatever repository is around it.
                "GIT_CEILING_DIRECTORIES": str(self.directory.parent),
                "LC_ALL": "C",
                "TZ": "UTC",
            },
        )

    def __call__(self, *arguments: str) -> str:
        """Run a git command; raises RedoubtError with git's own words if it fails."""
        result = self.ended(*arguments)
        if result.returncode != 0:
            raise failed(arguments[0], result)
        return result.stdout

    def start(self) -> str:
        """Make a repository of what is here; returns its first commit."""
        self("init", "-q", "-b", "main", "--template=")
        self("config", "core.autocrlf", "false")
        self("config", "gc.auto", "0")
        # It is a scratch repository: where the disk is busy, most of the time would go to that.
        self("config", "core.fsync", "none")
        self.commit("Pristine")
        return self("rev-parse", "HEAD").strip()

    def commit(self, message: str) -> None:
        """Commit everything there is; `message` is taken as it stands."""
        # Ignore rules of the kernel's own .gitignore must not hide a file.
        self("add", "-A", "-f", ".")
        with _file_of(message) as name:
            self("commit", "-q", "--allow-empty", "--cleanup=whitespace", "-F", name)

    def signed(self, message: str, author: tuple[str, str]) -> str:
        """A message with the author's Signed-off-by, once, behind other trailers it may have."""
        with _file_of(message) as name:
            return self(
                "interpret-trailers", "--if-exists", "addIfDifferent",
                "--trailer", "Signed-off-by: {} <{}>".format(*author), name,
            )  # fmt: skip


@contextmanager
def _file_of(message: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file:
        file.write(message)
        file.flush()
        yield file.name


def failed(command: str, result: subprocess.CompletedProcess[str]) -> RedoubtError:
    """The error for a git command that failed, with git's own words."""
    words = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return RedoubtError(f"git {command} failed: {' / '.join(words[:6])}")


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a short command; raises RedoubtError if there is no such program."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            **options,
        )
    except FileNotFoundError as missing:
        raise RedoubtError(f"{command[0]} is missing", f"apt-get install {command[0]}") from missing
