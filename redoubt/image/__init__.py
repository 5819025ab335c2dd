# SPDX-License-Identifier: GPL-2.0-only
"""What is in a compiled kernel: ELF, code, and two ways to judge it."""
