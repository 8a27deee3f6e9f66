"""The control API, the faults, the virtual clock, and the guard (N-23)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from config.clock import Clock
from scripts.simulator.accounts import AccountsError, load_accounts

from .conftest import Sim, text_reply
from .test_wecom_rules import seen, text


async def _refusal(sim: Sim, path: str, body: Any) -> tuple[int, str]:
    async with sim.http.post(f"{sim.base}/_sim/{path}", json=body) as answer:
        return answer.status, (await answer.json())["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("say", {"user": "u", "text": "x"}, 400, "wecom-main"),
        ("say", {"account": "nope", "text": "x"}, 404, "nope"),
        ("say", {"account": "mp-main", "user": "u"}, 400, "text is missing"),
        ("say", [1], 400, "not a JSON object"),
        ("event", {"account": "mp-main", "user": "u"}, 400, "event is missing"),
        ("click", {"account": "wecom-main", "user": "zhangsan", "task_id": "x", "key": "k"}, 404, "no card"),
        ("faults", {"name": "volcano"}, 400, "volcano"),
        ("faults", {"name": "busy", "account": "nope"}, 404, "nope"),
        ("clock", {}, 400, "advance_s"),
        ("demo", {"kill": "worker"}, 409, "no demo"),
    ],
)
async def test_refusals_are_clear(sim: Sim, path: str, body: Any, status: int, words: str) -> None:
    """Every mistake is a 4xx that says what is wrong."""
    got, error = await _refusal(sim, path, body)
    assert got == status
    assert words in error


async def test_the_start_up_token_is_needed(sim: Sim) -> None:
    """N-23: header, query, bearer or the page's cookie; else 401."""
    async with aiohttp.ClientSession() as bare:
        for path in ("/", "/_sim/state", "/_sim/inbox"):
            async with bare.get(sim.base + path) as answer:
                assert answer.status == 401
        async with bare.get(f"{sim.base}/_sim/state?token=start-up-token") as answer:
            assert answer.status == 200
        async with bare.get(f"{sim.base}/_sim/state", headers={"Authorization": "Bearer start-up-token"}) as answer:
            assert answer.status == 200
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as browser:
        async with browser.get(f"{sim.base}/?token=start-up-token") as answer:
            assert "驿站" in await answer.text()
        async with browser.get(f"{sim.base}/_sim/state") as answer:
            assert answer.status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "10.0.0.1"])
async def test_a_foreign_host_header_is_refused(sim: Sim, host: str) -> None:
    """N-23: a rebinding page cannot reach the simulator, with the token or without."""
    for path in ("/_sim/state", "/cgi-bin/gettoken", "/_svc/work_orders"):
        async with sim.http.get(sim.base + path, headers={"Host": host}) as answer:
            assert answer.status == 403


async def test_a_foreign_page_cannot_post(sim: Sim) -> None:
    """N-23: a request another site's page makes carries its Origin."""
    for origin, status in (("http://evil.example", 403), ("null", 403), (sim.base, 200)):
        async with sim.http.post(f"{sim.base}/_sim/clock", data=b'{"advance_s": 0}', headers={"Origin": origin}) as answer:
            assert answer.status == status


async def test_state_tells_no_secret(sim: Sim) -> None:
    """Accounts are shown without secret, callback token or key."""
    shown = str(await sim.get("state"))
    for account in sim.world.accounts.values():
        assert account.secret not in shown.replace("other", "") or account.secret == "other"
        assert account.callback_token not in shown
        assert str(account.aes_key) not in shown


