# SPDX-License-Identifier: GPL-2.0-only
"""What can be built and booted. A target is data: adding one touches no code elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from redoubt.core.errors import UsageError

# Of a CPU whose uppermost bits of an address are a KeyID.
KEYID_PHYS_BITS = 40


@dataclass(frozen=True)
class Emulator:
    """A kind of machine: the program that emulates it, and with which CPU.

    `oldest` is the first version whose emulated CPU has `feature`, with `package` to get it from;
    with `ours` it is built from source with our patches. `console` is what the kernel calls the
    serial port. `planes` are the bits of a KeyID, if each has memory of its own, see planes.py.
    """

    program: str
    cpu: str
    console: str
    options: tuple[str, ...] = ()
    package: str = ""
    oldest: tuple[int, int] = (0, 0)
    feature: str = ""
    ours: bool = False
    planes: int = 0


# Protection keys for the kernel's own pages (PKS) came with 7.2; those for user pages are older.
PC = Emulator(
    "qemu-system-x86_64", "max", "ttyS0",
    package="qemu-system-x86", oldest=(7, 2), feature="protection keys",
)  # fmt: skip

# The same with memory of its own for each of three KeyIDs, which only Intel's CPUs have.
PLANES = replace(
    PC, cpu=f"max,vendor=GenuineIntel,phys-bits={KEYID_PHYS_BITS}", options=("-machine", "q35"),
    planes=2,
)  # fmt: skip

# PCIDs, and a TLB that keeps what it may, are in no release. The firmware is Debian's.
PCIDS = replace(
    PC, ours=True, options=("-L", "/usr/share/seabios", "-L", "/usr/share/qemu")
)  # fmt: skip

# Permission overlays (POE) are in no release. Writes of their register are seen as late as the
# architecture permits, so that a missing barrier shows.
_OVERLAYS = "max,x-por-late=on,x-vbar-late=on"
VIRT = Emulator("qemu-system-aarch64", _OVERLAYS, "ttyAMA0", ("-machine", "virt"), ours=True)


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
class NoKeys:
    """A way to boot without protection keys: kernel arguments, or another model of the CPU."""

    args: tuple[str, ...] = ()
    cpu: str | None = None

    def __str__(self) -> str:
        return " ".join((*(("-cpu " + self.cpu,) if self.cpu else ()), *self.args))


@dataclass(frozen=True)
class Way:
    """Another way to boot a protected kernel: kernel arguments, and options of the emulator."""

    name: str
    args: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """A kernel that can be built and booted.

    `fragments` (of configs/kernel/) make it boot, `ours` switch our work on. A kernel that is
    tested and has no flavour gets `beside` as well. With `built_as`, that of another target is
    tested: building one takes longer than all tests of it. A measured kernel, pristine ones as
    well, gets `bench`; `measured` are the variants it is measured in, or all if there are none.
    `bench_keys` is what it needs for its protection keys, and `bench_mock` what puts instructions
    that cost as much in their place where there are none, or empty if that cannot be done.
    `flavours` are what some tests add, by name, and `flavour_args` what their boots get. `image`
    and `vmlinux` are paths in the build directory. The flavour `distro` is not added to
    `fragments` but to `distro_config`, a file of the distribution's package of configurations for
    that architecture.

    `emulator` is the machine it boots on, from an initramfs; without one it is User-Mode Linux,
    a process. Every boot gets `boot_args`, measured ones also `bench_args`. `no_keys` are the ways
    to take the protection keys away, `ways` others to boot with them. `odd_cpu` is a model of which
    the second CPU has no keys, or empty, and `ignoring_cpu` one that does not enforce its keys, of
    user mode either. `kunit` is the pattern of our suites, of which
    `kunit_later` may be run once more when the kernel has booted; `architectures` is what of arch/
    is built for it. `programs` of the guest test what user mode sees of its keys.

    `magic` is what its images have, and how many bytes after their begin.

    `debian` is Debian's name of the architecture, or empty if there are no packages for it. A
    kernel in a package has `shipped` in place of `ours`, on top of `distro_config`, or of
    `fragments` and `small`.

    `observers` are topics that do nothing but look; its pristine kernels have them, too, with the
    fragments of these names. What they look at is the linear map, if there are any.
    """

    name: str
    arch: str
    fragments: tuple[str, ...]
    ours: tuple[str, ...]
    image: str
    vmlinux: str
    variants: tuple[Variant, ...]
    magic: tuple[int, bytes]
    beside: tuple[str, ...] = ()
    built_as: str = ""
    bench: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    bench_keys: tuple[str, ...] = ()
    bench_mock: tuple[str, ...] = ()
    no_keys: tuple[NoKeys, ...] = ()
    odd_cpu: str = ""
    ignoring_cpu: str = ""
    ways: tuple[Way, ...] = ()
    architectures: tuple[str, ...] = ()
    kunit: str = "kpkeys*"
    kunit_later: tuple[str, ...] = ("kpkeys_levels", "kpkeys_pgtables")
    programs: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()
    flavours: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    flavour_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    distro_config: str = ""
    debian: str = ""
    shipped: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    emulator: Emulator | None = None
    boot_args: tuple[str, ...] = ()
    bench_args: tuple[str, ...] = ()
    cross_compile: str = ""

    @property
    def compiler(self) -> str:
        """The C compiler that builds the kernel."""
        return f"{self.cross_compile}gcc"

    @property
    def audit(self) -> str:
        """The policy for writers of the pkey register, a file of configs/audit/."""
        return f"{self.arch}.toml"

    @property
    def tested(self) -> tuple[str, ...]:
        """The fragments of the kernel that tests boot, in the order of merging."""
        return (*self.fragments, *self.observers, *self.ours, *self.beside)

    @property
    def measures_protection(self) -> bool:
        """Are variants with protected page tables among those that are measured?"""
        return not self.measured or "on" in self.measured

    @property
    def keyid_bits(self) -> int:
        """The bits of the KeyIDs that its machine has memory for, 0 if it has none."""
        return self.emulator.planes if self.emulator else 0


_VARIANTS = (
    Variant("pristine", (), pristine=True),
    Variant("off", ("kpkeys_hardened_pgtables=off",)),
    Variant("on-unbatched", ("kpkeys_hardened_pgtables=on", "kpkeys.batch=off"), protected=True),
    Variant("on", ("kpkeys_hardened_pgtables=on",), protected=True),
)

# Address space isolation, alone: emulated machines are given page table isolation.
ASI_ARGS = ("asi=on", "pti=off")
# Compared with "off", as that is without keys.
_ISOLATED = Variant("asi", ("kpkeys_hardened_pgtables=off", *ASI_ARGS))
# And leaving it for each file that is read or written, and each page that is copied.
_LEAVING = Variant("asi-leaving", (*_ISOLATED.boot_args, "asi_ephmap=off"))

# Huge pages would hide what an entry costs; large folios go to the workload that asks for them.
_SMALL_PAGES = ("transparent_hugepage=never", "thp_anon=64K:madvise")
# A kernel that boots says things beside its first program, on the same serial port.
ONLY_WARNINGS = "loglevel=5"

# Flavours that have one feature, on top of page tables and nothing else: what each needs.
ONE_FEATURE = "only-pgtables"
ALONE = (ONE_FEATURE, "only-state", "only-cred", "only-regs", "only-secret")

UM = Target(
    name="um",
    arch="um",
    fragments=("base", "um"),
    ours=("kpkeys", "um-kpkeys", "kunit", "vuln", "bench"),
    bench=("bench", "bench-programs", "bench-vmalloc", "bench-um"),
    bench_keys=("um-kpkeys",),
    bench_mock=("bench-um-mock",),
    image="linux",
    vmlinux="linux",
    magic=(0, b"\x7fELF"),
    architectures=("um", "x86"),
    variants=_VARIANTS,
    no_keys=(NoKeys(args=("nopku",)),),
    flavours={
        "debug": ("debug", "debug-um"),
        "gdb": ("gdb",),
        **{name: (ONE_FEATURE, *([name] if name != ONE_FEATURE else [])) for name in ALONE},
    },
)

X86_64 = Target(
    name="x86_64",
    arch="x86_64",
    fragments=("base", "x86_64"),
    ours=("kpkeys", "x86-kpkeys", "x86-asi", "kunit", "x86-kunit", "vuln", "vuln-jit", "bench"),
    beside=("x86-kaslr", "x86-mktme", "x86-mktme-debug"),
    bench=("bench", "bench-programs", "bench-vmalloc", "bench-emulated", "bench-x86_64"),
    bench_keys=("x86-kpkeys", "x86-asi"),
    image="arch/x86/boot/bzImage",
    vmlinux="vmlinux",
    # The protocol of Documentation/arch/x86/boot.rst.
    magic=(0x202, b"HdrS"),
    architectures=("x86",),
    kunit="*",
    variants=(*_VARIANTS, _ISOLATED, _LEAVING),
    no_keys=(NoKeys(cpu="max,-pks"), NoKeys(args=("nopks",))),
    ways=(
        Way("address space isolation", args=ASI_ARGS),
        Way("address space isolation, 4 levels, with PTI", args=(*ASI_ARGS, "no5lvl", "pti=on")),
    ),
    flavours={
        "bpf": ("selftests", "selftests-x86_64", "selftests-bpf"),
        "debug": ("debug", "debug-x86_64"),
        "distro": ("distro",),
        "gdb": ("gdb", "share"),
        "image": ("image", "image-x86_64"),
        "oracle": ("oracle-x86_64",),
        "plain": ("plain", "plain-x86_64"),
        "selftests": ("selftests", "selftests-x86_64"),
        "share": ("share",),
    },
    flavour_args={
        # With five levels, Linux's KASAN takes an interrupt for a wild access if it comes while
        # identify_cpu() finds out whether the CPU has them. Also, four levels are seen here.
        "debug": ("no5lvl",),
        # Page tables of the kernel change as well, whenever a huge page comes or goes.
        "selftests": ("hugetlb_free_vmemmap=on",),
    },
    distro_config="config.amd64_none_amd64",
    debian="amd64",
    shipped=("x86-kpkeys", "deb"),
    small=("deb-small",),
    emulator=PC,
    # Each process has two topmost page tables then. An emulated CPU is not given them by itself.
    # And on a busy machine the emulated timer is late, and taken for broken: the kernel panics.
    boot_args=("pti=on", "no_timer_check"),
    # Without page table isolation, of which the costs are the same for all variants.
    bench_args=(*_SMALL_PAGES, "pti=off"),
)

# The same kernel on a CPU that has PCIDs and INVPCID, and whose TLB keeps what it may: a flush that
# is forgotten is seen.
X86_64_PCID = replace(
    X86_64,
    name="x86_64-pcid",
    built_as=X86_64.name,
    ways=(
        *X86_64.ways,
        Way("address space isolation, without INVPCID", args=(*ASI_ARGS, "noinvpcid")),
    ),
    flavours={},
    flavour_args={},
    distro_config="",
    debian="",
    emulator=PCIDS,
)

_ENCRYPTED = (f"mktme_emul={PLANES.planes}",)

# Memory encrypted with several keys, as far as an emulator can stand in for it.
X86_64_MKTME = replace(
    X86_64,
    name="x86_64-mktme",
    fragments=(*X86_64.fragments, "x86-kaslr"),
    built_as=X86_64.name,
    # Both boot one kernel, which can check each entry: for KeyIDs, so only here.
    boot_args=(*X86_64.boot_args, "page_table_check=on"),
    # Encryption alone.
    measured=("pristine", "off"),
    bench_keys=("x86-mktme",),
    variants=(
        *(
            one if one.pristine else replace(one, boot_args=(*one.boot_args, *_ENCRYPTED))
            for one in _VARIANTS
        ),
        # What a machine without that makes of the same kernel.
        Variant("plain", ("kpkeys_hardened_pgtables=on",), protected=True),
    ),
    no_keys=(NoKeys(args=("nopks",)),),
    ways=(),
    flavours={},
    flavour_args={},
    distro_config="",
    debian="",
    emulator=PLANES,
)

ARM64 = Target(
    name="arm64",
    arch="arm64",
    fragments=("base", "arm64"),
    ours=(
        "kpkeys",
        "arm64-kpkeys",
        "arm64-linear-map",
        "kunit",
        "arm64-kunit",
        "vuln",
        "vuln-jit",
        "bench",
    ),
    bench=("bench", "bench-programs", "bench-vmalloc", "bench-emulated", "bench-arm64"),
    bench_keys=("arm64-kpkeys",),
    image="arch/arm64/boot/Image",
    vmlinux="vmlinux",
    # The header of Documentation/arch/arm64/booting.rst.
    magic=(56, b"ARM\x64"),
    variants=_VARIANTS,
    architectures=("arm64",),
    # Those of the linear map as well.
    kunit="*",
    # Its root is a constant, and written otherwise then.
    kunit_later=("kpkeys_levels", "kpkeys_pgtables", "kpkeys_arm64"),
    programs=("/bin/overlays",),
    # A CPU without overlays, and a hypervisor that does not know their register.
    no_keys=(NoKeys(cpu="cortex-a76"), NoKeys(cpu=f"{_OVERLAYS},x-por-el1-undef=on")),
    odd_cpu=f"{_OVERLAYS},x-s1poe-lacking=2",
    ignoring_cpu=f"{_OVERLAYS},x-poe-ignored=on",
    ways=(
        # And with interrupts that come where they are off, which takes a newer controller of them.
        Way(
            "EL2 with pseudo-NMIs",
            args=("irqchip.gicv3_pseudo_nmi=1",),
            devices=("-machine", "virtualization=on,gic-version=3"),
        ),
        # The linear map in blocks, of which some are split; and all of it split, for the others.
        Way(
            "blocks, EL2 without VHE",
            args=("kpkeys_bbml3=on", "id_aa64mmfr1.vh=0"),
            devices=("-machine", "virtualization=on"),
        ),
        Way("blocks split", args=("kpkeys_bbml3=boot",)),
    ),
    observers=("linear-map-stats",),
    flavours={
        "16k": ("arm64-16k",),
        "64k": ("arm64-64k",),
        "52-bit": ("arm64-52-bit",),
        "debug": ("debug", "debug-arm64"),
        "gdb": ("gdb",),
        "image": ("image", "image-arm64"),
        "plain": ("plain", "plain-arm64"),
        "selftests": ("selftests", "selftests-arm64"),
    },
    distro_config="config.arm64_none_arm64",
    debian="arm64",
    shipped=("arm64-kpkeys", "arm64-linear-map", "deb", "deb-arm64"),
    small=("deb-small", "deb-small-arm64"),
    emulator=VIRT,
    bench_args=(*_SMALL_PAGES, ONLY_WARNINGS),
    cross_compile="aarch64-linux-gnu-",
)

_ALL = (UM, X86_64, X86_64_PCID, X86_64_MKTME, ARM64)
TARGETS = {target.name: target for target in _ALL}


def get_target(name: str) -> Target:
    """The target of that name."""
    if name not in TARGETS:
        raise UsageError(f"unknown target '{name}'", "targets: " + ", ".join(TARGETS))
    return TARGETS[name]


def get_variant(target: Target, name: str) -> Variant:
    """The variant of that name of a target."""
    variants = {variant.name: variant for variant in target.variants}
    if name not in variants:
        raise UsageError(
            f"unknown variant '{name}' of target {target.name}", "variants: " + ", ".join(variants)
        )
    return variants[name]


def needs_flavour(target: Target, name: str) -> None:
    """Raise UsageError if a target has no such flavour; the usual kernel has an empty name."""
    if name and name not in target.flavours:
        raise UsageError(
            f"target {target.name} has no flavour '{name}'",
            "flavours: " + (", ".join(target.flavours) or "none"),
        )
