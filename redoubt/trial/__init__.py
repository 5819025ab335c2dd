# SPDX-License-Identifier: GPL-2.0-only
"""The trials a booted kernel is put to, and how each is judged."""
