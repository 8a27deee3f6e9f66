"""The operator's and the program's side of the running demo: every command, the push API, the README's curl, the endpoints."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import ROOT, Demo
from .stage import FOLLOWER, LISI, SUBSCRIBER, WANGWU, ZHANGSAN, ZHAOLIU, Stage, wait


@pytest.fixture(scope="module")
def stage(demo: Demo) -> Stage:
    return Stage(demo)


@pytest.fixture(scope="module")
def key(stage: Stage) -> str:
    """A key as ``yizhan keys create`` prints it: alone on stdout, what it may do on stderr."""
    made = stage.yizhan("keys", "create", "--scope", "push", "--name", "告警")
    assert made.returncode == 0
    assert made.stdout.strip().startswith("yzk_")
    assert len(made.stdout.split()) == 1
    assert "以后不再显示" in made.stderr
    return made.stdout.strip()


def curl(stage: Stage, method: str, path: str, key: str | None, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """The push API as the README shows it, with curl where the machine has it."""
    url = f"http://127.0.0.1:{stage.ports()['admin_port']}/api/v1/{path}"
    program = shutil.which("curl")
    if program is None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        status, text, _ = stage.http(method, url, None if body is None else json.dumps(body), headers)
        return status, json.loads(text)
    command = [program, "-sS", "-X", method, url, "-H", "Content-Type: application/json", "-w", "\n%{http_code}"]
    command += ["-H", f"Authorization: Bearer {key}"] if key else []
    command += ["-d", json.dumps(body, ensure_ascii=False)] if body is not None else []
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    text, _, status_line = told.rpartition("\n")
    return int(status_line), json.loads(text)


def message(text: str, user: str = "lisi", **more: Any) -> dict[str, Any]:
    """A request for one text to one member."""
    return {"account": "wecom-main", "to": {"users": [user]}, "message": {"kind": "text", "text": text}, **more}


def state_of(stage: Stage, key: str, push_id: str) -> list[dict[str, Any]]:
    """What became of each target."""
    status, told = curl(stage, "GET", f"push/{push_id}", key)
    assert status == 200
    return list(told["targets"])


def test_pushed_once_for_the_same_key(stage: Stage, key: str) -> None:
    """The same idempotency_key again gives the same id and sends nothing more; other words under it are refused."""
    first = curl(stage, "POST", "push", key, message("部署完成", idempotency_key="deploy-7"))
    again = curl(stage, "POST", "push", key, message("部署完成", idempotency_key="deploy-7"))
    assert first[0] == again[0] == 202
    assert first[1]["id"] == again[1]["id"]
    status, refused = curl(stage, "POST", "push", key, message("别的内容", idempotency_key="deploy-7"))
    assert status == 409
    assert "已经用于另一条内容" in json.dumps(refused, ensure_ascii=False)
    stage.seen(LISI, "部署完成")
    wait(lambda: {target["state"] for target in state_of(stage, key, first[1]["id"])} == {"sent"})
    assert stage.texts(LISI).count("部署完成") == 1


def test_not_before_and_expiry(stage: Stage, key: str) -> None:
    """A scheduled push waits for its time; one whose time ran out before it could go is never sent and says so."""
    now = stage.call("GET", "clock")["now_ms"]
    later = curl(stage, "POST", "push", key, message("十分钟后的通知", "wangwu", not_before=now + 600_000))
    late = message("过期的通知", "wangwu", not_before=now + 500_000, expires_at=now + 550_000)
    late_status, late_push = curl(stage, "POST", "push", key, late)
    assert (later[0], late_status) == (202, 202)
    stage.told(WANGWU, "在吗", "你好")
    assert "十分钟后的通知" not in stage.texts(WANGWU)
    stage.advance(620)
    stage.seen(WANGWU, "十分钟后的通知")
    wait(lambda: state_of(stage, key, late_push["id"])[0]["state"] == "expired", what=lambda: "it did not expire")
    assert "过期的通知" not in stage.texts(WANGWU)


@pytest.mark.parametrize(
    ("who", "body", "status"),
    [
        ("nobody", message("x"), 401),
        ("key", {"account": "wecom-main"}, 400),
        ("key", message("x", colour="red"), 400),
        ("key", {**message("x"), "account": "nope"}, 404),
        ("key", {**message("x"), "account": "mp-main", "to": {"tags": ["1"]}}, 400),
        ("key", message("x", expires_at=1), 400),
    ],
)
def test_refusals_say_what_to_do(stage: Stage, key: str, who: str, body: dict[str, Any], status: int) -> None:
    """A 4xx with Chinese words and the fix; never a 5xx."""
    got, told = curl(stage, "POST", "push", key if who == "key" else None, body)
    words = json.dumps(told, ensure_ascii=False)
    assert got == status, words
    assert any("一" <= char <= "鿿" for char in words)


def test_an_unreachable_person_is_told_to_the_caller(stage: Stage, key: str) -> None:
    """81013 is the target's fault: no retry, the reason in words, in the API and in the outbox."""
    status, push = curl(stage, "POST", "push", key, message("看得到吗", "sunqi"))
    assert status == 202
    wait(lambda: state_of(stage, key, push["id"])[0]["state"] == "dead", what=lambda: str(state_of(stage, key, push["id"])))
    assert "不在应用的可见范围" in json.dumps(state_of(stage, key, push["id"]), ensure_ascii=False)
    listed = stage.yizhan("outbox", "list")
    assert listed.returncode == 0
    assert "失败 1" in listed.stdout
    assert "81013 接收者不存在，或不在应用的可见范围" in listed.stdout


