"""Tables of the tools: pending actions, the audit trail, to-dos and reminders."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index
from sqlmodel import Field, SQLModel

from config.columns import ms_column, rows_end, rows_stay, seq_column, text_column


class PendingAction(SQLModel, table=True):
    """A write that waits for its person's confirmation of these exact arguments (agent.md §5).

    ``status``: draft → pending → confirmed → executing → succeeded | failed | unknown | needs_human; or rejected, expired,
    withdrawn, superseded. ``number`` is unique per conversation while pending. A row with status ``choice`` keeps what the
    numbered answers of a question mean.
    """

    __tablename__ = "pending_action"
    __table_args__ = (
        Index("ix_action_open", "conversation_id", "status", "number"),
        Index("ix_action_status", "status", "created_at_ms"),
        rows_end("created_at_ms", "succeeded", "failed", "rejected", "expired", "withdrawn", "superseded"),
    )

    id: str = Field(primary_key=True)
    tenant_id: str
    account_id: str
    conversation_id: str
    session_id: str
    requester_id: str
    approver_policy: str = "requester"
    inbound_seq: int | None = Field(default=None, sa_column=seq_column())
    turn_fence: int | None = Field(default=None, sa_column=seq_column())
    tool: str
    tool_version: str
    tool_call_id: str
    args_json: str = Field(sa_column=text_column(retention="body", erase="subject", nullable=False))
    args_digest: str
    prompt_text: str = Field(sa_column=text_column(retention="body", erase="subject", nullable=False))
    summary: str = Field(sa_column=text_column(retention="body", erase="subject", nullable=False))
    risk: str = "normal"
    number: int
    code: str | None = None
    revision: int = 1
    supersedes_id: str | None = None
    status: str = "pending"
    expires_at_ms: int = Field(sa_column=ms_column(nullable=False))
    task_id: str | None = Field(default=None, index=True)
    response_code: str | None = None
    decided_by: str | None = None
    decided_via: str | None = None
    decided_message: str | None = None
    decided_at_ms: int | None = Field(default=None, sa_column=ms_column())
    idempotency_key: str = Field(unique=True)
    answer_group: str | None = None
    result_text: str | None = Field(default=None, sa_column=text_column(retention="body", erase="subject"))
    error_code: str | None = None
    lease_owner: str | None = None
    lease_until_ms: int | None = Field(default=None, sa_column=ms_column())
    fence: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
    finished_at_ms: int | None = Field(default=None, sa_column=ms_column())


class ToolAudit(SQLModel, table=True):
    """One tool call as it happened: who, which arguments, the decision, the raw result. The model never sees this."""

    __tablename__ = "tool_audit"
    __table_args__ = rows_end("created_at_ms")

    id: int | None = Field(default=None, sa_column=seq_column(primary_key=True))
    tenant_id: str
    conversation_id: str
    user_id: str
    turn_id: str | None = None
    action_id: str | None = None
    call_key: str | None = Field(default=None, unique=True)
    """Idempotency key of a finished call, so a turn that runs again replays it (overview §7.2)."""
    tool: str
    tool_class: str
    decision: str
    args_json: str | None = Field(default=None, sa_column=text_column(retention="body", erase="subject"))
    result_json: str | None = Field(default=None, sa_column=text_column(retention="body", erase="subject"))
    summary: str | None = Field(default=None, sa_column=text_column(retention="body", erase="subject"))
    ok: bool
    error_code: str | None = None
    took_ms: int = 0
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))


class Todo(SQLModel, table=True):
    """A person's to-do. ``number`` is what they see and say; ``link_token_hash`` opens its page (N-24)."""

    __tablename__ = "todo"
    __table_args__ = (Index("ix_todo_owner", "tenant_id", "owner_key", "status"), rows_stay())

    id: str = Field(primary_key=True)
    tenant_id: str
    owner_key: str
    number: int
    title: str = Field(sa_column=text_column(retention="row", erase="subject", nullable=False))
    detail: str | None = Field(default=None, sa_column=text_column(retention="row", erase="subject"))
    due_at_ms: int | None = Field(default=None, sa_column=ms_column())
    status: str = "open"
    link_token_hash: str | None = Field(default=None, index=True)
    link_expires_ms: int | None = Field(default=None, sa_column=ms_column())
    idempotency_key: str = Field(unique=True)
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
    finished_at_ms: int | None = Field(default=None, sa_column=ms_column())


class Reminder(SQLModel, table=True):
    """A reminder, one-shot or repeating (``repeat`` is none, daily, weekdays, weekly, monthly). Due ones become outbox rows."""

    __tablename__ = "reminder"
    __table_args__ = (
        Index("ix_reminder_due", "status", "next_due_ms"),
        Index("ix_reminder_owner", "tenant_id", "owner_key", "status"),
        rows_stay(),
    )

    id: str = Field(primary_key=True)
    tenant_id: str
    account_id: str
    conversation_id: str
    user_id: str
    owner_key: str
    number: int
    text: str = Field(sa_column=text_column(retention="row", erase="subject", nullable=False))
    next_due_ms: int = Field(sa_column=ms_column(nullable=False))
    repeat: str = "none"
    status: str = "active"
    idempotency_key: str = Field(unique=True)
    last_fired_ms: int | None = Field(default=None, sa_column=ms_column())
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
