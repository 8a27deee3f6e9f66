"""Menus: create, get, delete, and what an Official Account's own configuration reports."""

from __future__ import annotations

import json
from typing import Any

from .answers import Refused
from .calls import Call, ok


def _check(call: Call, menu: dict[str, Any]) -> None:
    """At most 3 buttons with 5 sub-buttons each; every leaf needs what its type names."""
    buttons = menu.get("button")
    size_error = 40058 if call.owner.wecom else 40016
    if not isinstance(buttons, list) or not 1 <= len(buttons) <= 3:
        raise Refused(size_error)
    for button in buttons:
        children = button.get("sub_button") or []
        if len(children) > 5:
            raise Refused(size_error)
        for leaf in children or [button]:
            kind = leaf.get("type")
            if not leaf.get("name") or not kind:
                raise Refused(size_error)
            if not leaf.get("url" if kind == "view" else "appid" if kind == "miniprogram" else "key") and kind != "media_id":
                raise Refused(size_error)


def _check_agent(call: Call) -> None:
    if call.owner.wecom and call.query.get("agentid") != str(call.owner.agent_id):
        raise Refused(301002)


async def create(call: Call) -> dict[str, Any]:
    """POST menu/create: replaces the whole menu."""
    _check_agent(call)
    if not call.owner.wecom and not call.owner.verified:
        raise Refused(48001)
    menu = call.json()
    _check(call, menu)
    call.world.menus[call.owner.id] = json.loads(json.dumps(menu))
    call.world.log.publish("menu", {"account": call.owner.id, "menu": menu})
    return ok()


async def get(call: Call) -> dict[str, Any]:
    """GET menu/get."""
    _check_agent(call)
    menu = call.world.menus.get(call.owner.id)
    if menu is None:
        raise Refused(46003)
    return ok(**menu) if call.owner.wecom else {"menu": menu}


async def delete(call: Call) -> dict[str, Any]:
    """GET menu/delete."""
    _check_agent(call)
    call.world.menus.pop(call.owner.id, None)
    call.world.log.publish("menu", {"account": call.owner.id, "menu": None})
    return ok()


async def self_menu(call: Call) -> dict[str, Any]:
    """GET get_current_selfmenu_info: what the account shows now, in the website's own shape."""
    menu = call.world.menus.get(call.owner.id)
    if menu is None:
        buttons: list[dict[str, Any]] = [
            {"name": "产品", "sub_button": {"list": [{"type": "view", "name": "官网", "url": "https://example.com/"}]}},
            {"type": "text", "name": "联系我们", "value": "工作日 9:00 到 18:00 在线"},
        ]
        return {"is_menu_open": 1, "selfmenu_info": {"button": buttons}}
    shaped = []
    for button in menu["button"]:
        children = button.get("sub_button")
        shaped.append({**button, "sub_button": {"list": children}} if children else button)
    return {"is_menu_open": 1, "selfmenu_info": {"button": shaped}}


async def auto_reply(call: Call) -> dict[str, Any]:
    """GET get_current_autoreply_info: the website's automatic replies, which server mode switches off."""
    return {
        "is_add_friend_reply_open": 1,
        "is_autoreply_open": 1,
        "add_friend_autoreply_info": {"type": "text", "content": "欢迎关注"},
        "message_default_autoreply_info": {"type": "text", "content": "我们会尽快回复"},
        "keyword_autoreply_info": {
            "list": [
                {
                    "rule_name": "营业时间",
                    "reply_mode": "random_one",
                    "keyword_list_info": [{"type": "text", "match_mode": "equal", "content": "营业时间"}],
                    "reply_list_info": [{"type": "text", "content": "每天 9:00 到 21:00"}],
                }
            ]
        },
    }
