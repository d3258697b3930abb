# SPDX-License-Identifier: Apache-2.0
"""Exported programs and packages."""
