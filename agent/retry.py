"""重试: the message to do again, or the sentence why not. A write whose result is unknown is never repeated (N-27)."""

from __future__ import annotations

from sqlalchemy import Connection, select

from agent import texts
from agent.commands import ordered_command
from agent.protocol import Conversation, InboundMessage
from agent.services import AgentServices
from config.columns import table_of
from tools.models import PendingAction

_ACTION = table_of(PendingAction)


async def retry(services: AgentServices, where: Conversation) -> InboundMessage | str:
    """The newest failed or stopped message; text when there is none, or when a write may already have happened."""
    source = await services.ops.retry_source(where)
    since_ms = source.received_at_ms if source is not None else services.clock.now_ms() - 24 * 3600 * 1000

    def unclear(connection: Connection) -> str | None:
        row = connection.execute(
            select(_ACTION.c.summary)
            .where(
                _ACTION.c.tenant_id == where.tenant_id,
                _ACTION.c.conversation_id == where.conversation_id,
                _ACTION.c.status.in_(("unknown", "needs_human", "executing")),
                _ACTION.c.created_at_ms >= since_ms,
            )
            .order_by(_ACTION.c.created_at_ms.desc())
            .limit(1)
        ).first()
        return None if row is None else str(row.summary)

    if source is not None and ordered_command(source) is not None:
        source = None  # 重试 of a 重试 would go round for ever
    summary = await services.database.read(unclear)
    if summary is not None:
        return texts.RETRY_UNKNOWN.format(summary=texts.short(summary, 60))
    return source if source is not None else texts.RETRY_NOTHING
