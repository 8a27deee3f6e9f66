"""The push API over real HTTP: keys, forms, one answer per idempotency key, states and reasons, taking back."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway import keys
from gateway.day_folders import remove_old
from gateway.push_api import PushApi
from gateway.push_store import PushStore
from gateway.throttle import Throttle
from tests.contract.outbox.world import World
from tests.fakes.channel import FakeChannel, answered, wecom_account

Client = TestClient[web.Request, web.Application]
TEXT = {"kind": "text", "text": "库存不足"}


class Rings:
    """A bell that remembers."""

    def __init__(self) -> None:
        self.rung: list[tuple[str, str]] = []

    async def ring(self, queue: str, key: str) -> None:
        """Remember."""
        self.rung.append((queue, key))


@pytest.fixture
async def client(world: World, tmp_path: Path) -> AsyncIterator[Client]:
    """A client of the API."""
    world.channels["other-main"] = FakeChannel(account=wecom_account("other-main"), tenant_id="other")
    store = PushStore(world.database, world.outbox, world.channels, world.clock, tmp_path / "outgoing")
    app = web.Application(client_max_size=4 * 1024 * 1024)
    PushApi(world.database, store, Throttle(None, world.clock), Rings(), world.clock).add_routes(app)
    async with TestClient(TestServer(app)) as opened:
        yield opened


async def key_for(world: World, **changes: Any) -> dict[str, str]:
    """The header of a fresh key."""
    values: dict[str, Any] = {"tenant_id": "acme", "name": "t", "scopes": ["push"], "accounts": None, **changes}
    text, _ = await world.database.write(lambda c: keys.create(c, now_ms=world.clock.now_ms(), **values))
    return {"Authorization": f"Bearer {text}"}


async def post(client: Client, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """POST a push; status and answer."""
    answer = await client.post("/api/v1/push", json=body, headers=headers)
    return answer.status, await answer.json()


async def test_push_reaches_each_person_and_tells_each_state(world: World, client: Client) -> None:
    """S001-42, DEL-12: one row a person, delivered by push; the unknown member's reason is told, the others are sent."""
    headers = await key_for(world)
    world.wecom.expect(answered(0, "ok", invalid_users=("ghost",)))
    status, told = await post(client, headers, {"account": "wecom-main", "to": {"users": ["ghost"]}, "message": TEXT})
    assert status == 202
    await world.delivery().pass_once()
    status, more = await post(client, headers, {"account": "wecom-main", "to": {"users": ["a", "b", "A"]}, "message": TEXT})
    assert [target["user"] for target in more["targets"]] == ["a", "b"]
    await world.delivery().pass_once()
    assert sorted(target.users for _, target in world.wecom.accepted[1:]) == [("a",), ("b",)]
    seen = await (await client.get(f"/api/v1/push/{told['id']}", headers=headers)).json()
    assert seen["counts"] == {"dead": 1}
    assert seen["targets"][0]["reason"] == "81013 接收者不存在，或不在应用的可见范围"
    seen = await (await client.get(f"/api/v1/push/{more['id']}", headers=headers)).json()
    assert seen["counts"] == {"sent": 2}
    assert seen["targets"][0]["sent_at"].endswith("+08:00")


async def test_one_key_one_push(world: World, client: Client) -> None:
    """G-16: the same idempotency key answers with the same ids; with other content 409; at once, one row."""
    headers = await key_for(world)
    body = {"account": "wecom-main", "to": {"users": ["a"]}, "message": TEXT, "idempotency_key": "stock-1"}
    answers = await asyncio.gather(*(post(client, headers, body) for _ in range(5)))
    assert {status for status, _ in answers} == {202}
    assert len({(told["id"], told["targets"][0]["id"]) for _, told in answers}) == 1
    assert len(await world.rows()) == 1
    status, told = await post(client, headers, {**body, "message": {"kind": "text", "text": "别的"}})
    assert (status, told["error"]["field"]) == (409, "idempotency_key")


FAULTY: list[tuple[dict[str, Any], int, str]] = [
    ({"to": {"users": ["a"]}, "message": TEXT}, 400, "account"),
    ({"account": "wecom-main", "to": {}, "message": TEXT}, 400, "to"),
    ({"account": "wecom-main", "to": {"users": ["a"], "tags": ["1"]}, "message": TEXT}, 400, "to"),
    ({"account": "wecom-main", "to": {"users": ["@all"]}, "message": TEXT}, 400, "to"),
    ({"account": "wecom-main", "to": {"users": ["a"]}, "message": {"kind": "text"}}, 400, "message.text"),
    ({"account": "wecom-main", "to": {"users": ["a"]}, "message": TEXT, "colour": "red"}, 400, "colour"),
    ({"account": "wecom-main", "to": {"users": ["a"]}, "message": TEXT, "expires_at": "2026-03-01T09:00"}, 400, "expires_at"),
    ({"account": "wecom-main", "to": {"users": ["a"]}, "message": TEXT, "expires_at": 1}, 400, "expires_at"),
    ({"account": "mp-main", "to": {"tags": [1]}, "message": TEXT}, 400, "to"),
    ({"account": "mp-main", "to": {"users": ["o"]}, "message": {"kind": "template_card", "card": {}}}, 400, "message.kind"),
    ({"account": "nowhere", "to": {"users": ["a"]}, "message": TEXT}, 404, "account"),
    ({"account": "other-main", "to": {"users": ["a"]}, "message": TEXT}, 404, "account"),
    ({"account": "wecom-main", "to": {"conversation": "c1"}, "message": TEXT}, 404, "to.conversation"),
]


