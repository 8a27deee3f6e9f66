"""What ``yizhan up`` tells of a child that keeps ending."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from config.settings import load
from gateway.cli_up_run import Plan, _Edited, _Progress


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("2026 # Invalid AOF manifest file format\n\n", "valkey：2026 # Invalid AOF manifest file format"),
        ('words\n{"action": "serve.stopped"}\n \n', "valkey：words"),
        ('{"action": "serve.stopped"}\n\n', None),
        ("", None),
    ],
)
def test_the_last_words_are_words(tmp_path: Path, log: str, told: str | None) -> None:
    """A blank line at the end of its log (Valkey's, over a damaged file) is none."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "valkey.log").write_text(log, "utf-8")
    plan = SimpleNamespace(settings=SimpleNamespace(data_dir=tmp_path))
    supervisor = SimpleNamespace(children=[SimpleNamespace(name="valkey", quick_exits=3)])
    assert _Progress(cast(Any, plan), cast(Any, supervisor), 0.0)._last_words() == told


def test_settings_that_are_edited_are_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad ones are told once; each change is worth one start, for whoever ends now may have read the file before it; with
    good settings that nobody touched a child that cannot run is believed."""
    file = tmp_path / "yizhan.yaml"
    file.write_text(f"data_dir: {tmp_path}\n")
    edited = _Edited(Plan(load(file, {}).settings, file, 0, {}))
    assert not edited()
    file.write_text("limits: [")
    assert edited()
    assert edited()
    assert capsys.readouterr().err.count("设置文件现在不能用") == 1
    file.unlink()
    assert edited()
    file.write_text(f"data_dir: {tmp_path}\nlog_level: INFO\n")
    assert edited()
    assert not edited()
