"""撤销: what can be taken back of the newest action, and what cannot (N-27). It undoes nothing by itself."""

from __future__ import annotations

from sqlalchemy import Connection, select

from agent import texts
from agent.protocol import Conversation
from agent.services import AgentServices
from config.columns import table_of
from memory.keys import person_key
from tools.models import PendingAction

_ACTION = table_of(PendingAction)
_SINCE_MS = 24 * 3600 * 1000
_NOT_YET = ("draft", "choice", "superseded")
"""Rows that stand for no action of their own."""


async def undo_text(services: AgentServices, where: Conversation) -> str:
    """What 撤销 means for this person's newest action of the last day: not run yet, running, done, unclear, or never run."""

    def newest(connection: Connection) -> tuple[str, str, int] | None:
        row = connection.execute(
            select(_ACTION.c.status, _ACTION.c.summary, _ACTION.c.number)
            .where(
                _ACTION.c.tenant_id == where.tenant_id,
                _ACTION.c.conversation_id == where.conversation_id,
                _ACTION.c.requester_id == person_key(where.id_type, where.user_id),
                _ACTION.c.status.not_in(_NOT_YET),
                _ACTION.c.number > 0,  # a question with numbered answers is none
                _ACTION.c.created_at_ms >= services.clock.now_ms() - _SINCE_MS,
            )
            .order_by(_ACTION.c.created_at_ms.desc(), _ACTION.c.number.desc())
            .limit(1)
        ).first()
        return None if row is None else (str(row.status), str(row.summary), int(row.number))

    found = await services.database.read(newest)
    if found is None:
        return texts.UNDO_NOTHING
    status, summary, number = found
    template = texts.UNDO_BY_STATUS.get(status, texts.UNDO_NOT_RUN)
    return template.format(summary=texts.short(summary, 60), number=number)
