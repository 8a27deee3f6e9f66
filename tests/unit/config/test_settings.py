"""Settings: where values come from, and what an operator reads when they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from config.errors import SettingsError
from config.schema import HttpTool, Settings
from config.settings import child_environment, demo_settings, load, load_settings, write_demo_state

KEY = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ"
SECRET = "s3cr3t-value-never-shown"


def account_yaml(**changes: str) -> str:
    fields = {
        "id": "wecom-main",
        "platform": "wecom",
        "corp_id": "ww0123456789abcdef",
        "agent_id": "1000002",
        "secret": SECRET,
        "callback_token": "tok123",
        "encoding_aes_key": KEY,
    } | changes
    lines = [f"{key}: {value}" for key, value in fields.items() if value != "-"]
    return "tenants:\n  - id: acme\n    accounts:\n      - " + "\n        ".join(lines) + "\n"


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "yizhan.yaml"
    file.write_text(text, "utf-8")
    return file


def problems(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, text), environ or {})
    assert SECRET not in str(caught.value)
    assert KEY[:10] not in str(caught.value)
    return str(caught.value)


def test_without_a_file_the_embedded_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, {})
    assert settings.data_dir == tmp_path / "data"
    assert (settings.http.port, settings.admin.port) == (8080, 8081)
    assert settings.sqlalchemy_url == f"sqlite:///{tmp_path / 'data' / 'yizhan.db'}"
    assert settings.tenants == ()


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ("", {"YIZHAN_DEMO": "true"}),
        ("admin: {host: 127.0.0.1}\n", {}),
        ("admin: {}\nhttp: {}\n", {}),
    ],
)
def test_a_section_without_its_port_keeps_its_own_default(tmp_path: Path, text: str, environ: dict[str, str]) -> None:
    """The first start of a demo names no port: callbacks are on 8080, operators on 8081."""
    settings = load(write(tmp_path, text), environ).settings
    assert (settings.http.port, settings.admin.port) == (8080, 8081)


def test_two_addresses_need_two_ports(tmp_path: Path) -> None:
    told = problems(tmp_path, "http: {port: 9000}\nadmin: {port: 9000}\n")
    assert "admin.port：与 http.port 相同；两个地址各要一个端口（yizhan.yaml:2）" in told


def test_default_file_is_found_and_paths_are_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "data_dir: ./state\nverify_dir: verify\n" + account_yaml())
    settings = load_settings(None, {})
    assert settings.data_dir == tmp_path / "state"
    assert settings.verify_dir == tmp_path / "verify"
    account = settings.account("wecom-main")
    assert account is not None
    assert account.callback_token == "tok123"


def test_environment_overrides_and_substitution(tmp_path: Path) -> None:
    file = write(tmp_path, 'http: {port: "${PORT}"}\n' + account_yaml(secret='"${WECOM_SECRET}"'))
    environ = {
        "PORT": "9000",
        "WECOM_SECRET": "from-environment",
        "YIZHAN_DATABASE_URL": "postgresql://u@h/db",
        "YIZHAN_ADMIN__PORT": "9001",
        "YIZHAN_CONFIG": str(tmp_path / "elsewhere.yaml"),
        "YIZHAN_TEST_CLOCK": str(tmp_path / "clock"),
    }
    settings = load(file, environ).settings
    account = settings.account("wecom-main")
    assert account is not None
    assert account.platform == "wecom"
    assert account.secret.get_secret_value() == "from-environment"
    assert (settings.http.port, settings.admin.port) == (9000, 9001)
    assert settings.database_url == "postgresql://u@h/db"
    assert settings.test_clock == tmp_path / "clock"


def test_lists_from_the_environment(tmp_path: Path) -> None:
    environ = {"YIZHAN_MODELS": '[{"name": "m", "base_url": "http://127.0.0.1:1/v1", "model": "x"}]'}
    assert load(write(tmp_path, ""), environ).settings.models[0].name == "m"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense: 1\n", "nonsense：没有这个键（yizhan.yaml:1）"),
        ("data_dri: x\n", "data_dri：没有这个键；是不是 data_dir？（yizhan.yaml:1）"),
        ("http:\n  prot: 1\n", "http.prot：没有这个键；是不是 port？（yizhan.yaml:2）"),
        ("data_dir: a\ndata_dir: b\n", "data_dir：写了两次，第二次在 yizhan.yaml:2（yizhan.yaml:1）"),
        ("http: {port: 99999}\n", "http.port：最多是 65535（yizhan.yaml:1）"),
        ("- a\n", "yizhan.yaml:1：最外层要是键和值"),
        ("a: [1\n", "不是有效的 YAML"),
        ("a: \x00\n", "yizhan.yaml：不是有效的 YAML：#x0000: special characters are not allowed"),
        ("a: &a [*a]\n", "不是有效的 YAML"),
        ("a: " + "[" * 3000, "不是有效的 YAML"),
        ("limits: {confirm_minutes: .inf}\n", "limits.confirm_minutes：要是有限的数（yizhan.yaml:1）"),
        ("limits: {turn_s: .nan}\n", "limits.turn_s：要是有限的数（yizhan.yaml:1）"),
        (account_yaml(secret="-"), "账号 wecom-main：secret：缺少这一项（yizhan.yaml:4）"),
        (account_yaml(agent_id="abc"), "账号 wecom-main：agent_id：要是应用的 AgentId"),
        (
            account_yaml(corp_id="ww12"),
            "账号 wecom-main：corp_id：要是 ww 或 wx 加 16 位 0-9 a-f，现在是 4 个字符",
        ),
        (account_yaml(platform="feishu"), "账号 wecom-main：platform：要是 wecom 或 mp（yizhan.yaml:5）"),
        (account_yaml(secrte="x"), "账号 wecom-main：secrte：没有这个键；是不是 secret？（yizhan.yaml:11）"),
        (account_yaml(secret='"${NOT_SET}"'), "环境变量 NOT_SET 没有设置（yizhan.yaml:8）"),
        (
            account_yaml().replace("    accounts", "    operators: [{account: nope, user: z}]\n    accounts"),
            "tenants[0].operators[0].account：这个租户没有这个账号（yizhan.yaml:3）",
        ),
        (
            account_yaml() + account_yaml().split("accounts:\n")[1],
            "tenants[0].accounts[1].id：账号 id wecom-main 用了两次；每个账号要有自己的（yizhan.yaml:11）",
        ),
        (
            account_yaml() + "  - id: acme\n",
            "tenants[1].id：租户 id acme 用了两次；每个租户要有自己的（yizhan.yaml:11）",
        ),
        ("retention:\n  row_days: 29\n", "retention.row_days：不能小于 body_days（yizhan.yaml:2）"),
        ("retention: {row_days: 30}\ncallback_max_age_s: 2592001\n", "retention.row_days：不能短于 callback_max_age_s"),
        (
            account_yaml(welcome="{interval_h: 9601}"),
            "retention.row_days：不能短于账号 wecom-main 的 welcome.interval_h（默认值）",
        ),
    ],
)
def test_problems_name_field_and_line(tmp_path: Path, text: str, told: str) -> None:
    assert told in problems(tmp_path, text)


def test_every_problem_is_listed_at_once(tmp_path: Path) -> None:
    message = problems(tmp_path, account_yaml(corp_id="x", callback_token="a-b", secret="-") + "what: 1\n")
    for field in ("corp_id", "callback_token", "secret", "what"):
        assert field in message


def test_a_bad_override_names_its_variable(tmp_path: Path) -> None:
    assert "http.port：要是整数" in problems(tmp_path, "", {"YIZHAN_HTTP__PORT": "eighty"})
    assert "（环境变量 YIZHAN_HTTP__PORT）" in problems(tmp_path, "", {"YIZHAN_HTTP__PORT": "eighty"})
    assert "datadir：没有这个键" in problems(tmp_path, "", {"YIZHAN_DATADIR": "x"})


def test_text_that_yaml_reads_as_something_else_stays_text(tmp_path: Path) -> None:
    settings = load(write(tmp_path, account_yaml(callback_token="0123", replies="{1: 一, yes: 好, time: 12:30}")), {}).settings
    account = settings.account("wecom-main")
    assert account is not None
    assert account.callback_token == "0123"
    assert account.replies == {"1": "一", "yes": "好", "time": "12:30"}


@pytest.mark.parametrize("written", [f'"{KEY}\\n"', f'" {KEY}"', f'"\\ufeff{KEY}\\u200b"', f"|\n          {KEY}"])
def test_cb_06_key_with_invisible_edges_is_accepted(tmp_path: Path, written: str) -> None:
    """CB-06: a key with a trailing newline or hidden characters is trimmed and accepted."""
    loaded = load(write(tmp_path, account_yaml(encoding_aes_key=written)), {})
    account = loaded.settings.account("wecom-main")
    assert account is not None
    assert account.encoding_aes_key is not None
    assert account.encoding_aes_key.get_secret_value() == KEY
    assert any("账号 wecom-main：encoding_aes_key" in warning for warning in loaded.warnings)
    assert KEY not in "".join(loaded.warnings)


def test_cb_06_key_of_42_characters_is_named_with_its_source(tmp_path: Path) -> None:
    """CB-06: 42 characters: the error names account, field, length and where it was read."""
    message = problems(tmp_path, account_yaml(encoding_aes_key='"${AES}"'), {"AES": KEY[:-1]})
    assert "账号 wecom-main：encoding_aes_key：要是 43 位字母和数字，现在是 42 个字符（yizhan.yaml:10，来自 AES）" in message


def test_cb_19_blanks_around_ids_are_trimmed_with_a_warning(tmp_path: Path) -> None:
    """CB-19: corpid=' ww0123456789abcdef ' is trimmed, and the operator is told."""
    loaded = load(write(tmp_path, account_yaml(corp_id="' ww0123456789abcdef '", secret=f"'{SECRET} '")), {})
    account = loaded.settings.account("wecom-main")
    assert account is not None
    assert account.platform == "wecom"
    assert account.corp_id == "ww0123456789abcdef"
    assert account.secret.get_secret_value() == SECRET
    assert [warning.split("（")[0] for warning in loaded.warnings] == [
        "账号 wecom-main：corp_id：去掉了值两头的空白或看不见的字符",
        "账号 wecom-main：secret：去掉了值两头的空白或看不见的字符",
    ]


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.yaml 不存在（YIZHAN_CONFIG）"):
        load(None, {"YIZHAN_CONFIG": str(tmp_path / "gone.yaml")})


def test_demo_without_a_file(tmp_path: Path) -> None:
    settings = load(write(tmp_path, ""), {"YIZHAN_SIM_PORT": "7001"}, demo=True).settings
    assert {account.id for tenant in settings.tenants for account in tenant.accounts} == {"wecom-main", "mp-main", "mp-sub"}
    account = settings.account("mp-sub")
    assert account is not None
    assert account.api_base == "http://127.0.0.1:7001"
    assert demo_settings(tmp_path / "data", sim_port=7001).tenants == settings.tenants


def test_commands_find_the_demo_that_ran_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_demo_state(tmp_path / "data", sim_port=7001, http_port=7002, admin_port=7003)
    settings = load(None, {}).settings
    assert settings.demo
    assert (settings.http.port, settings.admin.port) == (7002, 7003)
    assert not load(None, {}, demo=False).settings.demo


@pytest.mark.parametrize("section", ["http", "admin"])
@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "bot.example.com"])
def test_n_23_demo_refuses_other_addresses(tmp_path: Path, section: str, host: str) -> None:
    """N-23: --demo refuses non-loopback binds."""
    with pytest.raises(SettingsError, match=f"{section}.host：演示只在本机监听"):
        load(write(tmp_path, f'{section}: {{host: "{host}"}}\n'), {}, demo=True)


@pytest.mark.parametrize("api_base", ["-", "http://127.0.0.1:8090", "https://qyapi.weixin.qq.com"])
def test_n_23_demo_refuses_real_accounts(tmp_path: Path, api_base: str) -> None:
    """N-23: --demo refuses accounts that are not the simulator's, wherever they point."""
    with pytest.raises(SettingsError, match="账号 wecom-main：演示不接真实账号"):
        load(write(tmp_path, account_yaml(api_base=api_base, corp_id="wwaaaaaaaaaaaaaaaa")), {}, demo=True)