async def test_faulty_requests_name_the_field(world: World, client: Client) -> None:
    """A request that cannot be taken stores nothing and says which field, and what to do."""
    headers = await key_for(world)
    for body, status, field in FAULTY:
        got, told = await post(client, headers, body)
        assert (got, told["error"]["field"]) == (status, field), body
        assert told["error"]["message"]
        assert told["error"]["fix"]
    assert await world.rows() == []


async def test_keys_limit_what_a_program_may_do(world: World, client: Client) -> None:
    """N-13: unknown, expired, revoked keys are refused alike; account, scope and everyone are limits of their own."""
    body = {"account": "wecom-main", "to": {"users": ["a"]}, "message": TEXT}
    assert (await post(client, {}, body))[0] == 401
    assert "需要有效的 API 密钥" in await (await client.post("/api/v1/push", json=body)).text(), "readable in a terminal"
    assert (await post(client, {"Authorization": "Bearer yzk_" + "x" * 43}, body))[0] == 401
    expiring = await key_for(world, expires_at_ms=world.clock.now_ms() + 1000)
    assert (await post(client, expiring, body))[0] == 202
    world.clock.advance(2)
    assert (await post(client, expiring, body))[0] == 401
    narrow = await key_for(world, accounts=["mp-main"])
    assert (await post(client, narrow, body))[0] == 404
    plain = await key_for(world)
    everyone = {**body, "to": {"all": True}}
    status, told = await post(client, plain, everyone)
    assert (status, told["error"]["code"]) == (403, "forbidden")
    assert (await post(client, await key_for(world, scopes=["push", "push_all"]), everyone))[0] == 202
    found = await world.database.read(lambda c: keys.listing(c, prefix=plain["Authorization"][7:19]))
    assert await world.database.write(lambda c: keys.revoke(c, found[0].id, world.clock.now_ms()))
    assert (await post(client, plain, body))[0] == 401


@pytest.mark.parametrize(
    ("to", "status"),
    [
        ({"users": ["a|b"]}, 400),
        ({"users": ["a|@all"]}, 400),
        ({"users": ["@ALL"]}, 400),
        ({"users": [" @all"]}, 400),
        ({"users": ["a\n"]}, 400),
        ({"departments": ["2|1"]}, 400),
        ({"tags": ["1|2"]}, 400),
        ({"departments": [1]}, 403),
        ({"departments": ["2", "01"]}, 403),
        ({"departments": ["2", "11"]}, 202),
    ],
)
async def test_everyone_by_another_name_is_still_everyone(world: World, client: Client, to: dict[str, Any], status: int) -> None:
    """N-13: sending to everyone is its own scope; no spelling of a receiver goes around it, nor counts as one for many."""
    headers = await key_for(world)
    assert (await post(client, headers, {"account": "wecom-main", "to": to, "message": TEXT}))[0] == status
    assert len(await world.rows()) == (1 if status == 202 else 0)


async def test_another_tenant_sees_nothing(world: World, client: Client) -> None:
    """N-13: a push of one tenant does not exist for another, nor for a key of other accounts."""
    _, told = await post(client, await key_for(world), {"account": "wecom-main", "to": {"users": ["a"]}, "message": TEXT})
    for stranger in (await key_for(world, tenant_id="other"), await key_for(world, accounts=["mp-main"])):
        assert (await client.get(f"/api/v1/push/{told['id']}", headers=stranger)).status == 404
        assert (await client.delete(f"/api/v1/push/{told['id']}", headers=stranger)).status == 404
    assert await world.states() == ["pending"]


async def test_recipients_a_minute_are_limited(world: World, client: Client) -> None:
    """N-13: beyond the key's recipients a minute: 429 with Retry-After; a repeat of a stored push is free."""
    headers = await key_for(world, recipients_per_minute=3)
    body = {"account": "wecom-main", "to": {"users": ["a", "b"]}, "message": TEXT, "idempotency_key": "k"}
    assert (await post(client, headers, body))[0] == 202
    assert (await post(client, headers, body))[0] == 202
    refused = await client.post("/api/v1/push", json={**body, "idempotency_key": "k2"}, headers=headers)
    assert refused.status == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    world.clock.advance(60)
    assert (await post(client, headers, {**body, "idempotency_key": "k2"}))[0] == 202


