# SPDX-License-Identifier: GPL-2.0-only
"""From a target and a variant to a kernel that can be booted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress
from redoubt.linux import build, distro, own, source, topics, tree
from redoubt.linux.build import Build
from redoubt.linux.own import Own
from redoubt.machine import doctor, guest, host
from redoubt.machine.boot import MEMORY_MB, Machine
from redoubt.targets import NoKeys, Target, Variant, Way, get_target, get_variant, needs_flavour

# Boots that are no KUnit runs leave KUnit alone.
_NO_KUNIT = ("kunit.enable=0",)
# Switches the vulnerable driver on, where there is one.
VULN = ("kpkeys_vuln=on",)
_BENCH_TOPIC = "bench"
# Bugs of Linux that our tree mends, whatever options it has.
_FIXES_TOPIC = "fixes"
# test_vmalloc is built in and runs at the end of each boot: a million times unless told otherwise.
_NO_VMALLOC_TEST = ("test_vmalloc.run_test_mask=0",)
# Twice the largest mapping that is measured, and the pages that a fork breaks off.
BENCH_MEMORY_MB = 3072
# Below 512 MB Linux has no huge pages, and an attack by them would fail for that reason alone.
ATTACK_MEMORY_MB = 640
# Such a kernel is larger, and keeps more for itself.
DISTRO_MEMORY_MB = 1024


def our_tree(progress: Progress) -> Path:
    """Our tree, up to date."""
    return _tree("tree", None, progress)


def pristine_bench_tree(progress: Progress) -> Path:
    """The pristine tree with nothing but the benchmark, up to date."""
    return _tree("tree-bench", [_BENCH_TOPIC], progress)


def observed_tree(target: Target, progress: Progress) -> Path:
    """The pristine tree, with nothing but the observers of the target if it has any, up to date."""
    if not target.observers:
        return source.obtain(progress).path
    return _tree(f"tree-{target.name}", list(target.observers), progress)


def fixed_tree(target: Target, progress: Progress) -> Path:
    """The pristine tree, with nothing but the fixes of Linux if any concern the target, up to date.

    Our kernels with all options off differ from it in nothing.
    """
    known = topics.load(paths.repo())
    fixes = [topic for topic in known if topic.name == _FIXES_TOPIC]
    if not any(topic.concerns(target.architectures) for topic in fixes):
        return source.obtain(progress).path
    return _tree("tree-fixed", [_FIXES_TOPIC], progress)


def _tree(name: str, names: list[str] | None, progress: Progress) -> Path:
    return tree.materialise(
        source.obtain(progress).path,
        paths.build_dir() / name,
        part=topics.part(paths.repo(), names) if names else None,
        progress=progress,
    )


def prepare(target: Target, variant: Variant, progress: Progress, *, flavour: str = "") -> Build:
    """Build what a variant boots: our tree, or the pristine one without our options.

    `flavour` is one of the target's, which adds its options to either.
    """
    needs_flavour(target, flavour)
    shared = _built_target(target, variant)
    if shared != target:
        return replace(prepare(shared, variant, progress, flavour=flavour), target=target)
    kind, fragments = _kind(target, variant, flavour), _added(target, variant, flavour)
    linux = observed_tree(target, progress) if variant.pristine else our_tree(progress)
    if flavour == distro.FLAVOUR:
        base = distro.configuration(target, progress)
        return build.compile_kernel(target, linux, kind, fragments, progress, base=base)
    return build.compile_kernel(target, linux, kind, (*target.fragments, *fragments), progress)


def prepare_own(target: Target, mine: Own, progress: Progress) -> Build:
    """Build our tree with a configuration of the user's, and features of ours on top of it.

    The user is told if options of it are off in the end, which newer kernels may well not have.
    Raises RedoubtError if this machine lacks what the configuration asks for.
    """
    doctor.need("a kernel with that configuration cannot be built", {own.GROUP}, mine.things)
    shared = _built_target(target, get_variant(target, "on"))
    built = build.compile_kernel(
        shared, our_tree(progress), own.NAME, (mine.fragment(shared),), progress, base=mine.file
    )
    if lost := list(own.changed(mine.file, built.directory / ".config")):
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        progress.note(f"Kconfig switched off {', '.join(lost[:3])}{more}, on in {mine.file}")
    return replace(built, target=target)


def _kind(target: Target, variant: Variant, flavour: str = "") -> str:
    kind = "redoubt"
    if variant.pristine:
        kind = "observed" if target.observers else "pristine"
    return kind + (f"-{flavour}" if flavour else "")


def _added(target: Target, variant: Variant, flavour: str = "") -> tuple[str, ...]:
    """The fragments that come on top of the target's."""
    ours = target.observers + (() if variant.pristine else target.ours)
    if not variant.pristine and not flavour:
        ours += target.beside
    return (*ours, *(target.flavours[flavour] if flavour else ()))


def _built_target(target: Target, variant: Variant) -> Target:
    return get_target(target.built_as) if target.built_as and not variant.pristine else target


def planned(target: Target, variant: Variant, *, flavour: str = "") -> Build:
    """The build that `prepare` makes, whether it is there or not."""
    shared = _built_target(target, variant)
    return replace(build.located(shared, _kind(shared, variant, flavour)), target=target)