async def test_the_clock_file_is_what_the_product_reads(sim: Sim, tmp_path: Path) -> None:
    """clock: config.clock.Clock sees the same time."""
    before = Clock(tmp_path / "clock").now_ms()
    moved = await sim.post("clock", advance_s=3600)
    assert moved["offset_ms"] == 3_600_000
    assert (tmp_path / "clock").read_text() == "3600000"
    assert Clock(tmp_path / "clock").now_ms() - before >= 3_600_000
    await sim.post("say", account="wecom-main", user="zhangsan", text="x")
    created = int(sim.stub.seen[0].plaintext.split("<CreateTime>")[1].split("<")[0])
    assert abs(created - moved["now_ms"] // 1000) <= 5


@pytest.mark.parametrize(
    ("fault", "errcode"),
    [
        ({"name": "busy", "count": 1}, -1),
        ({"name": "quota", "count": 1}, 45009),
        ({"name": "errcode", "errcode": 60020, "count": 1}, 60020),
        ({"busy": 1}, -1),
        ({"name": "-1", "count": 1, "path": "message/send"}, -1),
        ({"name": "token_refused", "count": 1, "account": "wecom-main"}, 40014),
    ],
)
async def test_errcode_faults_hit_the_send_and_wear_off(sim: Sim, fault: dict[str, Any], errcode: int) -> None:
    """A count without a path leaves the token endpoints alone."""
    await sim.post("faults", **fault)
    token = await sim.token()
    assert (await text(sim, token, "x"))["errcode"] == errcode
    assert (await text(sim, token, "x"))["errcode"] == 0
    assert await seen(sim) == ["x"]


async def test_ip_blocked_passes_gettoken_only_on_wecom(sim: Sim) -> None:
    """A WeCom token fetch passes from any address; an Official Account's does not."""
    await sim.post("faults", name="ip_blocked")
    answer = await text(sim, await sim.token(), "x")
    assert (answer["errcode"], "from ip: 203.0.113.7" in answer["errmsg"]) == (60020, True)
    account = sim.world.accounts["mp-main"]
    body = {"grant_type": "client_credential", "appid": account.app_id, "secret": account.secret}
    refused = await sim.api("stable_token", body)
    assert (refused["errcode"], "203.0.113.7" in refused["errmsg"]) == (40164, True)
    async with sim.http.delete(f"{sim.base}/_sim/faults") as done:
        assert (await done.json())["faults"] == []
    assert (await text(sim, await sim.token(), "x"))["errcode"] == 0


async def test_unknown_outcomes_take_effect(sim: Sim) -> None:
    """send.unknown_outcome: delivered, then 502, a closed connection or silence."""
    token = await sim.token()
    url = f"{sim.base}/cgi-bin/message/send?access_token={token}"
    body = {"agentid": 1000002, "touser": "zhangsan", "msgtype": "text", "text": {"content": "x"}}
    await sim.post("faults", name="accept_then_502", count=1)
    async with sim.http.post(url, json=body) as answer:
        assert (answer.status, answer.content_type) == (502, "text/html")
    await sim.post("faults", name="accept_then_close", count=1)
    with pytest.raises(aiohttp.ClientError):
        await sim.http.post(url, json=body)
    await sim.post("faults", name="accept_then_timeout", count=1)
    with pytest.raises(TimeoutError):
        await sim.http.post(url, json=body, timeout=aiohttp.ClientTimeout(total=0.3))
    await sim.post("faults", name="connection_refused", count=1)
    with pytest.raises(aiohttp.ClientError):
        await sim.http.post(url, json=body)
    assert await seen(sim) == ["x"] * 3


@pytest.mark.parametrize(
    ("name", "status", "start"),
    [("http_500", 500, "Internal"), ("html_200", 200, "<!DOCTYPE"), ("empty_200", 200, ""), ("truncated_json", 200, '{"err')],
)
async def test_broken_answers(sim: Sim, name: str, status: int, start: str) -> None:
    """errors: nothing is delivered."""
    token = await sim.token()
    await sim.post("faults", name=name, count=1)
    async with sim.http.post(f"{sim.base}/cgi-bin/message/send?access_token={token}", json={}) as answer:
        assert answer.status == status
        assert (await answer.text()).startswith(start)
    assert (await sim.get("calls", path="message/send"))[0]["status"] == status


async def test_silent_drop_and_slow(sim: Sim) -> None:
    """errcode 0, nothing on the screen; the call is in the record."""
    await sim.post("faults", name="silent_drop", count=1)
    await sim.post("faults", slow_ms=50)
    assert (await text(sim, await sim.token(), "x"))["errcode"] == 0
    assert await seen(sim) == []
    (call,) = await sim.get("calls", path="/cgi-bin/message/send", account="wecom-main")
    assert (call["body"]["text"]["content"], call["errcode"], call["delivered"]) == ("x", 0, [])
    assert await sim.get("calls", path="message/send", after=call["n"]) == []


async def test_media_messages_and_events(sim: Sim) -> None:
    """Every kind of say has a media_id that media/get knows; events carry their fields."""
    sim.stub.answer = lambda seen: text_reply(seen, "收到")
    for kind in ("image", "voice", "video", "file", "location", "link"):
        await sim.post("say", account="wecom-main", user="zhangsan", kind=kind)
    image = sim.stub.seen[0].plaintext
    media_id = image.split("<MediaId><![CDATA[")[1].split("]]>")[0]
    url = f"{sim.base}/cgi-bin/media/get"
    async with sim.http.get(url, params={"access_token": await sim.token(), "media_id": media_id}) as answer:
        assert (await answer.read()).startswith(b"\x89PNG")
    await sim.post("event", account="wecom-main", user="zhangsan", event="CLICK", key="k1")
    assert "<Event><![CDATA[click]]></Event><EventKey><![CDATA[k1]]></EventKey>" in sim.stub.seen[-1].plaintext
    await sim.post("event", account="mp-main", user="o1", event="subscribe", fields={"EventKey": "qrscene_1"})
    assert "qrscene_1" in sim.stub.seen[-1].plaintext


async def test_timeline_and_reset(sim: Sim) -> None:
    """The wire log has the real envelope and the decrypted texts; reset forgets all."""
    sim.stub.answer = lambda seen: text_reply(seen, "好")
    said = await sim.post("say", account="wecom-main", user="zhangsan", text="你好")
    record = await sim.get(f"exchanges/{said['exchange']}")
    (attempt,) = record["attempts"]
    assert "<Encrypt>" in attempt["request"]
    assert "你好" in record["plaintext"]
    assert "好" in attempt["reply"]
    assert attempt["outcome"] == "ok"
    feed = await sim.get("feed")
    assert [(item["who"], item["entry"]["text"]) for item in feed] == [("me", "你好"), ("them", "好")]
    await sim.post("reset")
    assert await sim.get("feed") == []
    assert await seen(sim) == []


async def test_live_stream(sim: Sim) -> None:
    """The page hears of everything by server-sent events."""
    async with sim.http.get(f"{sim.base}/_sim/events") as stream:
        assert (await stream.content.readline()).startswith(b":")
        await sim.post("say", account="wecom-main", user="zhangsan", text="你好")
        line = b""
        while not line.startswith(b"event:"):
            line = await stream.content.readline()
        assert line == b"event: feed\n"
        assert "你好".encode() in await stream.content.readline()


async def test_work_orders(sim: Sim) -> None:
    """The example system behind HTTP tools: list, create, idempotent."""
    url = f"{sim.base}/_svc/work_orders"
    async with sim.http.get(url, params={"status": "open"}) as answer:
        assert (await answer.json())["total"] == 3
    ids = set()
    for _ in range(2):
        async with sim.http.post(url, json={"title": "换硬盘"}, headers={"Idempotency-Key": "k"}) as answer:
            ids.add((await answer.json())["id"])
    assert len(ids) == 1
    async with sim.http.post(url, json={}) as answer:
        assert answer.status == 422


async def test_demo_buttons(sim: Sim, tmp_path: Path) -> None:
    """The model's delay is a file; only a process that is a worker is killed."""
    sim.world.demo_dir = tmp_path
    assert (await sim.post("demo", model_delay_ms=8000))["model_delay_ms"] == 8000
    assert (tmp_path / "demo_model_delay_ms").read_text() == "8000"
    assert await _refusal(sim, "demo", {"kill": "worker"}) == (404, "worker is not running")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "worker.pid").write_text("1")
    status, _ = await _refusal(sim, "demo", {"kill": "worker"})
    assert status == 409


