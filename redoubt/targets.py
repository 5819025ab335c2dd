# SPDX-License-Identifier: GPL-2.0-only
"""What can be built and booted. A target is data: adding one touches no code elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from redoubt.errors import RedoubtError


@dataclass(frozen=True)
class Variant:
    """A way to boot a target.

    `pristine` is Linux without our work; the others are one build of our tree, told apart by
    `boot_args`.
    """

    name: str
    boot_args: tuple[str, ...]
    pristine: bool = False
    protected: bool = False


@dataclass(frozen=True)
class Target:
    """A kernel that can be built and booted.

    `fragments` (names in configs/) make it boot, `ours` switch our work on, `debug` is added for
    the long tests. A measured kernel, pristine ones as well, gets `bench`; `bench_keys` is what it
    needs for its protection keys, and `bench_mock` what puts instructions that cost as much in
    their place where there are none, or empty if that cannot be done. `image` and `vmlinux` are
    paths in the build directory.
    """

    name: str
    arch: str
    fragments: tuple[str, ...]
    ours: tuple[str, ...]
    debug: tuple[str, ...]
    bench: tuple[str, ...]
    bench_keys: tuple[str, ...]
    bench_mock: tuple[str, ...]
    image: str
    vmlinux: str
    audit: str
    variants: tuple[Variant, ...]
    cross_compile: str = ""


UM = Target(
    name="um",
    arch="um",
    fragments=("base", "um"),
    ours=("kpkeys", "um-kpkeys", "kunit", "vuln", "bench"),
    debug=("debug",),
    bench=("bench", "bench-vmalloc", "bench-um"),
    bench_keys=("um-kpkeys",),
    bench_mock=("bench-um-mock",),
    image="linux",
    vmlinux="linux",
    audit="audit-um.toml",
    variants=(
        Variant("pristine", (), pristine=True),
        Variant("off", ("kpkeys_hardened_pgtables=off",)),
        Variant(
            "on-unbatched",
            ("kpkeys_hardened_pgtables=on", "kpkeys.batch=off"),
            protected=True,
        ),
        Variant("on", ("kpkeys_hardened_pgtables=on",), protected=True),
    ),
)

TARGETS = {target.name: target for target in (UM,)}


def get_target(name: str) -> Target:
    """The target of that name.

    Raises RedoubtError naming the targets there are.
    """
    if name not in TARGETS:
        raise RedoubtError(f"unknown target '{name}'", "targets: " + ", ".join(TARGETS))
    return TARGETS[name]


def get_variant(target: Target, name: str) -> Variant:
    """The variant of that name of a target.

    Raises RedoubtError naming the variants there are.
    """
    for variant in target.variants:
        if variant.name == name:
            return variant
    raise RedoubtError(
        f"unknown variant '{name}' of target {target.name}",
        "variants: " + ", ".join(variant.name for variant in target.variants),
    )
