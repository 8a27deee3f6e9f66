"""Ends actions that nobody goes on with: never answered, never delivered, confirmed and never begun (N-15, N-18)."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, or_, select, update

from config.clock import Clock
from tools import texts
from tools.action_rows import Action, end_row
from tools.open_actions import is_over
from tools.outcomes import Outcomes
from tools.proposals import ACTIONS, AHEAD_MS

UNCLAIMED_MS = 120_000
_DRAFT_MS = 3_600_000
_PROMPT_MS = 1_800_000


def end_waiting(connection: Connection, outcomes: Outcomes, clock: Clock, limit: int) -> list[str]:
    """One pass over what waits in vain; returns the outbox groups of what is told."""
    now, groups = clock.shared_ms(connection), []
    late = (ACTIONS.c.status == "confirmed") & _is_unclaimed(now)
    for row in connection.execute(select(ACTIONS).where(late).limit(limit)).all():
        group = _withdraw(connection, outcomes, row, now)
        groups += [group] if group is not None else []
    for action_id in outcomes.outbox.undeliverable_prompts(connection, clock.now_ms() - _PROMPT_MS, limit):
        end_row(connection, action_id, "pending", "withdrawn", "undelivered", now)
    for row in connection.execute(select(ACTIONS).where(is_over(now)).limit(limit - len(groups))).all():
        group = _expire(connection, outcomes, row, now)
        groups += [group] if group is not None else []
    stale = ACTIONS.c.status.in_(("draft", "choice")) & (ACTIONS.c.created_at_ms <= now - _DRAFT_MS)
    connection.execute(ACTIONS.delete().where(stale))
    return groups


def withdraw_unclaimed(connection: Connection, outcomes: Outcomes, clock: Clock, action_id: str) -> str | None:
    """Withdraw this action when it was confirmed so long ago that nobody may begin it any more (N-18); returns the outbox
    group that tells it, None when it may be begun."""
    now = clock.shared_ms(connection)
    late = (ACTIONS.c.id == action_id) & (ACTIONS.c.status == "confirmed") & _is_unclaimed(now)
    row = connection.execute(select(ACTIONS).where(late)).first()
    return None if row is None else _withdraw(connection, outcomes, row, now)


def _is_unclaimed(now_ms: int) -> ColumnElement[bool]:
    """Decided two minutes ago; or so far ahead that the clock was set back since."""
    return or_(ACTIONS.c.decided_at_ms <= now_ms - UNCLAIMED_MS, ACTIONS.c.decided_at_ms > now_ms + AHEAD_MS)


def _withdraw(connection: Connection, outcomes: Outcomes, row: Action, now_ms: int) -> str | None:
    if not end_row(connection, row.id, "confirmed", "withdrawn", "unclaimed", now_ms):
        return None
    group = outcomes.tell(connection, row, texts.OUTCOME_UNCLAIMED.format(summary=row.summary))
    connection.execute(update(ACTIONS).where(ACTIONS.c.id == row.id).values(answer_group=group))
    return group


def _expire(connection: Connection, outcomes: Outcomes, row: Action, now_ms: int) -> str | None:
    """Told in either case: a prompt that is still on its way would ask about something that is over, so it does not go."""
    seen = outcomes.outbox.delivered(connection, row.id)
    status, code = ("expired", None) if seen else ("withdrawn", "undelivered")
    if not end_row(connection, row.id, "pending", status, code, now_ms):
        return None
    if not seen:
        outcomes.outbox.cancel_action_prompt(connection, row.id)
    text = texts.OUTCOME_EXPIRED if seen else texts.OUTCOME_UNSEEN
    return outcomes.tell(connection, row, text.format(summary=row.summary))
