"""What goes over the wire: each option, retries and errors."""

from __future__ import annotations

import io
import json
import pickle
import time
from datetime import UTC, datetime
from typing import Any

import pytest

import sortie_client
from sortie_client import AsyncSortie, Sortie, SortieError, _errors, _policy, requests, types

from .conftest import Answer, Recorder

RUN: dict[str, Any] = {
    "id": "run_1",
    "status": "queued",
    "created_at": "2026-11-20T21:30:00.000Z",
    "model": "runbook",
    "max_cost_micros": 1,
    "billing_pending": False,
    "last_event_id": 1,
    "timeout_seconds": 600,
    "zero_data_retention": False,
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses take no time here; returns those that were asked for."""
    pauses: list[float] = []
    real = _policy.delay

    def delay(attempt: int, retry_after: float | None = None) -> float | None:
        pause = real(attempt, retry_after)
        if pause is not None:
            pauses.append(pause)
        return None if pause is None else 0.0

    monkeypatch.setattr(_policy, "delay", delay)
    return pauses


def error(status: int, code: str, **headers: str) -> Answer:
    body = json.dumps({"error": f"the sentence of {code}", "code": code}).encode()
    return Answer(status, {"X-Request-Id": "req_1", **headers}, body)


def run_answer(**fields: Any) -> Answer:
    return Answer(body=json.dumps({**RUN, **fields}).encode())


def test_settings_are_sent(recorder: Recorder) -> None:
    with Sortie(recorder.url + "/", "sk_1", headers={"X-Team": "a"}, retries=0) as client:
        recorder.answers.append(run_answer())
        client.runs.get("run_1", output=False)
    [seen] = recorder.seen
    assert (seen.method, seen.target) == ("GET", "/v1/runs/run_1?output=false")
    assert seen.headers["authorization"] == "Bearer sk_1"
    assert seen.headers["x-team"] == "a"
    assert seen.headers["user-agent"] == f"sortie-client/{sortie_client.__version__} python"
    assert seen.headers["accept"] == "application/json"


def test_settings_come_from_the_environment(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SORTIE_URL", recorder.url)
    monkeypatch.setenv("SORTIE_API_KEY", "sk_env")
    recorder.answers.append(run_answer())
    with Sortie() as client:
        client.runs.get("run_1")
    assert recorder.seen[0].headers["authorization"] == "Bearer sk_env"
    monkeypatch.delenv("SORTIE_URL")
    with pytest.raises(SortieError, match="SORTIE_URL"):
        Sortie()


def test_without_a_key_no_credential_is_sent(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SORTIE_API_KEY", raising=False)
    with Sortie(recorder.url, retries=0) as client, pytest.raises(sortie_client.APIError):
        client.health()
    assert "authorization" not in recorder.seen[0].headers


def test_values_have_the_form_of_the_api(recorder: Recorder) -> None:
    since = datetime(2026, 11, 20, 21, 30, tzinfo=UTC)
    recorder.answers.append(Answer(body=b'{"items": [], "next_cursor": ""}'))
    with Sortie(recorder.url) as client:
        assert list(client.runs.list(status=["failed", "timed_out"], since=since, tag="a b&c", limit=7)) == []
        recorder.answers.append(run_answer())
        client.runs.create(prompt="é\u2028", input={"at": since, "price": types.Callback(url="u", secret="s")}, shell=False)
    listed, created = recorder.seen
    assert listed.target == "/v1/runs?limit=7&status=failed%2Ctimed_out&since=2026-11-20T21%3A30%3A00%2B00%3A00&tag=a%20b%26c"
    assert json.loads(created.body) == {
        "prompt": "é\u2028",
        "input": {"at": "2026-11-20T21:30:00Z", "price": {"url": "u", "secret": "s"}},
        "shell": False,
    }


def test_every_field_of_a_run_is_sent(recorder: Recorder) -> None:
    fields: dict[str, Any] = {name: "x" for name in requests.RunRequest.__annotations__}
    recorder.answers.append(run_answer())
    with Sortie(recorder.url) as client:
        client.runs.create(**fields)
    assert json.loads(recorder.seen[0].body) == fields
    assert len(fields) >= 20


def test_a_create_is_repeated_with_one_idempotency_key(recorder: Recorder) -> None:
    recorder.answers += [Answer(drop=True), error(503, "unavailable"), run_answer(), run_answer(), run_answer()]
    with Sortie(recorder.url) as client:
        client.runs.create(prompt="x")
        client.runs.create(prompt="x")
        client.runs.create(prompt="x", idempotency_key="mine")
    keys = [seen.headers["idempotency-key"] for seen in recorder.seen]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert len(keys[0]) > 30
    assert keys[4] == "mine"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 520])
def test_a_read_is_repeated(recorder: Recorder, status: int, quick: list[float]) -> None:
    recorder.answers += [error(status, "unavailable")] * 4 + [run_answer()]
    with Sortie(recorder.url) as client:
        client.runs.get("run_1")
    assert len(recorder.seen) == 5
    for pause, wanted in zip(quick, [0.25, 0.5, 1, 2], strict=True):
        assert 0.75 * wanted <= pause <= 1.25 * wanted


def test_retries_end(recorder: Recorder) -> None:
    recorder.answers += [Answer(drop=True)] * 9
    with Sortie(recorder.url, retries=2) as client, pytest.raises(sortie_client.ConnectionError, match=recorder.url):
        client.runs.get("run_1")
    assert len(recorder.seen) == 3


def test_retry_after_comes_first(recorder: Recorder, quick: list[float]) -> None:
    recorder.answers += [error(429, "rate_limited", **{"Retry-After": "17"}), run_answer()]
    with Sortie(recorder.url) as client:
        client.runs.get("run_1")
        assert quick == [17.0]
        recorder.answers.append(error(429, "rate_limited", **{"Retry-After": "3600"}))
        with pytest.raises(sortie_client.RateLimited) as raised:
            client.runs.get("run_1")
    assert raised.value.retry_after == 3600
    assert len(recorder.seen) == 3


def test_what_may_have_had_an_effect_is_not_repeated(recorder: Recorder) -> None:
    with Sortie(recorder.url) as client:
        for answer in (Answer(drop=True), error(500, "internal"), error(503, "unavailable")):
            recorder.seen.clear()
            recorder.answers.append(answer)
            with pytest.raises(SortieError):
                client.admin.keys.create(name="ci")
            assert len(recorder.seen) == 1
        # The engine says so before it has done anything.
        recorder.seen.clear()
        recorder.answers += [error(429, "rate_limited"), error(400, "invalid_request")]
        with pytest.raises(sortie_client.InvalidRequest):
            client.admin.keys.create(name="ci")
        assert len(recorder.seen) == 2


def test_a_deletion_with_a_lost_answer_is_done(recorder: Recorder) -> None:
    recorder.answers += [Answer(drop=True), error(404, "not_found"), error(504, "unavailable")]
    recorder.answers += [error(404, "not_found"), error(404, "not_found")]
    with Sortie(recorder.url) as client:
        client.files.delete("file_1")
        client.files.delete("file_1")
        with pytest.raises(sortie_client.NotFound):
            client.files.delete("file_1")


def test_an_upload_is_sent_once(recorder: Recorder) -> None:
    recorder.answers += [Answer(drop=True), error(429, "rate_limited")]
    with Sortie(recorder.url) as client:
        with pytest.raises(sortie_client.ConnectionError):
            client.files.upload(io.BytesIO(b"content"), name="a.txt", content_type="text/x-a")
        with pytest.raises(sortie_client.RateLimited):
            client.files.upload(b"content", name="a.txt")
        with pytest.raises(ValueError, match="name"):
            client.files.upload(b"content")
    assert len(recorder.seen) == 2
    assert b"text/x-a" in recorder.seen[0].body
    assert b'filename="a.txt"' in recorder.seen[0].body
    assert b"content" in recorder.seen[0].body


@pytest.mark.parametrize("code", sorted(_errors.BY_CODE))
def test_each_code_has_a_class(recorder: Recorder, code: str) -> None:
    recorder.answers.append(error(418, code))
    with Sortie(recorder.url) as client, pytest.raises(_errors.BY_CODE[code]) as raised:
        client.me()
    caught = raised.value
    assert (caught.status, caught.code, caught.request_id) == (418, code, "req_1")
    assert caught.message == f"the sentence of {code}"
    assert "req_1" in str(caught)
    assert pickle.loads(pickle.dumps(caught)).request_id == "req_1"


def test_errors_of_runs_are_pickled() -> None:
    run = types.Run.model_validate({**RUN, "status": "failed", "error": "it broke"})
    for raised in (sortie_client.RunNotSucceeded(run), sortie_client.InvalidOutput(run, "no")):
        again = pickle.loads(pickle.dumps(raised))
        assert (str(again), again.run.id) == (str(raised), "run_1")


def test_the_codes_are_those_of_the_api() -> None:
    from .test_operations import ENGINE
    import subprocess

    document = json.loads(subprocess.run([ENGINE, "openapi"], check=True, capture_output=True).stdout)
    assert set(document["components"]["schemas"]["ErrorCode"]["enum"]) == set(_errors.BY_CODE)


def test_a_code_that_is_not_known_is_an_error_of_the_api(recorder: Recorder) -> None:
    recorder.answers += [error(418, "newer"), Answer(418, {"Content-Type": "text/html"}, b"<html>")]
    with Sortie(recorder.url) as client:
        with pytest.raises(sortie_client.APIError) as raised:
            client.me()
        assert raised.value.code == "newer"
        with pytest.raises(sortie_client.APIError) as raised:
            client.me()
        assert raised.value.status == 418


def test_what_a_newer_engine_sends_is_kept(recorder: Recorder) -> None:
    recorder.answers.append(run_answer(status="paused", colour="blue"))
    with Sortie(recorder.url) as client:
        run = client.runs.get("run_1")
    assert run.status == "paused"
    assert run.model_extra == {"colour": "blue"}


def test_an_answer_that_is_not_of_the_api_is_said(recorder: Recorder) -> None:
    recorder.answers.append(Answer(body=b'{"hello": 1}'))
    with Sortie(recorder.url) as client, pytest.raises(SortieError, match="not what the API describes"):
        client.runs.get("run_1")


def test_a_silent_server_is_a_timeout(recorder: Recorder) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Sortie(url, timeout=0.05, retries=1) as client, pytest.raises(sortie_client.Timeout):
            client.me()


def test_what_is_no_id_is_refused_before_it_is_another_path(recorder: Recorder) -> None:
    with Sortie(recorder.url) as client:
        for name in ("", ".", ".."):
            with pytest.raises(ValueError, match="no ID"):
                client.organizations.members.delete("org_1", name)
        for path in ("../../../admin/audit", "a/./b", "a//b", "/etc"):
            with pytest.raises(ValueError, match="no ID"):
                client.runs.download("run_1", path)
    assert recorder.seen == []


@pytest.mark.parametrize(("url", "key"), [("sortie.example.com", "k"), ("http://a", "kéy"), ("http://a", "k\n")])
def test_settings_that_cannot_work_are_refused(url: str, key: str) -> None:
    with pytest.raises(SortieError):
        Sortie(url, key)


def test_a_transport_of_ones_own() -> None:
    import httpx2

    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={**RUN, "id": request.url.path})

    with Sortie("http://nowhere", transport=lambda: httpx2.MockTransport(handler)) as client:
        assert client.runs.get("run_7").id == "/v1/runs/run_7"


def test_all_pages_are_read(recorder: Recorder) -> None:
    for number, cursor in ((1, "c1"), (2, "c2"), (3, "")):
        page = {"items": [{**RUN, "id": f"run_{number}"}], "next_cursor": cursor}
        recorder.answers.append(Answer(body=json.dumps(page).encode()))
    with Sortie(recorder.url) as client:
        assert [run.id for run in client.runs.list(tag="a")] == ["run_1", "run_2", "run_3"]
    assert [seen.target for seen in recorder.seen] == [
        "/v1/runs?limit=100&tag=a",
        "/v1/runs?limit=100&tag=a&cursor=c1",
        "/v1/runs?limit=100&tag=a&cursor=c2",
    ]


def test_cancel_all_reads_all_pages(recorder: Recorder) -> None:
    for cursor in ("c1", ""):
        recorder.answers.append(Answer(body=json.dumps({"matched": 3, "cancelled": 2, "next_cursor": cursor}).encode()))
    with Sortie(recorder.url) as client:
        total = client.runs.cancel_all(tag="a")
    assert (total.matched, total.cancelled, total.next_cursor) == (6, 4, "")
    assert recorder.seen[1].target == "/v1/runs/cancel?tag=a&cursor=c1"


def test_a_wait_polls_long_and_never_without_waiting(recorder: Recorder) -> None:
    recorder.answers += [run_answer(), Answer(drop=True), run_answer(finished_at=RUN["created_at"], status="succeeded")]
    with Sortie(recorder.url) as client:
        assert client.runs.wait("run_1").status == "succeeded"
        recorder.answers.append(run_answer(finished_at=RUN["created_at"]))
        client.runs.wait("run_1", timeout=7.5)
        recorder.answers.append(run_answer(finished_at=RUN["created_at"]))
        client.runs.wait("run_1", timeout=0.5)
        with pytest.raises(sortie_client.Timeout):
            client.runs.wait("run_1", timeout=0)
    assert [seen.target.partition("?")[2] for seen in recorder.seen] == ["wait=60"] * 3 + ["wait=7", "wait=1"]


def test_a_wait_asks_once_for_each_poll_and_keeps_to_retry_after(recorder: Recorder, quick: list[float]) -> None:
    recorder.answers += [error(429, "rate_limited", **{"Retry-After": "17"}), run_answer(finished_at=RUN["created_at"])]
    with Sortie(recorder.url) as client:
        client.runs.wait("run_1")
        assert set(quick) == {17.0}
        recorder.answers.append(error(429, "rate_limited", **{"Retry-After": "3600"}))
        with pytest.raises(sortie_client.RateLimited):
            client.runs.wait("run_1")
    assert len(recorder.seen) == 3


def test_a_wait_for_a_server_that_hangs_ends_in_time(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_policy, "GRACE", 0.05)
    recorder.answers += [Answer(hang=True)] * 9
    began = time.monotonic()
    with Sortie(recorder.url) as client, pytest.raises(sortie_client.Timeout):
        client.runs.wait("run_1", timeout=0.2)
    # Without the limit, a poll would take half a minute.
    assert time.monotonic() - began < 20


@pytest.mark.anyio
async def test_the_asynchronous_client_sends_the_same(recorder: Recorder) -> None:
    recorder.answers += [Answer(drop=True), error(503, "unavailable"), run_answer()]
    async with AsyncSortie(recorder.url, "sk_1") as client:
        run = await client.runs.create(prompt="x", tags=["a"])
    assert run.id == "run_1"
    assert len({seen.headers["idempotency-key"] for seen in recorder.seen}) == 1
    assert [json.loads(seen.body) for seen in recorder.seen] == [{"prompt": "x", "tags": ["a"]}] * 3
