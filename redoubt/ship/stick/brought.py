# SPDX-License-Identifier: GPL-2.0-only
"""The results that a real machine brings back: read, judged, and shown."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.cost import bench, prices
from redoubt.cost.prices import Price
from redoubt.cost.tables import Table
from redoubt.cost.workloads import WORKLOADS, Spec
from redoubt.ship.stick import plan
from redoubt.ship.stick.image import FORMAT
from redoubt.targets import Target, get_target, get_variant
from redoubt.trial import attack, check, experiment, ktap
from redoubt.trial.asi import asi

# A folder of results/.
DIRECTORY = "hardware"
DIED, NEVER = "died", "never ran"
ENDED = "ended"
_NAME = re.compile(r"results-[a-z0-9-]+\.json")
# Lines of the program about its steps, among those of the steps.
_OURS = re.compile(r"^redoubt: ")
_HARDENED = "kpkeys: page tables hardened"
_SPEC = re.compile(r"([\w-]+):(\d+):(\d+):(\d+):(\d+)")
# An address of a network card, or a serial number, would look so.
_PRIVATE = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|\bserial ?number\b", re.I)
# Operations that the table of machines shows.
_SHOWN = ("fork 64 MiB", "munmap 64 MiB", "fault 64 MiB")
COLUMNS = ("machine", "keys", "KUnit, on", "attacks, on", "missing", "wrong",
           *(title.partition(" ")[0] for title in _SHOWN))  # fmt: skip


@dataclass(frozen=True)
class Step:
    """The end of a step: DIED, NEVER, or ENDED with a status and what was said."""

    outcome: str = NEVER
    status: int = 0
    seconds: float = 0
    output: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class Journal:
    """A file of results as it was brought: where the image comes from, and its steps by name."""

    image: Mapping[str, Any]
    target: Target
    machines: tuple[str, ...]
    steps: Mapping[str, Step]
    raw: Sequence[Mapping[str, Any]] = field(repr=False, default=())


@dataclass(frozen=True)
class Brought:
    """Results of a machine, judged: `problems` are missing or implausible, `wrong` went wrong.

    `keys` are those of the kernel's own pages; a virtual machine is no `silicon`.
    """

    target: str
    image: Mapping[str, Any]
    hardware: Mapping[str, str]
    keys: bool
    silicon: bool
    steps: Mapping[str, str]
    kunit: Mapping[str, tuple[int, int, int]]
    attacks: tuple[attack.Outcome, ...]
    walks: tuple[check.Walk, ...]
    times: Mapping[str, Mapping[str, float]]
    prices: Mapping[str, Mapping[str, Price]]
    problems: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def collected(self) -> str:
        """The release of the kernel of an installed system; empty for an image."""
        return str(self.image.get("collected", ""))

    @property
    def lacking(self) -> tuple[str, ...]:
        """The parts that an image has, and an installed system may not."""
        ways = {name.partition("/")[0] for name in self.steps}
        parts = {
            "KUnit": bool(self.kunit),
            "attacks": bool(self.attacks),
            "protection on": "on" in ways,
            "protection off": "off" in ways,
        }
        return tuple(name for name, there in parts.items() if not there)

    @property
    def ok(self) -> bool:
        """Is everything there, and as it should be?"""
        return not self.problems and not self.wrong

    def as_json(self) -> dict[str, Any]:
        """The stable form, see docs/json.md."""
        return {
            "target": self.target,
            "ok": self.ok,
            "image": dict(self.image),
            "hardware": dict(self.hardware),
            "keys": self.keys,
            "silicon": self.silicon,
            "steps": dict(self.steps),
            "kunit": {name: list(counts) for name, counts in self.kunit.items()},
            "attacks": [one.as_json() for one in self.attacks],
            "walks": [vars(one) for one in self.walks],
            "times": {name: dict(row) for name, row in self.times.items()},
            "prices": {
                variant: {name: one.as_json() for name, one in found.items()}
                for variant, found in self.prices.items()
            },
            "problems": list(self.problems),
            "wrong": list(self.wrong),
        }


# === Reading =====================================================================================


def read(file: Path) -> Journal:
    """The journal in a file of results.

    Raises RedoubtError if it is none, or contradicts itself.
    """
    try:
        value = json.loads(file.read_text(encoding="ascii"))
    except OSError as error:
        raise RedoubtError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise _none(file, str(error)) from error
    try:
        return _journal(value["journal"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _none(file, repr(error)) from error
    except RedoubtError as error:
        raise _none(file, error.message) from error


def _none(file: Path, why: str) -> RedoubtError:
    return RedoubtError(
        f"{file} is no result of an image: {why}",
        "it is called results-MACHINE.json, on the disk that the machine was started from, or "
        "made by redoubt-collect",
    )


def _journal(lines: Sequence[Mapping[str, Any]]) -> Journal:
    images = [line["image"] for line in lines if "image" in line]
    if len(images) != 1 or images[0].get("format") != FORMAT:
        raise RedoubtError(f"expected one image, of format {FORMAT}")
    image = images[0]
    for name, kind in (("command", str), ("date", str), ("options", dict), ("specs", list)):
        if not isinstance(image[name], kind):
            raise RedoubtError(f"{name} of the image is no {kind.__name__}")
    steps = dict.fromkeys(image["steps"], Step())
    begun: set[str] = set()
    for line in lines:
        if "step" not in line:
            continue
        name, event = str(line["step"]), line["event"]
        if name not in steps:
            raise RedoubtError(f"nobody asked for the step {name}")
        if event == "begin":
            if name in begun:
                raise RedoubtError(f"{name} begins twice")
            begun.add(name)
            # Until its end is there.
            steps[name] = Step(DIED)
        elif name not in begun or steps[name].outcome == ENDED:
            raise RedoubtError(f"{name} ends without a begin")
        elif event == "log":
            steps[name] = replace(steps[name], log=(*steps[name].log, *_log(line)))
        elif event == "end":
            steps[name] = _step(line, steps[name].log)
        elif event != "died":
            raise RedoubtError(f"{name}: unknown event '{event}'")
    machines = tuple(dict.fromkeys(str(line["machine"]) for line in lines if "boot" in line))
    if not isinstance(image["commit"], (str, type(None))):
        raise RedoubtError("commit of the image is no text")
    return Journal(image, get_target(image["target"]), machines, steps, lines)


def _step(line: Mapping[str, Any], log: Sequence[str]) -> Step:
    seconds = float(line["seconds"])
    if seconds < 0:
        raise RedoubtError(f"{line['step']} took {seconds} s")
    return Step(
        ENDED, int(line["status"]), seconds, _texts(line["output"]), (*log, *_log(line))
    )  # fmt: skip


def _log(line: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(text for text in _texts(line["log"]) if not _OURS.match(text))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise RedoubtError("a text is no list of lines")
    return tuple(value)


def kept(journal: Journal) -> list[dict[str, Any]]:
    """The lines of a journal without the messages of the kernel: they are judged, and large."""
    return [{name: value for name, value in line.items() if name != "log"} for line in journal.raw]


def name_of(file: Path) -> str:
    """The name that results are kept under; RedoubtError if the file has another kind of name."""
    if not _NAME.fullmatch(file.name):
        raise RedoubtError(f"{file.name} is no name of results", "results-MACHINE.json is")
    return file.name


# === Judging =====================================================================================


def judge(journal: Journal, kernel: Path) -> Brought:
    """Judge results; `kernel` is a tree of Linux, which has the parser of KUnit."""
    steps = journal.steps
    hardware = _hardware(journal)
    keys = hardware.get("pks" if journal.target.arch == "x86_64" else "poe") == "yes"
    problems = list(_problems(journal, hardware, keys))
    wrong: list[str] = []
    kunit = {}
    for entry in _entries(journal, plan.KUNIT):
        suites = ktap.parse(kernel, steps[entry].log)
        kunit[entry.partition("/")[0]] = (
            sum(one.passed for one in suites),
            sum(one.failed for one in suites),
            sum(one.skipped for one in suites),
        )
        wrong += [f"{entry}: {one.name} failed: {', '.join(one.failures)}" for one in suites
                  if one.failed]  # fmt: skip
    attacks = tuple(_attacks(journal, keys, wrong))
    walks: list[check.Walk] = []
    for entry in _entries(journal, *plan.CHECKS):
        found = check.parse_walks(steps[entry].output)
        walks += found
        # A machine without keys has nothing to walk.
        if keys and [one.clean for one in found] != [True]:
            wrong.append(f"{entry}: {found}")
    for entry in _entries(journal, *plan.AUDITS):
        audits = asi.parse_audits(steps[entry].output)
        if [one.clean for one in audits] != [True]:
            wrong.append(f"{entry}: {audits}")
    return Brought(
        journal.target.name, journal.image, hardware, keys, hardware.get("hypervisor") != "yes",
        {name: _words(step) for name, step in steps.items()},
        kunit, attacks, tuple(walks), _times(journal, problems),
        _prices(journal, problems), tuple(problems), tuple(wrong),
    )  # fmt: skip


def _words(step: Step) -> str:
    return step.outcome if step.outcome != ENDED or not step.status else f"status {step.status}"


def _entries(journal: Journal, *names: str) -> list[str]:
    """The steps of these names that came to their end."""
    return [
        entry for entry, step in journal.steps.items()
        if step.outcome == ENDED and entry.partition("/")[2] in names
    ]  # fmt: skip


def _variant(step: str) -> str:
    return plan.variant_of(step.partition("/")[0])


def _hardware(journal: Journal) -> dict[str, str]:
    for entry in _entries(journal, plan.HARDWARE):
        pairs = (line.partition(":") for line in journal.steps[entry].output)
        return {name: value.strip() for name, _, value in pairs}
    return {}


def _problems(journal: Journal, hardware: Mapping[str, str], keys: bool) -> Iterator[str]:
    """Reasons why results are implausible, or less than they should be."""
    if not hardware:
        yield "there is no report on the hardware"
    if len(journal.machines) != 1:
        yield f"the boots are of {len(journal.machines)} machines: {', '.join(journal.machines)}"
    for name, step in journal.steps.items():
        if step.outcome != ENDED and not _all_told(journal, name):
            yield f"{name}: {step.outcome}"
        elif step.status and not (name.partition("/")[2] in plan.CHECKS and not keys):
            yield f"{name}: ended with status {step.status}: {' '.join(step.output[-1:])}"
        if any(_PRIVATE.search(line) for line in (*step.output, *step.log)):
            yield f"{name}: there may be a serial number or an address in it"
    for entry in _entries(journal, plan.LOG):
        hardened = any(_HARDENED in line for line in journal.steps[entry].log)
        if hardened != (keys and _variant(entry) == "on"):
            what = "protects" if hardened else "does not protect"
            yield f"{entry}: the kernel {what} page tables"


def _attacks(journal: Journal, keys: bool, wrong: list[str]) -> Iterator[attack.Outcome]:
    target, options = journal.target, journal.image["options"]
    for entry in _entries(journal, plan.LIST):
        offered = attack.parse_list(journal.steps[entry].output)
        entry = _attacks_of(entry)
        step = journal.steps.get(entry, Step())
        variant = get_variant(target, _variant(entry))
        # Without keys the variants are the same.
        judged = variant if keys else replace(variant, protected=False)
        runs = attack.pieces(step.log)
        if not offered:
            wrong.append(f"{entry}: the machine does not say which there are")
        for known in offered:
            # A program tells itself that something is out of its reach.
            lines = [*step.output, *(runs[known.name][-1] if known.name in runs else [])]
            outcome = attack.judge(target.name, variant.name, known.name, lines)
            yield outcome
            absent = outcome.outcome == attack.ABSENT
            if not absent and not attack.as_expected(known, outcome, judged, options):
                wrong.append(f"{entry}: {known.name} {outcome.outcome}: {outcome.detail}")


def _attacks_of(entry: str) -> str:
    return f"{entry.partition('/')[0]}/{plan.ATTACKS}"


def _all_told(journal: Journal, entry: str) -> bool:
    """Was the machine attacked with success in all ways, of which it may well die then?"""
    boot, _, name = entry.partition("/")
    listed = journal.steps.get(f"{boot}/{plan.LIST}", Step())
    offered = {one.name for one in attack.parse_list(listed.output)}
    told = attack.pieces(journal.steps[entry].log).keys()
    return name == plan.ATTACKS and bool(offered) and offered <= told


def _specs(journal: Journal) -> list[Spec]:
    found = []
    for text in journal.image["specs"]:
        match = _SPEC.fullmatch(text)
        if not match:
            raise RedoubtError(f"'{text}' is no workload")
        found.append(Spec(match[1], *map(int, match.groups()[1:])))
    return found


def _times(journal: Journal, problems: list[str]) -> dict[str, dict[str, float]]:
    """The median time of an operation in ns, by workload and variant."""
    rows: dict[str, dict[str, float]] = {}
    for entry in _entries(journal, plan.BENCH):
        try:
            series = bench.parse(journal.steps[entry].output, _specs(journal))
        except RedoubtError as error:
            problems.append(f"{entry}: {error.message}")
            continue
        for one in series:
            known = WORKLOADS.get(one.workload)
            title = known.title(one.size) if known else f"{one.workload} {one.size}"
            median = statistics.median(one.ns) / one.ops
            rows.setdefault(title, {})[_variant(entry)] = round(median, 1)
    return rows


def _prices(journal: Journal, problems: list[str]) -> dict[str, dict[str, Price]]:
    """What single operations cost, by variant."""
    found = {}
    for entry in _entries(journal, plan.PRICES):
        try:
            found[_variant(entry)] = prices.parse(journal.steps[entry].output)
        except RedoubtError as error:
            problems.append(f"{entry}: {error.message}")
    return found


# === Showing =====================================================================================


def render(found: Brought, more: Iterable[Table] = ()) -> Iterator[str]:
    """The contents of results, for people, and more tables of them."""
    for name, value in found.hardware.items():
        yield f"{name}: {value}"
    yield ""
    keys = "enforces protection keys" if found.keys else "has no protection keys for the kernel"
    kind = "a machine" if found.silicon else "a virtual machine, of which times say nothing,"
    what = "package" if found.collected else "image"
    yield f"{kind} that {keys}; {what} of commit {str(found.image['commit'])[:12]}"
    if found.collected:
        yield f"collected on an installed system with Linux {found.collected}"
        yield f"not tried there: {', '.join(found.lacking) or 'nothing'}"
    for name, (passed, failed, skipped) in found.kunit.items():
        yield f"{name}: {passed} passed, {failed} failed, {skipped} skipped"
    for variant in dict.fromkeys(one.variant for one in found.attacks):
        yield f"attacks, {variant}: {counted(found.attacks, variant)}"
    for walk in found.walks:
        yield f"checker: {walk}"
    if found.times:
        ways = list(dict.fromkeys(way for row in found.times.values() for way in row))
        head = ("ns for an operation", *ways)
        cells = (
            (title, *(row.get(way, "-") for way in ways)) for title, row in found.times.items()
        )
        yield from experiment.table(head, cells)
    for one in more:
        yield from ("", one.heading)
        yield from experiment.table(one.columns, one.rows)
    yield from (f"INCOMPLETE: {problem}" for problem in found.problems)
    yield from experiment.wrong(found.wrong)


def counted(attacks: Sequence[attack.Outcome], variant: str) -> str:
    """How attacks ended in a variant, in words."""
    ended = [one.outcome for one in attacks if one.variant == variant]
    return ", ".join(f"{ended.count(word)} {word}" for word in dict.fromkeys(ended))


def row(file: str, value: Mapping[str, Any]) -> tuple[str, ...]:
    """A row of the table of machines, of what `as_json` wrote to a file of this name."""
    times, on = value["times"], value["kunit"].get(f"{plan.KUNIT}-on")
    blocked = [one["outcome"] for one in value["attacks"] if one["variant"] == "on"]
    return (
        value["hardware"].get("model name", file)
        + (", installed" if "collected" in value["image"] else ""),
        "yes" if value["keys"] else "no",
        f"{on[0]} passed, {on[1]} failed" if on else "-",
        f"{blocked.count(attack.BLOCKED)} blocked of {len(blocked)}" if blocked else "-",
        str(len(value["problems"])),
        str(len(value["wrong"])),
        *(_ratio(times.get(title, {})) if value["silicon"] else "-" for title in _SHOWN),
    )


def _ratio(times: Mapping[str, float]) -> str:
    return f"{times['on'] / times['off']:.3f}" if {"on", "off"} <= times.keys() else "-"
