# SPDX-License-Identifier: GPL-2.0-only
"""The audit of every instruction that can write the pkey register."""
