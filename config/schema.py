"""The typed settings: every key there is, its form, its default. Unknown keys are errors."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from config import texts

_ID = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Purpose = Literal["chat", "hard", "summary", "transcribe"]


class Section(BaseModel):
    """Base of all sections: unknown keys refused, frozen, defaults validated."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, str_strip_whitespace=True, allow_inf_nan=False)


class Listen(Section):
    """An address to listen on. ``public_url`` (callbacks only) is what the outside world calls us; without it no links
    are offered (N-24)."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    public_url: str | None = None

    @field_validator("public_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is None or value == "":
            return None
        if not re.fullmatch(r"https?://[^\s/]+(/[^\s]*)?", value):
            raise ValueError(texts.PUBLIC_URL)
        return value.rstrip("/")


class AdminListen(Listen):
    """The operators' address: another default port."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8081


class Welcome(Section):
    """What subscribe and enter_agent answer; ``interval_h`` is the least time between two greetings of one person."""

    text: str | None = (
        "你好，我是你的助手，直接把要办的事发给我就行。回复「帮助」看我能做什么。我会记住对话以便接着聊，回复「停止」可随时停下正在做的事。"
    )
    interval_h: Annotated[float, Field(gt=0)] = 24.0
    events: tuple[Literal["subscribe", "enter"], ...] = ("subscribe", "enter")


class AccountBase(Section):
    """What a WeCom app and an Official Account have in common."""

    id: Annotated[str, Field(pattern=_ID)]
    callback_token: Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,32}$")]
    api_base: str | None = None
    """Where the platform's API is; null = the platform itself. The simulator or a private deployment goes here."""
    proxy_url: str | None = None
    """An HTTP proxy with a fixed address, for the platform's IP allow list."""
    replies: dict[str, str] = {}
    """Whole-message keyword or menu key → fixed answer, no model."""
    welcome: Welcome = Welcome()
    ai_label: bool | None = None
    """Mark model-written answers 「内容由 AI 生成」; null = on for Official Accounts, off for WeCom."""
    markdown: bool = False
    """Send markdown as markdown (WeCom client only); default is readable plain text."""
    reply_deadline_s: Annotated[float, Field(gt=0.2, le=4.8)] = 4.3
    memory: Literal["off", "session", "long_term"] = "long_term"
    bot_name: str | None = None
    """A leading @name in the text that means us and is dropped."""


class WecomAccount(AccountBase):
    """A WeCom self-built app (企业微信自建应用)."""

    platform: Literal["wecom"]
    corp_id: Annotated[str, Field(pattern=r"^(ww|wx)[0-9a-f]{16}$")]
    agent_id: Annotated[int, Field(ge=1)]
    secret: SecretStr
    encoding_aes_key: SecretStr
    approval_template_id: str | None = None

    _secret = field_validator("secret")(lambda value: _not_empty(value))
    _key = field_validator("encoding_aes_key")(lambda value: _aes_key(value))


class MpAccount(AccountBase):
    """An Official Account (公众号)."""

    platform: Literal["mp"]
    app_id: Annotated[str, Field(pattern=r"^(ww|wx)[0-9a-f]{16}$")]
    app_secret: SecretStr
    encoding_aes_key: SecretStr | None = None
    mode: Literal["safe", "compat", "plain"] = "safe"
    original_id: Annotated[str, Field(pattern=r"^gh_[0-9A-Za-z]+$")] | None = None

    _secret = field_validator("app_secret")(lambda value: _not_empty(value))
    _key = field_validator("encoding_aes_key")(lambda value: None if value is None else _aes_key(value))

    @model_validator(mode="after")
    def _mode_needs_key(self) -> MpAccount:
        if self.mode != "plain" and self.encoding_aes_key is None:
            raise ValueError(texts.KEY_NEEDED.format(mode=self.mode))
        return self


Account = Annotated[WecomAccount | MpAccount, Field(discriminator="platform")]


class Person(Section):
    """An exact (account, user id)."""

    account: str
    user: str

    def is_member(self, account_id: str, user_id: str) -> bool:
        """Whether this names the WeCom member with this id, which WeCom spells in upper or lower case alike."""
        return self.account == account_id and self.user.lower() == user_id.lower()


