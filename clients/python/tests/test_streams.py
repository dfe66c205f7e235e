"""Streams and downloads with a server that misbehaves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

import sortie_client
from sortie_client import AsyncSortie, Sortie, SortieError, _policy, types

from .conftest import Answer, Recorder
from .test_requests import RUN, error, quick as quick

SSE = {"Content-Type": "text/event-stream"}


def event(number: int, kind: str = "message") -> bytes:
    data: Any = {"step": 1, "text": "x"} if kind == "message" else {}
    content = {"id": number, "type": kind, "data": data, "created_at": RUN["created_at"]}
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(content)}\n\n".encode()


DONE = f"event: done\ndata: {json.dumps(RUN)}\n\n".encode()


def test_each_event_comes_once_over_broken_connections(recorder: Recorder) -> None:
    recorder.answers += [
        Answer(headers=SSE, body=b": connected\nretry: 2000\n" + event(1) + event(2) + b"id: 3\nevent: mess", cut=True),
        error(503, "unavailable"),
        Answer(drop=True),
        Answer(headers=SSE, body=event(2) + event(3, "newer") + b'event: later\ndata: {"x": 1}\n\n'),
        Answer(headers=SSE, body=b'event: message_delta\ndata: {"text": "a", "step": 1}\n\n' + DONE),
    ]
    with Sortie(recorder.url) as client:
        stream = client.runs.stream("run_1", deltas=True)
        with pytest.raises(SortieError, match="not ended"):
            stream.run  # noqa: B018
        got = list(stream)
    assert [(getattr(one, "id", None), one.type) for one in got] == [
        (1, "message"),
        (2, "message"),
        (3, "newer"),
        (None, "message_delta"),
    ]
    assert isinstance(got[2], types.UnknownEvent)
    assert stream.run.id == "run_1"
    assert list(stream) == []
    assert [seen.headers["last-event-id"] for seen in recorder.seen] == ["0", "2", "2", "2", "3"]
    assert all(seen.target == "/v1/runs/run_1/events?deltas=true" for seen in recorder.seen)
    assert all(seen.headers["accept"] == "text/event-stream" for seen in recorder.seen)


def test_a_silent_connection_is_dead(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_policy, "STREAM_SILENCE", 0.05)
    recorder.answers += [Answer(headers=SSE, body=event(1), hang=True), Answer(headers=SSE, body=event(2) + DONE)]
    with Sortie(recorder.url) as client:
        assert [one.id for one in client.runs.stream("run_1")] == [1, 2]


@pytest.mark.parametrize("answer", [Answer(drop=True), Answer(headers=SSE, body=b""), error(503, "unavailable")])
def test_a_stream_without_a_byte_is_given_up(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("sortie_client._sync._stream.monotonic", lambda: float(next(clock)))
    recorder.answers += [answer] * 99
    with Sortie(recorder.url) as client, pytest.raises(SortieError):
        list(client.runs.stream("run_1"))
    # Attempts are 100 seconds apart, and five minutes are the limit.
    assert len(recorder.seen) == 5


def test_bytes_renew_the_patience(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("sortie_client._sync._stream.monotonic", lambda: float(next(clock)))
    recorder.answers += [Answer(headers=SSE, body=b": heartbeat\n")] * 20 + [Answer(headers=SSE, body=DONE)]
    with Sortie(recorder.url) as client:
        stream = client.runs.stream("run_1")
        assert list(stream) == []
        assert stream.run.id == "run_1"


def test_a_refused_stream_raises_and_what_is_no_stream_is_said(recorder: Recorder) -> None:
    recorder.answers += [error(404, "not_found"), Answer(body=b"<html>"), Answer(headers=SSE, body=b"data: no json\n\n")]
    with Sortie(recorder.url) as client:
        with pytest.raises(sortie_client.NotFound):
            list(client.runs.stream("run_1"))
        with pytest.raises(SortieError, match="no event stream"):
            list(client.runs.stream("run_1"))
        with pytest.raises(SortieError, match="not what the API describes"):
            list(client.runs.stream("run_1"))


def test_a_stream_continues_after_an_error(recorder: Recorder) -> None:
    recorder.answers += [Answer(headers=SSE, body=event(1)), error(403, "forbidden"), Answer(headers=SSE, body=event(2) + DONE)]
    with Sortie(recorder.url) as client:
        stream = client.runs.stream("run_1")
        assert next(stream).id == 1
        with pytest.raises(sortie_client.Forbidden):
            next(stream)
        assert [one.id for one in stream] == [2]


@pytest.mark.anyio
async def test_a_cancelled_read_loses_no_event(recorder: Recorder) -> None:
    recorder.answers += [Answer(headers=SSE, body=event(1), hang=True), Answer(headers=SSE, body=event(2) + DONE)]
    async with AsyncSortie(recorder.url) as client:
        stream = client.runs.stream("run_1")
        assert (await anext(stream)).id == 1
        with anyio.move_on_after(0.05) as scope:
            await anext(stream)
        assert scope.cancelled_caught
        assert [one.id async for one in stream] == [2]
        assert stream.run.id == "run_1"


CONTENT = b"0123456789"
TAG = {"ETag": f'"{hashlib.sha256(CONTENT).hexdigest()}"', "Content-Type": "text/plain"}


def test_a_download_continues_after_a_broken_connection(recorder: Recorder) -> None:
    recorder.answers += [
        Answer(headers=TAG, body=CONTENT[:4], cut=True),
        error(503, "unavailable"),
        Answer(206, headers=TAG, body=CONTENT[4:7], cut=True),
        Answer(206, headers=TAG, body=CONTENT[7:]),
    ]
    with Sortie(recorder.url) as client:
        assert client.files.download("file_1") == CONTENT
    assert [seen.headers.get("range") for seen in recorder.seen] == [None, "bytes=4-", "bytes=4-", "bytes=7-"]
    assert [seen.headers.get("if-match") for seen in recorder.seen] == [None, *[TAG["ETag"]] * 3]
    assert {seen.headers["accept-encoding"] for seen in recorder.seen} == {"identity"}


@pytest.mark.parametrize("rest", [Answer(headers=TAG, body=CONTENT), error(416, "range_not_satisfiable")])
def test_other_answers_to_the_rest_of_a_download(recorder: Recorder, rest: Answer) -> None:
    first = CONTENT if rest.status == 416 else CONTENT[:4]
    recorder.answers += [Answer(headers=TAG, body=first, cut=True), rest]
    with Sortie(recorder.url) as client:
        assert client.files.download("file_1") == CONTENT


@pytest.mark.parametrize("headers", [{**TAG, "ETag": '"00"'}, {"Content-Type": "text/plain"}])
def test_other_content_is_refused_and_leaves_no_file(recorder: Recorder, tmp_path: Path, headers: dict[str, str]) -> None:
    recorder.answers += [Answer(headers=headers, body=CONTENT)] * 2
    with Sortie(recorder.url) as client:
        with pytest.raises(SortieError, match="SHA-256"):
            client.files.download("file_1", to=tmp_path / "a.txt")
        assert list(tmp_path.iterdir()) == []
        recorder.answers[:] = [Answer(headers={**TAG, "ETag": "W/" + TAG["ETag"]}, body=CONTENT)]
        client.files.download("file_1", to=tmp_path / "a.txt")
    [written] = tmp_path.iterdir()
    assert written.read_bytes() == CONTENT
    # As any file that this process creates.
    probe = tmp_path / "probe"
    probe.touch()
    assert written.stat().st_mode == probe.stat().st_mode


def test_changed_content_is_not_joined(recorder: Recorder) -> None:
    recorder.answers += [Answer(headers=TAG, body=CONTENT[:4], cut=True), error(412, "precondition_failed")]
    with Sortie(recorder.url) as client, pytest.raises(sortie_client.PreconditionFailed):
        client.files.download("file_1")
