# SPDX-License-Identifier: Apache-2.0
"""The error of a factory that makes no kernel."""


class FactoryError(RuntimeError):
    """A factory of an op failed: names op, factory and key. The next call tries again."""


FactoryError.__module__ = "graphffi.plugin"