def test_a_revoked_key_ends_at_once(stage: Stage) -> None:
    """keys list shows prefixes only; a revoked one answers 401 from the next request on."""
    own = stage.yizhan("keys", "create", "--scope", "push", "--name", "临时").stdout.strip()
    listed = stage.yizhan("keys", "list").stdout
    assert own[:12] in listed
    assert own not in listed
    assert curl(stage, "POST", "push", own, message("还行"))[0] == 202
    revoked = stage.yizhan("keys", "revoke", own[:12])
    assert (revoked.returncode, "已吊销，立即生效" in revoked.stdout) == (0, True)
    assert curl(stage, "POST", "push", own, message("不行了"))[0] == 401


def test_push_by_command(stage: Stage) -> None:
    """``yizhan push``: waits and says what happened; 1 when somebody was not reached, 2 when it was asked wrongly."""
    done = stage.yizhan("push", "全体注意", "--account", "wecom-main", "--user", "zhaoliu", "--wait")
    assert (done.returncode, done.stdout.strip()) == (0, "已发送 1")
    assert stage.texts(ZHAOLIU).count("全体注意") == 1
    failed = stage.yizhan("push", "在吗", "--account", "wecom-main", "--user", "nosuchuser", "--wait")
    assert failed.returncode == 1
    assert "81013" in failed.stdout
    wrong = stage.yizhan("push", "在吗", "--account", "nope", "--user", "lisi")
    assert wrong.returncode == 2
    assert "设置里有：wecom-main、mp-main、mp-sub" in wrong.stderr


def test_a_list_of_people_with_progress(stage: Stage) -> None:
    """Names from stdin, the same key again sends nothing twice."""
    names = "zhangsan\nlisi\n# nobody\nwangwu\n"
    words = ("push", "周五停电", "--account", "wecom-main", "--users-file", "-", "--key", "power-1", "--wait")
    for _ in range(2):
        done = stage.yizhan(*words, stdin=names)
        assert done.returncode == 0, done.stderr
        assert "已发送 3" in done.stdout
    for who in (ZHANGSAN, LISI, WANGWU):
        assert stage.texts(who).count("周五停电") == 1


def test_trace_tells_the_whole_story(stage: Stage) -> None:
    """From callback to delivery, without the words unless asked for; unknown ids are said to be unknown."""
    stage.told(ZHAOLIU, "在吗", "你好")
    said = stage.say(ZHAOLIU, "我的储物柜口令是苹果树")
    wait(lambda: "→ 已送到平台" in stage.yizhan("trace", said["message_id"]).stdout, what=lambda: "it was never delivered")
    story = stage.yizhan("trace", said["message_id"])
    assert story.returncode == 0
    for part in ("收到回调，验签解密通过，已落库", "一轮：", "路由 rule", "送出", "→ 已送到平台"):
        assert part in story.stdout
    assert "苹果树" not in story.stdout
    assert "苹果树" in stage.yizhan("trace", said["message_id"], "--bodies").stdout
    quick = stage.say(("mp-main", "oTraceFollower01"), "帮助")
    story = stage.yizhan("trace", quick["message_id"])
    assert "收到回调，验签解密通过，已落库；快速通道" in story.stdout
    assert "→ 已送到平台（在 HTTP 应答里）。" in story.stdout
    assert stage.yizhan("trace", "oTraceFollower01", "--bodies").stdout.count("#") == 1, "a person's messages, too"
    unknown = stage.yizhan("trace", "nosuch")
    assert (unknown.returncode, unknown.stdout.startswith("没有找到 nosuch")) == (1, True)


