"""Routes: order, permissions, purposes, rest after failures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.llm.base import ChatMessage, Model, ModelError, ModelReply, ToolOffer, estimate_tokens
from agent.llm.router import DataPermission, RouteLog, Router
from agent.protocol import Deadline
from config.clock import Clock, FixedClock
from config.schema import ModelRoute, Settings
from tests.fakes.assistant import settings_for


class ScriptedModel:
    """A model that fails or answers by its route's name, and counts."""

    def __init__(self, name: str, failing: set[str], asked: list[str]) -> None:
        self.name, self.failing, self.asked = name, failing, asked

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], deadline: Deadline) -> ModelReply:
        self.asked.append(self.name)
        if self.name in self.failing:
            raise ModelError("server", "HTTP 500", status=500)
        return ModelReply(f"from {self.name}")


class Bench:
    """A router over scripted models."""

    def __init__(self, folder: Path, *routes: dict[str, Any], tenant: dict[str, Any] | None = None) -> None:
        self.settings: Settings = settings_for(folder, tenant, models=list(routes))
        self.clock = FixedClock()
        self.failing: set[str] = set()
        self.asked: list[str] = []
        self.router = Router(self.settings, self.clock, self._make)

    def _make(self, route: ModelRoute, clock: Clock) -> Model:
        return ScriptedModel(route.name, self.failing, self.asked)

    def may(self, subject: Any = "user") -> DataPermission:
        return DataPermission(self.settings.tenants[0], subject)

    async def ask(self, purpose: Any = "chat", subject: Any = "user", log: RouteLog | None = None) -> str:
        rule = ScriptedModel("rule", set(), self.asked)
        deadline = Deadline(self.clock.monotonic() + 30)
        messages = (ChatMessage("user", "你好"),)
        reply = await self.router.complete(
            messages, (), deadline, purpose=purpose, permission=self.may(subject), log=log or RouteLog(), rule=rule
        )
        return reply.text


def route(name: str, *, local: bool = True, **extra: Any) -> dict[str, Any]:
    return {"name": name, "base_url": "http://127.0.0.1:1/v1", "model": "m", "local": local, **extra}


async def test_local_first_then_settings_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("cloud", local=False), route("a"), route("b"), tenant={"allow_external_models": True})
    assert [one.name for one in bench.router.routes("chat", bench.may())] == ["a", "b", "cloud"]


async def test_purposes_choose(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("small", purposes=["chat"]), route("big", purposes=["hard", "summary"]))
    assert await bench.ask("chat") == "from small"
    assert await bench.ask("hard") == "from big"


async def test_hard_falls_back_to_chat_routes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("small", purposes=["chat"]))
    assert await bench.ask("hard") == "from small"


async def test_a_route_rests_after_three_failures_in_a_minute(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"), route("b"))
    bench.failing.add("a")
    for _ in range(3):
        assert await bench.ask() == "from b"
    assert bench.router.resting("a")
    bench.asked.clear()
    await bench.ask()
    assert bench.asked == ["b"]
    bench.clock.advance(61)
    bench.failing.clear()
    bench.asked.clear()
    assert await bench.ask() == "from a"


async def test_an_external_answer_while_the_local_route_rests_is_visible(tmp_path: Path) -> None:
    """M09."""
    bench = Bench(tmp_path, route("a"), route("cloud", local=False), tenant={"allow_external_models": True})
    bench.failing.add("a")
    logs = [RouteLog() for _ in range(4)]
    for log in logs:
        await bench.ask(log=log)
    assert bench.router.resting("a")
    assert [log.crossed for log in logs] == [True] * 4


async def test_failures_far_apart_do_not_rest(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"), route("b"))
    bench.failing.add("a")
    for _ in range(5):
        await bench.ask()
        bench.clock.advance(40)
    assert not bench.router.resting("a")


async def test_when_all_rest_the_first_is_tried_anyway(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"))
    bench.failing.add("a")
    for _ in range(4):
        with pytest.raises(ModelError):
            await bench.ask()
    bench.failing.clear()
    assert await bench.ask() == "from a"


@pytest.mark.parametrize(
    ("tenant", "subject", "asked"),
    [
        ({}, "user", "rule"),
        ({"allow_external_models": True}, "user", "cloud"),
        ({"allow_external_models": True}, "customer", "rule"),
        ({"allow_external_models": True, "customer_data_external": True}, "customer", "cloud"),
        ({"allow_external_models": True, "customer_data_external": True, "customers_use_model": False}, "customer", "rule"),
    ],
)
async def test_external_routes_need_permission(tmp_path: Path, tenant: dict[str, Any], subject: str, asked: str) -> None:
    """M09 and R-40."""
    bench = Bench(tmp_path, route("cloud", local=False), tenant=tenant)
    assert await bench.ask(subject=subject) == f"from {asked}"


async def test_without_models_the_rule_model_answers(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert await bench.ask() == "from rule"
    assert "没接大模型" in bench.router.describe()


def test_no_model_proxy_library_is_installed_or_named() -> None:
    """M08: the runtime has no litellm; the wire client is the openai SDK."""
    import importlib.util
    import tomllib

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    names = [dependency.split(">")[0].split("=")[0] for dependency in project["project"]["dependencies"]]
    assert "litellm" not in names
    assert importlib.util.find_spec("litellm") is None


def test_token_estimates_are_cautious() -> None:
    assert estimate_tokens("你好世界") == 4
    assert estimate_tokens("hello world!") == 4
    assert estimate_tokens("") == 0
    assert estimate_tokens("😀𠀀") == 3
