# SPDX-License-Identifier: Apache-2.0
"""The processes in which ops are checked: fresh ones, and hanging ones."""
