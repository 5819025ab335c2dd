# SPDX-License-Identifier: GPL-2.0-only
"""A distribution's configuration: where it comes from, and what is built from it."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import pytest
from conftest import Sandbox

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Progress, Silent
from redoubt.linux import build, debian, distro
from redoubt.linux.build import Build
from redoubt.machine import boot, host, kernels
from redoubt.machine.boot import Machine
from redoubt.suite import flavours, steps
from redoubt.suite.run import Run
from redoubt.targets import ARM64, UM, X86_64, get_variant
from redoubt.trial import check

SHIPPED = 'CONFIG_A=y\nCONFIG_DRIVER=m\n# CONFIG_B is not set\nCONFIG_NAME="x=m"\n'
PRISTINE, ON = (get_variant(X86_64, name) for name in ("pristine", "on"))


class Archive(debian.Archive):
    """Carries one package, which holds the files in `packed`, or none."""

    asked = 0
    architectures: tuple[str, ...] = ()
    package: tuple[str, str] | None = (distro.PACKAGE, "7.3.4-1")
    packed: dict[str, str]

    def __init__(self, progress: Progress, *, architecture: str) -> None:
        super().__init__(progress, architecture=architecture)
        type(self).asked += 1
        type(self).architectures += (architecture,)

    def update(self) -> None: ...

    def newest(self, pattern: str) -> tuple[str, str] | None:
        return self.package if pattern == distro.PACKAGE else None

    def download(self, package: str, version: str) -> Path:
        return Path(f"{package}_{version}.deb")


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Archive]:
    class Mine(Archive):
        packed = {f"{X86_64.distro_config}.xz": SHIPPED}  # noqa: RUF012

    def extract(package: Path, into: Path, log: Path) -> None:
        where = into / "usr/src/linux-config-7.3"
        where.mkdir(parents=True)
        for name, text in Mine.packed.items():
            (where / name).write_bytes(lzma.compress(text.encode()))

    monkeypatch.setenv("REDOUBT_BUILD", str(tmp_path))
    monkeypatch.setattr(debian, "Archive", Mine)
    monkeypatch.setattr(debian, "extract", extract)
    return Mine


def test_modules_are_dropped_and_nothing_else() -> None:
    assert distro.without_modules(SHIPPED) == SHIPPED.replace("CONFIG_DRIVER=m\n", "")


def test_it_is_fetched_once(archive: type[Archive], tmp_path: Path) -> None:
    file = distro.configuration(X86_64, Silent())
    assert file.read_text() == distro.without_modules(SHIPPED)
    assert distro.configuration(X86_64, Silent()) == file
    assert archive.asked == 1
    assert [one.name for one in (tmp_path / "distro").iterdir()] == ["x86_64.config"]


def test_packages_are_made_from_all_of_it(archive: type[Archive], tmp_path: Path) -> None:
    assert distro.configuration(X86_64, Silent(), modules=True).read_text() == SHIPPED
    assert "=m\n" not in distro.configuration(X86_64, Silent()).read_text()
    names = sorted(one.name for one in (tmp_path / "distro").iterdir())
    assert names == ["x86_64-modules.config", "x86_64.config"]


def test_it_is_the_architectures(archive: type[Archive], monkeypatch: pytest.MonkeyPatch) -> None:
    archive.packed = {f"{one.distro_config}.xz": SHIPPED for one in (X86_64, ARM64)}
    monkeypatch.setattr(distro.platform, "machine", lambda: "x86_64")
    distro.configuration(X86_64, Silent())
    distro.configuration(ARM64, Silent())
    assert archive.architectures == ("", "arm64")


def test_no_package(archive: type[Archive]) -> None:
    archive.package = None
    with pytest.raises(RedoubtError, match=r"the archive has no linux-config-7\.3"):
        distro.configuration(X86_64, Silent())


def test_a_package_without_it(archive: type[Archive], tmp_path: Path) -> None:
    archive.packed = {"config.amd64_none_cloud-amd64.xz": SHIPPED}
    with pytest.raises(RedoubtError, match=r"has no config\.amd64_none_amd64 in it"):
        distro.configuration(X86_64, Silent())
    assert list((tmp_path / "distro").iterdir()) == []


def test_what_is_built_from_it(archive: type[Archive], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[str, ...], Path | None]] = []

    def compile_kernel(target: object, source: object, kind: str, fragments: Any, _: object,
                       *, base: Path | None = None) -> None:  # fmt: skip
        asked.append((kind, tuple(fragments), base))

    monkeypatch.setattr(build, "compile_kernel", compile_kernel)
    monkeypatch.setattr(kernels, "our_tree", lambda _: Path("/ours"))
    monkeypatch.setattr(kernels.source, "obtain", lambda _: distro_source())
    for variant in (ON, PRISTINE):
        kernels.prepare(X86_64, variant, Silent(), flavour=distro.FLAVOUR)
    base = distro.configuration(X86_64, Silent())
    # Nothing of the small kernel, whose fragments switch off what distributions have on.
    assert asked == [
        ("redoubt-distro", (*X86_64.ours, "distro"), base),
        ("pristine-distro", ("distro",), base),
    ]


def distro_source() -> Any:
    return kernels.source.Source(Path("/pristine"), "7.3.4")


def test_a_configuration_starts_from_it(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.toolchain()
    sandbox.program("make", 'echo "$*" >> "$CONTROL/made"\n')
    for name, value in sandbox.env.items():
        monkeypatch.setenv(name, value)
    base = sandbox.where / "base"
    base.write_text("CONFIG_A=y\n")
    fragment = sandbox.where / "f.config"
    fragment.write_text("CONFIG_B=y\n")
    source, out = Path(sandbox.env["LINUX_SRC"]), sandbox.where / "out"
    for text in ("CONFIG_A=y\n", "CONFIG_C=y\n"):
        base.write_text(text)
        build.configure(X86_64, source, out, [fragment], sandbox.where / "log", base)
        assert build.options((out / ".config").read_text()) == {
            **build.options(text), "CONFIG_B": "y",
        }  # fmt: skip
    assert "tinyconfig" not in (sandbox.control / "made").read_text()


def test_its_guests_can_do_all_that_stress_has(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text(build.fragment("distro").read_text())
    built = Build(X86_64, tmp_path, tmp_path, tmp_path)
    machine = Machine(built, tmp_path, host.EMULATED, cpus=2)
    assert check.possible(machine) == set(check._OPTIONS)


def test_its_machines_are_larger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built = Build(X86_64, tmp_path, tmp_path, tmp_path)
    monkeypatch.setattr(kernels, "prepare", lambda *_, **__: built)
    monkeypatch.setattr(kernels.guest, "programs", lambda *_: tmp_path)
    for flavour, size in (("", boot.MEMORY_MB), (distro.FLAVOUR, kernels.DISTRO_MEMORY_MB)):
        made = kernels.workbench(X86_64, ON, host.EMULATED, Silent(), flavour=flavour)
        assert made.machine(ON).memory_mb == made.kunit_machine(ON).memory_mb == size


def test_the_long_run_has_it_where_the_target_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(flavours.distribution(Run(UM, "auto", True, Silent()))) == []
    monkeypatch.setattr(host, "enforcing", lambda *_: None)
    monkeypatch.setattr(host, "lacking", lambda *_: RedoubtError("no QEMU"))
    runs = [Run(X86_64, "auto", long, Silent()) for long in (False, True)]
    short, long = (
        [step for step in steps.chosen([run], ()) if step.name == "distro flavour"] for run in runs
    )
    assert (len(short), len(long)) == (0, 1)
    (item,) = steps.done(long[0])
    assert (item.passed, item.failed, item.skipped, item.detail) == (0, 0, 1, "no QEMU")
