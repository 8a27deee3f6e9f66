"""Asks a platform something, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, call: Awaitable[T]) -> T | None:
    """The call's result, or None when it does not come in time."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        return None
