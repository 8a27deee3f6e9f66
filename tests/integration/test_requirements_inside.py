"""Requirements and decisions that show inside: model routes, tool classes, queues, stores, epochs, chat forms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models import Turn
from config.clock import Clock
from config.database import open_database
from config.schema import Settings, ToolSettings
from gateway.queue import WORK_QUEUES
from tests.cases.scenes import MEMBER, UNVERIFIED, VERIFIED
from tests.fakes.assistant import Assistant, make_assistant, settings_for
from tests.fakes.model_server import ModelServer, model_server, say
from tests.integration.tools.office import Office
from tests.integration.tools.test_machines import preset
from tests.stack import Stack


@pytest.fixture
async def servers() -> AsyncIterator[tuple[ModelServer, ModelServer]]:
    """A model in the house and one outside."""
    async with model_server() as local, model_server() as cloud:
        local.rule, cloud.rule = (lambda _request: say("本地的")), (lambda _request: say("云上的"))
        yield local, cloud


async def _routed(folder: Path, servers: tuple[ModelServer, ModelServer], purposes: list[str]) -> Assistant:
    local, cloud = servers
    routes = [
        {"name": "cloud", "base_url": cloud.url, "model": "m", "purposes": ["chat", "hard"]},
        {"name": "local", "base_url": local.url, "model": "m", "local": True, "purposes": purposes},
    ]
    settings = settings_for(folder, {"allow_external_models": True}, models=routes)
    return await make_assistant(folder, settings=settings, clock=Clock())


async def test_local_first_and_the_cloud_for_what_is_hard(tmp_path: Path, servers: tuple[ModelServer, ModelServer]) -> None:
    """S001-78, S001-79: ordinary questions go to the local model whatever the order in the settings; a long input goes to the
    route for hard work; which one, and why, is in the turn's row."""
    made = await _routed(tmp_path, servers, ["chat"])
    assert (await made.say("今天星期几")).text == "本地的"
    assert (await made.say("总结：" + "这是一段很长的材料。" * 400)).text.startswith("云上的")
    short, long = await made.rows(Turn)
    assert (short.route, long.route) == ("local", "cloud")
    assert all(entry["reason"] for row in (short, long) for entry in row.routes_tried)
    await made.close()


async def test_every_operation_and_every_changing_script_asks_first(tmp_path: Path) -> None:
    """R-29, R-30, S001-48: by class; only a preset declared read-only skips it, and no tool takes a command."""
    database = open_database(f"sqlite:///{tmp_path / 'yizhan.db'}")
    office = Office(tmp_path, database, ToolSettings(scripts=(preset(), preset(id="change", read_only=False))))
    tools = office.tools.registry.tools("acme")
    assert {tool.tool_class for tool in tools} == {"read", "operation", "script"}
    for tool in tools:
        if tool.tool_class == "operation":
            assert tool.needs_confirmation, tool.name
        assert not {"command", "cmd", "shell"} & set(dict(tool.parameters).get("properties", {})), tool.name
    exact = [office.tools.registry.exact("acme", "run_script", {"preset": name}) for name in ("show", "change")]
    assert [tool is not None and tool.needs_confirmation for tool in exact] == [False, True]
    await database.close()


def test_queues_by_urgency() -> None:
    """R-34: turns, memory, tasks, knowledge, in that order; what they hold is in SQL."""
    assert WORK_QUEUES == ("turn", "memory", "task", "knowledge")


def test_sqlite_unless_told_otherwise(tmp_path: Path) -> None:
    """R-43: one file by default, PostgreSQL by its URL."""
    assert Settings(data_dir=tmp_path).sqlalchemy_url == f"sqlite:///{tmp_path / 'yizhan.db'}"
    url = "postgresql://user@db.example/yizhan"
    assert Settings(data_dir=tmp_path, database_url=url).sqlalchemy_url == url


async def test_one_conversation_many_epochs(stack: Stack) -> None:
    """R-25: 新会话 begins another epoch of the same conversation; the conversation stays."""
    for words in ("你好", "新会话", "又见面了"):
        await stack.say(*MEMBER, words)

    async def settled() -> bool:
        return not await stack.rows("SELECT 1 FROM inbound WHERE status IN ('received', 'running')")

    await stack.until(settled)
    assert len({row["conversation_id"] for row in await stack.rows("SELECT conversation_id FROM inbound")}) == 1
    sessions = await stack.rows("SELECT id, end_reason FROM session ORDER BY started_at_ms")
    assert [row["end_reason"] for row in sessions] == ["asked", None]


@pytest.mark.parametrize("person", [MEMBER, VERIFIED, UNVERIFIED])
async def test_every_ability_has_a_chat_form(stack: Stack, person: tuple[str, str]) -> None:
    """R-01: the words work on every channel, with or without the slash, before any model."""
    for word in ("帮助", "/状态", "停止", "/继续", "重试", "新会话"):
        assert await stack.ask(*person, word), word
    assert stack.model.requests == []
