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

_NAMES = "think|thinking|thought|reasoning|reflection|seed:think|mm:think"
_OPEN = rf"<(?:{_NAMES})>|\[THINK\]|◁think▷|<\|START_THINKING\|>"
_CLOSE = rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>"
CODE = r"(?:^|(?<=\n))[ \t]*(?P<fence>```+|~~~+)[^\n]*\n(?:.*?\n)??[ \t]*(?P=fence)[ \t]*(?=\n|$)|`[^`\n]+`"
"""Code between fences, or in backticks on one line."""
_SCAN = re.compile(rf"(?P<code>{CODE})|(?P<open>{_OPEN})|(?P<close>{_CLOSE})", re.IGNORECASE | re.DOTALL)
_CLOSING = re.compile(_CLOSE, re.IGNORECASE)
_TURN_ENDS = (
    r"<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|return|user|observation|im_start|start_header_id|END_RESPONSE"
    r"|END_OF_TURN_TOKEN)\|>|</s>|<end_of_turn>|<｜end▁of▁sentence｜>|<｜User｜>|<eos>|\[/INST\]|<\[?EOS\]?>"
)
_TOKENS = (
    r"<\|(?:assistant|begin_of_box|end_of_box|begin_of_text|START_RESPONSE|START_OF_TURN_TOKEN|CHATBOT_TOKEN|message|call)\|>"
    r"|<｜(?:Assistant|begin▁of▁sentence)｜>|<s>|<bos>|</?answer>|<start_of_turn>(?:model)?"
)
_MARKUP = re.compile(rf"(?P<code>{CODE})|(?P<end>{_TURN_ENDS})|(?P<token>{_TOKENS})", re.DOTALL)
_FINAL = re.compile(r"<\|channel\|>\s*final[^<]*<\|message\|>")
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?:analysis|commentary(?!\s+to=))[^<]*<\|message\|>.*?(?=<\|(?:start|channel|end|call)\|>|$)", re.DOTALL
)
_START = re.compile(r"<\|(?:start)\|>(?:assistant)?")


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
    kept: list[str] = []
    at = 0
    while (found := _SCAN.search(text, at)) is not None:
        kept.append(text[at : found.start()])
        if found["code"] is not None:
            kept.append(found[0])
        elif found["close"] is not None:
            kept = []
        elif (end := _CLOSING.search(text, found.end())) is not None:
            at = end.end()
            continue
        elif not "".join(kept).strip() or kept[-1].rpartition("\n")[2].strip() == "":
            return "".join(kept)
        else:
            kept.append(found[0])
        at = found.end()
    answer = "".join([*kept, text[at:]])
    return answer.strip("\n") if answer != text else text


def without_markup(text: str) -> str:
    """The text without a chat template's own tokens, up to where the model's turn ended."""
    kept: list[str] = []
    at = 0
    for found in _MARKUP.finditer(text):
        kept.append(text[at : found.start()])
        at = found.end()
        if found["code"] is not None:
            kept.append(found[0])
        elif found["end"] is not None and "".join(kept).strip():
            return "".join(kept).rstrip()
    return "".join([*kept, text[at:]])


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
