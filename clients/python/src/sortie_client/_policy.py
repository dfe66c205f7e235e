"""When a request is sent again, and after how long."""

from __future__ import annotations

import random

RETRIES = 4
"""Attempts after the first one."""
TIMEOUT = 30.0
"""Seconds in which the engine has to connect, to take a request, and to begin and continue an answer."""
STREAM_SILENCE = 40.0
"""Seconds without a byte after which the connection of a stream is dead: heartbeats come every 15."""
PATIENCE = 300.0
"""Seconds for which streams and waits try to reach an engine that is away."""
GRACE = 5.0
"""Seconds that a wait with a time limit allows for the answer to its last poll."""
LONGEST_WAIT = 60
"""Seconds of one long poll, as the API allows."""

_FIRST_DELAY = 0.25
_LONGEST_DELAY = 8.0
_LONGEST_RETRY_AFTER = 120.0


def is_retryable(status: int, *, repeatable: bool) -> bool:
    """Whether a request with this answer may be sent again. The engine answers 429 before it has changed anything."""
    return status == 429 or (repeatable and (status == 408 or status >= 500))


def delay(attempt: int, retry_after: float | None = None) -> float | None:
    """Seconds before attempt `attempt`, from 1. `None` if the engine wants a longer pause than a caller would sit through."""
    if retry_after is not None:
        return retry_after if retry_after <= _LONGEST_RETRY_AFTER else None
    return float(min(_FIRST_DELAY * 2 ** (attempt - 1), _LONGEST_DELAY) * random.uniform(0.75, 1.25))
