"""Table of turns: what each one used and how it ended."""

from __future__ import annotations

from typing import Any

from sqlmodel import Field, SQLModel

from config.columns import json_column, ms_column, rows_end, seq_column


class Turn(SQLModel, table=True):
    """One turn: route, tokens, time, tools, outcome. ``cost`` is in the currency of the route's price, millionths."""

    __tablename__ = "turn"
    __table_args__ = rows_end("created_at_ms")

    id: str = Field(primary_key=True)
    tenant_id: str
    account_id: str
    conversation_id: str = Field(index=True)
    session_id: str
    user_id: str
    inbound_seq: int | None = Field(default=None, sa_column=seq_column())
    route: str
    model: str | None = None
    routes_tried: list[dict[str, Any]] | None = Field(default=None, sa_column=json_column(retention="row", erase="none"))
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_micro: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tools: list[str] | None = Field(default=None, sa_column=json_column(retention="row", erase="none"))
    memory_ids: list[str] | None = Field(default=None, sa_column=json_column(retention="row", erase="subject"))
    context_chars: int = 0
    model_ms: int = 0
    total_ms: int = 0
    outcome: str
    error_code: str | None = None
    created_at_ms: int = Field(sa_column=ms_column(nullable=False))
