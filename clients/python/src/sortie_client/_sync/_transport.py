"""Sends requests, again where that is safe, and turns every failure into an error of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import httpx2
from pydantic import ValidationError

from .. import _policy as policy
from .._adapters import adapter_of
from .._errors import APIError, ConnectionError, SortieError, Timeout, error_of
from .._request import Request, Settings
from ._io import sleep

T = TypeVar("T")


def failure(error: httpx2.HTTPError, settings: Settings) -> SortieError:
    if isinstance(error, httpx2.TimeoutException):
        return Timeout(f"{settings.base_url} did not answer in time")
    return ConnectionError(f"cannot reach {settings.base_url}: {error or type(error).__name__}")


def checked(response: httpx2.Response) -> httpx2.Response:
    """Raises the error of an answer that is no success."""
    if response.is_success:
        return response
    response.read()
    raise error_of(response.status_code, response.headers, response.content)


class Transport:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # Each open stream has a connection. How many there are is up to the caller.
        self.http = httpx2.Client(
            base_url=settings.base_url,
            headers=settings.default_headers(),
            timeout=settings.timeout,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
            transport=settings.transport() if settings.transport else None,
        )

    def close(self) -> None:
        self.http.close()

    def send(self, request: Request) -> httpx2.Response:
        """Sends a request until it succeeds, is refused, or its retries are used up. The answer has been read."""
        attempt = 0
        may_have_arrived = False
        retries = self.settings.retries if request.retries is None else request.retries
        while True:
            attempt += 1
            try:
                response = self.http.request(
                    request.method,
                    request.target,
                    content=request.content,
                    headers=request.headers,
                    timeout=request.timeout or self.settings.timeout,
                )
                return checked(response)
            except APIError as error:
                if request.method == "DELETE" and error.status == 404 and may_have_arrived:
                    # An attempt whose answer was lost has deleted it.
                    return httpx2.Response(204)
                may_have_arrived = may_have_arrived or error.status >= 500
                pause = policy.delay(attempt, error.retry_after)
                is_retryable = policy.is_retryable(error.status, repeatable=request.repeatable)
                if not is_retryable or pause is None or attempt > retries:
                    raise
            except httpx2.HTTPError as error:
                never_left = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
                may_have_arrived = may_have_arrived or not never_left
                pause = policy.delay(attempt)
                if not (request.repeatable or never_left) or pause is None or attempt > retries:
                    raise failure(error, self.settings) from error
            sleep(pause)

    def call(self, request: Request, reply: type[T]) -> T:
        return self.parse(reply, (self.send(request)).content)

    def upload(
        self, path: str, reply: type[T], content: Path | str | bytes | IO[bytes], name: str | None, content_type: str | None
    ) -> T:
        """Sends a form with a file, once."""
        if isinstance(content, (str, Path)):
            with Path(content).open("rb") as file:
                return self.upload(path, reply, file, name or Path(content).name, content_type)
        if not name:
            raise ValueError("name: is needed for bytes and streams")
        part = (name, content, content_type) if content_type else (name, content)
        try:
            response = checked(self.http.post(path, files={"file": part}))
        except httpx2.HTTPError as error:
            raise failure(error, self.settings) from error
        return self.parse(reply, response.content)

    @contextmanager
    def messages(
        self, request: Request, silence: float
    ) -> Iterator[tuple[httpx2.Response, httpx2.EventSource]]:
        """The answer and the messages of an event stream. It is dead after `silence` seconds without a byte."""
        with self.open(request, silence) as response:
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise SortieError(f"{self.settings.base_url}{request.path} is no event stream: is this address Sortie's?")
            yield response, httpx2.EventSource(response, max_event_size=None)

    @staticmethod
    def validate(reply: Any, value: Any) -> Any:
        try:
            return adapter_of(reply).validate_python(value)
        except ValidationError as error:
            raise SortieError(f"the answer is not what the API describes: {error}") from error

    @staticmethod
    def parse(reply: type[T], content: bytes | str) -> T:
        """The content as `reply`, which may be any type that pydantic knows."""
        try:
            return cast("T", adapter_of(reply).validate_json(content))
        except ValidationError as error:
            raise SortieError(f"the answer is not what the API describes: {error}") from error

    @contextmanager
    def open(self, request: Request, silence: float) -> Iterator[httpx2.Response]:
        """An answer that is read piece by piece. One attempt: who reads it knows from where to go on."""
        timeout = httpx2.Timeout(self.settings.timeout, read=silence)
        try:
            with self.http.stream(
                request.method, request.target, content=request.content, headers=request.headers, timeout=timeout
            ) as response:
                yield checked(response)
        except httpx2.HTTPError as error:
            raise failure(error, self.settings) from error

