"""The one lease mechanism on both databases: compare-and-set, fences, and a clock that is the database's own."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text, update

from config import lease
from config.database import Database, open_database
from config.errors import FenceLost
from gateway.leader import LEASE
from gateway.migrate import upgrade

ROW = LEASE.c.name == "row"


@pytest.fixture
async def database(database: Database) -> Database:
    """With one row to lease."""
    await database.write(lambda c: c.execute(insert(LEASE).values(name="row", fence=0)))
    return database


def expire(connection: Connection) -> None:
    connection.execute(update(LEASE).where(ROW).values(lease_until_ms=lease.now_ms(connection) - 1))


async def test_n_02_of_many_claims_at_once_one_wins(database: Database) -> None:
    """N-02: claim and fence are one compare-and-set."""
    fences = await asyncio.gather(*(database.write(lambda c, n=n: lease.claim(c, LEASE, ROW, f"p{n}")) for n in range(10)))  # type: ignore[misc]
    assert sorted(fence for fence in fences if fence is not None) == [1]


async def test_n_02_a_paused_owner_that_wakes_is_told(database: Database) -> None:
    """N-02: after a take-over the old fence neither renews, nor passes the check, nor releases."""
    old = await database.write(lambda c: lease.claim(c, LEASE, ROW, "paused"))
    assert old is not None
    await database.write(expire)
    new = await database.write(lambda c: lease.claim(c, LEASE, ROW, "other"))
    assert new == old + 1
    assert not await database.write(lambda c: lease.renew(c, LEASE, ROW, "paused", old))
    with pytest.raises(FenceLost):
        await database.write(lambda c: lease.check(c, LEASE, ROW, old))
    await database.write(lambda c: lease.release(c, LEASE, ROW, old))
    owner = await database.read(lambda c: c.execute(select(LEASE.c.lease_owner).where(ROW)).scalar())
    assert owner == "other"
    await database.write(lambda c: lease.check(c, LEASE, ROW, new))


async def test_a_lease_ends_by_time_and_is_renewed(database: Database) -> None:
    fence = await database.write(lambda c: lease.claim(c, LEASE, ROW, "one", ttl_ms=60_000))
    assert fence is not None
    assert await database.write(lambda c: lease.claim(c, LEASE, ROW, "two")) is None
    assert await database.write(lambda c: lease.renew(c, LEASE, ROW, "one", fence, ttl_ms=-1))
    assert await database.write(lambda c: lease.claim(c, LEASE, ROW, "two")) == fence + 1


async def test_n_08_lease_time_is_the_databases_own(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-08: a machine whose wall clock is a year off claims, holds and loses leases like any other."""
    before = await database.read(lease.now_ms)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    after = await database.read(lease.now_ms)
    assert 0 <= after - before < 60_000
    assert await database.write(lambda c: lease.claim(c, LEASE, ROW, "one")) is not None
    assert await database.write(lambda c: lease.claim(c, LEASE, ROW, "two")) is None
    if database.dialect == "postgresql":
        theirs = await database.read(lambda c: c.execute(text("SELECT extract(epoch FROM clock_timestamp()) * 1000")).scalar())
        assert theirs is not None
        assert abs(float(theirs) - after) < 60_000


async def test_a_lease_from_before_a_reboot_counts_as_past(database: Database) -> None:
    """On SQLite the clock starts anew with the machine: a value far ahead is not believed."""

    def far_ahead(connection: Connection) -> None:
        until_ms = lease.now_ms(connection) + 30 * 24 * 3600 * 1000
        connection.execute(update(LEASE).where(ROW).values(lease_owner="gone", lease_until_ms=until_ms))

    await database.write(far_ahead)
    assert await database.write(lambda c: lease.claim(c, LEASE, ROW, "new")) is not None


async def test_a_lease_from_before_a_reboot_minutes_ago_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine ran for an hour, lost power, and is up again: its clock is small, the leases it left look an hour long."""
    url = f"sqlite:///{tmp_path / 'yizhan.db'}"
    await asyncio.to_thread(upgrade, url)
    opened = open_database(url)
    boot = tmp_path / "boot_id"
    monkeypatch.setattr(lease, "_BOOT_ID", boot)
    try:
        await opened.write(lambda c: c.execute(insert(LEASE).values(name="row", fence=0)))
        for number, uptime_s in enumerate((3600, 60, 30)):
            boot.write_text(f"1b4e28ba-2fa1-11d2-883f-{number:012d}\n")
            lease._boot_starts_ms.cache_clear()
            monkeypatch.setattr(time, "monotonic_ns", lambda up=uptime_s: up * 1_000_000_000)
            assert await opened.write(lambda c, n=number: lease.claim(c, LEASE, ROW, f"boot{n}")) == number + 1  # type: ignore[misc]
            assert await opened.write(lambda c: lease.claim(c, LEASE, ROW, "second")) is None
    finally:
        await opened.close()
        lease._boot_starts_ms.cache_clear()
