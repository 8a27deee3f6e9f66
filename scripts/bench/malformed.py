"""Makes callbacks that are wrong in one or more ways, from a seed: query, envelope, record, payload, content type."""

from __future__ import annotations

import base64
import random
import struct
import time
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from gateway.channel import CallbackRequest
from scripts.simulator.crypto import Box, sign

TOKEN = "fuzzCallbackToken"  # noqa: S105 -- of accounts that exist in this run only
AES_KEY = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
CORP_ID = "ww0123456789abcdef"
APP_ID = "wx0123456789abcdef"
AGENT_ID = 1000002
_KEYS = {"callback_token": TOKEN, "encoding_aes_key": AES_KEY}
ACCOUNTS: tuple[dict[str, Any], ...] = (
    {"id": "fuzz-wecom", "platform": "wecom", "corp_id": CORP_ID, "agent_id": AGENT_ID, "secret": "fuzz", **_KEYS},
    {"id": "fuzz-mp", "platform": "mp", "app_id": APP_ID, "app_secret": "fuzz", **_KEYS},
    {"id": "fuzz-plain", "platform": "mp", "app_id": APP_ID, "app_secret": "fuzz", "mode": "plain", **_KEYS},
)
"""Settings of the three accounts that are fuzzed."""

_EVENT = (
    "<xml><ToUserName><![CDATA[{to}]]></ToUserName><FromUserName><![CDATA[fuzz{number}]]></FromUserName><CreateTime>{now}</CreateTime>"
    "<MsgType><![CDATA[event]]></MsgType><Event><![CDATA[view]]></Event><EventKey><![CDATA[k{number}]]></EventKey></xml>"
)
_JSON = (
    '{{"ToUserName":"{to}","FromUserName":"fuzz{number}","CreateTime":{now},'
    '"MsgType":"event","Event":"VIEW","EventKey":"k{number}"}}'
)
_NASTY = (
    *(
        "",
        "\x00",
        "\ud800",
        "]]>",
        "&a;",
        "%00",
        "９９",
        "9" * 400,
        "-1",
        "1e309",
        "NaN",
        "null",
        "{}",
        "[]",
        "<a/>",
        "../../etc/passwd",
    ),
    *("' OR 1=1", "\u202e", "\u2028", "A" * 5000, "sys", "event", "text", "true", "🀄" * 50),
)


