"""Runs confirmed actions under a lease, and takes over what was left behind by a process that died."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, select, update

from config import lease
from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.errors import DatabaseBusy, FenceLost, NotFound
from config.ids import new_id
from config.logging import get_logger, log
from config.ports import Outbox
from memory.models import Conversation
from tools import left_behind, texts
from tools.action_rows import Action, Claimed, End, abandoned, give_back, ttl_of, withdrawn
from tools.base import AskPerson, Tool, ToolRefused
from tools.context import Contexts, Place
from tools.outcomes import DECIDED_HERE, Outcomes
from tools.policy import may_use
from tools.prompt import quoted_lines
from tools.proposals import ACTIONS, digest_of, is_current
from tools.registry import Registry, checked, invalid_text, prepare_call, run_tool

_logger = get_logger(__name__)
_CONVERSATION = table_of(Conversation)
_RETRIES_S = (0.2, 0.5, 1.0, 2.0, 3.0)
_MOST_CLAIMS = 8
"""An action that was begun so often and never came to an end is given up as unknown."""

_UNCLEAR = ("timeout", "crashed", "outcome_unknown")
"""Codes of calls that may have done something all the same."""


class Executor:
    """Executes confirmed actions; any process may, the lease makes it one (N-18)."""

    def __init__(self, database: Database, outbox: Outbox, clock: Clock, registry: Registry, contexts: Contexts) -> None:
        self._database = database
        self._clock = clock
        self._registry = registry
        self._contexts = contexts
        self._outcomes = Outcomes(outbox, clock, registry)
        self._owner = new_id("x")

    async def execute(self, action_id: str, *, reserve_ms: Callable[[], int] = lambda: 0) -> str | None:
        """Run one confirmed action to its stored outcome and return the outbox group that tells it (``action:{id}``).

        None when somebody else is at it. An action that ended already is not run; its outcome's group is returned.
        """
        row = await self._database.read(lambda c: c.execute(select(ACTIONS).where(ACTIONS.c.id == action_id)).first())
        if row is None:
            return None
        if row.status not in ("confirmed", "executing", "unknown"):
            return row.answer_group if row.answer_group is None else str(row.answer_group)
        tool = self._tool(row)
        ttl_ms = ttl_of(tool)
        started = self._clock.monotonic()

        def begin(connection: Connection) -> int | str | None:
            late = left_behind.withdraw_unclaimed(connection, self._outcomes, self._clock, action_id)
            if late is not None:
                return late
            waits = (ACTIONS.c.id == action_id) & (ACTIONS.c.status == "confirmed")
            return lease.claim(connection, ACTIONS, waits, self._owner, ttl_ms=ttl_ms, values={"status": "executing"})

        fence = await self._database.write(begin)
        if fence is None or isinstance(fence, str):
            return fence
        end = await self._run(row, tool, fence, started, ttl_ms)
        if end is None:
            await self._database.write(lambda c: give_back(c, row.id, fence))
            return None
        return await self._finish(row, fence, end, reserve_ms)

    async def decide_here(self, action_id: str, user_id: str, *, agreed: bool) -> str:
        """For the command line: the requester, in front of us, agreed or not; runs it and returns what came of it."""

        def decide(connection: Connection) -> bool:
            now = self._clock.shared_ms(connection)
            values: dict[str, Any] = {"decided_by": user_id, "decided_via": DECIDED_HERE, "decided_at_ms": now}
            if not agreed:
                values["finished_at_ms"] = now
            mine = (ACTIONS.c.id == action_id) & (ACTIONS.c.requester_id.in_((user_id, user_id.lower()))) & is_current(now)
            statement = update(ACTIONS).where(mine, ACTIONS.c.status == "pending")
            statement = statement.values(status="confirmed" if agreed else "rejected", **values)
            return connection.execute(statement).rowcount == 1

        if await self._database.write(decide) and agreed:
            await self.execute(action_id)
        row = await self._database.read(lambda c: c.execute(select(ACTIONS).where(ACTIONS.c.id == action_id)).one())
        return str(row.result_text or texts.STATES[row.status].format(summary=row.summary, result=row.summary))

    async def status(self, action_id: str) -> str:
        """An action's status."""
        query = select(ACTIONS.c.status).where(ACTIONS.c.id == action_id)
        return str(await self._database.read(lambda c: c.execute(query).scalar_one()))

    def _tool(self, row: Action) -> Tool | None:
        return self._registry.exact(row.tenant_id, row.tool, json.loads(row.args_json))

    # before the call -------------------------------------------------------------------------------------------------
    async def _run(self, row: Action, tool: Tool | None, fence: int, started: float, ttl_ms: int) -> End | None:
        claimed, refusal = await self._check(row, tool, fence)
        return withdrawn(row, refusal) if claimed is None else await self._within(claimed, started, ttl_ms)

    async def _within(self, claimed: Claimed, started: float, ttl_ms: int) -> End | None:
        """Call, if the lease outlives the tool's timeout; None: nothing was called (N-18)."""
        left_ms = ttl_ms - (self._clock.monotonic() - started) * 1000
        if left_ms <= claimed.tool.timeout_s * 1000:  # this process slept; another may hold the lease when the call ends
            log(_logger, "action.lease_short", action_id=claimed.row.id)
            return None
        return await self._call(claimed, left_ms)

    async def _check(self, row: Action, tool: Tool | None, fence: int) -> tuple[Claimed | None, str]:
        """Schema, permission, arguments and target once more, right before the call (C17, C35)."""
        if tool is None or tool.version != row.tool_version:
            return None, texts.REASON_TOOL_GONE
        if digest_of(tool, row.args_json) != row.args_digest:
            return None, texts.REASON_CHANGED
        try:
            context = self._contexts.of(await self._place(row), call_key=row.idempotency_key, inbound_seq=row.inbound_seq)
        except NotFound:
            return None, texts.REASON_TOOL_GONE
        if not may_use(tool, context):
            return None, texts.REASON_DENIED
        arguments = json.loads(row.args_json)
        cleaned, problems = self._registry.examine(tool, arguments)
        if problems or cleaned != arguments:
            return None, texts.REASON_INVALID.format(problems=invalid_text(tool, problems))
        try:
            again = await prepare_call(tool, context, arguments)
        except (AskPerson, ToolRefused) as error:
            return None, error.user_text
        if dict(again.arguments) != arguments:
            return None, texts.REASON_CHANGED
        return Claimed(row, tool, context, arguments, fence), ""

    async def _place(self, row: Action) -> Place:
        table = _CONVERSATION
        found = await self._database.read(
            lambda c: c.execute(select(table.c.id_type).where(table.c.id == row.conversation_id)).scalar()
        )
        return Place(
            row.tenant_id, row.account_id, row.conversation_id, row.session_id, row.requester_id, str(found or "wecom_userid")
        )

    # the call --------------------------------------------------------------------------------------------------------
    async def _call(self, claimed: Claimed, left_ms: float) -> End:
        began = self._clock.monotonic()
        result, reason, code = await run_tool(claimed.tool, claimed.context, claimed.arguments)
        took_ms = round((self._clock.monotonic() - began) * 1000)
        if code in _UNCLEAR and claimed.tool.idempotent and left_ms - took_ms > claimed.tool.timeout_s * 1000:
            result, reason, code = await run_tool(claimed.tool, claimed.context, claimed.arguments)  # same key, no second effect
            took_ms = round((self._clock.monotonic() - began) * 1000)
        if result is not None:
            return End("succeeded", quoted_lines(result.summary), result, took_ms=took_ms)
        if code not in _UNCLEAR:
            text = texts.OUTCOME_FAILED.format(summary=claimed.row.summary, reason=quoted_lines(reason))
            return End("failed", text, error_code=code, took_ms=took_ms)
        return await self._resolve(claimed, code or "unknown", took_ms)

    async def _resolve(self, claimed: Claimed, code: str, took_ms: int = 0) -> End:
        """unknown → check() → what it says; never run again by itself (agent.md §5)."""
        found = await checked(claimed.tool, claimed.context, claimed.arguments)
        text = {
            "done": texts.OUTCOME_DONE_CHECKED,
            "not_done": texts.OUTCOME_NOT_DONE,
            "unknown": texts.OUTCOME_UNKNOWN,
        }[found].format(summary=claimed.row.summary)
        status = {"done": "succeeded", "not_done": "failed", "unknown": "needs_human"}[found]
        return End(status, text, error_code=None if found == "done" else code, took_ms=took_ms)

    # the outcome -----------------------------------------------------------------------------------------------------
    async def _finish(self, row: Action, fence: int, end: End, reserve_ms: Callable[[], int]) -> str | None:
        try:
            group = await self._stored(lambda c: self._outcomes.store(c, row, fence, end, reserve_ms()))
        except FenceLost:
            log(_logger, "action.lease_lost", action_id=row.id)
            return None
        log(_logger, "action.finished", action_id=row.id, tool=row.tool, status=end.status, ms=end.took_ms)
        return group

    async def _stored(self, write: Callable[[Connection], str | None]) -> str | None:
        """The effect has happened: a busy database is tried again while the lease lives, so that it is told."""
        for pause_s in _RETRIES_S:
            try:
                return await self._database.write(write)
            except DatabaseBusy:
                await asyncio.sleep(pause_s)
        return await self._database.write(write)

    # the reaper ------------------------------------------------------------------------------------------------------
    async def reap(self, limit: int = 64) -> list[str]:
        """One pass over actions left behind; returns the outbox groups to ring for. Safe to run in any number of processes.

        confirmed and unclaimed for 2 minutes → withdrawn and told; executing past its lease → run again where the tool is
        idempotent, else checked, else unknown and told; pending past its time → expired and told, or withdrawn with its
        prompt when that never went out.
        """
        groups = await self._database.write(lambda c: left_behind.end_waiting(c, self._outcomes, self._clock, limit))
        left = limit - len(groups)
        rows = await self._database.read(lambda c: abandoned(c, left))
        told = await asyncio.gather(*map(self._recovered, rows))  # side by side: one that hangs is waited for once
        return groups + [group for group in told if group is not None]

    async def _recovered(self, row: Action) -> str | None:
        try:
            return await self._recover(row)
        except Exception as error:  # noqa: BLE001 -- the boundary of one action: the others must not wait for it
            log(_logger, "action.recovery_failed", logging.WARNING, action_id=row.id, error=error)
            return None

    async def _recover(self, row: Action) -> str | None:
        tool = self._tool(row)
        ttl_ms = ttl_of(tool)
        started = self._clock.monotonic()
        fence = await self._database.write(
            lambda c: lease.claim(
                c, ACTIONS, (ACTIONS.c.id == row.id) & (ACTIONS.c.status == "executing"), self._owner, ttl_ms=ttl_ms
            )
        )
        if fence is None:
            return None
        log(_logger, "action.recovering", action_id=row.id, tool=row.tool)
        if fence > _MOST_CLAIMS:
            return await self._finish(row, fence, self._unknown(row, "never_ends"), lambda: 0)
        claimed, _ = await self._check(row, tool, fence)
        if claimed is not None and claimed.tool.idempotent:
            end = await self._within(claimed, started, ttl_ms)
            return None if end is None else await self._finish(row, fence, end, lambda: 0)
        if claimed is None:  # whoever began may have done it: that it did not happen is not ours to say
            return await self._finish(row, fence, self._unknown(row, "lease_lost"), lambda: 0)
        return await self._finish(row, fence, await self._resolve(claimed, "lease_lost"), lambda: 0)

    def _unknown(self, row: Action, code: str) -> End:
        return End("needs_human", texts.OUTCOME_UNKNOWN.format(summary=row.summary), error_code=code)
