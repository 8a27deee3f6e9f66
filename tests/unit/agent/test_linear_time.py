"""Texts made to be slow to read: what people and models write is read on the event loop, so time grows as the text does.

The bounds are generous: what is refused here took several seconds, and grew with the square of the length.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

import pytest

from agent.claims import claims_a_write, without_claims
from agent.llm.base import ChatMessage
from agent.llm.offline import RuleModel
from agent.llm.sse import events
from agent.llm.visible import visible
from agent.llm.written import written_calls
from agent.protocol import Deadline
from memory.segment import Segmenter
from tests.unit.agent.test_offline import NOW, OFFERS

OFFERED = {offer.name: offer for offer in OFFERS}
LONG = 200_000
BOUND_S = 2.0


def seconds(work: Callable[[], object]) -> float:
    """Of this thread, so that a busy machine makes no difference."""
    started = time.thread_time()
    work()
    return time.thread_time() - started


@pytest.mark.parametrize("unit", ["1", "十", "给张三", "周一", "3点", "吧在"])
@pytest.mark.parametrize("lead", ["提醒我", "建个待办："])
async def test_a_long_message_is_read_by_the_rule_model(unit: str, lead: str, segmenter: Segmenter) -> None:
    """4,000 characters, twice what WeCom lets through."""
    await segmenter.ready()
    model = RuleModel({}, NOW, "user", segmenter)
    message = ChatMessage("user", lead + unit * (4000 // len(unit)))
    started = time.thread_time()
    await model.complete([message], OFFERS, Deadline(1e9))
    assert time.thread_time() - started < BOUND_S


@pytest.mark.parametrize("unit", ["<|im_end|>", "<think></think>", "</think>", "a<think>", "`", "```\n", "</s> "])
def test_what_a_person_may_see_is_found(unit: str) -> None:
    """Template marks over and over, as a model in a loop writes them."""
    assert seconds(lambda: visible(unit * (LONG // len(unit)))) < BOUND_S


@pytest.mark.parametrize("unit", ["[TOOL_CALLS]a ", "<|channel|>commentary to=a ", "<arg_key>", '<parameter name="a">', "{"])
def test_calls_in_a_text_are_found(unit: str) -> None:
    """Calls begun and never ended."""
    assert seconds(lambda: written_calls("<tool_call>{" + unit * (LONG // len(unit)), OFFERED)) < BOUND_S
    assert seconds(lambda: written_calls(unit * (39_000 // len(unit)), OFFERED)) < BOUND_S


@pytest.mark.parametrize("unit", ["已", "已发送。", "。", "，", "好的，已把"])
def test_claims_are_found(unit: str) -> None:
    """Many sentences beside a long result of a tool."""
    text = unit * (LONG // len(unit))
    assert seconds(lambda: claims_a_write(text, "办一下", ["日志" * 50_000])) < BOUND_S
    assert seconds(lambda: without_claims(text)) < BOUND_S


async def test_one_long_line_of_a_stream_is_read() -> None:
    """A server that sends its whole answer as one line, a few bytes at a time; line ends split between two pieces."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b'data: {"text": "'
        for _ in range(10_000):
            yield b"x" * 100
        for piece in (b'"}\r', b"\n\r", b'\ndata: {"text": "b"}\r', b"\r"):
            yield piece

    started = time.thread_time()
    found = [event.data["text"] async for event in events(pieces())]
    assert time.thread_time() - started < BOUND_S
    assert found == ["x" * 1_000_000, "b"]
