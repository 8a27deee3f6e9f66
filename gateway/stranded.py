"""Messages of the fast lane whose process died: they have no claim that runs out, so they are found by their rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from config import lease
from config.columns import table_of
from gateway.models import Inbound
from memory.models import Conversation
from tools.models import PendingAction

_ROW, _CONVERSATION, _ACTION = table_of(Inbound), table_of(Conversation), table_of(PendingAction)


def unanswered(connection: Connection, conversation: str) -> list[Any]:
    """Fast messages that nobody answered, oldest first, with the conversation's session. One of a process that is only slow
    may be among them: the first to store an answer wins (gateway.fast)."""
    return list(
        connection.execute(
            select(_ROW.c.seq, _ROW.c.account_id, _ROW.c.body, _CONVERSATION.c.session_id)
            .join(_CONVERSATION, _CONVERSATION.c.id == _ROW.c.conversation_id)
            .where(_ROW.c.conversation_id == conversation, _ROW.c.status == "received", _ROW.c.lane == "fast")
            .order_by(_ROW.c.seq)
        )
    )


def reopen_unbegun(connection: Connection, conversation: str) -> None:
    """Messages that confirmed an action which nobody has begun are open again: whoever was about to died or lost its
    database, and the very message that confirmed it runs it on. A process that is only slow meets the action's own lease."""
    unbegun = select(_ACTION.c.id).where(
        _ACTION.c.conversation_id == conversation,
        _ACTION.c.status == "confirmed",
        _ACTION.c.decided_message == _ROW.c.key,
    )
    mine = (_ROW.c.conversation_id == conversation, _ROW.c.lane == "fast", _ROW.c.status == "running")
    connection.execute(update(_ROW).where(*mine, unbegun.exists()).values(status="received"))


def end_told_actions(connection: Connection, conversation: str) -> None:
    """End the messages that confirmed an action whose process died: the action is taken over by its own lease, and its
    outcome is told. While somebody runs an action of this conversation they stay: its outcome is their answer."""
    running = select(_ACTION.c.id).where(
        _ACTION.c.conversation_id == conversation,
        _ACTION.c.status == "executing",
        ~lease.is_free(_ACTION, lease.now_ms(connection)),
    )
    mine = (_ROW.c.conversation_id == conversation, _ROW.c.lane == "fast", _ROW.c.status == "running")
    connection.execute(update(_ROW).where(*mine, ~running.exists()).values(status="done"))
