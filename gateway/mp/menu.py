"""Official Account menus: the form to publish, its limits, and what a menu made on the website looks like in that form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_BUTTONS, MAX_SUB_BUTTONS = 3, 5
NAME_BYTES, SUB_NAME_BYTES, KEY_BYTES, URL_BYTES = 16, 60, 128, 1024
_WITH_KEY = frozenset(
    {"click", "scancode_push", "scancode_waitmsg", "pic_sysphoto", "pic_photo_or_album", "pic_weixin", "location_select"}
)
_WITH_MEDIA = frozenset({"media_id", "view_limited", "article_id", "article_view_limited"})


def problems(menu: Mapping[str, Any]) -> list[str]:
    """Everything that menu/create would refuse, each named by its place (button/0/sub_button/1); empty when it is fine."""
    buttons = menu.get("button")
    if not isinstance(buttons, list) or not 1 <= len(buttons) <= MAX_BUTTONS:
        return [f"button: expected 1 to {MAX_BUTTONS} buttons"]
    found: list[str] = []
    for index, button in enumerate(buttons):
        where = f"button/{index}"
        sub = button.get("sub_button") if isinstance(button, Mapping) else None
        if not isinstance(button, Mapping):
            found.append(f"{where}: expected an object")
        elif sub:
            found.extend(_name(button, where, NAME_BYTES))
            if not isinstance(sub, list) or len(sub) > MAX_SUB_BUTTONS:
                found.append(f"{where}/sub_button: expected 1 to {MAX_SUB_BUTTONS} buttons")
                continue
            for number, item in enumerate(sub):
                found.extend(_leaf(item, f"{where}/sub_button/{number}", SUB_NAME_BYTES))
        else:
            found.extend(_leaf(button, where, NAME_BYTES))
    return found


def from_selfmenu(info: Mapping[str, Any]) -> dict[str, Any]:
    """The publishable form of get_current_selfmenu_info. Buttons that only the website can make (fixed texts, pictures,
    news) become click buttons whose key is ``text:<name>``; ``fixed_replies`` gives what they answer."""
    buttons = (info.get("selfmenu_info") or {}).get("button") or []
    return {"button": [_from_website(button) for button in buttons if isinstance(button, Mapping)]}


def fixed_replies(info: Mapping[str, Any]) -> dict[str, str]:
    """Key → text of the website's text buttons, for the account's ``replies`` setting."""
    found: dict[str, str] = {}
    for button in _leaves((info.get("selfmenu_info") or {}).get("button") or []):
        if button.get("type") == "text" and button.get("value"):
            found[f"text:{button.get('name') or ''}"] = str(button["value"])
    return found


def _from_website(button: Mapping[str, Any]) -> dict[str, Any]:
    sub = button.get("sub_button")
    items = sub.get("list") if isinstance(sub, Mapping) else sub
    name = str(button.get("name") or "")
    if items:
        return {"name": name, "sub_button": [_from_website(item) for item in items if isinstance(item, Mapping)]}
    kind = str(button.get("type") or "")
    kept = {key: button[key] for key in ("key", "url", "appid", "pagepath", "media_id", "article_id") if button.get(key)}
    if kind in _WITH_KEY or kind in _WITH_MEDIA or kind in ("view", "miniprogram"):
        return {"type": kind, "name": name, **kept}
    return {"type": "click", "name": name, "key": f"text:{name}"}


def _leaves(buttons: list[Any]) -> list[Mapping[str, Any]]:
    leaves: list[Mapping[str, Any]] = []
    for button in buttons:
        if not isinstance(button, Mapping):
            continue
        sub = button.get("sub_button")
        items = sub.get("list") if isinstance(sub, Mapping) else sub
        leaves.extend(_leaves(items) if items else [button])
    return leaves


def _leaf(button: Any, where: str, name_bytes: int) -> list[str]:
    if not isinstance(button, Mapping):
        return [f"{where}: expected an object"]
    found = _name(button, where, name_bytes)
    kind = button.get("type")
    if kind in _WITH_KEY:
        found += _field(button, where, "key", KEY_BYTES)
    elif kind == "view":
        found += _field(button, where, "url", URL_BYTES)
    elif kind == "miniprogram":
        found += (
            _field(button, where, "url", URL_BYTES) + _field(button, where, "appid", 64) + _field(button, where, "pagepath", 1024)
        )
    elif kind in _WITH_MEDIA:
        found += _field(button, where, "article_id" if "article" in str(kind) else "media_id", 256)
    else:
        found.append(f"{where}/type: unknown type {str(kind)[:40]}")
    return found


def _name(button: Mapping[str, Any], where: str, limit: int) -> list[str]:
    return _field(button, where, "name", limit)


def _field(button: Mapping[str, Any], where: str, name: str, limit: int) -> list[str]:
    value = button.get(name)
    if not isinstance(value, str) or not value:
        return [f"{where}/{name}: missing"]
    size = len(value.encode())
    return [f"{where}/{name}: {size} bytes, at most {limit}"] if size > limit else []
