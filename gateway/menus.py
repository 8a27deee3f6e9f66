"""Menus as files: what the platform reports becomes a file that can be published again; files are checked before that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from config.errors import YizhanError

_NEEDS = {"click": "key", "view": "url", "miniprogram": "appid", "media_id": "media_id", "view_limited": "media_id"}
_NEEDS |= {"article_id": "article_id", "article_view_limited": "article_id", "view_miniprogram": "appid"}
_WITH_KEY = ("scancode_push", "scancode_waitmsg", "pic_sysphoto", "pic_photo_or_album", "pic_weixin", "location_select")
_HEAD = """\
# {account} 的菜单和自动回复，{when} 从平台保存。
# menu：yizhan menu publish {account} 这个文件，就能放回去。
# replies、welcome_text：平台自己的自动回复，启用服务器配置后不再生效；想保留的抄进设置里该账号的 replies、welcome.text。
# original：平台的原话，留作备查。
"""


class MenuFault(YizhanError):
    """The menu file cannot be published; the message says where and why."""

    code = "menu"


def pulled(account_id: str, when: str, menu: Mapping[str, Any], autoreply: Mapping[str, Any] | None) -> str:
    """The file for what a platform reported: ``menu`` ready to be published, fixed replies, the original words.

    ``menu`` is the answer of menu/get (either platform) or of get_current_selfmenu_info.
    """
    replies: dict[str, str] = {}
    buttons = [_button(raw, replies) for raw in _reported(menu)]
    data: dict[str, Any] = {"menu": {"button": buttons}}
    told = _autoreply(autoreply or {}, replies)
    if replies:
        data["replies"] = replies
    if told:
        data["welcome_text"] = told
    data["original"] = {"menu": dict(menu), **({"autoreply": dict(autoreply)} if autoreply else {})}
    return _HEAD.format(account=account_id, when=when) + yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=100)


def read_menu(text: str) -> dict[str, Any]:
    """The menu of a YAML or JSON file: ``menu:``, or ``button:`` at the top. Raises MenuFault."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise MenuFault(f"第 {mark.line + 1 if mark else '?'} 行不是有效的 YAML") from None
    menu = data.get("menu", data) if isinstance(data, Mapping) else None
    if not isinstance(menu, Mapping) or not isinstance(menu.get("button"), list):
        raise MenuFault("里面没有 menu.button 列表")
    problems = list(_problems(menu["button"]))
    if problems:
        raise MenuFault("；".join(problems))
    return {"button": menu["button"]}


def _reported(menu: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = menu.get("selfmenu_info") or menu.get("menu") or menu
    buttons = inner.get("button") if isinstance(inner, Mapping) else None
    return list(buttons) if isinstance(buttons, list) else []


def _button(raw: Mapping[str, Any], replies: dict[str, str]) -> dict[str, Any]:
    """A reported button as menu/create takes it; texts of the website become clicks with a fixed reply."""
    name = str(raw.get("name") or "")
    children = raw.get("sub_button")
    if isinstance(children, Mapping):
        children = children.get("list")
    if children:
        return {"name": name, "sub_button": [_button(child, replies) for child in children]}
    kind, value = str(raw.get("type") or ""), str(raw.get("value") or "")
    if kind == "text":
        key = f"menu-{len(replies) + 1}"
        replies[key] = value
        return {"type": "click", "name": name, "key": key}
    if kind in ("img", "voice", "photo"):
        return {"type": "media_id", "name": name, "media_id": value}
    if kind == "video":
        return {"type": "view", "name": name, "url": value}
    if kind == "news":
        articles = (raw.get("news_info") or {}).get("list") or []
        link = str(articles[0].get("content_url") or "") if len(articles) == 1 else ""
        return {"type": "view", "name": name, "url": link} if link else {"type": "view_limited", "name": name, "media_id": value}
    return {key: item for key, item in raw.items() if key != "sub_button"}


def _autoreply(reported: Mapping[str, Any], replies: dict[str, str]) -> str | None:
    """Add the exact keyword rules that answer with text; returns the text for new followers."""
    for rule in (reported.get("keyword_autoreply_info") or {}).get("list") or []:
        answers = [item.get("content") for item in rule.get("reply_list_info") or [] if item.get("type") == "text"]
        for word in rule.get("keyword_list_info") or []:
            if answers and word.get("match_mode") == "equal" and word.get("content"):
                replies.setdefault(str(word["content"]), str(answers[0]))
    welcome = reported.get("add_friend_autoreply_info") or {}
    return str(welcome["content"]) if welcome.get("type") == "text" and welcome.get("content") else None


def _problems(buttons: list[Any]) -> Iterator[str]:
    if not 1 <= len(buttons) <= 3:
        yield f"一级菜单要 1 到 3 个，现在是 {len(buttons)} 个"
    for number, button in enumerate(buttons, 1):
        where = f"第 {number} 个按钮"
        if not isinstance(button, Mapping):
            yield f"{where}不是一组键和值"
            continue
        children = button.get("sub_button") or []
        if not isinstance(children, list) or len(children) > 5:
            yield f"{where}「{button.get('name', '')}」的二级菜单最多 5 个"
        elif children:
            if not button.get("name"):
                yield f"{where}没有 name"
            for index, child in enumerate(children, 1):
                yield from _leaf(child, f"{where}的第 {index} 项")
        else:
            yield from _leaf(button, where)


def _leaf(button: Any, where: str) -> Iterator[str]:
    if not isinstance(button, Mapping):
        yield f"{where}不是一组键和值"
        return
    name, kind = button.get("name"), button.get("type")
    if not name:
        yield f"{where}没有 name"
    if kind not in _NEEDS and kind not in _WITH_KEY:
        yield f"{where}「{name or ''}」的 type 不认识：{kind or '（空）'}"
        return
    needed = _NEEDS.get(str(kind), "key")
    if not button.get(needed):
        yield f"{where}「{name or ''}」的 type 是 {kind}，要有 {needed}"
