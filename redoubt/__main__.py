# SPDX-License-Identifier: GPL-2.0-only
"""`python -m redoubt`."""

from redoubt.cli.main import main

main()
