"""The control API under ``/_sim``: what tests, benches and the chat page steer the platforms with."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from config.clock import REREAD_S

from .acts import ActError, Acts
from .answers import json_answer
from .callbacks import Callbacks, brief
from .demo_acts import DemoActs
from .faults import FAULTS, FaultError
from .people import Person
from .world import World

LONGEST_WAIT_S = 60.0
Action = Callable[[dict[str, Any]], Awaitable[Any]]


class Control:
    """The handlers of ``/_sim``; every refusal is a 4xx with ``{"error": ...}``."""

    def __init__(self, world: World, callbacks: Callbacks, acts: Acts) -> None:
        self._world = world
        self._callbacks = callbacks
        self._acts = acts
        self._demo = DemoActs(world)

    def routes(self) -> list[web.RouteDef]:
        """The URL table."""
        posts: dict[str, Action] = {
            "say": self._acts.say,
            "event": self._acts.event,
            "click": self._acts.click,
            "clock": self._clock,
            "faults": self._faults,
            "people": self._people,
            "verify": self._verify,
            "reset": self._reset,
            "demo": self._demo.act,
        }
        gets = {
            "inbox": self.inbox,
            "calls": self.calls,
            "faults": self.list_faults,
            "clock": self.read_clock,
            "state": self.state,
            "feed": self.feed,
            "exchanges": self.exchanges,
            "exchanges/{id}": self.exchange,
        }
        table = [web.post(f"/_sim/{name}", _posted(action)) for name, action in posts.items()]
        table += [web.get(f"/_sim/{name}", handler, allow_head=False) for name, handler in gets.items()]
        return [*table, web.delete("/_sim/faults", self.clear_faults)]

    async def inbox(self, request: web.Request) -> web.Response:
        """GET: what a person has seen after number ``after``; ``wait_s`` waits for something new."""
        account, user = request.query.get("account", ""), request.query.get("user", "")
        after = int(_number(request, "after"))
        if not user:
            people = self._world.people.of(account)
            merged = [{**entry, "user": p.user} for p in people for entry in p.inbox if entry["n"] > after]
            return json_answer(sorted(merged, key=lambda entry: entry["at"]))
        person = self._world.people.find(account, user)
        wait_s = min(_number(request, "wait_s"), LONGEST_WAIT_S)
        if wait_s > 0:
            person = person or self._world.person(account, user)
            await _until_newer(person, after, wait_s)
        return json_answer([entry for entry in person.inbox if entry["n"] > after] if person else [])

    async def calls(self, request: web.Request) -> web.Response:
        """GET: API calls, oldest first, by ``account``, end of ``path`` and number ``after``."""
        account, path = request.query.get("account"), request.query.get("path", "").rstrip("/")
        after = int(_number(request, "after"))
        chosen = [
            call
            for call in self._world.log.calls
            if call["n"] > after and account in (None, "", call["account"]) and _path_matches(call["path"], path)
        ]
        return json_answer(chosen)

    async def list_faults(self, request: web.Request) -> web.Response:
        """GET: switches that are on, and all there are."""
        return json_answer({"faults": self._world.faults.listing(), "known": FAULTS})

    async def clear_faults(self, request: web.Request) -> web.Response:
        """DELETE: everything off."""
        return json_answer(await self._faults({"clear": True}))

    async def read_clock(self, request: web.Request) -> web.Response:
        """GET: the virtual time."""
        return json_answer(self._now())

    async def state(self, request: web.Request) -> web.Response:
        """GET: accounts, people, menus, approvals, work orders, faults, time; no secrets."""
        world = self._world
        accounts = [
            {
                "id": a.id,
                "platform": a.platform,
                "title": a.title,
                "app_id": a.app_id,
                "agent_id": a.agent_id,
                "mode": a.mode,
                "verified": a.verified,
                "callback_url": a.callback_url,
                "menu": world.menus.get(a.id),
                "token_fetches": world.tokens.fetches.get(a.id, 0),
                "people": [_person(p) for p in world.people.of(a.id)],
            }
            for a in world.accounts.values()
        ]
        return json_answer(
            {
                "accounts": accounts,
                "groups": [p.user for p in world.people.of("group")],
                "approvals": world.approvals,
                "work_orders": world.work_orders,
                "faults": world.faults.listing(),
                "clock": self._now(),
                "demo": self._demo.state(),
            }
        )

    async def feed(self, request: web.Request) -> web.Response:
        """GET: both sides of every chat, as the page shows it, after ``after``."""
        after = int(_number(request, "after"))
        return json_answer([entry for entry in self._world.log.feed if entry["seq"] > after])

    async def exchanges(self, request: web.Request) -> web.Response:
        """GET: callback exchanges by account, user and message_id, with what went over the wire (unless ``brief``)."""
        wanted = {key: request.query[key] for key in ("account", "user", "message_id") if request.query.get(key)}
        records = self._world.log.exchanges.values()
        chosen = [r for r in records if all(str(r[key]) == value for key, value in wanted.items())]
        return json_answer([brief(r) for r in chosen] if request.query.get("brief") else chosen)

    async def exchange(self, request: web.Request) -> web.Response:
        """GET: one exchange."""
        record = self._world.log.exchanges.get(request.match_info["id"])
        return json_answer(record) if record else json_answer({"error": "no such exchange"}, status=404)

    async def _clock(self, request: dict[str, Any]) -> dict[str, Any]:
        clock = self._world.clock
        if "advance_s" in request:
            clock.advance(float(request["advance_s"]))
        elif "advance_ms" in request:
            clock.advance(float(request["advance_ms"]) / 1000)
        elif "offset_ms" in request:
            clock.set_offset(int(request["offset_ms"]))
        else:
            raise ActError(400, "advance_s is missing")
        await asyncio.sleep(2 * REREAD_S)  # by the time this is answered, every process sees the new time
        self._world.log.publish("clock", self._now())
        return self._now()

    async def _faults(self, request: dict[str, Any]) -> dict[str, Any]:
        account = request.get("account")
        if account not in (None, "", "*", *self._world.accounts):
            raise ActError(404, f"no account {account!r}")
        try:
            started = self._world.faults.set(request)
        except (FaultError, TypeError, ValueError) as error:
            raise ActError(400, str(error)) from None
        for fault in started:
            self._world.apply_fault(fault)
        listing = self._world.faults.listing()
        self._world.log.publish("faults", listing)
        return {"faults": listing}

    async def _people(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make or change a member or follower."""
        _, person = self._acts.who(request)
        person.name = str(request.get("name", person.name))
        person.visible = bool(request.get("visible", person.visible))
        person.following = bool(request.get("following", person.following))
        person.departments = tuple(int(d) for d in request.get("departments", person.departments))
        person.tags = tuple(str(tag) for tag in request.get("tags", person.tags))
        return _person(person)

    async def _verify(self, request: dict[str, Any]) -> dict[str, Any]:
        account, _ = self._acts.who(request)
        return await self._callbacks.verify(account)

    async def _reset(self, request: dict[str, Any]) -> dict[str, Any]:
        self._world.reset()
        return {"ok": True}

    def _now(self) -> dict[str, Any]:
        clock = self._world.clock
        return {"now_ms": clock.now_ms(), "offset_ms": clock.offset_ms}


