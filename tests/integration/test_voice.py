"""Voice: recognized text is used, a recording is transcribed in a form the endpoint understands, else one clear sentence."""

from __future__ import annotations

import contextlib
import io
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent import texts
from agent.audio import AudioUnreadable, prepare, resample
from agent.models import Turn
from agent.protocol import Attachment, InboundMessage
from config.clock import Clock
from config.errors import YizhanError
from tests.fakes.assistant import Assistant, make_assistant, settings_for
from tests.fakes.model_server import ModelServer, model_server, say

VOICE = (Attachment("voice", media_id="m1"),)


def recording(rate_hz: int = 8000, seconds: float = 0.5) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(b"\x10\x20" * int(rate_hz * seconds))
    return buffer.getvalue()


class Store:
    """Media by id; remembers what was asked for."""

    def __init__(self) -> None:
        self.files = {"m1": ("voice.amr", recording()), "m2": ("voice.amr", recording(16_000))}
        self.asked: list[str] = []

    async def fetch(self, message: InboundMessage, attachment: Attachment) -> tuple[str, bytes]:
        self.asked.append(attachment.media_id or "")
        if attachment.media_id not in self.files:
            raise YizhanError("gone")
        return self.files[attachment.media_id]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server(rule=lambda request: say("回答")) as running:
        yield running


async def listener(folder: Path, server: ModelServer, store: Store | None, purposes: list[str]) -> Assistant:
    route = {"name": "m", "base_url": server.url, "model": "fake", "local": True, "purposes": purposes}
    fetch: Any = store.fetch if store is not None else None
    return await make_assistant(folder, settings=settings_for(folder, models=[route]), clock=Clock(), fetch_media=fetch)


