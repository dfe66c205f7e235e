"""Runs: what takes more than one call."""

from __future__ import annotations

import secrets
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Literal, TypeVar, overload

from .. import _policy as policy
from .._errors import APIError, ConnectionError, InvalidOutput, RunNotSucceeded, Timeout
from .._lazy import LazyModule
from .._request import Request, json_of, part, parts
from . import _resources
from ._download import download
from ._io import sleep
from ._stream import RunStream

if TYPE_CHECKING:
    from typing import Unpack

    from .. import requests, types
else:
    types = LazyModule("sortie_client.types")

T = TypeVar("T")


class Runs(_resources.Runs):
    def create(self, *, idempotency_key: str | None = None, **request: Unpack[requests.RunRequest]) -> types.Run:
        """`POST /v1/runs`: creates a run, once, however often the request has to be sent.

        The same `idempotency_key` returns the same run. Without one, each call creates a run.
        """
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key or f"sortie-client-{secrets.token_urlsafe(24)}",
        }
        call = Request("POST", "/v1/runs", headers=headers, content=json_of(request))
        return self._transport.call(call, types.Run)

    def wait(self, run_id: str, /, *, timeout: float | None = None) -> types.Run:
        """Returns the run once it is finished.

        Raises `Timeout` after `timeout` seconds, which does not end the run. An engine that cannot be reached is asked again for
        five minutes.
        """
        ends = None if timeout is None else monotonic() + timeout
        attempt = 0
        away_since: float | None = None
        while True:
            left = policy.LONGEST_WAIT if ends is None else ends - monotonic()
            if left <= 0:
                raise Timeout(f"run {run_id} did not end within {timeout:g} s")
            seconds = max(1, min(policy.LONGEST_WAIT, int(left)))
            # An engine that does not answer must not make the caller wait for much longer than it wants to.
            longest = seconds + self._transport.settings.timeout
            request = Request(
                "GET",
                f"/v1/runs/{part(run_id)}",
                {"wait": seconds},
                timeout=longest if ends is None else min(longest, left + policy.GRACE),
                retries=0,
            )
            try:
                run = self._transport.call(request, types.Run)
            except (ConnectionError, Timeout, APIError) as error:
                if isinstance(error, APIError) and not policy.is_retryable(error.status, repeatable=True):
                    raise
                now = monotonic()
                away_since = now if away_since is None else away_since
                attempt += 1
                pause = policy.delay(attempt, error.retry_after if isinstance(error, APIError) else None)
                if pause is None or now - away_since > policy.PATIENCE:
                    raise
                sleep(pause if ends is None else max(0.0, min(pause, ends - now)))
                continue
            attempt, away_since = 0, None
            if run.finished_at is not None:
                return run

    @overload
    def run(
        self,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **request: Unpack[requests.RunRequest],
    ) -> types.Run: ...

    @overload
    def run(
        self,
        *,
        output: type[T],
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **request: Unpack[requests.RunRequest],
    ) -> T: ...

    def run(
        self,
        *,
        output: type[T] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **request: Unpack[requests.RunRequest],
    ) -> types.Run | T:
        """Creates a run, waits until it is finished and returns it.

        With `output`, a pydantic model or any type that pydantic knows, the answer has to match its JSON Schema, and is
        returned as that type. Raises `InvalidOutput` if it does not, `RunNotSucceeded` if the run ends in another way than
        `succeeded`, and `Timeout` after `timeout` seconds.
        """
        from pydantic import TypeAdapter, ValidationError

        adapter: TypeAdapter[T] | None = None if output is None else TypeAdapter(output)
        if adapter is not None:
            request["output_schema"] = adapter.json_schema()
        run = self.create(idempotency_key=idempotency_key, **request)
        run = self.wait(run.id, timeout=timeout)
        if run.status != "succeeded":
            raise RunNotSucceeded(run)
        if adapter is None:
            return run
        try:
            return adapter.validate_json(run.output or "")
        except ValidationError as error:
            raise InvalidOutput(run, str(error)) from error

    @overload
    def stream(self, run_id: str, /, *, after: int = 0, deltas: Literal[False] = False) -> RunStream[types.Event]: ...

    @overload
    def stream(
        self, run_id: str, /, *, after: int = 0, deltas: Literal[True]
    ) -> RunStream[types.Event | types.LiveMessage]: ...

    @overload
    def stream(
        self, run_id: str, /, *, after: int = 0, deltas: bool
    ) -> RunStream[types.Event | types.LiveMessage]: ...

    def stream(
        self, run_id: str, /, *, after: int = 0, deltas: bool = False
    ) -> RunStream[types.Event | types.LiveMessage] | RunStream[types.Event]:
        """Iterates over the events of a run after the event `after`, as they happen.

        `deltas` adds live messages, which are not recorded: `message_start`, `message_delta` and `tool_output`.
        """
        return RunStream(self._transport, run_id, after, deltas)

    def events(self, run_id: str, /, **query: Unpack[requests.FollowRunQuery]) -> list[types.Event]:
        """`GET /v1/runs/{id}/events`: at most 1,000 recorded events, as a list."""
        return self._call(list[types.Event], "GET", f"/v1/runs/{part(run_id)}/events", query=query)

    def cancel_all(self, **query: Unpack[requests.CancelRunsQuery]) -> types.CancelledRuns:
        """`POST /v1/runs/cancel`: cancels every run that matches the filters. `dry_run` counts them."""
        total = None
        while total is None or total.next_cursor:
            page = self._call(types.CancelledRuns, "POST", "/v1/runs/cancel", query=query)
            if total is not None:
                page.matched += total.matched
                page.cancelled += total.cancelled
            total = page
            query["cursor"] = page.next_cursor
        return total

    @overload
    def download(self, run_id: str, path: str, /) -> bytes: ...

    @overload
    def download(self, run_id: str, path: str, /, to: Path | str | IO[bytes]) -> None: ...

    def download(
        self, run_id: str, path: str, /, to: Path | str | IO[bytes] | None = None
    ) -> bytes | None:
        """`GET /v1/runs/{id}/artifacts/{path}`: the content of an artifact, or writes it into a file.

        The content is checked against its SHA-256. A file at a path appears when it is complete.
        """
        return download(self._transport, f"/v1/runs/{part(run_id)}/artifacts/{parts(path)}", to)
