"""Both channels against the simulator: every kind of message arrives as it was meant."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.protocol import Reply
from config.clock import Clock
from config.demo import MP_MAIN_OPEN_ID, MP_SUB_OPEN_ID, simulator_accounts
from config.schema import MpAccount, Settings, Tenant, WecomAccount
from gateway.channel import SendOutcome, Target
from gateway.channels import open_channels
from gateway.errors import Action, action_for
from gateway.split import strip_label
from scripts.simulator.accounts import parse_account
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World


class Scene:
    """The simulator, the channels of its accounts, and what its people have seen."""

    def __init__(self, base: str, http: aiohttp.ClientSession, session: aiohttp.ClientSession, folder: Path) -> None:
        self.base, self.http = base, http
        self.settings = Settings(
            data_dir=folder, tenants=(Tenant(id="demo", accounts=tuple(_account(raw, base) for raw in simulator_accounts(""))),)
        )
        self.channels = open_channels(self.settings, session, None, Clock())

    async def send(self, account: str, reply: Reply, user: str, *, key: str = "k1", check: bool = True) -> list[SendOutcome]:
        """Render, freeze and send every part."""
        channel = self.channels.by_account[account]
        outcomes = []
        for number, part in enumerate(channel.render(reply)):
            target = Target(users=(user,))
            body = await channel.freeze(part, target, duplicate_check=check, key=f"{key}:{number}")
            outcomes.append(await channel.send(part.kind, body, target=target))
        return outcomes

    async def say(self, account: str, user: str) -> None:
        """The person writes, so that customer-service messages may be sent (nobody answers the callback)."""
        said = {"account": account, "user": user, "text": "你好"}
        async with self.http.post(f"{self.base}/_sim/say", json=said) as answer:
            assert answer.status == 200, await answer.text()

    async def inbox(self, account: str, user: str) -> list[dict[str, Any]]:
        """What the person has seen."""
        query = {"account": account, "user": user}
        async with self.http.get(f"{self.base}/_sim/inbox", params=query) as answer:
            data = await answer.json()
            found: list[dict[str, Any]] = data["messages"] if isinstance(data, dict) else data
            return found


def _account(raw: dict[str, Any], base: str) -> WecomAccount | MpAccount:
    known = WecomAccount.model_fields if raw["platform"] == "wecom" else MpAccount.model_fields
    values = {**{name: value for name, value in raw.items() if name in known}, "api_base": base}
    return WecomAccount(**values) if raw["platform"] == "wecom" else MpAccount(**values)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    accounts = {raw["id"]: parse_account(raw, "http://127.0.0.1:9") for raw in simulator_accounts("")}
    world = World(accounts, Timekeeper(tmp_path / "clock"), "start", callback_timeout_s=0.2)
    async with (
        serving(world) as base,
        aiohttp.ClientSession(headers={"X-Sim-Token": "start"}) as http,
        aiohttp.ClientSession() as session,
    ):
        made = Scene(base, http, session, tmp_path)
        yield made


async def test_text_markdown_and_long_answers_arrive(scene: Scene) -> None:
    """FMT-01, FMT-08: nothing is cut by the platform; raw UTF-8 arrives as written."""
    long = "第一句话说完了。" * 120
    await scene.say("mp-main", MP_MAIN_OPEN_ID)
    for account, user in (("wecom-main", "zhangsan"), ("mp-main", MP_MAIN_OPEN_ID)):
        outcomes = await scene.send(account, Reply(text=long, source="tool"), user)
        assert [outcome.errcode for outcome in outcomes] == [0, 0]
        texts = [entry["text"] for entry in await scene.inbox(account, user) if entry["via"] == "push"]
        assert "".join(strip_label(text) for text in texts) == long


async def test_the_duplicate_check_recognizes_the_same_bytes(scene: Scene) -> None:
    """The platform answers 0 and shows it once; without the check it is shown again."""
    for key, check in (("a", True), ("a", True), ("a", False)):
        (outcome,) = await scene.send("wecom-main", Reply(text="一样的话"), "zhangsan", key=key, check=check)
        assert outcome.errcode == 0
    shown = [entry for entry in await scene.inbox("wecom-main", "zhangsan") if entry["text"] == "一样的话"]
    assert len(shown) == 2


async def test_a_card_arrives_is_recognized_and_updated(scene: Scene) -> None:
    """The same key gives the same task_id, which the platform refuses the second time (42014: it was delivered)."""
    data = {
        "title": "请确认",
        "rows": [["标题", "重启"]],
        "buttons": [{"text": "确认", "key": "k1"}, {"text": "取消", "key": "k2"}],
    }
    reply = Reply(text="请确认：重启", kind="template_card", data=data)
    (first,) = await scene.send("wecom-main", reply, "zhangsan", check=False)
    assert first.errcode == 0
    assert first.response_code
    (second,) = await scene.send("wecom-main", reply, "zhangsan", check=False)
    assert second.errcode == 42014
    assert action_for("wecom", 42014, "repeat") is Action.ok
    update = Reply(kind="card_update", data={"response_code": first.response_code, "replace_name": "已确认"})
    (done,) = await scene.send("wecom-main", update, "zhangsan")
    assert done.errcode == 0
    (again,) = await scene.send("wecom-main", update, "zhangsan")
    assert again.errcode == 60140


async def test_media_news_and_menus_arrive(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "周报.txt"
    file.write_bytes("正文正文".encode())
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 64)
    news = {"articles": [{"title": "标题", "url": "https://example.com/1", "description": "述"}]}
    await scene.say("mp-main", MP_MAIN_OPEN_ID)
    for account, user, replies in (
        (
            "wecom-main",
            "zhangsan",
            [
                Reply(kind="file", data={"path": str(file)}),
                Reply(kind="image", data={"path": str(picture)}),
                Reply(kind="news", data=news),
            ],
        ),
        (
            "mp-main",
            MP_MAIN_OPEN_ID,
            [
                Reply(kind="image", data={"path": str(picture)}),
                Reply(kind="news", data=news),
                Reply(text="选", kind="msgmenu", data={"head": "选一个", "items": [{"id": "1", "content": "好"}]}),
            ],
        ),
    ):
        for reply in replies:
            assert [outcome.errcode for outcome in await scene.send(account, reply, user)] == [0]
        kinds = [entry["kind"] for entry in await scene.inbox(account, user) if entry["via"] == "push"]
        assert kinds == [reply.kind for reply in replies]


async def test_an_unverified_account_is_pull(scene: Scene) -> None:
    """48001 from the probe and from a send."""
    assert await scene.channels.by_account["mp-sub"].probe() == "pull"
    assert await scene.channels.by_account["mp-main"].probe() == "push"
    assert await scene.channels.by_account["wecom-main"].probe() == "push"
    (outcome,) = await scene.send("mp-sub", Reply(text="好"), MP_SUB_OPEN_ID)
    assert outcome.errcode == 48001


async def test_an_unknown_member_is_named(scene: Scene) -> None:
    """DEL-12: one of two; and 81013 when there is nobody."""
    channel = scene.channels.by_account["wecom-main"]
    part = channel.render(Reply(text="通知"))[0]
    target = Target(users=("zhangsan", "ghost"))
    outcome = await channel.send("text", await channel.freeze(part, target, duplicate_check=False, key="k"), target=target)
    assert (outcome.errcode, outcome.invalid_users) == (0, ("ghost",))
    (alone,) = await scene.send("wecom-main", Reply(text="x"), "ghost")
    assert alone.errcode == 81013


async def test_a_template_message_is_sent(scene: Scene) -> None:
    data = {"template_id": "ngqIpbwh8bUfcSsECmogfXcV14J0tQlEpBO27izEYtY", "data": {"keyword1": "巧克力"}}
    (outcome,) = await scene.send("mp-main", Reply(kind="template", data=data), MP_MAIN_OPEN_ID)
    assert (outcome.errcode, bool(outcome.platform_id)) == (0, True)


async def test_menus_can_be_published_and_read(scene: Scene) -> None:
    menu = {"button": [{"type": "click", "name": "帮助", "key": "help"}]}
    for account in ("wecom-main", "mp-main"):
        client = scene.channels.clients[account]
        assert (await client.create_menu(menu)).errcode == 0
        answer = await client.get_menu()
        assert answer.ok
        assert "帮助" in json.dumps(dict(answer.data), ensure_ascii=False)
        assert (await client.delete_menu()).ok
        assert (await client.callback_ips()).ok
