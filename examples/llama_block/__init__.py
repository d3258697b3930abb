# SPDX-License-Identifier: Apache-2.0
"""A Llama-style decoder whose layers call C++ kernels, in PyTorch and in JAX."""
