"""What ``yizhan trace`` tells about one message, from the rows of every table it touched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.models import Turn
from config.clock import Clock
from config.columns import table_of
from config.database import Database, open_database
from gateway.cli import main
from gateway.cli_trace import render
from gateway.migrate import upgrade
from gateway.models import Inbound, Job, OutboxMessage
from gateway.trace import stories
from tools.models import ToolAudit

START = 1_764_500_000_000  # 2025-11-30 18:53:20 in Shanghai
WHERE = {"tenant_id": "acme", "account_id": "wecom-main", "conversation_id": "c1", "user_id": "ZhangSan"}


def _inbound(seq: int, **values: Any) -> dict[str, Any]:
    row = {
        **WHERE,
        "seq": seq,
        "key": f"k{seq}",
        "kind": "text",
        "lane": "turn",
        "message_id": f"700000000000000{seq}",
        "status": "done",
        "body": {"text": "查一下订单 4471"},
        "answer_group": f"g{seq}",
        "deliveries": 1,
        "attempts": 0,
        "deaths": 0,
        "stop_requested": False,
        "sent_at_ms": START,
        "received_at_ms": START + 120,
        "finished_at_ms": START + 2_000,
    }
    return row | values


def _outbox(seq: int, **values: Any) -> dict[str, Any]:
    row = {
        **WHERE,
        "seq": seq,
        "idempotency_key": f"in:{seq}:0",
        "cause": "inbound",
        "cause_id": str(seq),
        "group_id": f"g{seq}",
        "part": 0,
        "parts": 1,
        "final": True,
        "kind": "text",
        "payload": {"text": "订单 4471 已发货"},
        "status": "sent",
        "via": "push",
        "attempts": 1,
        "repeats": 0,
        "platform_id": "msg77",
        "duplicate_check": True,
        "fence": 0,
        "created_at_ms": START + 2_000,
        "sent_at_ms": START + 2_050,
    }
    return row | values


def _turn() -> dict[str, Any]:
    return {
        **WHERE,
        "id": "t1",
        "session_id": "s1",
        "inbound_seq": 1,
        "route": "qwen",
        "prompt_tokens": 800,
        "completion_tokens": 90,
        "cost_micro": 0,
        "model_calls": 2,
        "tool_calls": 1,
        "tools": ["order_status"],
        "context_chars": 900,
        "model_ms": 1_500,
        "total_ms": 1_800,
        "outcome": "answered",
        "created_at_ms": START + 1_990,
    }


def _audit() -> dict[str, Any]:
    return {
        "tenant_id": "acme",
        "conversation_id": "c1",
        "user_id": "ZhangSan",
        "turn_id": "t1",
        "tool": "order_status",
        "tool_class": "read",
        "decision": "allow",
        "ok": True,
        "took_ms": 40,
        "created_at_ms": START + 900,
    }


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A fresh, migrated SQLite database."""
    url = f"sqlite:///{tmp_path / 'data' / 'yizhan.db'}"
    (tmp_path / "data").mkdir()
    upgrade(url)
    database = open_database(url)
    yield database
    await database.close()


async def _store(database: Database, model: Any, *rows: dict[str, Any]) -> None:
    for row in rows:
        await database.write(lambda c, row=row: c.execute(table_of(model).insert().values(**row)))


async def test_the_whole_story_in_order(database: Database) -> None:
    """Callback, tool, turn, answer, delivery: each with its moment and what passed in between."""
    await _store(database, Inbound, _inbound(1, deliveries=2))
    await _store(database, Turn, _turn())
    await _store(database, ToolAudit, _audit())
    await _store(database, OutboxMessage, _outbox(1))
    (story,) = await database.read(lambda c: stories(c, "7000000000000001"))
    text = render(story, Clock())
    assert text.splitlines() == [
        "#1 wecom-main ← ZhangSan text  2025-11-30",
        "  18:53:20.000            对方发出，平台消息号 7000000000000001",
        "  18:53:20.120   +120 ms  收到回调，验签解密通过，已落库；进入对话，平台共投递 2 次（重复的并到这一条）",
        "  18:53:20.900   +780 ms  工具 order_status（allow）成功，40 ms",
        "  18:53:21.990  +1090 ms  一轮：answered，路由 qwen，800+90 tokens，共 1800 ms（模型 1500 ms），工具 order_status",
        "  18:53:22.000    +10 ms  回答写好（text，g1）",
        "  18:53:22.000     +0 ms  处理完",
        "  18:53:22.050    +50 ms  回答主动推送送出，平台编号 msg77",
        "  → 已送到平台（主动推送）。",
    ]


@pytest.mark.parametrize("wanted", ["7000000000000001", "1", "k1", "g1", "msg77", "j1", "zhangsan", "c1"])
async def test_every_id_finds_the_message(database: Database, wanted: str) -> None:
    """Message id, row number, key, group, platform id, job and person (in any spelling) all lead to the same story."""
    await _store(database, Inbound, _inbound(1))
    await _store(database, OutboxMessage, _outbox(1))
    job = {**WHERE, "id": "j1", "queue": "task", "name": "doctor", "inbound_seq": 1, "status": "done", "attempts": 0, "deaths": 0}
    await _store(database, Job, job | {"cancel_requested": False, "fence": 0, "created_at_ms": START + 500})
    (story,) = await database.read(lambda c: stories(c, wanted))
    assert story.ids["seq"] == 1


async def test_texts_only_when_asked(database: Database) -> None:
    """Message texts stay out of the story unless --bodies says otherwise."""
    await _store(database, Inbound, _inbound(1))
    await _store(database, OutboxMessage, _outbox(1))
    (plain,) = await database.read(lambda c: stories(c, "1"))
    (full,) = await database.read(lambda c: stories(c, "1", bodies=True))
    assert "4471" not in render(plain, Clock())
    assert "「查一下订单 4471」" in render(full, Clock())
    assert "「订单 4471 已发货」" in render(full, Clock())


async def test_a_failed_delivery_tells_errcode_and_reason(database: Database) -> None:
    """DEL-03: a non-zero errcode and the platform's words are in the story, with what it waits for."""
    await _store(database, Inbound, _inbound(1))
    failed = {"status": "parked", "via": None, "sent_at_ms": None, "park_reason": "operator", "errcode": 60020}
    await _store(database, OutboxMessage, _outbox(1, **failed, errmsg="not allow to access from your ip"))
    (story,) = await database.read(lambda c: stories(c, "1"))
    assert story.verdict == (
        "0/1 条已送出；其余：暂存（需要管理员处理账号配置，恢复后自动发送），试过 1 次，"
        "平台答 60020：not allow to access from your ip。"
    )


async def test_a_person_gets_the_newest_oldest_first(database: Database) -> None:
    """A user id tells that person's newest messages, oldest of them first."""
    await _store(database, Inbound, *(_inbound(seq, sent_at_ms=START + seq) for seq in range(1, 8)))
    found = await database.read(lambda c: stories(c, "ZHANGSAN", limit=3))
    assert [story.ids["seq"] for story in found] == [5, 6, 7]


def test_unknown_id_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and a sentence that says it was not found; before the first start it says that instead."""
    config = tmp_path / "yizhan.yaml"
    config.write_text(f"data_dir: {tmp_path / 'data'}\n")
    assert main(["trace", "--config", str(config), "nobody"]) == 1
    assert "先启动一次" in capsys.readouterr().err
    upgrade(f"sqlite:///{tmp_path / 'data' / 'yizhan.db'}")
    assert main(["trace", "--config", str(config), "nobody"]) == 1
    assert "没有找到 nobody" in capsys.readouterr().out
