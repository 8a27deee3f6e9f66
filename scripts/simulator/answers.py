"""Answers of the API as the platforms phrase them: error texts, hint and rid suffixes, content types."""

from __future__ import annotations

import json
import secrets
from typing import Any

from aiohttp import web

_WECOM_TEXT: dict[int, str] = {
    -1: "system busy",
    40001: "invalid credential",
    40004: "invalid media type",
    40006: "invalid file size",
    40007: "invalid media_id",
    40008: "invalid message type",
    40013: "invalid corpid",
    40014: "invalid access_token",
    40032: "invalid userid list size",
    40056: "invalid agentid",
    40058: "invalid Request Parameter",
    41001: "access_token missing",
    41004: "corpsecret missing",
    42001: "access_token expired",
    42014: "taskid has existed or empty or exceed max len",
    42016: "taskid not exist",
    42031: "Template_Card.CardType invalid",
    42035: "Template_Card.horizontal_content_list size invalid",
    42038: "Template_Card.button_list.text missing or invalid",
    42039: "Template_Card.button_list.key missing or invalid",
    42042: "Template_Card.jump_list size invalid",
    42045: "Template_Card.card_action missing or invalid",
    44001: "empty media data",
    44004: "text content is empty",
    45001: "media size out of limit",
    45002: "content size out of limit",
    45008: "article size out of limit",
    45009: "api freq out of limit",
    47001: "data format error",
    60011: "no privilege to access/modify contact/party/agent",
    60020: "not allow to access from your ip",
    60111: "userid not found",
    60140: "invalid response_code",
    81013: "user & party & tag all invalid",
    82001: "All touser & toparty & totag empty",
    93000: "invalid webhook url",
    301002: "not allow operate another agent with this accesstoken",
    301025: "invalid approval template",
    830002: "file too large",
}
_MP_TEXT: dict[int, str] = {
    -1: "system error",
    40001: "invalid credential, access_token is invalid or not latest",
    40002: "invalid grant_type",
    40003: "invalid openid",
    40004: "invalid media type",
    40006: "invalid meida size",
    40007: "invalid media_id",
    40008: "invalid message type",
    40013: "invalid appid",
    40014: "invalid access_token",
    40016: "invalid button size",
    40037: "invalid template_id",
    40125: "invalid appsecret",
    41001: "access_token missing",
    41004: "appsecret missing",
    42001: "access_token expired",
    43004: "require subscribe",
    44002: "empty post data",
    44004: "empty content",
    45001: "media size out of limit",
    45002: "content size out of limit",
    45008: "article size out of limit",
    45009: "reach max api daily quota limit",
    45011: "api minute-quota reach limit mustslower retry next minute",
    45015: "response out of time limit or subscription is canceled",
    45047: "out of response count limit",
    46003: "menu no exist",
    47001: "data format error",
    48001: "api unauthorized",
    48002: "user block receive message",
    48006: "forbid to clear quota because of reaching the limit",
}
_WHOLE_TEXT = {
    45080: "下发输入状态，需要之前30秒内跟用户有过消息交互",
    45081: "已经在输入状态，不可重复下发",
}


class Refused(Exception):
    """The API answers with this errcode; ``detail`` goes before the platform's own words."""

    def __init__(self, errcode: int, detail: str = "") -> None:
        super().__init__(f"{errcode} {detail}")
        self.errcode = errcode
        self.detail = detail


def error_body(wecom: bool, errcode: int, ip: str, now_s: int, detail: str = "") -> dict[str, Any]:
    """The JSON of an error as this platform words it."""
    if errcode in _WHOLE_TEXT:
        return {"errcode": errcode, "errmsg": _WHOLE_TEXT[errcode]}
    if wecom:
        text = _WECOM_TEXT.get(errcode, "request refused")
        hint = f"{now_s}{secrets.randbelow(10**15):015d}"
        more = f"more info at https://open.work.weixin.qq.com/devtool/query?e={errcode}"
        return {"errcode": errcode, "errmsg": f"{detail}{text}, hint: [{hint}], from ip: {ip}, {more}"}
    text = _MP_TEXT.get(errcode, "request refused")
    if errcode == 40164:
        text = f"invalid ip {ip} ipv6 ::ffff:{ip}, not in whitelist"
    rid = f"{now_s:08x}-{secrets.token_hex(4)}-{secrets.token_hex(4)}"
    return {"errcode": errcode, "errmsg": f"{detail}{text} rid: {rid}"}


def json_answer(body: Any, *, plain: bool = False, status: int = 200) -> web.Response:
    """Raw UTF-8 JSON; ``plain`` sends it as text/plain, which real Official Account servers do with errors."""
    content_type = "text/plain" if plain else "application/json"
    return web.Response(
        body=json.dumps(body, ensure_ascii=False).encode(), status=status, content_type=content_type, charset="utf-8"
    )
