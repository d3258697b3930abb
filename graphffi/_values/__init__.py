# SPDX-License-Identifier: Apache-2.0
"""Devices, data types, tensors, containers, functions and modules: the values of calls."""
