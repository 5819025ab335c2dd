# SPDX-License-Identifier: GPL-2.0-only
"""How a step says what it is doing. Only the command line decides how that looks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Progress(Protocol):
    """What the steps of the tool report to."""

    def step(self, title: str) -> AbstractContextManager[None]:
        """Announce a piece of work that may take a while; lasts until the context is left."""
        ...

    def detail(self, text: str) -> None:
        """Say how far the current step is; may be dropped."""
        ...

    def note(self, text: str) -> None:
        """Tell the user one line that must not be missed."""
        ...


class Silent:
    """Reports to nobody."""

    def step(self, title: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def detail(self, text: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
