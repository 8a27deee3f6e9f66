"""What a person can do: say something, cause an event, click a card or a menu link."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any

from .accounts import SimAccount
from .callbacks import Callbacks, Exchange
from .media_api import store_media
from .payloads import MEDIA_KINDS, Fields, event_fields, event_name, message_fields, to_json, to_xml
from .people import Person
from .world import Card, World

USER_WINDOW_S, USER_MESSAGES = 172_800, 5
CLICK_WINDOW_S, CLICK_MESSAGES = 60, 3
_PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
_KIND_FILES = {
    "image": ("图片.png", "image/png", _PIXEL),
    "voice": ("语音.amr", "audio/amr", b"#!AMR\n" + bytes(64)),
    "video": ("视频.mp4", "video/mp4", bytes(256)),
    "shortvideo": ("视频.mp4", "video/mp4", bytes(256)),
    "file": ("文件.txt", "text/plain", "一份测试文件".encode()),
}


class ActError(Exception):
    """The request cannot be carried out; ``status`` is the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Acts:
    """Turns control requests into callback exchanges."""

    def __init__(self, world: World, callbacks: Callbacks, media_base: str) -> None:
        self._world = world
        self._callbacks = callbacks
        self.media_base = media_base

    async def say(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One message; its result once the exchange is over (``wait: false`` returns at once)."""
        if request.get("redeliver"):
            return await self._redeliver(request)
        if request.get("kind") == "event":
            return await self.event(request)
        account, person = self.who(request)
        raw = request.get("raw_xml", request.get("raw"))
        if raw is not None:
            message_id = str(request.get("message_id") or "") or None
            return await self._run(request, account, person, str(raw), message_id, "原始报文")
        kind = str(request.get("kind") or "text")
        if kind == "text" and not any(name in request for name in ("text", "content", "fields", "Content")):
            raise ActError(400, "text is missing (or give kind and its fields, or raw_xml)")
        message_id = str(request.get("message_id") or self._world.next_message_id())
        fields = message_fields(account, person.user, self._with_media(account, request), message_id, self._world.clock.now_s())
        label = str(fields.get("Content") or _KIND_LABEL.get(kind, f"[{kind}]"))
        person.open_window(self._world.clock.now_ms(), USER_WINDOW_S, USER_MESSAGES)
        return await self._run(request, account, person, _written(account, request, fields), message_id, label)

    async def event(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One event (subscribe, click, view, enter_agent, ...)."""
        account, person = self.who(request)
        name = request.get("event") or request.get("name") or request.get("type")
        if not name:
            raise ActError(400, "event is missing, for example subscribe, click, view, enter_agent")
        request = {**request, "event": str(name)}
        name = event_name(account, str(name))
        fields = event_fields(account, person.user, request, self._world.clock.now_s())
        if name == "subscribe":
            person.following = True
        if name == "unsubscribe":
            person.following = False
            person.windows.clear()
        if name in ("CLICK", "SCAN", "subscribe", "scancode_waitmsg", "scancode_push"):
            person.open_window(self._world.clock.now_ms(), CLICK_WINDOW_S, CLICK_MESSAGES)
        label = str(request.get("label") or f"[{name}] {fields.get('EventKey', '')}".strip())
        return await self._run(request, account, person, _written(account, request, fields), None, label)

    async def click(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A card's button (WeCom), or the link of a msgmenu (Official Account)."""
        account, person = self.who(request)
        key = request.get("key", request.get("id"))
        if not account.wecom:
            return await self._menu_link(request, person, key)
        card = self._card(account, person, request)
        if key is None:
            raise ActError(400, "key is missing: the key of the button that is clicked")
        card.response_code, card.response_used = secrets.token_urlsafe(12), False
        card.response_until_ms = self._world.clock.now_ms() + 259_200_000
        self._world.response_codes[card.response_code] = [card]
        shown: Mapping[str, Any] = card.entry.get("card") or {}
        menu = any(str(item.get("key")) == str(key) for item in (shown.get("action_menu") or {}).get("action_list") or [])
        fields = event_fields(account, person.user, {"event": _click_event(menu), "key": str(key)}, self._world.clock.now_s())
        agent = fields.pop("AgentID")
        fields |= {
            "TaskId": card.task_id,
            "CardType": str(shown.get("card_type") or "button_interaction"),
            "ResponseCode": card.response_code,
            "AgentID": agent,
        }
        if request.get("selected"):
            fields["SelectedItems"] = {"SelectedItem": [_selected(q, ids) for q, ids in request["selected"].items()]}
        label = f"[点击] {_button_text(shown, str(key))}"
        return await self._run(request, account, person, to_xml(fields), None, label, card)

    def who(self, request: Mapping[str, Any]) -> tuple[SimAccount, Person]:
        """The account and person a request names; an unknown person comes to be. Raises ActError."""
        wanted = str(request.get("account") or "")
        account = self._world.accounts.get(wanted)
        if account is None:
            known = ", ".join(self._world.accounts)
            raise ActError(404 if wanted else 400, f"no account {wanted!r}; there are: {known}")
        user = str(request.get("user") or request.get("openid") or "")
        if not user:
            people = self._world.people.of(account.id)
            if not people:
                raise ActError(400, "user is missing")
            return account, people[0]
        return account, self._world.person(account.id, user)

    async def _run(
        self,
        request: Mapping[str, Any],
        account: SimAccount,
        person: Person,
        plaintext: str,
        message_id: str | None,
        label: str,
        card: Card | None = None,
    ) -> dict[str, Any]:
        exchange = Exchange(account, person, plaintext, message_id, label, card)
        entry = {"kind": str(request.get("kind") or "text"), "text": label, "at": self._world.clock.now_ms()}
        entry["exchange"] = exchange.id
        self._world.log.add_feed({"account": account.id, "user": person.user, "who": "me", "entry": entry})
        return await self._exchange(request, exchange)

    async def _exchange(self, request: Mapping[str, Any], exchange: Exchange) -> dict[str, Any]:
        urls = request.get("repeat_to")
        copies = int(request.get("copies") or 1)
        targets = [str(url) for url in urls] if urls else [exchange.account.callback_url] * copies
        result = {"message_id": exchange.message_id, "exchange": exchange.id, "deliveries": exchange.deliveries}
        if request.get("wait") is False:
            self._callbacks.start(exchange, targets)
        else:
            await self._callbacks.run(exchange, targets)
        return result

    async def _redeliver(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The same bytes of an earlier message or event again, as a late redelivery."""
        wanted = request["redeliver"]
        for record in reversed(self._world.log.exchanges.values()):
            mine = all(request.get(key) in (None, record[key]) for key in ("account", "user"))
            if mine and (wanted is True or str(wanted) in (record["message_id"], record["id"])):
                account, person = self.who(record)
                exchange = Exchange(account, person, record["plaintext"], record["message_id"], record["label"])
                return await self._exchange(request, exchange)
        raise ActError(404, f"nothing was sent that could be delivered again as {wanted!r}")

    def _with_media(self, account: SimAccount, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request with a media_id; the file comes from ``content_b64`` or is a small stand-in."""
        kind = str(request.get("kind") or "text")
        if kind not in MEDIA_KINDS or request.get("media_id"):
            return request
        filename, content_type, data = _KIND_FILES[kind]
        if request.get("content_b64"):
            data = base64.b64decode(str(request["content_b64"]))
        filename = str(request.get("file_name") or request.get("filename") or filename)
        content_type = str(request.get("content_type") or content_type)
        item = store_media(self._world, account.id, kind, filename, content_type, data)
        url = f"{self.media_base}/_media/{item['media_id']}"
        return {"pic_url": url, "file_name": filename, **request, "media_id": item["media_id"]}

    def _card(self, account: SimAccount, person: Person, request: Mapping[str, Any]) -> Card:
        task_id = request.get("task_id")
        if task_id is not None:
            card = self._world.card(account.id, person.user, str(task_id))
        else:
            mine = [c for c in self._world.cards.values() if (c.account, c.user) == (account.id, person.user)]
            card = mine[-1] if mine else None
        if card is None:
            raise ActError(404, f"{person.user} has no card with task_id {task_id!r}")
        return card

    async def _menu_link(self, request: Mapping[str, Any], person: Person, key: Any) -> dict[str, Any]:
        for entry in reversed(person.inbox):
            items = (entry.get("card") or {}).get("list") if entry["kind"] == "msgmenu" else None
            for item in items or []:
                if str(item.get("id")) == str(key):
                    said = {"kind": "text", "text": str(item.get("content", "")), "menu_id": str(key)}
                    return await self.say({**request, **said})
        raise ActError(404, f"{person.user} has no menu link {key!r}")


_KIND_LABEL = {
    "image": "[图片]",
    "voice": "[语音]",
    "video": "[视频]",
    "shortvideo": "[小视频]",
    "location": "[位置]",
    "link": "[链接]",
    "file": "[文件]",
}


def _written(account: SimAccount, request: Mapping[str, Any], fields: Fields) -> str:
    return to_json(fields) if account.json_callbacks or request.get("json") else to_xml(fields)


def _click_event(menu: bool) -> str:
    return "template_card_menu_event" if menu else "template_card_event"


def _selected(question: str, ids: Any) -> Fields:
    return {"QuestionKey": question, "OptionIds": {"OptionId": list(ids) if isinstance(ids, list) else [ids]}}


def _button_text(card: Mapping[str, Any], key: str) -> str:
    buttons = [*(card.get("button_list") or []), *((card.get("action_menu") or {}).get("action_list") or [])]
    return next((str(button.get("text")) for button in buttons if str(button.get("key")) == key), key)
