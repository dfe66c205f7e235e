"""Requests as the transports of both clients send them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from typing import Any
from urllib.parse import quote, urlencode

from ._errors import SortieError
from ._policy import RETRIES, TIMEOUT
from ._version import VERSION


@dataclass(frozen=True)
class Settings:
    """Settings of a client. `transport` makes a transport of the HTTP library; that library may change in a minor version."""

    base_url: str
    api_key: str | None
    timeout: float = TIMEOUT
    retries: int = RETRIES
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Callable[[], Any] | None = None

    @classmethod
    def read(cls, base_url: str | None, api_key: str | None, **others: Any) -> Settings:
        """The given settings, else those of the environment."""
        url = base_url or os.environ.get("SORTIE_URL")
        if not url:
            raise SortieError("no address of the engine: pass base_url, or set SORTIE_URL")
        if not url.startswith(("http://", "https://")):
            raise SortieError(f"base_url: {url!r} does not begin with http:// or https://")
        key = api_key or os.environ.get("SORTIE_API_KEY")
        if key and not (key.isascii() and key.isprintable()):
            raise SortieError("api_key: it has characters that no key has")
        settings = cls(url.rstrip("/"), key)
        return replace(settings, **{name: value for name, value in others.items() if value is not None})

    def default_headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"sortie-client/{VERSION} python", **self.headers}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    repeatable: bool = True
    """Whether sending it twice has the effect of sending it once."""
    timeout: float | None = None
    """Seconds, where the engine may take longer than the settings say."""
    retries: int | None = None
    """Attempts after the first one, where they are not those of the settings."""

    @property
    def target(self) -> str:
        pairs = list(pairs_of(self.query))
        return self.path + (f"?{urlencode(pairs, quote_via=quote)}" if pairs else "")


def pairs_of(query: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and texts of query parameters. A mapping is a parameter for each of its keys: `metadata.KEY`."""
    for name, value in query.items():
        if isinstance(value, Mapping):
            yield from pairs_of(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", text_of(value)


def text_of(value: Any) -> str:
    """A query parameter as the API reads it: lists with commas, times in RFC 3339."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).astimezone(timezone.utc).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(text_of(part) for part in value)
    return str(value)


def part(value: str) -> str:
    """A value as one part of a path. HTTP libraries would resolve `.` and `..`, to the path of another operation."""
    if value in ("", ".", ".."):
        raise ValueError(f"{value!r} is no ID and no name")
    return quote(value, safe="")


def parts(value: str) -> str:
    """A value as the rest of a path, with its slashes."""
    return "/".join(part(one) for one in value.split("/"))


def json_of(value: Any) -> bytes:
    """JSON of a body. It may have times and pydantic models."""
    from pydantic_core import to_json

    return to_json(value)


def form_of(fields: Mapping[str, Any]) -> bytes:
    return urlencode({name: text_of(value) for name, value in fields.items() if value is not None}).encode()
