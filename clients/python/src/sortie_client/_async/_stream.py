"""The events of a run, over as many connections as it takes."""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from .. import _policy as policy
from .._errors import APIError, ConnectionError, SortieError, Timeout
from .._lazy import LazyModule
from .._request import Request, part
from ._io import Stream, sleep

if TYPE_CHECKING:
    from .. import types
    from ._transport import AsyncTransport
else:
    types = LazyModule("sortie_client.types")

# Messages without an ID, which are not recorded.
_LIVE = frozenset({"message_start", "message_delta", "tool_output"})


T_co = TypeVar("T_co", covariant=True)


class AsyncRunStream(Generic[T_co]):
    """Iterates over the events of a run, in order and each once, and ends with the run.

    A broken connection is made again, and continues after the last event. An engine that cannot be reached for five minutes
    raises `ConnectionError`; iterating again continues after `last_event_id`.
    """

    def __init__(self, transport: AsyncTransport, run_id: str, after: int, deltas: bool) -> None:
        self.last_event_id = after
        self._run: types.Run | None = None
        self._transport = transport
        self._path = f"/v1/runs/{part(run_id)}/events"
        self._query = {"deltas": True} if deltas else {}
        self._events: Stream[T_co] | None = None

    @property
    def run(self) -> types.Run:
        """The finished run, once the iteration has ended."""
        if self._run is None:
            raise SortieError("the stream has not ended yet")
        return self._run

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T_co:
        if self._events is None:
            self._events = self._follow()
        try:
            return await self._events.__anext__()
        except StopAsyncIteration:
            raise
        except BaseException:
            # A generator that was left by an error or a cancellation is over. The next call continues with another one.
            self._events = None
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection. It does not end the run."""
        if self._events is not None:
            await self._events.aclose()

    async def _follow(self) -> Stream[T_co]:
        attempt = 0
        away_since: float | None = None
        while self._run is None:
            failure: SortieError = ConnectionError("the stream ended before the run")
            retry_after = None
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self.last_event_id)}
            try:
                request = Request("GET", self._path, self._query, headers)
                async with self._transport.messages(request, policy.STREAM_SILENCE) as (response, messages):
                    try:
                        async for message in messages:
                            if message.event == "done":
                                self._run = self._transport.parse(types.Run, message.data)
                                return
                            event = self._read(message.event, message.data)
                            if event is not None:
                                attempt = 0
                                yield event
                    finally:
                        # Heartbeats count: a connection that has brought a byte was alive.
                        if response.num_bytes_downloaded:
                            away_since = None
            except (ConnectionError, Timeout) as error:
                failure = error
            except APIError as error:
                if not policy.is_retryable(error.status, repeatable=True):
                    raise
                failure, retry_after = error, error.retry_after
            now = monotonic()
            away_since = now if away_since is None else away_since
            attempt += 1
            pause = policy.delay(attempt, retry_after)
            if pause is None or now - away_since > policy.PATIENCE:
                raise failure
            await sleep(pause)

    def _read(self, kind: str, text: str) -> T_co | None:
        """The event of a message, unless it was there already or is of a kind that this version does not know."""
        content: dict[str, Any] = self._transport.parse(dict[str, Any], text)
        if kind in _LIVE:
            live: T_co = self._transport.validate(types.LiveMessage, {"type": kind, "data": content})
            return live
        if "created_at" not in content or content["id"] <= self.last_event_id:
            return None
        event: T_co = self._transport.validate(types.Event, content)
        self.last_event_id = content["id"]
        return event
