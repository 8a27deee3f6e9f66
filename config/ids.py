"""Sortable unique ids: time first, then randomness, letters and digits only."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def new_id(prefix: str = "") -> str:
    """A fresh id such as ``t0m3k9x2q1a8f...``: prefix, 9 characters of time, 13 of chance (67 bits), ``[0-9a-z]``."""
    return prefix + _base36(time.time_ns() // 1_000_000, 9) + _base36(secrets.randbits(67), 13)


def _base36(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, rest = divmod(number, 36)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits))
