"""Ready-made callbacks: encrypted, signed HTTP requests as bytes, so that the load generator only writes them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urlencode

from scripts.simulator.crypto import Box, sign

TOKEN = "benchCallbackToken"  # noqa: S105 -- of an account that exists in the benchmark only
AES_KEY = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
APP_ID = "wx0123456789abcde0"
ORIGINAL_ID = "gh_bench"
ACCOUNT_ID = "mp-bench"


@dataclass(frozen=True, slots=True)
class Sealer:
    """Makes callbacks of one Official Account in safe mode."""

    port: int
    account_id: str = ACCOUNT_ID

    def view(self, number: int, user: str) -> bytes:
        """A menu ``VIEW`` event, unique by ``number``: stored, acknowledged with ``success``, never answered."""
        key = f"https://bot.example.com/menu/{number}"
        return self.post(user, f"<MsgType><![CDATA[event]]></MsgType><Event><![CDATA[VIEW]]></Event><EventKey>{key}</EventKey>")

    def text(self, number: int, user: str, text: str) -> bytes:
        """A text message, unique by ``number``."""
        inner = (
            f"<MsgType><![CDATA[text]]></MsgType><Content><![CDATA[{text}]]></Content><MsgId>{7_000_000_000_000 + number}</MsgId>"
        )
        return self.post(user, inner)

    def post(self, user: str, inner: str) -> bytes:
        """The HTTP request that delivers a message with these elements."""
        now = str(int(time.time()))
        plain = (
            f"<xml><ToUserName><![CDATA[{ORIGINAL_ID}]]></ToUserName><FromUserName><![CDATA[{user}]]></FromUserName>"
            f"<CreateTime>{now}</CreateTime>{inner}</xml>"
        )
        encrypted = Box(AES_KEY, APP_ID).encrypt(plain.encode())
        query = {
            "signature": sign(TOKEN, now, "n1"),
            "timestamp": now,
            "nonce": "n1",
            "openid": user,
            "encrypt_type": "aes",
            "msg_signature": sign(TOKEN, now, "n1", encrypted),
        }
        body = f"<xml><ToUserName><![CDATA[{ORIGINAL_ID}]]></ToUserName><Encrypt><![CDATA[{encrypted}]]></Encrypt></xml>".encode()
        head = (
            f"POST /callback/{self.account_id}?{urlencode(query)} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: text/xml\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def account(api_base: str) -> dict[str, object]:
    """The account in settings form."""
    return {
        "id": ACCOUNT_ID,
        "platform": "mp",
        "app_id": APP_ID,
        "app_secret": "benchmark",
        "callback_token": TOKEN,
        "encoding_aes_key": AES_KEY,
        "original_id": ORIGINAL_ID,
        "api_base": api_base,
    }
