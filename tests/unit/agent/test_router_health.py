"""Routes that rest, come back, and share one turn's time; every call on record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.llm.base import ChatMessage, Model, ModelError, ModelReply, ToolOffer, Usage
from agent.llm.router import DataPermission, RouteLog, Router
from agent.protocol import Deadline
from config.clock import Clock, FixedClock
from config.schema import ModelRoute
from tests.fakes.assistant import settings_for
from tests.unit.agent.test_router import route

ASK = (ChatMessage("user", "你好"),)


class Line:
    """One route's behaviour: an error to raise, a wait, what it was given."""

    def __init__(self) -> None:
        self.error: ModelError | None = None
        self.hold: asyncio.Event | None = None
        self.asked = 0
        self.had_s: list[float] = []


class Bench:
    """A router over lines that are told how to behave."""

    def __init__(self, folder: Path, *routes: dict[str, Any], tenant: dict[str, Any] | None = None) -> None:
        self.clock = FixedClock()
        self.settings = settings_for(folder, tenant, models=list(routes))
        self.lines = {one["name"]: Line() for one in routes}
        self.router = Router(self.settings, self.clock, self._make)
        self.log = RouteLog()

    def _make(self, route: ModelRoute, clock: Clock) -> Model:
        line = self.lines[route.name]

        class Spoken:
            async def complete(
                self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], deadline: Deadline
            ) -> ModelReply:
                line.asked += 1
                line.had_s.append(deadline.remaining_s(clock.monotonic()))
                if line.hold is not None:
                    await line.hold.wait()
                if line.error is not None:
                    raise line.error
                return ModelReply(f"from {route.name}")

        return Spoken()

    async def ask(self, purpose: Any = "chat", *, turn_s: float = 120.0, log: RouteLog | None = None) -> str:
        reply = await self.router.complete(
            ASK,
            (),
            Deadline(self.clock.monotonic() + turn_s),
            purpose=purpose,
            permission=DataPermission(self.settings.tenants[0], "user"),
            log=log or self.log,
            rule=self._make(ModelRoute.model_validate(route("rule")), self.clock) if "rule" in self.lines else _Nobody(),
        )
        return reply.text

    async def fail(self, name: str, times: int = 3, error: ModelError | None = None) -> None:
        self.lines[name].error = error or ModelError("server", "HTTP 500", status=500)
        for _ in range(times):
            await self.ask()


class _Nobody:
    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[ToolOffer], deadline: Deadline) -> ModelReply:
        raise AssertionError("the rule model is not for this")


async def test_after_its_rest_one_caller_tries_for_all(tmp_path: Path) -> None:
    """A route that comes back gets one call, not everybody's; once that one is answered, all of them."""
    bench = Bench(tmp_path, route("a"), route("b"))
    await bench.fail("a")
    line = bench.lines["a"]
    line.asked, line.error, line.hold = 0, None, asyncio.Event()
    bench.clock.advance(61)
    first = asyncio.create_task(bench.ask())
    await asyncio.sleep(0)
    assert await asyncio.gather(*(bench.ask() for _ in range(20))) == ["from b"] * 20
    assert line.asked == 1
    line.hold.set()
    assert await first == "from a"
    assert await bench.ask() == "from a"


