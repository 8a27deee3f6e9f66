"""Decides what an answer does to pending actions: one compare-and-set a decision, the real state for everything else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from sqlalchemy import Connection, select, update

from config.clock import Clock
from config.database import Database
from config.logging import get_logger, log
from config.ports import Draft, Outbox
from tools import choices, texts
from tools.actions import Executor
from tools.context import Contexts, Place
from tools.decided import Actor, Answer, Decision, OpenAction, Prompt
from tools.open_actions import Action, as_open, expire, latest_row, move_action, numbered_row, open_rows, reissuable_row
from tools.proposals import ACTIONS, Proposals, short_digest
from tools.registry import Registry

__all__ = ["Actor", "Answer", "Confirmations", "Executor", "OpenAction", "Prompt"]

_logger = get_logger(__name__)
_RECENT_MS = 24 * 3600 * 1000


@runtime_checkable
class _Parking(Protocol):
    def parked_count(self, connection: Connection, conversation_id: str) -> int:
        """How many answers wait for 继续."""
        ...


@runtime_checkable
class _Withdrawing(Protocol):
    def cancel_action_prompt(self, connection: Connection, action_id: str) -> int:
        """Withdraw what has not been sent of an action's prompt."""
        ...


class Confirmations:
    """Answers to proposals (agent.md §5, N-15 to N-18). State lives in SQL only; every process may decide."""

    def __init__(
        self, database: Database, outbox: Outbox, clock: Clock, registry: Registry, proposals: Proposals, contexts: Contexts
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._clock = clock
        self._registry = registry
        self._proposals = proposals
        self._contexts = contexts

    # answers ---------------------------------------------------------------------------------------------------------
    async def decide(self, actor: Actor, decision: Decision) -> Answer:
        """What this decision comes to, committed. An empty answer means the words were ordinary talk here."""
        answer = await self._database.write(lambda c: self._decide(c, actor, decision))
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
        return await self._database.write(lambda c: self._decide_key(c, actor, key, response_code, cause))

    async def open_actions(self, tenant_id: str, conversation_id: str) -> list[OpenAction]:
        """What waits in a conversation, oldest first."""
        now = self._clock.now_ms()
        rows = await self._database.read(lambda c: open_rows(c, tenant_id, conversation_id, now))
        return [as_open(row, now) for row in rows]

    async def list_text(self, tenant_id: str, conversation_id: str) -> str:
        """待确认."""
        waiting = await self.open_actions(tenant_id, conversation_id)
        if not waiting:
            return texts.NOTHING_OPEN
        return "\n".join([texts.OPEN_TITLE, *map(_line, waiting), texts.OPEN_HOW])

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
        return Answer(outcome.summary if outcome.prompt is None else "", outcome.prompt, outcome="asked", publish=outcome.writes)

    async def choose(self, actor: Actor, number: int, *, bare: bool = False) -> Answer:
        """选 N: the call that the numbered answer means, proposed like any other. A ``bare`` number counts for a question
        of the last minutes only. The outcome is "none" where there is none."""
        now = self._clock.now_ms()
        found = await self._database.read(lambda c: choices.chosen(c, actor, number, now, bare=bare))
        if found is None:
            return Answer("" if bare else texts.CHOICE_NONE, outcome="none")
        tool, arguments = found
        context = self._contexts.of(_place(actor), inbound_seq=actor.inbound_seq)
        outcome = await self._registry.call(context, tool, arguments)
        ending = [lambda c: choices.close(c, actor.conversation_id, actor.user_id), *outcome.writes]
        return Answer(outcome.summary if outcome.prompt is None else "", outcome.prompt, outcome="asked", publish=tuple(ending))

    def withdraw_undelivered(self, connection: Connection, action_id: str) -> bool:
        """The prompt could not be delivered: its action is withdrawn (N-15). False when it was decided already."""
        values = {"status": "withdrawn", "error_code": "undelivered", "finished_at_ms": self._clock.now_ms()}
        return move_action(connection, action_id, ("pending", "draft"), values)

    def _reissuable(self, connection: Connection, actor: Actor) -> Action | None:
        now = self._clock.now_ms()
        expire(connection, actor.conversation_id, now)
        return reissuable_row(connection, actor, now - _RECENT_MS)

    # inside: text ----------------------------------------------------------------------------------------------------
    def _decide(self, connection: Connection, actor: Actor, decision: Decision) -> Answer:
        now = self._clock.now_ms()
        expire(connection, actor.conversation_id, now)
        if actor.menu_item_id is not None:
            return self._decide_menu(connection, actor, decision, actor.menu_item_id)
        waiting = open_rows(connection, actor.tenant_id, actor.conversation_id, now)
        if decision.all:
            return self._all(connection, actor, decision, waiting, now)
        if decision.number is not None:
            row = numbered_row(connection, actor, decision, waiting)
            if row is None:
                return Answer(texts.NO_SUCH_NUMBER.format(number=decision.number))
            return self._one(connection, actor, decision, row, named=True)
        if not waiting:
            return self._none_open(connection, actor, decision, now)
        if len(waiting) > 1:
            if decision.strength == "weak" and not self._is_newest(connection, actor, [row.id for row in waiting]):
                return Answer()
            return _choose([as_open(row, now) for row in waiting], texts.CHOOSE, decision)
        return self._one(connection, actor, decision, waiting[0], named=False)

    def _one(self, connection: Connection, actor: Actor, decision: Decision, row: Action, *, named: bool) -> Answer:
        if not _is_requester(row, actor):
            return Answer(texts.NOT_YOURS, outcome="foreign")
        if decision.kind == "edit":
            return Answer(edit=as_open(row, self._clock.now_ms())) if row.status == "pending" else _state(row)
        if row.status != "pending":
            return self._settled(row, actor)
        if decision.kind == "reject":
            if decision.strength == "weak" and not self._is_newest(connection, actor, [row.id]):
                return Answer()
            return self._reject(connection, actor, row, via="text")
        refusal = self._not_yet(connection, actor, decision, row, named=named)
        return refusal if refusal is not None else self._confirm(connection, actor, row, via="text")

    def _not_yet(self, connection: Connection, actor: Actor, decision: Decision, row: Action, *, named: bool) -> Answer | None:
        """Why these words do not confirm this action (N-15), or None when they do."""
        if named:
            if not self._outbox.delivered(connection, row.id):
                return _shown_again(row)
        elif not self._is_newest(connection, actor, [row.id]):
            return Answer() if decision.strength == "weak" else _shown_again(row)
        elif decision.strength == "weak" and self._parked(connection, actor.conversation_id):
            return Answer()
        if row.risk == "high" or row.code is not None:
            if decision.code is None and decision.number != int(row.code or -1):
                return Answer(texts.NEED_CODE.format(number=row.number), outcome="asked")
            if (decision.code or str(decision.number)) != row.code:
                return Answer(texts.WRONG_CODE, outcome="asked")
        return None

    def _is_newest(self, connection: Connection, actor: Actor, action_ids: list[str]) -> bool:
        newest = self._outbox.newest(connection, actor.conversation_id)
        if newest is None or not newest.delivered or newest.action_id not in action_ids or newest.sent_at_ms is None:
            return False
        in_time = newest.sent_at_ms // 1000 <= actor.said_at_ms // 1000  # CreateTime has whole seconds
        return in_time and newest.sent_at_ms <= actor.received_at_ms

    def _parked(self, connection: Connection, conversation_id: str) -> bool:
        return isinstance(self._outbox, _Parking) and self._outbox.parked_count(connection, conversation_id) > 0

    def _none_open(self, connection: Connection, actor: Actor, decision: Decision, now: int) -> Answer:
        if decision.strength == "weak" or decision.kind == "edit":
            return Answer()
        row = latest_row(connection, actor, now - _RECENT_MS)
        if row is not None and (decision.kind == "confirm" or row.status == "rejected"):
            return self._settled(row, actor)
        return Answer(texts.NOTHING_OPEN) if decision.kind == "confirm" else Answer()

    def _all(self, connection: Connection, actor: Actor, decision: Decision, waiting: list[Action], now: int) -> Answer:
        mine = [row for row in waiting if _is_requester(row, actor)]
        if not mine:
            return Answer(texts.NOTHING_OPEN)
        if decision.kind != "reject":
            return _choose([as_open(row, now) for row in waiting], texts.ONE_BY_ONE, decision)
        done = [row for row in mine if self._reject(connection, actor, row, via="text").outcome == "rejected"]
        return Answer(texts.REJECTED_ALL.format(count=len(done)), outcome="rejected")

    # inside: keys ----------------------------------------------------------------------------------------------------
    def _decide_menu(self, connection: Connection, actor: Actor, decision: Decision, key: str) -> Answer:
        """A clicked menu item decides only the action it was made for, and only what it says (N-16)."""
        row, kind = self._by_key(connection, actor, key)
        if row is None or kind != decision.kind or (decision.number is not None and decision.number != row.number):
            return Answer(texts.WRONG_MENU if row is not None else texts.CARD_UNKNOWN)
        return self._by_click(connection, actor, row, kind, via="menu")

    def _decide_key(self, connection: Connection, actor: Actor, key: str, response_code: str | None, cause: str) -> Answer:
        expire(connection, actor.conversation_id, self._clock.now_ms())
        row, kind = self._by_key(connection, actor, key)
        if row is None or kind is None:
            return Answer(texts.CARD_UNKNOWN, outcome="unknown")
        answer = self._by_click(connection, actor, row, kind, via=cause)
        if response_code and _is_requester(row, actor):
            fresh = connection.execute(select(ACTIONS).where(ACTIONS.c.id == row.id)).one()
            connection.execute(update(ACTIONS).where(ACTIONS.c.id == row.id).values(response_code=response_code))
            self._replace_card(connection, actor, fresh, response_code)
        return answer

    def _by_key(self, connection: Connection, actor: Actor, key: str) -> tuple[Action | None, str | None]:
        parts = key.split("|")
        if len(parts) != 4 or parts[0] != "pa1" or parts[3] not in ("c", "r"):
            return None, None
        row = connection.execute(
            select(ACTIONS).where(
                ACTIONS.c.id == parts[1], ACTIONS.c.tenant_id == actor.tenant_id, ACTIONS.c.account_id == actor.account_id
            )
        ).first()
        if row is None or short_digest(row.args_digest) != parts[2]:
            return None, None
        return row, "confirm" if parts[3] == "c" else "reject"

    def _by_click(self, connection: Connection, actor: Actor, row: Action, kind: str, *, via: str) -> Answer:
        if not _is_requester(row, actor):
            return Answer(texts.NOT_YOURS, outcome="foreign")
        if row.status != "pending":
            return self._settled(row, actor)
        if kind == "reject":
            return self._reject(connection, actor, row, via=via)
        if row.code is not None:
            return Answer(texts.NEED_CODE.format(number=row.number), outcome="asked")
        return self._confirm(connection, actor, row, via=via)

    def _replace_card(self, connection: Connection, actor: Actor, row: Action, response_code: str) -> None:
        """The card tells the state from now on; each response_code is used once (EVT-06, C32)."""
        name = texts.BUTTON_STATES.get(row.status)
        if name is None:
            return
        self._outbox.put(
            connection,
            Draft(
                idempotency_key=f"card:{row.id}:{response_code}",
                tenant_id=row.tenant_id,
                account_id=row.account_id,
                conversation_id=row.conversation_id,
                user_id=actor.user_id,
                session_id=row.session_id,
                cause="action",
                cause_id=row.id,
                kind="card_update",
                text=name,
                data={"response_code": response_code, "button": {"replace_name": name}},
            ),
        )

    # inside: the compare-and-set -------------------------------------------------------------------------------------
    def _confirm(self, connection: Connection, actor: Actor, row: Action, *, via: str) -> Answer:
        if not self._decided(connection, actor, row, "confirmed", via):
            return self._settled(connection.execute(select(ACTIONS).where(ACTIONS.c.id == row.id)).one(), actor)
        return self._to_run(row)

    def _reject(self, connection: Connection, actor: Actor, row: Action, *, via: str) -> Answer:
        if not self._decided(connection, actor, row, "rejected", via):
            return self._settled(connection.execute(select(ACTIONS).where(ACTIONS.c.id == row.id)).one(), actor)
        if isinstance(self._outbox, _Withdrawing):
            self._outbox.cancel_action_prompt(connection, row.id)
        return Answer(texts.REJECTED.format(summary=row.summary), outcome="rejected")

    def _decided(self, connection: Connection, actor: Actor, row: Action, status: str, via: str) -> bool:
        """id, status, digest, expiry and actor in one statement; exactly one caller gets True (C12, C16)."""
        now = self._clock.now_ms()
        statement = (
            update(ACTIONS)
            .where(
                ACTIONS.c.id == row.id,
                ACTIONS.c.tenant_id == actor.tenant_id,
                ACTIONS.c.status == "pending",
                ACTIONS.c.args_digest == row.args_digest,
                ACTIONS.c.expires_at_ms > now,
                ACTIONS.c.requester_id == actor.user_id,
                ACTIONS.c.account_id == actor.account_id,
            )
            .values(
                status=status,
                decided_by=actor.user_id,
                decided_via=via,
                decided_message=actor.message_key,
                decided_at_ms=now,
                finished_at_ms=now if status == "rejected" else None,
            )
        )
        return connection.execute(statement).rowcount == 1

    def _settled(self, row: Action, actor: Actor) -> Answer:
        """The real state of an action that no longer waits (C13, C14). The very message that confirmed it, seen again
        after a crash, runs it on."""
        if row.status == "confirmed" and row.decided_message == actor.message_key:
            return self._to_run(row)
        return _state(row)

    def _to_run(self, row: Action) -> Answer:
        tool = self._registry.exact(row.tenant_id, row.tool, json.loads(row.args_json))
        return Answer(execute=row.id, long=tool is not None and tool.long, outcome="confirmed")


def _is_requester(row: Action, actor: Actor) -> bool:
    return bool(row.requester_id == actor.user_id and row.account_id == actor.account_id)


def _line(item: OpenAction) -> str:
    return texts.OPEN_LINE.format(number=item.number, summary=item.summary, minutes=item.minutes_left)


def _choose(waiting: list[OpenAction], template: str, decision: Decision) -> Answer:
    """Which one is meant; the example says what the person said, with a number."""
    lines = "\n".join(map(_line, waiting))
    example = texts.CHOOSE_EXAMPLES[decision.kind].format(number=waiting[-1].number)
    return Answer(template.format(count=len(waiting), example=example, lines=lines), outcome="asked")


def _state(row: Action) -> Answer:
    text = texts.STATES[row.status].format(summary=row.summary, result=row.result_text or row.summary)
    return Answer(text, outcome=row.status)


def _shown_again(row: Action) -> Answer:
    """The prompt once more, as text; only an answer to this showing counts."""
    prompt = Prompt(text=row.prompt_text, action_id=row.id, number=row.number, summary=row.summary)
    return Answer(texts.SHOW_AGAIN, prompt=prompt, outcome="asked")


def _place(actor: Actor) -> Place:
    return Place(actor.tenant_id, actor.account_id, actor.conversation_id, actor.session_id, actor.user_id, actor.id_type)
