# SPDX-License-Identifier: GPL-2.0-only
"""A configuration of the user's: what is taken for one, and features that are merged into it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import MAKE, REAL_BUILD, Done, Sandbox, write_tree

from redoubt.core import paths
from redoubt.core.errors import RedoubtError, UsageError
from redoubt.linux import build, features, own
from redoubt.targets import get_target

UM, X86_64, ARM64 = (get_target(name) for name in ("um", "x86_64", "arm64"))
ASI = "MITIGATION_ADDRESS_SPACE_ISOLATION"
KCONFIG = re.compile(r"^\+?(?:menu)?config (\w+)$", re.MULTILINE)


def merged(target_name: str, *texts: str) -> dict[str, str]:
    """The options by their short names, of these features or of the default."""
    target = get_target(target_name)
    names = features.named(paths.repo(), target, texts) if texts else None
    found = build.options("\n".join(features.lines(paths.repo(), target, names)))
    return {name.removeprefix("CONFIG_"): value for name, value in found.items()}


# === Features ====================================================================================


def test_each_option_is_one_that_the_patches_bring_or_linux_has() -> None:
    there = {"ARM64_POE"}
    for file in (*paths.repo().glob("kernel/**/Kconfig"), *paths.repo().glob("patches/*/*.patch")):
        there |= set(KCONFIG.findall(file.read_text(errors="replace")))
    for target in (UM, X86_64, ARM64):
        for one in features.load(paths.repo(), target).values():
            assert {one.option, *one.on.get(target.arch, ())} <= there


def test_page_tables_alone_are_the_default() -> None:
    assert merged("x86_64") == {"X86_PKS": "y", "KPKEYS_HARDENED_PGTABLES": "y"}
    assert merged("um") == {"UML_PKU": "y", "KPKEYS_HARDENED_PGTABLES": "y"}


def test_what_is_not_named_is_off() -> None:
    options = merged("x86_64", "asi,mktme")
    assert options.pop(ASI) == options.pop("X86_MKTME") == "y"
    assert options["KPKEYS_HARDENED_CRED"] == "n"
    assert set(options.values()) == {"n"}
    # It is the processor's, and somebody may use it otherwise.
    assert "X86_PKS" not in options


def test_what_a_feature_needs_is_on() -> None:
    options = merged("arm64", "ptrauth", "linear-map")
    on = {name for name, value in options.items() if value == "y"}
    assert on == {
        "KPKEYS_HARDENED_PGTABLES", "ARM64_POE", "ARM64_KPKEYS", "KPKEYS_HARDENED_CRED",
        "KPKEYS_HARDENED_SECRET", "KPKEYS_HARDENED_PTRAUTH", "ARM64_EARLY_PGTABLE_ARENA",
    }  # fmt: skip
    assert options["KPKEYS_HARDENED_REGS"] == "n"


@pytest.mark.parametrize(("target", "name"), [(UM, "asi"), (X86_64, "ptrauth"), (ARM64, "")])
def test_a_feature_that_a_target_has_not(target: object, name: str) -> None:
    with pytest.raises(UsageError, match=f"has no feature '{name}'") as caught:
        features.named(paths.repo(), target, ["cred", name])  # type: ignore[arg-type]
    assert caught.value.hint and caught.value.hint.startswith("features: pgtables (page tables")


@pytest.mark.parametrize("text", ["[a]\n", "[a]\nabout = 1\nunknown = 2\n", "a = 1\n", "x", None])
def test_features_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    write_tree(tmp_path, {"configs/features.toml": text} if text else {})
    with pytest.raises(RedoubtError, match=r"features\.toml"):
        features.load(tmp_path, X86_64)


# === The file ====================================================================================


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "sets no option"),
        ("# Linux/arm64 7.3.4 Kernel Configuration\nCONFIG_A=y\n", "is for arm64, not for x86_64"),
        ('CONFIG_SYSTEM_TRUSTED_KEYS="debian/certs/a.pem"\n', "certificates of another source"),
    ],
)
def test_a_file_that_is_not_taken(tmp_path: Path, text: str, says: str) -> None:
    file = write_tree(tmp_path, {"config": text}) / "config"
    with pytest.raises(UsageError, match=says):
        own.read(X86_64, file, None)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x1f\x8b\xff\xff")
    for name, says in (("none", "No such file"), (".", "Is a directory"), ("binary", "no text")):
        with pytest.raises(UsageError, match=says):
            own.read(X86_64, tmp_path / name, None)


@pytest.mark.parametrize("made_for", ["x86", "x86_64"])
def test_a_file_by_both_names_of_the_architecture(tmp_path: Path, made_for: str) -> None:
    text = f'# Linux/{made_for} 7.3.4 Kernel Configuration\nCONFIG_SYSTEM_TRUSTED_KEYS=""\n'
    file = write_tree(tmp_path, {"config": text}) / "config"
    assert own.read(X86_64, file, ["cred"]) == own.Own(file, ("pgtables", "cred"))


def test_packages_keep_a_suffix_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path / "build"))
    file = write_tree(tmp_path, {"config": 'CONFIG_LOCALVERSION="-mine"\n'}) / "config"
    mine = own.Own(file)
    assert "LOCALVERSION" not in mine.fragment(X86_64, packed=True).read_text()
    file.write_text('CONFIG_LOCALVERSION=""\n')
    assert 'CONFIG_LOCALVERSION="-redoubt"\n' in mine.fragment(X86_64, packed=True).read_text()
    assert "LOCALVERSION" not in mine.fragment(X86_64).read_text()


# === The verb ====================================================================================

# Switches an option off, as Kconfig does, and says why when asked.
REFUSING = """\
*olddefconfig*KBUILD*|*KBUILD*olddefconfig*)
	grep -q "select X86_MKTME" "$out/Kconfig.asking" || exit 1
	echo "WARNING: unmet direct dependencies detected for X86_MKTME"
	echo "  Depends on [n]: X86_64 [=y] && RANDOMIZE_MEMORY [=n]"
	;;
