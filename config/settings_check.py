"""Turns settings data into Settings, and every fault into a line that names account, field, expected form and origin."""

from __future__ import annotations

import difflib
import re
from typing import Any

from pydantic import BaseModel, ValidationError

from config import texts
from config.errors import SettingsError
from config.schema import MpAccount, Settings, WecomAccount
from config.yaml_source import Path_, Source, dotted


def validate(source: Source) -> Settings:
    """The typed settings. Raises SettingsError with every problem found so far."""
    for attempt in range(2):
        try:
            settings = Settings.model_validate(source.data)
            raise_problems(source)
            return settings
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            if attempt == 0 and _reread_as_text(source, found):
                continue
            source.problems.extend(_told(source, problem) for problem in found)
    raise_problems(source)
    raise SettingsError(texts.UNUSABLE)


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
        message = texts.UNKNOWN_KEY + _suggestion(source.data, problem["loc"], name)
    elif kind == "missing":
        message = texts.MISSING + (f"；{texts.FORMS[name]}" if name in texts.FORMS else "")
    elif kind == "value_error":
        message = message.removeprefix("Value error, ")
    elif kind.startswith("union_tag"):
        path, message = (*path, "platform"), texts.FORMS["platform"]
    elif name in texts.FORMS:
        message = texts.FORMS[name] + _length_of(source.data, path)
    else:
        message = _limit(kind, problem) or message
    return texts.PROBLEM.format(where=label(source.data, path), problem=message, origin=source.origin(path))


def _limit(kind: str, problem: Any) -> str | None:
    """What pydantic found, in our words; the context holds the bounds that the schema sets. None for what we have none for."""
    known = texts.KINDS.get(kind)
    return None if known is None else known.format(**problem.get("ctx", {}))


def _length_of(data: Any, path: Path_) -> str:
    value = _at(data, path)
    return texts.GOT.format(count=len(value)) if isinstance(value, str) else ""


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
    """``账号 wecom-main：secret`` inside an account, else the dotted path."""
    if len(path) > 3 and path[0] == "tenants" and path[2] == "accounts":
        account = _at(data, path[:4])
        name = account.get("id") if isinstance(account, dict) else None
        if isinstance(name, str) and re.fullmatch(r"[\w-]{1,64}", name.strip()):
            return "：".join(filter(None, (texts.ACCOUNT.format(id=name.strip()), dotted(path[4:]))))
    return dotted(path) or texts.ALL


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
    return texts.DID_YOU_MEAN.format(near=near[0]) if near else ""


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
        source.add(("admin", "port"), texts.SAME_PORT)
    _check_ids(settings, source)
    _check_people(settings, source)
    _check_retention(settings, source)
    raise_problems(source)


def _check_ids(settings: Settings, source: Source) -> None:
    tenants: set[str] = set()
    accounts: set[str] = set()
    for tenant_index, tenant in enumerate(settings.tenants):
        if tenant.id in tenants:
            source.add(("tenants", tenant_index, "id"), texts.TENANT_TWICE.format(id=tenant.id))
        tenants.add(tenant.id)
        for index, account in enumerate(tenant.accounts):
            if account.id in accounts:
                path: Path_ = ("tenants", tenant_index, "accounts", index, "id")
                source.add(path, texts.ACCOUNT_TWICE.format(id=account.id))
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
                    source.add(path, texts.NO_SUCH_ACCOUNT)


def _check_retention(settings: Settings, source: Source) -> None:
    """A deleted row remembers nothing: neither its body nor that its message came already, nor that a person was greeted."""
    kept, where = settings.retention, ("retention", "row_days")
    if kept.row_days < kept.body_days:
        source.add(where, texts.ROWS_BODY)
    if settings.callback_max_age_s > kept.row_days * 86_400:
        source.add(where, texts.ROWS_FRESH)
    for tenant in settings.tenants:
        for account in tenant.accounts:
            if account.welcome.interval_h > kept.row_days * 24:
                source.add(where, texts.ROWS_WELCOME.format(id=account.id))


def raise_problems(source: Source) -> None:
    """Raise SettingsError when anything is wrong, all of it at once."""
    if source.problems:
        unique = list(dict.fromkeys(source.problems))
        raise SettingsError("\n".join([texts.UNUSABLE, *(f"  - {problem}" for problem in unique)]))


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
