# SPDX-License-Identifier: GPL-2.0-only
"""The test run: everything that must hold. A file for each group of steps."""
