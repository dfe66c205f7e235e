"""What differs between the asynchronous and the blocking client."""

from __future__ import annotations

from collections.abc import Generator
from time import sleep as sleep
from typing import IO, TypeVar

T = TypeVar("T")
Stream = Generator[T, None, None]


def write(file: IO[bytes], content: bytes) -> None:
    file.write(content)
