"""Template cards: what the platform checks, and their text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .answers import Refused

_TYPES = frozenset({"text_notice", "news_notice", "button_interaction", "vote_interaction", "multiple_interaction"})
_INTERACTIVE = frozenset({"button_interaction", "vote_interaction", "multiple_interaction"})


def interactive(card: Mapping[str, Any]) -> bool:
    """True for cards that get a response_code (wecom.card.response_code_when)."""
    return str(card.get("card_type")) in _INTERACTIVE or bool(card.get("action_menu"))


def check_card(card: Mapping[str, Any]) -> None:
    """Raises Refused with the errcode the platform answers a malformed card with."""
    kind = str(card.get("card_type") or "")
    if kind not in _TYPES:
        raise Refused(42031)
    if len(card.get("horizontal_content_list") or []) > 6:
        raise Refused(42035)
    if len(card.get("jump_list") or []) > 3:
        raise Refused(42042)
    if kind in ("text_notice", "news_notice"):
        action = card.get("card_action")
        if not isinstance(action, Mapping) or action.get("type") not in (1, 2):
            raise Refused(42045)
    if kind == "button_interaction":
        _check_buttons(card.get("button_list"))


def _check_buttons(buttons: Any) -> None:
    if not isinstance(buttons, list) or not 1 <= len(buttons) <= 6:
        raise Refused(40058, "button_list size. ")
    keys: set[str] = set()
    for button in buttons:
        if not isinstance(button, Mapping) or not button.get("text"):
            raise Refused(42038)
        if button.get("type") == 1:
            continue
        key = str(button.get("key") or "")
        if not key or len(key.encode()) > 1024 or key in keys:
            raise Refused(42039)
        keys.add(key)


def card_text(card: Mapping[str, Any]) -> str:
    """All a person reads on the card, a line each."""
    title = card.get("main_title") or {}
    lines = [title.get("title"), title.get("desc"), card.get("sub_title_text")]
    lines += [f"{row.get('keyname', '')}：{row.get('value', '')}" for row in card.get("horizontal_content_list") or []]
    lines += [(card.get("quote_area") or {}).get("quote_text")]
    return "\n".join(str(line) for line in lines if line)
