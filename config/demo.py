"""The accounts, people and tools of the demo: fixed names, secrets derived from a seed kept in the data folder."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

CORP_ID = "ww0123456789abcdef"
AGENT_ID = 1000002
MP_MAIN_APP_ID = "wx0123456789abcdef"
MP_SUB_APP_ID = "wxfedcba9876543210"
MP_MAIN_ORIGINAL_ID = "gh_yizhandemo1"
MP_SUB_ORIGINAL_ID = "gh_yizhandemo2"
MP_MAIN_OPEN_ID = "oDemoMainFollower00000000001"
MP_SUB_OPEN_ID = "oDemoSubFollower000000000002"
SEED_FILE = "demo_seed"
"""Name of the file in the data folder the demo's secrets are derived from."""

_REPLIES = {
    "menu_about": "驿站把企业微信和公众号接到一个会记事、能办事、动手前先问你的助手上。现在是演示：平台是模拟的，报文是真的。"
}
"""Fixed answers to menu keys."""

DEMO_APP_IDS = frozenset({CORP_ID, MP_MAIN_APP_ID, MP_SUB_APP_ID})
"""The only corp_id and app_id values a demo may use (N-23)."""


def demo_seed(data_dir: Path) -> str:
    """The data folder's seed, made on first use (file mode 0600)."""
    path = data_dir / SEED_FILE
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    with os.fdopen(handle, "w", encoding="ascii") as file:
        seed = secrets.token_hex(16)
        file.write(seed)
    return seed


def demo_accounts(api_base: str, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """The three accounts in settings form (config/schema.py); ``data_dir`` None derives from a fixed seed.

    ``wecom-main`` is a WeCom app, ``mp-main`` a verified and ``mp-sub`` an unverified Official Account.
    """
    seed = "yizhan" if data_dir is None else demo_seed(data_dir)
    return [
        {
            "id": "wecom-main",
            "platform": "wecom",
            "corp_id": CORP_ID,
            "agent_id": AGENT_ID,
            "secret": _hex(seed, "wecom-main secret"),
            "callback_token": _hex(seed, "wecom-main token")[:24],
            "encoding_aes_key": _aes_key(seed, "wecom-main"),
            "approval_template_id": "demo-approval",
            "api_base": api_base,
            "replies": dict(_REPLIES),
        },
        _mp_account(seed, api_base, "mp-main", MP_MAIN_APP_ID, MP_MAIN_ORIGINAL_ID),
        _mp_account(seed, api_base, "mp-sub", MP_SUB_APP_ID, MP_SUB_ORIGINAL_ID),
    ]


def simulator_accounts(api_base: str, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """The same accounts as the simulator takes them (``--accounts``): with ``verified``, a title and its followers."""
    more = {"name": "更多", "sub_button": [_button("状态", "状态"), _button("继续", "继续"), _button("关于驿站", "menu_about")]}
    menu = {"button": [_button("帮助", "帮助"), _button("待确认", "待确认"), more]}
    extra: dict[str, dict[str, Any]] = {
        "wecom-main": {"title": "驿站助手", "menu": menu},
        "mp-main": {"title": "驿站服务号", "verified": True, "menu": {"button": [_button("帮助", "帮助"), more]}},
        "mp-sub": {"title": "驿站订阅号", "verified": False},
    }
    return [{**account, **extra[account["id"]]} for account in demo_accounts(api_base, data_dir)]


def demo_tenant(api_base: str, data_dir: Path | None = None) -> dict[str, Any]:
    """The demo's one tenant in settings form: people with rights, accounts, a group robot, the work-order system."""
    seed = "yizhan" if data_dir is None else demo_seed(data_dir)
    webhook = f"{api_base}/cgi-bin/webhook/send?key={robot_key(seed)}"
    return {
        "id": "default",
        "operators": [{"account": "wecom-main", "user": "zhangsan"}],
        "roles": {
            "skill_reviewer": [{"account": "wecom-main", "user": "zhaoliu"}],
            "server_access": [{"account": "wecom-main", "user": "zhangsan"}],
        },
        "alert_webhook": webhook,
        "accounts": demo_accounts(api_base, data_dir),
        "tools": {
            "robots": [{"id": "ops", "title": "运维群", "webhook": webhook}],
            "scripts": [
                {"id": "disk", "description": "看磁盘用量", "argv": ["df", "-h"], "read_only": True},
                {"id": "load", "description": "看负载", "argv": ["uptime"], "read_only": True},
            ],
            "http": _work_order_tools(api_base),
        },
    }


def robot_key(seed: str) -> str:
    """The demo group robot's key; the simulator accepts any key that is not marked bad."""
    digest = _hex(seed, "robot")
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def _mp_account(seed: str, api_base: str, account_id: str, app_id: str, original_id: str) -> dict[str, Any]:
    return {
        "id": account_id,
        "platform": "mp",
        "app_id": app_id,
        "app_secret": _hex(seed, f"{account_id} secret")[:32],
        "callback_token": _hex(seed, f"{account_id} token")[:24],
        "encoding_aes_key": _aes_key(seed, account_id),
        "mode": "safe",
        "original_id": original_id,
        "api_base": api_base,
        "replies": dict(_REPLIES),
    }


def _work_order_tools(api_base: str) -> list[dict[str, Any]]:
    priority = {"type": "string", "enum": ["low", "normal", "high"], "description": "优先级：low=低 normal=普通 high=高"}
    return [
        {
            "name": "work_order_list",
            "description": "查询工单系统里未关闭的工单",
            "class": "read",
            "method": "GET",
            "url": f"{api_base}/_svc/work_orders?status=open",
            "body": "none",
            "summary_template": "共 {total} 张未关闭的工单：{summary}",
            "roles": ["server_access"],
            "triggers": ["查 工单", "未关闭 工单", "未处理 工单", "有哪些 工单", "几张工单", "多少工单"],
        },
        {
            "name": "work_order_create",
            "description": "在工单系统里新建一张工单",
            "class": "operation",
            "method": "POST",
            "url": f"{api_base}/_svc/work_orders",
            "parameters": {
                "type": "object",
                "properties": {"title": {"type": "string", "maxLength": 100, "description": "标题"}, "priority": priority},
                "required": ["title"],
                "additionalProperties": False,
            },
            "summary_template": "已建工单 {id}：{title}",
            "confirm_template": "新建工单「{title}」",
            "idempotency_header": "Idempotency-Key",
            "roles": ["server_access"],
            "triggers": ["建 工单", "提 工单", "开 工单", "新建工单", "报修"],
        },
    ]


def _button(name: str, key: str) -> dict[str, str]:
    return {"type": "click", "name": name, "key": key}


def _hex(seed: str, label: str) -> str:
    return hashlib.sha256(f"{seed}:{label}".encode()).hexdigest()


def _aes_key(seed: str, label: str) -> str:
    """43 letters and digits that decode to 32 bytes; the last character is one whose spare bits are zero."""
    for counter in range(1000):
        digest = hashlib.sha256(f"{seed}:{label} key {counter}".encode()).digest()
        encoded = base64.b64encode(digest).decode("ascii")[:43]
        if encoded.isalnum():
            return encoded
    raise RuntimeError("no alphanumeric key found in 1000 digests")
