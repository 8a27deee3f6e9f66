"""``yizhan menu pull|publish`` against the platform simulator: what was shown is saved, and can be put back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.demo import demo_accounts, simulator_accounts
from gateway.cli import main
from gateway.menus import MenuFault, pulled, read_menu
from scripts.simulator.accounts import parse_account
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World


class Place:
    """A settings file whose accounts live in a simulator."""

    def __init__(self, world: World, config: Path) -> None:
        self.world, self.config = world, config

    async def yizhan(self, *arguments: str) -> int:
        """A ``yizhan`` command with this file."""
        return await asyncio.to_thread(main, [*arguments, "--config", str(self.config)])

    def calls(self, path: str) -> int:
        """How often the platform was called at this path."""
        return sum(1 for call in self.world.log.calls if call["path"] == path)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """The demo's accounts in a running simulator."""
    accounts = [parse_account(raw, "http://127.0.0.1:1") for raw in simulator_accounts("")]
    world = World({account.id: account for account in accounts}, Timekeeper(None), "", None)
    async with serving(world) as base:
        world.menus.clear()
        config = tmp_path / "yizhan.yaml"
        tenants = [{"id": "acme", "accounts": demo_accounts(base)}]
        config.write_text(json.dumps({"data_dir": str(tmp_path / "data"), "tenants": tenants}))
        yield Place(world, config)


async def test_evt_04_pull_saves_menu_and_replies_and_publish_puts_the_menu_back(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """EVT-04: the own menu and automatic replies are saved before server mode disables them; publish calls menu/create once."""
    assert await place.yizhan("menu", "pull", "mp-main") == 0
    file = place.config.parent / "data" / "menus" / "mp-main.yaml"
    assert str(file) in capsys.readouterr().out
    assert file.stat().st_mode & 0o777 == 0o600
    saved = yaml.safe_load(file.read_text())
    assert saved["menu"]["button"] == [
        {"name": "产品", "sub_button": [{"type": "view", "name": "官网", "url": "https://example.com/"}]},
        {"type": "click", "name": "联系我们", "key": "menu-1"},
    ]
    assert saved["replies"] == {"menu-1": "工作日 9:00 到 18:00 在线", "营业时间": "每天 9:00 到 21:00"}
    assert saved["welcome_text"] == "欢迎关注"
    assert saved["original"]["menu"]["is_menu_open"] == 1
    assert await place.yizhan("menu", "publish", "mp-main", str(file)) == 0
    assert place.world.menus["mp-main"] == saved["menu"]
    assert place.calls("/cgi-bin/menu/create") == 1


async def test_pull_does_not_overwrite(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The first copy is the precious one; --force replaces it."""
    file = place.config.parent / "saved.yaml"
    file.write_text("mine\n")
    assert await place.yizhan("menu", "pull", "mp-main", str(file)) == 1
    assert file.read_text() == "mine\n"
    assert await place.yizhan("menu", "pull", "mp-main", str(file), "--force") == 0
    assert yaml.safe_load(file.read_text())["menu"]["button"]
    assert "没有覆盖" in capsys.readouterr().err


async def test_wecom_menu(place: Place) -> None:
    """A WeCom app: nothing to pull yet gives an empty menu; one that was published is pulled as it is."""
    file = place.config.parent / "wecom.yaml"
    assert await place.yizhan("menu", "pull", "wecom-main", str(file)) == 0
    assert yaml.safe_load(file.read_text())["menu"] == {"button": []}
    menu = {"button": [{"type": "click", "name": "帮助", "key": "帮助"}]}
    file.write_text(json.dumps({"menu": menu}))
    assert await place.yizhan("menu", "push", "wecom-main", str(file)) == 0
    assert place.world.menus["wecom-main"] == menu


async def test_the_platforms_no_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """An unverified account may not set menus: the number and the platform's words are printed, exit code 1."""
    file = place.config.parent / "menu.json"
    file.write_text(json.dumps({"button": [{"type": "click", "name": "帮助", "key": "help"}]}))
    assert await place.yizhan("menu", "publish", "mp-sub", str(file)) == 1
    assert "平台答 48001" in capsys.readouterr().err
    assert await place.yizhan("menu", "publish", "nobody", str(file)) == 2
    assert await place.yizhan("menu", "publish", "mp-main", str(file) + ".missing") == 2


@pytest.mark.parametrize(
    ("menu", "said"),
    [
        ({"button": []}, "1 到 3 个"),
        ({"button": [{"name": "a", "type": "click", "key": "k"}] * 4}, "1 到 3 个"),
        ({"button": [{"name": "a", "sub_button": [{"name": "b", "type": "click", "key": "k"}] * 6}]}, "最多 5 个"),
        ({"button": [{"name": "a", "type": "click"}]}, "要有 key"),
        ({"button": [{"name": "a", "type": "view"}]}, "要有 url"),
        ({"button": [{"type": "click", "key": "k"}]}, "没有 name"),
        ({"button": [{"name": "a", "type": "dance", "key": "k"}]}, "type 不认识：dance"),
        ({"button": ["a"]}, "不是一组键和值"),
        ({"buttons": []}, "没有 menu.button"),
        ([], "没有 menu.button"),
    ],
)
def test_faults_are_told_before_anything_is_sent(menu: Any, said: str) -> None:
    """Each fault names the place in the operator's words."""
    with pytest.raises(MenuFault, match=said):
        read_menu(json.dumps(menu))


def test_website_buttons_become_publishable() -> None:
    """Every kind of button of the website's own menu editor can be published again."""
    reported = {
        "selfmenu_info": {
            "button": [
                {"type": "img", "name": "图", "value": "MEDIA1"},
                {"type": "news", "name": "文", "value": "N1", "news_info": {"list": [{"content_url": "http://mp.example/1"}]}},
                {"name": "更多", "sub_button": {"list": [{"type": "video", "name": "片", "value": "http://v.example/1"}]}},
            ]
        }
    }
    text = pulled("mp-main", "2026-01-01 00:00", reported, None)
    assert read_menu(text) == {
        "button": [
            {"type": "media_id", "name": "图", "media_id": "MEDIA1"},
            {"type": "view", "name": "文", "url": "http://mp.example/1"},
            {"name": "更多", "sub_button": [{"type": "view", "name": "片", "url": "http://v.example/1"}]},
        ]
    }
