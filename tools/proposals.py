"""Makes pending actions: the row first as a draft (so its number is taken), then published with the prompt's own transaction."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, text, update

from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.ids import new_id
from config.schema import Limits
from tools.base import Prepared, Tool, ToolContext
from tools.decided import Prompt
from tools.models import PendingAction
from tools.prompt import PromptFacts, render_prompt

ACTIONS = table_of(PendingAction)
Write = Callable[[Connection], None]
_MAX_NUMBER = 999
_DIGEST_CHARS = 16


def canonical_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments as the one JSON text that is stored, digested, shown and run."""
    return json.dumps(dict(arguments), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def digest_of(tool: Tool, args_json: str) -> str:
    """sha256 of tool, version and canonical arguments: what a confirmation is bound to (C17)."""
    framed = json.dumps([tool.name, tool.version, json.loads(args_json)], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(framed.encode()).hexdigest()


def short_digest(digest: str) -> str:
    """The part of a digest that rides in card and menu keys."""
    return digest[:_DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A drafted action: its prompt, and the write that publishes it together with the prompt's outbox row (C05)."""

    prompt: Prompt
    publish: Write


class Proposals:
    """Drafts pending actions of one deployment."""

    def __init__(self, database: Database, clock: Clock, limits: Limits) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits

    async def propose(
        self,
        context: ToolContext,
        tool: Tool,
        prepared: Prepared,
        *,
        call_id: str = "",
        supersedes: str | None = None,
    ) -> Proposal:
        """Draft one action. Nothing waits for an answer until ``publish`` ran. Raises ToolRefused when the prompt cannot show
        everything (N-17)."""
        args_json = canonical_arguments(prepared.arguments)
        digest = digest_of(tool, args_json)
        action_id = new_id("pa")
        code = f"{secrets.randbelow(9000) + 1000}" if tool.risk == "high" else None
        base = (action_id, short_digest(digest), code)

        def draft(connection: Connection) -> Prompt:
            _one_at_a_time(connection, context.conversation_id)
            old = _replaced(connection, context, supersedes or _same(connection, context, digest, self._clock.now_ms()))
            prompt = render_prompt(tool, prepared.arguments, prepared.shown, self._facts(connection, context, base, old))
            connection.execute(
                ACTIONS.insert().values(
                    **_identity(context),
                    id=action_id,
                    tool=tool.name,
                    tool_version=tool.version,
                    tool_call_id=call_id or action_id,
                    args_json=args_json,
                    args_digest=digest,
                    prompt_text=prompt.text,
                    summary=prompt.summary,
                    risk=tool.risk,
                    number=prompt.number,
                    code=code,
                    revision=1 if old is None else old.revision + 1,
                    supersedes_id=None if old is None else old.id,
                    status="draft",
                    expires_at_ms=self._expiry(),
                    task_id=action_id if prompt.card is not None else None,
                    idempotency_key=f"act:{action_id}",
                    fence=0,
                    created_at_ms=self._clock.now_ms(),
                )
            )
            return prompt

        prompt = await self._database.write(draft)
        return Proposal(prompt, lambda connection: self.publish(connection, prompt.action_id, context))

    def publish(self, connection: Connection, action_id: str, context: ToolContext) -> None:
        """draft → pending, in the transaction that stores the prompt's message. The action it replaces ends here, and so
        do the actions of an earlier attempt of the same turn (N-07)."""
        now = self._clock.now_ms()
        row = connection.execute(
            update(ACTIONS)
            .where(ACTIONS.c.id == action_id, ACTIONS.c.status == "draft")
            .values(status="pending", expires_at_ms=self._expiry())
            .returning(ACTIONS.c.supersedes_id)
        ).first()
        if row is None:
            return
        if row.supersedes_id is not None:
            connection.execute(
                update(ACTIONS)
                .where(ACTIONS.c.id == row.supersedes_id, ACTIONS.c.status.in_(("pending", "expired", "withdrawn")))
                .values(status="superseded", finished_at_ms=now)
            )
        if context.inbound_seq is not None and context.turn_fence is not None:
            connection.execute(
                update(ACTIONS)
                .where(
                    ACTIONS.c.conversation_id == context.conversation_id,
                    ACTIONS.c.inbound_seq == context.inbound_seq,
                    ACTIONS.c.turn_fence != context.turn_fence,
                    ACTIONS.c.status.in_(("pending", "draft")),
                )
                .values(status="withdrawn", error_code="attempt_died", finished_at_ms=now)
            )

    def _expiry(self) -> int:
        return self._clock.now_ms() + round(self._limits.confirm_minutes * 60_000)

    def _facts(self, connection: Connection, context: ToolContext, base: tuple[str, str, str | None], old: Any) -> PromptFacts:
        action_id, digest, code = base
        return PromptFacts(
            action_id=action_id,
            digest=digest,
            number=_free_number(connection, context.conversation_id),
            code=code,
            minutes=max(1, round(self._limits.confirm_minutes)),
            can_card=context.capability.can_card,
            can_menu=context.capability.can_menu,
            replaces=None if old is None else old.number,
        )


def _identity(context: ToolContext) -> dict[str, Any]:
    return {
        "tenant_id": context.tenant_id,
        "account_id": context.account_id,
        "conversation_id": context.conversation_id,
        "session_id": context.session_id,
        "requester_id": context.user_id,
        "approver_policy": "requester",
        "inbound_seq": context.inbound_seq,
        "turn_fence": context.turn_fence,
    }


def _one_at_a_time(connection: Connection, conversation_id: str) -> None:
    """Two processes must not take the same number; SQLite writes one at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"action:{conversation_id}"})


def _free_number(connection: Connection, conversation_id: str) -> int:
    here = ACTIONS.c.conversation_id == conversation_id
    last = connection.execute(
        select(ACTIONS.c.number)
        .where(here, ACTIONS.c.number > 0)
        .order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc())
        .limit(1)
    ).scalar()
    number = 1 if last is None else int(last) % _MAX_NUMBER + 1
    taken = set(connection.execute(select(ACTIONS.c.number).where(here, ACTIONS.c.status.in_(("pending", "draft")))).scalars())
    while number in taken:
        number = number % _MAX_NUMBER + 1
    return number


def _same(connection: Connection, context: ToolContext, digest: str, now_ms: int) -> str | None:
    """An open action of this person with the same call: asked for again, it is asked about once."""
    query = select(ACTIONS.c.id).where(
        ACTIONS.c.tenant_id == context.tenant_id,
        ACTIONS.c.conversation_id == context.conversation_id,
        ACTIONS.c.requester_id == context.user_id,
        ACTIONS.c.args_digest == digest,
        ACTIONS.c.status == "pending",
        ACTIONS.c.expires_at_ms > now_ms,
    )
    found = connection.execute(query.limit(1)).scalar()
    return None if found is None else str(found)


def _replaced(connection: Connection, context: ToolContext, action_id: str | None) -> Any:
    if action_id is None:
        return None
    return connection.execute(
        select(ACTIONS.c.id, ACTIONS.c.number, ACTIONS.c.revision).where(
            ACTIONS.c.id == action_id,
            ACTIONS.c.tenant_id == context.tenant_id,
            ACTIONS.c.conversation_id == context.conversation_id,
            ACTIONS.c.requester_id == context.user_id,
        )
    ).first()


def open_count(connection: Connection, conversation_id: str, now_ms: int) -> int:
    """How many actions wait for an answer in this conversation."""
    query = select(func.count()).select_from(ACTIONS)
    where = (ACTIONS.c.conversation_id == conversation_id, ACTIONS.c.status == "pending", ACTIONS.c.expires_at_ms > now_ms)
    return int(connection.execute(query.where(*where)).scalar_one())
