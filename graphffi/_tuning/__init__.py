# SPDX-License-Identifier: Apache-2.0
"""Measured choices between kernels."""
