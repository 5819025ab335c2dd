# SPDX-License-Identifier: GPL-2.0-only
"""Errors, paths, processes: what everything else stands on, and nothing of Linux."""
