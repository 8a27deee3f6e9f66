"""The first connection of an account: the steps in order, what to paste where, and which of them are done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
from sqlalchemy import Connection, func, select

from config.clock import Clock
from config.columns import table_of
from config.database import Database
from config.schema import MpAccount, Settings, WecomAccount
from gateway import operator_texts as texts
from gateway.account_state import read_account, url_verified_ms
from gateway.doctor_account import Platform, check_platform
from gateway.doctor_callback import check_callback
from gateway.doctor_report import Finding
from gateway.errors import egress_ip
from gateway.models import Inbound, OutboxMessage

_INBOUND, _OUTBOX = table_of(Inbound), table_of(OutboxMessage)
Account = WecomAccount | MpAccount


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about the connection now. ``platform_ip`` is our address as the platform told it."""

    reachable: Finding | None = None
    readable: bool = False
    refusal: Finding | None = None
    platform_ip: str | None = None
    callbacks: int = 0
    """Whether the platform has called: its check of the URL at 保存, or anything since."""
    first_user: str | None = None
    pushes: int = 0
    capability: str = "unknown"
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step: done or not, what to do, and what stands in the way if that is known."""

    name: str
    title: str
    done: bool
    how: str
    trouble: str = ""


def backup_file(settings: Settings, account_id: str) -> Path:
    """Where ``yizhan menu pull`` keeps an account's menu and automatic replies."""
    return settings.data_dir / "menus" / f"{account_id}.yaml"


async def look_outside(settings: Settings, account: Account, session: aiohttp.ClientSession, clock: Clock, old: Facts) -> Facts:
    """Visit the callback URL and the platform; the parts read from the database stay as they are in ``old``."""
    reachable = await check_callback(settings, account, session, None)
    found = await check_platform(Platform.open(account, session, clock))
    refusal = next((finding for finding in found if finding.level == "fail"), None)
    return replace(
        old,
        reachable=reachable,
        readable=refusal is None or refusal.check not in ("token", "readable"),
        refusal=refusal,
        platform_ip=egress_ip(refusal.text) if refusal else None,
    )


async def look_inside(settings: Settings, account: Account, database: Database, old: Facts) -> Facts:
    """Read what has arrived and gone out; the parts seen outside stay as they are in ``old``."""

    def read(connection: Connection) -> tuple[int, str | None, int, str]:
        if not connection.dialect.has_table(connection, "inbound"):
            return 0, None, 0, "unknown"
        mine = _INBOUND.c.account_id == account.id
        callbacks = connection.execute(select(func.count()).select_from(select(_INBOUND.c.seq).where(mine).limit(1).subquery()))
        spoken = select(_INBOUND.c.user_id).where(mine, _INBOUND.c.lane != "none", _INBOUND.c.kind.not_like("event:%"))
        sent = (_OUTBOX.c.account_id == account.id) & (_OUTBOX.c.via == "push") & (_OUTBOX.c.status == "sent")
        pushes = connection.execute(select(func.count()).select_from(select(_OUTBOX.c.seq).where(sent).limit(1).subquery()))
        first = connection.execute(spoken.order_by(_INBOUND.c.seq).limit(1)).scalar()
        state = read_account(connection, account.id)
        arrived = int(callbacks.scalar_one()) or int(url_verified_ms(connection, account.id) is not None)
        return arrived, first, int(pushes.scalar_one()), state.capability

    callbacks, user, pushes, capability = await database.read(read)
    path = backup_file(settings, account.id)
    backup = path if path.exists() else None
    return replace(old, callbacks=callbacks, first_user=user, pushes=pushes, capability=capability, backup=backup)


def steps(settings: Settings, account: Account, facts: Facts) -> list[Step]:
    """The steps in the order they are to be done."""
    return list(_wecom(settings, account, facts) if isinstance(account, WecomAccount) else _mp(settings, account, facts))


def callback_url(settings: Settings, account_id: str) -> str:
    """What is pasted into the platform's console."""
    base = settings.http.public_url or texts.YOUR_DOMAIN.format(host=settings.http.host, port=settings.http.port)
    return f"{base}/callback/{account_id}"


def _wecom(settings: Settings, account: WecomAccount, facts: Facts) -> Iterator[Step]:
    yield _service(settings, account, facts)
    pasted = texts.STEP_URL_WECOM_HOW.format(
        url=callback_url(settings, account.id), token=account.callback_token, key=account.encoding_aes_key.get_secret_value()
    )
    yield Step("callback", texts.STEP_URL_WECOM, facts.callbacks > 0, pasted)
    yield Step("ip", texts.STEP_IP_WECOM, facts.readable, texts.STEP_IP_WECOM_HOW.format(ip=_ip(facts)), _refusal(facts))
    yield Step("message", texts.STEP_MESSAGE, facts.first_user is not None, texts.STEP_MESSAGE_HOW_WECOM)
    yield _push(account, facts)


def _mp(settings: Settings, account: MpAccount, facts: Facts) -> Iterator[Step]:
    yield _service(settings, account, facts)
    yield Step("ip", texts.STEP_IP_MP, facts.readable, texts.STEP_IP_MP_HOW.format(ip=_ip(facts)), _refusal(facts))
    saved = facts.backup is not None
    how = texts.STEP_BACKUP_MP_HOW.format(account=account.id, file=backup_file(settings, account.id))
    yield Step("backup", texts.STEP_BACKUP_MP, saved, how)
    key = account.encoding_aes_key.get_secret_value() if account.encoding_aes_key else texts.NO_KEY_NEEDED
    pasted = texts.STEP_URL_MP_HOW.format(
        url=callback_url(settings, account.id), token=account.callback_token, key=key, mode=texts.MODE_NAMES[account.mode]
    )
    yield Step("callback", texts.STEP_URL_MP, facts.callbacks > 0, pasted)
    yield Step("message", texts.STEP_MESSAGE, facts.first_user is not None, texts.STEP_MESSAGE_HOW_MP)
    yield _push(account, facts)


def _service(settings: Settings, account: Account, facts: Facts) -> Step:
    done = facts.reachable is not None and facts.reachable.level == "ok"
    trouble = "" if done or facts.reachable is None else facts.reachable.text
    how = texts.STEP_SERVICE_HOW.format(url=callback_url(settings, account.id))
    return Step("service", texts.STEP_SERVICE, done, how, trouble)


def _push(account: Account, facts: Facts) -> Step:
    if facts.capability == "pull":
        return Step("push", texts.STEP_PULL, True, "")
    how = texts.STEP_PUSH_HOW.format(account=account.id, user=facts.first_user) if facts.first_user else texts.STEP_PUSH_FIRST
    return Step("push", texts.STEP_PUSH, facts.pushes > 0, how)


def _ip(facts: Facts) -> str:
    return texts.KNOWN_IP.format(ip=facts.platform_ip) if facts.platform_ip else texts.UNKNOWN_IP


def _refusal(facts: Facts) -> str:
    return "" if facts.refusal is None else facts.refusal.text
