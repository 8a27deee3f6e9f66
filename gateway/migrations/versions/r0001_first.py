"""The first schema: memory, gateway, agent and tools, frozen as it was released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create every table; the functions are one a table, in alphabetical order."""
    _account_state()
    _api_key()
    _conversation()
    _identity()
    _inbound()
    _job()
    _lease()
    _message()
    _outbox_message()
    _pending_action()
    _push()
    _reminder()
    _session()
    _todo()
    _tool_audit()
    _turn()
    _welcome()


def _strings(names: str, *, null: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.String(), nullable=null) for name in names.split()]


def _bigs(names: str, *, null: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.BigInteger(), nullable=null) for name in names.split()]


def _seqs(names: str) -> list[sa.Column[object]]:
    return [sa.Column(name, _SEQ, nullable=True) for name in names.split()]


def _ints(names: str, *, null: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.Integer(), nullable=null) for name in names.split()]


def _flags(names: str, *, null: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.Boolean(), nullable=null) for name in names.split()]


def _texts(names: str, *, null: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.Text(), nullable=null) for name in names.split()]


def _jsons(names: str, *, null: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.JSON(), nullable=null) for name in names.split()]


def _blobs(names: str, *, null: bool = False) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.LargeBinary(), nullable=null) for name in names.split()]


def _account_state() -> None:
    op.create_table(
        "account_state",
        sa.Column("account_id", sa.String(), primary_key=True),
        *_strings("tenant_id capability"),
        *_bigs("probed_at_ms paused_until_ms trouble_at_ms", null=True),
        *_strings("pause_reason", null=True),
        *_texts("trouble", null=True),
        *_jsons("notes", null=True),
    )


def _api_key() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id prefix secret_hash name"),
        *_jsons("accounts scopes", null=True),
        *_ints("recipients_per_minute"),
        *_bigs("expires_at_ms revoked_at_ms last_used_ms", null=True),
        *_bigs("created_at_ms"),
        sa.UniqueConstraint("secret_hash"),
    )
    op.create_index("ix_api_key_tenant_id", "api_key", ["tenant_id"])


def _conversation() -> None:
    op.create_table(
        "conversation",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id account_id chat_type peer_id user_id id_type"),
        *_strings("session_id last_act_kind lease_owner", null=True),
        *_bigs("last_inbound_ms last_act_ms lease_until_ms", null=True),
        *_bigs("fence created_at_ms"),
    )


def _identity() -> None:
    op.create_table(
        "identity",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id id_type account_id external_id subject_id"),
        *_texts("display_name", null=True),
        *_bigs("created_at_ms"),
    )
    op.create_index("ix_identity_tenant_id", "identity", ["tenant_id"])


def _inbound() -> None:
    op.create_table(
        "inbound",
        sa.Column("seq", _SEQ, primary_key=True, autoincrement=True),
        *_strings("key tenant_id account_id conversation_id user_id kind lane status"),
        *_strings("message_id answer_group error_code", null=True),
        *_jsons("body", null=True),
        *_seqs("joined_seq"),
        *_ints("deliveries attempts deaths"),
        *_flags("stop_requested"),
        *_bigs("sent_at_ms received_at_ms"),
        *_bigs("rung_at_ms finished_at_ms", null=True),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_inbound_open", "inbound", ["conversation_id", "status", "seq"])
    op.create_index("ix_inbound_status", "inbound", ["status", "seq"])
    op.create_index("ix_inbound_user_time", "inbound", ["conversation_id", "received_at_ms"])


def _job() -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id account_id conversation_id user_id queue name status"),
        *_strings("session_id answer_group error_code lease_owner", null=True),
        *_jsons("args", null=True),
        *_seqs("inbound_seq"),
        *_ints("attempts deaths"),
        *_flags("cancel_requested"),
        *_bigs("rung_at_ms lease_until_ms started_at_ms finished_at_ms", null=True),
        *_bigs("fence created_at_ms"),
    )
    op.create_index("ix_job_status", "job", ["status", "created_at_ms"])


def _lease() -> None:
    op.create_table(
        "lease",
        sa.Column("name", sa.String(), primary_key=True),
        *_strings("lease_owner", null=True),
        *_bigs("lease_until_ms done_at_ms", null=True),
        *_bigs("fence"),
    )


def _message() -> None:
    op.create_table(
        "message",
        sa.Column("id", _SEQ, primary_key=True, autoincrement=True),
        *_strings("tenant_id conversation_id session_id user_id role"),
        *_texts("text"),
        *_seqs("inbound_seq"),
        *_strings("turn_id", null=True),
        *_bigs("created_at_ms"),
    )
    op.create_index("ix_message_conversation_order", "message", ["conversation_id", "id"])


