"""Waiting for an answer in one process: handed over, timed out, reserved only while somebody waits."""

from __future__ import annotations

import asyncio
import time

from gateway.waiters import Waiters


async def test_an_answer_reaches_every_waiter_of_its_rows() -> None:
    """Joined fragments share one answer; both handlers hear of it."""
    waiters = Waiters()
    tasks = [asyncio.create_task(waiters.wait(seq, time.monotonic() + 5)) for seq in (1, 2)]
    await asyncio.sleep(0)
    assert waiters.reserve_ms((1, 2)) > 4000
    assert waiters.resolve((1, 2), "g1")
    assert await asyncio.gather(*tasks) == [(True, "g1"), (True, "g1")]
    assert waiters.reserve_ms((1, 2)) == 0


async def test_nobody_waits_past_the_deadline() -> None:
    """After its deadline a handler is gone: nothing is reserved, and resolving says that nobody took it."""
    waiters = Waiters()
    assert await waiters.wait(7, time.monotonic() - 1) == (False, None)
    assert waiters.reserve_ms((7,)) == 0
    assert not waiters.resolve((7,), "g")
