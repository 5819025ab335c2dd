# SPDX-License-Identifier: GPL-2.0-only
"""The one exception that reaches the user as a message."""

from __future__ import annotations


class RedoubtError(Exception):
    """Something the user can understand, and usually mend.

    `message` says what is wrong, `hint` how to mend it (a command, if there is one). Functions that
    read, obtain, build or start something raise it when that fails; their docstrings say so only
    where there is more to know.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RedoubtError):
    """The command line names something that does not exist, or that contradicts itself."""


class NoSpaceError(RedoubtError):
    """A disk is full."""


class GuestError(RedoubtError):
    """A machine did not start, or not even its first program did what it always does."""


class Interrupted(BaseException):
    """Ctrl-C, or a request to end. No KeyboardInterrupt, which libraries take for themselves."""