def test_accounts_are_read_from_every_form(tmp_path: Path) -> None:
    """A list, {"accounts"}, whole settings, a file; errors name what is missing."""
    one = '{"id": "m", "platform": "mp", "app_id": "wx1", "app_secret": "s", "callback_token": "t"}'
    file = tmp_path / "accounts.json"
    file.write_text(f'{{"tenants": [{{"accounts": [{one}]}}]}}')
    for source in (f"[{one}]", f'{{"accounts": [{one}]}}', str(file)):
        accounts = load_accounts(source, "http://127.0.0.1:1/")
        assert accounts["m"].callback_url == "http://127.0.0.1:1/callback/m"
    assert set(load_accounts(None, "http://x")) == {"wecom-main", "mp-main", "mp-sub"}
    with pytest.raises(AccountsError, match="app_id"):
        load_accounts('[{"id": "m", "platform": "mp"}]', "http://x")
    with pytest.raises(AccountsError, match="twice"):
        load_accounts(f"[{one}, {one}]", "http://x")


async def test_only_a_call_that_took_effect_has_an_unknown_outcome(sim: Sim) -> None:
    """send.unknown_outcome: a refused call is answered with its errcode; the fault waits for one that is accepted."""
    token = await sim.token()
    await sim.post("faults", name="accept_then_502", count=1)
    refused = await sim.api(f"message/send?access_token={token}", {"agentid": 1000002, "touser": "nobody", "msgtype": "text"})
    assert refused["errcode"] == 81013
    url = f"{sim.base}/cgi-bin/message/send?access_token={token}"
    body = {"agentid": 1000002, "touser": "zhangsan", "msgtype": "text", "text": {"content": "x"}}
    async with sim.http.post(url, json=body) as answer:
        assert answer.status == 502


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/_sim/inbox?account=wecom-main&user=zhangsan&after=--1", None, 400),
        ("GET", "/_sim/inbox?account=wecom-main&user=zhangsan&wait_s=soon", None, 400),
        ("GET", "/_sim/calls?after=²", None, 400),
        ("GET", "/_sim/feed?after=inf", None, 400),
        ("POST", "/_sim/click", '{"account": "wecom-main", "task_id": 1, "key": "k", "selected": [1]}', 404),
        ("POST", "/_sim/say", '{"account": "wecom-main", "text": "x", "copies": 1e999}', 400),
        ("POST", "/_svc/work_orders", "[]", 400),
        ("PATCH", "/_svc/work_orders/WO-1001", "not json", 400),
        ("PATCH", "/_svc/work_orders/WO-1001", '{"id": "WO-1"}', 400),
        ("PATCH", "/_svc/work_orders/WO-1001", '{"status": "closed"}', 200),
        ("POST", "/cgi-bin/webhook/send?key=12345678", '{"msgtype": "image", "image": {"base64": "?", "md5": "x"}}', 200),
    ],
)
async def test_what_is_malformed_is_refused_never_a_crash(
    sim: Sim, method: str, path: str, body: str | None, status: int
) -> None:
    async with sim.http.request(method, sim.base + path, data=body) as answer:
        assert answer.status == status, await answer.text()
        assert isinstance(await answer.json(content_type=None), dict | list)