def test_settings_never_print_secrets(tmp_path: Path) -> None:
    """N-22: a printed settings object shows no secret."""
    settings = load(write(tmp_path, account_yaml()), {}).settings
    assert isinstance(settings, Settings)
    assert SECRET not in repr(settings)
    assert KEY not in repr(settings)


def test_children_get_the_environment_and_the_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEP", "1")
    assert child_environment({"YIZHAN_HTTP__PORT": "1"}).items() >= {"KEEP": "1", "YIZHAN_HTTP__PORT": "1"}.items()


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "POST"},
        {"method": "DELETE", "class": "read"},
        {"url": "https://{host}/x"},
        {"url": "https://a@b/x"},
        {"url": "ftp://a/x"},
        {"summary_template": "{title"},
        {"confirm_template": "}"},
        {"url": "https://a{n}.example.com/x"},
    ],
)
def test_an_http_tool_is_declared_with_care(changes: dict[str, str]) -> None:
    """N-20, overview §7.5: a write is not a read because a line was forgotten, and no value chooses the host."""
    good = {"name": "x", "description": "x", "url": "https://a.example.com/x/{n}?q={q}", "summary_template": "x"}
    assert HttpTool.model_validate(good).tool_class == "read"
    assert HttpTool.model_validate({**good, "method": "POST", "class": "read"}).tool_class == "read"
    with pytest.raises(ValidationError):
        HttpTool.model_validate({**good, **changes})
