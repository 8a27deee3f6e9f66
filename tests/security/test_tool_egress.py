"""HTTP tools reach the hosts the settings name and nothing else (N-20)."""

from __future__ import annotations

import pytest
from yarl import URL

from tools.egress import Egress, EgressFailed, EgressRefused, carried


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
        await Egress(["127.0.0.1:8099", "allowed.example:80"], inside=True).vet(url)


async def test_the_vetted_address_is_pinned() -> None:
    """N-20: the addresses are those of the check; the name is not resolved again."""
    vetted = await Egress(["127.0.0.1:8099"], inside=True).vet("http://127.0.0.1:8099/x")
    assert vetted.addresses == ("127.0.0.1",)


async def test_nothing_listens() -> None:
    """A refused connection is certain: nothing was sent."""
    with pytest.raises(EgressFailed) as failed:
        await Egress(["127.0.0.1:9"], inside=True).call("POST", "http://127.0.0.1:9/", json={})
    assert failed.value.sent is False


async def test_n_20_words_of_a_person_do_not_open_the_inside_of_a_tools_egress() -> None:
    """N-20: only what the operator listed may be inside; a verbatim URL must be public whichever egress reads it."""
    url = "http://127.0.0.1/x"
    with pytest.raises(EgressRefused):
        async with Egress(["10.0.0.1"], inside=True).fetch(url, said=f"看 {url}", max_bytes=100):
            pass


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0177.0.0.1"])
async def test_n_20_an_odd_spelling_of_an_address_is_no_host(host: str) -> None:
    """N-20: what would be connected to without asking the pinned resolver is written out, or refused, listed or not."""
    with pytest.raises(EgressRefused):
        await Egress([host], inside=True).vet(f"http://{host}/")


async def test_n_20_what_is_encoded_goes_out_as_it_is() -> None:
    """N-20: the URL that was vetted is the one that is requested; nothing is decoded on the way, names become ASCII."""
    egress = Egress(["127.0.0.1"], inside=True)
    vetted = await egress.vet("http://127.0.0.1:8099/a/..%2Fb%2E/路?q=%26x y&sig=a%2Bb==")
    assert str(vetted.url) == "http://127.0.0.1:8099/a/..%2Fb%2E/%E8%B7%AF?q=%26x%20y&sig=a%2Bb=="
    assert Egress(["例子.测试"]).allows("https://例子.测试/x")
    assert Egress(["xn--fsqu00a.xn--0zwm56d"]).allows("https://例子.测试/x")


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("https://erp.example/seen", True),
        ("https://ERP.example:443/seen", True),
        ("http://erp.example/seen", False),
        ("http://erp.example:443/seen", False),
        ("https://erp.example:8443/seen", False),
        ("https://www.erp.example/seen", False),
    ],
)
def test_n_20_secret_headers_stay_with_scheme_host_and_port(target: str, kept: bool) -> None:
    """N-20: a redirect to plain http on the same host and port gets no secret header, nor does another port or host."""
    headers = {"X-Key": "secret", "Authorization": "Bearer secret"}
    assert carried(headers, URL("https://erp.example/go"), URL(target)) == (headers if kept else {})
