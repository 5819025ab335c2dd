# SPDX-License-Identifier: GPL-2.0-only
"""What needs no boot: the image, the objects, the mails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from redoubt.core import paths
from redoubt.core.progress import Progress
from redoubt.image import offcheck
from redoubt.image.audit import audit
from redoubt.linux import build, source
from redoubt.machine import kernels
from redoubt.ship import commits, cover, freshness, htmldocs, lint, series
from redoubt.suite.run import Item, Run, Skipped, verdict
from redoubt.targets import Target, get_variant


def audit_image(target: Target, progress: Progress) -> audit.Report:
    """Find all writers of the pkey register in the image, and judge them."""
    built = kernels.prepare(target, get_variant(target, "on"), progress)
    with progress.step("Auditing the image"):
        return audit.audit(built.vmlinux, paths.repo() / "configs" / "audit" / target.audit)


def audited(run: Run) -> Iterator[Item]:
    """Find all writers of the pkey register in the image: each has to be expected."""
    report = audit_image(run.target, run.progress)
    yield verdict("audit", "-", report.ok, *audit.render(report))


def series_check(
    targets: Sequence[Target],
    progress: Progress,
    *,
    mails: Path | None = None,
    names: Sequence[str] = (),
    each: bool = False,
) -> series.Report:
    """Take the series back with git am, look at its mails with checkpatch, and build prefixes.

    A prefix ends with a topic, or with `each` mail, and is built for all targets that this topic
    concerns. Without targets nothing is built, and git am works on the files that the mails touch.
    The `mails` are those of a directory, or made anew; `names` are the topics they are of, all if
    there are none.
    """
    found = source.obtain(progress)
    pristine = found.path
    letter = cover.letter(paths.repo(), found, names)
    if mails is None:
        # Beside those that the user has made: nobody gets these.
        mails = paths.build_dir() / "series-test"
        # A fresh machine has no git identity.
        author = ("Redoubt", "redoubt@localhost")
        series.export(pristine, mails, topics=names, author=author, letter=letter)
    wanted = {
        topic.name: [target for target in targets if topic.concerns(target.architectures)]
        for topic in commits.chosen(paths.repo(), names)
    }

    def compile_prefix(prefix: Path, last: commits.Commit) -> bool:
        concerned = wanted.get(last.topic.name, [])
        for target in concerned:
            build.compile_kernel(
                target, prefix, f"series-{last.topic.name}", target.fragments, progress,
                directory=paths.build_dir() / target.name / "series",
            )  # fmt: skip
        return bool(concerned)

    with progress.step("Checking the series"):
        return series.check(
            pristine, mails, build=compile_prefix if targets else None, each=each, topics=names,
            full=bool(targets), work_in=paths.build_dir(), letter=letter,
            judge=partial(lint.check_mails, pristine),
        )  # fmt: skip


def series_checked(runs: Sequence[Run]) -> Iterator[Item]:
    """Apply the mails, which have to give our tree again.

    A long run also builds each prefix. A short one has built the whole queue already, in the
    kernels that it boots.
    """
    if paths.installed():
        raise Skipped(Item("series", "-", 0, 0, 1, cover.WITHOUT_RESULTS))
    targets = [run.target for run in runs if run.long]
    report = series_check(targets, runs[0].progress)
    yield verdict("series", "-", report.ok, *series.render(report))


def linted(run: Run) -> Iterator[Item]:
    """Check patches and files of the kernel by checkpatch, and the stores to page tables."""
    with run.progress.step("Checking the kernel code"):
        report = lint.lint(kernels.our_tree(run.progress), {})
    yield verdict("checkpatch, stores to page tables", "-", report.ok, *map(str, report.findings))


def results_judged(run: Run) -> Iterator[Item]:
    """Look how far results/ is behind the code, and whether each file says where it comes from."""
    if paths.installed():
        raise Skipped(Item("results", "-", 0, 0, 1, "an installed tool has no history"))
    with run.progress.step("Looking how old the results are"):
        report = freshness.judge(paths.repo(), paths.results_dir())
    if report.ok and report.unknown:
        raise Skipped(Item("results", "-", 0, 0, 1, freshness.not_judged(report)))
    yield verdict("results", "-", report.ok, *freshness.problems(report))


def documented(run: Run) -> Iterator[Item]:
    """Check the kernel documentation by kernel-doc and Sphinx."""
    documents = htmldocs.check(kernels.our_tree(run.progress), run.progress)
    yield verdict("kernel documentation", "-", documents.ok, *map(str, documents.findings))


def off_check(target: Target, progress: Progress) -> offcheck.Report:
    """Build pristine and ours with the same options, ours all off, and compare the objects.

    Fixes of Linux have no option: what they change is no difference, so both trees have them.
    """
    pristine = kernels.fixed_tree(target, progress)
    ours = kernels.our_tree(progress)
    fixed = pristine != source.obtain(progress).path
    kind = "fixed" if fixed else "pristine"
    one = build.compile_kernel(target, pristine, kind, target.fragments, progress)
    other = build.compile_kernel(target, ours, "off", target.fragments, progress)
    with progress.step("Comparing the objects"):
        return offcheck.compare(one.directory, other.directory)


def off_checked(run: Run) -> Iterator[Item]:
    """Compare the objects of the kernel with all our options off with the pristine ones."""
    report = off_check(run.target, run.progress)
    yield verdict("offcheck", "-", report.ok, *offcheck.render(report))
