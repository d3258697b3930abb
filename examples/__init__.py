# SPDX-License-Identifier: Apache-2.0
"""Examples of graphffi; run them from the root of the repository."""
