"""The fast lane: decisions and quick commands, answered at once beside whatever runs; takes no claim."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy import Connection

from agent.commands import answer_fast, fast_command, normalize
from agent.edits import edited_arguments
from agent.intents import Decision, read_decision
from agent.llm.offline import asked_at_ms
from agent.protocol import Capability, Conversation, InboundMessage, Outcome, Reply, TurnResult, Write
from agent.services import AgentServices
from agent.toolbox import prompt_reply
from memory import epochs
from tools import texts
from tools.base import Tool
from tools.decided import Actor, Answer, OpenAction
from tools.open_actions import made_since

_SHORT_CHARS = 32
_DIGIT = re.compile("[1-9]")


@dataclass(frozen=True, slots=True)
class FastAnswer:
    """An answer of the fast lane. ``writes`` are committed with the replies. ``action_id``: an action was confirmed (that is
    committed already) and must be executed now; its outcome is the answer."""

    replies: tuple[Reply, ...] = ()
    writes: tuple[Write, ...] = ()
    action_id: str | None = None
    outcome: Outcome = "command"
    long: bool = False
    """The confirmed action may take longer than a person waits: it is a job's work."""


async def answer(
    services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability
) -> FastAnswer | None:
    """Decide or answer a command; None when the message is ordinary talk and has to wait its turn.

    Only text the person typed is read as a decision, and only on trusted accounts (N-11, N-16). Decisions are looked at
    before commands and before any model (C02, C26).
    """
    decision = read_decision(message.text) if message.kind == "text" and message.typed and capability.trusted else None
    if decision is not None and await _gives_up_a_question(services, where, decision):
        return None
    if decision is not None:
        found = await _decide(services, message, where, decision)
        if found is not None:
            return found
    picked = await _picked(services, message, where, capability)
    return picked or await command_only(services, message, where, capability)


async def command_only(
    services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability
) -> FastAnswer | None:
    """Answer a quick command (帮助, 状态, 待确认, 重新发起, ...); None when the message is none, or answers a model."""
    account = services.settings.account(message.account_id)
    name = account.bot_name if account is not None else None
    command = fast_command(message, name)
    if command is None or command.only_if_parked:
        return None
    if command.name in ("pending", "reissue", "choose") and not capability.trusted:
        return FastAnswer((Reply(texts.NOT_TRUSTED),))
    if command.name == "pending":
        return FastAnswer((Reply(await services.confirm.list_text(where.tenant_id, where.conversation_id)),))
    if command.name == "choose":
        decided = await services.confirm.choose(_actor(message, where), int(normalize(message.text, name)[0][-1]))
        return None if decided.outcome == "none" and services.settings.models else _said(decided)  # the model may have asked
    if command.name == "reissue":
        return _said(await services.confirm.reissue(_actor(message, where)))
    result: TurnResult = await answer_fast(services, command, message, where, capability)
    return FastAnswer(result.replies, result.writes, outcome=result.outcome)


async def card(
    services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability
) -> FastAnswer | None:
    """Answer a click on a card of ours; nothing to say about foreign cards. The actor is the callback's (C15)."""
    event = message.event
    if event is None or not (event.key or "").startswith("pa1|") or not capability.trusted:
        return FastAnswer(())
    decided = await services.confirm.decide_card(_actor(message, where), event.key or "", event.response_code)
    await services.bell.ring("outbox", where.conversation_id)
    return _said(decided)


async def _picked(
    services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability
) -> FastAnswer | None:
    """A bare 1 to 9 answers the question that was just asked; None when none was."""
    number = normalize(message.text)[0] if message.kind == "text" and message.typed and capability.trusted else ""
    if not _DIGIT.fullmatch(number):
        return None
    decided = await services.confirm.choose(_actor(message, where), int(number), bare=True)
    return None if decided.outcome == "none" else _said(decided)


async def _gives_up_a_question(services: AgentServices, where: Conversation, decision: Decision) -> bool:
    """Whether a bare 取消 is said to the rule model's own question, the newest thing asked here: no proposal is meant by it."""
    if services.settings.models or decision.kind != "reject" or decision.number is not None or decision.all:
        return False
    now_ms = services.clock.now_ms()

    def read(connection: Connection) -> bool:
        state = epochs.load(connection, where.tenant_id, where.session_id, now_ms).state
        asked_ms = asked_at_ms(state, now_ms)
        return asked_ms is not None and not made_since(connection, where.tenant_id, where.conversation_id, asked_ms)

    return await services.database.read(read)


async def picked_in_words(services: AgentServices, message: InboundMessage, where: Conversation) -> FastAnswer | None:
    """A short answer in words (第二个, an account, 算了) to the question that was just asked; None when it is none, and where
    a model understands it better. It waits its turn like any talk."""
    if services.settings.models or message.kind != "text" or not message.typed or len(message.text) > _SHORT_CHARS:
        return None
    decided = await services.confirm.choose_by_words(_actor(message, where), message.text)
    return None if decided.outcome == "none" else _said(decided)


async def _decide(services: AgentServices, message: InboundMessage, where: Conversation, decision: Decision) -> FastAnswer | None:
    actor = _actor(message, where)
    decided = await services.confirm.decide(actor, decision)
    if decided.edit is not None:
        return await _edit(services, actor, where, decision, decided)
    if not decided.text and decided.prompt is None and decided.execute is None:
        return None
    return _said(decided)


async def _edit(
    services: AgentServices, actor: Actor, where: Conversation, decision: Decision, decided: Answer
) -> FastAnswer | None:
    """改成后天: a new proposal in place of the old one, never run in the same turn. What is not plain goes to the model."""
    action = decided.edit
    tool = services.registry.get(where.tenant_id, action.tool) if action is not None else None
    if action is None or tool is None:
        return None
    now = services.clock.local()
    changed = edited_arguments(tool.parameters, action.arguments, decision.edit_text or "", now, tool.labels)
    if changed is None:
        unclear = Reply(texts.EDIT_NONE_FITS.format(label=_a_field(tool, action)))
        return None if services.settings.models else FastAnswer((unclear,))
    return _said(await services.confirm.propose_again(actor, action.tool, changed, action.id))


def _a_field(tool: Tool, action: OpenAction) -> str:
    """A field of the proposal by the name its prompt gives it: words rather than a choice, and one that is filled."""
    declared = tool.parameters.get("properties", {})
    names = sorted((name for name in declared if name in tool.labels), key=lambda name: name not in action.arguments)
    free = [name for name in names if declared[name].get("type") == "string" and not {"enum", "format"} & set(declared[name])]
    return tool.labels[[*free, *names][0]] if names else texts.EDIT_ANY_FIELD


def _said(decided: Answer) -> FastAnswer:
    replies = [Reply(decided.text, source="tool")] if decided.text else []
    if decided.prompt is not None:
        replies.append(prompt_reply(decided.prompt))
    return FastAnswer(tuple(replies), decided.publish, decided.execute, long=decided.long)


def _actor(message: InboundMessage, where: Conversation) -> Actor:
    return Actor(
        tenant_id=where.tenant_id,
        account_id=where.account_id,
        conversation_id=where.conversation_id,
        session_id=where.session_id,
        user_id=message.user_id,
        id_type=message.id_type,
        message_key=message.idempotency_key,
        said_at_ms=message.said_at_ms,
        received_at_ms=message.received_at_ms,
        menu_item_id=message.menu_item_id,
        inbound_seq=where.inbound_seq,
    )
