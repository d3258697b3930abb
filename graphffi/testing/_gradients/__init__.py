# SPDX-License-Identifier: Apache-2.0
"""Gradients and tangents of ops, compared with finite differences."""
