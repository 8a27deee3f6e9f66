"""What a person may have done here, in words: the list of abilities, how to say one, sentences to try."""

from __future__ import annotations

from collections.abc import Sequence

from agent import texts
from agent.llm.base import ToolOffer

_SHOWN = 8
_EVERYDAY = ("todo_create", "reminder_create", "todo_list", "reminder_list", "send_message", "todo_finish")


def everyday_first(tools: Sequence[ToolOffer]) -> list[ToolOffer]:
    """The tools as a person is told of them: what most people ask for first, then the others in their order."""
    return sorted(tools, key=lambda tool: _EVERYDAY.index(tool.name) if tool.name in _EVERYDAY else len(_EVERYDAY))


def example_sentences(tools: Sequence[ToolOffer], count: int = 2) -> str:
    """Sentences to try, in quotation marks: 「…」「…」; empty without tools."""
    shown = [tool.examples[0] for tool in everyday_first(tools) if tool.examples][:count]
    return "".join(f"「{sentence}」" for sentence in shown)


def how_to(tool: ToolOffer) -> str:
    """What one tool is for and how to say it."""
    examples = "".join(f"「{example}」" for example in tool.examples[:2])
    return texts.RULE_HOW.format(what=tool.description.splitlines()[0], examples=examples) if examples else tool.can_do


def can_do(tools: Sequence[ToolOffer], *, unsure: bool = True) -> str:
    """What this person may ask for; what somebody is told whom the rules do not understand (``unsure``) or who asks."""
    if not tools:
        return f"{texts.RULE_UNSURE}{texts.RULE_CAN_NOTHING}" if unsure else texts.RULE_CAN_ASK
    lines = [f"· {tool.can_do}" for tool in everyday_first(tools)]
    if len(lines) > _SHOWN + 1:
        lines[_SHOWN:] = [texts.RULE_CAN_MORE.format(count=len(lines) - _SHOWN)]
    able = texts.RULE_CAN_DO.format(lines="\n".join(lines), examples=example_sentences(tools) or "「帮助」")
    return f"{texts.RULE_UNSURE}\n{able}" if unsure else able
