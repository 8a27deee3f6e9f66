"""Renders the confirmation prompt: every argument, nothing hidden, one message, or no prompt at all (N-17)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools import texts
from tools.base import Tool, ToolRefused
from tools.decided import Prompt

MAX_BYTES = 2048
QUOTED_CHARS = 200
_CARD_CHARS = 160
_SUMMARY_CHARS = 60
_NAME_CHARS = 40
_HEAD_CHARS = 2000
_LIKE_PROMPT = re.compile(
    r"[\da-zA-Z]{0,4}(?:即将执行|请确认|待确认|确认单|操作确认|另有\d+项等你确认|回复(?:确认|取消|执行)|(?:确认|取消)\d+|已执行|已过期没有执行)"
)
_TELLS_TO_ANSWER = re.compile(
    "(?:回复?|发送?|发个|输入|键入|打|敲|答|说)(?:我|一下|一个|个|以下|文字|口令|消息)*(?:确认|执行|确定)(?:执行|操作)?(?:第|编号|号)?[0-9]"
)
"""Anywhere in a line: a model that says which number to confirm speaks for a prompt that somebody else may have made."""

_MOST_MARKS = 2
_UNSEEN = frozenset(map(chr, [0x34F, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0)]))
"""Marks without a shape: two words that differ by one of them look the same."""

_TAG = re.compile("</?[a-zA-Z][^<>]{0,80}>")
_LINE_END = re.compile("\r\n?|[\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_TRADITIONAL = str.maketrans("將執確認請單過沒復覆複", "将执确认请单过没复复复")


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What a prompt says besides the call: ids, number, code, and which forms the channel can show."""

    action_id: str
    digest: str
    number: int
    code: str | None
    minutes: int
    can_card: bool
    can_menu: bool
    replaces: int | None = None
    done_before: str | None = None
    """A line that tells of the same call, made before."""


def render_prompt(tool: Tool, arguments: Mapping[str, Any], shown: Mapping[str, str], facts: PromptFacts) -> Prompt:
    """The prompt of one call. Raises ToolRefused when it does not fit into one message of 2048 bytes."""
    lines = [texts.PROMPT_DO.format(title=visible(tool.title or tool.name)), *_argument_lines(tool, arguments, shown)]
    if facts.replaces is not None:
        lines.append(texts.PROMPT_CHANGED.format(number=facts.replaces))
    if facts.done_before is not None:
        lines.append(facts.done_before)
    how = texts.PROMPT_ANSWER if facts.code is None else texts.PROMPT_ANSWER_CODE
    answer = how.format(number=facts.number, code=facts.code, minutes=facts.minutes)
    text = "\n".join([texts.PROMPT_TITLE, *lines, answer])
    if len(text.encode()) > MAX_BYTES:
        raise ToolRefused("the prompt does not fit", code="prompt_too_long", user_text=texts.PROMPT_TOO_LONG)
    body = "\n".join([*lines, answer])
    with_card = facts.can_card and facts.code is None and len(body) <= _CARD_CHARS
    return Prompt(
        text=text,
        action_id=facts.action_id,
        number=facts.number,
        summary=summarize(tool, arguments, shown),
        card=_card(body, facts) if with_card else None,
        menu=_menu(text, facts) if facts.can_menu and facts.code is None else None,
    )


