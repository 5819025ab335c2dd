# SPDX-License-Identifier: GPL-2.0-only
"""Results as KTAP, version 1: what the kernel's own tests print, see dev-tools/ktap.rst."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redoubt.suite.run import Item, grouped
from redoubt.trial.case import FAILED, PASSED, SKIPPED

_VERSION = "KTAP version 1"
_INDENT = "  "
# In the place of what a description must not have.
_REPLACED = re.compile(r"[#\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class _Test:
    """A line with a result, with the lines about it and the tests within it."""

    name: str
    outcome: str
    why: Sequence[str] = ()
    within: Sequence[_Test] = ()


def render(first: str, items: Sequence[Item]) -> bytes:
    """The items by target and variant, as `grouped`; within them their cases, where known."""
    tests = [
        _Test(f"{target} {variant}", _worst(group), within=[_of(item) for item in group])
        for (target, variant), group in grouped(first, items).items()
    ]
    return "".join(f"{line}\n" for line in _level(tests)).encode()


def _of(item: Item) -> _Test:
    within = [_Test(case.name, case.outcome, case.why.splitlines()) for case in item.cases]
    return _Test(item.name, item.outcome, item.detail.splitlines(), within)


def _worst(items: Sequence[Item]) -> str:
    outcomes = {item.outcome for item in items}
    return next(one for one in (FAILED, PASSED, SKIPPED) if one in outcomes)


def _level(tests: Sequence[_Test], title: str = "") -> Iterator[str]:
    yield _VERSION
    if title:
        yield f"# Subtest: {title}"
    yield f"1..{len(tests)}"
    for number, test in enumerate(tests, 1):
        name = _description(test.name)
        if test.within:
            yield from (_INDENT + line for line in _level(test.within, name))
        directive = ""
        if test.outcome == SKIPPED and not test.within:
            directive = " ".join((" # SKIP", *map(_description, test.why[:1])))
        else:
            yield from (f"# {_description(line)}" for line in test.why)
        result = "not ok" if test.outcome == FAILED else "ok"
        yield f"{result} {number} {name}{directive}"


def _description(text: str) -> str:
    return _REPLACED.sub(" ", text).strip()
