# SPDX-License-Identifier: Apache-2.0
"""The facts that calls satisfy: data types, sizes, shapes, plans, digests."""
