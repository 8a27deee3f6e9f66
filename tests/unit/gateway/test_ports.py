"""How the addresses we listen on are called from this machine."""

from __future__ import annotations

import pytest

from config.schema import Listen
from gateway.ports import address


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8081"),
        ("0.0.0.0", "http://127.0.0.1:8081"),
        ("::", "http://[::1]:8081"),
        ("fd00::7", "http://[fd00::7]:8081"),
        ("gateway-1", "http://gateway-1:8081"),
    ],
)
def test_an_address_can_be_called(host: str, url: str) -> None:
    """CB-08: the doctor and ``up`` reach what listens everywhere, and IPv6."""
    assert address(Listen(host=host, port=8081)) == url
