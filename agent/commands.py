"""Chat commands: whole-message words matched before any model, and what they answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agent import texts
from agent.folding import fold, simplified
from agent.llm.base import ToolOffer
from agent.long_calls import receipt
from agent.people import is_operator
from agent.protocol import Capability, Conversation, InboundMessage, JobRequest, Reply, TurnResult
from agent.rule.abilities import everyday_first, example_sentences
from agent.services import AgentServices
from agent.undo import undo_text
from memory.keys import person_key

CommandName = Literal[
    "help", "status", "new_session", "stop", "pull", "retry", "doctor", "tools", "pending", "reissue", "choose", "undo"
]


@dataclass(frozen=True, slots=True)
class Command:
    """A recognized command. ``only_if_parked``: the word (a bare number) counts only where something waits for it: an answer
    to be pulled, a question to be answered."""

    name: CommandName
    only_if_parked: bool = False


_FAST: dict[str, Command] = {
    **dict.fromkeys(("帮助", "help", "帮助菜单"), Command("help")),
    **dict.fromkeys(("状态", "status", "进度"), Command("status")),
    **dict.fromkeys(("停止", "stop", "停下", "停"), Command("stop")),
    **dict.fromkeys(("继续", "更多", "下一页", "more", "continue"), Command("pull")),
    "1": Command("pull", only_if_parked=True),
    **{str(number): Command("choose", only_if_parked=True) for number in range(2, 10)},
    **dict.fromkeys(("工具", "tools", "工具列表"), Command("tools")),
    **dict.fromkeys(
        ("待确认", "待确认的", "待确认列表", "待确认事项", "待确认操作", "查看待确认", "pending"), Command("pending")
    ),
    **dict.fromkeys(("重新发起", "重新发起一次", "再发起一次", "再次发起", "请重新发起", "reissue"), Command("reissue")),
    **dict.fromkeys(("撤销", "撤回", "undo"), Command("undo")),
    **{f"选{space}{number}": Command("choose") for number in range(1, 10) for space in ("", " ")},
}
_ORDERED: dict[str, Command] = {
    **dict.fromkeys(("新会话", "新对话", "new", "重置", "重置会话", "reset"), Command("new_session")),
    **dict.fromkeys(("重试", "retry", "再试一次"), Command("retry")),
    **dict.fromkeys(("诊断", "doctor"), Command("doctor")),
}
_HARMLESS_TO_ASK = {"help", "status", "tools", "pending"}
_MAX_CHARS = 64


def fast_command(message: InboundMessage, bot_name: str | None = None) -> Command | None:
    """The command that is answered at once, beside whatever runs: 帮助 状态 停止 继续 工具 待确认. Whole message only."""
    return _match(message, _FAST, bot_name)


def ordered_command(message: InboundMessage, bot_name: str | None = None) -> Command | None:
    """The command that waits for its place in the conversation: 新会话 重试 诊断. Whole message only."""
    return _match(message, _ORDERED, bot_name)


def _match(message: InboundMessage, words: dict[str, Command], bot_name: str | None) -> Command | None:
    if message.kind not in ("text", "voice") or len(message.text) > _MAX_CHARS:
        return None
    word, asks = normalize(message.text, bot_name)
    command = words.get(word)
    if command is None or (asks and command.name not in _HARMLESS_TO_ASK):
        return None
    return command


def normalize(text: str, bot_name: str | None = None) -> tuple[str, bool]:
    """The bare lower-case word and whether it was asked: folded, own mention, leading slash and punctuation removed."""
    plain = simplified(fold(text)).casefold()
    if bot_name:
        mention = "@" + simplified(fold(bot_name)).casefold()
        if plain.startswith(mention):
            plain = re.sub(r"^[\s,:]+", "", plain[len(mention) :])
    word = plain.lstrip("/、").strip(_PUNCTUATION)
    outside = plain[plain.rfind(word) + len(word) :] if word else plain
    return word, "?" in outside or word.endswith("吗")


_PUNCTUATION = " \t\r\n。.,!?~〜…;:、「」『』“”\"'()【】[]《》<>"


async def answer_fast(
    services: AgentServices, command: Command, message: InboundMessage, where: Conversation, capability: Capability
) -> TurnResult:
    """Answer a fast command. Takes no claim, loads no session, writes nothing but what 停止 stops; under 100 ms."""
    if command.name == "help":
        return _said(help_text(services, message, where, capability))
    if command.name == "status":
        return _said(await _status(services, where))
    if command.name == "stop":
        return _said(await _stop(services, where))
    if command.name == "tools":
        return _said(await tools_text(services, message, where, capability))
    if command.name == "pull":
        return await services.ops.pull(where)
    if command.name == "undo":
        return _said(await undo_text(services, where))
    return _said(await services.confirm.list_text(where.tenant_id, where.conversation_id))


async def _stop(services: AgentServices, where: Conversation) -> str:
    """停止: turns and jobs are asked to end; a confirmed action is called back, unless somebody has begun it already."""
    actions = await services.confirm.stop(where.tenant_id, where.conversation_id, person_key(where.id_type, where.user_id))
    count = await services.ops.stop(where)
    lines = [texts.STOP_DONE.format(count=count)] if count else []
    return "\n".join([*lines, *actions]) or texts.STOP_NOTHING


def help_text(services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability) -> str:
    """帮助: only what this person may use."""
    names: list[str] = ["status", "new_session", "stop", "pull", "retry"]
    offers = _offers(services, message, where, capability)
    if offers:
        names += ["tools", "pending", "decide", "reissue", "undo"]
    if is_operator(services.settings, message):
        names.append("doctor")
    lines = [texts.HELP_TITLE if offers else texts.HELP_COMMANDS, *(f"· {texts.HELP_LINES[name]}" for name in names)]
    examples = example_sentences(offers)
    return "\n".join([*lines, texts.HELP_EXAMPLES.format(examples=examples)] if examples else lines)


async def tools_text(services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability) -> str:
    """工具: the tools this person may use, one line each."""
    offers = _offers(services, message, where, capability)
    if not offers:
        return texts.TOOLS_NONE
    return "\n".join([texts.TOOLS_TITLE, *(f"· {offer.can_do}" for offer in everyday_first(offers))])


def _offers(services: AgentServices, message: InboundMessage, where: Conversation, capability: Capability) -> list[ToolOffer]:
    from agent.toolbox import Toolbox

    return Toolbox(services, message, where, capability).offered() if capability.trusted else []


async def _status(services: AgentServices, where: Conversation) -> str:
    work = await services.ops.work(where)
    lines = [texts.STATUS_TITLE if work else texts.STATUS_IDLE]
    for number, item in enumerate(work, 1):
        state = texts.STATE_NAMES.get(item.state, item.state)
        lines.append(
            texts.STATUS_LINE.format(number=number, question=texts.short(item.question), state=state, age=texts.age(item.age_s))
        )
    waiting = await services.confirm.open_actions(where.tenant_id, where.conversation_id)
    if waiting:
        lines.append(texts.STATUS_WAITING_CONFIRM.format(count=len(waiting)))
    if where.id_type == "wecom_userid":  # which model answers is the company's own business
        lines.append(services.router.describe())
    return "\n".join(lines)


def doctor(services: AgentServices, message: InboundMessage, capability: Capability) -> TurnResult:
    """诊断: a job for operators; its receipt promises only what the channel can keep (N-26)."""
    if not is_operator(services.settings, message):
        return _said(texts.DOCTOR_DENIED)
    return TurnResult(replies=(Reply(receipt(capability)),), outcome="deferred", job=JobRequest("doctor"))


def _said(text: str) -> TurnResult:
    return TurnResult(replies=(Reply(text, source="rule"),), outcome="command")
