# SPDX-License-Identifier: GPL-2.0-only
"""Which tree and which options a variant is built from, and how its machines boot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress, Silent
from redoubt.linux import build, source, topics, tree
from redoubt.linux.build import Build
from redoubt.machine import host, kernels
from redoubt.targets import ARM64, TARGETS, UM, X86_64, Target, get_variant

OURS = Path("/ours")
BENCH_ONLY = Path("/bench-only")
PRISTINE, OFF, ON = (get_variant(UM, name) for name in ("pristine", "off", "on"))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, str, tuple[str, ...]]]:
    """What was asked to be compiled: source, kind, fragments."""
    asked = []

    def compile_kernel(
        target: Target, source: Path, kind: str, fragments: Sequence[str], _: Progress
    ) -> Build:
        asked.append((source, kind, tuple(fragments)))
        return Build(target, Path(kind), Path("image"), Path("vmlinux"))

    monkeypatch.setattr(build, "compile_kernel", compile_kernel)
    monkeypatch.setattr(kernels, "our_tree", lambda _: OURS)
    monkeypatch.setattr(kernels, "pristine_bench_tree", lambda _: BENCH_ONLY)
    return asked


Compiled = list[tuple[Path, str, tuple[str, ...]]]


def test_a_pristine_kernel_is_measured_with_nothing_of_ours_but_the_benchmark(
    compiled: Compiled,
) -> None:
    for events in (False, True):
        kernels.prepare_bench(UM, PRISTINE, Silent(), events=events)
    assert set(compiled) == {(BENCH_ONLY, "bench-pristine", (*UM.fragments, *UM.bench))}


def test_all_other_variants_are_one_build(compiled: Compiled) -> None:
    for variant in UM.variants:
        if not variant.pristine:
            kernels.prepare_bench(UM, variant, Silent())
    assert len(set(compiled)) == 1
    assert compiled[0][:2] == (OURS, "bench")


def test_kinds_of_build_do_not_share_a_directory(compiled: Compiled) -> None:
    for variant in (PRISTINE, ON):
        for events in (False, True):
            for mock in (False, True):
                kernels.prepare_bench(UM, variant, Silent(), events=events, mock=mock)
    fragments = {kind: names for _, kind, names in compiled}
    assert len(fragments) == 5
    assert all(fragments[kind] == names for _, kind, names in compiled)


def options_of(names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        found |= build.options(build.fragment(name).read_text())
    return found


@pytest.mark.parametrize(
    ("where", "targets"),
    [
        ("mm/kpkeys/tests", (UM, X86_64, ARM64)),
        ("mm/asi/tests", (X86_64,)),
        ("arch/x86/mm/mktme/tests", (X86_64,)),
    ],
)
def test_the_kernels_own_tool_builds_the_tests_as_we_do(
    where: str, targets: tuple[Target, ...]
) -> None:
    text = (paths.repo() / "kernel" / where / ".kunitconfig").read_text()
    wanted = build.options(text)
    # The comments say which words each architecture takes.
    words = dict(re.findall(r"^# +(\w+) +(--.*)$", text, re.MULTILINE))
    assert {*words} == {target.name for target in targets}
    for target in targets:
        added = re.findall(r"--kconfig_add (CONFIG_\w+)=y", words[target.name])
        have = kernels.configured(target, get_variant(target, "on"))
        asked = wanted | dict.fromkeys(added, "y")
        assert {name: have.get(name) for name in asked} == asked
        assert (f"--arch={target.arch}" in words[target.name].split()) == (target != UM)


def test_each_feature_has_one_for_the_kernels_own_tool() -> None:
    files = [*(paths.repo() / "kernel").rglob(".kunitconfig")]
    asked = [name for file in files for name in build.options(file.read_text())]
    suites = {f"CONFIG_{one}_KUNIT_TEST" for one in ("KPKEYS", "ASI", "X86_MKTME")}
    assert suites == {name for name in asked if name.endswith("_KUNIT_TEST")}
    assert asked.count("CONFIG_KUNIT") == len(files) == 3


def test_nothing_that_counts_or_checks_is_timed(compiled: Compiled) -> None:
    kernels.prepare_bench(UM, ON, Silent())
    kernels.prepare_bench(UM, ON, Silent(), events=True)
    timed, counted = (options_of(names) for _, _, names in compiled)
    different = {name for name in timed | counted if timed.get(name) != counted.get(name)}
    assert different == {"CONFIG_KPKEYS_STATS", "CONFIG_KPKEYS_CHECK"}
    assert timed["CONFIG_KPKEYS_STATS"] == "n"
    for name in ("DEBUG", "KUNIT_TEST", "VULN_TEST"):
        assert timed.get(f"CONFIG_KPKEYS_{name}", "n") == "n"
    assert timed["CONFIG_KPKEYS_HARDENED_PGTABLES"] == "y"


@pytest.mark.parametrize(("target", "keys"), [(UM, "CONFIG_UML_PKU"), (X86_64, "CONFIG_X86_PKS")])
def test_pristine_and_ours_are_measured_with_the_same_options_but_ours(
    compiled: Compiled, target: Target, keys: str
) -> None:
    kernels.prepare_bench(target, PRISTINE, Silent())
    kernels.prepare_bench(target, ON, Silent())
    pristine, ours = (options_of(names) for _, _, names in compiled)
    different = {name for name in pristine | ours if pristine.get(name) != ours.get(name)}
    assert keys in different
    others = {keys, "CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION"}
    assert all("KPKEYS" in name or name in others for name in different)


def flavoured(target: Target) -> list[str]:
    """The fragments of all flavours of a target."""
    return [name for names in target.flavours.values() for name in names]


@pytest.mark.slow
def test_a_flavour_is_added_to_either_kernel(compiled: Compiled) -> None:
    for variant in (PRISTINE, ON):
        kernels.prepare(UM, variant, Silent(), flavour="debug")
    (_, pristine, plain), (_, ours, hardened) = compiled
    assert (pristine, ours) == ("pristine-debug", "redoubt-debug")
    assert plain == (*UM.fragments, *UM.flavours["debug"])
    assert hardened == (*UM.fragments, *UM.ours, *UM.flavours["debug"])


def test_a_flavour_that_a_target_has_not_is_named(compiled: Compiled) -> None:
    with pytest.raises(RedoubtError, match="no flavour 'mint'") as caught:
        kernels.prepare(UM, ON, Silent(), flavour="mint")
    assert caught.value.hint.startswith("flavours: debug, ")
    assert compiled == []


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_target_has_no_option_of_another(target: Target) -> None:
    names = options_of((*target.fragments, *target.ours, *flavoured(target), *target.bench))
    other = {
        "um": ("CONFIG_X86_", "CONFIG_ACPI", "CONFIG_PCI", "CONFIG_ARM64_"),
        "x86_64": ("CONFIG_UML_", "CONFIG_ARM64_"),
        "x86_64-pcid": ("CONFIG_UML_", "CONFIG_ARM64_"),
        "x86_64-mktme": ("CONFIG_UML_", "CONFIG_ARM64_"),
        "arm64": ("CONFIG_UML_", "CONFIG_X86_"),
    }
    assert not [name for name in names if name.startswith(other[target.name])]


def test_a_target_that_cannot_be_mocked_says_so(compiled: Compiled) -> None:
    with pytest.raises(RedoubtError, match="nothing in the place of protection keys"):
        kernels.prepare_bench(replace(UM, bench_mock=()), ON, Silent(), mock=True)
    assert compiled == []


def test_the_benchmark_alone_is_a_part_of_the_queue() -> None:
    part = topics.part(paths.repo(), ["bench"])
    assert part.files
    assert part.patches
    whole = tree.queue(paths.repo())
    assert set(part.files) < set(whole.files)
    assert list(part.patches) == [p for p in whole.patches if p.parent.name == "bench"]


def test_a_topic_that_is_none_is_named() -> None:
    with pytest.raises(RedoubtError, match="no topic nonsense"):
        topics.part(paths.repo(), ["bench", "nonsense"])


def test_a_measured_machine_has_room_and_runs_no_test_at_boot() -> None:
    made = kernels.Workbench(Build(UM, Path("d"), Path("i"), Path("v")), Path("p"), host.NATIVE)
    machine = made.bench_machine(OFF, "test_vmalloc.run_test_mask=1")
    assert machine.memory_mb >= 3 * 1024
    assert machine.args[: len(OFF.boot_args)] == OFF.boot_args
    # The last one counts.
    assert [arg for arg in machine.args if "run_test_mask" in arg] == [
        "test_vmalloc.run_test_mask=0", "test_vmalloc.run_test_mask=1",
    ]  # fmt: skip


@pytest.mark.parametrize(("target", "unpacks_first"), [(X86_64, True), (UM, False)])
def test_kunit_waits_for_the_initramfs_where_there_is_one(
    target: Target, unpacks_first: bool
) -> None:
    built = Build(target, Path("d"), Path("i"), Path("v"))
    made = kernels.Workbench(built, Path("p"), host.EMULATED)
    args = made.kunit_machine(get_variant(target, "on")).args
    assert ("initramfs_async=0" in args) is unpacks_first


def test_fixes_of_linux_are_in_the_kernel_that_ours_is_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def materialise(pristine: Path, dest: Path, *, part: tree.Queue, progress: Progress) -> Path:
        made.extend(patch.parent.name for patch in part.patches)
        return dest

    found = source.Source(Path("/pristine"), "7.3.4")
    monkeypatch.setattr(source, "obtain", lambda _: found)
    monkeypatch.setattr(tree, "materialise", materialise)
    concerns = topics.Topic.concerns
    monkeypatch.setattr(topics.Topic, "concerns", lambda _, names: names == ARM64.architectures)
    assert kernels.fixed_tree(X86_64, Silent()) == found.path
    assert made == []
    assert kernels.fixed_tree(ARM64, Silent()) == paths.build_dir() / "tree-fixed"
    assert set(made) == {"fixes"}
    # Some are of files that all targets have.
    monkeypatch.setattr(topics.Topic, "concerns", concerns)
    assert kernels.fixed_tree(X86_64, Silent()) == paths.build_dir() / "tree-fixed"
