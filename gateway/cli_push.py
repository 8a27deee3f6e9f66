"""``yizhan push``: send a notification from a terminal or a script, with progress for long lists."""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.clock import Clock
from config.ids import new_id
from config.schema import Settings
from gateway import cli_texts as told
from gateway import texts
from gateway.cli_start import CommandEnds, config_parent, settings_from, stored_data
from gateway.push_request import PushRefused, PushRequest, parse_request
from gateway.push_states import PushView, TargetView
from gateway.push_store import PushStore

_CHUNK = 200
_POLL_S = 0.5
_BAR = 30
_SHOWN_FAULTS = 20
_ON_THE_WAY = frozenset({"pending", "sending", "passive_reserved"})
_MEDIA = ("image", "file", "voice")


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("push", parents=[config_parent()], help="主动推送一条通知")
    parser.add_argument("text", nargs="?", help="文字内容；- 从标准输入读")
    parser.add_argument("--account", required=True, metavar="ID", help="用哪个账号发")
    to = parser.add_argument_group("发给谁（选一种）")
    to.add_argument("--user", action="append", default=[], metavar="ID", help="人，可重复，也可用逗号隔开")
    to.add_argument("--users-file", metavar="FILE", help="名单文件，一行一个，# 开头是注释；- 从标准输入读")
    to.add_argument("--department", action="append", metavar="ID", help="部门，可重复")
    to.add_argument("--tag", action="append", metavar="ID", help="标签，可重复")
    to.add_argument("--conversation", metavar="ID", help="会话")
    to.add_argument("--all", action="store_true", help="应用可见范围的全部成员（要同时写 --yes）")
    what = parser.add_argument_group("发什么（默认纯文本）")
    what.add_argument("--markdown", action="store_true", help="文字是 markdown")
    for kind, text in (("image", "图片"), ("file", "文件"), ("voice", "语音")):
        what.add_argument(f"--{kind}", type=Path, metavar="PATH", help=f"发{text}")
    what.add_argument("--message", type=Path, metavar="FILE", help="JSON 文件，和接口的 message 一样（图文、卡片、模板消息）")
    parser.add_argument("--key", metavar="KEY", help="幂等键：同一个键和同一份名单只发一次，中断后重跑会接着发")
    parser.add_argument("--not-before", metavar="WHEN", help="不早于，带时区的时刻")
    parser.add_argument("--expires-at", metavar="WHEN", help="过期不发，带时区的时刻")
    parser.add_argument("--wait", nargs="?", type=float, const=60.0, metavar="SECONDS", help="等到送达再退出（默认最多 60 秒）")
    parser.add_argument("--yes", action="store_true", help="确认发给全部成员")
    parser.add_argument("--json", action="store_true", help="输出 JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 everything accepted (with --wait: sent); 1 something failed; 2 a fault in the call."""
    try:
        return asyncio.run(_run(args, requests_of(args)))
    except PushRefused as refused:
        place = told.PUSH_PLACE.format(field=refused.field) if refused.field and refused.field not in str(refused) else ""
        raise CommandEnds(told.PUSH_NOT_SENT.format(reason=refused, place=place, fix=refused.fix), 2) from None
    except UnicodeDecodeError:
        raise CommandEnds(told.PUSH_NO_TEXT, 2) from None
    except OSError as error:
        raise CommandEnds(told.PUSH_UNREADABLE.format(file=error.filename, reason=error.strerror), 2) from None


def requests_of(args: argparse.Namespace) -> list[PushRequest]:
    """The call as requests of at most 200 people each. Raises PushRefused or OSError."""
    message = _message(args)
    base = {"account": args.account, "message": message, "not_before": args.not_before, "expires_at": args.expires_at}
    users = _users(args)
    given = [bool(users), bool(args.department), bool(args.tag), bool(args.conversation), args.all]
    if sum(given) != 1:
        raise PushRefused("bad_target", told.PUSH_WHOM, field="to", fix=told.PUSH_WHOM_FIX)
    if args.all and not args.yes:
        raise PushRefused("not_confirmed", told.PUSH_ALL, field="--yes", fix="")
    if users:
        targets: list[dict[str, Any]] = [{"users": users[start : start + _CHUNK]} for start in range(0, len(users), _CHUNK)]
    elif args.conversation:
        targets = [{"conversation": args.conversation}]
    else:
        targets = [{"all": True} if args.all else {"departments": args.department} if args.department else {"tags": args.tag}]
    key = args.key or new_id("cli")
    requests = []
    for target in targets:
        named = key if len(targets) == 1 else f"{key}:{_digest(target)}"
        requests.append(parse_request(json.dumps({**base, "to": target, "idempotency_key": named}, ensure_ascii=False)))
    return requests


def _digest(target: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(target, sort_keys=True).encode()).hexdigest()[:16]


def _users(args: argparse.Namespace) -> list[str]:
    lines = list(args.user)
    if args.users_file:
        content = sys.stdin.read() if args.users_file == "-" else Path(args.users_file).read_text("utf-8-sig")
        lines += [line.split("#", 1)[0] for line in content.splitlines()]
    users = [user.strip() for line in lines for user in line.replace("，", ",").split(",")]
    return list(dict.fromkeys(user for user in users if user))


def _message(args: argparse.Namespace) -> dict[str, Any]:
    text = sys.stdin.read() if args.text == "-" else args.text
    media = [kind for kind in _MEDIA if getattr(args, kind) is not None]
    if len(media) + (args.message is not None) > 1:
        raise PushRefused("bad_message", told.PUSH_ONE_KIND, field="message", fix=told.PUSH_ONE_KIND_FIX)
    if media:
        path: Path = getattr(args, media[0])
        content = base64.b64encode(path.read_bytes()).decode()
        return {"kind": media[0], "content_base64": content, "file_name": path.name, "text": text or ""}
    if args.message is not None:
        try:
            given = json.loads(args.message.read_text("utf-8-sig"))
        except json.JSONDecodeError:
            raise PushRefused("bad_json", told.PUSH_NOT_JSON.format(file=args.message), field="--message", fix="") from None
        return {**given, "text": text} if text and isinstance(given, dict) else dict(given)
    if not text:
        raise PushRefused("empty_message", told.PUSH_NOTHING, field="text", fix=told.PUSH_NOTHING_FIX)
    return {"kind": "markdown" if args.markdown else "text", "text": text}


@dataclass(frozen=True, slots=True)
class _Progress:
    """A bar on a terminal's standard error; silent elsewhere."""

    total: int
    label: str

    def show(self, done: int) -> None:
        if not sys.stderr.isatty() or self.total < 2:
            return
        filled = _BAR * done // self.total
        end = "\n" if done >= self.total else ""
        print(f"\r{self.label} [{'#' * filled}{'-' * (_BAR - filled)}] {done}/{self.total}", end=end, file=sys.stderr, flush=True)


async def _run(args: argparse.Namespace, requests: Sequence[PushRequest]) -> int:
    from gateway.day_folders import OUTGOING
    from gateway.embedded import redis_url_of
    from gateway.outbox import SqlOutbox
    from gateway.parts import open_platforms
    from gateway.queue import RedisBell

    settings = settings_from(args)
    tenant = settings.tenant_of(args.account)
    if tenant is None:
        raise PushRefused("unknown_account", texts.PUSH_NO_ACCOUNT, field="--account", fix=_accounts(settings))
    clock, bell = Clock(settings.test_clock), RedisBell(redis_url_of(settings))
    platforms = open_platforms(settings, clock, bell)
    try:
        async with stored_data(settings) as database:
            outbox = SqlOutbox(platforms.channels, clock, settings.limits)
            store = PushStore(database, outbox, platforms.channels, clock, settings.data_dir / OUTGOING)
            pushes = await _accept(store, bell, tenant.id, requests)
            if args.wait is None:
                return _told_accepted(args, pushes)
            views = await _wait(store, tenant.id, pushes, args.wait)
            return _told_sent(args, views)
    finally:
        await platforms.close()
        await bell.close()


async def _accept(store: PushStore, bell: Any, tenant_id: str, requests: Sequence[PushRequest]) -> dict[str, int]:
    """Commit every request; push id → how many targets."""
    progress = _Progress(sum(len(request.to.users or (1,)) for request in requests), told.PUSH_ACCEPTING)
    pushes: dict[str, int] = {}
    for request in requests:
        stored = await store.store(tenant_id, "cli", request)
        pushes[stored.id] = len(stored.targets)
        await bell.ring("outbox", stored.id)
        progress.show(sum(pushes.values()))
    return pushes


async def _wait(store: PushStore, tenant_id: str, pushes: dict[str, int], limit_s: float) -> list[PushView]:
    progress = _Progress(sum(pushes.values()), told.PUSH_DELIVERING)
    end = asyncio.get_running_loop().time() + limit_s
    settled: dict[str, PushView] = {}
    while True:
        for push_id in pushes:
            known = settled.get(push_id)
            if known is None or set(known.counts) & _ON_THE_WAY:
                found = await store.view(tenant_id, None, push_id)
                if found is not None:
                    settled[push_id] = found
        left = sum(count for view in settled.values() for state, count in view.counts.items() if state in _ON_THE_WAY)
        progress.show(progress.total - left)
        if left == 0 or asyncio.get_running_loop().time() >= end:
            return list(settled.values())
        await asyncio.sleep(_POLL_S)


def _told_accepted(args: argparse.Namespace, pushes: dict[str, int]) -> int:
    if args.json:
        print(json.dumps({"pushes": pushes}, ensure_ascii=False))
    else:
        more = told.PUSH_AND_MORE if len(pushes) > 3 else ""
        print(told.PUSH_ACCEPTED.format(count=sum(pushes.values()), ids="、".join(list(pushes)[:3]), more=more))
    return 0


def _told_sent(args: argparse.Namespace, views: Sequence[PushView]) -> int:
    counts: Counter[str] = Counter()
    faults: list[TargetView] = []
    for view in views:
        counts.update(view.counts)
        faults += [target for target in view.targets if target.state != "sent"]
    if args.json:
        rows = [{**target.shown, "state": target.state, "reason": target.reason} for target in faults]
        print(json.dumps({"counts": counts, "not_sent": rows}, ensure_ascii=False, indent=2))
    else:
        print("，".join(f"{texts.OUTBOX_STATES.get(state, state)} {count}" for state, count in counts.items()))
        for target in faults[:_SHOWN_FAULTS]:
            who = "、".join(str(value) for value in target.shown.values())
            print(
                f"  {who}：{texts.OUTBOX_STATES.get(target.state, target.state)}{f'，{target.reason}' if target.reason else ''}"
            )
        if len(faults) > _SHOWN_FAULTS:
            print(told.PUSH_MORE.format(count=len(faults) - _SHOWN_FAULTS))
    return 0 if not faults else 1


def _accounts(settings: Settings) -> str:
    names = [account.id for tenant in settings.tenants for account in tenant.accounts]
    return told.PUSH_ACCOUNTS.format(names="、".join(names) or told.PUSH_NO_ACCOUNTS)
