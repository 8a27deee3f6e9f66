"""What runs beside a process's main work goes on after a failure, says so, and ends with the process."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from gateway.background import Background


class Part:
    """Fails the first time as a disk does, then runs until the stop."""

    def __init__(self) -> None:
        self.begun = 0
        self.again = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """The part."""
        self.begun += 1
        if self.begun == 1:
            raise PermissionError("no such luck")
        self.again.set()
        await stop.wait()


async def test_a_part_that_fails_runs_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("gateway.background._AGAIN_S", 0.0)
    stop, part = asyncio.Event(), Part()
    background = Background(stop)
    with caplog.at_level(logging.ERROR):
        background.start(part.run)
        await asyncio.wait_for(part.again.wait(), 10)
    assert [record.getMessage() for record in caplog.records] == ["part.failed"]
    stop.set()
    await background.end(10)
    assert part.begun == 2


async def test_a_part_that_does_not_hear_is_cut_off() -> None:
    async def deaf(_stop: asyncio.Event) -> None:
        await asyncio.Event().wait()

    stop = asyncio.Event()
    background = Background(stop)
    background.start(deaf)
    stop.set()
    begun = time.monotonic()
    await background.end(0.05)
    assert time.monotonic() - begun < 5
