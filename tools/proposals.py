"""Makes pending actions: the row first as a draft (so its number is taken), then published with the prompt's own transaction."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, update

from config.clock import Clock
from config.columns import table_of
from config.database import Database, one_at_a_time
from config.ids import new_id
from config.schema import Limits
from tools import texts
from tools.base import Prepared, Tool, ToolContext, ToolRefused
from tools.decided import Prompt
from tools.models import PendingAction
from tools.prompt import PromptFacts, render_prompt

ACTIONS = table_of(PendingAction)
Write = Callable[[Connection], None]
AHEAD_MS = 60_000
"""How far ahead of this clock an action may have been made."""

_MAX_NUMBER = 999
_MAX_OPEN = 20
"""So many things wait for one conversation's answers at once; whoever asks for more has lost sight of them."""

_DRAFT_MS = 600_000
_AGAIN_MS = 3600_000
_UNCLEAR_MS = 24 * 3600_000
_DIGEST_CHARS = 16
_REPLACEABLE = ("pending", "expired", "withdrawn")


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
            one_at_a_time(connection, f"action:{context.conversation_id}")  # nobody else takes the same number
            now = self._clock.shared_ms(connection)
            old = _replaced(connection, context, supersedes or _same(connection, context, digest, now))
            facts = self._facts(connection, context, base, old, _done_before(connection, context, digest, now), now)
            prompt = render_prompt(tool, prepared.arguments, prepared.shown, facts)
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
                    expires_at_ms=self._expiry(now),
                    task_id=action_id if prompt.card is not None else None,
                    idempotency_key=f"act:{action_id}",
                    fence=0,
                    created_at_ms=now,
                )
            )
            return prompt

        prompt = await self._database.write(draft)
        return Proposal(prompt, lambda connection: self.publish(connection, prompt.action_id, context))

    def publish(self, connection: Connection, action_id: str, context: ToolContext) -> None:
        """draft → pending, in the transaction that stores the prompt's message. The action it replaces ends here, and so do
        every other open one of the same call and the actions of an earlier attempt of the same turn (N-07). When its person
        decided about the replaced one meanwhile, the new one is withdrawn: asked once more, one wish would be done twice."""
        one_at_a_time(connection, f"action:{context.conversation_id}")  # of two that ask for the same, one sees the other
        now = self._clock.shared_ms(connection)
        row = connection.execute(
            update(ACTIONS)
            .where(ACTIONS.c.id == action_id, ACTIONS.c.status == "draft")
            .values(status="pending", expires_at_ms=self._expiry(now))
            .returning(ACTIONS.c.supersedes_id, ACTIONS.c.args_digest)
        ).first()
        if row is None:
            return
        _supersede(connection, context, action_id, row, now)
        if row.supersedes_id is not None and _was_decided(connection, row.supersedes_id):
            ended = {"status": "withdrawn", "error_code": "overtaken", "finished_at_ms": now}
            connection.execute(update(ACTIONS).where(ACTIONS.c.id == action_id).values(**ended))
            return
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

    def _expiry(self, now_ms: int) -> int:
        return now_ms + round(self._limits.confirm_minutes * 60_000)

    def _facts(
        self,
        connection: Connection,
        context: ToolContext,
        base: tuple[str, str, str | None],
        old: Any,
        done_before: str | None,
        now_ms: int,
    ) -> PromptFacts:
        action_id, digest, code = base
        return PromptFacts(
            action_id=action_id,
            digest=digest,
            number=_free_number(connection, context.conversation_id, now_ms),
            code=code,
            minutes=max(1, round(self._limits.confirm_minutes)),
            can_card=context.capability.can_card,
            can_menu=context.capability.can_menu,
            replaces=None if old is None else old.number,
            done_before=done_before,
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


def is_current(now_ms: int) -> ColumnElement[bool]:
    """The SQL condition that an action's time has not run out. One that was made in the future was made before somebody set
    the clock back: its time is over, too, so that it does not live longer for that."""
    return and_(ACTIONS.c.expires_at_ms > now_ms, ACTIONS.c.created_at_ms <= now_ms + AHEAD_MS)


def overtaken(connection: Connection, action_id: str) -> str | None:
    """What to say in place of the prompt of an action that was withdrawn while it was published; None: show the prompt."""
    row = connection.execute(
        select(ACTIONS.c.summary, ACTIONS.c.supersedes_id).where(ACTIONS.c.id == action_id, ACTIONS.c.error_code == "overtaken")
    ).first()
    if row is None:
        return None
    number = connection.execute(select(ACTIONS.c.number).where(ACTIONS.c.id == row.supersedes_id)).scalar()
    return texts.OVERTAKEN.format(number=number, summary=row.summary)


def _supersede(connection: Connection, context: ToolContext, action_id: str, row: Any, now_ms: int) -> None:
    same = and_(
        ACTIONS.c.tenant_id == context.tenant_id,
        ACTIONS.c.conversation_id == context.conversation_id,
        ACTIONS.c.requester_id == context.user_id,
        ACTIONS.c.args_digest == row.args_digest,
        ACTIONS.c.status == "pending",
        ACTIONS.c.id != action_id,
    )
    replaced = and_(ACTIONS.c.id == row.supersedes_id, ACTIONS.c.status.in_(_REPLACEABLE))
    connection.execute(update(ACTIONS).where(or_(replaced, same)).values(status="superseded", finished_at_ms=now_ms))


def _was_decided(connection: Connection, action_id: str) -> bool:
    status = connection.execute(select(ACTIONS.c.status).where(ACTIONS.c.id == action_id)).scalar()
    return status not in (None, "superseded")


def _done_before(connection: Connection, context: ToolContext, digest: str, now_ms: int) -> str | None:
    """The same call of this person, confirmed a moment ago or with an end that nobody knows: they should see that before they
    agree once more (N-27)."""
    row = connection.execute(
        select(ACTIONS.c.number, ACTIONS.c.status, ACTIONS.c.created_at_ms)
        .where(
            ACTIONS.c.tenant_id == context.tenant_id,
            ACTIONS.c.conversation_id == context.conversation_id,
            ACTIONS.c.requester_id == context.user_id,
            ACTIONS.c.args_digest == digest,
            ACTIONS.c.status.in_(tuple(texts.PROMPT_BEFORE)),
            ACTIONS.c.created_at_ms >= now_ms - _UNCLEAR_MS,
        )
        .order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc())
        .limit(1)
    ).first()
    if row is None or (row.status == "succeeded" and row.created_at_ms < now_ms - _AGAIN_MS):
        return None
    return texts.PROMPT_BEFORE[row.status].format(number=row.number)


