"""What a message says: typed text, a recognized or transcribed voice, or the one sentence why it cannot be read."""

from __future__ import annotations

from agent import texts
from agent.audio import AudioUnreadable, prepare
from agent.protocol import Attachment, Deadline, InboundMessage
from agent.run import Run, permission
from agent.services import FetchMedia
from config.errors import YizhanError

_TRANSCRIBE_S = 60.0


async def heard_text(run: Run) -> tuple[str, str | None]:
    """(text, None), or ("", notice). An unreadable or empty message never becomes an empty prompt (MED-06)."""
    message = run.message
    if message.kind == "text":
        return (message.text, None) if message.text.strip() else ("", texts.EMPTY_TEXT)
    if message.kind == "voice":
        return await _voice(run)
    if message.kind == "event":
        return "", texts.MEDIA_UNREADABLE["unsupported"]
    return "", notice(message)


async def _voice(run: Run) -> tuple[str, str | None]:
    message, services = run.message, run.services
    if message.text.strip():
        return message.text, None
    recording = next((item for item in message.attachments if item.kind == "voice"), None)
    if recording is None or services.fetch_media is None or not services.router.routes("transcribe", permission(run)):
        return "", texts.MEDIA_UNREADABLE["voice"]
    try:
        return await _transcribe(run, services.fetch_media, recording), None
    except AudioUnreadable:
        return "", texts.MEDIA_UNREADABLE["voice"]
    except YizhanError:
        return "", texts.VOICE_NOT_HEARD


async def _transcribe(run: Run, fetch: FetchMedia, recording: Attachment) -> str:
    name, audio = await prepare(*await fetch(run.message, recording))
    bound = Deadline(min(run.deadline.at, run.services.clock.monotonic() + _TRANSCRIBE_S))
    return await run.services.router.transcribe(name, audio, bound, permission(run), run.log)


def notice(message: InboundMessage) -> str:
    """One explicit sentence for a kind that cannot be read (MED-01)."""
    names = [item.file_name for item in message.attachments if item.file_name]
    quoted = f"「{texts.short(names[0], 60)}」" if names else ""
    return texts.MEDIA_UNREADABLE[message.kind].format(name=quoted)