class Robot(Section):
    """A group robot: its webhook URL is a secret (the key is in it)."""

    id: Annotated[str, Field(pattern=_ID)]
    title: str
    webhook: SecretStr


class ScriptArgument(Section):
    """One typed argument of a preset: an enum or a pattern, never free text into a shell (N-20)."""

    type: Literal["string", "integer"] = "string"
    description: str = ""
    enum: tuple[str, ...] | None = None
    pattern: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    default: str | int | None = None


class ScriptPreset(Section):
    """An allow-listed program: an argv list in which ``{name}`` stands for one typed argument."""

    id: Annotated[str, Field(pattern=_ID)]
    description: str
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    arguments: dict[str, ScriptArgument] = {}
    read_only: bool = False
    hosts: tuple[str, ...] = ("local",)
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    risk: Literal["normal", "high"] = "normal"
    roles: tuple[str, ...] = ("server_access",)


class Host(Section):
    """A machine the tools may look at over ssh (BatchMode, known host keys only)."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    address: str
    user: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    identity_file: Path | None = None


class LogSource(Section):
    """A log file the log_query tool may read."""

    id: Annotated[str, Field(pattern=_ID)]
    description: str
    path: Path


class HttpTool(Section):
    """An internal HTTP system as a tool (tools/http.py)."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    description: str
    tool_class: Annotated[Literal["read", "operation"], Field(alias="class")] = "read"
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    url: str
    headers: dict[str, SecretStr] = {}
    parameters: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    body: Literal["json", "none"] = "json"
    summary_template: str
    confirm_template: str | None = None
    roles: tuple[str, ...] = ()
    public: bool = False
    risk: Literal["normal", "high"] = "normal"
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0
    idempotency_header: str | None = None
    triggers: tuple[str, ...] = ()

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _careful(self) -> HttpTool:
        """Nothing that may change something runs unasked because a line was forgotten, and no value chooses the host."""
        if not re.fullmatch(r"https?://[^/?#{}@\s]+(?:[/?][^\s]*)?", self.url):
            raise ValueError(texts.TOOL_URL)
        for template in (self.summary_template, self.confirm_template or ""):
            list(string.Formatter().parse(template))  # a brace that is not closed would be found by the first call
        if self.method != "GET" and "tool_class" not in self.model_fields_set:
            raise ValueError(texts.TOOL_CLASS.format(method=self.method))
        if self.method in ("PUT", "PATCH", "DELETE") and self.tool_class == "read":
            raise ValueError(texts.TOOL_WRITES.format(method=self.method))
        return self


