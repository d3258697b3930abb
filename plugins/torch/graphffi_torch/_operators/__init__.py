# SPDX-License-Identifier: Apache-2.0
"""The operators of ops: schemas, fakes, rules, and the primitives that they become."""
