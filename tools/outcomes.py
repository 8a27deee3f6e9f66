"""Stores how an action ended: status, audit, the message that tells it and the note in the transcript, in one transaction."""

from __future__ import annotations

import json

from sqlalchemy import Connection, insert, update

from config import lease
from config.clock import Clock
from config.columns import table_of
from config.errors import FenceLost, YizhanError
from config.ports import Draft, Outbox
from memory.models import Message
from tools import audit, texts
from tools.action_rows import Action, End
from tools.prompt import quoted_lines
from tools.proposals import ACTIONS
from tools.registry import Registry, storable, summarized

_MESSAGE = table_of(Message)
DECIDED_HERE = "cli"
"""``decided_via`` of what somebody at a terminal decided (``yizhan tools try``)."""


class Outcomes:
    """Every method runs inside the caller's transaction."""

    def __init__(self, outbox: Outbox, clock: Clock, registry: Registry) -> None:
        self.outbox = outbox
        self._clock = clock
        self._registry = registry

    def store(self, connection: Connection, row: Action, fence: int, end: End, reserve_ms: int) -> str | None:
        """End an action that is executed under ``fence`` and return the outbox group that tells it, if any (see ``tell``). Raises
        FenceLost."""
        lease.check(connection, ACTIONS, (ACTIONS.c.id == row.id) & (ACTIONS.c.status == "executing"), fence)
        end = self._committed(connection, row, end)
        group = self.tell(connection, row, end.text, reserve_ms)
        connection.execute(
            update(ACTIONS)
            .where(ACTIONS.c.id == row.id)
            .values(
                status=end.status,
                result_text=end.text,
                error_code=end.error_code,
                answer_group=group,
                finished_at_ms=self._clock.now_ms(),
                lease_owner=None,
                lease_until_ms=None,
            )
        )
        self._audit(connection, row, end)
        return group

    def tell(self, connection: Connection, row: Action, text: str, reserve_ms: int = 0) -> str | None:
        """The outcome's one message, and the same as a note in the transcript (C31). Who decided on the command line reads it
        there: no message."""
        connection.execute(
            insert(_MESSAGE).values(
                tenant_id=row.tenant_id,
                conversation_id=row.conversation_id,
                session_id=row.session_id,
                user_id=row.requester_id,
                role="note",
                text=text,
                inbound_seq=row.inbound_seq,
                created_at_ms=self._clock.now_ms(),
            )
        )
        if row.decided_via == DECIDED_HERE:
            return None
        return self.outbox.put(
            connection,
            Draft(
                idempotency_key=f"action:{row.id}",
                tenant_id=row.tenant_id,
                account_id=row.account_id,
                conversation_id=row.conversation_id,
                user_id=row.requester_id,
                session_id=row.session_id,
                cause="action",
                cause_id=row.id,
                text=text,
                source="tool",
                label=row.summary,
                final=True,
                reserve_ms=reserve_ms,
            ),
        )

    def _committed(self, connection: Connection, row: Action, end: End) -> End:
        """Run the effect that belongs into this transaction; what it refuses is a failure with nothing written."""
        if end.result is None or end.result.commit is None:
            return end
        try:
            with connection.begin_nested():
                result = end.result.commit(connection)
        except YizhanError as error:
            if error.retryable or isinstance(error, FenceLost):
                raise
            reason = quoted_lines(storable(error.user_text))
            text = texts.OUTCOME_FAILED.format(summary=row.summary, reason=reason)
            return End("failed", text, error_code=error.code, took_ms=end.took_ms)
        tool = self._registry.exact(row.tenant_id, row.tool, json.loads(row.args_json))
        if tool is not None:
            result = summarized(tool, json.loads(row.args_json), result)
        return End("succeeded", quoted_lines(result.summary), result, took_ms=end.took_ms)

    def _audit(self, connection: Connection, row: Action, end: End) -> None:
        """Kept for a tool, an account or a tenant, too, that the settings do not know any more."""
        tool = self._registry.exact(row.tenant_id, row.tool, json.loads(row.args_json))
        call = audit.Call(
            row.tenant_id,
            row.conversation_id,
            row.requester_id,
            row.tool,
            "operation" if tool is None else tool.tool_class,
            self._clock.now_ms(),
            call_key=row.idempotency_key,
            action_id=row.id,
        )
        audit.record(
            connection,
            call,
            json.loads(row.args_json),
            decision="confirmed",
            result=end.result,
            ok=end.status == "succeeded",
            took_ms=end.took_ms,
            error_code=end.error_code,
            keyed=end.status == "succeeded",
        )
