"""HTTP tools reach the hosts the settings name and nothing else (N-20)."""

from __future__ import annotations

import pytest

from tools.egress import EgressFailed, EgressRefused, fetch, vet


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://localhost:9/x",
        "http://allowed.example:81/",
        "http://user:pw@127.0.0.1:8099/",
        "http://127.0.0.1:8098/",
        "http://127.0.0.1:8099.evil.example/",
        "file:///etc/passwd",
        "ftp://127.0.0.1:8099/",
        "gopher://127.0.0.1:8099/",
        "http:///x",
        "http://127.0.0.1:port/",
    ],
)
async def test_other_addresses_are_refused(url: str) -> None:
    """N-20: exact hosts and ports, plain http and https, no credentials in the URL."""
    with pytest.raises(EgressRefused):
        await vet(url, ["127.0.0.1:8099", "allowed.example:80"])


async def test_the_vetted_address_is_pinned() -> None:
    """N-20: the addresses are those of the check; the name is not resolved again."""
    vetted = await vet("http://127.0.0.1:8099/x", ["127.0.0.1:8099"])
    assert vetted.addresses == ("127.0.0.1",)


async def test_nothing_listens() -> None:
    """A refused connection is certain: nothing was sent."""
    with pytest.raises(EgressFailed) as failed:
        await fetch("POST", "http://127.0.0.1:9/", allow_hosts=["127.0.0.1:9"], json={})
    assert failed.value.sent is False
