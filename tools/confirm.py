"""Confirmations as chat sees them: what an answer comes to, what waits, and proposing once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from config.clock import Clock
from config.database import Database
from config.logging import get_logger, log
from config.ports import Outbox
from tools import choices, texts
from tools.actions import Executor
from tools.context import Contexts, Place
from tools.decided import Actor, Answer, Decision, OpenAction, Prompt
from tools.decisions import Decisions, line_of
from tools.open_actions import (
    Action,
    move_action,
    open_now,
    reissuable_row,
    settled_by_time,
)
from tools.prompt import quoted_lines
from tools.proposals import ACTIONS, Proposals
from tools.registry import CallOutcome, Registry

__all__ = ["Actor", "Answer", "Confirmations", "Executor", "OpenAction", "Prompt"]

_logger = get_logger(__name__)
_RECENT_MS = 24 * 3600 * 1000


class Confirmations:
    """Answers to proposals (agent.md §5, N-15 to N-18). State lives in SQL only; every process may decide."""

    def __init__(
        self, database: Database, outbox: Outbox, clock: Clock, registry: Registry, proposals: Proposals, contexts: Contexts
    ) -> None:
        self._database = database
        self._clock = clock
        self._registry = registry
        self._proposals = proposals
        self._contexts = contexts
        self._decisions = Decisions(outbox, clock, registry)

    # answers ---------------------------------------------------------------------------------------------------------
    async def decide(self, actor: Actor, decision: Decision) -> Answer:
        """What this decision comes to, committed. An empty answer means the words were ordinary talk here."""
        answer = await self._database.write(lambda c: self._decisions.by_words(c, actor, decision))
        log(
            _logger,
            "action.decided",
            conversation=actor.conversation_id,
            kind=decision.kind,
            outcome=answer.outcome,
            action_id=answer.execute,
        )
        return answer

    async def decide_card(self, actor: Actor, key: str, response_code: str | None = None, *, cause: str = "card") -> Answer:
        """What a click on a card's button comes to. ``actor`` must be from the decrypted callback; a click is never
        ignored (C09), and the card is replaced after the commit (C33)."""
        return await self._database.write(lambda c: self._decisions.by_card(c, actor, key, response_code, cause))

    async def open_actions(self, tenant_id: str, conversation_id: str) -> list[OpenAction]:
        """What waits in a conversation, oldest first."""
        return await self._database.read(lambda c: open_now(c, tenant_id, conversation_id, self._clock))

    async def list_text(self, tenant_id: str, conversation_id: str) -> str:
        """待确认."""
        waiting = await self.open_actions(tenant_id, conversation_id)
        if not waiting:
            return texts.NOTHING_OPEN
        return "\n".join([texts.OPEN_TITLE, *map(line_of, waiting), texts.OPEN_HOW])

    async def footer(self, tenant_id: str, conversation_id: str, *, without: Sequence[str] = ()) -> str | None:
        """The line an ordinary reply carries while something waits; ``without`` are actions this reply itself proposes."""
        waiting = [item for item in await self.open_actions(tenant_id, conversation_id) if item.id not in without]
        if not waiting:
            return None
        newest = waiting[-1]
        template = texts.FOOTER if len(waiting) == 1 else texts.FOOTER_SEVERAL
        return template.format(count=len(waiting), summary=newest.summary, minutes=newest.minutes_left, number=newest.number)

    async def reissue(self, actor: Actor) -> Answer:
        """重新发起: the newest action of this person that ended unanswered, as a new one with a new prompt."""
        old = await self._database.write(lambda c: self._reissuable(c, actor))
        if old is None:
            return Answer(texts.REISSUE_NOTHING)
        return await self.propose_again(actor, old.tool, json.loads(old.args_json), old.id)

    async def propose_again(self, actor: Actor, tool: str, arguments: dict[str, Any], supersedes: str) -> Answer:
        """The same call with these arguments as a new action that replaces an old one; never executed here."""
        context = self._contexts.of(_place(actor), inbound_seq=actor.inbound_seq)
        outcome = await self._registry.call(context, tool, arguments, supersedes=supersedes)
        return _proposed(outcome, outcome.writes)

    async def choose(self, actor: Actor, number: int, *, bare: bool = False) -> Answer:
        """选 N: the call that the numbered answer means, proposed like any other. A ``bare`` number counts for a question
        of the last minutes only. The outcome is "none" where there is none."""
        found = await self._database.read(lambda c: choices.chosen(c, actor, number, self._clock, bare=bare))
        if found is None:
            return Answer("" if bare else texts.CHOICE_NONE, outcome="none")
        tool, arguments = found
        context = self._contexts.of(_place(actor), inbound_seq=actor.inbound_seq)
        outcome = await self._registry.call(context, tool, arguments)
        ending = [lambda c: choices.close(c, actor.conversation_id, actor.person), *outcome.writes]
        return _proposed(outcome, tuple(ending))

    async def stop(self, tenant_id: str, conversation_id: str, person: str) -> list[str]:
        """停止: this person's confirmed actions that nobody has begun end here; what to say of each, and of those that run."""

        def end(connection: Connection) -> list[str]:
            mine = (ACTIONS.c.tenant_id == tenant_id, ACTIONS.c.conversation_id == conversation_id)
            running = ACTIONS.c.status.in_(("confirmed", "executing"))
            rows = connection.execute(select(ACTIONS).where(*mine, running, ACTIONS.c.requester_id == person)).all()
            values = {"status": "rejected", "decided_via": "stop", "finished_at_ms": self._clock.now_ms()}
            ended = {row.id: move_action(connection, row.id, ("confirmed",), values) for row in rows}
            return [(texts.REJECTED if ended[row.id] else texts.STOP_TOO_LATE).format(summary=row.summary) for row in rows]

        return await self._database.write(end)

    async def choose_by_words(self, actor: Actor, words: str) -> Answer:
        """The answer to a question just asked in words instead of its number (第二个, an account); 算了 ends the question. The
        outcome is "none" where no question waits, or the words mean no option of it."""
        number = await self._database.read(lambda c: choices.number_meant(c, actor, words, self._clock))
        if number is None:
            return Answer(outcome="none")
        if number > 0:
            return await self.choose(actor, number, bare=True)
        ending = (lambda c: choices.close(c, actor.conversation_id, actor.person),)
        return Answer(texts.CHOICE_DROPPED, outcome="asked", publish=ending)

    def _reissuable(self, connection: Connection, actor: Actor) -> Action | None:
        now = self._clock.shared_ms(connection)
        row = reissuable_row(connection, actor, now - _RECENT_MS, now)
        return None if row is None else settled_by_time(connection, row, now)


def _proposed(outcome: CallOutcome, publish: tuple[Any, ...]) -> Answer:
    text = quoted_lines(outcome.summary) if outcome.prompt is None else ""
    return Answer(text, outcome.prompt, outcome="asked", publish=publish)


def _place(actor: Actor) -> Place:
    return Place(actor.tenant_id, actor.account_id, actor.conversation_id, actor.session_id, actor.user_id, actor.id_type)
