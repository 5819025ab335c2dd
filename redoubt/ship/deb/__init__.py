# SPDX-License-Identifier: GPL-2.0-only
"""Debian packages of the protected kernel."""
