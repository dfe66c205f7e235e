"""The client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from .._request import Settings
from . import _resources
from ._files import Files
from ._runs import Runs


class Sortie(_resources.Client):
    """A client of the engine and, on a hosted deployment, of the organization API.

    `base_url` and `api_key` come from `SORTIE_URL` and `SORTIE_API_KEY` by default. `timeout` is in seconds, for connecting and
    for each pause of an answer. `retries` is the number of attempts after the first one. `headers` are sent with each request.
    Close it after use, or use it as a context manager.

    `transport` makes a transport of the HTTP library, which may be another one in a minor version of this package.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | None = None,
        retries: int | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Callable[[], Any] | None = None,
    ) -> None:
        # An application that imports this package and does not use it does not load the HTTP library.
        from ._transport import Transport

        settings = Settings.read(
            base_url, api_key, timeout=timeout, retries=retries, headers=headers, transport=transport
        )
        super().__init__(Transport(settings))
        self.runs = Runs(self._transport)
        self.files = Files(self._transport)

    def close(self) -> None:
        """Closes all connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
