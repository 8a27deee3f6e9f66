"""Runs an argv on this host or over ssh: no shell, closed input, bounded output and time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from config.schema import Host
from tools import texts
from tools.base import OutcomeUnknown, ToolFailed

_OUTPUT_BYTES = 256 * 1024
_SSH_FAILED = 255
_NEVER_THERE = re.compile(
    r"ssh: |No \S+ host key is known|Host key verification failed|@@@@|\S+: Permission denied \(|kex_exchange_identification"
    r"|Connection timed out during banner"
)
"""How ssh begins when it never got to the command."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. ``output`` is stdout and stderr together, at most 256 KiB."""

    code: int
    output: str


async def run_local(argv: Sequence[str], *, timeout_s: float) -> Ran:
    """Run a program on this host. Raises ToolFailed when there is no such program, TimeoutError when it takes too long (it
    and what it started are killed then)."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": os.defpath + ":/usr/local/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
        )
    except OSError:
        text = texts.SCRIPT_NOT_FOUND.format(program=os.path.basename(argv[0]))
        raise ToolFailed("no such program", code="no_program", user_text=text) from None
    try:
        async with asyncio.timeout(timeout_s):
            output = await _read(process)
            code = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Ran(code, output.decode("utf-8", "replace"))


async def run_on(host: Host | None, argv: Sequence[str], *, timeout_s: float) -> Ran:
    """Run a program on a listed host over ssh (BatchMode, known host keys only), or here when ``host`` is None. Raises
    ToolFailed when ssh never got there, OutcomeUnknown when the connection broke: the program may have run."""
    if host is None:
        return await run_local(argv, timeout_s=timeout_s)
    ran = await run_local(ssh_argv(host, argv), timeout_s=timeout_s)
    if ran.code == _SSH_FAILED:
        text = texts.SSH_FAILED.format(host=host.id)
        if _NEVER_THERE.match(ran.output):
            raise ToolFailed("ssh failed", code="ssh_failed", user_text=text)
        raise OutcomeUnknown("ssh was cut off", user_text=text)
    return ran


def ssh_argv(host: Host, argv: Sequence[str]) -> list[str]:
    """The ssh call: never asks, never takes a new host key; every word of the remote command is quoted."""
    command = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=8", "-p", str(host.port)]
    if host.identity_file is not None:
        command += ["-i", str(host.identity_file)]
    if host.user is not None:
        command += ["-l", host.user]
    return [*command, "--", host.address, shlex.join(argv)]


async def _read(process: asyncio.subprocess.Process) -> bytes:
    """The first 256 KiB; the rest is read and dropped so that the program can go on."""
    if process.stdout is None:
        return b""
    kept = bytearray()
    while chunk := await process.stdout.read(65_536):
        kept += chunk[: max(0, _OUTPUT_BYTES - len(kept))]
    return bytes(kept)
