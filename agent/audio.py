"""Makes a recording fit for transcription: 16 kHz mono WAV, resampled for real and not relabelled (MED-05)."""

from __future__ import annotations

import asyncio
import contextlib
import io
import shutil
import wave

from config.errors import YizhanError

RATE_HZ = 16_000
_CONVERT_S = 20.0
_MAX_BYTES = 20 * 1024 * 1024
_MAX_S = 20 * 60
"""Longer is no voice message; a header that claims a low rate would also make much of little."""
_AS_IS = ((b"ID3", ".mp3"), (b"\xff\xfb", ".mp3"), (b"\xff\xf3", ".mp3"), (b"OggS", ".ogg"))


class AudioUnreadable(YizhanError):
    """The recording is in a form nobody here can decode."""

    code = "audio_unreadable"


async def prepare(file_name: str, data: bytes) -> tuple[str, bytes]:
    """File name and bytes to send to a transcription endpoint.

    WAV is resampled here; MP3 and Ogg go as they are; AMR, Speex and the rest need ``ffmpeg`` on the machine. Told by the
    first bytes, not by the name. Raises AudioUnreadable.
    """
    if not data or len(data) > _MAX_BYTES:
        raise AudioUnreadable("empty or too large")
    if data[:4] == b"RIFF":
        return "voice.wav", await asyncio.to_thread(resample, data)
    for magic, suffix in _AS_IS:
        if data.startswith(magic):
            return "voice" + suffix, data
    return "voice.wav", await _convert(data)


def resample(data: bytes) -> bytes:
    """A WAV file as 16 kHz mono 16-bit WAV. Raises AudioUnreadable."""
    import numpy as np  # 15 MB and a tenth of a second, for recordings only

    try:
        with wave.open(io.BytesIO(data)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            frames = file.readframes(file.getnframes())
    except (wave.Error, EOFError, RuntimeError):  # the last one: a chunk that claims to be longer than the file
        raise AudioUnreadable("not a PCM WAV file") from None
    if width != 2 or channels < 1 or rate < 1000:
        raise AudioUnreadable("only 16-bit PCM is read")
    if not frames or len(frames) > _MAX_S * rate * width * channels:
        raise AudioUnreadable("empty or too long")
    samples = np.frombuffer(frames[: len(frames) // (2 * channels) * 2 * channels], "<i2").reshape(-1, channels).mean(axis=1)
    wanted = round(len(samples) * RATE_HZ / rate)
    if rate != RATE_HZ and len(samples) > 1:
        samples = np.interp(np.linspace(0, len(samples) - 1, wanted), np.arange(len(samples)), samples)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(np.clip(samples, -32768, 32767).astype("<i2").tobytes())
    return out.getvalue()


async def _convert(data: bytes) -> bytes:
    """Decode with ffmpeg through pipes; no shell, no files, no network protocols."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise AudioUnreadable("this recording needs ffmpeg, which is not installed")
    arguments = (
        "-v",
        "error",
        "-protocol_whitelist",
        "pipe",
        "-i",
        "pipe:0",
        "-ac",
        "1",
        "-ar",
        str(RATE_HZ),
        "-f",
        "wav",
        "pipe:1",
    )
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_CONVERT_S):
            converted, _ = await process.communicate(data)
    except TimeoutError:
        raise AudioUnreadable("decoding took too long") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0 or len(converted) <= 44:
        raise AudioUnreadable("ffmpeg could not decode it")
    return converted
