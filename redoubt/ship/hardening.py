# SPDX-License-Identifier: GPL-2.0-only
"""What kernel-hardening-checker recommends, and what of it our packages change.

It is asked about the distribution's configuration, and about that of our packages, which are made
from it: what differs is our doing. It is asked as well about the kernel that we build for tests, of
which only those recommendations are told that our fragments decide against; the rest is what
tinyconfig leaves out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.process import output
from redoubt.core.progress import Progress
from redoubt.linux import build, debian
from redoubt.ship.deb import shipped
from redoubt.targets import Target

PACKAGE = "kernel-hardening-checker"
# What our packages go against, with the reason.
DECLINED = {
    "CONFIG_MODULE_SIG_ALL": "a key made for each build would make each build another one",
}


@dataclass(frozen=True)
class Verdict:
    """What the checker says of one option: the recommended value, and whether it is met."""

    option: str
    wanted: str
    said: str
    met: bool


@dataclass(frozen=True)
class Report:
    """The verdicts on three configurations of a target, and the fragments that set an option."""

    target: str
    checker: str
    distribution: tuple[Verdict, ...]
    ours: tuple[Verdict, ...]
    tests: tuple[Verdict, ...]
    fragments: dict[str, str]

    @property
    def changed(self) -> list[tuple[Verdict, Verdict]]:
        """The verdicts that our options change, before and after."""
        # The checker goes through one list, which depends on the architecture alone.
        pairs = zip(self.distribution, self.ours, strict=True)
        return [(one, other) for one, other in pairs if one != other]

    @property
    def declined(self) -> list[Verdict]:
        """What our fragments for tests decide against."""
        return [one for one in self.tests if not one.met and one.option in self.fragments]

    @property
    def ok(self) -> bool:
        """True if no recommendation that was met is not met any more, without a reason."""
        lost = (other for one, other in self.changed if one.met and not other.met)
        return all(other.option in DECLINED for other in lost)


def _count(verdicts: Sequence[Verdict]) -> str:
    return f"{sum(one.met for one in verdicts)} of {len(verdicts)} recommendations met"


def render(report: Report) -> list[str]:
    """The report as lines for a person."""
    return [
        f"{report.target}, {PACKAGE} {report.checker}",
        f"the distribution's configuration: {_count(report.distribution)}",
        f"our packages: {_count(report.ours)}, {len(report.changed)} verdicts changed",
        *(
            f"    {one.option} (recommended: {one.wanted}): {one.said}  ->  {other.said}"
            + (f" ({DECLINED[one.option]})" if one.option in DECLINED else "")
            for one, other in report.changed
        ),
        f"the kernel for tests: {_count(report.tests)}; not met because of a fragment:",
        *(
            f"    {one.option} (recommended: {one.wanted}): {one.said}"
            f" ({report.fragments[one.option]})"
            for one in report.declined
        ),
    ]


def _checker(progress: Progress) -> tuple[Path, str]:
    """The unpacked package of the checker, and its version."""
    archive = debian.Archive(progress, without="there is no other way to obtain the checker")
    archive.update()
    found = archive.newest(PACKAGE)
    if not found:
        raise RedoubtError(f"the archive does not carry {PACKAGE}")
    kept = paths.build_dir() / "hardening" / f"checker-{found[1]}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".partial-") as name:
            debian.extract(
                archive.download(*found),
                Path(name) / "files",
                paths.build_dir() / "log" / "hardening.log",
            )
            (Path(name) / "files").rename(kept)
    return kept, found[1]


def _ask(checker: Path, config: Path) -> tuple[Verdict, ...]:
    """The verdicts on a configuration."""
    said = output(
        [sys.executable, checker / "usr/bin" / PACKAGE, "-m", "json", "-c", config],
        what=f"{PACKAGE} on {config}",
        env={"PYTHONPATH": str(checker / "usr/lib/python3/dist-packages")},
    )
    try:
        return tuple(
            Verdict(
                one["option_name"],
                one["desired_val"],
                one["check_result"],
                bool(one["check_result_bool"]),
            )
            for one in json.loads(said)
        )
    except (ValueError, TypeError, KeyError) as error:
        raise RedoubtError(f"{PACKAGE} said what is not understood: {said[:200]}") from error


def check(target: Target, pristine: Path, ours: Path, progress: Progress) -> Report:
    """Ask about the configurations of a target; `pristine` and `ours` are the trees.

    Raises RedoubtError if there are no packages for the target, its compiler is missing, or one of
    the distribution's cannot be had.
    """
    shipped.needs_packages(target)
    build.needs_compiler(target)
    checker, version = _checker(progress)
    base = shipped.base(target, shipped.DISTRO, progress)
    where = paths.build_dir() / "hardening" / target.name
    log = paths.build_dir() / "log" / "hardening.log"

    def ask(
        name: str, tree: Path, fragments: Sequence[str], base: Path | None
    ) -> tuple[Verdict, ...]:
        progress.detail(name)
        files = [build.fragment(one) for one in fragments]
        build.configure(target, tree, where / name, files, log, base)
        return _ask(checker, where / name / ".config")

    with progress.step(f"Asking {PACKAGE} about {target.name}"):
        return Report(
            target.name,
            version,
            ask("distribution", pristine, (), base),
            ask("ours", ours, shipped.fragments(target, shipped.DISTRO), base),
            ask("tests", ours, target.tested, None),
            {
                o: name
                for name in target.tested
                for o in build.options(build.fragment(name).read_text())
            },
        )
