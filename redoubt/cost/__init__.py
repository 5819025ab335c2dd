# SPDX-License-Identifier: GPL-2.0-only
"""What protection costs: measured, analysed, shown."""
