"""S001-75: gateways and a worker on one PostgreSQL and one Valkey, by configuration alone; each with its own data folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from config.demo import demo_tenant, simulator_accounts
from scripts.bench.postgres import Postgres
from scripts.bench.processes import Running, answers, free_port, start, wait_until, yizhan

from .conftest import Demo
from .stage import FOLLOWER, LISI, SUBSCRIBER, WANGWU, ZHANGSAN, ZHAOLIU, Person, Stage, run_yizhan, wait

TOKEN = "two-gateways"
QUESTION = "我刚才说过的工位编号是什么"
NAMES = ("one", "two", "doomed", "worker")


@dataclass
class Cluster:
    """Two gateways, a third that dies with a turn in hand, one worker, one simulator."""

    stage: Stage
    folder: Path
    http: dict[str, int]
    running: dict[str, Running]
    environ: dict[str, dict[str, str]]

    def url(self, gateway: str, account: str) -> str:
        """The account's callback URL at one gateway."""
        return f"http://127.0.0.1:{self.http[gateway]}/callback/{account}"

    def say(self, who: Person, text: str, *gateways: str, **more: Any) -> dict[str, Any]:
        """The platform delivers one message to these gateways, to all at once."""
        return self.stage.say(who, text, repeat_to=[self.url(gateway, who[0]) for gateway in gateways], **more)

    def ask(self, who: Person, text: str, *gateways: str) -> str:
        """What came back in an HTTP response."""
        return next((d["passive"] for d in self.say(who, text, *gateways)["deliveries"] if d["passive"]), "")

    def think_for(self, milliseconds: int) -> None:
        """How long the model takes from now on, in every process."""
        for name in ("one", "two", "worker"):
            (self.folder / name / "demo_model_delay_ms").write_text(str(milliseconds))

    def turns(self) -> int:
        """How many turns there have been."""
        told = run_yizhan("usage", "--json", environ=self.environ["one"])
        assert told.returncode == 0, told.stderr
        rows = json.loads(told.stdout)
        return sum(row["turns"] for row in (rows["rows"] if isinstance(rows, dict) else rows))


@pytest.fixture(scope="module")
def database_url(postgres_server: Postgres) -> Iterator[str]:
    """A fresh database for this module."""
    yield postgres_server.create("scale_out")
    postgres_server.drop("scale_out")


