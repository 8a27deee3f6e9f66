"""What a message says: typed text, a recognized or transcribed voice, or the one sentence why it cannot be read."""

from __future__ import annotations

from agent import texts
from agent.audio import AudioUnreadable, prepare
from agent.llm.router import DataPermission
from agent.protocol import Attachment, Deadline, InboundMessage
from agent.services import AgentServices
from config.errors import YizhanError

_TRANSCRIBE_S = 60.0


async def heard_text(
    services: AgentServices, message: InboundMessage, deadline: Deadline, permission: DataPermission
) -> tuple[str, str | None]:
    """(text, None), or ("", notice). An unreadable or empty message never becomes an empty prompt (MED-06)."""
    if message.kind == "text":
        return (message.text, None) if message.text.strip() else ("", texts.EMPTY_TEXT)
    if message.kind == "voice":
        return await _voice(services, message, deadline, permission)
    if message.kind == "event":
        return "", texts.MEDIA_UNREADABLE["unsupported"]
    return "", notice(message)


async def _voice(
    services: AgentServices, message: InboundMessage, deadline: Deadline, permission: DataPermission
) -> tuple[str, str | None]:
    if message.text.strip():
        return message.text, None
    recording = next((item for item in message.attachments if item.kind == "voice"), None)
    if recording is None or services.fetch_media is None or not services.router.routes("transcribe", permission):
        return "", texts.MEDIA_UNREADABLE["voice"]
    try:
        return await _transcribe(services, message, recording, deadline, permission), None
    except AudioUnreadable:
        return "", texts.MEDIA_UNREADABLE["voice"]
    except YizhanError:
        return "", texts.VOICE_NOT_HEARD


async def _transcribe(
    services: AgentServices, message: InboundMessage, recording: Attachment, deadline: Deadline, permission: DataPermission
) -> str:
    if services.fetch_media is None:
        raise YizhanError("nobody can download media")
    name, audio = await prepare(*await services.fetch_media(message, recording))
    bound = Deadline(min(deadline.at, services.clock.monotonic() + _TRANSCRIBE_S))
    return await services.router.transcribe(name, audio, bound, permission)


def notice(message: InboundMessage) -> str:
    """One explicit sentence for a kind that cannot be read (MED-01)."""
    names = [item.file_name for item in message.attachments if item.file_name]
    quoted = f"「{texts.short(names[0], 60)}」" if names else ""
    return texts.MEDIA_UNREADABLE[message.kind].format(name=quoted)
