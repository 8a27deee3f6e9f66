"""Cuts a long text into numbered messages: by UTF-8 bytes, at natural borders, never inside what belongs together."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.sanitize import PROMPT_DISCLAIMER

RULE = "──────────"
"""The line under the head of a table in plain text; tables are recognized by it when they are cut."""
_URL_END = r"\s<>\"'，。；！？、）」』》】（"
_KEEP = re.compile(
    rf"\[[^\[\]\n]{{0,200}}\]\([^()\s]{{1,1500}}\)|<a\s[^<>]*>[^<>]*</a>|[^\s（）]{{0,40}}（https?://[^{_URL_END}]+）"
    rf"|https?://[^{_URL_END}]+|{PROMPT_DISCLAIMER}.{{0,24}}|<[a-z]+ [^<>\n]{{0,80}}>",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)([^\n]*)\n.*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(
    rf"^(?P<head>[^\n]*\|[^\n]*\n(?:{RULE[0]}{{3,}}| *\|?[ :|-]*-[ :|-]*)\n)(?P<rows>(?:[^\n]*\|[^\n]*(?:\n|\Z))*)", re.MULTILINE
)
_BORDERS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"\n[ \t]*\n+"), 0.5),
    (re.compile(r"\n"), 0.4),
    (re.compile(r"[。！？!?；;…]+[”’」』）)\]】》]*|\. "), 0.4),
    (re.compile(r"[，,、：:][”’」』）)]*|[ \t　]+"), 0.6),
)
_LABEL = re.compile(r"\A\(\d+/\d+\)\n")


@dataclass(frozen=True, slots=True)
class Repeat:
    """A stretch that may be cut at line ends if each piece is closed with ``suffix`` and the next opened with ``prefix``."""

    start: int
    end: int
    prefix: str
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Marked:
    """A text and what of it belongs together: ``keep`` is cut only if it is longer than a message by itself."""

    text: str
    keep: tuple[tuple[int, int], ...] = ()
    repeat: tuple[Repeat, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """One message: ``text`` with its label; ``page`` 0 goes at once, a later page waits behind 继续."""

    text: str
    page: int = 0


def mark(text: str, code: tuple[tuple[int, int], ...] = ()) -> Marked:
    """Find links, tables and fenced code in ``text``; ``code`` are stretches already known to be code without a fence."""
    keep = [match.span() for match in _KEEP.finditer(text)]
    keep.extend(code)
    repeat = []
    for match in _FENCE.finditer(text):
        keep.append(match.span())
        repeat.append(Repeat(*match.span(), f"{match.group(1)}{match.group(2)}\n", f"\n{match.group(1)}"))
    for match in _TABLE.finditer(text):
        first_row = text.find("\n", match.start("rows"))
        keep.append((match.start(), match.end("rows") if first_row < 0 else min(first_row + 1, match.end())))
        position = match.start("rows")
        for row in match.group("rows").splitlines(keepends=True):
            keep.append((position, position + len(row)))
            position += len(row)
        repeat.append(Repeat(match.start("rows"), match.end(), match.group("head")))
    return Marked(text, tuple(keep), tuple(repeat))


def split(marked: Marked | str, limit_bytes: int, *, max_parts: int = 5, more: str = "", spare_bytes: int = 0) -> list[Piece]:
    """Cut into messages of at most ``limit_bytes``; several are numbered ``(1/3)`` on a line of their own.

    Beyond ``max_parts`` the rest goes to later pages, and the last message of each page ends with ``more``
    (``{remaining}`` is the count of what waits); a single left-over message is not worth a page. ``spare_bytes`` are
    left free in each message of several. Without the labels, ``more``, and what a cut table or code block repeats, the
    messages joined are the text.
    """
    source = mark(marked) if isinstance(marked, str) else marked
    if _size(source.text) <= limit_bytes:
        return [Piece(source.text)] if source.text else []
    more_bytes = _size(more) + 6 if more else 0
    digits = 1
    while True:
        room = limit_bytes - (4 + 2 * digits) - spare_bytes
        texts = list(_cut_all(source, room, max_parts, more_bytes))
        if len(str(len(texts))) <= digits:
            break
        digits += 1
    return _paginate(texts, max_parts, more)


def strip_label(text: str) -> str:
    """A message without its ``(1/3)`` line."""
    return _LABEL.sub("", text, count=1)


def truncate(text: str, limit_bytes: int, *, ellipsis: str = "…") -> str:
    """``text`` cut to ``limit_bytes`` at a character border, ended with ``ellipsis`` if something is missing."""
    if _size(text) <= limit_bytes:
        return text
    end = _fit(text, 0, max(0, limit_bytes - _size(ellipsis)))
    while end > 0 and not is_border(text, end):
        end -= 1
    return text[:end] + ellipsis


def is_border(text: str, place: int) -> bool:
    """Whether ``text`` may be cut before ``place`` without tearing a visible character (emoji, accents, flags) apart."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if before == "\r" and after == "\n":
        return False
    if before == "\u200d" or after in "\u200d\u200c\ufe0e\ufe0f" or unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return False
    if 0x1F3FB <= ord(after) <= 0x1F3FF or 0xE0020 <= ord(after) <= 0xE007F or 0x1160 <= ord(after) <= 0x11FF:
        return False
    if _is_flag(before) and _is_flag(after):
        run = place - 1
        while run > 0 and _is_flag(text[run - 1]):
            run -= 1
        return (place - run) % 2 == 0
    return True


