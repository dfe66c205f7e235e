"""An engine for your tests: the real one, with the offline model `runbook`, which executes the fenced blocks of a prompt."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ._errors import SortieError
from ._sync._client import Sortie

START_SECONDS = 60.0


class Engine:
    """A running engine. `url` and `api_key` are for a client; the key has the role `admin`."""

    def __init__(self, binary: str, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self._binary = binary
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SORTIE_")},
            "SORTIE_LISTEN": f"127.0.0.1:{port}",
            "SORTIE_DATA_DIR": str(folder / "data"),
            "SORTIE_SANDBOX_MINIMUM": "landlock",
            "SORTIE_SHUTDOWN_GRACE_SECONDS": "1",
            **env,
        }
        self.start()

    @property
    def api_key(self) -> str:
        return (self.folder / "data" / "admin.key").read_text(encoding="ascii").strip()

    def client(self) -> Sortie:
        """A client with the admin key."""
        return Sortie(self.url, self.api_key)

    def start(self) -> None:
        """Starts the engine, also again after it was killed. It has the same address and data."""
        log = self.folder / "engine.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [self._binary, "serve"], cwd=self.folder, env=self._env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        deadline = time.monotonic() + START_SECONDS
        try:
            self._wait_until_ready(deadline, log)
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self, deadline: float, log: Path) -> None:
        with Sortie(self.url, retries=0) as client:
            while self._process.poll() is None:
                try:
                    client.readiness()
                    return
                except SortieError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
        raise SortieError(f"the engine ended with {self._process.returncode}:\n{log.read_text('utf-8', 'replace')}")

    def restart(self) -> None:
        """Kills the engine and starts it again."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Asks the engine to end, and waits for it."""
        self._process.terminate()
        self._process.wait()

    def kill(self) -> None:
        """Ends the engine as a crash does."""
        self._process.kill()
        self._process.wait()


@contextmanager
def engine(binary: str | None = None, *, env: Mapping[str, str] | None = None) -> Iterator[Engine]:
    """An engine with empty data, for as long as the `with` block.

    `binary` is the program, else that of `SORTIE_BINARY`, else `sortie` on the path. `env` has settings such as
    `SORTIE_RATE_LIMIT_PER_MINUTE`. Commands of agents run in the sandbox that this machine can give, at least `landlock`.
    """
    program = binary or os.environ.get("SORTIE_BINARY") or shutil.which("sortie")
    if program is None:
        raise SortieError("the program sortie is not on the path: install it, or set SORTIE_BINARY")
    with tempfile.TemporaryDirectory(prefix="sortie-test-") as folder:
        running = Engine(program, Path(folder), env or {})
        try:
            yield running
        finally:
            running.kill()