*olddefconfig*) sed -i '/X86_MKTME=y/d' "$out/.config" ;;
"""
# The queue of this repository does not go with the small tree of the tests.
PRELUDE = "from redoubt.linux import tree\ntree.materialise = lambda pristine, *_, **__: pristine"


@pytest.fixture
def shop(sandbox: Sandbox) -> Sandbox:
    sandbox.toolchain()
    image = 'mkdir -p "$out/arch/x86/boot"; echo image > "$out/arch/x86/boot/bzImage"'
    make = MAKE.replace('echo image > "$out/linux"', image)
    sandbox.program("make", make)
    sandbox.prelude = PRELUDE
    write_tree(sandbox.where, {"mine": "CONFIG_MINE=y\n# CONFIG_OTHER is not set\n"})
    return sandbox


def test_a_kernel_of_the_users_configuration(shop: Sandbox) -> None:
    words = ("build", "x86_64", "--config", str(shop.where / "mine"), "--with", "cred,asi")
    done = shop.run(*words)
    place = shop.build / "x86_64/own"
    assert (done.code, done.out) == (0, f"{place / 'arch/x86/boot/bzImage'}\n"), done.err
    options = build.options((place / ".config").read_text())
    assert options["CONFIG_MINE"] == options["CONFIG_KPKEYS_HARDENED_CRED"] == "y"
    assert options[f"CONFIG_{ASI}"] == options["CONFIG_X86_PKS"] == "y"
    assert options["CONFIG_X86_MKTME"] == options["CONFIG_KPKEYS_HARDENED_STATE"] == "n"
    # Nothing of ours, which makes kernels for guests.
    assert "CONFIG_SERIAL_8250" not in options
    # Another choice is another configuration.
    assert shop.run(*words[:-1], "asi").code == 0
    assert build.options((place / ".config").read_text())["CONFIG_KPKEYS_HARDENED_CRED"] == "n"


def test_each_thing_is_one_of_the_table() -> None:
    lines = (paths.repo() / "scripts/prerequisites.txt").read_text().splitlines()
    table = [line.split() for line in lines if line and not line.startswith("#")]
    assert set(own._THINGS) == {row[1] for row in table if own.GROUP in row[0].split(",")}


@pytest.mark.parametrize(
    ("asks", "lacks"),
    [
        ("CONFIG_OTHER=y", None),
        ("# CONFIG_MODULE_SIG is not set", None),
        ("CONFIG_SYSTEM_TRUSTED_KEYRING=y", "libcrypto, which makes keys (libssl)"),
        ("CONFIG_MODULE_SIG=y", "libcrypto, which makes keys (libssl)"),
        ("CONFIG_KERNEL_ZSTD=y", "nozstd, which compresses (zstd)"),
    ],
)
def test_a_machine_that_lacks_what_a_configuration_asks_for(
    shop: Sandbox, asks: str, lacks: str | None
) -> None:
    table, mine = shop.where / "table", shop.where / "mine"
    table.write_text("own libcrypto libssl makes keys\nown nozstd zstd compresses\n")
    shop.env["REDOUBT_PREREQUISITES"] = str(table)
    libcrypto, zstd = own._THINGS.values()
    shop.prelude += f"""
