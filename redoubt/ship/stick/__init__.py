# SPDX-License-Identifier: GPL-2.0-only
"""One disk image that a real machine boots, and the results that it brings back."""
