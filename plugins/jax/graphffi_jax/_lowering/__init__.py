# SPDX-License-Identifier: Apache-2.0
"""Custom calls of XLA: targets, their text and their kernels."""
