"""Questions with numbered answers: what each number would call is kept, so that 「选 2」 needs no model (CNF-09)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from config.ids import new_id
from tools import texts
from tools.base import Option, Tool, ToolContext
from tools.decided import Actor
from tools.proposals import ACTIONS

_GOOD_FOR_MS = 600_000
_BARE_MS = 120_000
"""Later a bare number is more likely about something else."""
MAX_OPTIONS = 9


def question_text(question: str, options: Sequence[Option]) -> str:
    """The question with its options as numbered lines and how to answer."""
    lines = "\n".join(f"{number}. {option.label}" for number, option in enumerate(options[:MAX_OPTIONS], 1))
    answers = " / ".join(texts.CHOICE.format(number=number) for number in range(1, len(options[:MAX_OPTIONS]) + 1))
    return texts.CHOICES.format(question=question, lines=lines, answers=answers)


def offer(context: ToolContext, tool: Tool, question: str, options: Sequence[Option]) -> Callable[[Connection], None]:
    """The write that keeps what each option means; it replaces an older question of this person here."""
    now = context.clock.now_ms()
    kept = [dict(option.arguments) for option in options[:MAX_OPTIONS]]

    def write(connection: Connection) -> None:
        close(connection, context.conversation_id, context.user_id)
        choice_id = new_id("ch")
        connection.execute(
            ACTIONS.insert().values(
                id=choice_id,
                tenant_id=context.tenant_id,
                account_id=context.account_id,
                conversation_id=context.conversation_id,
                session_id=context.session_id,
                requester_id=context.user_id,
                approver_policy="requester",
                inbound_seq=context.inbound_seq,
                turn_fence=context.turn_fence,
                tool=tool.name,
                tool_version=tool.version,
                tool_call_id=choice_id,
                args_json=json.dumps(kept, ensure_ascii=False),
                args_digest="",
                prompt_text=question,
                summary=question,
                risk="normal",
                number=0,
                revision=1,
                status="choice",
                expires_at_ms=now + _GOOD_FOR_MS,
                idempotency_key=f"choice:{choice_id}",
                fence=0,
                created_at_ms=now,
            )
        )

    return write


def close(connection: Connection, conversation_id: str, user_id: str) -> None:
    """No question waits any more."""
    here = (ACTIONS.c.conversation_id == conversation_id, ACTIONS.c.requester_id == user_id, ACTIONS.c.status == "choice")
    connection.execute(update(ACTIONS).where(*here).values(status="withdrawn"))


def chosen(
    connection: Connection, actor: Actor, number: int, now_ms: int, *, bare: bool = False
) -> tuple[str, Mapping[str, Any]] | None:
    """The tool and arguments that this number stands for, or None when no question with that many options waits; for a
    ``bare`` number: one just asked."""
    since_ms = now_ms - (_BARE_MS if bare else _GOOD_FOR_MS)
    row = connection.execute(
        select(ACTIONS.c.tool, ACTIONS.c.args_json)
        .where(
            ACTIONS.c.tenant_id == actor.tenant_id,
            ACTIONS.c.conversation_id == actor.conversation_id,
            ACTIONS.c.requester_id == actor.user_id,
            ACTIONS.c.status == "choice",
            ACTIONS.c.expires_at_ms > now_ms,
            ACTIONS.c.created_at_ms >= since_ms,
        )
        .order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc())
        .limit(1)
    ).first()
    options = json.loads(row.args_json) if row is not None else []
    if row is None or not 1 <= number <= len(options):
        return None
    return str(row.tool), options[number - 1]