class Malformed:
    """An endless, reproducible source of (account id, request)."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0
        self._boxes = {"fuzz-wecom": Box(AES_KEY, CORP_ID), "fuzz-mp": Box(AES_KEY, APP_ID), "fuzz-plain": Box(AES_KEY, APP_ID)}
        self._ways: tuple[Callable[[str], CallbackRequest], ...] = (
            self._garbage,
            self._damaged_query,
            self._damaged_body,
            self._damaged_record,
            self._damaged_payload,
            self._damaged_payload,
            self._odd_structure,
            self._url_check,
        )

    def next(self) -> tuple[str, CallbackRequest]:
        """One more."""
        self._number += 1
        account_id = self._random.choice(ACCOUNTS)["id"]
        return account_id, self._random.choice(self._ways)(account_id)

    # the ways ---------------------------------------------------------------------------------------------------------
    def _garbage(self, account_id: str) -> CallbackRequest:
        query = {self._nasty() or "q": (self._nasty(),) for _ in range(self._random.randrange(4))}
        return CallbackRequest("POST", query, self._random.randbytes(self._random.randrange(300)), self._content_type())

    def _damaged_query(self, account_id: str) -> CallbackRequest:
        request = self._post(account_id, self._payload(account_id))
        query = dict(request.query)
        for _ in range(self._random.randrange(1, 3)):
            name = self._random.choice(list(query))
            query[name] = self._random.choice(
                [(), ("",), (self._nasty(),), query[name] * 2, tuple(v.upper() for v in query[name])]
            )
        return CallbackRequest("POST", query, request.body, self._content_type())

    def _damaged_body(self, account_id: str) -> CallbackRequest:
        request = self._post(account_id, self._payload(account_id))
        return CallbackRequest("POST", request.query, self._damage(request.body), request.content_type)

    def _damaged_record(self, account_id: str) -> CallbackRequest:
        """A valid signature over a record that is wrong inside."""
        message = self._payload(account_id)
        record = self._random.randbytes(16) + struct.pack(
            ">I", self._random.choice([len(message), 0, 2**32 - 1, self._random.randrange(2**32)])
        )
        record += message + self._random.choice([b"", CORP_ID.encode(), APP_ID.encode(), b"\xff\xfe"])
        pad = self._random.choice([32 - len(record) % 32, 0, 33, 255, self._random.randrange(256)])
        record = self._random.choice([record, b"", record[:15], record[:18]]) + bytes([pad]) * min(pad, 32)
        encrypted = base64.b64encode(_aes(record + bytes(-len(record) % 16))).decode()
        encrypted = self._random.choice(
            [encrypted, encrypted[:-1], encrypted[4:], encrypted + "=", "", "é" + encrypted, encrypted[:21]]
        )
        return self._enveloped(account_id, encrypted, is_json=False)

    def _damaged_payload(self, account_id: str) -> CallbackRequest:
        return self._post(account_id, self._damage(self._payload(account_id)))

    def _odd_structure(self, account_id: str) -> CallbackRequest:
        """A well-sealed payload of an unexpected form."""
        name, value = (
            self._random.choice(["MsgType", "Event", "CreateTime", "FromUserName", "AgentID", "SelectedItems"]),
            self._nasty(),
        )
        plain = self._payload(account_id).decode()
        odd = self._random.choice(
            [
                plain.replace("</xml>", f"<{name}>{value}</{name}></xml>"),
                plain.replace("view", value).replace("VIEW", value),
                "<xml>" + "<a>" * self._random.randrange(100) + "</a>" * self._random.randrange(100) + "</xml>",
                f'<!DOCTYPE x [<!ENTITY a "{value}">]><xml><MsgType>&a;</MsgType></xml>',
                '{"MsgType": ' + "[" * self._random.randrange(3000),
                '{"MsgType": {"a": []}, "FromUserName": ["x", {}], "Event": 1.5, "CreateTime": true, "SelectedItems": [[[]]]}',
                '{"MsgType":"event","Event":"\\ud800\\u0000","FromUserName":"f"}',
                "<xml>" + f"<{name}>1</{name}>" * self._random.randrange(1, 50) + "</xml>",
                "<xml><MsgType>event</MsgType><SelectedItems><SelectedItem>x</SelectedItem><SelectedItem><OptionIds/></SelectedItem></SelectedItems></xml>",
                "A" * self._random.choice([10, 300_000]),
            ]
        )
        return self._post(account_id, odd.encode("utf-8", "surrogatepass"))

    def _url_check(self, account_id: str) -> CallbackRequest:
        echo = self._random.choice([self._boxes[account_id].encrypt(b"123"), self._nasty(), "123"])
        query: dict[str, tuple[str, ...]] = {name: (value,) for name, value in self._query(echo).items()}
        query["echostr"] = (echo,)
        if self._random.random() < 0.7:
            name = self._random.choice(list(query))
            query[name] = self._random.choice([(), ("",), (self._nasty(),), query[name] * 2])
        return CallbackRequest("GET", query)

    # the parts --------------------------------------------------------------------------------------------------------
    def _payload(self, account_id: str) -> bytes:
        form = _JSON if account_id != "fuzz-wecom" and self._random.random() < 0.4 else _EVENT
        return form.format(
            to=CORP_ID if account_id == "fuzz-wecom" else "gh_fuzz", number=self._number, now=int(time.time())
        ).encode()

    def _post(self, account_id: str, payload: bytes) -> CallbackRequest:
        is_json = payload[:1] == b"{"
        if account_id == "fuzz-plain":
            query = {name: (value,) for name, value in self._query("").items()}
            return CallbackRequest("POST", query, payload, "application/json" if is_json else "text/xml")
        return self._enveloped(account_id, self._boxes[account_id].encrypt(payload), is_json=is_json)

    def _enveloped(self, account_id: str, encrypted: str, *, is_json: bool) -> CallbackRequest:
        form = (
            '{"ToUserName": "x", "Encrypt": "%s"}'
            if is_json
            else "<xml><ToUserName>x</ToUserName><Encrypt><![CDATA[%s]]></Encrypt></xml>"
        )
        query = {name: (value,) for name, value in self._query(encrypted).items()}
        return CallbackRequest("POST", query, (form % encrypted).encode(), "application/json" if is_json else "text/xml")

    def _query(self, encrypted: str) -> dict[str, str]:
        now = str(int(time.time()))
        signed = sign(TOKEN, now, "n1", encrypted.encode("utf-8", "replace").decode())
        return {"signature": sign(TOKEN, now, "n1"), "timestamp": now, "nonce": "n1", "msg_signature": signed}

    def _damage(self, data: bytes) -> bytes:
        damaged = bytearray(data)
        for _ in range(self._random.choice([1, 1, 2, 5, 40])):
            at = self._random.randrange(len(damaged) + 1)
            kind = self._random.randrange(5)
            if kind == 0 and at < len(damaged):
                damaged[at] ^= 1 << self._random.randrange(8)
            elif kind == 1:
                damaged[at:at] = self._random.randbytes(self._random.randrange(1, 9))
            elif kind == 2:
                del damaged[at : at + self._random.randrange(1, 30)]
            elif kind == 3:
                damaged[at:at] = self._nasty().encode("utf-8", "surrogatepass")
            else:
                damaged[at:at] = damaged[at : at + 60]
        return bytes(damaged)

    def _nasty(self) -> str:
        return self._random.choice(_NASTY)

    def _content_type(self) -> str:
        return self._random.choice(
            ["text/xml", "application/json", "text/plain", "", "multipart/form-data", "\u00ff", "text/xml; charset=gbk"]
        )


def _aes(padded: bytes) -> bytes:
    key = base64.b64decode(AES_KEY + "=")
    encryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).encryptor()
    return encryptor.update(padded) + encryptor.finalize()
