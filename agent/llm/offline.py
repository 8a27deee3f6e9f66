"""The rule model: deterministic and honest, used where no model may be asked. It speaks the same ToolCall interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agent import texts
from agent.llm.base import ChatMessage, ModelReply, ToolCall, ToolOffer
from agent.protocol import Deadline, SubjectKind
from config.ids import new_id


@dataclass(slots=True)
class RuleModel:
    """The rule model of one turn. ``state`` is the session's and is changed in place: what was told, slots being asked for."""

    state: MutableMapping[str, Any]
    now: datetime
    subject: SubjectKind
    delay_file: Path | None = None

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], deadline: Deadline) -> ModelReply:
        """See Model.complete. Never asks anything outside the process."""
        await self._pretend_to_think()
        results = _trailing_results(messages)
        if results:
            return self._say("\n".join(results))
        newest = next((message.content for message in reversed(messages) if message.role == "user"), "")
        return self._understand(newest, messages, tools)

    def _understand(self, text: str, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer]) -> ModelReply:
        return self._say(can_do(tools))

    def _call(self, offer: ToolOffer, arguments: dict[str, Any]) -> ModelReply:
        self.state.pop("slots", None)
        return ModelReply("", (ToolCall(new_id("call"), offer.name, json.dumps(arguments, ensure_ascii=False)),))

    def _say(self, text: str) -> ModelReply:
        if not self.state.get("told_rule"):
            self.state["told_rule"] = True
            notice = texts.RULE_NOTICE_CUSTOMER if self.subject == "customer" else texts.RULE_NOTICE_USER
            text = f"{notice}\n{text}"
        return ModelReply(text)

    async def _pretend_to_think(self) -> None:
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


def can_do(tools: Sequence[ToolOffer]) -> str:
    """What a person is told when the rules do not understand them."""
    if not tools:
        return f"{texts.RULE_UNSURE}{texts.RULE_CAN_NOTHING}"
    lines = "\n".join(f"· {tool.description.splitlines()[0]}" for tool in tools[:8])
    example = next((tool.examples[0] for tool in tools if tool.examples), "帮助")
    return f"{texts.RULE_UNSURE}\n{texts.RULE_CAN_DO.format(lines=lines, example=example)}"
