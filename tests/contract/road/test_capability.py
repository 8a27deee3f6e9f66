"""What an account turns out to be able to do changes where waiting answers go (N-26)."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import update

from gateway.account_state import STATES
from gateway.capabilities import Capabilities
from tests.contract.road.road import Road
from tests.contract.road.test_race import slow


async def test_an_account_that_turns_out_to_push_sends_what_waited(road: Road) -> None:
    """While the capability is unknown answers wait for 继续; once a probe says push they go by themselves."""
    await road.database.write(lambda c: c.execute(update(STATES).values(capability="unknown")))
    road.turns.script = slow(2.0)
    message = road.message("问", "oA", "mp-main")
    capabilities = Capabilities(road.database, cast(Any, road.channels), road.clock)
    await capabilities.refresh()
    road.dispatcher._capabilities = capabilities
    assert (await road.deliver(message)).close

    async def parked() -> bool:
        return [row.park_reason for row in await road.outgoing()] == ["pull"]

    await road.until(parked)
    await capabilities.probe_all()
    assert capabilities.of("mp-main").can_push
    assert [(row.status, row.park_reason) for row in await road.outgoing()] == [("pending", None)]
