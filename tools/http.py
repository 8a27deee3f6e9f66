"""Internal HTTP systems as tools, declared in the settings: url template, secret headers, JSON schema, summary template."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from config.schema import HttpTool, Tenant
from tools import texts
from tools.base import OutcomeUnknown, Tool, ToolContext, ToolFailed, ToolResult, fingerprint
from tools.egress import Egress, EgressFailed, EgressRefused

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHOWN_CHARS = 500


def http_tool(spec: HttpTool, tenant: Tenant) -> Tool:
    """The tool a settings entry declares. Its own host is always allowed (N-20)."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
        egress = Egress([*tenant.tools.allow_hosts, _own_host(spec.url)], inside=True)
        return await _call(spec, egress, context, arguments)

    properties = spec.parameters.get("properties", {})
    labels = {name: _label(schema, name) for name, schema in properties.items() if isinstance(schema, Mapping)}
    return Tool(
        name=spec.name,
        title=spec.description.splitlines()[0][:40] or spec.name,
        description=spec.description,
        parameters=spec.parameters,
        run=run,
        tool_class=spec.tool_class,
        idempotent=spec.idempotency_header is not None,
        roles=frozenset(spec.roles),
        public=spec.public,
        timeout_s=spec.timeout_s,
        risk=spec.risk,
        summary_template=None,
        confirm_template=spec.confirm_template,
        labels=labels,
        triggers=spec.triggers,
        version=fingerprint(spec.method, spec.url, spec.body, spec.tool_class, spec.parameters),
    )


def fill_url(template: str, arguments: Mapping[str, Any]) -> str:
    """The URL with every ``{name}`` replaced by one encoded segment: no value can add a slash, a query or a dot segment.

    A query parameter (``?name={name}``) whose argument was not given is left out. Raises ToolFailed for a value that
    cannot be a segment.
    """
    path, mark, query = template.partition("?")
    kept = [pair for pair in query.split("&") if all(name in arguments for name in _PLACE.findall(pair))] if mark else []
    filled = _PLACE.sub(lambda match: _segment(arguments.get(match[1]), match[1]), path)
    tail = "&".join(_PLACE.sub(lambda match: _segment(arguments[match[1]], match[1], in_query=True), pair) for pair in kept)
    return f"{filled}?{tail}" if tail else filled


def _segment(value: Any, name: str, *, in_query: bool = False) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else "" if value is None else str(value)
    if not isinstance(value, (str, int, float, bool)) or (not in_query and text.strip() in ("", ".", "..")):
        raise ToolFailed(f"{name} cannot be part of a URL", user_text=texts.PROBLEMS["pattern"].format(name=name))
    return quote(text, safe="")


async def _call(spec: HttpTool, egress: Egress, context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult:
    headers = {name: value.get_secret_value() for name, value in spec.headers.items()}
    if spec.idempotency_header is not None:
        headers[spec.idempotency_header] = context.call_key
    in_url = set(_PLACE.findall(spec.url))
    body = {name: value for name, value in arguments.items() if name not in in_url}
    try:
        answer = await egress.call(
            spec.method,
            fill_url(spec.url, arguments),
            headers=headers,
            json=body if spec.body == "json" and spec.method != "GET" else None,
            timeout_s=spec.timeout_s,
        )
    except EgressRefused:
        raise ToolFailed("egress refused", code="egress_refused", user_text=texts.HTTP_REFUSED) from None
    except EgressFailed as error:
        if error.sent and spec.tool_class != "read":
            raise OutcomeUnknown("the write may have arrived", user_text=texts.HTTP_UNREACHABLE) from None
        text = texts.HTTP_TOO_LARGE if error.code == "too_large" else texts.HTTP_UNREACHABLE
        raise ToolFailed("no answer", code=error.code, user_text=text) from None
    if not 200 <= answer.status < 300:
        said = texts.HTTP_STATUS.format(status=answer.status)
        if spec.tool_class != "read" and not 400 <= answer.status < 500:
            raise OutcomeUnknown(f"HTTP {answer.status} to a write", user_text=said)
        raise ToolFailed("refused", code=f"http_{answer.status}", user_text=said)
    return _result(spec, arguments, answer.body)


def _own_host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _result(spec: HttpTool, arguments: Mapping[str, Any], body: bytes) -> ToolResult:
    try:
        data: Any = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError):
        if spec.tool_class != "read":  # it was taken; whether it was done, nobody can read
            raise OutcomeUnknown("no JSON to a write", user_text=texts.HTTP_BAD_BODY) from None
        raise ToolFailed("no JSON", code="bad_body", user_text=texts.HTTP_BAD_BODY) from None
    values = data if isinstance(data, dict) else {"items": data, "total": len(data) if isinstance(data, list) else 1}
    shown = {**arguments, **values}
    summary = _Template().format(spec.summary_template, **{key: _short(value) for key, value in shown.items()})
    return ToolResult(summary, raw=data, values=values)


class _Template(string.Formatter):
    """``{name}`` only: no attribute, no index, no conversion; a value that did not come reads 「未提供」."""

    def get_field(self, field_name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The plain value of this name."""
        return kwargs.get(field_name, texts.NOT_GIVEN), field_name

    def format_field(self, value: Any, format_spec: str) -> Any:
        """Values are text already."""
        return str(value)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _label(schema: Mapping[str, Any], name: str) -> str:
    return str(schema.get("title") or re.split(r"[，,。；;（(：:]", str(schema.get("description") or ""), maxsplit=1)[0] or name)
