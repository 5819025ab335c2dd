# SPDX-License-Identifier: GPL-2.0-only
"""redoubt-tools as a user gets it: installed, run and removed by apt in a Debian made for that."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Sandbox, write_tree

from redoubt.linux import debian
from redoubt.ship.deb import tools
from redoubt.targets import X86_64

UNIT = "redoubt-violations.service"
HELP2MAN = 'for word; do case $word in --output=*) : >"${word#*=}" ;; esac; done\n'
PACKAGE = "redoubt-tools_7.3.4+redoubt0-1_amd64.deb"
# Prints what the test compares, and ends with the first thing that is wrong.
USE = f"""\
set -eu
apt-get install -y /tmp/{PACKAGE}
echo "@enabled: $(systemctl is-enabled {UNIT})"
systemd-analyze verify --man=no {UNIT} 2>&1 | sed 's/^/@verify: /'
redoubt-status --check && status=0 || status=$?
echo "@status: $status"
gzip -t /usr/share/man/man1/redoubt-status.1.gz
apt-get purge -y redoubt-tools
rm /tmp/{PACKAGE}
find / -xdev ! -path '/proc/*' ! -path '/var/log/*' ! -path '/tmp/*' -name '*redoubt*' |
	sed 's/^/@left: /'
"""


@pytest.fixture
def package(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, with the manual page that help2man makes if it is here."""
    if not shutil.which("help2man"):
        sandbox.program("help2man", HELP2MAN)
    for name, value in sandbox.env.items():
        monkeypatch.setenv(name, value)
    programs = write_tree(sandbox.where / "programs", dict.fromkeys(tools._PROGRAMS, "program"))
    version, author = "7.3.4+redoubt0-1", "A <a@localhost>"
    return tools.make(X86_64, programs, version, 0, author, "x\n", sandbox.where)


@pytest.mark.network
@pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="scripts/prerequisites deb-install")
@pytest.mark.parametrize("suite", [debian.OLDEST, debian.RELEASE])
def test_apt_installs_and_removes_it(package: Path, tmp_path: Path, suite: str) -> None:
    script = tmp_path / "use"
    script.write_text(USE)
    # As in redoubt/ship/deb/installed.py.
    alone = ["unshare", "--mount", "--propagation", "private"] if os.geteuid() == 0 else []
    hooks = [
        f"upload {package} /tmp/{PACKAGE}", f"upload {script} /tmp/use", 'chroot "$1" sh /tmp/use'
    ]  # fmt: skip
    done = subprocess.run(
        [*alone, "mmdebstrap", "--variant=apt", "--include=systemd",
         *(f"--customize-hook={hook}" for hook in hooks),
         suite, "/dev/null", debian.source(debian.mirror(), suite)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("@")] == [
        "@enabled: enabled", "@status: 1"
    ]  # fmt: skip
    # The kernel is that of this machine, which has none of it, or hides its configuration.
    assert re.search("none of the protections|which tell what is built in", done.stdout)
