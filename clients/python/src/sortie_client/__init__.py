"""Client of Sortie, which runs AI agents on demand.

    from sortie_client import Sortie

    with Sortie() as client:
        print(client.runs.run(prompt="What is the capital of France?").output)
"""

from __future__ import annotations

from ._async._client import AsyncSortie
from ._async._resource import AsyncPages, Page
from ._async._stream import AsyncRunStream
from ._errors import (
    APIError,
    Conflict,
    ConnectionError,
    Forbidden,
    Gone,
    InternalError,
    InvalidOutput,
    InvalidRequest,
    InvalidSignature,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    PaymentRequired,
    PreconditionFailed,
    RangeNotSatisfiable,
    RateLimited,
    RunNotSucceeded,
    SecondFactorRequired,
    SortieError,
    Timeout,
    Unauthorized,
    Unavailable,
)
from ._sync._client import Sortie
from ._sync._resource import Pages
from ._sync._stream import RunStream
from ._version import VERSION as __version__

__all__ = [
    "APIError",
    "AsyncPages",
    "AsyncRunStream",
    "AsyncSortie",
    "Conflict",
    "ConnectionError",
    "Forbidden",
    "Gone",
    "InternalError",
    "InvalidOutput",
    "InvalidRequest",
    "InvalidSignature",
    "MethodNotAllowed",
    "NotFound",
    "Page",
    "Pages",
    "PayloadTooLarge",
    "PaymentRequired",
    "PreconditionFailed",
    "RangeNotSatisfiable",
    "RateLimited",
    "RunNotSucceeded",
    "RunStream",
    "SecondFactorRequired",
    "Sortie",
    "SortieError",
    "Timeout",
    "Unauthorized",
    "Unavailable",
    "__version__",
]
