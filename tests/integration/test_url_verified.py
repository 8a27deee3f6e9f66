"""The platform's check of the callback URL is remembered, so ``yizhan connect`` ticks the step at 保存."""

from __future__ import annotations

from config.database import open_database
from gateway.account_state import url_verified_ms
from gateway.connect import Facts, look_inside
from scripts.simulator.crypto import sign
from tests.stack import Stack


async def test_a_verified_url_ticks_the_first_step(stack: Stack) -> None:
    """CB-04: a GET with a right signature gets its echo, and the account remembers that the platform came by."""
    account = stack.settings.account("mp-main")
    assert account is not None
    timestamp, nonce = str(stack.world.clock.now_ms() // 1000), "n"
    query = {
        "signature": sign(account.callback_token, timestamp, nonce),
        "timestamp": timestamp,
        "nonce": nonce,
        "echostr": "4375",
    }
    url = f"http://127.0.0.1:{stack.settings.http.port}/callback/mp-main"
    async with stack.http.get(url, params=query) as response:
        assert (response.status, await response.text()) == (200, "4375")
    database = open_database(stack.settings.sqlalchemy_url)
    try:

        async def remembered() -> bool:
            return await database.read(lambda c: url_verified_ms(c, "mp-main")) is not None

        await stack.until(remembered)
        assert (await look_inside(stack.settings, account, database, Facts())).callbacks == 1
        assert (await look_inside(stack.settings, stack.settings.account("mp-sub") or account, database, Facts())).callbacks == 0
    finally:
        await database.close()
