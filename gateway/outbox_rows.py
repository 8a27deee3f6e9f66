"""How a draft becomes rows and a row becomes a part again: rendering, labels of late answers, the offer to continue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from agent.protocol import Reply, ReplyKind, ReplySource
from config.ports import Draft
from gateway.channel import Channel, Part
from gateway.rendering import safe_line
from gateway.texts import CONTINUE_HINT, OFFER, QUESTION_CHARS, about, quote

_MARKUP = str.maketrans("", "", "*_`#~<>[]|\\")
_TAIL_CHARS = 60
_LABEL_KINDS = frozenset({"text", "markdown"})
_LABEL_CHARS = (QUESTION_CHARS, 8, 3)
"""How much of the question a late label quotes, and how little where the answer leaves no room."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A rendered draft: ``parts`` in order, and the first one as it reads when the answer comes late (or None)."""

    parts: tuple[Part, ...]
    late_first: Part | None


def reply_of(draft: Draft) -> Reply:
    """The draft's words as a reply, before any platform's limits."""
    return Reply(
        text=draft.text,
        kind=cast(ReplyKind, draft.kind),
        data=draft.data,
        source=cast(ReplySource, draft.source),
        action_id=draft.action_id,
    )


def render_draft(channel: Channel, draft: Draft) -> Pages:
    """Render a draft into platform parts. What is one message stays one: near the limit the late label is shorter, or left
    out. A longer text is split with room for the label, so labelling never changes the cut."""
    plain = tuple(channel.render(reply_of(draft)))
    if not plain or not draft.label or not draft.text or draft.kind not in _LABEL_KINDS:
        return Pages(plain, None)
    label = _plain_label(draft.label)
    if len(plain) == 1:
        tries = (_labelled(channel, draft, about(quote(label, chars))) for chars in _LABEL_CHARS)
        return Pages(plain, next((late[0] for late in tries if len(late) == 1), None))
    line = about(label)
    late = _labelled(channel, draft, line)
    if not late:
        return Pages(plain, None)
    first = reword(channel, late[0], late[0].text.replace(f"{line}\n", "", 1))
    return Pages((first or late[0], *late[1:]), late[0])


def _labelled(channel: Channel, draft: Draft, line: str) -> tuple[Part, ...]:
    """The draft's parts below the line that names its question; none where the renderer does not show the line as it is."""
    parts = tuple(channel.render(replace(reply_of(draft), text=f"{line}\n{draft.text}")))
    return parts if parts and line in parts[0].text else ()


def _plain_label(label: str) -> str:
    """The question without what a renderer would take for markup, so that quoting it changes nothing (N-16)."""
    return safe_line(label).translate(_MARKUP)


def reword(channel: Channel, part: Part, text: str) -> Part | None:
    """The same part with other words, or None when they do not fit into one message or the kind has no free text."""
    if part.kind not in _LABEL_KINDS:
        return None
    rendered = channel.render(Reply(text=text, kind=cast(ReplyKind, part.kind), source="fixed"))
    return replace(rendered[0], page=part.page) if len(rendered) == 1 else None


def offer_more(channel: Channel, part: Part) -> Part | None:
    """The part with the sentence that says how to get the rest (unless it says so already); None when it does not fit."""
    if OFFER in part.text[-_TAIL_CHARS:]:
        return part
    return reword(channel, part, f"{part.text}\n\n{CONTINUE_HINT}")


def hint_part(channel: Channel) -> Part:
    """The sentence that says how to get the rest, as a message of its own."""
    return channel.render(Reply(text=CONTINUE_HINT))[0]


def pack(part: Part, late: Part | None = None) -> dict[str, Any]:
    """The JSON that ``outbox_message.payload`` holds."""
    data: dict[str, Any] = {"kind": part.kind, "payload": dict(part.payload), "text": part.text, "page": part.page}
    if late is not None:
        data["late"] = pack(late)
    return data


def unpack(stored: Mapping[str, Any] | None, *, late: bool = False) -> Part | None:
    """The part a payload holds, in its late form when asked and there is one; None for a blanked payload."""
    if stored is None:
        return None
    chosen = stored.get("late") if late and stored.get("late") else stored
    data = cast(Mapping[str, Any], chosen)
    return Part(kind=data["kind"], payload=data["payload"], text=data["text"], page=data.get("page", 0))
