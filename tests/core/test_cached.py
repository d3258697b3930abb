# SPDX-License-Identifier: Apache-2.0
"""Properties that are computed once."""

from __future__ import annotations

import threading

from graphffi._cached import cached_property


class Slow:
    def __init__(self, may_end: threading.Event) -> None:
        self.has_begun = threading.Event()
        self.may_end = may_end
        self.count = 0

    @cached_property
    def number(self) -> int:
        self.count += 1
        self.has_begun.set()
        assert self.may_end.wait(60)
        return 3


def test_a_property_is_computed_once() -> None:
    may_end = threading.Event()
    may_end.set()
    slow = Slow(may_end)
    assert (slow.number, slow.number, slow.count) == (3, 3, 1)


def test_no_instance_waits_for_another_one() -> None:
    """Else a process that is forked meanwhile would wait for ever."""
    may_end = threading.Event()
    slow = [Slow(may_end), Slow(may_end)]
    threads = [threading.Thread(target=lambda one=one: one.number) for one in slow]
    for thread in threads:
        thread.start()
    assert all(one.has_begun.wait(60) for one in slow)
    may_end.set()
    for thread in threads:
        thread.join()
