# SPDX-License-Identifier: Apache-2.0
"""Calls in code that torch.compile traces and Inductor compiles."""
