"""Callbacks: the signed requests that the engine sends when a run is finished."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterable
from typing import Protocol

from ._adapters import adapter_of
from ._errors import InvalidSignature
from .types import Run


class Headers(Protocol):
    """Headers of any framework: a dict, or an object with the same method `items`."""

    def items(self) -> Iterable[tuple[str, str]]: ...


TOLERANCE = 300.0
"""Seconds for which a signature is valid."""


def verify(body: bytes | str, headers: Headers, secret: str, *, tolerance: float = TOLERANCE) -> Run:
    """Returns the run of a callback, or raises `InvalidSignature`.

    `body` is the body as it came: a framework that parses it and writes it again changes the bytes. `headers` are those of the
    request. A callback can arrive more than once: compare `run.id` with those that were handled before.
    """
    content = body.encode() if isinstance(body, str) else body
    lower = {name.lower(): value for name, value in headers.items()}
    timestamp = lower.get("x-service-timestamp", "")
    # Only ASCII: `int` reads other digits as well.
    if not (timestamp.isascii() and timestamp.isdigit()):
        raise InvalidSignature("X-Service-Timestamp is missing or is no time in Unix seconds")
    expected = hmac.new(secret.encode(), timestamp.encode() + b"." + content, hashlib.sha256).hexdigest()
    given = lower.get("x-service-signature", "")
    if not hmac.compare_digest(f"sha256={expected}".encode(), given.encode()):
        raise InvalidSignature("X-Service-Signature is missing or is not of this body and secret")
    age = abs(time.time() - int(timestamp))
    if age > tolerance:
        raise InvalidSignature(f"the callback was signed {age:.0f} s ago, or the clocks differ by that much")
    run: Run = adapter_of(Run).validate_json(content)
    return run
