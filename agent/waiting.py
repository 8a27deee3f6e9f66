"""Waiting for work that the person may stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from agent.ports import StopSignal

T = TypeVar("T")


async def first_of(work: Coroutine[Any, Any, T], stop: StopSignal) -> T | None:
    """What ``work`` returns, or None when ``stop`` came first (the work is cancelled then). Raises what the work raises."""
    if stop.requested:
        work.close()
        return None
    task, waiter = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        waiter.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
