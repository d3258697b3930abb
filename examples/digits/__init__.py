# SPDX-License-Identifier: Apache-2.0
"""A small transformer that learns to read digits, on C++ kernels with gradients."""
