"""The right to run a turn in a conversation: one claim with a fence, renewed while it is used (N-02)."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from agent.protocol import InboundMessage
from config import lease
from config.claim import Claim
from config.columns import table_of
from config.database import Database
from config.ids import new_id
from gateway.models import Inbound
from memory.keys import conversation_id
from memory.models import Conversation as ConversationRow
from memory.models import Session

_CONVERSATION = table_of(ConversationRow)
_SESSION = table_of(Session)
_INBOUND = table_of(Inbound)

_OPEN = {
    name: dialect.insert(_CONVERSATION).on_conflict_do_nothing()
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}
_BEGIN = insert(_SESSION)
_POINT = update(_CONVERSATION).where(_CONVERSATION.c.id == bindparam("conversation")).values(session_id=bindparam("session"))
_TOUCH = (
    update(_CONVERSATION)
    .where(_CONVERSATION.c.id == bindparam("conversation"))
    .values(last_inbound_ms=bindparam("now"), last_act_ms=bindparam("now"), last_act_kind=bindparam("act"))
    .returning(_CONVERSATION.c.session_id)
)


def touch_conversation(connection: Connection, message: InboundMessage, now_ms: int) -> str:
    """Make sure the conversation and its current session exist, note the person's act; returns the session id."""
    key = conversation_id(message.tenant_id, message.account_id, message.chat_type, message.peer_id)
    act = "message" if message.event is None else message.event.name
    touched = {"conversation": key, "now": now_ms, "act": act}
    row = connection.execute(_TOUCH, touched).first()
    if row is None:
        fresh = {
            "id": key,
            "tenant_id": message.tenant_id,
            "account_id": message.account_id,
            "chat_type": message.chat_type,
            "peer_id": message.peer_id,
            "user_id": message.user_id,
            "id_type": message.id_type,
            "fence": 0,
            "created_at_ms": now_ms,
        }
        connection.execute(_OPEN[connection.dialect.name], fresh)
        row = connection.execute(_TOUCH, touched).one()
    return row.session_id or _first_session(connection, message.tenant_id, key, now_ms)


def _first_session(connection: Connection, tenant_id: str, conversation: str, now_ms: int) -> str:
    session = new_id("s")
    first = {"id": session, "tenant_id": tenant_id, "conversation_id": conversation, "started_at_ms": now_ms}
    connection.execute(_BEGIN, {**first, "memory_version": 0, "turns": 0})
    connection.execute(_POINT, {"conversation": conversation, "session": session})
    return session


_CLAIM = lease.Leased(_CONVERSATION, _CONVERSATION.c.id == bindparam("conversation"))


def claim_conversation(connection: Connection, conversation: str, owner: str) -> int | None:
    """Take the conversation's claim if it is free; the new fence, or None."""
    return _CLAIM.claim(connection, owner, given={"conversation": conversation})


def release(connection: Connection, conversation: str, fence: int) -> None:
    """Give the claim back, whatever still waits."""
    _CLAIM.release(connection, fence, {"conversation": conversation})


def check_fence(connection: Connection, conversation: str, fence: int) -> None:
    """Raise FenceLost unless this fence still holds; every write of a turn starts with it."""
    _CLAIM.check(connection, fence, {"conversation": conversation})


_WAITING = (
    select(_INBOUND.c.seq)
    .where(_INBOUND.c.conversation_id == bindparam("conversation"), _INBOUND.c.status == "received")
    .where(_INBOUND.c.lane.in_(("turn", "single")))
)
_RELEASE_IF_IDLE = (
    update(_CONVERSATION)
    .where(_CONVERSATION.c.id == bindparam("conversation"), _CONVERSATION.c.fence == bindparam("held"), ~_WAITING.exists())
    .values(lease_owner=None, lease_until_ms=None)
)


def release_if_idle(connection: Connection, conversation: str, fence: int) -> bool:
    """Give the claim back unless messages still wait; True when it was given back."""
    return connection.execute(_RELEASE_IF_IDLE, {"conversation": conversation, "held": fence}).rowcount == 1


class ConversationClaim(Claim):
    """The held claim of a conversation."""

    def __init__(self, database: Database, conversation: str, owner: str, fence: int) -> None:
        super().__init__(database, _CLAIM, owner, fence, name=conversation, given={"conversation": conversation})
        self.conversation = conversation