def test_usage_counts_what_people_asked(stage: Stage) -> None:
    """By day, route and person; a wrong option is a usage error."""
    stage.told(LISI, "在吗", "你好")
    told = stage.yizhan("usage")
    assert told.returncode == 0
    assert "rule" in told.stdout
    assert "合计" in told.stdout
    rows = json.loads(stage.yizhan("usage", "--by", "person", "--json").stdout)
    assert any("lisi" in json.dumps(row) for row in (rows["rows"] if isinstance(rows, dict) else rows))
    assert stage.yizhan("usage", "--days", "0").returncode == 2


def test_doctor_finds_nothing_and_then_the_trouble(stage: Stage) -> None:
    """Every account is ticked off; with the address not allowed the operator is told which one to add, and 1 is returned."""
    stage.advance(400)  # more than a callback may be old: the doctor must live in the same time as the service
    well = stage.yizhan("doctor", "wecom-main", "mp-main", "mp-sub")
    assert well.returncode == 0, well.stdout
    for part in ("取 access_token 正常", "能主动推送", "不能主动推送（未认证", "worker 在运行", "网关在运行", "没有接大模型"):
        assert part in well.stdout
    for part in ("应用「驿站助手」读得到", "公众号接口可用"):
        assert part in well.stdout
    assert well.stdout.count("回调地址从外面访问得到，由这里应答，Token 和密钥与设置一致") == 3
    stage.call("POST", "faults", {"name": "ip_blocked", "account": "wecom-main"})
    ill = stage.yizhan("doctor", "wecom-main")
    stage.call("POST", "faults", {"clear": True})
    assert ill.returncode == 1
    assert "60020" in ill.stdout
    assert "企业可信 IP" in ill.stdout
    assert "请把出口 IP 203.0.113.7 加到" in ill.stdout


def test_tools_tried_at_the_terminal(stage: Stage) -> None:
    """Reads run, writes are shown and asked for, mistakes are named; roles count as in the chat."""
    read = stage.yizhan("tools", "try", "todo_list", "--user", "lisi")
    assert (read.returncode, read.stdout.strip()) == (0, "没有未完成的待办。")
    asked = stage.yizhan("tools", "try", "todo_create", '{"title": "试试"}', "--user", "lisi", stdin="")
    assert asked.returncode == 1
    assert "标题：“试试”" in asked.stdout
    assert "--yes" in asked.stderr
    done = stage.yizhan("tools", "try", "todo_create", '{"title": "试试"}', "--user", "lisi", "--yes")
    assert done.returncode == 0, done.stderr
    assert stage.told(LISI, "我的待办", "试试").count("试试") == 1
    denied = stage.yizhan("tools", "try", "todo_list", "--account", "mp-main", "--user", FOLLOWER[1])
    assert denied.returncode == 1, "followers are customers"


def test_models_checked(stage: Stage) -> None:
    """Without routes the rule model is named; an unknown route is a usage error."""
    told = stage.yizhan("models", "check")
    assert (told.returncode, "离线规则模型" in told.stdout) == (0, True)
    assert stage.yizhan("models", "check", "nope").returncode == 2


def test_settings_errors_name_the_field_never_the_value(stage: Stage) -> None:
    """``--config``: exit code 2, account, field, form; no secret."""
    account = {"id": "real", "platform": "wecom", "corp_id": "ww12", "agent_id": 1, "secret": "s3cr3t-value"}
    account |= {"callback_token": "t", "encoding_aes_key": "a" * 42, "colour": "red"}
    file = stage.demo.data_dir.parent / "broken.yaml"
    file.write_text(json.dumps({"tenants": [{"accounts": [account]}]}))
    for command in (["doctor"], ["push", "x", "--account", "real", "--user", "a"]):
        told = stage.yizhan(*command, "--config", str(file))
        assert told.returncode == 2, command
        for part in ("real", "corp_id", "encoding_aes_key", "colour"):
            assert part in told.stderr
        assert "s3cr3t" not in told.stderr + told.stdout
        assert "Traceback" not in told.stderr


