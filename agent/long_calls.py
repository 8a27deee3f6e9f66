"""What a long tool's job does: the call that a turn put off, made now; its result goes to the person and the transcript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from agent.ports import StopSignal
from agent.protocol import Capability, Conversation, Reply, TurnResult
from agent.services import AgentServices
from agent.texts import JOB_PULL, JOB_PUSH, STOPPED
from agent.tool_context import tool_context
from agent.waiting import first_of
from memory import transcripts
from memory.transcripts import Line
from tools.prompt import quoted_lines


def receipt(capability: Capability) -> str:
    """What is told at once; it promises only what the channel can keep (N-26)."""
    return JOB_PUSH if capability.can_push else JOB_PULL


async def run_long_call(
    services: AgentServices, where: Conversation, capability: Capability, wanted: Mapping[str, Any], stop: StopSignal
) -> TurnResult:
    """Make the call with every check anew. ``wanted`` is what the registry put off; 停止 ends it."""
    context = tool_context(services, where, capability, None)
    outcome = await first_of(services.registry.call_in_job(context, wanted), stop)
    if outcome is None:
        return TurnResult((Reply(STOPPED.format(question=str(wanted["tool"]))),), "stopped")
    text = quoted_lines(outcome.summary)

    def remember(connection: Connection) -> None:
        transcripts.append(
            connection,
            tenant_id=where.tenant_id,
            conversation_id=where.conversation_id,
            session_id=where.session_id,
            user_id=where.user_id,
            lines=[Line("note", text)],
            now_ms=services.clock.now_ms(),
            inbound_seq=where.inbound_seq,
        )

    failed = None if outcome.status == "ok" else outcome.status
    return TurnResult(
        (Reply(text, source="tool"),),
        "answered" if failed is None else "failed",
        (*outcome.writes, remember),
        error_code=failed,
    )
