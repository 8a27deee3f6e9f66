"""The rule model: deterministic and honest, used where no model may be asked. It speaks the same ToolCall interface."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agent import texts
from agent.intents import read_decision
from agent.llm.base import ChatMessage, ModelReply, ToolCall, ToolOffer
from agent.llm.intent import find_intent
from agent.llm.slot_text import CONTENT_NAMES
from agent.llm.slots import (
    choices,
    fill,
    is_only_time,
    is_time,
    label,
    missing,
    properties_of,
    property_of,
    read_answer,
    several_times,
    unknown_machine,
)
from agent.protocol import Deadline, SubjectKind
from config.ids import new_id
from memory.segment import Segmenter

_DROP = re.compile(r"(?:算了|不用了?|不要了|不做了|没事了?|取消|退出|先不了)吧?")
_HELLO = re.compile(r"(?:你好|您好|hi|hello|嗨|哈喽|在吗|在么|早上好|下午好|晚上好|早|早安)(?:啊|呀|哦)?", re.IGNORECASE)
_THANKS = re.compile(r"(?:谢谢|多谢|感谢|谢了|辛苦了?|thanks|thank you)(?:你|您|啦|了|哦|啊)?", re.IGNORECASE)
_WHO = re.compile(
    r"(?:你是谁|你叫什么(?:名字)?|你是(?:什么|哪位|机器人|人工|真人)|你(?:能|会|可以)(?:干|做|帮我做)?(?:什么|啥|哪些事?))(?:呀|啊|呢|吗)?"
)
_ABOUT = re.compile(r"^(?:什么是|啥是|什么叫|(?:怎么|怎样|如何)(?!样|回事|办|了))|是什么意思$")
_RECORD = re.compile(r"说过|提过|刚才|刚刚|上次|之前|记录|还记得|我的[^，。]{1,12}(?:是什么|是多少|多少|几号|是哪)")
_NOT_THIS = re.compile(
    r"^(?:我|你|请|先|以后|那|就|还是|麻烦|可)*(?:不要|别|不用|不必|不想|不想要|不需要|无需|不打算)(?:再|给我|帮我|帮|去)*"
    r"(?:新?建|设|加|创建|添加|发|给|通知|告诉|转告|删|完成|写|提交|运行|执行|打包|取消|查)"
)
_ASKS_ABOUT = re.compile(r"(?:了|过)(?:吗|嘛|么|没有?)$|怎么办$|^(?:为什么|为啥|怎么|谁|有人|有没有人)")
_EDGES = " \t\r\n。.,，!！?？~～、"
_ASKS = 2
_QUESTION_S = 600
_SHOWN = 8
_EVERYDAY = ("todo_create", "reminder_create", "todo_list", "reminder_list", "send_message", "todo_finish")


@dataclass(slots=True)
class RuleModel:
    """The rule model of one turn. ``state`` is the session's and is changed in place: what was told, slots being asked for."""

    state: MutableMapping[str, Any]
    now: datetime
    subject: SubjectKind
    segmenter: Segmenter
    delay_file: Path | None = None

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], deadline: Deadline) -> ModelReply:
        """See Model.complete. Never asks anything outside the process."""
        await self._pretend_to_think()
        results = _trailing_results(messages)
        if results:
            return self._say("\n".join(results))
        await self.segmenter.ready()
        newest = next((message.content for message in reversed(messages) if message.role == "user"), "")
        return self._understand(newest, messages, tools)

    def _understand(self, text: str, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer]) -> ModelReply:
        bare = unicodedata.normalize("NFKC", text).strip(_EDGES)
        asked = self._asked(bare)
        if asked is not None:
            answered = self._answered(text.strip(_EDGES), asked, tools)
            if answered is not None:
                return answered
        if _HELLO.fullmatch(bare):
            return self._say(texts.RULE_HELLO)
        if _THANKS.fullmatch(bare):
            return self._say(texts.RULE_THANKS)
        if _WHO.fullmatch(bare):
            return self._say(f"{texts.RULE_WHO}\n{can_do(tools, unsure=False)}")
        if _ABOUT.search(bare):
            return self._say(can_do(tools))
        if _DROP.fullmatch(bare):
            return self._say(texts.RULE_NOTHING_TO_DROP)
        intent = find_intent(text, tools, self.segmenter)
        if intent.best is not None and intent.best.writes and _NOT_THIS.match(bare):
            return self._say(texts.RULE_NOT_DONE)
        if intent.best is not None and intent.best.writes and _ASKS_ABOUT.search(bare):
            return self._say(can_do(tools))  # somebody speaks of a to-do; nobody asked for one
        if intent.best is not None:
            if several_times(bare, self.now) and sum(is_time(*one) for one in properties_of(intent.best).items()) == 1:
                return self._say(texts.RULE_ONE_TIME)
            values = fill(text, intent.best, self.now)
            unknown = unknown_machine(text, intent.best, values)
            if unknown is not None:
                return self._ask(intent.best, values, unknown[0], 1, texts.SLOT_UNKNOWN.format(said=unknown[1][:40]))
            return self._propose(intent.best, values)
        if _RECORD.search(bare):
            return self._say(self._extract(text, messages))
        if intent.rivals:
            first, second = (tool.can_do for tool in intent.rivals)
            return self._say(texts.RULE_BOTH.format(first=first, second=second))
        decision = read_decision(text) if tools else None
        if decision is not None and decision.kind == "edit":
            return self._say(texts.RULE_NOTHING_TO_CHANGE)
        return self._say(can_do(tools))

    def _asked(self, text: str) -> dict[str, Any] | None:
        """The question that still waits: none of long ago, and a greeting answers only what may be any words."""
        asked = self.state.get("slots")
        if not isinstance(asked, dict):
            return None
        greeting = _HELLO.fullmatch(text) or _THANKS.fullmatch(text)
        if self.now.timestamp() - float(asked.get("at", 0)) > _QUESTION_S or (greeting and asked.get("ask") not in CONTENT_NAMES):
            self.state.pop("slots", None)
            return None
        return asked

    def _answered(self, text: str, asked: dict[str, Any], tools: Sequence[ToolOffer]) -> ModelReply | None:
        """The answer to a question of the turn before; None when the person speaks of something else."""
        offer = next((tool for tool in tools if tool.name == asked.get("tool")), None)
        name, values = str(asked.get("ask")), dict(asked.get("args") or {})
        if offer is None or name not in offer.parameters.get("properties", {}):
            self.state.pop("slots", None)
            return None
        if _DROP.fullmatch(unicodedata.normalize("NFKC", text)):
            self.state.pop("slots", None)
            return self._say(texts.RULE_GAVE_UP)
        other = find_intent(text, tools, self.segmenter)
        if other.named and other.best is not None and other.best.name != offer.name:
            self.state.pop("slots", None)
            return None
        value = read_answer(text, name, property_of(offer, name), self.now)
        told = fill(text, offer, self.now, values)
        if told != values and name not in told and is_only_time(text, self.now):
            return self._propose(offer, told)  # 「10分钟后」 to the question what to remind of: the time, not the words
        if value is not None:
            values[name] = value
            return self._propose(offer, fill(text, offer, self.now, values))
        times = int(asked.get("times", 1))
        if times >= _ASKS:
            self.state.pop("slots", None)
            return self._say(texts.RULE_GAVE_UP)
        return self._ask(offer, values, name, times + 1)

    def _propose(self, offer: ToolOffer, values: dict[str, Any]) -> ModelReply:
        """Call the tool, or ask for the first thing it still needs."""
        lacking = missing(offer, values)
        if lacking:
            return self._ask(offer, values, lacking[0], 1)
        self.state.pop("slots", None)
        return ModelReply("", (ToolCall(new_id("call"), offer.name, json.dumps(values, ensure_ascii=False)),))

    def _ask(self, offer: ToolOffer, values: dict[str, Any], name: str, times: int, before: str = "") -> ModelReply:
        self.state["slots"] = {
            "tool": offer.name,
            "args": values,
            "ask": name,
            "times": times,
            "at": int(self.now.timestamp()),
        }
        schema = property_of(offer, name)
        options = choices(schema)
        if options:
            question = texts.SLOT_CHOICE.format(label=label(name, schema), options="、".join(options[:12]))
        elif name == "number" and schema.get("type") == "integer":
            question = texts.SLOT_NUMBER.format(label=label(name, schema))
        elif is_time(name, schema):
            question = texts.SLOT_TIME.format(label=label(name, schema))
        else:
            question = texts.SLOT_ASK.format(label=label(name, schema))
        return self._say(before + question if times == 1 else texts.SLOT_AGAIN + question)

    def _extract(self, text: str, messages: Sequence[ChatMessage]) -> str:
        """What the person said about it earlier in this conversation, word for word; nothing made up."""
        said = [message.content for message in messages if message.role == "user"][:-1]
        wanted = {word for word in self.segmenter.words(text) if not _RECORD.search(word)}
        scored = [(len(wanted & set(self.segmenter.words(line))), number, line) for number, line in enumerate(said)]
        best = sorted((one for one in scored if one[0] > 0 and not one[2].strip().endswith(("?", "？", "吗"))), reverse=True)[:3]
        if not best:
            return texts.RULE_NO_RECORD
        lines = "\n".join(f"· “{texts.short(line, 120)}”" for _, _, line in sorted(best, key=lambda one: one[1]))
        return texts.RULE_FOUND.format(lines=lines)

    def _say(self, text: str) -> ModelReply:
        if not self.state.get("told_rule"):
            self.state["told_rule"] = True
            notice = texts.RULE_NOTICE_CUSTOMER if self.subject == "customer" else texts.RULE_NOTICE_USER
            text = f"{notice}\n{text}"
        return ModelReply(text)

    async def _pretend_to_think(self) -> None:
        """In the demo: wait as long as the file says, so that a slow model can be shown."""
        if self.delay_file is None:
            return
        try:
            delay_ms = int(self.delay_file.read_text("ascii").strip() or "0")
        except (OSError, ValueError):
            return
        if delay_ms > 0:
            await asyncio.sleep(min(delay_ms, 600_000) / 1000)


