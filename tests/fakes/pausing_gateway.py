"""A gateway process whose turn waits for a file: ``python -m tests.fakes.pausing_gateway URL CONVERSATION FOLDER``.

It drains one conversation: writes ``FOLDER/asked`` when its turn began, answers 「旧」 once ``FOLDER/go`` is there, writes
``FOLDER/ended`` when its drain is over.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection

from agent.protocol import InboundMessage, Reply, TurnResult
from config.columns import table_of
from config.database import open_database
from memory.models import Message
from tests.contract.road.road import ScriptedTurns, build_road


def _remember(connection: Connection, conversation: str) -> None:
    """A turn's own write: a line of the transcript."""
    line = {"tenant_id": "acme", "conversation_id": conversation, "session_id": "s", "user_id": "u", "role": "user"}
    connection.execute(table_of(Message).insert().values(**line, text="旧", created_at_ms=1))


async def main(url: str, conversation: str, folder: Path) -> None:
    """Drain the conversation once."""

    async def script(message: InboundMessage) -> TurnResult:
        (folder / "asked").touch()
        while not (folder / "go").exists():  # noqa: ASYNC110 -- another process makes it
            await asyncio.sleep(0.02)
        return TurnResult((Reply("旧"),), writes=(lambda connection: _remember(connection, conversation),))

    database = open_database(url)
    with pytest.MonkeyPatch.context() as patch:
        road = await build_road(database, patch, turns=ScriptedTurns(script))
        task = road.runner.start(conversation)
        if task is not None:
            await asyncio.wait({task})
        await road.runner.close(1)
    await database.close()
    (folder / "ended").touch()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
