# SPDX-License-Identifier: GPL-2.0-only
"""Trials of address space isolation."""
