# SPDX-License-Identifier: GPL-2.0-only
"""Results as JUnit's XML, which most services for tests read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence

from redoubt.suite.run import Item, grouped
from redoubt.trial.case import FAILED, SKIPPED, Case

# XML has no way to write these, and a console has them.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(first: str, items: Sequence[Item]) -> bytes:
    """A testsuite for each item, in the order of target and variant, as `grouped`.

    An item of which no cases are known is one testcase. So is one that failed and of which all
    known cases passed, besides them: a kernel that died has no more to say of itself.
    """
    root = ElementTree.Element("testsuites", name="redoubt")
    for (target, variant), group in grouped(first, items).items():
        for item in group:
            place = ".".join(part for part in (target, variant, item.name) if part != "-")
            root.append(_suite(item, place))
    for name in ("tests", "failures", "skipped"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in root)))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _suite(item: Item, place: str) -> ElementTree.Element:
    cases = list(item.cases)
    unsaid = item.outcome == FAILED and all(case.outcome != FAILED for case in cases)
    if not cases or unsaid:
        cases.append(Case(item.name, item.outcome, item.detail))
    suite = ElementTree.Element(
        "testsuite", name=_writable(item.name), time=f"{item.seconds:.1f}",
        tests=str(len(cases)), failures=_count(cases, FAILED), skipped=_count(cases, SKIPPED),
    )  # fmt: skip
    suite.extend(_testcase(case, place) for case in cases)
    if item.detail:
        ElementTree.SubElement(suite, "system-out").text = _writable(item.detail)
    return suite


def _testcase(case: Case, place: str) -> ElementTree.Element:
    test = ElementTree.Element("testcase", classname=_writable(place), name=_writable(case.name))
    kind = {FAILED: "failure", SKIPPED: "skipped"}.get(case.outcome)
    if kind:
        why = _writable(case.why)
        ElementTree.SubElement(test, kind, message=why.partition("\n")[0]).text = why
    return test


def _count(cases: Iterable[Case], outcome: str) -> str:
    return str(sum(case.outcome == outcome for case in cases))


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("?", text)
