# SPDX-License-Identifier: Apache-2.0
"""The rules of ops for gradients, batches and references."""
