"""Writes accounts into a settings file: generated tokens and keys, a first file, and what is missing in an existing one."""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml

from config.errors import Refused, SettingsError
from gateway import operator_texts as texts

CORP_ID_PLACEHOLDER = "ww0000000000000000"
APP_ID_PLACEHOLDER = "wx0000000000000000"
SECRET_PLACEHOLDER = "put-the-secret-here"  # noqa: S105 -- says that there is none yet
PLACEHOLDERS = frozenset({CORP_ID_PLACEHOLDER, APP_ID_PLACEHOLDER, SECRET_PLACEHOLDER})
"""Values of a first file that pass the form check and are not real yet."""


@dataclass(frozen=True, slots=True)
class FirstFile:
    """What a first settings file is made from; None leaves a placeholder."""

    tenant: str = "default"
    wecom: bool = True
    mp: bool = False
    corp_id: str | None = None
    agent_id: int | None = None
    app_id: str | None = None
    public_url: str | None = None


def new_token() -> str:
    """A callback token: 24 letters and digits."""
    alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789"
    return "".join(secrets.choice(alphabet) for _ in range(24))


def new_aes_key() -> str:
    """An EncodingAESKey: the 43 letters and digits of 32 random bytes in base64 (without its "=")."""
    while True:
        key = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        if key.isalnum():
            return key


def render_first_file(wanted: FirstFile) -> str:
    """The text of a first settings file, with a fresh token and key for each account."""
    text = texts.FIRST_FILE.format(public_url=wanted.public_url or "null", tenant=wanted.tenant)
    if wanted.wecom:
        text += texts.FIRST_FILE_WECOM.format(
            corp_id=wanted.corp_id or CORP_ID_PLACEHOLDER,
            agent_id=wanted.agent_id or 1000002,
            secret=SECRET_PLACEHOLDER,
            token=new_token(),
            key=new_aes_key(),
        )
    if wanted.mp:
        text += texts.FIRST_FILE_MP.format(
            app_id=wanted.app_id or APP_ID_PLACEHOLDER, secret=SECRET_PLACEHOLDER, token=new_token(), key=new_aes_key()
        )
    return text


def create(path: Path, text: str) -> None:
    """Write a new file only its owner may read. Raises Refused when there is one already."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(texts.FILE_EXISTS.format(path=path), code="file_exists") from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def complete_account(path: Path, account_id: str) -> list[str]:
    """Give the account of this file a token and a key where it has none; returns the names of what was written.

    The rest of the file, comments included, stays as it is. Raises SettingsError when the file or the account cannot be
    found in it.
    """
    text = path.read_text("utf-8")
    account = _find_account(text, account_id)
    if account is None:
        raise SettingsError(texts.NO_ACCOUNT_IN_FILE.format(file=path.name, account=account_id))
    present = {str(key.value): value for key, value in account.value}
    made = {"callback_token": new_token(), "encoding_aes_key": new_aes_key()}
    edits: list[tuple[int, int, str]] = []
    for name, value in made.items():
        node = present.get(name)
        if node is None:
            edits.append(_insertion(text, account, f"{name}: {value}"))
        elif isinstance(node, yaml.ScalarNode) and (node.value == "" or node.tag == "tag:yaml.org,2002:null"):
            blank = "" if text[node.start_mark.index - 1 : node.start_mark.index] in (" ", "") else " "
            edits.append((node.start_mark.index, node.end_mark.index, blank + value))
    for start, end, inserted in sorted(edits, reverse=True):
        text = text[:start] + inserted + text[end:]
    if edits:
        _replace(path, text)
    return [name for name in made if name not in present or not str(present[name].value).strip() or _is_null(present[name])]


def _is_null(node: yaml.Node) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _find_account(text: str, account_id: str) -> yaml.MappingNode | None:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise SettingsError(texts.NOT_YAML.format(reason=getattr(error, "problem", None) or type(error).__name__)) from None
    for tenant in _items(_value(root, "tenants")):
        for account in _items(_value(tenant, "accounts")):
            named = _value(account, "id")
            if isinstance(account, yaml.MappingNode) and isinstance(named, yaml.ScalarNode) and named.value == account_id:
                return account
    return None


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _insertion(text: str, account: yaml.MappingNode, line: str) -> tuple[int, int, str]:
    """Put a key before the account's first one, in the account's own style."""
    start = account.value[0][0].start_mark
    if account.flow_style:
        return start.index, start.index, f"{line}, "
    return start.index, start.index, f"{line}\n{' ' * start.column}"


def _replace(path: Path, text: str) -> None:
    """Replace a file at once, its mode kept."""
    mode = path.stat().st_mode & 0o777
    beside = path.with_name(f".{path.name}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
