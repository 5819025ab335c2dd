# SPDX-License-Identifier: GPL-2.0-only
"""Configuring and building: every option takes effect, and nothing half-built is trusted."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import REAL_BUILD, Done, Sandbox

from redoubt.core import paths
from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import build
from redoubt.targets import TARGETS, get_target, get_variant


def written(where: Path, name: str, text: str) -> Path:
    file = where / name
    file.write_text(text)
    return file


# === Fragments ===================================================================================


def test_every_line_took_effect(tmp_path: Path) -> None:
    config = written(tmp_path, ".config", 'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_S="x y"\n')
    fragment = written(
        tmp_path, "f.config", '# why\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_S="x y"\n'
    )
    build.verify(config, [fragment])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("CONFIG_GONE=y", "CONFIG_GONE=y (f.config): is n"),
        ("CONFIG_B=y", "CONFIG_B=y (f.config): is n"),
        ("CONFIG_N=5", "CONFIG_N=5 (f.config): is 4"),
        ("# CONFIG_A is not set", "CONFIG_A=n (f.config): is y"),
    ],
)
def test_an_option_that_was_dropped_is_named(tmp_path: Path, line: str, says: str) -> None:
    config = written(tmp_path, ".config", "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_N=4\n")
    fragment = written(tmp_path, "f.config", f"CONFIG_A=y\n{line}\n")
    with pytest.raises(RedoubtError, match="Kconfig did not take") as caught:
        build.verify(config, [fragment])
    assert f"    {says}" in caught.value.message.splitlines()
    assert len(caught.value.message.splitlines()) == 2


def test_what_is_not_set_may_be_absent(tmp_path: Path) -> None:
    # Its dependencies are off, so Kconfig does not mention it.
    config = written(tmp_path, ".config", "CONFIG_A=y\n")
    build.verify(config, [written(tmp_path, "f.config", "# CONFIG_B is not set\n")])


def test_the_last_fragment_wins(tmp_path: Path) -> None:
    config = written(tmp_path, ".config", "CONFIG_A=y\n")
    first = written(tmp_path, "one.config", "# CONFIG_A is not set\n")
    second = written(tmp_path, "two.config", "CONFIG_A=y\n")
    build.verify(config, [first, second])
    with pytest.raises(RedoubtError, match=r"CONFIG_A=n \(one\.config\): is y"):
        build.verify(config, [second, first])


def test_the_targets_fragments_exist_and_set_something() -> None:
    for target in TARGETS.values():
        flavours = (name for names in target.flavours.values() for name in names)
        measured = (*target.bench, *target.bench_keys, *target.bench_mock)
        for name in (*target.fragments, *target.ours, *flavours, *measured):
            assert build.options(build.fragment(name).read_text()), name
        assert (paths.repo() / "configs" / "audit" / target.audit).exists()


@pytest.mark.guest
@pytest.mark.skipif(not (REAL_BUILD / "src/Kbuild").exists(), reason="no source: redoubt source")
def test_kconfig_itself_drops_an_option(tmp_path: Path) -> None:
    """The real tinyconfig and merge, with an option that exists and one that cannot be had."""
    fragment = written(tmp_path, "f.config", "CONFIG_PRINTK=y\nCONFIG_NO_SUCH_OPTION=y\n")
    target = get_target("um")
    with pytest.raises(RedoubtError) as caught:
        build.configure(target, REAL_BUILD / "src", tmp_path, [fragment], tmp_path / "log")
    assert caught.value.message.splitlines() == [
        "Kconfig did not take these options:",
        "    CONFIG_NO_SUCH_OPTION=y (f.config): is n",
    ]
    # Nothing is there that the next run could take for a configuration.
    assert not (tmp_path / ".redoubt-config").exists()
    assert not (tmp_path / ".config").exists()


def test_a_target_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RedoubtError, match="aarch64-linux-gnu-gcc not found") as caught:
        build.compile_kernel(get_target("arm64"), tmp_path, "x", (), Silent(), directory=tmp_path)
    assert caught.value.hint == "scripts/prerequisites arm64"


# === The verb ====================================================================================


def test_it_builds_once(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    done = sandbox.run("build", "um", "--variant", "pristine")
    image = sandbox.build / "um/pristine/linux"
    assert (done.code, done.out) == (0, f"{image}\n"), done.err
    assert (sandbox.build / "um/pristine/linux.stripped").read_text() == "image\n"
    config = sandbox.build / "um/pristine/.config"
    before = config.stat().st_mtime_ns
    assert sandbox.run("build", "um", "--variant", "pristine").code == 0
    assert config.stat().st_mtime_ns == before


def test_a_build_that_fails(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    (sandbox.control / "broken").touch()
    done = sandbox.run("build", "um", "--variant", "pristine")
    assert (done.code, done.out) == (1, "")
    assert "building um (pristine) failed (exit 2):" in done.err
    assert "mm/memory.c:1: error: no" in done.err
    assert str(sandbox.build / "log/build-um-pristine.log") in done.err
    assert "Traceback" not in done.err
    (sandbox.control / "broken").unlink()
    assert sandbox.run("build", "um", "--variant", "pristine").code == 0


def test_no_compiler_tools(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    (sandbox.where / "bin/make").unlink()
    sandbox.env["PATH"] = str(sandbox.where / "bin")
    done = sandbox.run("build", "um", "--variant", "pristine")
    assert done.code == 1
    assert "make: not found" in done.err
    assert "redoubt doctor" in done.err


def test_two_builds_wait_for_each_other(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    (sandbox.build / ".locks").mkdir(parents=True)
    with (sandbox.build / ".locks/run").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = sandbox.start("build", "um", "--variant", "pristine")
        assert process.stderr
        assert process.stderr.readline().startswith("waiting for another redoubt")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        assert not (sandbox.build / "um").exists()
    assert sandbox.finish(process).code == 0


def test_what_a_killed_run_left_is_removed(sandbox: Sandbox) -> None:
    sandbox.toolchain()
    for name in (".src-abc/tree", ".tree-abc/tree"):
        (sandbox.build / name).mkdir(parents=True)
    assert sandbox.run("source").code == 0
    assert [entry.name for entry in sandbox.build.iterdir()] == [".locks"]


@pytest.mark.parametrize(
    ("words", "says", "choices"),
    [
        (["build", "vax"], "unknown target 'vax'", "targets: um"),
        (["build", "um", "--variant", "maybe"], "unknown variant 'maybe'", "pristine, off, on"),
        (["run", "vax"], "unknown target 'vax'", "targets: um"),
        (["run", "um", "--host", "moon", "--", "x"], "unknown host 'moon'", "native, emulated"),
        (["attack", "vax"], "unknown target 'vax'", "targets: um"),
        (["attack", "um", "--host", "moon"], "unknown host 'moon'", "auto, native, emulated"),
        (["check", "um", "--variant", "maybe"], "unknown variant 'maybe'", "pristine, off, on"),
        (["check", "um", "--host", "moon"], "unknown host 'moon'", "auto, native, emulated"),
        (["audit", "vax"], "unknown target 'vax'", "targets: um"),
        (["offcheck", "vax"], "unknown target 'vax'", "targets: um"),
        (["test", "um", "vax"], "unknown target 'vax'", "targets: um"),
        (["test", "--host", "moon"], "unknown host 'moon'", "auto, native, emulated"),
        (["test", "um", "--host", "native", "x86_64"], "x86_64 has no native host", "leave --host"),
        (["test", "um", "--only", "Debug"], "there is no step 'Debug'", "debug flavour; "),
        (["attack", "um", "--only", "x"], "there is no attack 'x'", "attacks: own-pte, "),
        (["attack", "um", "--flavour", "x"], "target um has no flavour 'x'", "flavours: debug"),
        (["stress", "um", "--flavour", "x"], "target um has no flavour 'x'", "flavours: debug"),
        (["check", "um", "--variant", "off"], "variant off protects nothing", "variant on"),
        (["selftests", "um"], "target um has no flavour 'selftests'", "flavours: debug"),
        (["mktme", "--bug", "x"], "unknown bug 'x'", "bugs: "),
        (["mktme", "um"], "the machine of um has no memory under KeyIDs", "x86_64-mktme"),
        (["exits", "um"], "um has no address space isolation", "x86_64"),
        (["linear-map", "um"], "nothing counts what the linear map of um takes", "targets: arm64"),
        (["bench", "vax"], "unknown target 'vax'", "targets: um"),
        (["bench", "um", "spoon"], "unknown workload 'spoon'", "workloads: "),
        (["bench", "um", "--kind", "speed"], "unknown kind 'speed'", "kinds: time"),
        (["deb", "um"], "there are no packages for um", "targets: x86_64, arm64"),
    ],
)
def test_unknown_names_are_met_with_the_choices(
    call: Callable[..., Done], words: list[str], says: str, choices: str
) -> None:
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    message, hint = done.err.splitlines()
    assert message.startswith(f"redoubt: {says}")
    assert choices in hint


def test_a_targets_variants() -> None:
    target = get_target("um")
    assert get_variant(target, "pristine").pristine
    assert get_variant(target, "on").boot_args == ("kpkeys_hardened_pgtables=on",)
    assert [v.name for v in target.variants if v.protected] == ["on-unbatched", "on"]


# === ccache ======================================================================================


@pytest.mark.skipif(not shutil.which("ccache"), reason="there is no ccache")
@pytest.mark.parametrize("name", ["wrapped.S", "wrapped.c"])
def test_what_the_assembler_includes_is_never_an_earlier_one(tmp_path: Path, name: str) -> None:
    """The kernel's image is wrapped up like that, and ccache alone does not look at it."""
    code = '.incbin "data"\n'
    source = written(tmp_path, name, code if name.endswith(".S") else f"asm({json.dumps(code)});\n")
    env = {**os.environ, **build.environment(), "CCACHE_DIR": str(tmp_path / "cache")}

    def compiled(data: str, *compiler: str) -> bytes:
        written(tmp_path, "data", data)
        words = [*compiler, "-MMD", "-c", "-o", "wrapped.o", source.name]
        subprocess.run(words, cwd=tmp_path, env=env, check=True)
        return (tmp_path / "wrapped.o").read_bytes()

    ours = build.cached("gcc").split()
    assert Path(ours[0]).name == "cached"
    for data in ("first", "other"):
        assert data.encode() in compiled(data, *ours)
    # Else nobody needs it.
    compiled("first", "ccache", "gcc")
    assert b"other" not in compiled("other", "ccache", "gcc")


@pytest.mark.skipif(not shutil.which("ccache"), reason="there is no ccache")
def test_all_else_comes_from_ccache(tmp_path: Path) -> None:
    source = written(tmp_path, "plain.c", "int plain;\n")
    env = {**os.environ, **build.environment(), "CCACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):
        words = [*build.cached("gcc").split(), "-MMD", "-c", "-o", "plain.o", source.name]
        subprocess.run(words, cwd=tmp_path, env=env, check=True)
    stats = subprocess.run(
        ["ccache", "--print-stats"], env=env, check=True, capture_output=True, text=True
    ).stdout
    assert re.search(r"^direct_cache_hit\t1$", stats, re.MULTILINE)
