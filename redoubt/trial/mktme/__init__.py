# SPDX-License-Identifier: GPL-2.0-only
"""Trials of memory under several keys."""
