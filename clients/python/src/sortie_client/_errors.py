"""Errors of the client. Each `code` of the API has a class; `docs/API.md` has the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .types import Run


class SortieError(Exception):
    """Base of every error of this package."""


class ConnectionError(SortieError):
    """The engine cannot be reached, or broke a connection off, also after retries."""


class Timeout(SortieError):
    """The engine did not answer in time, or a run did not end in the time that the caller gave it."""


class InvalidSignature(SortieError):
    """A callback is not from the engine, or is older than five minutes."""


class RunNotSucceeded(SortieError):
    """A run ended in another way than `succeeded`. `run` has its `status` and `error`."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__(f"run {run.id} {run.status}: {run.error or 'no reason was given'}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.run,)


class InvalidOutput(SortieError):
    """The output of a run is not of the type that was asked for. `run` has it in `output`."""

    def __init__(self, run: Run, reason: str) -> None:
        self.run = run
        self.reason = reason
        super().__init__(f"the output of run {run.id}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.run, self.reason)


class APIError(SortieError):
    """The engine refused a request.

    `message` is the engine's sentence, `code` its stable name, `status` the HTTP status. `request_id` finds the request in the
    engine's log. `retry_after` is in seconds.
    """

    def __init__(
        self, message: str, *, code: str, status: int, request_id: str | None, retry_after: float | None = None
    ) -> None:
        self.message = message
        self.code = code
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        super().__init__(f"{message} ({status} {code}, request {request_id})")

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are sent between processes: the default calls the class with the message alone.
        return _restore, (type(self), self.message, self.code, self.status, self.request_id, self.retry_after)


def _restore(
    kind: type[APIError], message: str, code: str, status: int, request_id: str | None, retry_after: float | None
) -> APIError:
    return kind(message, code=code, status=status, request_id=request_id, retry_after=retry_after)


class InvalidRequest(APIError):
    """400: the request breaks a rule, which the message names. Nothing was changed."""


class Unauthorized(APIError):
    """401: the credential is missing, invalid, expired or revoked."""


class SecondFactorRequired(APIError):
    """401: the person has to send a code of their second factor too."""


class PaymentRequired(APIError):
    """402: a budget, credits or the monthly allowance do not cover the run."""


class Forbidden(APIError):
    """403: the role of the credential is too small."""


class NotFound(APIError):
    """404: this organization has no such resource."""


class MethodNotAllowed(APIError):
    """405: the path has no such method."""


class Conflict(APIError):
    """409: the current state forbids it."""


class Gone(APIError):
    """410: the content was never kept."""


class PreconditionFailed(APIError):
    """412: the content has another entity tag than the request names."""


class PayloadTooLarge(APIError):
    """413: the body or the file is too large."""


class RangeNotSatisfiable(APIError):
    """416: the requested bytes are beyond the end of the content."""


class RateLimited(APIError):
    """429: too many requests in this minute. `retry_after` says when the quota restarts."""


class InternalError(APIError):
    """500: the engine's log has the cause under `request_id`."""


class Unavailable(APIError):
    """503: a dependency of the engine is away, or the node is stopping."""


BY_CODE: Mapping[str, type[APIError]] = {
    "invalid_request": InvalidRequest,
    "unauthorized": Unauthorized,
    "second_factor_required": SecondFactorRequired,
    "payment_required": PaymentRequired,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "method_not_allowed": MethodNotAllowed,
    "conflict": Conflict,
    "gone": Gone,
    "precondition_failed": PreconditionFailed,
    "payload_too_large": PayloadTooLarge,
    "range_not_satisfiable": RangeNotSatisfiable,
    "rate_limited": RateLimited,
    "internal": InternalError,
    "unavailable": Unavailable,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> APIError:
    """The error of an answer. A proxy in between may answer without the engine's form."""
    try:
        parsed = json.loads(body)
        message, code = str(parsed["error"]), str(parsed["code"])
    except (ValueError, KeyError, TypeError):
        message, code = f"the engine answered {status}", "unavailable" if status >= 500 else "unknown"
    try:
        retry_after = float(headers["retry-after"])
    except (KeyError, ValueError):
        retry_after = None
    return BY_CODE.get(code, APIError)(
        message, code=code, status=status, request_id=headers.get("x-request-id"), retry_after=retry_after
    )
