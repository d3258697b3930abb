# SPDX-License-Identifier: Apache-2.0
"""Sharded calls: rules, partitioning, tiles."""
