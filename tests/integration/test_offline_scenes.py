"""Scenes without a model over the whole gateway: a name that two have, a question given up, rights, a follower."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from config.demo import MP_MAIN_OPEN_ID
from tests.stack import Stack, running_stack

WECOM = "wecom-main"


@pytest.fixture
async def house(tmp_path: Path, valkey: str) -> AsyncIterator[Stack]:
    async with running_stack(tmp_path, valkey, offline=True) as stack:
        yield stack


async def test_a_name_that_two_have_is_told_apart_in_words(house: Stack) -> None:
    """CNF-09: besides 选 2, the account, 第二个 and the department answer; 算了 ends the question, a number after it is talk."""
    for number, answer in enumerate(("zhangsan02", "第二个", "产品部的", "张三（zhangsan02）"), 1):
        assert "有 2 位张三" in await house.ask(WECOM, "zhangsan", f"给张三发消息：第{number}条")
        await house.say(WECOM, "zhangsan", answer)
        assert "收件人：张三（zhangsan02）" in (await house.seen(WECOM, "zhangsan", f"内容：“第{number}条”"))["text"]
        assert "已取消" in await house.ask(WECOM, "zhangsan", "取消")
    assert "有 2 位张三" in await house.ask(WECOM, "zhangsan", "给张三发消息：再来")
    assert "没看懂" in await house.ask(WECOM, "zhangsan", "张三")  # both are called so
    assert await house.ask(WECOM, "zhangsan", "算了") == "好的，先不做了。"
    assert "即将执行" not in await house.ask(WECOM, "zhangsan", "2")


async def test_cancel_means_the_question_just_asked(house: Stack) -> None:
    """取消 to 「什么时间？」 gives the question up; it tells nothing of an older proposal and touches none."""
    await house.say(WECOM, "zhangsan", "建个待办：买水")
    await house.seen(WECOM, "zhangsan", "标题：“买水”")
    assert "什么时间" in await house.ask(WECOM, "zhangsan", "提醒我喝水")
    assert (await house.ask(WECOM, "zhangsan", "取消")).startswith("好的，先不做了。\n另有 1 项等你确认：建待办：买水")
    assert await house.ask(WECOM, "zhangsan", "取消") == "已取消，没有执行：建待办：买水"
    assert "什么时间" in await house.ask(WECOM, "zhangsan", "提醒我喝水")
    assert await house.ask(WECOM, "zhangsan", "取消") == "好的，先不做了。"


async def test_rights_are_told_to_employees_only(house: Stack) -> None:
    """N-12: an employee without the role hears so; a follower hears of no tool."""
    told = [await house.ask(WECOM, "lisi", text) for text in ("查服务器状态", "查工单", "运行脚本 disk")]
    assert told[0].endswith("你没有使用「查服务器状态」的权限，没有执行。")
    assert all("的权限，没有执行。" in text for text in told)
    for text in ("查服务器状态", "建个待办：买牛奶"):
        answer = await house.ask("mp-main", MP_MAIN_OPEN_ID, text)
        assert "权限" not in answer
        assert "我在这里不能替你办事" in answer
    assert (await house.ask("mp-main", MP_MAIN_OPEN_ID, "帮助")).startswith("有问题直接发给我，也可以发这些命令：")


async def test_a_card_clicked_twice_is_answered_in_whole_sentences_only(house: Stack) -> None:
    """EVT-06 C16: the platform takes one update of a card; what the second click adds is its answer, not a bare state."""
    await house.say(WECOM, "lisi", "建个待办：换滤芯")
    card = (await house.seen(WECOM, "lisi", "标题：“换滤芯”"))["card"]
    click = {"account": WECOM, "user": "lisi", "task_id": card["task_id"], "key": card["button_list"][0]["key"]}
    await asyncio.gather(*(house.post("click", **click) for _ in range(3)))
    await house.seen(WECOM, "lisi", "已建待办 #1：换滤芯")
    updates = "SELECT status, errcode FROM outbox_message WHERE kind = 'card_update' AND status = 'sent'"

    async def replaced() -> bool:
        return len(await house.rows(updates)) == 3

    await house.until(replaced)
    assert not {"已确认", "已执行"} & set(await house.texts(WECOM, "lisi"))
