# SPDX-License-Identifier: GPL-2.0-only
"""From the archive to an image: source, patches, configuration, build."""
