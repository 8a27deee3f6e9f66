"""Tables of the gateway: inbound messages, the outbox, jobs, pushes, API keys and what accounts can do."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, text
from sqlmodel import Field, SQLModel

from config.columns import bytes_column, json_column, ms_column, rows_end, rows_stay, seq_column, text_column


class Inbound(SQLModel, table=True):
    """One first-seen callback. ``seq`` is the order of arrival; ``key`` is unique and makes redeliveries join.

    ``status``: received → running → done | failed | stopped | dead; or refused. ``answer_group`` is the outbox group of
    the one final answer; rows that were joined into an earlier one's turn carry ``joined_seq`` and share its answer.
    ``attempts`` counts attempts that failed by themselves, ``deaths`` those whose process died (N-07).
    ``lane``: turn (needs the claim, may join), single (needs the claim, never joins), fast (no claim), none (no answer).
    """

    __tablename__ = "inbound"
    __table_args__ = (
        Index("ix_inbound_open", "conversation_id", "status", "seq"),
        Index("ix_inbound_status", "status", "seq"),
        Index("ix_inbound_user_time", "conversation_id", "received_at_ms"),
        rows_end("received_at_ms", "done", "failed", "stopped", "dead", "refused"),
    )

    seq: int | None = Field(default=None, sa_column=seq_column(primary_key=True))
    key: str = Field(unique=True)
    tenant_id: str
    account_id: str
    conversation_id: str
    user_id: str
    kind: str
    lane: str
    message_id: str | None = None
    status: str = "received"
    body: dict[str, Any] | None = Field(default=None, sa_column=json_column(retention="body", erase="subject"))
    """The InboundMessage as JSON (gateway.wire)."""
    answer_group: str | None = None
    joined_seq: int | None = Field(default=None, sa_column=seq_column())
    deliveries: int = 1
    attempts: int = 0
    deaths: int = 0
    stop_requested: bool = False
    error_code: str | None = None
    sent_at_ms: int = Field(sa_column=ms_column(nullable=False))
    received_at_ms: int = Field(sa_column=ms_column(nullable=False))
    rung_at_ms: int | None = Field(default=None, sa_column=ms_column())
    finished_at_ms: int | None = Field(default=None, sa_column=ms_column())


def _due_index(name: str, kind: str) -> Index:
    """Rows that wait to be sent, by account and moment. Queries must write these very conditions, with literals; ``status``
    stands in front only because SQLite would otherwise prefer an index that begins with it."""
    where = text(f"status = 'pending' AND {kind}")
    return Index(name, "status", "account_id", "next_attempt_at_ms", sqlite_where=where, postgresql_where=where)


class OutboxMessage(SQLModel, table=True):
    """One part of one message to somebody. ``group_id`` ties parts; the head of line goes first per conversation.

    ``status`` (N-03): passive_reserved → pending → sending → sent | parked | unknown | expired | cancelled | dead.
    ``via``: passive | push | pull, set once. ``cause``: inbound | job | push | action | reminder | notice.
    """

    __tablename__ = "outbox_message"
    __table_args__ = (
        Index("ix_outbox_line", "conversation_id", "status", "seq"),
        Index("ix_outbox_due", "status", "next_attempt_at_ms"),
        _due_index("ix_outbox_due_answers", "cause <> 'push'"),
        _due_index("ix_outbox_due_pushes", "cause = 'push'"),
        Index("ix_outbox_group", "group_id", "part"),
        Index("ix_outbox_sent", "conversation_id", "sent_at_ms"),
        Index("ix_outbox_cause", "cause_id", "seq"),
        rows_end("created_at_ms", "sent", "expired", "cancelled", "dead"),
    )

    seq: int | None = Field(default=None, sa_column=seq_column(primary_key=True))
    idempotency_key: str = Field(unique=True)
    tenant_id: str
    account_id: str
    conversation_id: str
    user_id: str
    session_id: str | None = None
    cause: str
    cause_id: str
    group_id: str
    part: int = 0
    parts: int = 1
    final: bool = False
    """True for the final answer to an inbound message (N-05: repeated once when unknown)."""
    kind: str = "text"
    target: dict[str, Any] | None = Field(default=None, sa_column=json_column(retention="row", erase="subject"))
    """Where to, when it is not the conversation's person: {"touser": [...]}, {"webhook": name}, ..."""
    payload: dict[str, Any] | None = Field(default=None, sa_column=json_column(retention="body", erase="subject"))
    label: str | None = Field(default=None, sa_column=text_column(retention="body", erase="subject"))
    """The question this answers (for 「关于：…」), as typed, short."""
    action_id: str | None = Field(default=None, index=True)
    status: str = "pending"
    via: str | None = None
    request: bytes | None = Field(default=None, sa_column=bytes_column(retention="body", erase="subject"))
    """The exact request bytes, frozen at the first attempt (N-04)."""
    frozen_at_ms: int | None = Field(default=None, sa_column=ms_column())
    """When ``request`` was first sent: the platform's duplicate check runs from here."""
    duplicate_check: bool = False
    attempts: int = 0
    repeats: int = 0
    park_reason: str | None = None
    errcode: int | None = None
    errmsg: str | None = Field(default=None, sa_column=text_column(retention="row", erase="none"))
    """The platform's message, redacted."""
    platform_id: str | None = None
    response_code: str | None = None
    not_before_ms: int | None = Field(default=None, sa_column=ms_column())
    expires_at_ms: int | None = Field(default=None, sa_column=ms_column())
    next_attempt_at_ms: int | None = Field(default=None, sa_column=ms_column())
    """pending: when it is due; parked: when it expires. So everything that waits is found by one index."""
    reserved_until_ms: int | None = Field(default=None, sa_column=ms_column())
    """Lease-clock end of a passive reservation (config.lease.now_ms); past it delivery takes the row over."""
    lease_owner: str | None = None
    lease_until_ms: int | None = Field(default=None, sa_column=ms_column())
    fence: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
    sent_at_ms: int | None = Field(default=None, sa_column=ms_column())


