"""Platform XML in both directions: safe parsing into dicts, lists and strings, and building reply documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from xml.parsers import expat

from gateway.channel import CallbackRejected

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_NODES = 10_000

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters XML 1.0 cannot carry, not even escaped (XML 1.0, section 2.2)."""

_ILLEGAL_BYTES = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")
"""The same in UTF-8, less NUL and surrogates. The platforms send what a person pasted unescaped (reported: U+0010, U+001D)."""
_REPLACEMENT = "\ufffd".encode()

Tree = str | int | Mapping[str, Any] | Sequence[Any]


def parse(data: bytes) -> dict[str, Any]:
    """The children of the root element: text elements as strings exactly as sent, others as dicts, repeated ones as lists.

    White space between child elements is layout and is dropped; text is never stripped. Attributes, comments and
    processing instructions are ignored. The text is read as UTF-8 (with or without a byte order mark). Control characters
    that XML forbids become U+FFFD: a person pasted them, and the message is not lost for it. Raises CallbackRejected:
    too_large beyond 256 KiB; bad_xml for a document type, an entity beyond the predefined ones, more than 32 levels or
    10,000 elements, a NUL, or anything that is not well-formed.
    """
    if len(data) > MAX_BYTES:
        raise CallbackRejected("too_large", status=413, hint=f"the body is larger than {MAX_BYTES} bytes")
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    data = _ILLEGAL_BYTES.sub(_REPLACEMENT, data)
    builder = _Builder()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.buffer_size = 64 * 1024
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text.append
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise CallbackRejected("bad_xml", status=400, hint=f"not well-formed: {expat.ErrorString(error.code)}") from None
    except UnicodeDecodeError:
        raise CallbackRejected("bad_xml", status=400, hint="not UTF-8") from None
    if isinstance(builder.root, str) and builder.root.strip():
        raise CallbackRejected("bad_xml", status=400, hint="the root element holds text, not elements")
    return builder.root if isinstance(builder.root, dict) else {}


class _Builder:
    """Collects expat's events. An open element is None until its first child makes it a dict."""

    def __init__(self) -> None:
        self.root: dict[str, Any] | str = ""
        self.text: list[str] = []
        self._open: list[dict[str, Any] | None] = []
        self._nodes = 0

    def start(self, _name: str, _attributes: Mapping[str, str]) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(self._open) >= MAX_DEPTH:
            raise CallbackRejected("bad_xml", status=400, hint="too many elements or too deep")
        if self._open and self._open[-1] is None:
            self._open[-1] = {}
        self._open.append(None)
        self.text.clear()

    def end(self, name: str) -> None:
        children = self._open.pop()
        value: dict[str, Any] | str = "".join(self.text) if children is None else children
        self.text.clear()
        if not self._open:
            self.root = value
            return
        parent = self._open[-1]
        if parent is None:  # cannot be: start() made the parent a dict
            raise CallbackRejected("bad_xml", status=400)
        if name not in parent:
            parent[name] = value
        elif isinstance(parent[name], list):
            parent[name].append(value)
        else:
            parent[name] = [parent[name], value]


def _refuse_doctype(*_declaration: object) -> NoReturn:
    raise CallbackRejected("bad_xml", status=400, hint="a document type declaration is never sent by the platform")


def build(tree: Mapping[str, Any], root: str = "xml") -> bytes:
    """A document: strings as CDATA, integers bare, mappings nested, sequences as repeated elements.

    Names are ours and not escaped. Characters XML cannot carry are dropped; ``]]>`` is split over two CDATA sections.
    """
    out: list[str] = []
    _write(out, root, tree)
    return "".join(out).encode("utf-8")


def _write(out: list[str], name: str, value: Tree) -> None:
    if isinstance(value, str):
        text = _ILLEGAL.sub("", value).replace("]]>", "]]]]><![CDATA[>")
        out.append(f"<{name}><![CDATA[{text}]]></{name}>")
    elif isinstance(value, bool | int | float):
        out.append(f"<{name}>{value:d}</{name}>" if isinstance(value, int) else f"<{name}>{value}</{name}>")
    elif isinstance(value, Mapping):
        out.append(f"<{name}>")
        for child, content in value.items():
            _write(out, child, content)
        out.append(f"</{name}>")
    else:
        for item in value:
            _write(out, name, item)