def test_what_an_unverified_follower_is_pushed_waits(stage: Stage, key: str) -> None:
    """A push to somebody who cannot be pushed to is parked with its reason, and given by 继续."""
    stage.ask(SUBSCRIBER, "在吗")
    status, push = curl(
        stage, "POST", "push", key, {**message("新课上线"), "account": "mp-sub", "to": {"users": [SUBSCRIBER[1]]}}
    )
    assert status == 202
    wait(lambda: state_of(stage, key, push["id"])[0]["state"] == "parked", what=lambda: str(state_of(stage, key, push["id"])))
    assert "新课上线" in stage.ask(SUBSCRIBER, "继续")
    assert state_of(stage, key, push["id"])[0]["state"] == "sent"


def test_push_with_the_readmes_curl(stage: Stage, key: str) -> None:
    """The curl example is sent as printed, twice (address and key are the demo's); the person sees it once."""
    readme = (ROOT / "README.md").read_text("utf-8")
    (block,) = [text for text in re.findall(r"```bash\n(.*?)```", readme, re.DOTALL) if "curl" in text]
    line = block[block.index("curl") :].replace("127.0.0.1:8081", f"127.0.0.1:{stage.ports()['admin_port']}")
    before = stage.last(ZHANGSAN)
    for _ in range(2):
        sent = subprocess.run(
            ["bash", "-c", line], env={**os.environ, "PUSH_KEY": key}, capture_output=True, text=True, timeout=30, check=False
        )
        assert sent.returncode == 0, sent.stderr
        assert "error" not in json.loads(sent.stdout)
    stage.seen(ZHANGSAN, "部署完成", before)
    stage.told(ZHANGSAN, "在吗", "你好")  # goes out after whatever was pushed before
    assert stage.texts(ZHANGSAN, before).count("部署完成") == 1


def test_connect_sees_what_is_done(stage: Stage) -> None:
    """On the running demo everything up to the first message is ticked."""
    stage.ask(ZHANGSAN, "状态")
    done = stage.yizhan("connect", "wecom-main", "--once")
    for part in ("1. 服务在运行，外面访问得到", "2. 在企业微信保存回调", "3. 企业可信 IP", "4. 收到第一条消息"):
        assert f"[✓] {part}" in done.stdout


def test_menu_pull_and_publish(stage: Stage, tmp_path: Path) -> None:
    """EVT-04: what the account shows is saved, changed, and set; a click on it is answered."""
    file = tmp_path / "menu.yaml"
    assert stage.yizhan("menu", "pull", "mp-main", str(file)).returncode == 0
    saved = yaml.safe_load(file.read_text())
    saved["menu"]["button"] = [{"type": "click", "name": "帮助", "key": "帮助"}]
    file.write_text(yaml.safe_dump(saved, allow_unicode=True))
    assert stage.yizhan("menu", "publish", "mp-main", str(file)).returncode == 0
    (account,) = [a for a in stage.call("GET", "state")["accounts"] if a["id"] == "mp-main"]
    assert account["menu"] == saved["menu"]
    clicked = {"account": "mp-main", "user": "oMenuFollower01", "event": "click", "key": "帮助"}
    assert stage.call("POST", "event", clicked)["deliveries"][-1]["passive"]


@pytest.mark.parametrize("line", ["models list", "tools list", "migrate", "doctor --json wecom-main", "usage --json"])
def test_the_other_commands_run(stage: Stage, line: str) -> None:
    """Each of them works beside the running product and says something."""
    done = stage.yizhan(*line.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


def test_endpoints_of_an_operator(stage: Stage) -> None:
    """Health on both addresses, readiness and metrics on the admin one only."""
    ports = stage.ports()
    pages = {}
    for port, path in (("http_port", "healthz"), ("admin_port", "healthz"), ("admin_port", "readyz"), ("admin_port", "metrics")):
        status, pages[path], _ = stage.http("GET", f"http://127.0.0.1:{ports[port]}/{path}")
        assert status == 200
    assert "yizhan_callbacks" in pages["metrics"]
    for path in ("metrics", "readyz"):
        assert stage.http("GET", f"http://127.0.0.1:{ports['http_port']}/{path}")[0] == 404
