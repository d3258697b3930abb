# SPDX-License-Identifier: Apache-2.0
"""Kernels: references, libraries, factories, choices."""
