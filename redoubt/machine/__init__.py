# SPDX-License-Identifier: GPL-2.0-only
"""Guests: on what they are emulated, how they boot. Only here one is talked to."""
