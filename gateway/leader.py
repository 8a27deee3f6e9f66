"""A named right that one process of the deployment holds at a time: who reaps, who drops what is old."""

from __future__ import annotations

from sqlalchemy import Connection, and_, select, update

from config import lease
from config.columns import table_of
from gateway.models import Lease

LEASE = table_of(Lease)


def lead(connection: Connection, name: str, owner: str, *, ttl_ms: int = lease.TTL_MS) -> bool:
    """Take or keep the right called ``name``; False while another process holds it."""
    row = connection.execute(select(LEASE.c.lease_owner, LEASE.c.fence).where(LEASE.c.name == name)).first()
    if row is None:
        _make(connection, name)
    elif row[0] == owner and lease.renew(connection, LEASE, LEASE.c.name == name, owner, int(row[1]), ttl_ms=ttl_ms):
        return True
    return lease.claim(connection, LEASE, LEASE.c.name == name, owner, ttl_ms=ttl_ms) is not None


def step_down(connection: Connection, name: str, owner: str) -> None:
    """Give the right back, if it is ours."""
    where = and_(LEASE.c.name == name, LEASE.c.lease_owner == owner)
    connection.execute(update(LEASE).where(where).values(lease_owner=None, lease_until_ms=None))


def done_at_ms(connection: Connection, name: str) -> int | None:
    """When the last pass of this kind ended, by the wall clock."""
    found = connection.execute(select(LEASE.c.done_at_ms).where(LEASE.c.name == name)).scalar()
    return None if found is None else int(found)


def mark_done(connection: Connection, name: str, now_ms: int) -> None:
    """A pass of this kind ended now."""
    connection.execute(update(LEASE).where(LEASE.c.name == name).values(done_at_ms=now_ms))


def _make(connection: Connection, name: str) -> None:
    """Insert the row unless another process just did."""
    from sqlalchemy.dialects import postgresql, sqlite

    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(LEASE).values(name=name, fence=0).on_conflict_do_nothing())
