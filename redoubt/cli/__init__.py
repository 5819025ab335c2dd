# SPDX-License-Identifier: GPL-2.0-only
"""The command line: the only part that prints and exits. A file for each group of verbs."""