class Job(SQLModel, table=True):
    """One piece of long work, run by a worker under a lease. ``name`` is an entry of the fixed job table (N-19)."""

    __tablename__ = "job"
    __table_args__ = (
        Index("ix_job_status", "status", "created_at_ms"),
        rows_end("created_at_ms", "done", "failed", "dead", "cancelled"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str
    account_id: str
    conversation_id: str
    session_id: str | None = None
    user_id: str
    queue: str
    name: str
    args: dict[str, Any] | None = Field(default=None, sa_column=json_column(retention="settled", erase="subject"))
    inbound_seq: int | None = Field(default=None, sa_column=seq_column())
    answer_group: str | None = None
    status: str = "queued"
    """queued → running → done | failed | dead | cancelled"""
    attempts: int = 0
    deaths: int = 0
    cancel_requested: bool = False
    error_code: str | None = None
    rung_at_ms: int | None = Field(default=None, sa_column=ms_column())
    lease_owner: str | None = None
    lease_until_ms: int | None = Field(default=None, sa_column=ms_column())
    fence: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
    started_at_ms: int | None = Field(default=None, sa_column=ms_column())
    finished_at_ms: int | None = Field(default=None, sa_column=ms_column())


class Push(SQLModel, table=True):
    """One request of the push API; its targets are outbox rows with ``cause="push"`` and ``cause_id=id``."""

    __tablename__ = "push"
    __table_args__ = rows_end("created_at_ms")

    id: str = Field(primary_key=True)
    tenant_id: str = Field(index=True)
    account_id: str
    api_key_id: str
    idempotency_key: str | None = Field(default=None, index=True)
    digest: str
    targets: int
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))


class ApiKey(SQLModel, table=True):
    """A program's key: stored hashed, listed by prefix, limited to tenant, accounts, scopes, expiry and rate (N-13)."""

    __tablename__ = "api_key"
    __table_args__ = rows_stay()

    id: str = Field(primary_key=True)
    tenant_id: str = Field(index=True)
    prefix: str
    secret_hash: str = Field(unique=True)
    name: str
    accounts: list[str] | None = Field(default=None, sa_column=json_column(retention="row", erase="none"))
    scopes: list[str] | None = Field(default=None, sa_column=json_column(retention="row", erase="none"))
    recipients_per_minute: int = 6000
    expires_at_ms: int | None = Field(default=None, sa_column=ms_column())
    revoked_at_ms: int | None = Field(default=None, sa_column=ms_column())
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
    last_used_ms: int | None = Field(default=None, sa_column=ms_column())


class AccountState(SQLModel, table=True):
    """What was learned about an account: its capability (push | pull | unknown), pauses, the last trouble."""

    __tablename__ = "account_state"
    __table_args__ = rows_stay()

    account_id: str = Field(primary_key=True)
    tenant_id: str
    capability: str = "unknown"
    probed_at_ms: int | None = Field(default=None, sa_column=ms_column())
    paused_until_ms: int | None = Field(default=None, sa_column=ms_column())
    pause_reason: str | None = None
    trouble: str | None = Field(default=None, sa_column=text_column(retention="row", erase="none"))
    trouble_at_ms: int | None = Field(default=None, sa_column=ms_column())
    notes: dict[str, Any] | None = Field(default=None, sa_column=json_column(retention="row", erase="none"))


class Welcome(SQLModel, table=True):
    """When a person was last greeted for an event, so a welcome comes at most once per interval."""

    __tablename__ = "welcome"
    __table_args__ = rows_end("greeted_at_ms")

    id: str = Field(primary_key=True)
    """conversation id and event name"""
    tenant_id: str
    text_hash: str
    greeted_at_ms: int = Field(sa_column=ms_column(nullable=False))


class Lease(SQLModel, table=True):
    """A named right that one process of the deployment holds at a time (the reaper, the retention pass, an alert)."""

    __tablename__ = "lease"
    __table_args__ = rows_stay()

    name: str = Field(primary_key=True)
    lease_owner: str | None = None
    lease_until_ms: int | None = Field(default=None, sa_column=ms_column())
    fence: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    done_at_ms: int | None = Field(default=None, sa_column=ms_column())
    """Wall-clock time of the last completed pass."""