async def test_scheduled_push_is_taken_back(world: World, client: Client) -> None:
    """What has not been sent can be taken back; what was sent stays sent."""
    headers = await key_for(world)
    later = world.clock.local(world.clock.now_ms() + 3_600_000).isoformat()
    _, told = await post(
        client, headers, {"account": "wecom-main", "to": {"users": ["a", "b"]}, "message": TEXT, "not_before": later}
    )
    await world.delivery().pass_once()
    assert world.wecom.texts == []
    answer = await (await client.delete(f"/api/v1/push/{told['id']}", headers=headers)).json()
    assert (answer["cancelled"], answer["counts"]) == (2, {"cancelled": 2})
    world.clock.advance(4000)
    await world.delivery().pass_once()
    assert world.wecom.texts == []


async def test_departments_everyone_and_files(world: World, client: Client, tmp_path: Path) -> None:
    """Departments and everyone are one row each; a file's content is stored under a name of chance."""
    headers = await key_for(world, scopes=["push", "push_all"])
    await post(client, headers, {"account": "wecom-main", "to": {"departments": [1, "2"]}, "message": TEXT})
    await post(client, headers, {"account": "wecom-main", "to": {"all": True}, "message": TEXT})
    content = base64.b64encode(b"hello world").decode()
    message = {"kind": "file", "content_base64": content, "file_name": "../../周报.txt"}
    status, _ = await post(client, headers, {"account": "wecom-main", "to": {"users": ["a"]}, "message": message})
    assert status == 202
    data = (await world.rows())[-1]["payload"]["payload"]
    assert data["file_name"] == "周报.txt"
    assert await asyncio.to_thread(Path(data["path"]).read_bytes) == b"hello world"
    assert Path(data["path"]).is_relative_to(tmp_path / "outgoing")
    await world.delivery().pass_once()
    targets = {target.departments or target.users for _, target in world.wecom.accepted}
    assert targets == {("1", "2"), ("@all",), ("a",)}


async def test_files_go_when_the_bodies_do(world: World, client: Client, tmp_path: Path) -> None:
    """N-10: a given file is removed once its message's body is; newer ones stay, and those of pushes that are still to come."""
    headers = await key_for(world)
    message = {"kind": "file", "content_base64": base64.b64encode(b"hello world").decode(), "file_name": "a.txt"}
    body = {"account": "wecom-main", "to": {"users": ["a"]}, "message": message}
    await post(client, headers, body)
    await post(client, headers, {**body, "not_before": world.clock.now_ms() + 60 * 86_400_000})
    world.clock.advance(20 * 86_400)
    await post(client, headers, body)
    world.clock.advance(15 * 86_400)
    assert await asyncio.to_thread(remove_old, tmp_path / "outgoing", world.clock, 30) == 1
    paths = [Path(row["payload"]["payload"]["path"]) for row in await world.rows()]
    assert [path.exists() for path in paths] == [False, True, True]


async def test_answers_go_before_a_long_list(world: World, client: Client) -> None:
    """A broadcast becomes due piece by piece, so an answer to a person does not wait behind it."""
    headers = await key_for(world)
    users = [f"u{number}" for number in range(200)]
    await post(client, headers, {"account": "wecom-main", "to": {"users": users}, "message": TEXT})
    await world.put("answer", "答案", cause="inbound", cause_id="1")
    world.clock.advance(1)
    await world.delivery().pass_once()
    assert world.wecom.texts[0] == "答案" or world.wecom.texts.index("答案") < 32
    assert len(world.wecom.texts) < 200
    world.clock.advance(2)
    await world.delivery().pass_once()
    assert len(world.wecom.texts) == 201


@pytest.mark.parametrize(
    "odd",
    [
        {"not_before": 2**63},
        {"not_before": 10**18},
        {"not_before": -1},
        {"expires_at": 10**30},
        {"not_before": "9999-12-31T23:59:59+00:00"},
        {"idempotency_key": "a\x00b"},
        {"idempotency_key": "k" * 100_000},
    ],
    ids=range(7),
)
async def test_what_no_column_holds_is_refused(world: World, client: Client, odd: dict[str, Any]) -> None:
    """A moment beyond all calendars or a key with a NUL is the caller's mistake, not ours."""
    status, _ = await post(
        client, await key_for(world), {"account": "wecom-main", "to": {"users": ["a"]}, "message": TEXT, **odd}
    )
    assert status == 400
    assert await world.rows() == []


@pytest.mark.parametrize("name", ["%00", "p%00", "%FF", "..%2f..", "x" * 5000])
async def test_an_id_that_cannot_be_is_not_there(world: World, client: Client, name: str) -> None:
    """PostgreSQL takes no NUL, not even to look for it."""
    headers = await key_for(world)
    for method in ("GET", "DELETE"):
        assert (await client.request(method, f"/api/v1/push/{name}", headers=headers)).status == 404