def _trailing_results(messages: Sequence[ChatMessage]) -> list[str]:
    results: list[str] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        results.append(message.content)
    return results[::-1]


def everyday_first(tools: Sequence[ToolOffer]) -> list[ToolOffer]:
    """The tools as a person is told of them: what most people ask for first, then the others in their order."""
    return sorted(tools, key=lambda tool: _EVERYDAY.index(tool.name) if tool.name in _EVERYDAY else len(_EVERYDAY))


def example_sentences(tools: Sequence[ToolOffer], count: int = 2) -> str:
    """Sentences to try, in quotation marks: 「…」「…」; empty without tools."""
    shown = [tool.examples[0] for tool in everyday_first(tools) if tool.examples][:count]
    return "".join(f"「{sentence}」" for sentence in shown)


def can_do(tools: Sequence[ToolOffer], *, unsure: bool = True) -> str:
    """What this person may ask for; what somebody is told whom the rules do not understand (``unsure``) or who asks."""
    if not tools:
        return f"{texts.RULE_UNSURE}{texts.RULE_CAN_NOTHING}" if unsure else texts.RULE_CAN_ASK
    lines = [f"· {tool.can_do}" for tool in everyday_first(tools)]
    if len(lines) > _SHOWN + 1:
        lines[_SHOWN:] = [texts.RULE_CAN_MORE.format(count=len(lines) - _SHOWN)]
    able = texts.RULE_CAN_DO.format(lines="\n".join(lines), examples=example_sentences(tools) or "「帮助」")
    return f"{texts.RULE_UNSURE}\n{able}" if unsure else able
