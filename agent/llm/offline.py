"""The rule model: deterministic and honest, used where no model may be asked. It speaks the same ToolCall interface."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agent import texts
from agent.edits import edited_arguments
from agent.intents import read_decision
from agent.llm.base import ChatMessage, ModelReply, ToolCall, ToolOffer
from agent.protocol import Deadline, SubjectKind
from agent.rule.abilities import can_do, everyday_first, how_to
from agent.rule.intent import COVERAGE, Intent, find_intent, score
from agent.rule.orders import numbers_in, orders_in
from agent.rule.slot_schema import choices, is_time, label, missing, properties_of, property_of
from agent.rule.slot_text import CONTENT_NAMES, free_names, names_several, reminds_another
from agent.rule.slot_values import several_times
from agent.rule.slots import fill, fill_answer, is_only_time, nearer, options_of, too_long, unknown_machine
from agent.rule.small_talk import asks_who, is_courtesy, small_talk
from config.ids import new_id
from memory.moments import impossible_time, unknown_repeat, vague_time
from memory.segment import Segmenter

_DROP = re.compile(
    r"(?:那|还是|先|我[想要])*(?:算了|不用了?|不要了|没事了?|取消|退出|放弃|停|cancel|quit|(?:先)?[不别](?:用|要|想)?(?:再)?"
    r"(?:做|发|建|设|加|弄|查|写|提|提交|提醒|说|问|选|改|搞|管|删|运行|执行|通知)?(?:它|这个)?(?:了|啦))(?:吧|啦|了|谢谢)*",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    r"(?:不对|不是|错了|说错了|等等|哦不|不不)[,，。!！\s]*(?:是|应该是|改成)?\s*(?=\S)|(?:换成|改成|改为|换到|改到|还是)\s*(?=\S)"
)
_PUZZLED = re.compile(
    r"[?？\s]*|(?:什么|啥)(?:意思|标题|内容|时间|东西)?[?？]*|(?:我)?(?:不知道|不清楚|不懂|没想好|看不懂)|怎么(?:填|写|说|回)[?？]*"
)
_HOW = re.compile(
    r"^(?:请问)?(?:我)?(?:怎么|怎样|如何)(?!样|回事|办|了|又|还|会|老|总)|(?:怎么|如何|怎样)(?:[用删建做弄改设取查写发]\S{0,4})?[呢啊呀]?$"
)
_WHAT_IS = re.compile(r"^(?:什么是|啥是|什么叫)|(?:是什么|是啥|有什么用|什么意思|是干什么的|是干嘛的)$")
_LATER_CHANGE = re.compile(
    r"(?:修改|更改|改|推迟|提前|延后|延期|挪|调整).{0,4}(?:提醒|待办)|(?:提醒|待办).{0,6}(?:改|推迟|提前|延后|延期|挪|调整)"
)
_QUESTION = re.compile(r"(?:[?？]|(?:多少|什么|哪[里个儿]?|几[号点个]?|谁|怎么样?|吗|呢))[?？。\s]*$")
"""Who asked about a thing told nothing of it."""
_RECORD = re.compile(r"说过|提过|刚才|刚刚|上次|之前|记录|还记得|我的[^，。]{1,12}(?:是什么|是多少|多少|几号|是哪)")
_NOT_THIS = re.compile(
    r"^(?:我|你|请|先|以后|那|就|还是|麻烦|可)*(?:不要|别|不用|不必|不想|不想要|不需要|无需|不打算)(?:再|给我|帮我|帮|去)*"
    r"(?:新?建|设|加|创建|添加|发|给|通知|告诉|转告|删|完成|写|提交|运行|执行|打包|取消|查)"
)
_ASKS_ABOUT = re.compile(r"(?:了|过)(?:吗|嘛|么|没有?)$|怎么办$|^(?:为什么|为啥|怎么|谁|有人|有没有人)|(?:多久|是谁|为什么)")
_EDGES = " \t\r\n。.,，!！?？~～、"
_ASKS = 2
_QUESTION_S = 600


@dataclass(slots=True)
class RuleModel:
    """The rule model of one turn. ``state`` is the session's and is changed in place: what was told, slots being asked for."""

    state: MutableMapping[str, Any]
    now: datetime
    subject: SubjectKind
    segmenter: Segmenter
    delay_file: Path | None = None
    withheld: Sequence[ToolOffer] = ()
    """Tools that exist and that this employee may not use: only to say so when one is asked for by its name."""
    _vague: str = ""
    """Days of which none in particular was named (下周): the next answer says which of them."""

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
            answered = self._answered(text.strip(_EDGES), bare, asked, tools)
            if answered is not None:
                return answered
        talk = small_talk(bare, able=bool(tools))
        if talk is not None:
            return self._say(talk)
        if asks_who(bare):
            return self._say(f"{texts.RULE_WHO}\n{can_do(tools, unsure=False)}")
        if _DROP.fullmatch(bare):
            return self._say(texts.RULE_NOTHING_TO_DROP)
        intent = find_intent(text, [*tools, *self.withheld], self.segmenter)
        if intent.best is not None and intent.best in self.withheld:
            return ModelReply("", (_call(intent.best, {}),))  # refused, told and noted where every call is
        intent = find_intent(text, tools, self.segmenter) if self.withheld else intent
        explained = self._explained(bare, intent, tools)
        if explained is not None:
            return explained
        orders = orders_in(text, tools, self.segmenter)
        if orders:
            return self._several([(order.offer, fill(order.text, order.offer, self.now), order.text) for order in orders])
        if intent.best is not None:
            return self._ordered(text, bare, intent.best)
        return self._not_understood(text, bare, intent, messages, tools)

    def _explained(self, bare: str, intent: Intent, tools: Sequence[ToolOffer]) -> ModelReply | None:
        """The answer to somebody who speaks about a thing, or refuses it, instead of ordering it; else None."""
        if (_HOW.search(bare) or _WHAT_IS.search(bare)) and not _RECORD.search(bare):
            meant = intent.best if intent.named else self._about(_WHAT_IS.sub("", bare), tools)
            return self._say(how_to(meant) if meant is not None else can_do(tools))
        if intent.best is None or not intent.best.writes:
            return None
        if _NOT_THIS.match(bare):
            return self._say(texts.RULE_NOT_DONE)
        return self._say(can_do(tools)) if _ASKS_ABOUT.search(bare) else None

    def _about(self, bare: str, tools: Sequence[ToolOffer]) -> ToolOffer | None:
        """The everyday tool whose words a question is made of: 什么是待办."""
        fit = [one.offer for one in score(bare, tools, self.segmenter) if one.coverage > COVERAGE]
        return next(iter(everyday_first(fit)), None)

    def _ordered(self, text: str, bare: str, offer: ToolOffer) -> ModelReply:
        """One order: the call, or what keeps it from being made."""
        timed = [name for name, schema in properties_of(offer).items() if is_time(name, schema)]
        if names_several(bare, offer):
            return self._say(texts.RULE_ONE_PERSON)
        rhythm = unknown_repeat(bare) if "repeat" in properties_of(offer) else None
        if rhythm is not None:
            return self._say(texts.RULE_REPEAT.format(said=rhythm))
        if len(timed) == 1 and several_times(bare, self.now):
            return self._say(texts.RULE_ONE_TIME)
        numbers = numbers_in(text, offer)
        if numbers:
            return self._several([(offer, one, text) for one in numbers])
        values = fill(text, offer, self.now)
        unknown = unknown_machine(text, offer, values)
        if unknown is not None:
            return self._ask(offer, values, unknown[0], 1, texts.SLOT_UNKNOWN.format(said=unknown[1][:40]))
        wrong = impossible_time(text, self.now) if timed else None
        if wrong is not None and not any(name in values for name in timed):
            needed = [name for name in timed if name in offer.parameters.get("required", ())]
            name = (needed or sorted(timed, key=lambda one: ("提醒" in text) != ("remind" in one)))[0]
            return self._ask(offer, values, name, 1, texts.SLOT_NO_SUCH_DAY.format(said=wrong[0]))
        return self._propose(offer, values, text)

    def _several(self, orders: Sequence[tuple[ToolOffer, dict[str, Any], str]]) -> ModelReply:
        """Every order of the message at once, each with a confirmation of its own; or none, when one lacks something."""
        for offer, values, text in orders:
            if missing(offer, values) or too_long(offer, values):
                return self._say(texts.RULE_SEVERAL.format(count=len(orders), text=texts.short(text.strip(_EDGES), 40)))
        return ModelReply("", tuple(_call(offer, values) for offer, values, _ in orders))

    def _not_understood(
        self, text: str, bare: str, intent: Intent, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer]
    ) -> ModelReply:
        other = reminds_another(bare) if tools else None
        if other is not None:
            return self._say(texts.RULE_REMIND_OTHERS.format(who=other))
        if _RECORD.search(bare):
            return self._say(self._extract(text, messages))
        if intent.rivals:
            first, second = (tool.can_do for tool in intent.rivals)
            return self._say(texts.RULE_BOTH.format(first=first, second=second))
        decision = read_decision(text) if tools else None
        if (decision is not None and decision.kind == "edit") or (tools and _LATER_CHANGE.search(bare)):
            return self._say(texts.RULE_NOTHING_TO_CHANGE)
        return self._say(can_do(tools))

    def _asked(self, text: str) -> dict[str, Any] | None:
        """The question that still waits: none of long ago, and a greeting answers only what may be any words."""
        asked = self.state.get("slots")
        if not isinstance(asked, dict):
            return None
        greeting = is_courtesy(text) and asked.get("ask") not in CONTENT_NAMES
        over = asked_at_ms(self.state, round(self.now.timestamp() * 1000)) is None
        if over or greeting or asks_who(text):
            self.state.pop("slots", None)
            return None
        return asked

    def _answered(self, text: str, bare: str, asked: dict[str, Any], tools: Sequence[ToolOffer]) -> ModelReply | None:
        """The answer to a question of the turn before; None when the person speaks of something else."""
        offer = next((tool for tool in tools if tool.name == asked.get("tool")), None)
        name, values = str(asked.get("ask")), dict(asked.get("args") or {})
        if offer is None or name not in offer.parameters.get("properties", {}):
            self.state.pop("slots", None)
            return None
        if _DROP.fullmatch(bare):
            self.state.pop("slots", None)
            return self._say(texts.RULE_GAVE_UP)
        other = find_intent(text, [*tools, *self.withheld], self.segmenter)
        if other.named and other.best is not None:
            if other.best.name != offer.name:
                self.state.pop("slots", None)
                return None
            return self._propose(offer, {**values, **fill(text, offer, self.now)}, text)  # said again, and better
        changed = self._changed(bare, offer, name, values)
        if changed is not None:
            return self._propose(offer, changed)
        if is_only_time(text, self.now) and not is_time(name, property_of(offer, name)):
            told = fill(text, offer, self.now, values)
            if told != values:
                return self._propose(offer, told)  # 「10分钟后」 to the question what to remind of: the time, not the words
        text = nearer(str(asked.get("vague", "")), text, self.now) if asked.get("vague") else text
        told_more = None if _PUZZLED.fullmatch(bare) else fill_answer(text, name, offer, self.now, values)
        if told_more is not None:
            return self._propose(offer, told_more)
        times, why_not = int(asked.get("times", 1)), self._why_not(text, offer, name)
        if why_not:
            return self._ask(offer, values, name, times, why_not)
        if times >= _ASKS:
            self.state.pop("slots", None)
            return self._say(texts.RULE_GAVE_UP)
        return self._ask(offer, values, name, times + 1)

    def _changed(self, bare: str, offer: ToolOffer, name: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was told before, corrected instead of the question answered: 不对，后天; 换成王五. None when it is not that."""
        match = _INSTEAD.match(bare)
        if match is None:
            return None
        to = bare[match.end() :]
        edited = edited_arguments(offer.parameters, values, to, self.now, offer.labels)
        if edited is not None:
            return edited
        words = [one for one in values if one in free_names(properties_of(offer))]
        return {**values, words[0]: to} if len(words) == 1 and name != words[0] else None

    def _why_not(self, text: str, offer: ToolOffer, name: str) -> str:
        """What is wrong with an answer that is no moment: the day does not exist, or none in particular was named."""
        if not is_time(name, property_of(offer, name)):
            return ""
        wrong = impossible_time(text, self.now)
        if wrong is not None:
            return texts.SLOT_NO_SUCH_DAY.format(said=wrong[0])
        vague = vague_time(text, self.now)
        self._vague = vague[0] if vague is not None else ""
        return texts.SLOT_WHICH_TIME.format(said=vague[0]) if vague is not None else ""

    def _propose(self, offer: ToolOffer, values: dict[str, Any], said: str = "") -> ModelReply:
        """Call the tool, or ask for the first thing it still needs. Nothing is cut: a text that is too long is asked again."""
        long = too_long(offer, values)
        if long is not None:
            name, limit = long
            count = len(str(values.pop(name)))
            called = label(name, property_of(offer, name))
            return self._ask(offer, values, name, 1, texts.SLOT_TOO_LONG.format(label=called, count=count, limit=limit))
        values.update({name: only[0] for name in missing(offer, values) if len(only := options_of(offer, name)) == 1})
        lacking = missing(offer, values)
        if lacking:
            return self._ask(offer, values, lacking[0], 1, self._why_not(said, offer, lacking[0]) if said else "")
        self.state.pop("slots", None)
        return ModelReply("", (_call(offer, values),))

    def _ask(self, offer: ToolOffer, values: dict[str, Any], name: str, times: int, before: str = "") -> ModelReply:
        self.state["slots"] = {
            "tool": offer.name,
            "args": values,
            "ask": name,
            "times": times,
            "at": round(self.now.timestamp(), 3),
            **({"vague": self._vague} if self._vague else {}),
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
        return self._say((before or (texts.SLOT_AGAIN if times > 1 else "")) + question)

    def _extract(self, text: str, messages: Sequence[ChatMessage]) -> str:
        """What the person said about it earlier in this conversation, word for word; nothing made up."""
        said = [message.content for message in messages if message.role == "user"][:-1]
        wanted = {word for word in self.segmenter.words(text) if not _RECORD.search(word)}
        scored = [(len(wanted & set(self.segmenter.words(line))), number, line) for number, line in enumerate(said)]
        best = sorted((one for one in scored if one[0] > 0 and not _QUESTION.search(one[2])), reverse=True)[:3]
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


def asked_at_ms(state: Mapping[str, Any], now_ms: int) -> int | None:
    """When the question was asked that a session's state holds (UTC ms); None when none still waits for its answer."""
    asked = state.get("slots")
    at_ms = round(float(asked.get("at", 0)) * 1000) if isinstance(asked, dict) else 0
    return at_ms if now_ms - at_ms <= _QUESTION_S * 1000 else None


def _call(offer: ToolOffer, values: Mapping[str, Any]) -> ToolCall:
    return ToolCall(new_id("call"), offer.name, json.dumps(dict(values), ensure_ascii=False))


def _trailing_results(messages: Sequence[ChatMessage]) -> list[str]:
    results: list[str] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        results.append(message.content)
    told = [text for text in results[::-1] if '"awaiting_confirmation"' not in text]  # the person sees the prompt itself
    return told or results[:1]
