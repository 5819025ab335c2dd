# SPDX-License-Identifier: GPL-2.0-only
"""Who should get a mail, by the kernel's own MAINTAINERS."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import formataddr, parseaddr
from pathlib import Path

from redoubt.core.errors import RedoubtError
from redoubt.core.process import run_lines

# The beginning of what the file says; each mail's name follows on a line of its own.
_HEAD = (
    "# Whom MAINTAINERS names, by scripts/get_maintainer.pl --nogit. Nothing reads this file;",
    "# redoubt series --recipients writes the same into the mails.",
)

# An address with or without a name, and what it is there for.
_LINE = re.compile(r"^(?P<who>.*<[^\s<>]+@[^\s<>]+>|[^\s<>]+@[^\s<>]+) \((?P<role>.*)\)$")
_MAINTAINS = re.compile(r"(?:^|,)(?:maintainer|supporter|odd fixer)\b")


@dataclass(frozen=True)
class Recipients:
    """Addresses as they stand in a header: maintainers, and then reviewers and lists."""

    to: tuple[str, ...]
    cc: tuple[str, ...]


def ask(tree: Path, mail: Path) -> Recipients:
    """Ask a kernel tree who should get a mail; nothing is written there.

    Only MAINTAINERS decides: its patterns hold for new files, too, and a tree that was unpacked has
    no history. Raises RedoubtError if perl is missing, or the script fails or names nobody.
    """
    if not shutil.which("perl"):
        raise RedoubtError(
            "perl: not found; the kernel's get_maintainer.pl, which knows recipients, is a program"
            " for it",
            "run: scripts/prerequisites lint",
        )
    lines: list[str] = []
    ended = run_lines(
        ["perl", "scripts/get_maintainer.pl", "--nogit", "--nogit-fallback", "--nofixes",
         "--norolestats", "--roles", mail.resolve()],
        lines.append,
        cwd=tree,
        # It reads a .get_maintainer.conf there.
        env={"HOME": str(mail.resolve().parent), "LC_ALL": "C"},
    )  # fmt: skip
    if ended.code or not lines:
        said = "".join(f"\n    {line}" for line in lines[-10:])
        raise RedoubtError(f"get_maintainer.pl names nobody for {mail.name} ({ended}){said}")
    return parse(lines)


def parse(lines: Iterable[str]) -> Recipients:
    """The recipients that get_maintainer.pl --roles prints.

    Raises RedoubtError for a line that is none.
    """
    to: list[str] = []
    cc: list[str] = []
    for line in lines:
        match = _LINE.match(line)
        if not match:
            raise RedoubtError(f"get_maintainer.pl says what is no recipient: {line}")
        # Headers are ASCII: a name that is not gets encoded.
        (to if _MAINTAINS.search(match["role"]) else cc).append(formataddr(parseaddr(match["who"])))
    return _once(to, cc)


def together(every: Iterable[Recipients]) -> Recipients:
    """Those of a whole series, for its cover letter."""
    known = list(every)
    return _once([who for one in known for who in one.to], [who for one in known for who in one.cc])


def _once(to: Iterable[str], cc: Iterable[str]) -> Recipients:
    """Each address once, at its first place."""
    seen: set[str] = set()

    def fresh(who: str) -> bool:
        address = parseaddr(who)[1].lower()
        known = address in seen
        seen.add(address)
        return not known

    return Recipients(tuple(filter(fresh, to)), tuple(filter(fresh, cc)))


def listing(found: Mapping[str, Recipients]) -> str:
    """The text of a file for a person, by the names of the mails."""
    blocks = ["\n".join(_HEAD)]
    for name, one in found.items():
        lines = [name, *(f"To: {who}" for who in one.to), *(f"Cc: {who}" for who in one.cc)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def address(mail: str, one: Recipients) -> str:
    """A mail with its recipients as headers."""
    head, gap, body = mail.partition("\n\n")
    for name, those in (("To", one.to), ("Cc", one.cc)):
        if those:
            head += f"\n{name}: " + ",\n    ".join(those)
    return head + gap + body
