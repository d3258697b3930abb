# SPDX-License-Identifier: Apache-2.0
"""Definitions of ops: signatures, parameters, binding, registration."""
