"""Concurrent clickers in two processes, and kill -9 between confirm and result (the bench at a small size)."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.bench.confirm import kills, race


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'yizhan.db'}"
    return str(request.getfixturevalue("postgres_url"))


def test_exactly_one_execution_each(url: str, tmp_path: Path) -> None:
    """C12 C15 C16 C17 G-01: 16 clickers, two processes, foreign users and changed digests among them."""
    found = race(url, tmp_path, actions=6, clickers=16)
    assert found["ok"], found


def test_kill_between_confirm_and_result(tmp_path: Path) -> None:
    """C24 N-27: nothing runs twice; what is told is true; what nobody can know is reported as unknown."""
    found = kills(f"sqlite:///{tmp_path / 'yizhan.db'}", tmp_path, actions=9, clickers=2, deaths=2)
    assert found["ok"], found
