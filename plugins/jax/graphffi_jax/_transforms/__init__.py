# SPDX-License-Identifier: Apache-2.0
"""Gradients, batches, and calls within control flow."""
