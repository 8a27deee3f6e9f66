"""``yizhan init`` and ``yizhan connect``: a first file, then each step of the first connection ticked off as it happens."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from config.clock import Clock
from config.columns import table_of
from config.database import open_database
from config.demo import demo_accounts, simulator_accounts
from config.errors import Refused, SettingsError
from config.schema import Settings
from config.settings import load_settings
from gateway.account_file import complete_account, new_aes_key, new_token
from gateway.account_state import record_capability
from gateway.cli import main
from gateway.cli_connect import render
from gateway.connect import Facts, backup_file, look_inside, look_outside, steps
from gateway.envelope import aes_key
from gateway.migrate import upgrade
from gateway.models import Inbound, OutboxMessage
from scripts.simulator.accounts import parse_account
from scripts.simulator.app import serving
from scripts.simulator.timekeeper import Timekeeper
from scripts.simulator.world import World

WHERE = {"tenant_id": "acme", "conversation_id": "c1", "user_id": "zhangsan"}
INBOUND = {"key": "k1", "kind": "text", "lane": "turn", "status": "done", "deliveries": 1, "attempts": 0, "deaths": 0}
INBOUND |= {"stop_requested": False, "sent_at_ms": 1, "received_at_ms": 1}
OUTBOX = {"idempotency_key": "p1", "cause": "push", "cause_id": "p", "group_id": "g", "part": 0, "parts": 1, "final": False}
OUTBOX |= {"kind": "text", "status": "sent", "via": "push", "duplicate_check": False, "attempts": 1, "repeats": 0, "fence": 0}
OUTBOX |= {"created_at_ms": 1, "sent_at_ms": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of an operator who begins."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("YIZHAN_CONFIG", raising=False)
    return tmp_path


def test_init_writes_a_file_that_loads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only its owner may read it, every account has a token and a key, and the next step is told."""
    assert main(["init", "--platform", "both", "--public-url", "https://bot.example.com"]) == 0
    assert stat.S_IMODE((folder / "yizhan.yaml").stat().st_mode) == 0o600
    settings = load_settings()
    assert [account.id for account in settings.tenants[0].accounts] == ["wecom-main", "mp-main"]
    assert settings.http.public_url == "https://bot.example.com"
    assert "yizhan connect wecom-main，再 yizhan connect mp-main" in capsys.readouterr().out


