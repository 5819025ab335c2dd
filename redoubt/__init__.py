# SPDX-License-Identifier: GPL-2.0-only
"""Fetch, build, boot, attack and check a hardened Linux kernel."""

__version__ = "0.1.0"