def _posted(action: Action) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A POST handler that reads one JSON object and words refusals."""

    async def handler(request: web.Request) -> web.Response:
        try:
            text = (await request.read()).decode()
            body = json.loads(text) if text.strip() else {}
        except ValueError:
            return json_answer({"error": "the body is not JSON in UTF-8"}, status=400)
        if not isinstance(body, dict):
            return json_answer({"error": "the body is not a JSON object"}, status=400)
        try:
            return json_answer(await action(body))
        except ActError as error:
            return json_answer({"error": str(error)}, status=error.status)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            return json_answer({"error": f"a field has the wrong form: {error}"}, status=400)

    return handler


async def _until_newer(person: Person, after: int, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            while person.seen <= after:
                await person.arrived.wait()
    except TimeoutError:
        return


def _person(person: Person) -> dict[str, Any]:
    return {
        "user": person.user,
        "name": person.name,
        "departments": list(person.departments),
        "visible": person.visible,
        "following": person.following,
        "seen": person.seen,
    }


def _path_matches(path: str, wanted: str) -> bool:
    return not wanted or path == wanted or path.endswith("/" + wanted.lstrip("/"))


def _number(request: web.Request, name: str) -> float:
    """A finite number of the query, 0 where there is none. Raises a 400."""
    given = request.query.get(name) or "0"
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise web.HTTPBadRequest(text=f"{name} is not a number: {given[:40]}")
    return number
