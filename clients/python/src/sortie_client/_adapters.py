"""Validators of answers, each made once."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter


@cache
def _made(reply: Any) -> TypeAdapter[Any]:
    return TypeAdapter(reply)


def adapter_of(reply: Any) -> TypeAdapter[Any]:
    """The validator of a type of the API. Types of callers have one each time: they may be made at run time."""
    return _made(reply)
