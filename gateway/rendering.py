"""From a reply to the texts that fit: made safe, readable, labelled and cut. What both platforms have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.protocol import Reply
from gateway import texts
from gateway.channel import Part
from gateway.markdown import to_plain, to_plain_text, to_subset
from gateway.sanitize import strip_markup, untrusted, visible
from gateway.split import Marked, mark, split

TEXT_LIMIT_BYTES = 2048
"""message/send and custom/send text, app markdown, passive text (limits: wecom.send.text.bytes, oa.cs.text, oa.cb.text)."""
OURS = frozenset({"fixed", "confirm_prompt"})
"""Sources whose text is written by us and may carry our own markup (N-16)."""


def safe_line(text: str, limit_chars: int = 200) -> str:
    """Foreign text for a title, a row or a file name: one line, no markup, at most ``limit_chars`` (N-17)."""
    flat = " ".join(untrusted(text).split())
    return flat if len(flat) <= limit_chars else flat[: limit_chars - 1] + "…"


def our_line(text: str, limit_chars: int) -> str:
    """Our own text for a title or a row: one line without control characters, at most ``limit_chars``."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= limit_chars else flat[: limit_chars - 1] + "…"


def plain_text(reply: Reply, *, suffix: str = "") -> Marked:
    """The reply's text as plain text, ``suffix`` (such as the AI label) below it; empty stays empty."""
    shown = visible(reply.text)
    marked = to_plain(shown) if reply.kind == "markdown" or reply.source == "model" else mark(shown)
    return _finish(reply, marked, suffix)


def subset_text(reply: Reply, *, suffix: str = "") -> Marked:
    """The reply's text in the markdown a WeCom app renders."""
    return _finish(reply, to_subset(visible(reply.text)), suffix)


def text_parts(marked: Marked, kind: str, *, max_parts: int, spare_bytes: int = 0) -> list[Part]:
    """Parts of kind text or markdown, numbered and paged. Nothing for an empty text (44004)."""
    pieces = split(marked, TEXT_LIMIT_BYTES, max_parts=max_parts, more=texts.MORE_PARTS, spare_bytes=spare_bytes)
    return [
        Part(kind, {"msgtype": kind, kind: {"content": piece.text}}, _readable(kind, piece.text), piece.page)
        for piece in pieces
        if piece.text.strip()
    ]


def text_part(text: str) -> Part:
    """One text part; the caller knows that it fits."""
    return Part("text", {"msgtype": "text", "text": {"content": text}}, text)


def media_body(reply: Reply) -> dict[str, str]:
    """What a picture, voice or file is sent from: an id, a path or a URL, and its name."""
    return {name: str(reply.data[name]) for name in ("media_id", "path", "file_name", "url") if reply.data.get(name)}


def media_notice(kind: str, body: Mapping[str, Any]) -> str:
    """What is said in place of media: where it is, or that it could not be sent (MED-01)."""
    word = texts.MEDIA_WORDS.get(kind, texts.MEDIA_FILE)
    name = safe_line(str(body.get("file_name") or body.get("path") or "").rsplit("/", 1)[-1], 80) or word
    url = link_of(body.get("url"))
    template = texts.MEDIA_LINK if url else texts.MEDIA_NOTICE
    return template.format(kind=word, name=name, url=url)


def _readable(kind: str, text: str) -> str:
    plain = to_plain_text(text) if kind == "markdown" else text
    return plain if len(plain.encode()) <= TEXT_LIMIT_BYTES else text


def _finish(reply: Reply, marked: Marked, suffix: str) -> Marked:
    if reply.source not in OURS:
        cleaned = untrusted(marked.text)
        if cleaned != marked.text:
            marked = mark(cleaned)
    if not marked.text.strip():
        return Marked("")
    tail = len(marked.text.rstrip())
    clipped = Marked(
        marked.text[:tail],
        tuple((start, min(end, tail)) for start, end in marked.keep if start < tail),
        tuple(replace(repeat, end=min(repeat.end, tail)) for repeat in marked.repeat if repeat.start < tail),
    )
    return replace(clipped, text=f"{clipped.text}\n\n{suffix}") if suffix else clipped


def link_of(url: object) -> str:
    """``url`` if it is an http(s) address without blanks, else empty: nothing else may become a link."""
    text = strip_markup(visible(str(url or ""))).strip()
    return text if text.lower().startswith(("http://", "https://")) and not any(c.isspace() or c in "<>\"'" for c in text) else ""
