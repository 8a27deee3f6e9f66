"""Cases an operator meets: values pasted with blanks, a proxy in the way, an error nobody sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from config.columns import table_of
from config.database import open_database
from config.demo import demo_accounts
from config.errors import SettingsError
from config.settings import load
from gateway.cli import main
from gateway.migrate import upgrade
from gateway.models import OutboxMessage

KEY = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"


def _file(folder: Path, **account: Any) -> Path:
    """A settings file with one WeCom account, changed by ``account``."""
    file = folder / "yizhan.yaml"
    accounts = [{**demo_accounts("http://127.0.0.1:1")[0], **account}]
    file.write_text(json.dumps({"data_dir": str(folder / "data"), "tenants": [{"id": "acme", "accounts": accounts}]}))
    return file


@asynccontextmanager
async def _front_end() -> AsyncIterator[str]:
    """A web server that answers every path with its start page."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><html><body><div id=app></div></body></html>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def test_cb_06(tmp_path: Path) -> None:
    """CB-06: a key with a trailing newline is taken; one of 42 characters is an error that names account, field, length and
    where it was read, and masks the value."""
    loaded = load(_file(tmp_path, encoding_aes_key=f"{KEY}\n"), {})
    (account,) = loaded.settings.tenants[0].accounts
    assert account.encoding_aes_key is not None
    assert account.encoding_aes_key.get_secret_value() == KEY
    with pytest.raises(SettingsError) as error:
        load(_file(tmp_path, encoding_aes_key=KEY[:42]), {})
    told = str(error.value)
    for part in ("账号 wecom-main：encoding_aes_key", "43", "42", "yizhan.yaml:1"):
        assert part in told
    assert KEY[:42] not in told


async def test_cb_08(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CB-08: ``doctor --public-url`` against a front end says that the proxy sends the callback to a web page."""
    file = _file(tmp_path)
    async with _front_end() as url:
        code = await asyncio.to_thread(main, ["doctor", "--config", str(file), "--public-url", url])
    assert code == 1
    told = capsys.readouterr().out
    assert f"proxy sends the callback to a web page）：{url}/callback/wecom-main" in told
    assert "在反向代理里把路径 /callback/ 原样转给 127.0.0.1:8080" in told


def test_cb_19(tmp_path: Path) -> None:
    """CB-19: blanks around a pasted corp_id are removed, with a warning that names account and field."""
    loaded = load(_file(tmp_path, corp_id=" ww0123456789abcdef "), {})
    assert getattr(loaded.settings.tenants[0].accounts[0], "corp_id", None) == "ww0123456789abcdef"
    assert [warning.split("：去掉")[0] for warning in loaded.warnings] == ["账号 wecom-main：corp_id"]


async def test_del_03(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """DEL-03: a send that the platform refused is in the operator's list with errcode and the platform's words."""
    file = _file(tmp_path)
    url = f"sqlite:///{tmp_path / 'data' / 'yizhan.db'}"
    upgrade(url)
    row = {"tenant_id": "acme", "account_id": "wecom-main", "conversation_id": "c1", "user_id": "zhangsan", "seq": 1}
    row |= {"idempotency_key": "k", "cause": "push", "cause_id": "p", "group_id": "g", "part": 0, "parts": 1, "final": False}
    row |= {"kind": "text", "status": "parked", "park_reason": "operator", "attempts": 1, "repeats": 0, "fence": 0}
    row |= {"errcode": 60020, "errmsg": "not allow to access from your ip", "duplicate_check": True, "created_at_ms": 1}
    row |= {"next_attempt_at_ms": 9_000_000_000_000}
    database = open_database(url)
    await database.write(lambda c: c.execute(table_of(OutboxMessage).insert().values(**row)))
    await database.close()
    assert await asyncio.to_thread(main, ["outbox", "list", "--config", str(file)]) == 0
    assert "60020 出口 IP 不在企业可信 IP 里" in capsys.readouterr().out
    assert await asyncio.to_thread(main, ["trace", "g", "--config", str(file)]) == 0
    assert "平台答 60020：not allow to access from your ip" in capsys.readouterr().out
