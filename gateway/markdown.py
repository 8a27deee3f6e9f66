"""Turns markdown into text that reads well where markdown is not rendered."""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway.split import RULE, Marked, mark
from gateway.texts import MEDIA_WORDS

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
_BULLET = re.compile(r"^([ \t]*)[-*+][ \t]+(?:\[([ xX])\][ \t]+)?(.*)$")
_QUOTE = re.compile(r"^ {0,3}((?:>[ \t]?)+)(.*)$")
_LINE = re.compile(r"^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_UNDERLINE = re.compile(r"^ {0,3}=+[ \t]*$")
_SEPARATOR = re.compile(r"^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CODE = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)")
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\(\s*<?([^()\s<>]+)>?(?:\s+[\"'][^\"']*[\"'])?\s*\)")
_LINK = re.compile(r"\[([^\[\]]*)\]\(\s*<?([^()\s<>]*(?:\([^()\s<>]*\)[^()\s<>]*)*)>?(?:\s+[\"'][^\"']*[\"'])?\s*\)")
_AUTOLINK = re.compile(r"<(https?://[^\s<>]+)>")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?(?:b|i|u|s|em|strong|del|font|span|p|div|sub|sup|mark)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_EMPHASIS = (
    re.compile(r"(?<![\\A-Za-z0-9*])\*\*\*(?=\S)(.+?)(?<=\S)\*\*\*(?![A-Za-z0-9*])"),
    re.compile(r"(?<![\\A-Za-z0-9*])\*\*(?=\S)(.+?)(?<=[^\s\\])\*\*(?![A-Za-z0-9*])"),
    re.compile(r"(?<![\\A-Za-z0-9_])__(?=\S)(.+?)(?<=[^\s\\])__(?![A-Za-z0-9_])"),
    re.compile(r"(?<![\\A-Za-z0-9*])\*(?=[^\s*])([^*\n]+?)(?<=[^\s\\*])\*(?![A-Za-z0-9*])"),
    re.compile(r"(?<![\\A-Za-z0-9_])_(?=[^\s_])([^_\n]+?)(?<=[^\s\\_])_(?![A-Za-z0-9_])"),
    re.compile(r"~~(?=\S)(.+?)(?<=\S)~~"),
)
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|>~<])")
_SPECIAL = re.compile(r"[*_`~\[<\\]")
_HELD = re.compile("\ue000(\\d+)\ue001")
_SYNTAX = re.compile(
    r"^ {0,3}(#{1,6}[ \t]|>|[-*+][ \t]|`{3}|~{3})|\*\*|__|`|\]\(|^[ \t]*\|.*\|[ \t]*$|~~|^ {0,3}\d{1,3}\.[ \t]", re.MULTILINE
)


def looks_like_markdown(text: str) -> bool:
    """Whether the text uses any markdown that a plain reader would stumble over."""
    return _SYNTAX.search(text) is not None


def to_plain(source: str) -> Marked:
    """The text a person reads: headings and emphasis bare, lists with •, links as 文字（url）, tables as rows ``a | b``
    under a head and a rule, code as it is. What must stay together in a cut is marked."""
    return _converted(source, _take_line)


def to_plain_text(source: str) -> str:
    """``to_plain`` without the marks."""
    return to_plain(source).text


def to_subset(source: str) -> Marked:
    """The text in the markdown that a WeCom app renders (headings, bold, links, inline code, quotes, font): tables become
    rows, lists get •, fences go."""
    return _converted(source, _take_subset_line)


def _converted(source: str, take_line: Callable[[str, list[str]], None]) -> Marked:
    """The text with its tables and code blocks in plain form; ``take_line`` writes every other line."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    out: list[str] = []
    code: list[tuple[int, int]] = []
    index = 0
    while index < len(lines):
        fence = _FENCE.match(lines[index])
        if fence:
            first = len(out)
            index = _take_code(lines, index, fence.group(1), out)
            code.append((first, len(out)))
        elif "|" in lines[index] and index + 1 < len(lines) and _is_separator(lines[index + 1]):
            index = _take_table(lines, index, out)
        else:
            take_line(lines[index], out)
            index += 1
    return _join(out, code)


def _take_subset_line(line: str, out: list[str]) -> None:
    bullet = _BULLET.match(line)
    out.append(f"{bullet.group(1)}• {bullet.group(3)}" if bullet else line)


def _take_code(lines: list[str], index: int, fence: str, out: list[str]) -> int:
    index += 1
    while index < len(lines):
        line = lines[index]
        index += 1
        if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            break
        out.append(line)
    return index


def _take_table(lines: list[str], index: int, out: list[str]) -> int:
    out.append(_row(lines[index]))
    out.append(RULE)
    index += 2
    while index < len(lines) and "|" in lines[index] and lines[index].strip():
        out.append(_row(lines[index]))
        index += 1
    return index


def _row(line: str) -> str:
    cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    shown = [inline(cell.strip()) for cell in cells]
    return " | ".join(shown) if len(shown) > 1 else f"{shown[0]} |"


def _take_line(line: str, out: list[str]) -> None:
    if not line.strip():
        out.append("")
        return
    if _UNDERLINE.match(line) and out and out[-1].strip():
        return
    if _LINE.match(line):
        out.append(RULE)
        return
    quote = _QUOTE.match(line)
    if quote:
        inner: list[str] = []
        _take_line(quote.group(2), inner)
        out.extend(f"│ {text}".rstrip() for text in inner)
        return
    heading = _HEADING.match(line)
    if heading:
        out.append(inline(heading.group(1)))
        return
    bullet = _BULLET.match(line)
    if bullet:
        sign = "•" if bullet.group(2) is None else ("☐" if bullet.group(2) == " " else "☑")
        out.append(f"{bullet.group(1)}{sign} {inline(bullet.group(3))}")
        return
    out.extend(inline(line).split("\n"))


def inline(text: str) -> str:
    """One line without inline markdown; code keeps its characters."""
    held: list[str] = []

    def hold(value: str) -> str:
        held.append(value)
        return f"\ue000{len(held) - 1}\ue001"

    text = text.replace("\ue000", "").replace("\ue001", "")
    if not _SPECIAL.search(text):
        return text.rstrip()
    text = _CODE.sub(lambda match: hold(match.group(2).strip() or match.group(2)), text)
    text = _ESCAPE.sub(lambda match: hold(match.group(1)), text)
    text = _AUTOLINK.sub(lambda match: hold(match.group(1)), text)
    text = _IMAGE.sub(lambda match: _link(match.group(1) or MEDIA_WORDS["image"], hold(match.group(2)), match.group(2)), text)
    text = _LINK.sub(lambda match: _link(match.group(1), hold(match.group(2)), match.group(2)), text)
    text = _TAG.sub("", _BREAK.sub("\n", text))
    for emphasis in _EMPHASIS:
        text = emphasis.sub(r"\1", text)
    while _HELD.search(text):
        text = _HELD.sub(lambda match: held[int(match.group(1))], text)
    return text.rstrip()


def _link(label: str, held_url: str, url: str) -> str:
    if not url:
        return label
    if not label.strip() or label.strip() == url:
        return held_url
    return f"{label}（{held_url}）"


def _is_separator(line: str) -> bool:
    return "-" in line and _SEPARATOR.match(line) is not None


def _join(lines: list[str], code: list[tuple[int, int]]) -> Marked:
    """The lines as one text without runs of blank lines (outside code), code stretches as character positions."""
    starts: dict[int, int] = {}
    text = ""
    parts: list[str] = []
    length = 0
    blank = True
    in_code = {index for first, last in code for index in range(first, last)}
    for index, line in enumerate(lines):
        starts[index] = length
        empty = not line.strip() and index not in in_code
        if empty and blank:
            continue
        blank = empty
        parts.append("\n" if empty else line + "\n")
        length += len(parts[-1])
    starts[len(lines)] = length
    text = "".join(parts).rstrip("\n")
    spans = tuple((starts[first], min(starts[last], len(text))) for first, last in code)
    return mark(text, spans)
