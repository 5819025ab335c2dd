# SPDX-License-Identifier: GPL-2.0-only
"""From a target and a variant to a kernel that can be booted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from redoubt import build, guest, paths, source, tree
from redoubt.boot import Machine
from redoubt.build import Build
from redoubt.progress import Progress
from redoubt.targets import Target, Variant

# Boots that are no KUnit runs leave KUnit alone.
_NO_KUNIT = ("kunit.enable=0",)
_VULN = ("kpkeys_vuln=on",)


def our_tree(progress: Progress) -> Path:
    """Our tree, up to date.

    Raises RedoubtError if the source cannot be had or a patch does not apply.
    """
    return tree.materialise(
        source.obtain(progress).path, paths.build_dir() / "tree", progress=progress
    )


def prepare(target: Target, variant: Variant, progress: Progress, *, debug: bool = False) -> Build:
    """Build what a variant boots: our tree, or the pristine one with the base configuration.

    `debug` adds the kernel's own checks. Raises RedoubtError if anything on the way fails.
    """
    extra = target.debug if debug else ()
    flavour = "-debug" if debug else ""
    if variant.pristine:
        pristine = source.obtain(progress)
        fragments = (*target.fragments, *extra)
        return build.compile_kernel(
            target, pristine.path, "pristine" + flavour, fragments, progress
        )
    fragments = (*target.fragments, *target.ours, *extra)
    return build.compile_kernel(
        target, our_tree(progress), "redoubt" + flavour, fragments, progress
    )


@dataclass(frozen=True)
class Bench:
    """A built kernel with guest programs and the host to boot on: makes machines."""

    build: Build
    programs: Path
    host: str

    def machine(
        self, variant: Variant, *extra: str, cpus: int = 1, attacks: bool = False
    ) -> Machine:
        """The machine that boots a variant with further kernel arguments."""
        args = (*variant.boot_args, *_NO_KUNIT, *(_VULN if attacks else ()), *extra)
        return Machine(self.build, self.programs, self.host, args, cpus)

    def kunit_machine(self, variant: Variant, *extra: str, cpus: int = 1) -> Machine:
        """The machine that runs our KUnit suites while it boots."""
        args = (
            *variant.boot_args, "kunit.enable=1", "kunit.autorun=1", "kunit.filter_glob=kpkeys*",
            *extra,
        )  # fmt: skip
        return Machine(self.build, self.programs, self.host, args, cpus)


def bench(
    target: Target, variant: Variant, chosen_host: str, progress: Progress, *, debug: bool = False
) -> Bench:
    """Build a kernel and the guest programs.

    Raises RedoubtError as `prepare` does.
    """
    built = prepare(target, variant, progress, debug=debug)
    return Bench(built, guest.programs(progress), chosen_host)
