"""The table of cases stays true: every test it names exists, every record of the case list is in it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.shared_data import shared_path

TESTS = Path(__file__).parents[1]
README = Path(__file__).with_name("README.md").read_text(encoding="utf-8")


def test_every_named_test_exists() -> None:
    """``file::function`` in the table is a function of that file."""
    named = re.findall(r"`(\w[\w/]*\.py)::(\w+)`", README)
    assert len(named) > 90
    sources = {file: (TESTS / file).read_text(encoding="utf-8") for file, _ in named}
    missing = [f"{file}::{name}" for file, name in named if not re.search(rf"def {name}\(", sources[file])]
    assert missing == []


def test_every_case_has_a_test() -> None:
    """No id of the case list is without a test."""
    path = shared_path("cases/channel_cases.tsv")
    if path is None:
        pytest.skip("the case list is not beside the checkout (YIZHAN_SHARED)")
    with path.open(encoding="utf-8") as file:
        ids = [row["id"] for row in csv.DictReader(file, delimiter="\t")]
    assert len(ids) > 90
    assert [i for i in ids if not re.search(rf"^\| {i} \| `", README, re.MULTILINE)] == []
