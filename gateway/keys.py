"""API keys of programs: made once, stored hashed, limited in tenant, accounts, scopes, time and rate; revoked at once (N-13)."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, or_, select, update

from config.columns import table_of
from config.ids import new_id
from gateway.models import ApiKey as ApiKeyRow

KEYS = table_of(ApiKeyRow)
Scope = Literal["push", "push_all"]
SCOPES: tuple[Scope, ...] = ("push", "push_all")
"""``push``: send and ask about pushes; ``push_all``: also send to everyone."""
DEFAULT_RATE = 6_000
_FORM = re.compile(r"yzk_[A-Za-z0-9_-]{20,100}")
_PREFIX_CHARS = 12
USED_EVERY_MS = 60_000


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What a key allows. ``accounts`` None means every account of the tenant; ``prefix`` is how people name it."""

    id: str
    tenant_id: str
    prefix: str
    name: str
    accounts: tuple[str, ...] | None
    scopes: tuple[str, ...]
    recipients_per_minute: int
    created_at_ms: int
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None
    last_used_ms: int | None = None

    def allows(self, account_id: str) -> bool:
        """Whether the key may use this account of its tenant."""
        return self.accounts is None or account_id in self.accounts

    def state(self, now_ms: int) -> Literal["active", "expired", "revoked"]:
        """Whether it works now."""
        if self.revoked_at_ms is not None:
            return "revoked"
        return "expired" if self.expires_at_ms is not None and self.expires_at_ms <= now_ms else "active"


def create(
    connection: Connection,
    *,
    tenant_id: str,
    name: str,
    scopes: Sequence[Scope],
    accounts: Sequence[str] | None,
    now_ms: int,
    expires_at_ms: int | None = None,
    recipients_per_minute: int = DEFAULT_RATE,
) -> tuple[str, ApiKey]:
    """Make a key; its text is in the answer and nowhere else."""
    text = f"yzk_{secrets.token_urlsafe(32)}"
    key = ApiKey(
        id=new_id("k"),
        tenant_id=tenant_id,
        prefix=text[:_PREFIX_CHARS],
        name=name,
        accounts=None if accounts is None else tuple(accounts),
        scopes=tuple(scopes),
        recipients_per_minute=recipients_per_minute,
        created_at_ms=now_ms,
        expires_at_ms=expires_at_ms,
    )
    row = {
        "id": key.id,
        "tenant_id": tenant_id,
        "prefix": key.prefix,
        "secret_hash": _digest(text),
        "name": name,
        "accounts": None if accounts is None else list(accounts),
        "scopes": list(scopes),
        "recipients_per_minute": recipients_per_minute,
        "expires_at_ms": expires_at_ms,
        "created_at_ms": now_ms,
    }
    connection.execute(KEYS.insert().values(**row))
    return text, key


def authenticate(connection: Connection, text: str, now_ms: int) -> ApiKey | None:
    """The working key with this text, or None: unknown, expired and revoked look the same."""
    if not _FORM.fullmatch(text):
        return None
    found = _find(connection, KEYS.c.secret_hash == _digest(text))
    return found[0] if found and found[0].state(now_ms) == "active" else None


def note_used(connection: Connection, key: ApiKey, now_ms: int) -> None:
    """Remember when the key was last used, to the minute."""
    stale = or_(KEYS.c.last_used_ms.is_(None), KEYS.c.last_used_ms < now_ms - USED_EVERY_MS)
    connection.execute(update(KEYS).where(KEYS.c.id == key.id, stale).values(last_used_ms=now_ms))


def listing(connection: Connection, *, tenant_id: str | None = None, prefix: str | None = None) -> list[ApiKey]:
    """Keys, newest first; of one tenant, or with this beginning."""
    conditions = []
    if tenant_id is not None:
        conditions.append(KEYS.c.tenant_id == tenant_id)
    if prefix is not None:
        conditions.append(KEYS.c.prefix.startswith(prefix, autoescape=True))
    return _find(connection, *conditions)


def revoke(connection: Connection, key_id: str, now_ms: int) -> bool:
    """End a key at once; False when it was ended before."""
    statement = update(KEYS).where(KEYS.c.id == key_id, KEYS.c.revoked_at_ms.is_(None)).values(revoked_at_ms=now_ms)
    return connection.execute(statement).rowcount == 1


def _find(connection: Connection, *conditions: object) -> list[ApiKey]:
    query = select(KEYS).order_by(KEYS.c.created_at_ms.desc(), KEYS.c.id)
    for condition in conditions:
        query = query.where(condition)  # type: ignore[arg-type]
    return [
        ApiKey(
            id=row["id"],
            tenant_id=row["tenant_id"],
            prefix=row["prefix"],
            name=row["name"],
            accounts=None if row["accounts"] is None else tuple(row["accounts"]),
            scopes=tuple(row["scopes"] or ()),
            recipients_per_minute=row["recipients_per_minute"],
            created_at_ms=row["created_at_ms"],
            expires_at_ms=row["expires_at_ms"],
            revoked_at_ms=row["revoked_at_ms"],
            last_used_ms=row["last_used_ms"],
        )
        for row in connection.execute(query).mappings()
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