from redoubt.linux import own
own._THINGS = {{"libcrypto": {libcrypto!r}, "nozstd": {zstd!r}}}"""
    mine.write_text(f"{asks}\n")
    done = shop.run("build", "x86_64", "--config", str(mine))
    if not lacks:
        assert done.code == 0, done.err
        return
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        "redoubt: a kernel with that configuration cannot be built here, there is no",
        f"    {lacks}",
        "    scripts/prerequisites own",
    ]
    # Nothing was begun.
    assert not (shop.build / "x86_64/own").exists()


def test_an_option_that_kconfig_refuses_is_named_with_the_reason(shop: Sandbox) -> None:
    make = (shop.where / "bin/make").read_text()
    (shop.where / "bin/make").write_text(make.replace("*olddefconfig*) ;;\n", REFUSING))
    done = shop.run("build", "x86_64", "--config", str(shop.where / "mine"), "--with", "asi,mktme")
    assert (done.code, done.out) == (1, "")
    told = [line for line in done.err.splitlines() if not line.endswith(" ...")]
    assert told[:3] == [
        "redoubt: Kconfig did not take these options:",
        "    CONFIG_X86_MKTME=y (own.config): is n",
        "        it depends on X86_64 [=y] && RANDOMIZE_MEMORY [=n]",
    ]
    assert list((shop.build / "x86_64/own").iterdir()) == []


def test_options_of_the_users_that_are_gone_are_told(shop: Sandbox) -> None:
    make = (shop.where / "bin/make").read_text()
    gone = "*olddefconfig*) sed -i '/MINE=y/d' \"$out/.config\" ;;\n"
    (shop.where / "bin/make").write_text(make.replace("*olddefconfig*) ;;\n", gone))
    done = shop.run("build", "x86_64", "--config", str(shop.where / "mine"))
    assert done.code == 0, done.err
    assert f"Kconfig switched off CONFIG_MINE, on in {shop.where / 'mine'}" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--with", "asi"], "--with is for a configuration of yours"),
        (["--config", "/nowhere"], "cannot read /nowhere: No such file"),
        (["--config", "mine", "--with", "bogus"], "target x86_64 has no feature 'bogus'"),
        (["--config", "mine", "--variant", "pristine"], "a pristine kernel has not"),
    ],
)
def test_bad_words(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    words: list[str], says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path, {"mine": "CONFIG_MINE=y\n"})
    done = call("build", "x86_64", *words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert not (tmp_path / "build").exists()


@pytest.mark.guest
@pytest.mark.skipif(not (REAL_BUILD / "tree/Kbuild").exists(), reason="no tree: redoubt tree")
def test_kconfig_itself_says_why(tmp_path: Path) -> None:
    """The real configuration of a kernel for QEMU, without what address space isolation needs."""
    base = tmp_path / "config"
    shutil.copyfile(build.fragment("x86_64"), base)
    fragment = tmp_path / "asi.config"
    fragment.write_text(f"CONFIG_{ASI}=y\n# CONFIG_TRANSPARENT_HUGEPAGE is not set\n")
    with pytest.raises(RedoubtError, match=rf"CONFIG_{ASI}=y \(asi\.config\): is n") as caught:
        build.configure(
            X86_64, REAL_BUILD / "tree", tmp_path / "out", [fragment], tmp_path / "log", base
        )
    assert "TRANSPARENT_HUGEPAGE [=n] || HUGETLB_PAGE [=n]" in caught.value.message
