"""Area media: nothing a person sends is dropped without a word, and nothing unreadable becomes an empty prompt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent import texts as agent_texts
from gateway import texts
from tests.cases.scenes import MEMBER, UNVERIFIED, VERIFIED, passives, prompts
from tests.fakes.model_server import say
from tests.stack import Stack

NOTICES: dict[str, dict[str, Any]] = {
    "暂时不能读取文件「报表.xlsx」，请发文字。": {"kind": "file", "file_name": "报表.xlsx"},
    agent_texts.MEDIA_UNREADABLE["image"]: {"kind": "image"},
    agent_texts.MEDIA_UNREADABLE["voice"]: {"kind": "voice"},
    agent_texts.MEDIA_UNREADABLE["video"]: {"kind": "video"},
    agent_texts.MEDIA_UNREADABLE["location"]: {"kind": "location"},
    agent_texts.MEDIA_UNREADABLE["link"]: {"kind": "link", "title": "新闻"},
    texts.UNSUPPORTED.format(name="hologram"): {"kind": "hologram"},
}


@pytest.mark.parametrize("who", [MEMBER, VERIFIED, UNVERIFIED], ids=lambda who: who[0])
async def test_med_01_every_kind_gets_one_explicit_sentence(stack: Stack, who: tuple[str, str]) -> None:
    """MED-01: file, picture, voice, video, place, link, a kind nobody knows: one sentence each, no model call."""
    for notice, fields in NOTICES.items():
        assert passives(await stack.say(*who, **fields)) == [notice]
    assert stack.model.requests == []


async def test_med_01_a_picture_in_an_answer_leaves_its_words_and_address(stack: Stack) -> None:
    """MED-01: a remote image in a model's answer does not vanish: its caption and link are text."""
    stack.model.then(say("看图：\n![月度趋势](https://example.com/a.png)\n完"))
    answer = await stack.ask(*MEMBER, "给我图")
    assert "月度趋势" in answer
    assert "https://example.com/a.png" in answer
    assert "![" not in answer


@pytest.mark.parametrize("recognition", ["", "   ", None])
async def test_med_06_a_voice_without_words_is_no_prompt(stack: Stack, recognition: str | None) -> None:
    """MED-06: empty, blank or missing Recognition: the notice, and no model call."""
    fields: dict[str, Any] = {} if recognition is None else {"fields": {"Recognition": recognition}}
    said = await stack.say(*VERIFIED, kind="voice", format="speex", **fields)
    assert passives(said) == [agent_texts.MEDIA_UNREADABLE["voice"]]
    assert stack.model.requests == []


async def test_med_06_a_recognized_voice_is_a_question(stack: Stack) -> None:
    """MED-05, MED-06: Recognition is used where the platform gives it; nothing is downloaded."""
    stack.model.then(say("听到了"))
    said = await stack.say(*VERIFIED, kind="voice", recognition="明天几点开会")
    assert passives(said)[0].startswith("听到了")
    assert prompts(stack.model) == ["明天几点开会"]
    assert await stack.calls("mp-main", "media/get") == []


async def test_med_09_two_voices_are_two_turns_in_order(stack: Stack) -> None:
    """MED-09: the second voice message waits for the first and is not dropped, nor joined to it."""
    stack.model.then(say("第一条的回答", delay_s=stack.s(2)), say("第二条的回答"))
    first = asyncio.create_task(stack.say(*VERIFIED, kind="voice", recognition="第一条语音"))

    async def running() -> bool:
        return len(stack.model.requests) == 1

    await stack.until(running)
    await asyncio.gather(first, stack.say(*VERIFIED, kind="voice", recognition="第二条语音"))
    await stack.seen(*VERIFIED, "第二条的回答")
    assert prompts(stack.model) == ["第一条语音", "第二条语音"]
    assert [text[:6] for text in await stack.texts(*VERIFIED)] == ["第一条的回答", "第二条的回答"]


async def test_med_09_a_spoken_command_is_a_command(stack: Stack) -> None:
    """MED-09, OA5-15: 停止 or 状态, spoken while a turn runs, is answered at once and never a question to the model."""
    stack.model.then(say("慢", delay_s=stack.s(6)))
    await stack.say(*VERIFIED, "很慢的问题", wait=False)

    async def running() -> bool:
        return len(stack.model.requests) == 1

    await stack.until(running)
    said = await stack.say(*VERIFIED, kind="voice", recognition="状态。")
    assert passives(said)[0].startswith(agent_texts.STATUS_TITLE)
    assert len(stack.model.requests) == 1
