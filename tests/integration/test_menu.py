"""``yizhan menu pull|publish`` against the platform simulator: what was shown is saved, and can be put back."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.demo import demo_accounts, simulator_accounts
from gateway.cli import main
from gateway.menus import MenuFault, read_menu
from scripts.simulator.accounts import parse_account
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World

ROOT = Path(__file__).resolve().parents[2]


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
        {"type": "click", "name": "联系我们", "key": "text:联系我们"},
    ]
    assert saved["replies"] == {"text:联系我们": "工作日 9:00 到 18:00 在线", "营业时间": "每天 9:00 到 21:00"}
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
        ({"button": []}, "expected 1 to 3 buttons"),
        ({"button": [{"name": "a", "type": "click"}]}, "button/0/key: missing"),
        ({"buttons": []}, "没有 menu.button"),
        ([], "没有 menu.button"),
    ],
)
def test_faults_are_told_before_anything_is_sent(menu: Any, said: str) -> None:
    """A file that the platform would refuse is refused here, with the place of each fault."""
    with pytest.raises(MenuFault, match=said):
        read_menu(json.dumps(menu))


def test_not_yaml() -> None:
    """A broken file names its line."""
    with pytest.raises(MenuFault, match="第 2 行"):
        read_menu("menu:\n\tbutton: []\n")


def test_a_refused_token_is_told_in_words_only(tmp_path: Path) -> None:
    """What an operator's command says on the terminal is for people: no event lines around it, corrected settings too."""
    account = demo_accounts("http://127.0.0.1:9")[1] | {"app_secret": " padded-secret "}
    config = tmp_path / "yizhan.yaml"
    config.write_text(json.dumps({"data_dir": str(tmp_path / "data"), "tenants": [{"id": "acme", "accounts": [account]}]}))
    command = [sys.executable, "-m", "gateway.cli", "menu", "pull", account["id"], "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1
    told = done.stderr.splitlines()
    assert [line for line in told if line.startswith("{")] == []
    assert told[0].startswith(f"设置：账号 {account['id']}：app_secret")
    assert told[1].startswith("没有成功（menu_refused）：读")
    assert len(told) == 2
