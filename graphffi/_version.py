# SPDX-License-Identifier: Apache-2.0
"""The version, which packages and `graphffi.__version__` take from here."""

__version__ = "0.1.0"
