"""The programs of docs/PYTHON.md and of examples/clients run with the real engine."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sortie_client.testing import Engine

ROOT = Path(__file__).parents[3]
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/PYTHON.md").read_text(encoding="utf-8"), re.M | re.S)


def environment(engine: Engine, **more: str) -> dict[str, str]:
    return {**os.environ, "SORTIE_URL": engine.url, "SORTIE_API_KEY": engine.api_key, **more}


def run(engine: Engine, folder: Path, *command: str | Path) -> str:
    done = subprocess.run(command, cwd=folder, env=environment(engine), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) >= 7


def test_the_programs_of_the_page_have_types(tmp_path: Path) -> None:
    for number, program in enumerate(PROGRAMS):
        (tmp_path / f"program_{number}.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--allow-untyped-defs", "--allow-untyped-calls", "."]
    package = {"MYPYPATH": str(ROOT / "clients/python/src"), "MYPY_CACHE_DIR": str(ROOT / "target/clients/mypy")}
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **package}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_page_runs(shared_engine: Engine, tmp_path: Path, program: str) -> None:
    output = run(shared_engine, tmp_path, sys.executable, "-W", "error", "-c", program)
    for expected, text in (("people", "Bonn 335000\nfailed"), ("hello", "hello"), ("sorted.csv", "south,4\nnorth,3")):
        if expected in program:
            assert text in output


@pytest.mark.parametrize("example", ["report.py", "report.sh"])
def test_the_example_runs(shared_engine: Engine, tmp_path: Path, example: str) -> None:
    command = [sys.executable] if example.endswith(".py") else ["bash"]
    output = run(shared_engine, tmp_path, *command, ROOT / "examples/clients" / example)
    assert "tool_start" in output
    assert output.endswith("south,4\nnorth,3\n")


def test_the_receiver_accepts_callbacks_and_no_forgery(shared_engine: Engine) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "receiver:app", "--port", str(port), "--log-level", "warning"]
    receiver = subprocess.Popen(
        command,
        cwd=ROOT / "examples/clients",
        env=environment(shared_engine, CALLBACK_SECRET="s", PYTHONDONTWRITEBYTECODE="1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while receiver.poll() is None:
            # The engine would repeat a refused callback after ten seconds.
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        with shared_engine.client() as client:
            url = f"http://127.0.0.1:{port}/callbacks"
            forged = client.runs.create(prompt="forged", model="runbook", callback={"url": url, "secret": "other"})
            genuine = client.runs.create(prompt="genuine", model="runbook", callback={"url": url, "secret": "s"})
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == f"{genuine.id} succeeded genuine\n"
            client.runs.wait(forged.id)
    finally:
        receiver.kill()
        receiver.wait()
        assert receiver.stdout is not None
        receiver.stdout.close()
