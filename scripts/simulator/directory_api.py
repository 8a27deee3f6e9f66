"""The address book, the app itself, addresses, approvals: the smaller WeCom and shared endpoints."""

from __future__ import annotations

from typing import Any

from .answers import Refused
from .calls import Call, ok
from .people import DEPARTMENTS, Person


async def callback_ips(call: Call) -> dict[str, Any]:
    """GET getcallbackip and get_api_domain_ip."""
    answer = {"ip_list": ["127.0.0.1", "101.226.103.0/25"]}
    return ok(**answer) if call.owner.wecom else answer


async def user_get(call: Call) -> dict[str, Any]:
    """GET user/get: 60111 for nobody, 60011 outside the visible range."""
    person = call.world.people.find(call.owner.id, call.query.get("userid", ""))
    if person is None:
        raise Refused(60111)
    if not person.visible:
        raise Refused(60011)
    return ok(**_details(person))


async def user_list(call: Call) -> dict[str, Any]:
    """GET user/simplelist and user/list of a department."""
    department = call.query.get("department_id", "1")
    people = [p for p in call.world.people.of(call.owner.id) if p.visible]
    if department not in ("", "1"):
        people = [p for p in people if department.isdigit() and int(department) in p.departments]
    brief = call.path.endswith("simplelist")
    keys = ("userid", "name", "department")
    details = [_details(person) for person in people]
    return ok(userlist=[{key: item[key] for key in keys} if brief else item for item in details])


def _details(person: Person) -> dict[str, Any]:
    return {
        "userid": person.user,
        "name": person.name,
        "department": list(person.departments),
        "main_department": person.departments[0],
        "position": "",
        "status": 1,
        "enable": 1,
        "isleader": 0,
        "hide_mobile": 0,
    }


async def department_list(call: Call) -> dict[str, Any]:
    """GET department/list and department/simplelist."""
    rows = [{"id": i, "name": name, "parentid": parent, "order": i} for i, name, parent in DEPARTMENTS]
    if call.path.endswith("simplelist"):
        return ok(department_id=[{"id": r["id"], "parentid": r["parentid"], "order": r["order"]} for r in rows])
    return ok(department=rows)


async def agent_get(call: Call) -> dict[str, Any]:
    """GET agent/get: the app and its visible range."""
    if call.query.get("agentid") != str(call.owner.agent_id):
        raise Refused(301002)
    visible = [{"userid": p.user} for p in call.world.people.of(call.owner.id) if p.visible]
    return ok(
        agentid=call.owner.agent_id,
        name=call.owner.title,
        square_logo_url="",
        description="",
        allow_userinfos={"user": visible},
        allow_partys={"partyid": [2, 3]},
        allow_tags={"tagid": [1]},
        close=0,
        redirect_domain="",
        report_location_flag=0,
        isreportenter=1,
    )


async def apply_event(call: Call) -> dict[str, Any]:
    """POST oa/applyevent: hand in an approval application."""
    request = call.json()
    creator = call.world.people.find(call.owner.id, str(request.get("creator_userid") or ""))
    if creator is None:
        raise Refused(60111)
    if not request.get("template_id"):
        raise Refused(301025)
    if not isinstance(request.get("apply_data"), dict):
        raise Refused(40058, "apply_data missing. ")
    number = str(call.world.next_number())
    call.world.approvals.append(
        {"sp_no": number, "account": call.owner.id, "creator": creator.user, "at": call.world.clock.now_ms(), **request}
    )
    return ok(sp_no=number)


async def approval_detail(call: Call) -> dict[str, Any]:
    """POST oa/getapprovaldetail."""
    wanted = str(call.json().get("sp_no") or "")
    for item in call.world.approvals:
        if item["sp_no"] == wanted:
            info = {"sp_no": wanted, "sp_status": 1, "template_id": item["template_id"], "apply_data": item["apply_data"]}
            return ok(info={**info, "applyer": {"userid": item["creator"]}, "apply_time": item["at"] // 1000})
    raise Refused(301025)


async def template_detail(call: Call) -> dict[str, Any]:
    """POST oa/gettemplatedetail: a template with a title and a description field."""
    controls = [
        {"property": {"control": "Text", "id": "Text-1", "title": [{"text": "标题", "lang": "zh_CN"}], "require": 1}},
        {"property": {"control": "Textarea", "id": "Textarea-1", "title": [{"text": "说明", "lang": "zh_CN"}], "require": 0}},
    ]
    return ok(
        template_names=[{"text": "通用审批", "lang": "zh_CN"}],
        template_content={"controls": controls},
    )
