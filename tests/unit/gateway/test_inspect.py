"""``yizhan inspect``: one JSON object a line and file, in order, without a service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from tests.shared_data import shared_json

FIXTURES = Path(__file__).parents[2] / "fixtures" / "callbacks"
ACCOUNTS = [
    {"id": "wecom-main", "platform": "wecom", "corp_id": "ww0123456789abcdef", "agent_id": 7, "secret": "s3cr3t-s3cr3t"},
    {"id": "mp-main", "platform": "mp", "app_id": "wx0123456789abcdef", "app_secret": "s3cr3t-s3cr3t", "original_id": "gh_other"},
]
KEYS = {"callback_token": "abc", "encoding_aes_key": "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "yizhan.yaml"
    accounts = [{**account, **KEYS} for account in ACCOUNTS]
    path.write_text(json.dumps({"data_dir": str(tmp_path / "data"), "tenants": [{"id": "acme", "accounts": accounts}]}), "utf-8")
    return path


def _inspect(capsys: pytest.CaptureFixture[str], settings: Path, account: str, *files: Path) -> tuple[int, list[dict[str, Any]]]:
    code = main(["inspect", "--config", str(settings), account, *map(str, files)])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_line_a_file_in_order(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No recipient checks: the AgentID of the payloads is another app's."""
    files = (FIXTURES / "wecom_vote_card.xml", FIXTURES / "wecom_voice_note.xml")
    code, (card, voice) = _inspect(capsys, settings, "wecom-main", *files)
    assert code == 0
    assert (card["file"], voice["file"]) == tuple(map(str, files))
    assert (card["event"]["name"], card["event"]["key"], card["event"]["task_id"]) == ("card_click", "pa1|confirm ", "task-1")
    assert card["fields"]["SelectedItems"]["SelectedItem"]["OptionIds"]["OptionId"] == ["rice", "noodles"]
    assert (voice["user_id"], voice["kind"], voice["fields"]["MsgId"]) == ("0020001", "voice", "7300000000000000001")


def test_json_is_recognized_and_numbers_stay(settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "payload"
    bare.write_bytes(b"\xef\xbb\xbf\n" + (FIXTURES / "mp_scan.json").read_bytes())
    code, (named, sniffed) = _inspect(capsys, settings, "mp-main", FIXTURES / "mp_scan.json", bare)
    assert code == 0
    assert named["fields"] == sniffed["fields"]
    assert (named["event"]["name"], named["fields"]["EventKey"]) == ("scan", 4711)


def test_a_refusal_is_a_line_too(settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = (FIXTURES / "refused_entity.xml", tmp_path / "missing.xml", tmp_path, FIXTURES / "wecom_voice_note.xml")
    code, lines = _inspect(capsys, settings, "wecom-main", *files)
    assert code == 1
    assert [line.get("error") for line in lines] == ["bad_xml", "unreadable", "unreadable", None]
    assert all(line["message"] for line in lines[:3])


def test_an_unknown_account_is_a_usage_error(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--config", str(settings), "nobody", str(FIXTURES / "mp_scan.json")]) == 2
    assert capsys.readouterr().err == "设置里没有账号 nobody；有的是：wecom-main、mp-main\n"


def test_every_record_of_the_platform_data(settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = shared_json("protocol/inbound_messages.json")["messages"]
    files = []
    for record in records:
        path = tmp_path / f"{record['id']}.{record['format']}"
        path.write_bytes(record["raw"].encode())
        files.append(path)
    code, lines = _inspect(capsys, settings, "wecom-main", *files)
    assert (code, len(lines)) == (1, len(records))
    for record, line in zip(records, lines, strict=True):
        assert ("error" in line) == (record["parse"] == "error")
        for name, value in record["expect"].items():
            assert line["fields"][name] == value