def configured(target: Target, variant: Variant, *, flavour: str = "") -> dict[str, str]:
    """The options that a kernel is configured with, as far as fragments name them."""
    shared = _built_target(target, variant)
    found: dict[str, str] = {}
    for name in (*shared.fragments, *_added(shared, variant, flavour)):
        found |= build.options(build.fragment(name).read_text())
    return found


def prepare_bench(
    target: Target,
    variant: Variant,
    progress: Progress,
    *,
    events: bool = False,
    mock: bool = False,
) -> Build:
    """Build what a variant boots to be measured.

    A pristine variant is the pristine tree with the benchmark. All others are one build of our tree
    with hardened page tables, if these are what the target is measured for, and nothing that counts
    or checks; `events` adds the counters and the checker: for exact events, never for time. `mock`
    builds a kernel which, on a machine without protection keys, executes instructions of about
    their cost: for estimates, it protects nothing.
    """
    if variant.pristine:
        fragments = (*target.fragments, *target.bench)
        return build.compile_kernel(
            target, pristine_bench_tree(progress), "bench-pristine", fragments, progress
        )
    if mock and not target.bench_mock:
        raise RedoubtError(f"target {target.name} has nothing in the place of protection keys")
    kind = "bench" + ("-mock" if mock else "") + ("-events" if events else "")
    protection = "kpkeys-bench-events" if events else "kpkeys-bench"
    fragments = (
        *target.fragments,
        *target.bench_keys,
        *((protection,) if target.measures_protection else ()),
        *(target.bench_mock if mock else ()),
        *target.bench,
    )
    return build.compile_kernel(target, our_tree(progress), kind, fragments, progress)


@dataclass(frozen=True)
class Workbench:
    """A built kernel with guest programs and the host to boot on: makes machines.

    `args` are kernel arguments of all of them, `devices` options of the emulator.
    """

    build: Build
    programs: Path
    host: str
    memory_mb: int = MEMORY_MB
    args: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    def of(self, target: Target) -> Workbench:
        """What makes machines of another target that boots the same kernel."""
        return replace(self, build=replace(self.build, target=target))

    def by(self, way: Way) -> Workbench:
        """What makes machines that boot in another way."""
        return replace(self, args=(*self.args, *way.args), devices=(*self.devices, *way.devices))

    def machine(
        self, variant: Variant, *extra: str, cpus: int = 1, attacks: bool = False
    ) -> Machine:
        """The machine that boots a variant with further kernel arguments."""
        vuln = VULN if attacks else ()
        args = (*self.args, *variant.boot_args, *_NO_KUNIT, *vuln, *extra)
        return self._machine(args, cpus)

    def attack_machine(self, variant: Variant) -> Machine:
        """The machine that boots a variant to be attacked, with two CPUs and all that it takes."""
        made = self.machine(variant, attacks=True, cpus=2)
        if not self.build.target.emulator:
            return made
        return replace(made, memory_mb=max(made.memory_mb, ATTACK_MEMORY_MB))

    def _machine(self, args: tuple[str, ...], cpus: int) -> Machine:
        return Machine(
            self.build, self.programs, self.host, args, cpus, self.memory_mb,
            devices=self.devices,
        )  # fmt: skip

    def keyless_machine(self, variant: Variant, way: NoKeys) -> Machine:
        """The machine that boots a variant without protection keys."""
        made = replace(self, host=host.plain(self.build.target)).machine(variant, *way.args)
        return replace(made, cpu=way.cpu)

    def kunit_machine(self, variant: Variant, *extra: str, cpus: int = 1) -> Machine:
        """The machine that runs our KUnit suites while it boots."""
        # Else the last message about it may come into the head of a suite's report.
        unpacked = ("initramfs_async=0",) if self.build.target.emulator else ()
        args = (
            *self.args, *variant.boot_args, "kunit.enable=1", "kunit.autorun=1",
            f"kunit.filter_glob={self.build.target.kunit}", *unpacked, *extra,
        )  # fmt: skip
        return self._machine(args, cpus)

    def bench_machine(self, variant: Variant, *extra: str, cpus: int = 1) -> Machine:
        """The machine that boots a variant to be measured, with room for the workloads.

        `extra` comes last: "test_vmalloc.run_test_mask=1" in it runs that test at boot.
        """
        target = self.build.target
        args = (*variant.boot_args, *_NO_VMALLOC_TEST, *target.bench_args, *extra)
        return Machine(self.build, self.programs, self.host, args, cpus, BENCH_MEMORY_MB)


def workbench(
    target: Target, variant: Variant, chosen_host: str, progress: Progress, *, flavour: str = ""
) -> Workbench:
    """Build a kernel, as `prepare` does, and the guest programs."""
    built = prepare(target, variant, progress, flavour=flavour)
    memory_mb = DISTRO_MEMORY_MB if flavour == distro.FLAVOUR else MEMORY_MB
    args = target.flavour_args.get(flavour, ())
    programs = guest.programs(progress, target.cross_compile)
    return Workbench(built, programs, chosen_host, memory_mb, args)


def bench_workbench(
    target: Target, variant: Variant, chosen_host: str, progress: Progress, **kinds: bool
) -> Workbench:
    """Build a kernel to be measured, as `prepare_bench` does, and the guest programs."""
    built = prepare_bench(target, variant, progress, **kinds)
    return Workbench(built, guest.programs(progress, target.cross_compile), chosen_host)