def _outbox_message() -> None:
    op.create_table(
        "outbox_message",
        sa.Column("seq", _SEQ, primary_key=True, autoincrement=True),
        *_strings("idempotency_key tenant_id account_id conversation_id user_id cause cause_id group_id kind status"),
        *_strings("session_id action_id via park_reason platform_id response_code lease_owner", null=True),
        *_ints("part parts attempts repeats"),
        *_flags("final duplicate_check"),
        *_jsons("target payload", null=True),
        *_texts("label errmsg", null=True),
        *_blobs("request", null=True),
        *_bigs(
            "frozen_at_ms not_before_ms expires_at_ms next_attempt_at_ms reserved_until_ms lease_until_ms sent_at_ms",
            null=True,
        ),
        *_ints("errcode", null=True),
        *_bigs("fence created_at_ms"),
        sa.UniqueConstraint("idempotency_key"),
    )
    op.create_index("ix_outbox_cause", "outbox_message", ["cause_id", "seq"])
    op.create_index("ix_outbox_due", "outbox_message", ["status", "next_attempt_at_ms"])
    op.create_index("ix_outbox_group", "outbox_message", ["group_id", "part"])
    op.create_index("ix_outbox_line", "outbox_message", ["conversation_id", "status", "seq"])
    op.create_index("ix_outbox_message_action_id", "outbox_message", ["action_id"])
    op.create_index("ix_outbox_sent", "outbox_message", ["conversation_id", "sent_at_ms"])


def _pending_action() -> None:
    op.create_table(
        "pending_action",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings(
            "tenant_id account_id conversation_id session_id requester_id approver_policy tool tool_version "
            "tool_call_id args_digest risk status idempotency_key"
        ),
        *_seqs("inbound_seq turn_fence"),
        *_texts("args_json prompt_text summary"),
        *_ints("number revision"),
        *_strings(
            "code supersedes_id task_id response_code decided_by decided_via decided_message answer_group error_code lease_owner",
            null=True,
        ),
        *_bigs("expires_at_ms fence created_at_ms"),
        *_bigs("decided_at_ms lease_until_ms finished_at_ms", null=True),
        *_texts("result_text", null=True),
        sa.UniqueConstraint("idempotency_key"),
    )
    op.create_index("ix_action_open", "pending_action", ["conversation_id", "status", "number"])
    op.create_index("ix_pending_action_task_id", "pending_action", ["task_id"])


def _push() -> None:
    op.create_table(
        "push",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id account_id api_key_id digest"),
        *_strings("idempotency_key", null=True),
        *_ints("targets"),
        *_bigs("created_at_ms"),
    )
    op.create_index("ix_push_idempotency_key", "push", ["idempotency_key"])
    op.create_index("ix_push_tenant_id", "push", ["tenant_id"])


def _reminder() -> None:
    op.create_table(
        "reminder",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id account_id conversation_id user_id owner_key repeat status idempotency_key"),
        *_ints("number"),
        *_texts("text"),
        *_bigs("next_due_ms created_at_ms"),
        *_bigs("last_fired_ms", null=True),
        sa.UniqueConstraint("idempotency_key"),
    )
    op.create_index("ix_reminder_due", "reminder", ["status", "next_due_ms"])


def _session() -> None:
    op.create_table(
        "session",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id conversation_id"),
        *_strings("parent_session_id end_reason", null=True),
        *_ints("memory_version turns"),
        *_bigs("started_at_ms"),
        *_bigs("last_turn_ms ended_at_ms", null=True),
        *_jsons("state", null=True),
    )
    op.create_index("ix_session_conversation_id", "session", ["conversation_id"])


def _todo() -> None:
    op.create_table(
        "todo",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id owner_key status idempotency_key"),
        *_ints("number"),
        *_texts("title"),
        *_texts("detail", null=True),
        *_bigs("due_at_ms link_expires_ms finished_at_ms", null=True),
        *_strings("link_token_hash", null=True),
        *_bigs("created_at_ms"),
        sa.UniqueConstraint("idempotency_key"),
    )
    op.create_index("ix_todo_link_token_hash", "todo", ["link_token_hash"])
    op.create_index("ix_todo_owner", "todo", ["tenant_id", "owner_key", "status"])


def _tool_audit() -> None:
    op.create_table(
        "tool_audit",
        sa.Column("id", _SEQ, primary_key=True, autoincrement=True),
        *_strings("tenant_id conversation_id user_id tool tool_class decision"),
        *_strings("turn_id action_id call_key error_code", null=True),
        *_texts("args_json result_json summary", null=True),
        *_flags("ok"),
        *_ints("took_ms"),
        *_bigs("created_at_ms"),
        sa.UniqueConstraint("call_key"),
    )


def _turn() -> None:
    op.create_table(
        "turn",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id account_id conversation_id session_id user_id route outcome"),
        *_seqs("inbound_seq"),
        *_strings("model error_code", null=True),
        *_jsons("routes_tried tools memory_ids", null=True),
        *_ints("prompt_tokens completion_tokens cost_micro model_calls tool_calls context_chars model_ms total_ms"),
        *_bigs("created_at_ms"),
    )
    op.create_index("ix_turn_conversation_id", "turn", ["conversation_id"])


def _welcome() -> None:
    op.create_table(
        "welcome",
        sa.Column("id", sa.String(), primary_key=True),
        *_strings("tenant_id text_hash"),
        *_bigs("greeted_at_ms"),
    )
