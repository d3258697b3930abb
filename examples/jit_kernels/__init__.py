# SPDX-License-Identifier: Apache-2.0
"""Ops whose kernels are compiled for the shapes that calls have, by three compilers."""
