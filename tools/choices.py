"""Questions with numbered answers: what each number would call is kept, so that 「选 2」 needs no model (CNF-09)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from config.clock import Clock
from config.ids import new_id
from memory.numbers import INTEGER, parse_number
from tools import texts
from tools.base import Option, Tool, ToolContext
from tools.decided import Actor
from tools.proposals import ACTIONS

_GOOD_FOR_MS = 600_000
_BARE_MS = 120_000
"""Later a bare number is more likely about something else."""
MAX_OPTIONS = 9
_NEWEST = (
    select(ACTIONS.c.tool, ACTIONS.c.args_json, ACTIONS.c.expires_at_ms, ACTIONS.c.created_at_ms)
    .where(ACTIONS.c.tenant_id == bindparam("tenant"), ACTIONS.c.conversation_id == bindparam("conversation"))
    .where(ACTIONS.c.requester_id == bindparam("person"), ACTIONS.c.status == "choice")
    .order_by(ACTIONS.c.created_at_ms.desc(), ACTIONS.c.id.desc())
    .limit(1)
)
"""Built once: without a model every short message asks."""


def question_text(question: str, options: Sequence[Option]) -> str:
    """The question with its options as numbered lines and how to answer."""
    lines = "\n".join(f"{number}. {option.label}" for number, option in enumerate(options[:MAX_OPTIONS], 1))
    answers = " / ".join(texts.CHOICE.format(number=number) for number in range(1, len(options[:MAX_OPTIONS]) + 1))
    return texts.CHOICES.format(question=question, lines=lines, answers=answers)


def offer(context: ToolContext, tool: Tool, question: str, options: Sequence[Option]) -> Callable[[Connection], None]:
    """The write that keeps what each option means; it replaces an older question of this person here."""
    shown = options[:MAX_OPTIONS]
    kept = {"labels": [option.label for option in shown], "calls": [dict(option.arguments) for option in shown]}

    def write(connection: Connection) -> None:
        close(connection, context.conversation_id, context.user_id)
        choice_id, now = new_id("ch"), context.clock.shared_ms(connection)
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
    connection: Connection, actor: Actor, number: int, clock: Clock, *, bare: bool = False
) -> tuple[str, Mapping[str, Any]] | None:
    """The tool and arguments that this number stands for, or None when no question with that many options waits; for a
    ``bare`` number: one just asked."""
    waiting = _waiting(connection, actor, clock, _BARE_MS if bare else _GOOD_FOR_MS)
    if waiting is None or not 1 <= number <= len(waiting.calls):
        return None
    return waiting.tool, waiting.calls[number - 1]


def number_meant(connection: Connection, actor: Actor, words: str, clock: Clock) -> int | None:
    """Which option of the question just asked a short answer in words means: 第二个, an account, a name or a department that
    only one of them has. 0: none of them (算了, 都不是). None when nothing waits or it is not plain."""
    waiting = _waiting(connection, actor, clock, _BARE_MS)
    if waiting is None:
        return None
    bare = _folded(words)
    if _NEITHER.fullmatch(bare):
        return 0
    ordinal = _ORDINAL.fullmatch(bare)
    if ordinal is not None:
        number = len(waiting.calls) if ordinal["last"] else int(parse_number(ordinal["number"]) or 0)
        return number if 1 <= number <= len(waiting.calls) else None
    bare = _AROUND.sub("", bare)
    fits = [number for number, option in enumerate(waiting.labels, 1) if bare and _is_called(bare, option)]
    return fits[0] if len(fits) == 1 else None


_NEITHER = re.compile("(?:那|还是)?(?:算了|取消|都不是|都不对|不发了|不用了?|不要了)(?:吧|了)?")
_ORDINAL = re.compile(f"(?:就|选|要|是|发给)?(?:第?(?P<number>{INTEGER})(?:个|位|项|号)?|(?P<last>最后(?:一)?(?:个|位)?))(?:吧)?")
_AROUND = re.compile("^(?:就|选|要|是|给|发给|找)|(?:的?(?:那|这)(?:个|位))?(?:的|吧)?$")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip(" \t\r\n。.,!~")


def _is_called(said: str, label: str) -> bool:
    """Whether all that was said is a part of the label: 市场部 or 张三（zhangsan02） of 张三（zhangsan02，市场）."""
    parts = _parts(_folded(label))
    return all(one in parts or one.removesuffix("部") in parts for one in _parts(said))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.split("[(),]", text) if part.strip()]


@dataclass(frozen=True, slots=True)
class _Waiting:
    tool: str
    labels: tuple[str, ...]
    calls: tuple[Mapping[str, Any], ...]


def _waiting(connection: Connection, actor: Actor, clock: Clock, for_ms: int) -> _Waiting | None:
    """The newest question of this person here, if it was asked at most ``for_ms`` ago."""
    whose = {"tenant": actor.tenant_id, "conversation": actor.conversation_id, "person": actor.person}
    row = connection.execute(_NEWEST, whose).first()
    if row is None:
        return None
    now_ms = clock.shared_ms(connection)
    if row.expires_at_ms <= now_ms or row.created_at_ms < now_ms - for_ms:
        return None
    kept = json.loads(row.args_json)
    if isinstance(kept, list):  # asked before labels were kept
        return _Waiting(str(row.tool), (), tuple(kept))
    return _Waiting(str(row.tool), tuple(kept["labels"]), tuple(kept["calls"]))