def summarize(tool: Tool, arguments: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """One short line that names the action in lists and footers."""
    ordered = _in_order(tool, arguments)
    values = {key: _bare(shown[key]) if key in shown else _plain(value) for key, value in ordered}
    title = tool.title or tool.name
    line = ""
    if tool.confirm_template:
        try:
            line = tool.confirm_template.format(**values)
        except (LookupError, ValueError, AttributeError, TypeError):
            line = ""
    if not line:
        first = next(iter(values.values()), "")
        line = f"{title}：{first}" if first else title
    line = visible(line)
    return line if len(line) <= _SUMMARY_CHARS else line[: _SUMMARY_CHARS - 1] + "…"


def quoted(text: str, limit: int = QUOTED_CHARS) -> str:
    """Somebody's words (nickname, title, file name) as a quotation of at most ``limit`` characters."""
    shown = visible(text)
    return f"“{shown if len(shown) <= limit else shown[:limit] + '…'}”"


def visible(text: str) -> str:
    """The text with everything that could hide or move other text written out, its quotation marks marked, and our own
    markup made harmless."""
    return _written_out(re.sub("[“”]", r"\\\g<0>", text))


def _written_out(text: str) -> str:
    out, marks = [], 0
    for place, char in enumerate(text):
        marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        if char == "\n":
            out.append("\\n")
        elif char == "<":
            out.append("＜")
        elif _hides(char) or marks > _MOST_MARKS or (marks and _covers(char, text[:place][-1:], text[place + 1 :][:1])):
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
        else:
            out.append(char)
    return "".join(out).replace("weixin://", "weixin:\\//")


def quoted_lines(text: str) -> str:
    """A model's or a tool's words in which no line passes for a prompt of ours (N-17)."""
    return "\n".join(texts.QUOTED_LINE + line if looks_like_prompt(line) else line for line in _LINE_END.split(text))


def looks_like_prompt(line: str) -> bool:
    """Whether a line begins like a confirmation prompt, or tells which number to confirm; read by its letters and digits only:
    no spacing, sign, invisible character, full-width or traditional form hides it."""
    folded = _TAG.sub("", unicodedata.normalize("NFKC", line[:_HEAD_CHARS]))
    letters = "".join(char for char in folded if char.isalnum() and not _hides(char))
    letters = letters.translate(_TRADITIONAL)
    return _LIKE_PROMPT.match(letters) is not None or _TELLS_TO_ANSWER.search(letters) is not None


def _covers(mark: str, before: str, after: str) -> bool:
    """A mark that cannot be seen or strikes its letter out; the selector that makes a sign an emoji does neither."""
    if mark == "\ufe0f":
        return not (unicodedata.category(before or " ") == "So" or before in "‼⁉" or after == "\u20e3")
    if mark == "\u20e3":
        return before != "\ufe0f"
    return mark in _UNSEEN or "\u0334" <= mark <= "\u0338" or "\u20d0" <= mark <= "\u20ff"


def _hides(char: str) -> bool:
    category = unicodedata.category(char)
    if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return True
    return (category == "Zs" and char not in " \u3000") or char in "\u115f\u1160\u3164\uffa0\u2800"


def _argument_lines(tool: Tool, arguments: Mapping[str, Any], shown: Mapping[str, str]) -> list[str]:
    lines, declared = [], tool.parameters.get("properties", ())
    for key, value in _in_order(tool, arguments):
        known = tool.labels.get(key) or (key if key in declared else None)
        label = quoted(str(key), _NAME_CHARS) if known is None else visible(known)  # a name the model made up is its words
        text = _written_out(shown[key]) if key in shown else _value(value)
        lines.append(texts.PROMPT_ARGUMENT.format(label=label, value=text))
    return lines


def _in_order(tool: Tool, arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Arguments read in the order the tool declares them, whatever order the model wrote."""
    declared = list(tool.parameters.get("properties", ()))
    return sorted(arguments.items(), key=lambda item: declared.index(item[0]) if item[0] in declared else len(declared))


def _bare(shown: str) -> str:
    """How a summary words what a prompt quotes: without the marks, which it does not need."""
    return re.sub(r"\\?([“”])", lambda match: match[1] if len(match[0]) > 1 else "", shown)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return texts.YES if value else texts.NO
    if value is None or value == "" or value == [] or value == {}:
        return texts.EMPTY
    if isinstance(value, str):
        return f"“{visible(value)}”"
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return "、".join(_value(item) for item in value)
    if isinstance(value, (int, float)):
        return str(value)
    return visible(json.dumps(value, ensure_ascii=False, sort_keys=True))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _value(value)


def _card(body: str, facts: PromptFacts) -> dict[str, Any]:
    key = f"pa1|{facts.action_id}|{facts.digest}"
    return {
        "card_type": "button_interaction",
        "main_title": {"title": texts.PROMPT_TITLE},
        "sub_title_text": body,
        "task_id": facts.action_id,
        "button_list": [
            {"text": texts.BUTTON_YES, "style": 1, "key": f"{key}|c"},
            {"text": texts.BUTTON_NO, "style": 4, "key": f"{key}|r"},
        ],
    }


def _menu(text: str, facts: PromptFacts) -> dict[str, Any]:
    key = f"pa1|{facts.action_id}|{facts.digest}"
    return {
        "head_content": text,
        "list": [
            {"id": f"{key}|c", "content": f"{texts.BUTTON_YES} {facts.number}"},
            {"id": f"{key}|r", "content": f"{texts.BUTTON_NO} {facts.number}"},
        ],
        "tail_content": "",
    }
