"""Both clients with the real engine."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pydantic import BaseModel

import sortie_client
from sortie_client import AsyncSortie, Sortie, callbacks, types
from sortie_client.testing import Engine, engine as start_engine


def answer(text: str) -> str:
    return f"```answer\n{text}\n```"


# Steps that have no effect, so that a run continues after its engine was killed in any of them.
STEPS = '```tool read_file\n{"path": "notes.txt"}\n```\n\n```wait 200\n```\n\n' * 15 + answer("done")
NOTES: list[Any] = [{"path": "notes.txt", "content": "notes\n"}]


def test_a_run_is_created_waited_for_and_returned(client: Sortie) -> None:
    run = client.runs.run(prompt=answer("42"), model="runbook", input={"a": [1]}, tags=["one"])
    assert (run.status, run.output) == ("succeeded", "42")
    assert client.runs.get(run.id).output == "42"
    definition = client.runs.definition(run.id)
    assert definition.request.input == {"a": [1]}


def test_a_run_that_fails_says_why(client: Sortie) -> None:
    with pytest.raises(sortie_client.RunNotSucceeded, match="exited with status 3") as raised:
        client.runs.run(prompt="```sh\nexit 3\n```", model="runbook")
    assert raised.value.run.status == "failed"


class City(BaseModel):
    name: str
    people: int


def test_an_answer_has_the_type_that_was_asked_for(client: Sortie) -> None:
    city = client.runs.run(prompt=answer('{"name": "Bonn", "people": 3}'), model="runbook", output=City)
    assert city == City(name="Bonn", people=3)
    assert client.runs.run(prompt=answer("[1, 2]"), model="runbook", output=list[int]) == [1, 2]
    with pytest.raises(sortie_client.RunNotSucceeded):
        client.runs.run(prompt=answer('{"name": "Bonn"}'), model="runbook", output=City)


def test_a_wait_ends_after_its_time(client: Sortie) -> None:
    run = client.runs.create(prompt="```wait 60000\n```", model="runbook")
    with pytest.raises(sortie_client.Timeout, match=run.id):
        client.runs.wait(run.id, timeout=0.2)
    assert client.runs.cancel(run.id).status == "cancelled"


def test_the_same_key_returns_the_same_run(client: Sortie) -> None:
    first = client.runs.create(prompt=answer("1"), model="runbook", idempotency_key="once")
    assert client.runs.create(prompt=answer("2"), model="runbook", idempotency_key="once").id == first.id


def test_the_events_of_a_run_are_typed(client: Sortie) -> None:
    run = client.runs.create(prompt="```sh\necho hello\n```\n" + answer("{{1}}"), model="runbook")
    with client.runs.stream(run.id, deltas=True) as stream:
        events = list(stream)
    assert stream.run is not None
    assert stream.run.output == "hello\n"
    live = (types.LiveToolOutput, types.LiveMessageStart, types.LiveMessageDelta)
    recorded = [event for event in events if not isinstance(event, live)]
    assert [event.id for event in recorded] == list(range(1, len(recorded) + 1))
    [start] = [event for event in events if event.type == "tool_start"]
    assert isinstance(start, types.ToolStartEvent)
    assert start.data.tool == "shell"
    outputs = [event.data.text for event in events if isinstance(event, types.LiveToolOutput)]
    assert outputs == ["hello\n"]
    assert client.runs.events(run.id, after=1, types=["tool_start"]) == [start]
    assert next(iter(client.runs.stream(run.id, after=3))).id == 4


def test_pages_are_followed(client: Sortie) -> None:
    for number in range(5):
        client.runs.create(prompt=answer(str(number)), model="runbook", tags=["paged"], metadata={"a=b": f"c & {number % 2}"})
    assert len(list(client.runs.list(tag="paged", metadata={"a=b": "c & 0"}))) == 3
    assert [run.metadata for run in client.runs.list(metadata={"a=b": "c & 1"}, limit=1)] == [{"a=b": "c & 1"}] * 2
    listed = client.runs.list(tag="paged", limit=2)
    assert len({run.id for run in listed}) == 5
    assert [len(page.items) for page in listed.pages()] == [2, 2, 1]
    assert client.runs.cancel_all(tag="paged", status=["queued", "running", "starting"], dry_run=True).cancelled == 0


def test_files_and_artifacts(client: Sortie, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    source = tmp_path / "data.bin"
    source.write_bytes(content)
    saved = client.files.upload(source)
    assert (saved.name, saved.size, saved.sha256) == ("data.bin", len(content), hashlib.sha256(content).hexdigest())
    assert client.files.download(saved.id) == content
    target = tmp_path / "copy.bin"
    client.files.download("data.bin", to=target)
    assert target.read_bytes() == content
    stream = io.BytesIO()
    client.files.download(saved.id, to=stream)
    assert stream.getvalue() == content
    run = client.runs.run(
        prompt="```sh\nmkdir -p 'outputs/a b'; wc -c <data.bin >'outputs/a b/ü.txt'\n```",
        model="runbook",
        files=[{"file": saved.id, "path": "data.bin"}],
    )
    [artifact] = client.runs.artifacts(run.id)
    assert client.runs.download(run.id, artifact.path) == b"1048576\n"
    kept = client.files.keep(run=run.id, path=artifact.path, name="kept.txt")
    assert [file.name for file in client.files.list()][:2] == ["kept.txt", "data.bin"]
    client.files.delete(kept.id)
    with pytest.raises(sortie_client.NotFound):
        client.files.download(kept.id, to=tmp_path / "none.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.bin", "data.bin"]


def test_workflows_schedules_keys_and_usage(client: Sortie) -> None:
    client.workflows.put("report", prompt=answer("r"), model="runbook", shell=False)
    assert client.workflows.get("report").prompt == answer("r")
    assert client.runs.run(workflow="report").output == "r"
    schedule = client.schedules.create(workflow="report", cron="0 7 * * *", timezone="Europe/Berlin", name="daily")
    assert [one.id for one in client.schedules.list()] == [schedule.id]
    assert len(client.schedules.next(schedule.id, count=3)) == 3
    client.schedules.delete(schedule.id)
    client.workflows.delete("report")
    made = client.admin.keys.create(name="ci", role="member")
    with Sortie(client._transport.settings.base_url, made.key) as member, pytest.raises(sortie_client.Forbidden):
        member.admin.keys.list()
    assert client.budgets.put("organization", limit_micros=10**9, period="month").limit_micros == 10**9
    client.budgets.delete("organization")
    assert client.me().mode == "self-hosted"
    assert client.usage(by="model").rows
    assert "sortie_" in client.metrics()
    assert {"key.create"} <= {entry.action for entry in client.admin.audit(limit=50)}


def test_errors_have_the_sentence_of_the_engine(client: Sortie, shared_engine: Engine) -> None:
    with pytest.raises(sortie_client.InvalidRequest, match="max_cost_micros") as raised:
        client.runs.create(prompt="x", model="runbook", max_cost_micros=0)
    assert raised.value.request_id
    with pytest.raises(sortie_client.NotFound):
        list(client.runs.stream("run_01kafs6w1cefkstv6qr1ptb0mp"))
    with Sortie(shared_engine.url, "sk_wrong") as wrong, pytest.raises(sortie_client.Unauthorized):
        wrong.me()


def test_a_refused_rate_is_waited_for() -> None:
    # The second request of a minute is refused, with the seconds to the next one.
    with start_engine(env={"SORTIE_RATE_LIMIT_PER_MINUTE": "2"}) as running, Sortie(running.url, running.api_key, retries=0) as client:
        with pytest.raises(sortie_client.RateLimited) as raised:
            for _ in range(5):
                client.me()
        assert raised.value.retry_after is not None
        assert 0 < raised.value.retry_after <= 60


# --- callbacks ---


@pytest.fixture
def receiver() -> Iterator[tuple[str, Queue[tuple[bytes, dict[str, str]]]]]:
    got: Queue[tuple[bytes, dict[str, str]]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.put((self.rfile.read(int(self.headers["Content-Length"])), dict(self.headers.items())))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", got
    server.shutdown()
    server.server_close()


def test_callbacks_are_verified(client: Sortie, receiver: tuple[str, Queue[tuple[bytes, dict[str, str]]]]) -> None:
    url, got = receiver
    run = client.runs.run(prompt=answer("é"), model="runbook", callback={"url": url, "secret": "schlüssel"})
    body, headers = got.get(timeout=60)
    assert callbacks.verify(body, headers, "schlüssel").output == "é"
    assert callbacks.verify(body.decode(), headers, "schlüssel").id == run.id
    signature, timestamp = headers["x-service-signature"], headers["x-service-timestamp"]
    for forged_body, changes, secret in (
        (body + b" ", {}, "schlüssel"),
        (body, {}, "other"),
        (body, {"x-service-signature": signature[:-1] + ("0" if signature[-1] != "0" else "1")}, "schlüssel"),
        (body, {"x-service-signature": signature.removeprefix("sha256=")}, "schlüssel"),
        (body, {"x-service-signature": ""}, "schlüssel"),
        (body, {"x-service-timestamp": str(int(timestamp) + 1)}, "schlüssel"),
        (body, {"x-service-timestamp": "١٢٣"}, "schlüssel"),
        (body, {"x-service-timestamp": ""}, "schlüssel"),
    ):
        with pytest.raises(sortie_client.InvalidSignature):
            callbacks.verify(forged_body, {**headers, **changes}, secret)
    # Five minutes later the same request is refused.
    with pytest.raises(sortie_client.InvalidSignature, match="signed"):
        callbacks.verify(body, headers, "schlüssel", tolerance=-1)


# --- through kills ---


def kill_twice(running: Engine, seen: list[int]) -> threading.Thread:
    """Kills the engine after 8 events and after 20, and starts it again."""

    def kill() -> None:
        for count in (8, 20):
            while len(seen) < count:
                time.sleep(0.01)
            running.restart()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def check(seen: list[int], run: types.Run | None, recorded: list[types.Event]) -> None:
    assert run is not None
    assert (run.status, run.output) == ("succeeded", "done")
    assert seen == [event.id for event in recorded] == list(range(1, len(seen) + 1))
    assert sum(event.type == "resumed" for event in recorded) == 2


def test_a_stream_has_each_event_once_through_two_kills() -> None:
    with start_engine() as running, running.client() as client:
        run = client.runs.create(prompt=STEPS, model="runbook", files=NOTES)
        seen: list[int] = []
        killing = kill_twice(running, seen)
        stream = client.runs.stream(run.id)
        for event in stream:
            seen.append(event.id)
        killing.join()
        check(seen, stream.run, client.runs.events(run.id))


@pytest.mark.anyio
async def test_an_asynchronous_stream_has_each_event_once_through_two_kills() -> None:
    with start_engine() as running:
        async with AsyncSortie(running.url, running.api_key) as client:
            run = await client.runs.create(prompt=STEPS, model="runbook", files=NOTES)
            seen: list[int] = []
            killing = kill_twice(running, seen)
            async with client.runs.stream(run.id) as stream:
                async for event in stream:
                    seen.append(event.id)
            killing.join()
            check(seen, stream.run, await client.runs.events(run.id))


def test_a_create_and_a_wait_continue_through_a_kill() -> None:
    with start_engine() as running, running.client() as client:
        running.kill()
        # The engine comes back while the client tries.
        starting = threading.Timer(0.5, running.start)
        starting.start()
        run = client.runs.create(prompt=STEPS, model="runbook", files=NOTES)
        starting.join()
        killing = threading.Timer(0.5, running.restart)
        killing.start()
        assert client.runs.wait(run.id).output == "done"
        killing.join()


# --- the asynchronous client ---


@pytest.mark.anyio
async def test_the_asynchronous_client(async_client: AsyncSortie, tmp_path: Path) -> None:
    async with async_client as client:
        city = await client.runs.run(prompt=answer('{"name": "Bonn", "people": 3}'), model="runbook", output=City)
        assert city.people == 3
        saved = await client.files.upload(b"abc", name="async.txt")
        await client.files.download(saved.id, to=tmp_path / "a.txt")
        assert (tmp_path / "a.txt").read_bytes() == b"abc"
        await client.files.delete(saved.id)
        assert [run async for run in client.runs.list(limit=1, tag="never")] == []
        run = await client.runs.create(prompt="```wait 60000\n```", model="runbook")
        async with client.runs.stream(run.id) as stream:
            async for event in stream:
                assert event.type == "status"
                break
        await client.runs.cancel(run.id)
