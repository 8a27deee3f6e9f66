"""What a program may ask of the push API: the request's form, checked field by field."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from config.errors import YizhanError
from gateway import texts

MAX_USERS = 1_000
_MAX_GROUPS = 100
_MAX_TEXT_CHARS = 20_000
_Id = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^|\s\x00-\x1f\x7f]+$")]
"""One id. The platform joins several with ``|``, so an id that brings its own would be more people than were counted."""
_Key = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
_Moment = Annotated[int, Field(gt=0, lt=4_102_444_800_000)]
"""Epoch milliseconds before the year 2100; what lies beyond is a mistake, and more than a database column holds."""

ROOT_DEPARTMENT = "1"
"""WeCom numbers its root department 1: a message to it is one to everyone."""


class PushRefused(YizhanError):
    """A push request that cannot be taken; ``status`` is the HTTP status, ``field`` where the fault is, ``fix`` what to do."""

    code = "bad_request"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 400,
        field: str | None = None,
        fix: str = "",
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.field = field
        self.fix = fix
        self.retry_after_s = retry_after_s

    def as_json(self) -> dict[str, Any]:
        """The body of the error answer."""
        told = {"code": self.code, "message": str(self), "field": self.field, "fix": self.fix}
        return {"error": {name: value for name, value in told.items() if value}}


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class To(_Form):
    """Who gets it: exactly one of the five."""

    users: Annotated[tuple[_Id, ...], Field(min_length=1, max_length=MAX_USERS)] | None = None
    departments: Annotated[tuple[_Id, ...], Field(min_length=1, max_length=_MAX_GROUPS)] | None = None
    tags: Annotated[tuple[_Id, ...], Field(min_length=1, max_length=_MAX_GROUPS)] | None = None
    conversation: _Id | None = None
    all: Literal[True] | None = None

    @field_validator("departments", "tags", mode="before")
    @classmethod
    def _numbers_are_ids(cls, value: Any) -> Any:
        return [str(item) if type(item) is int else item for item in value] if isinstance(value, list) else value

    @model_validator(mode="after")
    def _one(self) -> To:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("exactly one of users, departments, tags, conversation, all")
        if any(user.startswith("@") for user in self.users or ()):
            raise ValueError('everyone is {"all": true} and needs the scope push_all')
        return self

    @property
    def everyone(self) -> bool:
        """True when it reaches all members of a company, by whatever name (N-13)."""
        return bool(self.all) or any(department.lstrip("0") == ROOT_DEPARTMENT for department in self.departments or ())


class TextMessage(_Form):
    """Plain text, or markdown where the client renders it; long ones are split."""

    kind: Literal["text", "markdown"]
    text: Annotated[str, Field(min_length=1, max_length=_MAX_TEXT_CHARS)]

    def data(self) -> dict[str, Any]:
        """What the kind needs beside its text."""
        return {}


class MediaMessage(_Form):
    """A picture, a voice or a file: by the platform's media_id, or its content (base64) and name."""

    kind: Literal["image", "voice", "file"]
    media_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    content_base64: str | None = None
    file_name: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    text: Annotated[str, Field(max_length=_MAX_TEXT_CHARS)] = ""

    @model_validator(mode="after")
    def _one(self) -> MediaMessage:
        if (self.media_id is None) == (self.content_base64 is None):
            raise ValueError("exactly one of media_id and content_base64")
        if self.content_base64 is not None and self.file_name is None:
            raise ValueError("content_base64 needs file_name")
        return self

    def content(self) -> bytes | None:
        """The file's bytes, when they were given. Raises PushRefused."""
        if self.content_base64 is None:
            return None
        try:
            return base64.b64decode(self.content_base64, validate=True)
        except (binascii.Error, ValueError):
            where = "message.content_base64"
            raise PushRefused("bad_base64", texts.PUSH_BAD_BASE64, field=where, fix=texts.PUSH_BAD_BASE64_FIX) from None

    def data(self) -> dict[str, Any]:
        """The media id; a content's path is added once it is stored."""
        return {"media_id": self.media_id} if self.media_id is not None else {}


