"""Every operation of both OpenAPI documents has a method, which sends what the document says."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sortie_client import APIError, Sortie

from .conftest import Recorder

TABLE = Path(__file__).parents[2] / "operations.toml"
ENGINE = os.environ["SORTIE_BINARY"]


def operations() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each operation, by its ID."""
    found = {}
    for api in ("engine", "organization"):
        printed = subprocess.run([ENGINE, "openapi", "--api", api], check=True, capture_output=True).stdout
        for path, item in json.loads(printed)["paths"].items():
            for method in ("get", "post", "put", "patch", "delete"):
                if method in item:
                    found[item[method]["operationId"]] = (method.upper(), path, item[method])
    return found


def methods() -> dict[str, str]:
    """Method of the client of each operation, such as `admin.keys.create`."""
    table = tomllib.loads(TABLE.read_text())
    del table["not_for_clients"]
    found: dict[str, str] = table.pop("by_hand")

    def add(prefix: str, entries: dict[str, Any]) -> None:
        for name, value in entries.items():
            if isinstance(value, dict):
                add(f"{prefix}{name}.", value)
            else:
                for identifier in [value] if isinstance(value, str) else value:
                    found[identifier] = prefix + name

    add("", {**table.pop("client"), **table})
    return found


OPERATIONS, METHODS = operations(), methods()


def test_each_operation_has_a_method() -> None:
    browsers_and_stripe = {"finish_authorization", "finish_own_authorization", "follow_ui_messages", "receive_stripe_event"}
    assert OPERATIONS.keys() - METHODS.keys() == browsers_and_stripe
    assert len(OPERATIONS) > 150


@pytest.mark.parametrize("identifier", sorted(METHODS))
def test_its_method_sends_it(recorder: Recorder, identifier: str, tmp_path: Path) -> None:
    method, path, described = OPERATIONS[identifier]
    with Sortie(recorder.url, "sk_test", retries=0) as client:
        target: Any = client
        for name in METHODS[identifier].split("."):
            target = getattr(target, name)
        arguments: list[Any] = [f"p/{name}" for name in re.findall(r"\{(\w+)\}", path)]
        given: dict[str, Any] = {}
        if identifier == "create_file":
            arguments, given = [b"content"], {"name": "a.txt"}
        elif identifier == "put_avatar":
            arguments, given = [b"\x89PNG"], {"content_type": "image/png"}
        elif any(one.kind is inspect.Parameter.VAR_KEYWORD for one in inspect.signature(target).parameters.values()):
            given = {one["name"]: 1 for one in described.get("parameters", []) if one["in"] == "query"}
            given.pop("lastEventId", None)
            given.pop("wait", None)
            given = given or {"field": "value"}
        if identifier == "follow_run":
            given = {}
        with pytest.raises(APIError):
            result = target(*arguments, **given)
            # Lists and streams ask when they are iterated.
            next(iter(result))
    [seen] = recorder.seen
    wanted = re.sub(r"\{(path|scope)\}", "p/\\1", path)
    wanted = re.sub(r"\{(\w+)\}", "p%2F\\1", wanted)
    sent_path, _, query = seen.target.partition("?")
    assert (seen.method, sent_path) == (method, wanted)
    assert seen.headers["authorization"] == "Bearer sk_test"
    if "requestBody" in described:
        assert seen.headers["content-type"].partition(";")[0] in described["requestBody"]["content"]
        assert seen.body
    else:
        assert not seen.body
        assert {pair.partition("=")[0] for pair in query.split("&") if pair} >= given.keys() - {"field"}
