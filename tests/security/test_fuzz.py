"""Malformed callbacks: whatever a client sends is answered with a typed 4xx, never an exception."""

from __future__ import annotations

import json

import pytest

from scripts.bench.fuzz import main


@pytest.mark.parametrize("seed", [1, 20261130])
def test_malformed_callbacks_are_only_ever_refused(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """CB-07: a few thousand from two seeds; the long run is ``python -m scripts.bench fuzz``."""
    code = main(["--count", "3000", "--seed", str(seed)])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["errors"] == {}
    assert code == 0
    assert sum(report["outcomes"].values()) == 3000
    refused = {outcome.split()[-1] for outcome in report["outcomes"]}
    assert {"bad_signature", "bad_xml", "bad_json", "missing_parameter", "bad_padding", "too_large", "200"} <= refused
