"""Answers that need no model and no turn: fixed replies, welcomes, menu clicks, messages we cannot read (EVT-01 to 04)."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, or_, update
from sqlalchemy.dialects import postgresql, sqlite

from agent.protocol import InboundMessage, Reply
from config.columns import table_of
from config.schema import MpAccount, WecomAccount
from gateway import texts
from gateway.models import Welcome
from memory.keys import conversation_id

_WELCOME = table_of(Welcome)


def fixed_reply(message: InboundMessage, account: WecomAccount | MpAccount) -> Reply | None:
    """The configured answer to this keyword or menu key, or the honest notice for a type we cannot read; else None."""
    if message.kind == "unsupported":
        return Reply(texts.UNSUPPORTED.format(name=message.raw_type))
    if message.kind == "text" and message.text.strip() in account.replies:
        return Reply(account.replies[message.text.strip()])
    if message.event is not None and message.event.name in ("menu_click", "scan"):
        found = account.replies.get(message.event.key or "")
        return Reply(found) if found else None
    return None


def welcome(connection: Connection, message: InboundMessage, account: WecomAccount | MpAccount, now_ms: int) -> Reply | None:
    """The greeting for subscribe or enter, at most once per interval and person; a changed text greets again (EVT-03)."""
    event = message.event.name if message.event is not None else ""
    configured = account.welcome
    if event not in configured.events or not configured.text:
        return None
    peer = conversation_id(message.tenant_id, message.account_id, message.chat_type, message.peer_id)
    digest = hashlib.sha256(configured.text.encode()).hexdigest()[:16]
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    fresh = connection.execute(
        dialect.insert(_WELCOME)
        .values(id=f"{peer}:{event}", tenant_id=message.tenant_id, text_hash=digest, greeted_at_ms=now_ms)
        .on_conflict_do_nothing()
    ).rowcount
    if fresh != 1:
        due = or_(_WELCOME.c.text_hash != digest, _WELCOME.c.greeted_at_ms <= now_ms - int(configured.interval_h * 3_600_000))
        again = update(_WELCOME).where(_WELCOME.c.id == f"{peer}:{event}", due)
        if connection.execute(again.values(text_hash=digest, greeted_at_ms=now_ms)).rowcount != 1:
            return None
    return Reply(configured.text)