class ToolSettings(Section):
    """What the tools may reach."""

    robots: tuple[Robot, ...] = ()
    scripts: tuple[ScriptPreset, ...] = ()
    hosts: tuple[Host, ...] = ()
    logs: tuple[LogSource, ...] = ()
    http: tuple[HttpTool, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    """Host names egress may go to beside the platforms (N-20); an HTTP tool's own host is always allowed."""
    disabled: tuple[str, ...] = ()


class Tenant(Section):
    """One company: its people with rights, its accounts, its tools."""

    id: Annotated[str, Field(pattern=_ID)] = "default"
    operators: tuple[Person, ...] = ()
    roles: dict[str, tuple[Person, ...]] = {}
    alert_webhook: SecretStr | None = None
    allow_external_models: bool = False
    customer_data_external: bool = False
    customers_use_model: bool = True
    accounts: tuple[Account, ...] = ()
    tools: ToolSettings = ToolSettings()


class ModelRoute(Section):
    """One OpenAI-compatible endpoint; the order in the list is the order of trying. Prices are per million tokens."""

    name: Annotated[str, Field(pattern=_ID)]
    base_url: str
    model: str
    api_key: SecretStr | None = None
    local: bool = False
    purposes: tuple[Purpose, ...] = ("chat", "hard", "summary")
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 60.0
    max_output_tokens: Annotated[int, Field(ge=1)] = 1024
    context_chars: Annotated[int, Field(ge=2000)] = 24_000
    price_in: float = 0.0
    price_out: float = 0.0
    extra_body: dict[str, Any] = {}

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        if not re.fullmatch(r"https?://\S+", value):
            raise ValueError(texts.MODEL_URL)
        return value.rstrip("/")


class Limits(Section):
    """Backpressure and budgets (N-09, agent.md §1)."""

    waiting_per_person: Annotated[int, Field(ge=1)] = 10
    turns_per_minute: Annotated[int, Field(ge=1)] = 20
    queued_per_tenant: Annotated[int, Field(ge=1)] = 1000
    concurrent_turns: Annotated[int, Field(ge=1)] = 64
    model_calls: Annotated[int, Field(ge=1)] = 8
    tool_calls: Annotated[int, Field(ge=1)] = 16
    turn_tokens: Annotated[int, Field(ge=100)] = 60_000
    turn_s: Annotated[float, Field(gt=1)] = 120.0
    confirm_minutes: Annotated[float, Field(gt=0)] = 10.0
    max_parts: Annotated[int, Field(ge=1, le=20)] = 5
    park_days: Annotated[float, Field(gt=0)] = 7.0


class Retention(Section):
    """How long bodies are kept, and how long the rows they stood in (N-10)."""

    body_days: Annotated[int, Field(ge=1)] = 30
    row_days: Annotated[int, Field(ge=1)] = 400


class MediaSettings(Section):
    """Inbound media (N-21)."""

    max_bytes: Annotated[int, Field(ge=1024)] = 20 * 1024 * 1024
    daily_bytes_per_person: Annotated[int, Field(ge=1024)] = 200 * 1024 * 1024


class WorkerSettings(Section):
    """The loop worker: ``slots`` jobs at once, ``turn_slots`` of them for turns only."""

    slots: Annotated[int, Field(ge=2, le=256)] = 16
    turn_slots: Annotated[int, Field(ge=1, le=64)] = 4


class Settings(Section):
    """Everything one deployment is told."""

    data_dir: Path = Path("data")
    http: Listen = Listen()
    admin: AdminListen = AdminListen()
    redis_url: str | None = None
    database_url: str | None = None
    qdrant_url: str | None = None
    callback_max_age_s: Annotated[int, Field(ge=0)] = 300
    verify_dir: Path | None = None
    demo: bool = False
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    models: tuple[ModelRoute, ...] = ()
    limits: Limits = Limits()
    retention: Retention = Retention()
    media: MediaSettings = MediaSettings()
    worker: WorkerSettings = WorkerSettings()
    tenants: tuple[Tenant, ...] = ()
    test_clock: Path | None = None
    """A file with an offset in milliseconds; tests and the simulator move time with it."""

    @property
    def sqlalchemy_url(self) -> str:
        """Where SQL lives: ``database_url`` or the SQLite file in the data folder."""
        return self.database_url or f"sqlite:///{self.data_dir / 'yizhan.db'}"

    def account(self, account_id: str) -> WecomAccount | MpAccount | None:
        """The account with this id, or None."""
        return next((a for tenant in self.tenants for a in tenant.accounts if a.id == account_id), None)

    def tenant_of(self, account_id: str) -> Tenant | None:
        """The tenant an account belongs to, or None."""
        return next((t for t in self.tenants if any(a.id == account_id for a in t.accounts)), None)

    def tenant(self, tenant_id: str) -> Tenant | None:
        """The tenant with this id, or None."""
        return next((t for t in self.tenants if t.id == tenant_id), None)


def _not_empty(value: SecretStr) -> SecretStr:
    stripped = value.get_secret_value().strip()
    if not stripped:
        raise ValueError(texts.EMPTY)
    return SecretStr(stripped)


def _aes_key(value: SecretStr) -> SecretStr:
    stripped = value.get_secret_value().strip()
    if not re.fullmatch(r"[A-Za-z0-9]{43}", stripped):
        raise ValueError(texts.KEY_FORM.format(count=len(stripped)))
    return SecretStr(stripped)
