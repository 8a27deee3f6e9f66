"""Menus as files: what the platform reports becomes a file that can be published again; files are checked before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from config.errors import YizhanError
from gateway import cli_texts as texts
from gateway.mp.menu import fixed_replies, from_selfmenu, problems


class MenuFault(YizhanError):
    """The menu file cannot be published; the message says where and why."""

    code = "menu"


def pulled(account_id: str, when: str, menu: Mapping[str, Any], autoreply: Mapping[str, Any] | None) -> str:
    """The file for what a platform reported: ``menu`` ready to be published, fixed replies, the original words.

    ``menu`` is the answer of menu/get (either platform) or of get_current_selfmenu_info.
    """
    website = {"selfmenu_info": menu.get("selfmenu_info") or menu.get("menu") or menu}
    replies = fixed_replies(website)
    data: dict[str, Any] = {"menu": from_selfmenu(website)}
    told = _autoreply(autoreply or {}, replies)
    if replies:
        data["replies"] = replies
    if told:
        data["welcome_text"] = told
    data["original"] = {"menu": dict(menu), **({"autoreply": dict(autoreply)} if autoreply else {})}
    return texts.MENU_HEAD.format(account=account_id, when=when) + yaml.safe_dump(
        data, allow_unicode=True, sort_keys=False, width=100
    )


def read_menu(text: str) -> dict[str, Any]:
    """The menu of a YAML or JSON file: ``menu:``, or ``button:`` at the top. Raises MenuFault."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise MenuFault(texts.MENU_NOT_YAML.format(line=mark.line + 1 if mark else "?")) from None
    menu = data.get("menu", data) if isinstance(data, Mapping) else None
    if not isinstance(menu, Mapping) or not isinstance(menu.get("button"), list):
        raise MenuFault(texts.MENU_NO_LIST)
    found = problems(menu)
    if found:
        raise MenuFault("；".join(found))
    return {"button": menu["button"]}


def _autoreply(reported: Mapping[str, Any], replies: dict[str, str]) -> str | None:
    """Add the exact keyword rules that answer with text; returns the text for new followers."""
    for rule in (reported.get("keyword_autoreply_info") or {}).get("list") or []:
        answers = [item.get("content") for item in rule.get("reply_list_info") or [] if item.get("type") == "text"]
        for word in rule.get("keyword_list_info") or []:
            if answers and word.get("match_mode") == "equal" and word.get("content"):
                replies.setdefault(str(word["content"]), str(answers[0]))
    welcome = reported.get("add_friend_autoreply_info") or {}
    return str(welcome["content"]) if welcome.get("type") == "text" and welcome.get("content") else None
