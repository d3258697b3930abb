# SPDX-License-Identifier: Apache-2.0
"""Libraries of programs, which need no torch."""
