"""What the tests of the rule model share."""

from __future__ import annotations

import pytest

from memory.segment import Segmenter


@pytest.fixture(scope="session")
def segmenter(tmp_path_factory: pytest.TempPathFactory) -> Segmenter:
    return Segmenter(tmp_path_factory.mktemp("words"))
