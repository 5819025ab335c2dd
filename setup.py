# SPDX-License-Identifier: GPL-2.0-only
"""Put what the tool works on into the wheel, where redoubt/core/paths.py finds it."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# Of the repository. Not results/: these are of the machines that somebody has measured on.
DATA = ("configs", "docs", "emulator", "guest", "kernel", "patches", "scripts", "tools")


class WithData(build_py):
    """The modules, and copies of these directories; an editable installation needs none."""

    def run(self) -> None:
        """Build both."""
        super().run()
        if not self.editable_mode:
            for name in DATA:
                copy = Path(self.build_lib) / "redoubt" / "data" / name
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(name, copy, ignore=shutil.ignore_patterns("*.o", "*~", "*.orig"))


setup(cmdclass={"build_py": WithData})
