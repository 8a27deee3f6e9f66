"""The doctor's look at one account: settings, token, whether the app can really be read, what it may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import aiohttp

from config.clock import Clock
from config.schema import MpAccount, WecomAccount
from config.texts import ACCOUNT
from gateway import operator_texts as texts
from gateway.account_file import PLACEHOLDERS
from gateway.account_state import AccountView
from gateway.doctor_report import Finding
from gateway.errors import PlatformError, operator_hint
from gateway.mp.client import API_BASE as MP_BASE
from gateway.mp.client import MpClient
from gateway.tokens import TokenStore
from gateway.transport import Answer
from gateway.wecom.client import API_BASE as WECOM_BASE
from gateway.wecom.client import WecomClient

Account = WecomAccount | MpAccount


@dataclass(frozen=True, slots=True)
class Platform:
    """One account's client with tokens of its own, so that the token call itself is looked at."""

    account: Account
    client: WecomClient | MpClient

    @classmethod
    def open(cls, account: Account, session: aiohttp.ClientSession, clock: Clock) -> Platform:
        """A client that keeps its token for this examination only."""
        made: list[WecomClient | MpClient] = []

        async def fetch(_account_id: str, force: bool) -> tuple[str, int]:
            return await made[0].fetch_token(force)

        tokens = TokenStore(None, clock, fetch)
        tokens.add(account)
        wecom = isinstance(account, WecomAccount)
        made.append(WecomClient(account, session, tokens) if wecom else MpClient(account, session, tokens))  # type: ignore[arg-type]
        return cls(account, made[0])

    @property
    def base(self) -> str:
        """Where this account's platform is."""
        return self.account.api_base or (WECOM_BASE if isinstance(self.account, WecomAccount) else MP_BASE)


def check_settings(account: Account, warnings: Sequence[str]) -> Iterator[Finding]:
    """Form (the loader has checked it), what it had to correct (CB-19), placeholders of the first file, plain mode."""
    about = ACCOUNT.format(id=account.id) + "："
    mine = [warning.removeprefix(about) for warning in warnings if warning.startswith(about)]
    yield from (Finding(account.id, "settings", "warn", texts.SETTINGS_WARNING.format(warning=warning)) for warning in mine)
    placeholders = [name for name, value in _identity(account) if value in PLACEHOLDERS]
    for name in placeholders:
        text, fix = texts.PLACEHOLDER.format(field=name), texts.PLACEHOLDER_FIX.format(field=name)
        yield Finding(account.id, "settings", "fail", text, fix)
    if isinstance(account, MpAccount) and account.mode == "plain":
        yield Finding(account.id, "mode", "warn", texts.PLAIN_MODE, texts.PLAIN_MODE_FIX)
    if not placeholders:
        yield Finding(account.id, "settings", "ok", texts.SETTINGS_OK)


async def check_platform(platform: Platform) -> list[Finding]:
    """Token first; then a call that needs it, since a token alone is given to any address."""
    account = platform.account
    try:
        _, expires_in_s = await platform.client.fetch_token(False)
    except PlatformError as error:
        return [_token_failed(platform, error)]
    found = [Finding(account.id, "token", "ok", texts.TOKEN_OK.format(minutes=expires_in_s // 60))]
    if isinstance(platform.client, WecomClient):
        return found + _agent(account, await platform.client.get_agent())
    answer = await platform.client.callback_ips()
    if answer.ok:
        return [*found, Finding(account.id, "readable", "ok", texts.MP_OK)]
    return [*found, _refused(account, answer, texts.MP_BAD)]


def check_state(account: Account, state: AccountView, clock: Clock, *, reached: bool) -> Iterator[Finding]:
    """What running processes learned: capability, a pause, trouble. Every WeCom app that can be reached may push."""
    if isinstance(account, WecomAccount) and not reached:
        pass  # what failed before stands above
    elif state.capability == "push" or isinstance(account, WecomAccount):
        yield Finding(account.id, "capability", "ok", texts.CAPABILITY_PUSH)
    elif state.capability == "pull":
        yield Finding(account.id, "capability", "info", texts.CAPABILITY_PULL)
    else:
        yield Finding(account.id, "capability", "warn", texts.CAPABILITY_UNKNOWN, texts.CAPABILITY_UNKNOWN_FIX)
    if state.paused_until_ms and state.paused_until_ms > clock.now_ms():
        until = f"{clock.local(state.paused_until_ms):%m-%d %H:%M}"
        yield Finding(account.id, "paused", "warn", texts.PAUSED.format(until=until))
    if state.trouble:
        since = f"{clock.local(state.trouble_at_ms):%m-%d %H:%M}"
        text = texts.TROUBLE.format(trouble=state.trouble, since=since)
        yield Finding(account.id, "trouble", "fail", text, texts.TROUBLE_FIX)


def _identity(account: Account) -> tuple[tuple[str, str], ...]:
    if isinstance(account, WecomAccount):
        return (("corp_id", account.corp_id), ("secret", account.secret.get_secret_value()))
    return (("app_id", account.app_id), ("app_secret", account.app_secret.get_secret_value()))


def _token_failed(platform: Platform, error: PlatformError) -> Finding:
    account = platform.account
    if error.errcode is None:
        text = texts.TOKEN_UNREACHABLE.format(base=platform.base, errmsg=error.errmsg or error.transport)
        return Finding(account.id, "token", "fail", text, texts.TOKEN_UNREACHABLE_FIX)
    text = texts.TOKEN_BAD.format(errcode=error.errcode, errmsg=error.errmsg)
    return Finding(account.id, "token", "fail", text, fix_for(account.platform, error.errcode, error.errmsg))


def _agent(account: Account, answer: Answer) -> list[Finding]:
    if not answer.ok:
        return [_refused(account, answer, texts.AGENT_BAD)]
    found = [Finding(account.id, "readable", "ok", texts.AGENT_OK.format(name=answer.data.get("name") or account.id))]
    if str(answer.data.get("close") or "0") != "0":
        found.append(Finding(account.id, "closed", "fail", texts.AGENT_CLOSED, texts.AGENT_CLOSED_FIX))
    users = len((answer.data.get("allow_userinfos") or {}).get("user") or ())
    departments = len((answer.data.get("allow_partys") or {}).get("partyid") or ())
    tags = len((answer.data.get("allow_tags") or {}).get("tagid") or ())
    if users + departments + tags == 0:
        return [*found, Finding(account.id, "range", "fail", texts.RANGE_EMPTY, texts.RANGE_EMPTY_FIX)]
    text = texts.RANGE_OK.format(users=users, departments=departments, tags=tags)
    return [*found, Finding(account.id, "range", "ok", text)]


def _refused(account: Account, answer: Answer, sentence: str) -> Finding:
    errcode = answer.errcode if answer.errcode is not None else answer.transport
    text = sentence.format(errcode=errcode, errmsg=answer.errmsg)
    fix = texts.TOKEN_UNREACHABLE_FIX if answer.errcode is None else fix_for(account.platform, answer.errcode, answer.errmsg)
    return Finding(account.id, "readable", "fail", text, fix)


def fix_for(platform: str, errcode: int, errmsg: str) -> str:
    """What to do about an errcode, in the operator's words."""
    return operator_hint(platform, errcode, errmsg) or texts.ERRCODE_FIX.format(errcode=errcode)
