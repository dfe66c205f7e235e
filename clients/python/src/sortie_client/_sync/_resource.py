"""What the methods of every resource are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._request import Request, form_of, json_of

if TYPE_CHECKING:
    from ._transport import Transport

T = TypeVar("T")


class Resource:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        form: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        repeatable: bool = True,
    ) -> Request:
        if body is not None:
            content = json_of(body)
        elif form is not None:
            content, content_type = form_of(form), "application/x-www-form-urlencoded"
        headers = {} if content is None else {"Content-Type": content_type}
        return Request(method, path, query or {}, headers, content, repeatable)

    def _call(self, reply: type[T], method: str, path: str, **options: Any) -> T:
        return self._transport.call(self._request(method, path, **options), reply)

    def _call_or_none(self, reply: type[T], method: str, path: str, **options: Any) -> T | None:
        """As `_call`, for an operation that may answer without a body."""
        content = self._bytes(method, path, **options)
        return self._transport.parse(reply, content) if content else None

    def _bytes(self, method: str, path: str, **options: Any) -> bytes:
        return (self._transport.send(self._request(method, path, **options))).content


@dataclass(frozen=True)
class Page(Generic[T]):
    items: list[T]
    next_cursor: str
    """`cursor` of the page after this one; empty on the last page."""


class Pages(Generic[T]):
    """A list of any length. Iterating asks for one page after the other; `pages()` shows where they begin and end."""

    def __init__(self, resource: Resource, path: str, page: type[Any], field: str, query: Mapping[str, Any]) -> None:
        self._resource = resource
        self._path = path
        self._page = page
        self._field = field
        self._query = query

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            for item in page.items:
                yield item

    def pages(self) -> Iterator[Page[T]]:
        query: dict[str, Any] = {"limit": 100, **self._query}
        while True:
            answer = self._resource._call(self._page, "GET", self._path, query=query)
            yield Page(getattr(answer, self._field), answer.next_cursor)
            if not answer.next_cursor:
                return
            query["cursor"] = answer.next_cursor
