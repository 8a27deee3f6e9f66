"""The company directory and the approval app for the tools (tools.ports.Platform), over the accounts' API clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.clock import Clock
from config.errors import Refused
from gateway.errors import PlatformError
from gateway.mp.client import MpClient
from gateway.transport import Answer
from gateway.wecom.client import WecomClient
from tools import texts
from tools.egress import EgressFailed
from tools.ports import Member

_ROOT_DEPARTMENT = "1"
_GOOD_FOR_S = 300.0
_NOBODY = frozenset({60111, 60011, 46004})
"""No such member, or outside the app's visible range (errcodes of user/get)."""


class Directory:
    """See tools.ports.Platform. Names are looked up in a list of the visible range that is at most 5 minutes old."""

    def __init__(self, clients: Mapping[str, WecomClient | MpClient], clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self._lists: dict[str, tuple[float, Sequence[Member]]] = {}

    async def member(self, account_id: str, user_id: str) -> Member | None:
        """See tools.ports.Platform.member. Raises PlatformError."""
        client = self._clients.get(account_id)
        if not isinstance(client, WecomClient):
            return None
        answer = await client.get_user(user_id)
        if answer.errcode in _NOBODY:
            return None
        _expect(answer, "user/get")
        return _member(answer.data)

    async def members_named(self, account_id: str, name: str) -> Sequence[Member]:
        """See tools.ports.Platform.members_named. Raises PlatformError."""
        client = self._clients.get(account_id)
        if not isinstance(client, WecomClient):
            return ()
        fetched_at, members = self._lists.get(account_id, (float("-inf"), ()))
        if self._clock.monotonic() - fetched_at > _GOOD_FOR_S:
            answer = await client.list_users(_ROOT_DEPARTMENT)
            _expect(answer, "user/simplelist")
            departments = await _departments(client)
            listed = [item for item in answer.data.get("userlist") or () if isinstance(item, dict)]
            members = [_member(item, departments) for item in listed]
            self._lists[account_id] = (self._clock.monotonic(), members)
        return [member for member in members if member.name == name]

    async def submit_approval(self, account_id: str, application: Mapping[str, Any]) -> str:
        """See tools.ports.Platform.submit_approval. Raises PlatformError for a refusal, EgressFailed (sent) when nobody knows."""
        client = self._clients.get(account_id)
        if not isinstance(client, WecomClient):
            raise Refused("no approvals on this account", user_text=texts.APPROVAL_UNAVAILABLE)
        detail = await client.approval_template(application["template_id"])
        _expect(detail, "oa/gettemplatedetail")
        answer = await client.apply_approval(approval_body(application, detail.data))
        if answer.transport == "unknown":
            raise EgressFailed("the application may have arrived", sent=True, code="outcome_unknown")
        _expect(answer, "oa/applyevent")
        return str(answer.data.get("sp_no") or "")


def approval_body(application: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, Any]:
    """The request of oa/applyevent (path/91853): our fields put into the template's text controls by their titles; what fits
    none goes into the last text control, so nothing the person confirmed is lost."""
    controls = [_control(item) for item in (detail.get("template_content") or {}).get("controls") or ()]
    texts_only = [control for control in controls if control["control"] in ("Text", "Textarea")]
    values: dict[str, list[str]] = {}
    for field in application["fields"]:
        fitting = [control for control in texts_only if control["title"] == field["label"]] or texts_only[-1:]
        if not fitting:
            raise Refused("the template has no text control", user_text=texts.APPROVAL_UNAVAILABLE)
        values.setdefault(fitting[0]["id"], []).append(str(field["value"]))
    contents = [
        {"control": control["control"], "id": control["id"], "value": {"text": "\n".join(values[control["id"]])}}
        for control in texts_only
        if control["id"] in values
    ]
    return {
        "creator_userid": application["creator"],
        "template_id": application["template_id"],
        "use_template_approver": 1,
        "apply_data": {"contents": contents},
        "summary_list": [{"summary_info": [{"text": str(application["title"])[:20], "lang": "zh_CN"}]}],
    }


def _control(item: Any) -> dict[str, str]:
    of = item.get("property") or {} if isinstance(item, dict) else {}
    titles = of.get("title") or [{}]
    return {"control": str(of.get("control")), "id": str(of.get("id")), "title": str(titles[0].get("text") or "")}


async def _departments(client: WecomClient) -> dict[str, str]:
    """Names of departments by id, as far as this app is told them."""
    answer = await client.list_departments()
    rows = answer.data.get("department") or () if answer.ok else ()
    return {str(row["id"]): str(row["name"]) for row in rows if isinstance(row, dict) and "id" in row and row.get("name")}


def _expect(answer: Answer, call: str) -> None:
    if not answer.ok:
        raise PlatformError(
            f"{call} failed", platform="wecom", errcode=answer.errcode, errmsg=answer.errmsg, transport=answer.transport
        )


def _member(data: Mapping[str, Any], departments: Mapping[str, str] | None = None) -> Member:
    number = str(data.get("main_department") or next(iter(data.get("department") or ()), ""))
    department = (departments or {}).get(number) or (texts.DEPARTMENT.format(number=number) if number else "")
    return Member(str(data.get("userid") or ""), str(data.get("name") or ""), department)
