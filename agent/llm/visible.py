"""What of a model's text a person may see.

The rule. Taken out, because it was never meant for a reader:
- thoughts: what stands between thinking tags (``<think>``, ``<thinking>``, ``[THINK]`` and their like); everything before a
  closing tag whose opening one the chat template had put into the prompt; everything after an opening one that is never
  closed, where the text begins with it or it begins a line; a harmony answer's other channels;
- markup of chat templates (``<|im_end|>``, ``</s>`` ...), and whatever a model that ran on wrote after its own turn ended;
- characters that are none: NUL and other controls, halves of surrogate pairs.

Kept: everything in backticks, for there the tags are what the answer is about. If nothing is left, the model said nothing,
which is a failure and is told as one; thoughts are never shown in an answer's place.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator

_NAMES = "think|thinking|thought|reasoning|reflection|seed:think|mm:think"
_OPEN = rf"<(?:{_NAMES})>|\[THINK\]|◁think▷|<\|START_THINKING\|>"
_CLOSE = rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>"
_FENCE = r"^[ \t]*(?P<fence>```|~~~)[^\n]*"
_INLINE = r"`[^`\n]+`"
_CODE = re.compile(rf"{_FENCE}|{_INLINE}", re.MULTILINE)
_BARE_FENCE = re.compile(r"^[ \t]*(```|~~~)[`~]*[ \t]*$", re.MULTILINE)
_SCAN = re.compile(rf"{_FENCE}|(?P<code>{_INLINE})|(?P<open>{_OPEN})|(?P<close>{_CLOSE})", re.IGNORECASE | re.MULTILINE)
_CLOSING = re.compile(_CLOSE, re.IGNORECASE)
_TURN_ENDS = (
    r"<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|return|user|observation|im_start|start_header_id|END_RESPONSE"
    r"|END_OF_TURN_TOKEN)\|>|</s>\s*\Z|<end_of_turn>|<｜(?:end▁of▁sentence|User)｜>|<eos>|\[/INST\]"
)
_TOKENS = (
    r"<\|(?:assistant|begin_of_box|end_of_box|begin_of_text|START_RESPONSE|START_OF_TURN_TOKEN|CHATBOT_TOKEN|message|call"
    r"|channel|constrain|start|tool_call_end|tool_response|action_end)\|>"
    r"|<｜[^｜<>\n]{1,40}｜>|\A\s*<s>|<bos>|\A\s*<answer>|</answer>\s*\Z|<start_of_turn>(?:model)?"
)
_MARKUP = re.compile(rf"(?P<end>{_TURN_ENDS})|{_TOKENS}")
_FINAL = re.compile(r"<\|channel\|>\s*final[^<]*<\|message\|>")
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?:analysis|commentary(?!\s+to=))[^<]*<\|message\|>.*?(?=<\|(?:start|channel|end|call)\|>|\Z)", re.DOTALL
)
_START = re.compile(r"<\|start\|>(?:assistant)?")


def visible(text: str) -> str:
    """The answer as a person may read it; empty when nothing of it is meant for people."""
    return readable(without_markup(without_thoughts(text)))


def without_thoughts(text: str) -> str:
    """The text without what a reasoning model thought aloud."""
    final = _FINAL.search(text)
    if final is not None:
        text = text[final.end() :]
    elif "<|channel|>" in text:
        text = _START.sub("", _CHANNEL.sub("", text))
    ends = [found.end() for found in _CLOSING.finditer(text)]
    fences = _Fences(text)
    kept: list[str] = []
    at, said = 0, False
    while (found := _SCAN.search(text, at)) is not None:
        kept.append(text[at : found.start()])
        said = said or bool(kept[-1].strip())
        at = found.end()
        if found["close"] is not None:
            kept, said = [], False
        elif found["open"] is None:
            at, said = fences.end_of(found), True
            kept.append(text[found.start() : at])
        elif (next_end := bisect_left(ends, at)) < len(ends):
            at = ends[next_end]
        elif not said or text[found.start() - 1] == "\n":
            return "".join(kept)
        else:
            kept.append(found[0])
    answer = "".join([*kept, text[at:]])
    return answer.strip("\n") if answer != text else text


def without_markup(text: str) -> str:
    """The text without a chat template's own tokens, up to where the model's turn ended."""
    kept: list[str] = []
    at, said = 0, False
    for found in outside_code(_MARKUP, text):
        kept.append(text[at : found.start()])
        said = said or bool(kept[-1].strip())
        at = found.end()
        if found["end"] is not None and said:
            return "".join(kept).rstrip()
    return "".join([*kept, text[at:]])


def outside_code(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches that do not begin inside a fence or between backticks."""
    fences, codes, past = _Fences(text), _CODE.finditer(text), 0
    code = next(codes, None)
    for found in pattern.finditer(text):
        while code is not None and code.start() <= found.start():
            if code.start() >= past:  # not itself inside an earlier one
                past = fences.end_of(code)
            code = next(codes, None)
        if found.start() >= past:
            yield found


class _Fences:
    """Where the fences of a text close. One that never does is no fence, so that a thought cannot hide its end in one."""

    def __init__(self, text: str) -> None:
        bare = list(_BARE_FENCE.finditer(text))
        self._closing = {mark: [one for one in bare if one[1] == mark] for mark in ("```", "~~~")}
        self._starts = {mark: [one.start() for one in found] for mark, found in self._closing.items()}

    def end_of(self, code: re.Match[str]) -> int:
        """The end of the code that begins with this match."""
        mark = code["fence"]
        if mark is None:
            return code.end()
        place = bisect_left(self._starts[mark], code.end())
        return self._closing[mark][place].end() if place < len(self._closing[mark]) else code.end()


def readable(text: str) -> str:
    """The text in characters every database and platform takes; pairs of surrogates that came in two chunks are joined."""
    if not text.isprintable():
        if any("\ud800" <= char <= "\udfff" for char in text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
        text = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs"))
    return text


def says_nothing(text: str) -> bool:
    """Whether no character of it would be seen: blanks, zero-width characters, byte order marks."""
    return all(char.isspace() or unicodedata.category(char) in ("Cf", "Cc", "Mn") or char in "\u3164\u2800" for char in text)
