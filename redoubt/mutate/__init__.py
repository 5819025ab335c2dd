# SPDX-License-Identifier: GPL-2.0-only
"""Kernels with one guard missing: does a test notice?"""
