"""Callback exchanges: deliver, hang up at five seconds, deliver again, accept the first good reply."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from .accounts import SimAccount
from .envelopes import Envelope, seal, verification
from .people import Person
from .replies import BadReply, Passive, read_reply
from .wirelog import clip
from .world import Card, World

ATTEMPTS = 3
UNAVAILABLE = "该公众号暂时无法提供服务，请稍后再试"
"""What a follower sees after three timeouts or a bad reply (oa.cb.reply)."""
_AGAIN = frozenset({"timeout", "connection", "lost"})
"""Outcomes after which the platform delivers again; anything answered counts as delivered (wecom.cb.reply)."""


@dataclass
class Exchange:
    """One message's or event's callback with all its attempts. ``id`` names it on the chat page."""

    account: SimAccount
    person: Person
    plaintext: str
    message_id: str | None
    label: str
    card: Card | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    answered: bool = False

    def record(self) -> dict[str, Any]:
        """The exchange as the wire log keeps it."""
        return {
            "id": self.id,
            "account": self.account.id,
            "user": self.person.user,
            "message_id": self.message_id,
            "label": self.label,
            "plaintext": self.plaintext,
            "state": "running",
            "attempts": [],
        }


class Callbacks:
    """Delivers callbacks over real HTTP."""

    def __init__(self, world: World, session: aiohttp.ClientSession) -> None:
        self._world = world
        self._session = session
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, exchange: Exchange, urls: list[str] | None = None) -> list[dict[str, Any]]:
        """The whole exchange, retries included; returns its deliveries. Several urls get the callback at once."""
        record = exchange.record()
        record["at"] = self._world.clock.now_ms()
        self._world.log.add_exchange(record)
        self._publish(record)
        targets = urls or [exchange.account.callback_url]
        good = await asyncio.gather(*(self._deliver(exchange, record, url, len(targets) > 1) for url in targets))
        if not exchange.account.wecom and not any(good):
            self._world.show(exchange.person, "platform", "text", UNAVAILABLE, exchange=exchange.id)
        record["state"] = "done"
        self._publish(record)
        return exchange.deliveries

    def start(self, exchange: Exchange, urls: list[str] | None = None) -> None:
        """The same in the background."""
        task = asyncio.get_running_loop().create_task(self.run(exchange, urls))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up on exchanges that still run."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def verify(self, account: SimAccount) -> dict[str, Any]:
        """The URL verification of an administrator's 保存: WeCom wants the exact bytes within 1 s, 公众号 within 5 s."""
        url, expected = verification(account, self._world.clock.now_s())
        limit_s = 1.0 if account.wecom else self._world.callback_timeout_s
        try:
            async with asyncio.timeout(limit_s), self._session.get(url, allow_redirects=False) as answer:
                body = await answer.read()
        except TimeoutError:
            return {"ok": False, "reason": f"no answer within {limit_s:g} s", "status": 0}
        except aiohttp.ClientError as error:
            return {"ok": False, "reason": f"cannot connect: {type(error).__name__}", "status": 0}
        if answer.status != 200:
            return {"ok": False, "reason": f"HTTP {answer.status}", "status": answer.status}
        exact = body == expected
        return {"ok": exact, "reason": "" if exact else "the body is not exactly echostr", "status": 200}

    async def _deliver(self, exchange: Exchange, record: dict[str, Any], url: str, tell_url: bool) -> bool:
        """Up to three attempts to one URL; True when one was answered well."""
        loop = asyncio.get_running_loop()
        for attempt in range(1, ATTEMPTS + 1):
            started = loop.time()
            delivery: dict[str, Any] = {"attempt": attempt, "status": 0, "ms": 0, "passive": None}
            if tell_url:
                delivery["url"] = url
            wire = await self._attempt(exchange, record, url, delivery)
            delivery["ms"] = wire["ms"] = round((loop.time() - started) * 1000)
            exchange.deliveries.append(delivery)
            self._publish(record)
            if delivery["outcome"] not in _AGAIN:
                return bool(delivery["outcome"] == "ok")
            if attempt < ATTEMPTS:
                await asyncio.sleep(max(0.0, started + self._world.callback_timeout_s - loop.time()))
        return False

    async def _attempt(self, exchange: Exchange, record: dict[str, Any], url: str, delivery: dict[str, Any]) -> dict[str, Any]:
        """One delivery; fills ``delivery`` and returns what went over the wire."""
        world, account = self._world, exchange.account
        envelope = seal(account, url, exchange.person.user, exchange.plaintext, world.clock.now_s())
        wire: dict[str, Any] = {
            "attempt": delivery["attempt"],
            "at": world.clock.now_ms(),
            "url": envelope.url,
            "request": clip(envelope.body.decode()),
        }
        record["attempts"].append(wire)
        try:
            async with asyncio.timeout(world.callback_timeout_s):
                status, body = await self._post(account, envelope)
        except TimeoutError:
            self._outcome(delivery, wire, "timeout", f"no answer within {world.callback_timeout_s:g} s, hung up")
            return wire
        except (aiohttp.ClientError, ConnectionError) as error:
            self._outcome(delivery, wire, "connection", f"connection failed: {type(error).__name__}")
            return wire
        delivery["status"] = status
        wire["response"] = clip(body.decode("utf-8", "replace"))
        if world.faults.take("callback_lose_reply", account.id):
            self._outcome(delivery, wire, "lost", "the answer was lost on the way")
        else:
            self._judge(exchange, delivery, wire, status, body)
        return wire

    async def _post(self, account: SimAccount, envelope: Envelope) -> tuple[int, bytes]:
        faults = self._world.faults
        if faults.take("callback_refused", account.id):
            raise ConnectionRefusedError("fault callback_refused")
        latency = faults.take("callback_latency_ms", account.id)
        lag_s = latency.value / 1000 if latency else 0.0
        await asyncio.sleep(lag_s)
        headers = {"Content-Type": envelope.content_type, "User-Agent": "Mozilla/4.0"}
        async with self._session.post(envelope.url, data=envelope.body, headers=headers, allow_redirects=False) as answer:
            body = await answer.read()
        await asyncio.sleep(lag_s)
        return answer.status, body

    def _judge(self, exchange: Exchange, delivery: dict[str, Any], wire: dict[str, Any], status: int, body: bytes) -> None:
        if status != 200:
            self._outcome(delivery, wire, "bad_reply", f"HTTP {status}")
            return
        try:
            passive = read_reply(exchange.account, exchange.person.user, body)
        except BadReply as error:
            self._outcome(delivery, wire, "bad_reply", str(error))
            return
        self._outcome(delivery, wire, "ok", "")
        if passive is None:
            return
        delivery["passive"] = passive.text
        delivery["passive_kind"] = passive.kind
        wire["reply"] = clip(passive.plaintext)
        if not exchange.answered:
            exchange.answered = True
            self._accept(exchange, passive)

    def _accept(self, exchange: Exchange, passive: Passive) -> None:
        if passive.kind.startswith("update_"):
            self._update_card(exchange, passive)
        elif passive.kind != "transfer_customer_service":
            self._world.show(exchange.person, "passive", passive.kind, passive.text, passive.card, exchange=exchange.id)

    def _update_card(self, exchange: Exchange, passive: Passive) -> None:
        card, part = exchange.card, passive.card or {}
        if card is None or card.response_used:
            return
        card.response_used = True
        if passive.kind == "update_template_card":
            card.entry["card"] = {**part, "task_id": card.task_id}
        else:
            card.entry["card"] = {**(card.entry["card"] or {}), "replaced": str(part.get("replace_name", ""))}
        card.entry["updated_at"] = self._world.clock.now_ms()
        self._world.changed(card)

    def _outcome(self, delivery: dict[str, Any], wire: dict[str, Any], outcome: str, reason: str) -> None:
        delivery["outcome"] = outcome
        wire.update(outcome=outcome, reason=reason, status=delivery["status"])
        if reason:
            delivery["reason"] = reason

    def _publish(self, record: dict[str, Any]) -> None:
        self._world.log.publish("exchange", brief(record))


def brief(record: dict[str, Any]) -> dict[str, Any]:
    """An exchange's record without the bodies."""
    keys = ("attempt", "at", "outcome", "status", "reason", "ms")
    attempts = [{key: wire.get(key) for key in keys} for wire in record["attempts"]]
    head = {key: record.get(key) for key in ("id", "account", "user", "message_id", "label", "state", "at")}
    return {**head, "attempts": attempts}
