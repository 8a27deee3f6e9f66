"""``yizhan models`` and ``yizhan usage`` as an operator runs them, against a real server and a real database."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.clock import Clock
from gateway import cli
from tests.fakes.assistant import make_assistant, settings_for
from tests.fakes.model_server import Answer, ModelServer, Raw, body, broken, call, say


def able(request: Any) -> Answer:
    return call("get_time", {"city": "上海"}) if request.get("tools") else say("你好")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model server on a loop of its own, because the command runs one itself."""
    running = ModelServer(rule=able)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(running.start(), loop).result(10)
    yield running
    asyncio.run_coroutine_threadsafe(running.close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def config(folder: Path, *routes: dict[str, Any]) -> str:
    path = folder / "yizhan.yaml"
    path.write_text(json.dumps({"data_dir": str(folder / "data"), "models": list(routes)}), "utf-8")
    return str(path)


def route(url: str, name: str = "local", **extra: Any) -> dict[str, Any]:
    return {"name": name, "base_url": url, "model": "fake", "local": True, "api_key": "sk-canary", "timeout_s": 5, **extra}


def test_check_says_what_each_route_can_do(tmp_path: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    routes = (route(server.url, purposes=["chat", "transcribe"]), route("http://127.0.0.1:9/v1", "dead"))
    code = cli.main(["models", "check", "--json", "--config", config(tmp_path, *routes)])
    out = capsys.readouterr().out
    first, second = json.loads(out)
    assert code == 1
    assert {
        key: first[key] for key in ("usable", "reachable", "answers", "streams", "calls_tools", "transcribes", "knows_model")
    } == {
        "usable": True,
        "reachable": True,
        "answers": True,
        "streams": True,
        "calls_tools": True,
        "transcribes": True,
        "knows_model": True,
    }
    assert first["latency_ms"] is not None
    assert (second["usable"], second["reachable"]) == (False, False)
    assert second["trouble"]["chat"] == "model_connect"
    assert "canary" not in out


def test_check_in_words(tmp_path: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.rule = lambda request: broken("error_500_html")
    assert cli.main(["models", "check", "--config", config(tmp_path, route(server.url))]) == 1
    out = capsys.readouterr().out
    assert out.startswith("local  不可用")
    assert "chat：model_server" in out


NO_TOOLS = body({"error": {"message": "gemma3 does not support tools"}}, 400)
REPORTS: dict[str, tuple[dict[str, Any], Any, int, list[str]]] = {
    "all well": (
        {"models": [{"id": "fake", "max_model_len": 32768}]},
        able,
        0,
        ["local  可用", "模型存在：是", "回答：是", "流式：是", "工具调用：是", "上下文：32768 词元"],
    ),
    "ollama's latest": ({"models": [{"id": "fake:latest"}]}, able, 0, ["模型存在：是", "上下文：-"]),
    "another model": (
        {"models": [{"id": "qwen3"}]},
        lambda request: body({"error": "model not found"}, 404),
        1,
        ["local  不可用", "模型存在：否", "没通过：chat：model_no_model（HTTP 404）", "处理：服务端没有模型 fake", "它有 qwen3"],
    ),
    "a wrong key": (
        {},
        lambda request: body({"error": {"message": "sk-canary is wrong"}}, 401),
        1,
        ["连通：是", "回答：否", "chat：model_key（HTTP 401）", "处理：密钥不对或没有权限"],
    ),
    "a web page": (
        {},
        lambda request: Answer(raw=Raw((b"<html>",), content_type="text/html")),
        1,
        ["chat：model_bad_body", "处理：回的不是 OpenAI 格式"],
    ),
    "no tools": (
        {},
        lambda request: NO_TOOLS if request.get("tools") else say("你好"),
        0,
        ["local  可用", "工具调用：否", "tools：model_no_tools", "处理：没有打开工具调用：vLLM 加 --enable-auto-tool-choice"],
    ),
    "never calls": ({}, lambda request: say("现在三点"), 0, ["工具调用：否", "处理：模型没有按要求调用工具"]),
    "cannot stream": (
        {},
        lambda request: body({"message": "stream is not supported"}, 400) if request.get("stream") else able(request),
        0,
        ["流式：否", "工具调用：是", "处理：不能流式回答"],
    ),
    "reads little": (
        {"models": [{"id": "fake", "context_length": 4096}]},
        able,
        0,
        ["上下文：4096 词元", "处理：模型一次只读 4096 个词元，设置的 context_chars 是 24000"],
    ),
    "only thinks": ({}, lambda request: say("<think>嗯"), 1, ["chat：model_empty", "处理：答了但没有内容"]),
}


@pytest.mark.parametrize("name", REPORTS)
def test_check_says_what_to_do(tmp_path: Path, server: ModelServer, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Every line an operator needs, in words; no key; 0 only where the route does its work."""
    changes, server.rule, code, expected = REPORTS[name]
    for field, value in changes.items():
        setattr(server, field, value)
    assert cli.main(["models", "check", "--config", config(tmp_path, route(server.url))]) == code
    out = capsys.readouterr().out
    assert [line for line in expected if line not in out] == []
    assert "canary" not in out


def test_a_route_that_hangs_and_one_that_is_not_there(
    tmp_path: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.rule = lambda request: broken("hang")
    routes = (route(server.url), route("http://127.0.0.1:9/v1", "dead"))
    assert cli.main(["models", "check", "--timeout", "0.3", "--config", config(tmp_path, *routes)]) == 1
    out = capsys.readouterr().out
    assert "不回话或太慢" in out
    assert "连不上 http://127.0.0.1:9/v1" in out
    assert cli.main(["models", "check", "--timeout", "0", "--config", config(tmp_path, *routes)]) == 2


def test_addresses_are_shown_without_their_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = route("http://user:canary@127.0.0.1:9/v1?key=canary")
    for command in ("list", "check"):
        cli.main(["models", command, "--config", config(tmp_path, secret)])
        out = capsys.readouterr().out
        assert "http://127.0.0.1:9/v1?…" in out
        assert "canary" not in out


def test_list_and_no_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "list", "--config", config(tmp_path, route("http://127.0.0.1:9/v1"))]) == 0
    out = capsys.readouterr().out
    assert "local  fake" in out
    assert "canary" not in out
    assert cli.main(["models", "check", "--config", config(tmp_path)]) == 0
    assert "离线规则模型" in capsys.readouterr().out


def test_unknown_route(tmp_path: Path) -> None:
    assert cli.main(["models", "check", "nosuch", "--config", config(tmp_path)]) == 2


def test_usage_by_day_route_and_person(tmp_path: Path, server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    async def talk() -> None:
        settings = settings_for(folder, models=[route(server.url, price_in=2.0, price_out=8.0)])
        made = await make_assistant(folder, settings=settings, clock=Clock())
        server.rule = lambda request: say("好")
        await made.say("你好")
        await made.say("再见")
        await made.close()

    asyncio.run(talk())
    (folder / "agent.db").rename(folder / "yizhan.db")
    path = config(tmp_path, route(server.url))
    assert cli.main(["usage", "--json", "--by", "route,person", "--config", path]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["route"], row["person"], row["turns"]) == ("local", "wecom-main/zhangsan", 2)
    assert (row["prompt_tokens"], row["completion_tokens"], row["cost"]) == (200, 40, 0.00072)
    assert cli.main(["usage", "--config", path]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("日期")
    assert table[-1].startswith("合计")
    assert cli.main(["usage", "--by", "colour", "--config", path]) == 2


def test_usage_before_anything_happened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["usage", "--config", config(tmp_path)]) == 0
    assert "没有用量" in capsys.readouterr().out
