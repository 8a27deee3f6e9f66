"""Tables of the memory floor: who talks with us, their conversations, sessions (epochs) and messages."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index
from sqlmodel import Field, SQLModel

from config.columns import json_column, ms_column, rows_end, rows_stay, seq_column, text_column


class Conversation(SQLModel, table=True):
    """A permanent (tenant, account, peer). Its lease and fence are the right to run a turn in it (N-02).

    ``id`` is derived from tenant, account, chat type and peer (``memory.keys.conversation_id``), so it is known without a read.
    """

    __tablename__ = "conversation"
    __table_args__ = rows_stay()

    id: str = Field(primary_key=True)
    tenant_id: str
    account_id: str
    chat_type: str
    peer_id: str
    user_id: str
    id_type: str
    session_id: str | None = None
    last_inbound_ms: int | None = Field(default=None, sa_column=ms_column())
    last_act_ms: int | None = Field(default=None, sa_column=ms_column())
    last_act_kind: str | None = None
    lease_owner: str | None = None
    lease_until_ms: int | None = Field(default=None, sa_column=ms_column())
    fence: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))


class Session(SQLModel, table=True):
    """One epoch of a conversation. ``turns`` counts generations; a closed one has ``ended_at_ms`` and a reason."""

    __tablename__ = "session"
    __table_args__ = rows_stay()

    id: str = Field(primary_key=True)
    tenant_id: str
    conversation_id: str = Field(index=True)
    parent_session_id: str | None = None
    memory_version: int = 0
    turns: int = 0
    started_at_ms: int = Field(sa_column=ms_column(nullable=False))
    last_turn_ms: int | None = Field(default=None, sa_column=ms_column())
    ended_at_ms: int | None = Field(default=None, sa_column=ms_column())
    end_reason: str | None = None
    state: dict[str, Any] | None = Field(default=None, sa_column=json_column(retention="settled", erase="subject"))
    """What the assistant keeps between turns of this session (slots being asked for); small."""


class Message(SQLModel, table=True):
    """One line of a transcript: ``role`` is user, assistant or note (outcomes told outside a turn)."""

    __tablename__ = "message"
    __table_args__ = (Index("ix_message_conversation_order", "conversation_id", "id"), rows_end("created_at_ms"))

    id: int | None = Field(default=None, sa_column=seq_column(primary_key=True))
    tenant_id: str
    conversation_id: str
    session_id: str
    user_id: str
    role: str
    text: str = Field(sa_column=text_column(retention="body", erase="subject", nullable=False))
    inbound_seq: int | None = Field(default=None, sa_column=seq_column())
    turn_id: str | None = None
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))


class Identity(SQLModel, table=True):
    """A known id of a person. Unlinked identities are separate subjects; ``display_name`` is as the platform told it."""

    __tablename__ = "identity"
    __table_args__ = rows_stay()

    id: str = Field(primary_key=True)
    tenant_id: str = Field(index=True)
    id_type: str
    account_id: str
    external_id: str
    subject_id: str
    display_name: str | None = Field(default=None, sa_column=text_column(retention="row", erase="subject"))
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
