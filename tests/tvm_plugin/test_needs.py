# SPDX-License-Identifier: Apache-2.0
"""Says why the other tests of this folder are left out, where they are."""

from __future__ import annotations

import pytest

from tests.tvm_plugin.conftest import REASON


@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_the_other_tests_of_this_folder_run() -> None:
    assert not REASON