async def test_a_trial_that_fails_is_another_minute_of_rest(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"), route("b"))
    await bench.fail("a")
    bench.clock.advance(61)
    assert await bench.ask() == "from b"
    assert bench.lines["a"].asked == 4
    bench.clock.advance(59)
    assert await bench.ask() == "from b"
    assert bench.lines["a"].asked == 4


async def test_a_trial_that_is_stopped_leaves_the_next_one_free(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"), route("b"))
    await bench.fail("a")
    line = bench.lines["a"]
    line.error, line.hold = None, asyncio.Event()
    bench.clock.advance(61)
    trial = asyncio.create_task(bench.ask())
    await asyncio.sleep(0)
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    assert bench.log.tries[-1]["outcome"] == "cancelled"
    line.hold = None
    assert await bench.ask() == "from a"


async def test_while_all_rest_the_first_is_tried_and_only_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"), route("b"))
    bench.lines["b"].error = ModelError("timeout", status=408)
    for _ in range(3):
        with pytest.raises(ModelError):
            await bench.fail("a", 1)
    assert bench.router.resting("a")
    assert bench.router.resting("b")
    asked = bench.lines["b"].asked
    with pytest.raises(ModelError) as caught:
        await bench.ask()
    assert caught.value.kind == "server"
    assert bench.lines["b"].asked == asked


async def test_a_busy_endpoint_is_left_alone_as_long_as_it_asked(tmp_path: Path) -> None:
    """429 with Retry-After: not asked again before, asked again after."""
    bench = Bench(tmp_path, route("a"), route("b"))
    await bench.fail("a", 1, ModelError("busy", "HTTP 429", status=429, rest_s=20))
    bench.lines["a"].error = None
    assert await bench.ask() == "from b"
    bench.clock.advance(21)
    assert await bench.ask() == "from a"


async def test_a_hang_leaves_half_the_time_for_the_next_route(tmp_path: Path) -> None:
    """The budget of a turn is shared: whatever a route is set to wait, one behind it still has its chance."""
    bench = Bench(tmp_path, route("a", timeout_s=600), route("b", timeout_s=600))
    await bench.ask(turn_s=120)
    assert bench.lines["a"].had_s == [60]
    await bench.fail("a", 1)
    assert bench.lines["b"].had_s == [120]
    bench.lines["a"].error = None
    await bench.ask(turn_s=1000)
    assert bench.lines["a"].had_s[-1] == 500


async def test_a_route_alone_has_all_the_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a", timeout_s=600))
    await bench.ask(turn_s=120)
    assert bench.lines["a"].had_s == [120]


async def test_a_turn_without_time_is_no_failure_of_the_route(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"), route("b"))
    bench.lines["a"].error = ModelError("timeout", "no answer within 0.3 s")
    for _ in range(4):
        await bench.ask(turn_s=0.6)
    assert not bench.router.resting("a")


async def test_refusals_are_no_failures_of_the_route(tmp_path: Path) -> None:
    bench = Bench(tmp_path, route("a"), route("b"))
    bench.lines["a"].error = ModelError("refused", "HTTP 400", status=400, reason="too_long")
    for _ in range(4):
        with pytest.raises(ModelError):
            await bench.ask()
    assert not bench.router.resting("a")
    assert bench.lines["b"].asked == 0


async def test_a_hard_question_falls_back_to_the_chat_routes(tmp_path: Path) -> None:
    """And nobody is told of a crossing that was none: the big model outside was the first choice for this purpose."""
    tenant = {"allow_external_models": True}
    big = route("big", local=False, purposes=["hard"])
    bench = Bench(tmp_path, route("small", purposes=["chat"]), big, tenant=tenant)
    assert await bench.ask("hard") == "from big"
    assert not bench.log.crossed
    bench.lines["big"].error = ModelError("connect")
    assert await bench.ask("hard") == "from small"


async def test_every_call_is_on_record_with_what_it_cost(tmp_path: Path) -> None:
    """Failed calls too: an unusable answer was paid for."""
    bench = Bench(tmp_path, route("a", price_in=2.0, price_out=8.0), route("b"))
    draft = ModelReply(usage=Usage(100, 20))
    bench.lines["a"].error = ModelError("empty", draft=draft)
    await bench.ask()
    assert [(one["route"], one["reason"], one["outcome"]) for one in bench.log.tries] == [
        ("a", "first", "empty"),
        ("b", "after_empty", "ok"),
    ]
    assert all("ms" in one for one in bench.log.tries)
    assert (bench.log.prompt_tokens, bench.log.completion_tokens, bench.log.cost_micro) == (100, 20, 360)
