# SPDX-License-Identifier: Apache-2.0
"""Frameworks: registration, tracing, the own one for NumPy."""
