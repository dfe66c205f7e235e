from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sortie_client import AsyncSortie, Sortie
from sortie_client.testing import Engine, engine as start_engine


@pytest.fixture(scope="session")
def shared_engine() -> Iterator[Engine]:
    """An engine that every test of this process uses. No test stops it."""
    with start_engine(env={"SORTIE_RATE_LIMIT_PER_MINUTE": "100000"}) as running:
        yield running


@pytest.fixture
def client(shared_engine: Engine) -> Iterator[Sortie]:
    with shared_engine.client() as made:
        yield made


@dataclass
class Seen:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    drop: bool = False
    """Closes the connection instead of answering."""
    cut: bool = False
    """Closes the connection after the body, which is announced as longer."""
    hang: bool = False
    """Sends nothing after the body until the client closes the connection."""


class Recorder:
    """A server that records requests, and answers what a test has prepared, else 418, which nothing repeats."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answers: list[Answer] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                recorder.seen.append(Seen(self.command, self.path, headers, body))
                answer = recorder.answers.pop(0) if recorder.answers else Answer(418)
                if answer.drop:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                missing = 1 if answer.cut or answer.hang else 0
                self.send_header("Content-Length", str(len(answer.body) + missing))
                self.end_headers()
                self.wfile.write(answer.body)
                if answer.hang:
                    self.rfile.read(1)
                self.close_connection = bool(missing)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="session")
def shared_recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.close()


@pytest.fixture
def recorder(shared_recorder: Recorder) -> Recorder:
    shared_recorder.seen.clear()
    shared_recorder.answers.clear()
    return shared_recorder


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def async_client(shared_engine: Engine) -> AsyncSortie:
    return AsyncSortie(shared_engine.url, shared_engine.api_key)
