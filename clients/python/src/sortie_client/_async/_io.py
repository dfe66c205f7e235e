"""What differs between the asynchronous and the blocking client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import IO, TypeVar

T = TypeVar("T")
Stream = AsyncGenerator[T, None]


async def sleep(seconds: float) -> None:
    import anyio

    await anyio.sleep(seconds)


async def write(file: IO[bytes], content: bytes) -> None:
    import anyio.to_thread

    await anyio.to_thread.run_sync(file.write, content)
