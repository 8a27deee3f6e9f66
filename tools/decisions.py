"""Decides what an answer does to pending actions: one compare-and-set a decision, the real state for everything else."""

from __future__ import annotations

import json
import re
from typing import Any

from sqlalchemy import Connection, select, update

from config.clock import Clock
from config.ports import Draft, Outbox
from tools import texts
from tools.code_guard import TRIES, missed
from tools.decided import Actor, Answer, Decision, OpenAction, Prompt
from tools.open_actions import Action, as_open, latest_row, move_action, numbered_row, open_rows, settled_by_time
from tools.prompt import visible
from tools.proposals import ACTIONS, is_current, short_digest
from tools.registry import Registry

_RECENT_MS = 24 * 3600 * 1000
_EDIT = "edit"
"""``decided_via`` of a pending action that its person asked to change."""

_NEW_VALUE = re.compile("[^改换调「」]{1,20}")
"""What a change was to, without words that tell of changing: short enough to say again."""

_KEY = re.compile(r"pa1\|[0-9a-zA-Z_-]{1,64}\|[0-9a-f]{16}\|[cr]")


class Decisions:
    """Every method runs inside the caller's transaction (N-15 to N-18)."""

    def __init__(self, outbox: Outbox, clock: Clock, registry: Registry) -> None:
        self._outbox = outbox
        self._clock = clock
        self._registry = registry

    # text ----------------------------------------------------------------------------------------------------
    def by_words(self, connection: Connection, actor: Actor, decision: Decision) -> Answer:
        """What typed words, or a clicked menu item, come to."""
        now = self._clock.shared_ms(connection)
        if actor.menu_item_id is not None:
            return self._decide_menu(connection, actor, decision, actor.menu_item_id)
        waiting = open_rows(connection, actor.tenant_id, actor.conversation_id, self._clock)
        if decision.all:
            return self._all(connection, actor, decision, waiting, now)
        if decision.number is not None:
            row = numbered_row(connection, actor, decision, waiting)
            if row is None:
                return self._no_such(connection, actor, decision, waiting)
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
        row = settled_by_time(connection, row, self._clock.shared_ms(connection))
        if decision.kind == "edit":
            return self._to_change(connection, actor, row) if row.status == "pending" else _state(row)
        if row.status == "confirmed" and decision.kind == "reject":
            return self._call_back(connection, actor, row, via="text")
        if row.status != "pending":
            return self._settled(row, actor)
        if decision.kind == "reject":
            if decision.strength == "weak" and not self._is_newest(connection, actor, [row.id]):
                return Answer()
            return self._reject(connection, actor, row, via="text")
        refusal = self._not_yet(connection, actor, decision, row, named=named)
        return refusal if refusal is not None else self._confirm(connection, actor, row, via="text")

    def _not_yet(self, connection: Connection, actor: Actor, decision: Decision, row: Action, *, named: bool) -> Answer | None:
        """Why these words do not confirm this action (N-15), or None when they do. No showing counts that they could not have
        answered: one that went out after them, or before its person asked for a change."""
        asked_ms = row.decided_at_ms if row.decided_via == _EDIT else None
        seen = self._outbox.delivered(connection, row.id, after_ms=asked_ms, until_ms=actor.received_at_ms)
        if named and not seen:
            return _shown_again(row)
        if not named and not (seen and self._is_newest(connection, actor, [row.id])):
            return Answer() if decision.strength == "weak" else _shown_again(row)
        if not named and decision.strength == "weak" and self._outbox.parked_count(connection, actor.conversation_id):
            return Answer()
        if row.risk == "high" or row.code is not None:
            if decision.code is None and decision.number != int(row.code or -1):
                return Answer(texts.NEED_CODE.format(number=row.number), outcome="asked")
            if (decision.code or str(decision.number)) != row.code:
                return self._wrong_code(connection, actor, row)
        return None

    def _wrong_code(self, connection: Connection, actor: Actor, row: Action) -> Answer:
        """A code is read off the prompt, not found by trying: after a few wrong ones the action is withdrawn."""
        if missed(connection, row, actor, self._clock.now_ms()) < TRIES:
            return Answer(texts.WRONG_CODE, outcome="asked")
        ended = {"status": "withdrawn", "error_code": "wrong_code", "finished_at_ms": self._clock.now_ms()}
        move_action(connection, row.id, ("pending",), ended)
        return Answer(texts.TOO_MANY_CODES.format(summary=row.summary), outcome="withdrawn")

    def _no_such(self, connection: Connection, actor: Actor, decision: Decision, waiting: list[Action]) -> Answer:
        """Four digits that are nobody's number are a code that is wrong."""
        coded = [row for row in waiting if row.code is not None and _is_requester(row, actor)]
        if decision.kind == "confirm" and coded and len(str(decision.number)) == len(coded[0].code):
            return self._wrong_code(connection, actor, coded[-1])
        return Answer(texts.NO_SUCH_NUMBER.format(number=decision.number))

    def _to_change(self, connection: Connection, actor: Actor, row: Action) -> Answer:
        """The person asked for a change: what they were shown so far is no longer what they want, until it is shown anew."""
        asked: dict[str, Any] = {"decided_by": actor.user_id, "decided_via": _EDIT, "decided_message": actor.message_key}
        asked["decided_at_ms"] = self._clock.now_ms()
        move_action(connection, row.id, ("pending",), asked)
        return Answer(edit=as_open(row, self._clock.shared_ms(connection)))

    def _call_back(self, connection: Connection, actor: Actor, row: Action, *, via: str) -> Answer:
        """取消 of what was confirmed: in time as long as nobody has begun."""
        now = self._clock.now_ms()
        ended = {"status": "rejected", "decided_via": via, "decided_message": actor.message_key, "finished_at_ms": now}
        if move_action(connection, row.id, ("confirmed",), ended):
            return Answer(texts.REJECTED.format(summary=row.summary), outcome="rejected")
        return _state(connection.execute(select(ACTIONS).where(ACTIONS.c.id == row.id)).one())

    def _is_newest(self, connection: Connection, actor: Actor, action_ids: list[str]) -> bool:
        newest = self._outbox.newest(connection, actor.conversation_id)
        if newest is None or not newest.delivered or newest.action_id not in action_ids or newest.sent_at_ms is None:
            return False
        in_time = newest.sent_at_ms // 1000 <= actor.said_at_ms // 1000  # CreateTime has whole seconds
        return in_time and newest.sent_at_ms <= actor.received_at_ms

    def _none_open(self, connection: Connection, actor: Actor, decision: Decision, now: int) -> Answer:
        if decision.strength == "weak" or decision.kind == "edit":
            return Answer()
        row = latest_row(connection, actor, now - _RECENT_MS)
        row = None if row is None else settled_by_time(connection, row, now)
        if row is not None and decision.kind == "reject" and row.status == "confirmed":
            return self._call_back(connection, actor, row, via="text")
        if row is not None and (decision.kind == "confirm" or row.status in ("rejected", "executing", "unknown")):
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

    # keys ----------------------------------------------------------------------------------------------------
    def _decide_menu(self, connection: Connection, actor: Actor, decision: Decision, key: str) -> Answer:
        """A clicked menu item decides only the action it was made for, and only what it says (N-16)."""
        row, kind = self._by_key(connection, actor, key)
        if row is None or kind != decision.kind or (decision.number is not None and decision.number != row.number):
            return Answer(texts.WRONG_MENU if row is not None else texts.CARD_UNKNOWN)
        return self._by_click(connection, actor, row, kind, via="menu")

    def by_card(self, connection: Connection, actor: Actor, key: str, response_code: str | None, cause: str) -> Answer:
        """What a click on a card comes to; the card is replaced with the state it leaves."""
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
        if _KEY.fullmatch(key) is None:
            return None, None
        parts = key.split("|")
        row = connection.execute(
            select(ACTIONS).where(
                ACTIONS.c.id == parts[1], ACTIONS.c.tenant_id == actor.tenant_id, ACTIONS.c.account_id == actor.account_id
            )
        ).first()
        if row is None or short_digest(row.args_digest) != parts[2]:
            return None, None
        if _is_requester(row, actor):
            row = settled_by_time(connection, row, self._clock.shared_ms(connection))
        return row, "confirm" if parts[3] == "c" else "reject"

    def _by_click(self, connection: Connection, actor: Actor, row: Action, kind: str, *, via: str) -> Answer:
        if not _is_requester(row, actor):
            return Answer(texts.NOT_YOURS, outcome="foreign")
        if row.status == "confirmed" and kind == "reject":
            return self._call_back(connection, actor, row, via=via)
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

    # the compare-and-set -------------------------------------------------------------------------------------
    def _confirm(self, connection: Connection, actor: Actor, row: Action, *, via: str) -> Answer:
        if not self._decided(connection, actor, row, "confirmed", via):
            return self._settled(connection.execute(select(ACTIONS).where(ACTIONS.c.id == row.id)).one(), actor)
        return self._to_run(row)

    def _reject(self, connection: Connection, actor: Actor, row: Action, *, via: str) -> Answer:
        if not self._decided(connection, actor, row, "rejected", via):
            return self._settled(connection.execute(select(ACTIONS).where(ACTIONS.c.id == row.id)).one(), actor)
        self._outbox.cancel_action_prompt(connection, row.id)
        return Answer(texts.REJECTED.format(summary=row.summary), outcome="rejected")

    def _decided(self, connection: Connection, actor: Actor, row: Action, status: str, via: str) -> bool:
        """id, status, digest, expiry and actor in one statement; exactly one caller gets True (C12, C16)."""
        now = self._clock.shared_ms(connection)
        statement = (
            update(ACTIONS)
            .where(
                ACTIONS.c.id == row.id,
                ACTIONS.c.tenant_id == actor.tenant_id,
                ACTIONS.c.status == "pending",
                ACTIONS.c.args_digest == row.args_digest,
                is_current(now),
                ACTIONS.c.requester_id == actor.person,
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
    return bool(row.requester_id == actor.person and row.account_id == actor.account_id)


def _choose(waiting: list[OpenAction], template: str, decision: Decision) -> Answer:
    """Which one is meant; the example says what the person said, with a number."""
    lines = "\n".join(map(line_of, waiting))
    said = decision.edit_text or ""
    said = visible(said) if _NEW_VALUE.fullmatch(said) else "…"
    example = texts.CHOOSE_EXAMPLES[decision.kind].format(number=waiting[-1].number, said=said)
    return Answer(template.format(count=len(waiting), example=example, lines=lines), outcome="asked")


def _state(row: Action) -> Answer:
    text = texts.STATES[row.status].format(summary=row.summary, result=row.result_text or row.summary)
    return Answer(text, outcome=row.status)


def _shown_again(row: Action) -> Answer:
    """The prompt once more, as text; only an answer to this showing counts."""
    prompt = Prompt(text=row.prompt_text, action_id=row.id, number=row.number, summary=row.summary)
    return Answer(texts.SHOW_AGAIN, prompt=prompt, outcome="asked")


def line_of(item: OpenAction) -> str:
    """An open action in a list."""
    return texts.OPEN_LINE.format(number=item.number, summary=item.summary, minutes=item.minutes_left)
