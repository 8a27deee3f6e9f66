"""What was learned about an account: whether it may push, whether it pauses, what trouble it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from config.columns import table_of
from gateway.models import AccountState

STATES = table_of(AccountState)
Ability = Literal["push", "pull", "unknown"]


@dataclass(frozen=True, slots=True)
class AccountView:
    """The stored state of one account; the defaults are what a never-seen account has."""

    capability: Ability = "unknown"
    paused_until_ms: int | None = None
    trouble: str | None = None
    trouble_at_ms: int | None = None


_VIEW = select(STATES.c.capability, STATES.c.paused_until_ms, STATES.c.trouble, STATES.c.trouble_at_ms).where(
    STATES.c.account_id == bindparam("account")
)


def read_account(connection: Connection, account_id: str) -> AccountView:
    """The state of this account."""
    row = connection.execute(_VIEW, {"account": account_id}).first()
    return AccountView() if row is None else AccountView(row[0], row[1], row[2], row[3])


def store_account(connection: Connection, account_id: str, tenant_id: str, values: Mapping[str, Any]) -> None:
    """Set some fields of the account's state; the row is made when it is not there."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    fresh = {"capability": "unknown", **values, "account_id": account_id, "tenant_id": tenant_id}
    statement = insert(STATES).values(fresh)
    connection.execute(statement.on_conflict_do_update(index_elements=["account_id"], set_={**values, "tenant_id": tenant_id}))


def record_capability(connection: Connection, account_id: str, tenant_id: str, ability: Ability, now_ms: int) -> bool:
    """Store what a probe or an errcode told; ``unknown`` never overwrites knowledge. True when the ability changed."""
    before = read_account(connection, account_id).capability
    if ability == "unknown":
        store_account(connection, account_id, tenant_id, {"probed_at_ms": now_ms})
        return False
    store_account(connection, account_id, tenant_id, {"capability": ability, "probed_at_ms": now_ms})
    return ability != before


def set_trouble(connection: Connection, account_id: str, tenant_id: str, trouble: str, now_ms: int) -> bool:
    """Note that the operator must act; True the first time (a known trouble keeps its start)."""
    if read_account(connection, account_id).trouble == trouble:
        return False
    store_account(connection, account_id, tenant_id, {"trouble": trouble, "trouble_at_ms": now_ms})
    return True


def clear_trouble(connection: Connection, account_id: str) -> bool:
    """Forget the trouble once a call succeeded; True when there was one."""
    statement = update(STATES).where(STATES.c.account_id == account_id, STATES.c.trouble.is_not(None))
    return connection.execute(statement.values(trouble=None, trouble_at_ms=None)).rowcount > 0


def troubled(connection: Connection) -> list[str]:
    """The accounts an operator has to act on."""
    return [str(row[0]) for row in connection.execute(select(STATES.c.account_id).where(STATES.c.trouble.is_not(None)))]


def notes_of(connection: Connection, account_id: str) -> Mapping[str, Any]:
    """What else is remembered about the account, by name."""
    return connection.execute(select(STATES.c.notes).where(STATES.c.account_id == account_id)).scalar() or {}


def add_note(connection: Connection, account_id: str, tenant_id: str, name: str, value: Any) -> None:
    """Remember one thing more; the other notes stay."""
    locked = select(STATES.c.notes).where(STATES.c.account_id == account_id).with_for_update()
    notes = connection.execute(locked).scalar() or {}
    store_account(connection, account_id, tenant_id, {"notes": {**notes, name: value}})


def note_url_verified(connection: Connection, account_id: str, tenant_id: str, now_ms: int) -> None:
    """Remember that the platform checked our callback URL and got its answer."""
    add_note(connection, account_id, tenant_id, "url_verified_ms", now_ms)


def url_verified_ms(connection: Connection, account_id: str) -> int | None:
    """When the platform last checked our callback URL; None when it never did."""
    return notes_of(connection, account_id).get("url_verified_ms")
