"""Fair slots: no tenant holds more than half while another waits (N-09)."""

from __future__ import annotations

import asyncio

from gateway.slots import FairSlots


async def _hold(slots: FairSlots, tenant: str, log: list[str], release: asyncio.Event) -> None:
    async with slots.hold(tenant):
        log.append(tenant)
        await release.wait()


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_busy_tenant_leaves_half_to_another() -> None:
    """N-09: when four slots come free while a asked four times before b's two, each gets two; a's rest follows."""
    slots, log, release, full = FairSlots(4), [], asyncio.Event(), asyncio.Event()
    filling = [asyncio.create_task(_hold(slots, "c", [], full)) for _ in range(4)]
    await _settle()
    waiting = [asyncio.create_task(_hold(slots, name, log, release)) for name in "aaaabb"]
    await _settle()
    full.set()
    await asyncio.gather(*filling)
    await _settle()
    assert sorted(log) == ["a", "a", "b", "b"]
    release.set()
    await asyncio.gather(*waiting)
    assert sorted(log) == ["a", "a", "a", "a", "b", "b"]


async def test_alone_a_tenant_may_use_all_and_a_cancelled_waiter_frees_its_place() -> None:
    """One tenant alone fills every slot; giving up while waiting costs nobody a slot."""
    slots, log, release = FairSlots(2), [], asyncio.Event()
    holders = [asyncio.create_task(_hold(slots, "a", log, release)) for _ in range(2)]
    await _settle()
    waiting = asyncio.create_task(_hold(slots, "a", log, release))
    await _settle()
    assert log == ["a", "a"]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    release.set()
    await asyncio.gather(*holders)
    last = asyncio.create_task(_hold(slots, "b", log, release))
    await last
    assert log == ["a", "a", "b"]
