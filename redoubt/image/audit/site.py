# SPDX-License-Identifier: GPL-2.0-only
"""An instruction that can write the pkey register, on any architecture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Site:
    """One instruction that can write the pkey register.

    `value` is the constant written, None if it is not a constant; `level` has it in its register.
    `certain` is false if it may be that another register is written. `left` is where a path leaves
    the function with this level, if it is a raised one and one does. `excuse` is the reason from
    the allow-list if a rule was excused here.
    """

    address: int
    function: str
    section: str
    instruction: str
    value: int | None
    level: str | None
    excuse: str | None = None
    certain: bool = True
    left: int | None = None