@pytest.fixture(scope="module")
def cluster(database_url: str, valkey_socket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    sim, entry = free_port(), {name: free_port() for name in NAMES[:-1]}
    config, accounts = folder / "yizhan.yaml", folder / "accounts.json"
    redis_url = f"unix://{valkey_socket}?db=3"
    shared = {"demo": True, "database_url": database_url, "redis_url": redis_url, "test_clock": str(folder / "clock")}
    shared["tenants"] = [demo_tenant(f"http://127.0.0.1:{sim}", folder)]
    config.write_text(json.dumps(shared, ensure_ascii=False))
    accounts.write_text(json.dumps(simulator_accounts("", folder), ensure_ascii=False))
    environ = {name: {"YIZHAN_CONFIG": str(config), "YIZHAN_DATA_DIR": str(folder / name)} for name in NAMES}
    for name, port in entry.items():
        admin = str(free_port())
        environ[name] |= {"YIZHAN_HTTP__PORT": str(port), "YIZHAN_ADMIN__PORT": admin}
        environ[name]["YIZHAN_HTTP__PUBLIC_URL"] = f"http://127.0.0.1:{entry['one']}"
    command = ["--port", str(sim), "--token", TOKEN, "--callback-base", f"http://127.0.0.1:{entry['one']}"]
    command += ["--accounts", str(accounts), "--clock", str(folder / "clock")]
    with contextlib.ExitStack() as stack:
        simulator = start("simulator", [yizhan()[0], "-m", "scripts.simulator", *command], folder)
        stack.callback(simulator.stop)
        wait_until(lambda: "simulator ready" in simulator.tail(), simulator, "the simulator", 60)
        running = {}
        for name in NAMES:
            (folder / name).mkdir(mode=0o700)
            running[name] = start(name, yizhan("worker" if name == "worker" else "serve"), folder, environ[name])
            stack.callback(running[name].stop)
        for name in entry:
            ready = f"http://127.0.0.1:{environ[name]['YIZHAN_ADMIN__PORT']}/readyz"
            wait_until(partial(answers, ready), running[name], name, 90)
        wait_until(lambda: "worker.started" in running["worker"].tail(), running["worker"], "worker", 90)
        stage = Stage(Demo(f"http://127.0.0.1:{sim}/?token={TOKEN}", folder / "one"))
        started = Cluster(stage, folder, entry, running, environ)
        kill_one(started)
        yield started


def kill_one(cluster: Cluster) -> None:
    """The third gateway has acknowledged a question and is killed over the answer; the last test looks what became of it."""
    cluster.ask(ZHAOLIU, "我的工位编号是K474", "doomed")
    (cluster.folder / "doomed" / "demo_model_delay_ms").write_text("20000")
    said = cluster.say(ZHAOLIU, QUESTION, "doomed", wait=False)
    wait(lambda: cluster.stage.call("GET", f"exchanges/{said['exchange']}")["state"] == "done")
    cluster.running["doomed"].kill()


def test_delivered_to_both_at_once(cluster: Cluster) -> None:
    """OA5-20: the same MsgId at both gateways in the same moment: one turn, one answer."""
    everybody = {LISI: "K171", FOLLOWER: "K272", SUBSCRIBER: "K373"}
    for who, code in everybody.items():
        cluster.ask(who, f"我的工位编号是{code}", "one")
    turns = cluster.turns()
    for who, code in everybody.items():
        before = cluster.stage.last(who)
        said = cluster.say(who, QUESTION, "one", "two")
        assert {d["status"] for d in said["deliveries"]} == {200}
        assert [code in text for text in cluster.stage.texts(who, before)] == [True]
        assert {d["passive"] for d in said["deliveries"]} <= {None, *cluster.stage.texts(who, before)}
    assert cluster.turns() == turns + len(everybody)


def test_delivered_to_both_and_slow(cluster: Cluster) -> None:
    """OA5-20: slower than five seconds at both: acknowledged twice, pushed once; the unverified one pulls it once, elsewhere."""
    cluster.think_for(6500)
    before = {who: cluster.stage.last(who) for who in (LISI, FOLLOWER, SUBSCRIBER)}
    for who in before:
        cluster.say(who, QUESTION, "one", "two", wait=False)
    cluster.stage.seen(LISI, "K171", before[LISI])
    cluster.stage.seen(FOLLOWER, "K272", before[FOLLOWER])
    cluster.stage.seen(SUBSCRIBER, "K373", before[SUBSCRIBER])
    cluster.think_for(0)
    for who, code in ((LISI, "K171"), (FOLLOWER, "K272"), (SUBSCRIBER, "K373")):
        assert cluster.ask(who, "状态", "two").startswith("现在没有正在处理的事")
        assert sum(code in text for text in cluster.stage.texts(who, before[who])) == 1


def test_one_conversation_over_both(cluster: Cluster) -> None:
    """Proposed at one, confirmed at the other, at both at once: one to-do; memory and order are the conversation's."""
    assert cluster.say(WANGWU, "建个待办：换灯管", "one")
    cluster.stage.seen(WANGWU, "即将执行")
    cluster.say(WANGWU, "确认", "two", "one")
    told = cluster.stage.seen(WANGWU, "已建待办 #1：换灯管")
    assert sum("已建待办" in text for text in cluster.stage.texts(WANGWU)) == 1
    assert cluster.ask(WANGWU, "我的待办", "one").count("换灯管") == 1
    assert told["text"].count(f":{cluster.http['one']}/t/") == 1, "links lead to the one entry URL"
    link = told["text"].split("查看：")[1].strip()
    for gateway in ("one", "two"):
        status, page, _ = cluster.stage.http("GET", link.replace(str(cluster.http["one"]), str(cluster.http[gateway])))
        assert (status, "换灯管" in page) == (200, True)


def test_one_token_for_all_processes(cluster: Cluster) -> None:
    """S001-82: three gateways, a worker, one access_token fetch an account."""
    for account, path in (("wecom-main", "gettoken"), ("mp-main", "stable_token"), ("mp-sub", "stable_token")):
        assert len(cluster.stage.calls(account, path)) == 1


def test_what_the_dead_gateway_had_in_hand_is_answered(cluster: Cluster) -> None:
    """OA5-22: killed between acknowledgement and answer: the others answer, once; they go on serving."""
    assert "你可以直接把要办的事发给我" in cluster.ask(ZHANGSAN, "帮助", "two")
    cluster.stage.seen(ZHAOLIU, "说过的")
    assert cluster.ask(ZHAOLIU, "状态", "two").startswith("现在没有正在处理的事")
    assert ["K474" in text for text in cluster.stage.texts(ZHAOLIU) if "说过的" in text] == [True]
