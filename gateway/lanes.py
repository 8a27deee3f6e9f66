"""Which way a message takes: decided from the message alone, before anything is stored or loaded."""

from __future__ import annotations

from typing import Literal

from agent.commands import fast_command, ordered_command
from agent.intents import read_decision
from agent.protocol import InboundMessage
from config.schema import MpAccount, WecomAccount

Lane = Literal["turn", "single", "fast", "none"]

_ANSWERED_EVENTS = frozenset({"subscribe", "enter", "menu_click", "scan", "card_click", "card_menu"})


def lane_of(message: InboundMessage, account: WecomAccount | MpAccount) -> Lane:
    """``fast`` needs no claim; ``turn`` waits its turn and may join others; ``single`` waits and never joins; ``none``
    is stored and never answered."""
    if message.kind == "event":
        return "fast" if message.event is not None and message.event.name in _ANSWERED_EVENTS else "none"
    if message.kind == "unsupported" or message.id_type == "system":
        return "fast" if message.id_type != "system" else "none"
    if message.kind == "voice" and fast_command(message, account.bot_name) is not None:
        return "fast"  # 继续 or 停止, spoken: a decision it is never (N-16)
    if message.kind != "text" or not message.typed:
        return "single"
    if message.menu_item_id or message.text.strip() in account.replies:
        return "fast"
    if read_decision(message.text) is not None or fast_command(message, account.bot_name) is not None:
        return "fast"
    return "single" if ordered_command(message, account.bot_name) is not None else "turn"
