"""What ``yizhan up`` tells of a child that keeps ending."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.cli_up_run import _Progress


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
