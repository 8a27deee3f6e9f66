"""WeCom template cards from a neutral description, within the platform's limits (path/90236, 模板卡片消息)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.rendering import link_of, our_line, safe_line

TITLE_CHARS, DESC_CHARS, SUB_TITLE_CHARS, ROW_NAME_CHARS, ROW_VALUE_CHARS = 36, 44, 160, 16, 30
MAX_ROWS, MAX_BUTTONS, KEY_BYTES, BUTTON_CHARS = 6, 6, 1024, 10
_TASK_ID = re.compile(r"[0-9A-Za-z_\-@]{1,128}")
_KINDS = frozenset({"button_interaction", "text_notice", "news_notice", "vote_interaction", "multiple_interaction"})


def build(data: Mapping[str, Any], *, ours: bool = True) -> dict[str, Any] | None:
    """The template_card JSON for ``{title, desc?, text?, rows: [[name, value]], buttons: [{text, key, style?}], task_id?}``.

    A dict that names a ``card_type`` already is passed on. None when it cannot be a valid card (a text says the same). A
    title that is not ``ours`` cannot pass for a confirmation (N-17).
    """
    line = our_line if ours else safe_line
    if data.get("card_type") in _KINDS:
        return dict(data) if _task_id_ok(data.get("task_id")) else None
    buttons = [_button(button) for button in data.get("buttons") or () if isinstance(button, Mapping)]
    keys = [button["key"] for button in buttons]
    too_long = any(not key or len(key.encode()) > KEY_BYTES for key in keys)
    if not buttons or len(buttons) > MAX_BUTTONS or len(set(keys)) != len(keys) or too_long:
        return None
    if not _task_id_ok(data.get("task_id")):
        return None
    card: dict[str, Any] = {"card_type": "button_interaction"}
    if data.get("source"):
        card["source"] = {"desc": line(str(data["source"]), 13)}
    card["main_title"] = {"title": line(str(data.get("title") or ""), TITLE_CHARS)}
    if data.get("desc"):
        card["main_title"]["desc"] = line(str(data["desc"]), DESC_CHARS)
    if data.get("text"):
        card["sub_title_text"] = line(str(data["text"]), SUB_TITLE_CHARS)
    rows = rows_of(data)[:MAX_ROWS]
    if rows:
        card["horizontal_content_list"] = [
            {"keyname": line(name, ROW_NAME_CHARS), "value": line(value, ROW_VALUE_CHARS)} for name, value in rows
        ]
    url = link_of(data.get("url"))
    if url:
        card["card_action"] = {"type": 1, "url": url}
    if data.get("task_id"):
        card["task_id"] = data["task_id"]
    card["button_list"] = buttons
    return card


def shows_everything(data: Mapping[str, Any]) -> bool:
    """Whether no row, title or text of a neutral card would be cut (a confirmation must show every argument, N-17)."""
    if data.get("card_type"):
        title = data.get("main_title") or {}
        rows = [(str(r.get("keyname") or ""), str(r.get("value") or "")) for r in data.get("horizontal_content_list") or ()]
        data = {"title": title.get("title"), "desc": title.get("desc"), "text": data.get("sub_title_text")}
    else:
        rows = rows_of(data)
    fits = all(len(name) <= ROW_NAME_CHARS and len(value) <= ROW_VALUE_CHARS and "\n" not in value for name, value in rows)
    return (
        fits
        and len(rows) <= MAX_ROWS
        and len(str(data.get("title") or "")) <= TITLE_CHARS
        and len(str(data.get("desc") or "")) <= DESC_CHARS
        and len(str(data.get("text") or "")) <= SUB_TITLE_CHARS
    )


def rows_of(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows as (name, value), from pairs or ``{name, value}`` or a mapping."""
    given = data.get("rows") or ()
    if isinstance(given, Mapping):
        return [(str(name), str(value)) for name, value in given.items()]
    rows = []
    for row in given:
        if isinstance(row, Mapping):
            rows.append((str(row.get("name") or row.get("keyname") or ""), str(row.get("value") or "")))
        elif isinstance(row, Sequence) and not isinstance(row, str) and len(row) == 2:
            rows.append((str(row[0]), str(row[1])))
    return rows


def readable(data: Mapping[str, Any]) -> str:
    """A card as text, for where the card cannot go."""
    if data.get("card_type"):
        title = data.get("main_title") or {}
        rows = [(str(row.get("keyname") or ""), str(row.get("value") or "")) for row in data.get("horizontal_content_list") or ()]
        lines = [title.get("title"), title.get("desc"), data.get("sub_title_text")]
        buttons = data.get("button_list") or ()
    else:
        rows = rows_of(data)
        lines = [data.get("title"), data.get("desc"), data.get("text")]
        buttons = data.get("buttons") or ()
    shown = [str(line) for line in lines if line]
    shown.extend(f"{name}：{value}" for name, value in rows)
    words = [str(button.get("text") or "") for button in buttons if isinstance(button, Mapping)]
    if words:
        shown.append(" / ".join(f"「{word}」" for word in words if word))
    return "\n".join(shown)


def _button(button: Mapping[str, Any]) -> dict[str, Any]:
    style = button.get("style")
    return {
        "text": our_line(str(button.get("text") or ""), BUTTON_CHARS),
        "style": style if style in (1, 2, 3, 4) else 1,
        "key": str(button.get("key") or ""),
    }


def _task_id_ok(task_id: object) -> bool:
    return task_id is None or (isinstance(task_id, str) and _TASK_ID.fullmatch(task_id) is not None)
