"""What people do, as the platforms write it down: message and event bodies in XML or JSON, before encryption."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .accounts import SimAccount

Fields = dict[str, Any]

_MESSAGE_FIELDS: dict[str, tuple[tuple[str, tuple[str, ...], Any], ...]] = {
    "text": (("Content", ("text", "content"), ""),),
    "image": (("PicUrl", ("pic_url", "picurl", "url"), "https://wework.qpic.cn/EXAMPLE/0"), ("MediaId", ("media_id",), "")),
    "voice": (
        ("MediaId", ("media_id",), ""),
        ("Format", ("format",), "amr"),
        ("Recognition", ("recognition", "text"), None),
    ),
    "video": (("MediaId", ("media_id",), ""), ("ThumbMediaId", ("thumb_media_id",), "thumb")),
    "shortvideo": (("MediaId", ("media_id",), ""), ("ThumbMediaId", ("thumb_media_id",), "thumb")),
    "location": (
        ("Location_X", ("x", "lat", "latitude", "location_x"), 23.134521),
        ("Location_Y", ("y", "lng", "lon", "longitude", "location_y"), 113.358803),
        ("Scale", ("scale",), 20),
        ("Label", ("label", "text"), "位置信息"),
    ),
    "link": (
        ("Title", ("title",), "链接"),
        ("Description", ("description", "desc"), ""),
        ("Url", ("url",), "https://example.com/"),
        ("PicUrl", ("pic_url", "picurl"), None),
    ),
    "file": (("MediaId", ("media_id",), ""), ("FileName", ("file_name", "filename"), "文件.txt")),
}
MEDIA_KINDS = frozenset({"image", "voice", "video", "shortvideo", "file"})


def message_fields(account: SimAccount, user: str, request: Mapping[str, Any], message_id: str, now_s: int) -> Fields:
    """The fields of one message, in the platform's order. ``request`` is the body of /_sim/say."""
    kind = str(request.get("kind") or request.get("type") or "text")
    fields: Fields = {
        "ToUserName": account.receiver,
        "FromUserName": user,
        "CreateTime": int(request.get("create_time") or now_s),
        "MsgType": kind,
    }
    for name, keys, default in _MESSAGE_FIELDS.get(kind, ()):
        value = next((request[key] for key in keys if request.get(key) is not None), default)
        if value is not None:
            fields[name] = value
    fields["MsgId"] = int(message_id) if message_id.isdigit() else message_id
    menu_id = request.get("bizmsgmenuid", request.get("menu_id"))
    if menu_id is not None:
        fields["bizmsgmenuid"] = str(menu_id)
    if account.wecom:
        fields["AgentID"] = account.agent_id
    fields.update(_raw(request))
    return fields


_MP_NAMES = {"click": "CLICK", "view": "VIEW", "scan": "SCAN", "location": "LOCATION"}
_WECOM_NAMES = {"CLICK": "click", "VIEW": "view", "enter": "enter_agent", "location": "LOCATION"}


def event_name(account: SimAccount, given: str) -> str:
    """The event's name as this platform spells it."""
    names = _WECOM_NAMES if account.wecom else _MP_NAMES
    return names.get(given, given)


def event_fields(account: SimAccount, user: str, request: Mapping[str, Any], now_s: int) -> Fields:
    """The fields of one event. ``request`` is the body of /_sim/event."""
    name = event_name(account, str(request["event"]))
    fields: Fields = {
        "ToUserName": account.receiver,
        "FromUserName": user,
        "CreateTime": int(request.get("create_time") or now_s),
        "MsgType": "event",
        "Event": name,
    }
    key = request.get("key", request.get("event_key", request.get("EventKey")))
    if key is not None:
        fields["EventKey"] = str(key)
    if request.get("task_id") is not None:
        fields["TaskId"] = str(request["task_id"])
    if name == "LOCATION":
        fields.update(Latitude=request.get("latitude", 23.137466), Longitude=request.get("longitude", 113.352425), Precision=65.0)
    if name == "SCAN":
        fields.setdefault("EventKey", "123123")
        fields["Ticket"] = str(request.get("ticket", "TICKET"))
    if account.wecom:
        fields["AgentID"] = account.agent_id
    fields.update(_raw(request))
    return {name: value for name, value in fields.items() if value is not None}


def _raw(request: Mapping[str, Any]) -> Fields:
    extra = request.get("fields") or {}
    named = {key: value for key, value in request.items() if key[:1].isupper()}
    return {**named, **(extra if isinstance(extra, Mapping) else {})}


def cdata(text: str) -> str:
    """The text in CDATA; ``]]>`` is split over two sections."""
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"


def to_xml(fields: Mapping[str, Any]) -> str:
    """The platforms' XML: strings in CDATA, numbers bare, lists as repeated elements, mappings nested."""
    return "<xml>" + "".join(_element(name, value) for name, value in fields.items()) + "</xml>"


def _element(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return "".join(_element(name, item) for item in value)
    if isinstance(value, Mapping):
        inner = "".join(_element(key, item) for key, item in value.items())
    elif isinstance(value, bool | int | float):
        inner = str(int(value)) if isinstance(value, bool) else str(value)
    else:
        inner = cdata(str(value))
    return f"<{name}>{inner}</{name}>"


def to_json(fields: Mapping[str, Any]) -> str:
    """The same fields as the JSON callbacks carry them."""
    return json.dumps(fields, ensure_ascii=False)
