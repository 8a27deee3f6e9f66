"""What of a model's text is for people, and calls it wrote into it: for any text, and in no time."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.llm.base import ModelError, ToolOffer
from agent.llm.calls import arguments_text
from agent.llm.refusals import of_payload, of_status
from agent.llm.sse import events_of
from agent.llm.stream import StreamJoiner
from agent.llm.visible import says_nothing, visible
from agent.llm.written import written_calls
from agent.texts import without_loop

OFFERS = {"look": ToolOffer("look", "", {"type": "object", "properties": {"host": {"type": "string"}}})}
_MARKS = """<think> </think> <thinking> ``` ```json\n ~~~\n ` \n 你好 a <tool_call> </tool_call> { } [TOOL_CALLS] <function=look>
<parameter=host> <arg_key> <|im_end|> <|channel|>analysis<|message|> <|channel|>final<|message|>
<｜tool▁calls▁begin｜> functools[{"""
PIECES = [
    *_MARKS.split(),
    " ",
    "\n",
    "```json\n",
    "~~~\n",
    "\ud83d",
    "\x00",
    '{"name": "look", "arguments": {}}',
    '<invoke name="look">',
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(TEXTS)
def test_nothing_breaks_it(text: str) -> None:
    seen = visible(text)
    seen.encode()
    assert "\x00" not in seen
    found = written_calls(text, OFFERS)
    assert not (found.calls and found.broken)
    for call in found.calls:
        arguments_text(call.arguments)


@given(st.text(alphabet="你好世界abc ，。\n0123#*-|>《》😀👨‍👩‍👧", max_size=300))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert written_calls(text, OFFERS).text == text


@given(TEXTS)
def test_what_stands_in_backticks_stays(text: str) -> None:
    inside = text.replace("`", "").replace("~", "").replace("\n", " ").replace("\x00", "").replace("\ud83d", "")
    for code in (f"`{inside}`", f"```\n{inside}\n```"):
        said = f"看\n{code}\n完"
        if inside:
            assert visible(said) == said or "<|channel|>" in inside
            assert not written_calls(said, OFFERS).calls


SLOW = (
    "<think>|a<think>b|</think>|```a\n|~~~\n|`|<tool_call>|<|channel|>analysis<|message|>|<arg_key>|[|{|<tool_call>a\n<arg_key>|"
    "<invoke name=a><parameter name=b>|<function=a><parameter=b>|哈|哈哈好|<｜|</s> |[look("
)


@pytest.mark.parametrize("unit", SLOW.replace("<|channel|>", "CHANNEL").replace("<|message|>", "MESSAGE").split("|"))
def test_long_texts_take_no_time(unit: str) -> None:
    """What a model can be made to write must not hold the process up: 200,000 characters of anything, well under a second."""
    unit = unit.replace("CHANNEL", "<|channel|>").replace("MESSAGE", "<|message|>")
    text = (unit * 200_000)[:200_000]
    started = time.process_time()
    visible(text)
    written_calls(text, OFFERS)
    written_calls("<tool_call>{" + text[:39_000], OFFERS)
    without_loop(text + "x")
    arguments_text("```" + text)
    assert time.process_time() - started < 3.0, unit


LINES = st.lists(st.sampled_from([b"data:", b" ", b"\r", b"\n", b"{}", b"[DONE]", b"event: error", b'{"a":']), max_size=20)


@settings(max_examples=300)
@given(st.binary(max_size=200) | LINES.map(b"".join))
def test_any_bytes_are_events_or_a_known_failure(body: bytes) -> None:
    try:
        found = list(events_of(body))
    except ModelError:
        return
    assert all(isinstance(one.data, dict) for one in found)


NAMES = ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "id", "index", "finish_reason"]
NAMES += ["usage", "error", "code", "prompt_tokens", "reasoning_content", "refusal", "function_call", "base_resp", "type", "text"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=400)
@given(st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "error"]), JSON, max_size=3), max_size=4))
def test_any_json_is_an_answer_or_a_known_failure(chunks: list[dict[str, object]]) -> None:
    """No shape of a chunk is a crash of ours."""
    joiner = StreamJoiner()
    try:
        for chunk in chunks:
            joiner.add(chunk)
        joiner.done = True
        joiner.finish()
    except ModelError:
        return


def test_known_reasons_have_no_words_of_the_body() -> None:
    """N-22."""
    for error in (of_status(400, {"message": "canary context length"}), of_payload({"error": "canary"})):
        assert error is not None
        assert "canary" not in str(error) + repr(error)


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "\ufeff", "\u3000", "\u3164", "\x00"])
def test_says_nothing(text: str) -> None:
    assert says_nothing(text)
    assert not says_nothing(text + "👍")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("原价 <s>100</s> 现价 80", "原价 <s>100</s> 现价 80"),
        ("<answer>在 XML 里</answer>是标签", "在 XML 里</answer>是标签"),
        ("x <| y |> z", "x <| y |> z"),
        ("哈" * 100, "哈" * 100),
    ],
)
def test_kept(text: str, seen: str) -> None:
    assert visible(text) == seen


def test_arguments() -> None:
    assert arguments_text(' {"a": 1} ') == '{"a": 1}'
    assert arguments_text("```json\n{}\n```") == "{}"
    assert arguments_text(json.dumps('{"a": 1}')) == '{"a": 1}'
    for none in ("[1]", '"text"', "1", "{", "{}{}", '{"a": 1}{"a": 1}', "```", '"\\"[1]\\""'):
        assert arguments_text(none) is None
