"""Turns settings data into Settings, and every fault into a line that names account, field, expected form and origin."""

from __future__ import annotations

import difflib
import re
from typing import Any

from pydantic import BaseModel, ValidationError

from config.errors import SettingsError
from config.schema import MpAccount, Settings, WecomAccount
from config.yaml_source import Path_, Source, dotted

_FORMS = {
    "corp_id": "expected ww or wx followed by 16 of 0-9 a-f",
    "app_id": "expected wx or ww followed by 16 of 0-9 a-f",
    "callback_token": "expected 1 to 32 letters and digits",
    "original_id": "expected gh_ followed by letters and digits",
    "id": "expected 1 to 64 of a-z 0-9 _ -, beginning with a letter or digit",
    "platform": "expected wecom or mp",
    "agent_id": "expected the app's AgentId, a number such as 1000002",
}


def validate(source: Source) -> Settings:
    """The typed settings. Raises SettingsError with every problem found so far."""
    for attempt in range(2):
        try:
            settings = Settings.model_validate(source.data)
            raise_problems(source)
            return settings
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            if attempt == 0 and _reread_as_text(source, found):
                continue
            source.problems.extend(_told(source, problem) for problem in found)
    raise_problems(source)
    raise SettingsError("the settings cannot be used")


def _reread_as_text(source: Source, found: list[Any]) -> bool:
    """YAML reads 0123, yes and 2024-01-01 as numbers, booleans and dates; where text is wanted, take what was written."""
    changed = False
    for problem in found:
        path = _clean_path(source.data, problem["loc"])
        if problem["type"] == "string_type" and path in source.raw:
            changed = put(source.data, path, source.raw[path]) or changed
    return changed


def _told(source: Source, problem: Any) -> str:
    path = _clean_path(source.data, problem["loc"])
    kind, message = problem["type"], str(problem["msg"])
    name = str(path[-1]) if path else ""
    if kind == "extra_forbidden":
        message = "unknown key" + _suggestion(source.data, problem["loc"], name)
    elif kind == "missing":
        message = "is missing" + (f"; {_FORMS[name]}" if name in _FORMS else "")
    elif kind == "value_error":
        message = message.removeprefix("Value error, ")
    elif kind.startswith("union_tag"):
        path, message = (*path, "platform"), _FORMS["platform"]
    elif name in _FORMS:
        message = _FORMS[name] + _length_of(source.data, path)
    else:
        message = message.replace("Input should", "should").replace("String should", "should")
    return f"{label(source.data, path)}: {message} ({source.origin(path)})"


def _length_of(data: Any, path: Path_) -> str:
    value = _at(data, path)
    return f", got {len(value)} characters" if isinstance(value, str) else ""


def _clean_path(data: Any, location: tuple[str | int, ...]) -> Path_:
    """The error's location without pydantic's union tags."""
    path: list[str | int] = []
    for part in location:
        if part in ("wecom", "mp") and len(path) >= 2 and path[-2] == "accounts":
            continue
        if part == "[key]":
            continue
        path.append(part)
    return tuple(path)


def _at(data: Any, path: Path_) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def label(data: Any, path: Path_) -> str:
    """``account wecom-main: secret`` inside an account, else the dotted path."""
    if len(path) > 3 and path[0] == "tenants" and path[2] == "accounts":
        account = _at(data, path[:4])
        name = account.get("id") if isinstance(account, dict) else None
        if isinstance(name, str) and re.fullmatch(r"[\w-]{1,64}", name.strip()):
            return f"account {name.strip()}: {dotted(path[4:])}".rstrip(": ")
    return dotted(path) or "settings"


def _suggestion(data: Any, location: tuple[str | int, ...], name: str) -> str:
    model: Any = Settings
    for part in location[:-1]:
        if part == "wecom":
            model = WecomAccount
        elif part == "mp":
            model = MpAccount
        elif isinstance(part, str):
            model = None if model is None else _section_of(model, part)
    if model is None:
        return ""
    near = difflib.get_close_matches(name, list(model.model_fields), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _section_of(model: type[BaseModel], name: str) -> Any:
    field = model.model_fields.get(name)
    if field is None:
        return None
    candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next((item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)), None)


def check_references(settings: Settings, source: Source) -> None:
    """What no value can tell by itself: ids are unique, people with rights belong to accounts of their tenant, two addresses
    have two ports, rows outlive what they remember. Raises SettingsError."""
    if settings.http.port == settings.admin.port != 0 and settings.http.host == settings.admin.host:
        source.add(("admin", "port"), "http.port is the same; each address needs its own")
    _check_ids(settings, source)
    _check_people(settings, source)
    _check_retention(settings, source)
    raise_problems(source)


def _check_ids(settings: Settings, source: Source) -> None:
    tenants: set[str] = set()
    accounts: set[str] = set()
    for tenant_index, tenant in enumerate(settings.tenants):
        if tenant.id in tenants:
            source.add(("tenants", tenant_index, "id"), f"the tenant id {tenant.id} is used twice; every tenant needs its own")
        tenants.add(tenant.id)
        for index, account in enumerate(tenant.accounts):
            if account.id in accounts:
                text = f"the account id {account.id} is used twice; every account needs its own"
                source.add(("tenants", tenant_index, "accounts", index, "id"), text)
            accounts.add(account.id)


def _check_people(settings: Settings, source: Source) -> None:
    for tenant_index, tenant in enumerate(settings.tenants):
        known = {account.id for account in tenant.accounts}
        groups: list[tuple[Path_, tuple[Any, ...]]] = [(("operators",), tenant.operators)]
        groups += [(("roles", role), people) for role, people in tenant.roles.items()]
        for inner, people in groups:
            for index, person in enumerate(people):
                if person.account not in known:
                    path: Path_ = ("tenants", tenant_index, *inner, index, "account")
                    source.add(path, "no account of this tenant has this id")


def _check_retention(settings: Settings, source: Source) -> None:
    """A deleted row remembers nothing: neither its body nor that its message came already, nor that a person was greeted."""
    kept, where = settings.retention, ("retention", "row_days")
    if kept.row_days < kept.body_days:
        source.add(where, "expected at least body_days")
    if settings.callback_max_age_s > kept.row_days * 86_400:
        source.add(where, "expected at least callback_max_age_s, or an old callback would count as a new message")
    for tenant in settings.tenants:
        for account in tenant.accounts:
            if account.welcome.interval_h > kept.row_days * 24:
                source.add(where, f"expected at least welcome.interval_h of account {account.id}")


def raise_problems(source: Source) -> None:
    """Raise SettingsError when anything is wrong, all of it at once."""
    if source.problems:
        unique = list(dict.fromkeys(source.problems))
        raise SettingsError("\n".join(["the settings cannot be used:", *(f"  - {problem}" for problem in unique)]))


def put(data: Any, path: Path_, value: Any) -> bool:
    """Set the value at ``path``, making mappings on the way; False when there is no such place."""
    for position, part in enumerate(path):
        last = position == len(path) - 1
        if isinstance(data, dict) and isinstance(part, str):
            if last:
                data[part] = value
            else:
                data[part] = data = {} if data.get(part) is None else data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            if last:
                data[part] = value
            else:
                data = data[part]
        else:
            return False
    return True
