"""Chat commands: whole message only, with and without the slash, and only what this person may use."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent import texts
from agent.commands import Command, answer_fast, fast_command, ordered_command
from agent.ports import WorkView
from agent.protocol import TurnResult
from tests.fakes.assistant import MP, PUSH, Assistant, make_assistant, settings_for


@pytest.fixture
async def assistant(tmp_path: Path) -> AsyncIterator[Assistant]:
    made = await make_assistant(tmp_path)
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("帮助", "help"),
        ("/帮助", "help"),
        ("／帮助", "help"),
        (" 帮助。 ", "help"),
        ("帮助？", "help"),
        ("HELP", "help"),
        ("「状态」", "status"),
        ("停止！", "stop"),
        ("继续", "pull"),
        ("更多", "pull"),
        ("１", "pull"),
        ("2", "choose"),
        ("工具", "tools"),
        ("待确认", "pending"),
        ("／待确认！", "pending"),
        ("待確認", "pending"),
        ("待确认？", "pending"),
        ("查看待确认", "pending"),
        ("待确认列表。", "pending"),
        ("重新发起", "reissue"),
        ("/重新發起~", "reissue"),
        ("请重新发起", "reissue"),
        ("再发起一次", "reissue"),
        ("停\u200b止", "stop"),
        ("繼續", "pull"),
        ("ＳＴＯＰ", "stop"),
        ("選３", "choose"),
    ],
)
async def test_fast_words(assistant: Assistant, text: str, name: str) -> None:
    command = fast_command(assistant.message(text))
    assert command is not None
    assert command.name == name
    assert command.only_if_parked == (text in ("１", "2"))


@pytest.mark.parametrize(
    ("text", "name"), [("新会话", "new_session"), ("/reset", "new_session"), ("/重试", "retry"), ("诊断", "doctor")]
)
async def test_ordered_words(assistant: Assistant, text: str, name: str) -> None:
    """CB-20: /reset is a command, never a question to the model."""
    assert ordered_command(assistant.message(text)) == Command(name)  # type: ignore[arg-type]
    assert fast_command(assistant.message(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "帮助我写周报",
        "请停止服务器",
        "停止吗",
        "停止？",
        "「停止？」",
        "停止?!",
        "重新发起？",
        "重新发起吗",
        "重新发起一个审批",
        "待确认的订单",
        "待确认有几项",
        "继续写下一段",
        "状态怎么样",
        "新会话吗？",
        "重试一下部署",
        "10",
        "",
        "/",
        "工具箱",
    ],
)
async def test_ordinary_sentences_are_no_commands(assistant: Assistant, text: str) -> None:
    assert fast_command(assistant.message(text)) is None
    assert ordered_command(assistant.message(text)) is None


async def test_own_mention_is_dropped_and_only_ours(assistant: Assistant) -> None:
    message = assistant.message("@小驿\u2005帮助")
    assert fast_command(message, "小驿") == Command("help")
    assert fast_command(message, "别人") is None
    assert fast_command(message) is None


async def test_help_lists_only_what_this_person_may_use(assistant: Assistant) -> None:
    plain = await fast(assistant, "帮助")
    assert "诊断" not in plain.text
    assistant.user_id = "lisi"
    assert "诊断" in (await fast(assistant, "帮助")).text
    assistant.user_id, assistant.id_type = "lisi", "open_id"
    assert "诊断" not in (await fast(assistant, "帮助")).text


async def test_status_tells_work_model_and_state(assistant: Assistant) -> None:
    assert texts.STATUS_IDLE in (await fast(assistant, "状态")).text
    assistant.ops.views = [WorkView("明天天气怎么样", "处理中", 75)]
    said = (await fast(assistant, "状态")).text
    assert "1. “明天天气怎么样”：处理中（1 分钟）" in said
    assert texts.STATUS_RULE in said


async def test_stop_says_how_many(assistant: Assistant) -> None:
    assert (await fast(assistant, "停止")).text == texts.STOP_NOTHING
    assistant.ops.running = 2
    assert (await fast(assistant, "停止")).text == "好的，正在停下 2 项。"


async def test_fast_commands_answer_within_100_ms(assistant: Assistant) -> None:
    await fast(assistant, "帮助")
    for text in ("帮助", "状态", "停止", "继续", "工具", "待确认"):
        started = time.perf_counter()
        result = await fast(assistant, text)
        assert time.perf_counter() - started < 0.1
        assert result.text


async def test_bot_name_counts_inside_a_turn(tmp_path: Path) -> None:
    account = {**MP, "id": "mp-main", "bot_name": "小驿"}
    made = await make_assistant(tmp_path, settings=settings_for(tmp_path, {"accounts": [account], "operators": []}))
    made.account_id, made.platform, made.user_id, made.id_type = "mp-main", "mp", "oAbc", "open_id"
    assert (await made.say("@小驿 新会话")).text == texts.NEW_SESSION
    await made.close()


async def fast(assistant: Assistant, text: str) -> TurnResult:
    message = assistant.message(text)
    command = fast_command(message)
    assert command is not None
    return await answer_fast(assistant.services, command, message, await assistant.where(), PUSH)
