# SPDX-License-Identifier: GPL-2.0-only
"""What leaves the repository: mails, packages, pages, and what checks them."""
