# SPDX-License-Identifier: GPL-2.0-only
"""The documents as a site; Sphinx is strict about links and pages that no list names."""

project = "Redoubt"
extensions = ["myst_parser"]
# The whole repository, as documents link to its files: Sphinx copies those that are no pages.
include_patterns = ["*.md", "docs/**", "emulator/*.md"]
exclude_patterns = [".*", "build"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
myst_heading_anchors = 3
nitpicky = True
html_theme = "alabaster"
