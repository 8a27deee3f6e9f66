"""Waiting for an answer in one process: handed over, timed out, reserved only while somebody waits."""

from __future__ import annotations

import asyncio
import time

from gateway.waiters import Waiters


async def test_an_answer_reaches_every_waiter_of_its_rows() -> None:
    """Joined fragments share one answer; both handlers hear of it."""
    waiters = Waiters()
    until = time.monotonic() + 5
    places = [waiters.expect(seq, until) for seq in (1, 2)]
    tasks = [asyncio.create_task(place.wait(until)) for place in places]
    assert waiters.reserve_ms((1, 2)) > 4000
    assert waiters.resolve((1, 2), "g1")
    assert await asyncio.gather(*tasks) == [(True, "g1"), (True, "g1")]
    for place in places:
        waiters.leave(place)
    assert waiters.reserve_ms((1, 2)) == 0


async def test_an_answer_that_comes_before_the_handler_looks_is_not_missed() -> None:
    """A place is taken before the work begins; what is done at once is found by the handler when it gets there."""
    waiters = Waiters()
    place = waiters.expect(3, time.monotonic() + 5)
    assert waiters.reserve_ms((3,)) > 4000
    assert waiters.resolve((3,), "g")
    assert await place.wait(time.monotonic() + 5) == (True, "g")


async def test_nobody_waits_past_the_deadline() -> None:
    """After its deadline a handler is gone: nothing is reserved, and resolving says that nobody took it."""
    waiters = Waiters()
    place = waiters.expect(7, time.monotonic() - 1)
    assert await place.wait(place.until) == (False, None)
    assert waiters.reserve_ms((7,)) == 0
    waiters.leave(place)
    assert not waiters.resolve((7,), "g")