def _paginate(texts: list[str], max_parts: int, more: str) -> list[Piece]:
    total = len(texts)
    pages = [index // max_parts for index in range(total)]
    if total > 1 and total % max_parts == 1 and max_parts > 1:
        pages[-1] = pages[-2]
    pieces = []
    for index, text in enumerate(texts):
        ends_page = index + 1 < total and pages[index + 1] != pages[index]
        tail = more.replace("{remaining}", str(total - index - 1)) if ends_page else ""
        pieces.append(Piece(f"({index + 1}/{total})\n{text}{tail}", pages[index]))
    return pieces


def _cut_all(source: Marked, room: int, max_parts: int, more_bytes: int) -> Iterator[str]:
    text, start, index = source.text, 0, 0
    keep = _merge(source.keep)
    prefix = ""
    while start < len(text):
        budget = room - (more_bytes if (index + 1) % max_parts == 0 else 0)
        usable = budget - _size(prefix)
        if usable < budget // 4:  # a head too long to repeat is not repeated
            prefix, usable = "", budget
        end = _cut(text, start, usable, keep)
        crossing = _crossing(source.repeat, end)
        suffix = crossing.suffix if crossing else ""
        if suffix:
            end = _cut(text, start, usable - _size(suffix), keep)
            crossing = _crossing(source.repeat, end)
            suffix = crossing.suffix if crossing else ""
        piece = text[start:end]
        yield prefix + (piece.rstrip("\n") + suffix if suffix else piece)
        prefix = crossing.prefix if crossing else ""
        start, index = end, index + 1


def _cut(text: str, start: int, room: int, keep: list[tuple[int, int]]) -> int:
    """Where the piece that begins at ``start`` ends: the best border within ``room`` bytes."""
    hard = _fit(text, start, room)
    if hard >= len(text):
        return len(text)
    held = [(a, b) for a, b in keep if a < hard and b > start and (a > start or b <= hard)]
    for border, least in _BORDERS:
        ends = [match.end() for match in border.finditer(text, start, hard)]
        for end in reversed(ends):
            if end - start < (hard - start) * least:
                break
            if end > start and _allowed(text, end, held):
                return end
    for end in range(hard, start, -1):
        if _allowed(text, end, held):
            return end
    return max(hard, start + 1)


def _allowed(text: str, place: int, held: list[tuple[int, int]]) -> bool:
    return is_border(text, place) and not any(a < place < b for a, b in held)


def _fit(text: str, start: int, room: int) -> int:
    """The furthest end so that ``text[start:end]`` takes at most ``room`` bytes."""
    end = min(len(text), start + room)
    while _size(text[start:end]) > room:
        over = _size(text[start:end]) - room
        end -= max(1, over // 4)
    return end


def _crossing(repeats: tuple[Repeat, ...], place: int) -> Repeat | None:
    return next((repeat for repeat in repeats if repeat.start < place < repeat.end), None)


def _merge(spans: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return sorted({span for span in spans if span[1] > span[0]})


def _is_flag(character: str) -> bool:
    return 0x1F1E6 <= ord(character) <= 0x1F1FF


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