def test_init_never_overwrites(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is there stays as it is, whatever is in it; so do values that would not load."""
    (folder / "yizhan.yaml").write_text("mine: yes\n")
    assert main(["init"]) == 1
    assert (folder / "yizhan.yaml").read_text() == "mine: yes\n"
    assert "没有改动它" in capsys.readouterr().err
    assert main(["init", "--config", "other.yaml", "--corp-id", "nonsense"]) == 2
    assert not (folder / "other.yaml").exists()


def test_generated_values_are_what_the_platforms_take() -> None:
    """A token of 1 to 32 letters and digits, a key of 43 that decodes to 32 bytes; never the same twice."""
    tokens, keys = {new_token() for _ in range(50)}, {new_aes_key() for _ in range(50)}
    assert len(tokens) == len(keys) == 50
    assert all(token.isalnum() and len(token) <= 32 for token in tokens)
    assert all(len(aes_key(key)) == 32 for key in keys)


@pytest.mark.parametrize(
    "account",
    [
        pytest.param("      - id: wecom-main  # ours\n        platform: wecom\n", id="block"),
        pytest.param("      - {id: wecom-main, platform: wecom}\n", id="flow"),
        pytest.param('      - id: wecom-main\n        callback_token: ""\n        encoding_aes_key:\n', id="empty"),
        pytest.param("      - id: wecom-main\n        callback_token: null\n        encoding_aes_key: ~  # later\n", id="null"),
    ],
)
def test_missing_token_and_key_are_written_into_the_file(tmp_path: Path, account: str) -> None:
    """Both are added once, in the file's own style; comments and everything else stay."""
    import yaml

    file = tmp_path / "yizhan.yaml"
    file.write_text(f"# my settings\ntenants:\n  - id: acme\n    accounts:\n{account}      - id: other\n")
    os.chmod(file, 0o640)
    assert complete_account(file, "wecom-main") == ["callback_token", "encoding_aes_key"]
    text = file.read_text()
    (first, second) = yaml.safe_load(text)["tenants"][0]["accounts"]
    assert first["id"] == "wecom-main"
    assert len(first["encoding_aes_key"]) == 43
    assert first["callback_token"].isalnum()
    assert second == {"id": "other"}
    assert text.startswith("# my settings\n")
    assert ("# ours" in text) == ("# ours" in account)
    assert ("# later" in text) == ("# later" in account)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert complete_account(file, "wecom-main") == []
    assert file.read_text() == text
    with pytest.raises(SettingsError):
        complete_account(file, "nobody")


async def _steps(settings: Settings, account_id: str, old: Facts | None = None) -> list[Any]:
    database = open_database(settings.sqlalchemy_url)
    account = settings.account(account_id)
    if account is None:
        raise Refused(account_id)
    try:
        async with aiohttp.ClientSession() as session:
            facts = await look_outside(settings, account, session, Clock(), old or Facts())
            return steps(settings, account, await look_inside(settings, account, database, facts))
    finally:
        await database.close()


async def test_steps_are_ticked_off_as_they_happen(tmp_path: Path) -> None:
    """WeCom: callback first, trusted address, first message, first push; each becomes done when it happened."""
    url = f"sqlite:///{tmp_path / 'yizhan.db'}"
    accounts = [parse_account(raw, "http://127.0.0.1:1") for raw in simulator_accounts("")]
    world = World({account.id: account for account in accounts}, Timekeeper(None), "", None)
    async with serving(world) as base:
        tenants = [{"id": "acme", "accounts": demo_accounts(base)}]
        http = {"public_url": "https://bot.example.com"}
        settings = Settings.model_validate({"data_dir": tmp_path, "http": http, "tenants": tenants})
        world.faults.set({"fault": "ip_blocked", "account": "wecom-main"})
        found = await _steps(settings, "wecom-main")
        assert [step.name for step in found] == ["service", "callback", "ip", "message", "push"]
        assert not any(step.done for step in found)
        text = render(found)
        assert "URL             https://bot.example.com/callback/wecom-main" in text
        assert f"Token           {settings.tenants[0].accounts[0].callback_token}" in text
        assert "（平台看到的是 203.0.113.7）" in text
        assert "60020" in text
        world.faults.clear()
        upgrade(url)
        database = open_database(url)
        row = WHERE | INBOUND | {"account_id": "wecom-main"}
        await database.write(lambda c: c.execute(table_of(Inbound).insert().values(**row)))
        found = await _steps(settings, "wecom-main")
        assert [step.name for step in found if step.done] == ["callback", "ip", "message"]
        assert found[-1].how == "运行：yizhan push --account wecom-main --user zhangsan 连上了"
        sent = WHERE | OUTBOX | {"account_id": "wecom-main"}
        await database.write(lambda c: c.execute(table_of(OutboxMessage).insert().values(**sent)))
        await database.close()
        assert [step.name for step in await _steps(settings, "wecom-main") if not step.done] == ["service"]


async def test_official_account_saves_its_menu_first(tmp_path: Path) -> None:
    """EVT-04: the warning that server mode switches the own menu off comes before the step that does it."""
    url = f"sqlite:///{tmp_path / 'yizhan.db'}"
    upgrade(url)
    tenants = [{"id": "acme", "accounts": demo_accounts("http://127.0.0.1:1")}]
    settings = Settings.model_validate({"data_dir": tmp_path, "tenants": tenants})
    found = await _steps(settings, "mp-sub")
    names = [step.name for step in found]
    assert names.index("backup") < names.index("callback")
    backup = found[names.index("backup")]
    assert not backup.done
    assert "自定义菜单和自动回复失效" in backup.how
    assert "yizhan menu pull mp-sub" in backup.how
    backup_file(settings, "mp-sub").parent.mkdir()
    backup_file(settings, "mp-sub").write_text("menu: {}\n")
    database = open_database(url)
    await database.write(lambda c: record_capability(c, "mp-sub", "acme", "pull", 1))
    await database.close()
    assert [step.name for step in await _steps(settings, "mp-sub") if step.done] == ["backup", "push"]


async def test_the_command_watches(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It prints the list, then a tick when a step is done, and gives up at its time limit with exit code 1."""
    account = demo_accounts("http://127.0.0.1:1")[0]
    (folder / "yizhan.yaml").write_text(json.dumps({"tenants": [{"id": "acme", "accounts": [account]}]}))
    assert await asyncio.to_thread(main, ["connect", "wecom-main", "--once"]) == 1
    assert "还有 5 步没有完成" in capfd.readouterr().out
    url = f"sqlite:///{folder / 'data' / 'yizhan.db'}"
    upgrade(url)
    watching = asyncio.create_task(asyncio.to_thread(main, ["connect", "wecom-main", "--timeout", "4"]))
    database = open_database(url)
    told = ""
    while "自动打勾" not in told and not watching.done():
        told += capfd.readouterr().out
        await asyncio.sleep(0.02)
    row = WHERE | INBOUND | {"account_id": "wecom-main"}
    await database.write(lambda c: c.execute(table_of(Inbound).insert().values(**row)))
    assert await watching == 1
    await database.close()
    told += capfd.readouterr().out
    assert "[✓] 收到第一条消息" in told
    assert "还有 3 步没有完成" in told


def test_unknown_account(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Says which accounts there are; exit code 2."""
    (folder / "yizhan.yaml").write_text(json.dumps({"tenants": [{"id": "acme", "accounts": demo_accounts("http://x")[:1]}]}))
    assert main(["connect", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