async def test_a_recording_reaches_the_endpoint_at_16_khz(tmp_path: Path, server: ModelServer) -> None:
    """MED-05: 8 kHz is resampled, not relabelled."""
    made = await listener(tmp_path, server, Store(), ["chat", "transcribe"])
    result = await made.say("", kind="voice", typed=False, attachments=VOICE)
    assert result.text == "回答"
    ((name, audio),) = server.uploads
    with wave.open(io.BytesIO(audio)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (16_000, 1, 8000)
    assert name == "voice.wav"
    assert server.requests[0]["messages"][-1]["content"] == server.transcript
    await made.close()


async def test_recognition_is_used_when_it_is_there(tmp_path: Path, server: ModelServer) -> None:
    """MED-05."""
    store = Store()
    made = await listener(tmp_path, server, store, ["chat", "transcribe"])
    await made.say("帮我查天气", kind="voice", typed=False, attachments=VOICE)
    assert store.asked == []
    assert server.requests[0]["messages"][-1]["content"] == "帮我查天气"
    await made.close()


@pytest.mark.parametrize("purposes", [["chat"], ["chat", "hard"]])
async def test_an_empty_recognition_is_a_notice_not_an_empty_prompt(
    tmp_path: Path, server: ModelServer, purposes: list[str]
) -> None:
    """MED-06: no model call."""
    made = await listener(tmp_path, server, Store(), purposes)
    result = await made.say("", kind="voice", typed=False, attachments=VOICE)
    assert result.text == texts.MEDIA_UNREADABLE["voice"]
    assert server.requests == []
    await made.close()


async def test_a_spoken_command_is_one(tmp_path: Path, server: ModelServer) -> None:
    made = await listener(tmp_path, server, Store(), ["chat", "transcribe"])
    result = await made.say("帮助。", kind="voice", typed=False, attachments=VOICE)
    assert result.text.startswith(texts.HELP_COMMANDS)
    assert server.requests == []
    await made.close()


async def test_two_recordings_are_two_transcripts_in_order(tmp_path: Path, server: ModelServer) -> None:
    """MED-09."""
    store = Store()
    made = await listener(tmp_path, server, store, ["chat", "transcribe"])
    server.transcript = "第一条"
    await made.say("", kind="voice", typed=False, attachments=VOICE)
    server.transcript = "第二条"
    await made.say("", kind="voice", typed=False, attachments=(Attachment("voice", media_id="m2"),))
    assert [request["messages"][-1]["content"] for request in server.requests] == ["第一条", "第二条"]
    assert store.asked == ["m1", "m2"]
    await made.close()


@pytest.mark.parametrize(
    ("media_id", "text"), [("gone", texts.VOICE_NOT_HEARD), ("speex", texts.MEDIA_UNREADABLE["voice"])], ids=["gone", "speex"]
)
async def test_what_cannot_be_heard_is_said(
    tmp_path: Path, server: ModelServer, media_id: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MED-05: without a decoder the person is asked to type."""
    monkeypatch.setenv("PATH", "/nonexistent")
    store = Store()
    store.files["speex"] = ("voice.speex", b"\x00" * 200)
    made = await listener(tmp_path, server, store, ["chat", "transcribe"])
    result = await made.say("", kind="voice", typed=False, attachments=(Attachment("voice", media_id=media_id),))
    assert result.text == text
    assert server.requests == []
    await made.close()


@pytest.mark.parametrize("kind", ["image", "video", "file", "link", "location"])
async def test_every_unreadable_kind_has_one_sentence(tmp_path: Path, server: ModelServer, kind: str) -> None:
    """MED-01."""
    made = await listener(tmp_path, server, None, ["chat"])
    attachment = Attachment(kind, media_id="m", file_name="报表.xlsx" if kind == "file" else None)  # type: ignore[arg-type]
    result = await made.say("", kind=kind, attachments=(attachment,))
    assert result.text
    assert len(result.replies) == 1
    if kind == "file":
        assert result.text == "暂时不能读取文件「报表.xlsx」，请发文字。"
    assert server.requests == []
    await made.close()


async def test_events_never_reach_a_model(tmp_path: Path, server: ModelServer) -> None:
    """EVT-01: whatever comes in as an event, the model is not asked."""
    made = await listener(tmp_path, server, None, ["chat"])
    for _ in range(5):
        await made.say("", kind="event", raw_type="event")
    assert server.requests == []
    await made.close()


async def test_a_transcription_is_on_the_turns_record(tmp_path: Path, server: ModelServer) -> None:
    """Every call of a model, failed ones too; a route that cannot hear is followed by the next."""
    routes = [
        {"name": name, "base_url": url, "model": "fake", "local": True, "purposes": purposes}
        for name, url, purposes in (
            ("deaf", "http://127.0.0.1:9/v1", ["transcribe"]),
            ("m", server.url, ["chat", "transcribe"]),
        )
    ]
    made = await make_assistant(
        tmp_path, settings=settings_for(tmp_path, models=routes), clock=Clock(), fetch_media=Store().fetch
    )
    assert (await made.say("", kind="voice", typed=False, attachments=VOICE)).text == "回答"
    (row,) = await made.rows(Turn)
    assert [(one["route"], one.get("for"), one["reason"], one["outcome"]) for one in row.routes_tried] == [
        ("deaf", "transcribe", "first", "connect"),
        ("m", "transcribe", "after_connect", "ok"),
        ("m", None, "first", "ok"),
    ]
    await made.close()


@pytest.mark.parametrize(("rate_hz", "seconds"), [(1000, 1500.0), (8000, 0.0)], ids=["hours", "nothing"])
async def test_a_recording_without_measure_is_not_resampled(rate_hz: int, seconds: float) -> None:
    with pytest.raises(AudioUnreadable):
        await prepare("voice.wav", recording(rate_hz, seconds))


async def test_a_damaged_recording_is_unreadable_and_nothing_else() -> None:
    """Whatever byte of a header is wrong."""
    whole = recording(seconds=0.02)
    for place in range(4, 44):
        for value in (0, 1, 2, 127, 255):
            damaged = whole[:place] + bytes([value]) + whole[place + 1 :]
            with contextlib.suppress(AudioUnreadable):
                resample(damaged)
            with contextlib.suppress(AudioUnreadable):
                resample(damaged[:place])
