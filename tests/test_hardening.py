# SPDX-License-Identifier: GPL-2.0-only
"""What the hardening checker says, with a stand-in for it, for its package and for make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Sandbox, write_tree

from redoubt.core.errors import RedoubtError
from redoubt.core.progress import Silent
from redoubt.linux import build, debian
from redoubt.ship import hardening
from redoubt.ship.deb import shipped
from redoubt.ship.hardening import Report, Verdict
from redoubt.targets import ARM64, UM, X86_64

# It recommends two options, and that a third is not set. BROKEN makes it say something else.
CHECKER = """
import json, sys
assert sys.argv[1:4] == ["-m", "json", "-c"]
text = open(sys.argv[4]).read()
if "BROKEN" in text:
    print("no")
    sys.exit()
print(json.dumps([
    {"option_name": f"CONFIG_{name}", "desired_val": wanted, "type": "kconfig",
     "check_result": "OK" if met else "FAIL", "check_result_bool": met}
    for name, wanted in (("GOOD", "y"), ("BETTER", "y"), ("BAD", "is not set"))
    for met in [(f"CONFIG_{name}=y" in text.splitlines()) == (wanted == "y")]
]))
"""
FRAGMENTS = {
    "base": "CONFIG_BAD=y\n",
    "x86_64": "# CONFIG_BETTER is not set\n",
    "ours": "CONFIG_KPKEYS=y\n",
    "deb-distro": "",
}


class Place:
    """A place with the tools, Debian's configuration, our fragments, and a target for them."""

    def __init__(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        sandbox.toolchain()
        for name, value in sandbox.env.items():
            monkeypatch.setenv(name, value)
        self.linux = Path(sandbox.env["LINUX_SRC"])
        self.build, self.fragments = sandbox.build, sandbox.where / "configs"
        self.target = replace(
            X86_64, fragments=("base", "x86_64"), ours=("ours",), shipped=("ours",)
        )
        self.base = sandbox.where / "base"
        self.base.write_text("CONFIG_GOOD=y\n")
        self.write(FRAGMENTS)
        monkeypatch.setattr(build, "fragment", lambda name: self.fragments / name)
        monkeypatch.setattr(shipped, "base", lambda *_: self.base)
        self.package: tuple[str, str] | None = (hardening.PACKAGE, "0.6-1")
        monkeypatch.setattr(debian, "Archive", self.archive)
        monkeypatch.setattr(debian, "extract", self.extract)
        self.unpacked = 0

    def write(self, fragments: dict[str, str]) -> None:
        write_tree(self.fragments, fragments)

    def archive(self, progress: object, without: str) -> Place:
        return self

    def update(self) -> None: ...

    def newest(self, pattern: str) -> tuple[str, str] | None:
        return self.package

    def download(self, package: str, version: str) -> Path:
        return Path(f"{package}_{version}.deb")

    def extract(self, package: Path, into: Path, log: Path) -> None:
        self.unpacked += 1
        write_tree(into, {f"usr/bin/{hardening.PACKAGE}": CHECKER})

    def check(self) -> Report:
        return hardening.check(self.target, self.linux, self.linux, Silent())


@pytest.fixture
def place(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(sandbox, monkeypatch)


def test_options_that_change_nothing(place: Place) -> None:
    report = place.check()
    assert report.ok
    assert report.changed == []
    assert hardening.render(report)[:3] == [
        "x86_64, kernel-hardening-checker 0.6-1",
        "the distribution's configuration: 2 of 3 recommendations met",
        "our packages: 2 of 3 recommendations met, 0 verdicts changed",
    ]
    assert "CONFIG_KPKEYS=y" in (place.build / "hardening/x86_64/ours/.config").read_text()
    assert (
        "CONFIG_KPKEYS=y" not in (place.build / "hardening/x86_64/distribution/.config").read_text()
    )


def test_an_option_that_undoes_a_recommendation_fails(place: Place) -> None:
    place.write({"ours": "CONFIG_KPKEYS=y\nCONFIG_BAD=y\n"})
    report = place.check()
    assert not report.ok
    assert "    CONFIG_BAD (recommended: is not set): OK  ->  FAIL" in hardening.render(report)


def test_what_our_packages_decline_has_a_reason(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hardening.DECLINED, "CONFIG_BAD", "why")
    place.write({"ours": "CONFIG_BAD=y\n"})
    report = place.check()
    assert report.ok
    said = "    CONFIG_BAD (recommended: is not set): OK  ->  FAIL (why)"
    assert said in hardening.render(report)
    assert all(hardening.DECLINED.values())


def test_an_option_that_does_what_is_recommended_is_told(place: Place) -> None:
    place.write({"ours": "CONFIG_BETTER=y\n"})
    report = place.check()
    assert report.ok
    assert "    CONFIG_BETTER (recommended: y): FAIL  ->  OK" in hardening.render(report)


def test_what_the_fragments_for_tests_decide_against(place: Place) -> None:
    # GOOD is not met either, but nobody decided that.
    assert [(one.option, one.met) for one in place.check().tests] == [
        ("CONFIG_GOOD", False), ("CONFIG_BETTER", False), ("CONFIG_BAD", False),
    ]  # fmt: skip
    assert hardening.render(place.check())[3:] == [
        "the kernel for tests: 0 of 3 recommendations met; not met because of a fragment:",
        "    CONFIG_BETTER (recommended: y): FAIL (x86_64)",
        "    CONFIG_BAD (recommended: is not set): FAIL (base)",
    ]


def test_the_checker_is_unpacked_once(place: Place) -> None:
    place.check()
    place.check()
    assert place.unpacked == 1
    assert sorted(file.name for file in (place.build / "hardening").iterdir()) == [
        "checker-0.6-1",
        "x86_64",
    ]


def test_lists_that_differ_are_not_compared() -> None:
    one = Verdict("CONFIG_A", "y", "OK", True)
    with pytest.raises(ValueError, match="zip"):
        Report("x86_64", "1", (one,), (), (), {}).changed  # noqa: B018


def test_no_package(place: Place) -> None:
    place.package = None
    with pytest.raises(RedoubtError, match="does not carry kernel-hardening-checker"):
        place.check()


def test_a_checker_that_says_something_else(place: Place) -> None:
    place.base.write_text("CONFIG_BROKEN=y\n")
    with pytest.raises(RedoubtError, match="said what is not understood: no"):
        place.check()


def test_a_target_of_no_distribution(place: Place) -> None:
    place.target = UM
    with pytest.raises(RedoubtError, match="there are no packages for um"):
        place.check()


def test_no_cross_compiler(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    place.target = ARM64
    with pytest.raises(RedoubtError, match="aarch64-linux-gnu-gcc not found"):
        place.check()
