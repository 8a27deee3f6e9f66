"""message/send and update_template_card of WeCom, with every rule of the platform."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Any

from .answers import Refused
from .calls import Call, ok
from .cards import card_text, check_card, interactive
from .media_api import live_media
from .people import Person
from .replies import cut

_KINDS = frozenset(
    {"text", "image", "voice", "video", "file", "textcard", "news", "mpnews", "markdown", "template_card", "miniprogram_notice"}
)
MARKDOWN_BYTES = 2048
DAY_S = 86_400


async def message_send(call: Call) -> dict[str, Any]:
    """POST /cgi-bin/message/send (rule send.wecom)."""
    request = call.json()
    account = call.owner
    _check_agent(call, request)
    people, invalid = _targets(call, request)
    kind = str(request.get("msgtype", ""))
    text, card = _content(call, kind, request)
    repeated = _duplicate(call, request)
    if repeated:
        call.notes["duplicate"] = True
        return ok(msgid=repeated, **invalid)
    msgid = secrets.token_urlsafe(47)
    response_code = _card_code(call, kind, request)
    if bool(request.get("enable_duplicate_check")):
        interval_s = min(int(request.get("duplicate_check_interval") or 1800), 14_400)
        key = (account.id, hashlib.sha256(call.body).hexdigest())
        call.world.sent_requests[key] = (call.world.clock.now_ms() + interval_s * 1000, msgid)
    delivered = [person.user for person in people if _deliver(call, person, kind, text, card, msgid, response_code)]
    call.notes["delivered"] = delivered
    return ok(msgid=msgid, **invalid, **({"response_code": response_code} if response_code else {}))


def _check_agent(call: Call, request: Mapping[str, Any]) -> None:
    agent = request.get("agentid")
    if agent is None or not str(agent).isdigit():
        raise Refused(40056)
    if int(agent) != call.owner.agent_id:
        known = any(a.agent_id == int(agent) and a.app_id == call.owner.app_id for a in call.world.accounts.values())
        raise Refused(301002 if known else 40056)


def _targets(call: Call, request: Mapping[str, Any]) -> tuple[list[Person], dict[str, str]]:
    """Who receives, and the invalid* fields of the answer."""
    users = [user for user in str(request.get("touser") or "").split("|") if user]
    parties = [party for party in str(request.get("toparty") or "").split("|") if party]
    tags = [tag for tag in str(request.get("totag") or "").split("|") if tag]
    if not users and not parties and not tags:
        raise Refused(82001)
    if len(users) > 1000:
        raise Refused(40032)
    everybody = [person for person in call.world.people.of(call.owner.id) if person.visible]
    if "@all" in users:
        return everybody, {}
    chosen: dict[str, Person] = {}
    bad_users, bad_parties, bad_tags = [], [], []
    for user in users:
        person = call.world.people.find(call.owner.id, user)
        if person is None or not person.visible:
            bad_users.append(user.lower())
        else:
            chosen[person.user] = person
    for party in parties:
        members = [p for p in everybody if party.isdigit() and (int(party) in p.departments or party == "1")]
        chosen.update({p.user: p for p in members})
        bad_parties += [] if members else [party]
    for tag in tags:
        members = [p for p in everybody if tag in p.tags]
        chosen.update({p.user: p for p in members})
        bad_tags += [] if members else [tag]
    if not chosen:
        raise Refused(81013)
    invalid = {"invaliduser": "|".join(bad_users), "invalidparty": "|".join(bad_parties), "invalidtag": "|".join(bad_tags)}
    return list(chosen.values()), invalid


def _content(call: Call, kind: str, request: Mapping[str, Any]) -> tuple[str, Any]:
    """The text a person reads and the structured rest. Raises Refused."""
    part = request.get(kind)
    if kind not in _KINDS:
        raise Refused(40008)
    if not isinstance(part, Mapping):
        raise Refused(40058, f"{kind} missing. ")
    if kind == "text":
        content = str(part.get("content") or "")
        if not content:
            raise Refused(44004)
        return cut(content), None
    if kind == "markdown":
        content = str(part.get("content") or "")
        if not content:
            raise Refused(44004)
        if len(content.encode()) > MARKDOWN_BYTES:
            raise Refused(45002)
        return content, None
    if kind in ("image", "voice", "video", "file"):
        media = live_media(call, str(part.get("media_id") or ""))
        return media["filename"] if kind == "file" else f"[{media['type']}]", {**part, "filename": media["filename"]}
    if kind == "template_card":
        check_card(part)
        return card_text(part), dict(part)
    articles = part.get("articles")
    if kind in ("news", "mpnews") and (not isinstance(articles, list) or not 1 <= len(articles) <= 8):
        raise Refused(45008)
    first = articles[0] if isinstance(articles, list) else part
    return str(first.get("title") or ""), dict(part)


def _duplicate(call: Call, request: Mapping[str, Any]) -> str | None:
    if not request.get("enable_duplicate_check"):
        return None
    known = call.world.sent_requests.get((call.owner.id, hashlib.sha256(call.body).hexdigest()))
    return known[1] if known is not None and known[0] > call.world.clock.now_ms() else None


def _card_code(call: Call, kind: str, request: Mapping[str, Any]) -> str | None:
    """Checks the task_id of a card and returns its response_code; None for what cannot be updated."""
    if kind != "template_card" or not interactive(request[kind]):
        return None
    task_id = str(request[kind].get("task_id") or "")
    if not re.fullmatch(r"[0-9A-Za-z_\-@]{1,128}", task_id) or (call.owner.id, task_id) in call.world.task_ids:
        raise Refused(42014)
    call.world.task_ids.add((call.owner.id, task_id))
    return secrets.token_urlsafe(12)


def _deliver(call: Call, person: Person, kind: str, text: str, card: Any, msgid: str, response_code: str | None) -> bool:
    now_ms = call.world.clock.now_ms()
    if person.over_pace(now_ms):
        call.notes.setdefault("dropped", []).append(person.user)
        return False
    person.sent_at_ms.append(now_ms)
    if call.drop is not None:
        return False
    entry = call.world.show(person, "push", kind, text, card, msgid=msgid)
    if response_code:
        call.world.add_card(person, entry, str(card.get("task_id")), response_code)
    return True


async def update_template_card(call: Call) -> dict[str, Any]:
    """POST /cgi-bin/message/update_template_card: a response_code works once, within 72 h (rule card)."""
    request = call.json()
    _check_agent(call, request)
    cards = call.world.response_codes.get(str(request.get("response_code") or ""), [])
    now_ms = call.world.clock.now_ms()
    live = [card for card in cards if not card.response_used and card.response_until_ms > now_ms]
    if not live or live[0].account != call.owner.id:
        raise Refused(60140)
    new_card, button = request.get("template_card"), request.get("button")
    if (new_card is None) == (button is None):
        raise Refused(40058, "exactly one of button and template_card. ")
    wanted = [str(user).lower() for user in request.get("userids") or []]
    if not wanted and not request.get("atall"):
        raise Refused(82001)
    for card in live:
        card.response_used = True
        if wanted and card.user.lower() not in wanted:
            continue
        if isinstance(new_card, Mapping):
            card.entry["card"] = {**new_card, "task_id": card.task_id}
            card.entry["text"] = card_text(new_card)
        else:
            card.entry["card"] = {**(card.entry["card"] or {}), "replaced": str((button or {}).get("replace_name", ""))}
        card.entry["updated_at"] = now_ms
        call.world.changed(card)
    known = {card.user.lower() for card in live}
    return ok(invaliduser=[user for user in wanted if user not in known])


async def recall(call: Call) -> dict[str, Any]:
    """POST /cgi-bin/message/recall within 24 h."""
    msgid = str(call.json().get("msgid") or "")
    now_ms = call.world.clock.now_ms()
    for person in call.world.people.of(call.owner.id):
        for entry in person.inbox:
            if entry.get("msgid") == msgid and entry["at"] > now_ms - DAY_S * 1000:
                entry.update(text="[消息已撤回]", card=None, recalled=True)
                call.world.log.publish("card", {"account": person.account, "user": person.user, "entry": entry})
    return ok()
