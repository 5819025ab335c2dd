# SPDX-License-Identifier: GPL-2.0-only
"""What page tables reach, read from outside of the machine."""
