"""A serving process that kills itself (-9) at a chosen point of sending: ``python -m tests.fakes.dying_sender DB LOG POINT``.

The platform is the log file: one line of JSON for every request that reached it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from config.clock import FixedClock
from config.database import open_database
from config.schema import Limits
from gateway import outbox_claims
from gateway.alerts import Alerts
from gateway.channel import SendOutcome, Target
from gateway.delivery import Delivery
from gateway.outbox import SqlOutbox
from gateway.throttle import Throttle
from tests.fakes.channel import FakeChannel


def die() -> None:
    """End at once, without any clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


class LoggedChannel(FakeChannel):
    """A platform that writes down what reaches it."""

    log: Path
    point: str = "never"

    async def send(self, kind: str, body: bytes, *, target: Target) -> SendOutcome:
        """Note the request, die where told."""
        if self.point == "before-send":
            die()
        with self.log.open("ab") as file:
            file.write(body + b"\n")
        if self.point == "after-send":
            die()
        return await super().send(kind, body, target=target)


async def main(database_path: str, log: str, point: str) -> None:
    """Deliver what is due, and die."""
    channel = LoggedChannel()
    channel.log, channel.point = Path(log), point
    channels: dict[str, Any] = {"wecom-main": channel}
    clock = FixedClock()
    database = open_database(f"sqlite:///{database_path}")
    outbox = SqlOutbox(channels, clock, Limits())
    delivery = Delivery(database, channels, outbox, clock, None, Throttle(None, clock), Alerts(outbox, channels, (), clock))
    if point == "after-claim":
        outbox_claims.freeze = lambda *_args, **_more: die()  # type: ignore[assignment]
    await delivery.pass_once()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
