"""Rules seen from the platform's side, on a whole gateway: a locked database, a flushed Redis, callbacks from another time."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest
from redis.asyncio import Redis

from scripts.simulator.envelopes import seal
from tests.fakes.model_server import say
from tests.stack import Stack

MEMBER = ("wecom-main", "zhangsan")


def _lock(path: Any) -> sqlite3.Connection:
    """Another process's write transaction on the data file."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=20)
    connection.execute("BEGIN IMMEDIATE")
    return connection


async def test_n_01_a_lock_of_8_s_and_one_answer(stack: Stack) -> None:
    """N-01: while the database is locked nothing is acknowledged, no 5xx is sent; the platform delivers again and the
    person gets one answer."""
    stack.model.rule = lambda _request: say("只有一个")
    lock = await asyncio.to_thread(_lock, stack.settings.data_dir / "yizhan.db")
    asking = asyncio.create_task(stack.say(*MEMBER, "锁住的时候问的"))
    await asyncio.sleep(stack.s(8))  # the length of the lock is what is tested
    lock.execute("ROLLBACK")
    lock.close()
    said = await asking
    first, *rest = said["deliveries"]
    assert (first["status"], first["passive"]) == (0, None), "the first delivery is closed without an answer"
    assert rest, "so the platform delivers again"
    assert all(delivery["status"] in (0, 200) for delivery in rest)
    await stack.seen(*MEMBER, "只有一个")
    assert await stack.texts(*MEMBER) == ["只有一个"]
    assert len(stack.model.requests) == 1


@pytest.mark.parametrize("seconds", [2, 8])
async def test_n_02_redis_flushed_in_the_middle_of_a_turn(stack: Stack, valkey: str, seconds: float) -> None:
    """N-02: Redis only wakes: everything in it is lost during a turn, in time or late, and the one answer arrives, and the
    next message is answered as ever."""
    stack.model.then(say("没丢", delay_s=stack.s(seconds)), say("还在"))
    asking = asyncio.create_task(stack.say(*MEMBER, "问"))

    async def asked() -> bool:
        return len(stack.model.requests) == 1

    await stack.until(asked)
    redis = Redis.from_url(valkey)
    await redis.flushall()
    await redis.aclose()
    await asking
    await stack.seen(*MEMBER, "没丢")
    assert await stack.ask(*MEMBER, "再问") == "还在"
    assert [text for text in await stack.texts(*MEMBER) if text in ("没丢", "还在")] == ["没丢", "还在"]


async def _deliver(stack: Stack, account_id: str, seconds_ago: int) -> int:
    """A signed, encrypted message whose timestamp is this far off; the HTTP status."""
    account = stack.world.accounts[account_id]
    now = stack.world.clock.now_ms() // 1000
    text = (
        f"<xml><ToUserName>{account.receiver}</ToUserName><FromUserName>lisi</FromUserName><CreateTime>{now}</CreateTime>"
        f"<MsgType>text</MsgType><Content>旧的</Content><MsgId>{9_000_000 + seconds_ago}</MsgId>"
        f"<AgentID>{account.agent_id}</AgentID></xml>"
    )
    envelope = seal(account, account.callback_url, "lisi", text, now - seconds_ago)
    async with stack.http.post(envelope.url, data=envelope.body, headers={"Content-Type": "text/xml"}) as response:
        return response.status


@pytest.mark.parametrize(("seconds_ago", "words"), [(400, "晚到了 400 秒"), (-400, "早到了 400 秒")])
async def test_n_08_stale_callbacks_alert_with_the_measured_skew(stack: Stack, seconds_ago: int, words: str) -> None:
    """N-08: a signed callback from another time is refused, stores nothing, and the operators hear how far off it was, once."""
    assert await _deliver(stack, "wecom-main", seconds_ago) == 403
    assert await _deliver(stack, "wecom-main", seconds_ago) == 403
    alert = await stack.seen(*MEMBER, "时间不对的回调")
    assert words in alert["text"].replace("401 秒", "400 秒").replace("399 秒", "400 秒")
    assert "允许 300 秒" in alert["text"]
    assert await stack.rows("SELECT * FROM inbound") == []
    assert len([text for text in await stack.texts(*MEMBER) if "时间不对" in text]) == 1


async def test_n_08_a_callback_within_the_window_is_taken(stack: Stack) -> None:
    """N-08: 200 s off is still inside the five minutes."""
    assert await _deliver(stack, "wecom-main", 200) == 200