class Article(_Form):
    """One article of a news message."""

    title: Annotated[str, Field(min_length=1)]
    url: Annotated[str, Field(pattern=r"^https?://\S+$")]
    description: str = ""
    picurl: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None


class NewsMessage(_Form):
    """One to eight articles."""

    kind: Literal["news"]
    articles: Annotated[tuple[Article, ...], Field(min_length=1, max_length=8)]
    text: str = ""

    def data(self) -> dict[str, Any]:
        """The articles."""
        return {"articles": [article.model_dump(exclude_none=True) for article in self.articles]}


class CardMessage(_Form):
    """A WeCom template card: the platform's ``template_card`` object."""

    kind: Literal["template_card"]
    card: dict[str, Any]
    text: str = ""

    def data(self) -> dict[str, Any]:
        """The card."""
        return self.card


class TemplateMessage(_Form):
    """An Official Account template message."""

    kind: Literal["template"]
    template_id: Annotated[str, Field(min_length=1)]
    data_fields: Annotated[dict[str, Any], Field(alias="data")]
    url: str | None = None
    miniprogram: dict[str, str] | None = None
    text: str = ""

    def data(self) -> dict[str, Any]:
        """The template's fields."""
        optional = {"url": self.url, "miniprogram": self.miniprogram}
        given = {name: value for name, value in optional.items() if value}
        return {"template_id": self.template_id, "data": self.data_fields, **given}


class MenuMessage(_Form):
    """An Official Account customer-service menu; a click comes back as text with the item's id."""

    kind: Literal["msgmenu"]
    head: str
    items: Annotated[tuple[dict[str, str], ...], Field(min_length=1, max_length=10)]
    tail: str = ""
    text: str = ""

    def data(self) -> dict[str, Any]:
        """The menu."""
        return {"head": self.head, "items": list(self.items), "tail": self.tail}


Message = Annotated[
    TextMessage | MediaMessage | NewsMessage | CardMessage | TemplateMessage | MenuMessage, Field(discriminator="kind")
]


class PushRequest(_Form):
    """One push. Moments are epoch milliseconds, or ISO 8601 with a zone."""

    account: _Id
    to: To
    message: Message
    idempotency_key: _Key | None = None
    not_before: _Moment | None = None
    expires_at: _Moment | None = None

    @field_validator("not_before", "expires_at", mode="before")
    @classmethod
    def _moment(cls, value: Any) -> Any:
        return parse_moment(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _order(self) -> PushRequest:
        if self.not_before is not None and self.expires_at is not None and self.expires_at <= self.not_before:
            raise ValueError("expires_at must be later than not_before")
        return self

    def digest(self) -> str:
        """What makes two requests the same beside their idempotency key."""
        content = self.model_dump(mode="json", exclude={"idempotency_key"}, exclude_none=True)
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def parse_moment(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 moment with a zone. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(texts.PUSH_BAD_MOMENT) from None
    if moment.tzinfo is None:
        raise ValueError(texts.PUSH_BAD_MOMENT)
    return round(moment.timestamp() * 1000)


def parse_request(body: bytes | str) -> PushRequest:
    """Read a request. Raises PushRefused naming the first faulty field."""
    try:
        return PushRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise PushRefused("bad_json", texts.PUSH_BAD_JSON, fix=first["msg"]) from None
        place = first["loc"]
        if place[:1] == ("message",) and len(place) > 2:
            place = (place[0], *place[2:])  # the kind that pydantic puts between
        field = ".".join(str(part) for part in place)
        fix = first["msg"].removeprefix("Value error, ")
        raise PushRefused("bad_field", texts.PUSH_BAD_FIELD.format(field=field or "body"), field=field, fix=fix) from None
