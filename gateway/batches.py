"""The next turn of a conversation: which waiting messages it takes, as one message (lock, then load)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from agent.protocol import Conversation, InboundMessage
from config.columns import table_of
from config.errors import FenceLost
from config.logging import get_logger, log
from gateway import wire
from gateway.models import Inbound
from gateway.sessions import release_if_idle
from memory.models import Conversation as ConversationRow

_ROW = table_of(Inbound)
_CONVERSATION = table_of(ConversationRow)
_JOIN_LIMIT = 20
_logger = get_logger(__name__)

_HELD = (
    select(_CONVERSATION.c.session_id)
    .where(_CONVERSATION.c.id == bindparam("conversation"), _CONVERSATION.c.fence == bindparam("held"))
    .with_for_update()
)
_OPEN_ROWS = (
    select(
        _ROW.c.seq,
        _ROW.c.lane,
        _ROW.c.status,
        _ROW.c.user_id,
        _ROW.c.joined_seq,
        _ROW.c.body,
        _ROW.c.attempts,
        _ROW.c.deaths,
        _ROW.c.stop_requested,
    )
    .where(_ROW.c.conversation_id == bindparam("conversation"), _ROW.c.status.in_(("received", "running")))
    .where(_ROW.c.lane.in_(("turn", "single")))
    .order_by(_ROW.c.seq)
    .limit(_JOIN_LIMIT)
)
_START = update(_ROW).where(_ROW.c.seq.in_(bindparam("seqs", expanding=True))).values(status="running", deaths=bindparam("died"))
_JOIN = update(_ROW).where(_ROW.c.seq.in_(bindparam("seqs", expanding=True))).values(joined_seq=bindparam("first"))


@dataclass(frozen=True, slots=True)
class Batch:
    """The next turn: inbound rows in order (joined fragments after the first) as one message."""

    seqs: tuple[int, ...]
    message: InboundMessage
    where: Conversation
    attempts: int
    deaths: int
    stop_requested: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """A claim this process has, and the turn that was taken with it, if one was."""

    fence: int
    batch: Batch | None = None


def take_batch(connection: Connection, conversation: str, fence: int) -> Batch | None:
    """Under the fence, the next turn's rows, marked running. None when idle (the claim is given back then).

    Raises FenceLost when the claim is somebody else's.
    """
    held = connection.execute(_HELD, {"conversation": conversation, "held": fence}).first()
    if held is None:
        raise FenceLost("the claim was taken over; nothing is started")
    rows, messages = _readable(connection, conversation)
    if not rows:
        release_if_idle(connection, conversation, fence)
        return None
    first, chosen = rows[0], [rows[0]]
    for row in rows[1:]:
        if first.lane != "turn" or row.lane != "turn" or row.user_id != first.user_id:
            break  # in a group nobody's words become another person's
        if first.status == "running" and row.joined_seq != first.seq:
            break
        chosen.append(row)
    seqs = tuple(int(row.seq) for row in chosen)
    deaths = first.deaths + (1 if first.status == "running" else 0)
    connection.execute(_START, {"seqs": seqs, "died": deaths})
    if len(seqs) > 1:
        connection.execute(_JOIN, {"seqs": seqs[1:], "first": seqs[0]})
    message = _joined(messages[: len(chosen)])
    where = Conversation(
        tenant_id=message.tenant_id,
        account_id=message.account_id,
        conversation_id=conversation,
        session_id=held.session_id,
        user_id=message.user_id,
        id_type=message.id_type,
        chat_type=message.chat_type,
        fence=fence,
        inbound_seq=seqs[0],
    )
    return Batch(seqs, message, where, first.attempts, deaths, any(row.stop_requested for row in chosen))


def _readable(connection: Connection, conversation: str) -> tuple[list[Any], list[InboundMessage]]:
    """The open rows and their messages, in order. A body nobody can read any more ends its row: it must not hold up the
    conversation for ever."""
    rows: list[Any] = []
    messages: list[InboundMessage] = []
    for row in connection.execute(_OPEN_ROWS, {"conversation": conversation}).all():
        try:
            messages.append(wire.from_json(row.body))
            rows.append(row)
        except wire.Unreadable as error:
            end_unreadable(connection, row.seq, error.code)
    return rows, messages


def end_unreadable(connection: Connection, seq: int, code: str) -> None:
    """End a row whose stored body nobody can read."""
    log(_logger, "inbound.unreadable", logging.ERROR, seq=seq, code=code)
    connection.execute(update(_ROW).where(_ROW.c.seq == seq).values(status="dead", error_code=code))


def wait_again(connection: Connection, seqs: Sequence[int]) -> None:
    """The rows of a turn that was begun and not done wait as before."""
    connection.execute(update(_ROW).where(_ROW.c.seq.in_(seqs), _ROW.c.status == "running").values(status="received"))


def _joined(messages: list[InboundMessage]) -> InboundMessage:
    """One person writes one request as several messages; together they are one, in order, said when the last was."""
    if len(messages) == 1:
        return messages[0]
    return replace(messages[0], text="\n".join(m.text for m in messages), sent_at_ms=messages[-1].sent_at_ms)
