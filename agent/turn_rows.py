"""The rows a turn leaves: transcript, session, usage. Each is a write for the transaction that stores the answer."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert

from agent.loop import LoopResult
from agent.models import Turn
from agent.protocol import Write
from agent.run import Run
from config.columns import table_of
from memory import epochs, transcripts
from memory.epochs import Epoch
from memory.transcripts import Line

_KEEP = insert(table_of(Turn))


def session_rows(run: Run, epoch: Epoch, state: dict[str, Any], lines: list[Line], *, overrun: bool) -> Write:
    """The lines that were said and the session they belong to; ``overrun`` ends it (memory §6)."""
    where, now_ms, turn_id = run.where, run.services.clock.now_ms(), run.turn_id

    def write(connection: Connection) -> None:
        epochs.save(connection, where.tenant_id, where.conversation_id, epoch, state, now_ms)
        transcripts.append(
            connection,
            tenant_id=where.tenant_id,
            conversation_id=where.conversation_id,
            session_id=where.session_id,
            user_id=where.user_id,
            lines=lines,
            now_ms=now_ms,
            turn_id=turn_id,
            inbound_seq=where.inbound_seq,
        )
        if overrun:
            epochs.close(connection, where.session_id, "budget", now_ms)

    return write


def turn_row(run: Run, result: LoopResult, context_chars: int) -> Write:
    """What the turn used and how it ended, every model call with its route and reason."""
    where, log = run.where, run.log
    values = {
        "id": run.turn_id,
        "tenant_id": where.tenant_id,
        "account_id": where.account_id,
        "conversation_id": where.conversation_id,
        "session_id": where.session_id,
        "user_id": where.user_id,
        "inbound_seq": where.inbound_seq,
        "route": log.route or "none",
        "model": log.model,
        "routes_tried": log.tries,
        "prompt_tokens": log.prompt_tokens,
        "completion_tokens": log.completion_tokens,
        "cost_micro": log.cost_micro,
        "model_calls": result.model_calls,
        "tool_calls": result.tool_calls,
        "tools": result.tools,
        "memory_ids": [],
        "context_chars": context_chars,
        "model_ms": log.model_ms,
        "total_ms": round((run.services.clock.monotonic() - run.started) * 1000),
        "outcome": result.outcome,
        "error_code": result.error_code,
        "created_at_ms": run.services.clock.now_ms(),
    }

    def write(connection: Connection) -> None:
        connection.execute(_KEEP, values)

    return write