def _free_number(connection: Connection, conversation_id: str, now_ms: int) -> int:
    here = ACTIONS.c.conversation_id == conversation_id
    if open_count(connection, conversation_id, now_ms) >= _MAX_OPEN:
        raise ToolRefused("too much waits", code="too_many_open", user_text=texts.TOO_MANY_OPEN.format(count=_MAX_OPEN))
    last = connection.execute(
        select(ACTIONS.c.number)
        .where(here, ACTIONS.c.number > 0)
        .order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc())
        .limit(1)
    ).scalar()
    draft = and_(ACTIONS.c.status == "draft", ACTIONS.c.created_at_ms > now_ms - _DRAFT_MS)  # an older one's turn is dead
    waits = or_(ACTIONS.c.status == "pending", draft)
    taken = set(connection.execute(select(ACTIONS.c.number).where(here, waits)).scalars())
    start = 0 if last is None else int(last)
    free = next((number for step in range(_MAX_NUMBER) if (number := (start + step) % _MAX_NUMBER + 1) not in taken), None)
    if free is None:
        raise ToolRefused("no number is free", code="too_many_open", user_text=texts.TOO_MANY_OPEN.format(count=_MAX_OPEN))
    return free


def _same(connection: Connection, context: ToolContext, digest: str, now_ms: int) -> str | None:
    """An open action of this person with the same call: asked for again, it is asked about once."""
    query = select(ACTIONS.c.id).where(
        ACTIONS.c.tenant_id == context.tenant_id,
        ACTIONS.c.conversation_id == context.conversation_id,
        ACTIONS.c.requester_id == context.user_id,
        ACTIONS.c.args_digest == digest,
        ACTIONS.c.status == "pending",
        is_current(now_ms),
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
    where = (ACTIONS.c.conversation_id == conversation_id, ACTIONS.c.status == "pending", is_current(now_ms))
    return int(connection.execute(query.where(*where)).scalar_one())
