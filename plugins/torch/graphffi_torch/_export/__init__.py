# SPDX-License-Identifier: Apache-2.0
"""Exported programs: decomposition, packages, guards of sizes."""
