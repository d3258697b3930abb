# SPDX-License-Identifier: Apache-2.0
"""Compilers, caches and built files."""
