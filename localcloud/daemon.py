"""The one process behind every stand-in, so that a provider's start costs a preview nothing.

A launcher connects to the control port (in `<state>/control`), names a package and gets the port of a fresh gRPC
server, which lives as long as that connection. TCP on loopback, not a unix socket: those allow 100 bytes of path.
Nothing is lost when this process is killed: the cloud keeps a journal, other stand-ins write through.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc

from localcloud import provider
from localcloud.ledger import ledger_at

# Imported when first asked for; `eks` is a component provider and runs as a process of its own.
PROVIDERS = ("aws", "kubernetes", "docker", "random", "tls")
START_SECONDS = 60


def serve(state_dir: Path) -> None:
    """Run until told to stop; prints one line when ready."""
    state_dir.mkdir(parents=True, exist_ok=True)
    lock = (state_dir / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"{state_dir}: a local cloud already runs on this state; `python -m localcloud stop` ends it")
    lock.truncate(0)
    print(os.getpid(), file=lock, flush=True)  # for people: who holds it
    gc.disable()  # a million long-lived objects of moto's and botocore's data would be walked again and again
    from localcloud import aws

    amazon = aws.Provider(state_dir)
    amazon.warm()
    gc.freeze()
    gc.enable()
    control = socket.create_server(("127.0.0.1", 0))
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: _end(state_dir))
    (state_dir / "control").write_text(f"{control.getsockname()[1]} {_code_version()}")
    print(f"local cloud ready: AWS at {amazon.cloud.endpoint}", flush=True)
    while True:
        connection, _ = control.accept()
        threading.Thread(target=_attend, args=(connection, state_dir), daemon=True).start()


def _end(state_dir: Path) -> None:
    (state_dir / "control").unlink(missing_ok=True)
    os._exit(0)  # gRPC's threads would be waited for


def _provider(package: str, state_dir: Path) -> provider.Provider:
    if package not in PROVIDERS:
        raise provider.ProviderError(f"no stand-in for package {package}; there are {', '.join(PROVIDERS)}")
    return importlib.import_module(f"localcloud.{package}").Provider(state_dir)


def _answer(request: str, state_dir: Path) -> tuple[grpc.Server | None, str]:
    word, _, rest = request.partition(" ")
    if word == "ping":
        return None, "ok"
    if word == "settle":
        return None, json.dumps(_settle(json.loads(rest), state_dir))
    asked = _provider(word, state_dir)
    asked.directory = Path(rest)
    server, port = provider.serve(asked)
    return server, str(port)


def _settle(stack: dict[str, Any], state_dir: Path) -> list[str]:
    """Remove what was made for a stack without its engine knowing; returns what, each with what came of it."""
    ledger, results = ledger_at(state_dir), list[str]()
    for made in ledger.unheard_of(stack["name"], {(urn, id) for urn, id in stack["recorded"]}):
        maker = _provider(made.package, state_dir)
        try:
            maker.configure(made.config)
            maker.delete(provider.Urn(made.urn), made.id, made.state)
            ledger.settled(made.urn, made.id)
            results.append(f"{made.urn} {made.id}: removed")
        except provider.ProviderError as error:
            results.append(f"{made.urn} {made.id}: cannot be removed: {error}")
    return results


def settle(state_dir: Path, stack: str, recorded: Iterable[tuple[str, str]]) -> list[str]:
    """Tell the daemon what the engine has on record for `stack` (URN, id) while no engine is at work on it."""
    answer = ask(state_dir, "settle " + json.dumps({"name": stack, "recorded": [*recorded]}), timeout_seconds=120)
    if not answer.startswith("["):
        raise provider.ProviderError(answer or "the local cloud went away")
    return json.loads(answer)


def _attend(connection: socket.socket, state_dir: Path) -> None:
    """One launcher, or one command: what it asks for, then wait until it goes."""
    with connection, connection.makefile("rw") as stream:
        request = stream.readline().strip()
        if request == "stop":
            _end(state_dir)
        try:
            server, answer = _answer(request, state_dir)
        except Exception as error:  # the launcher must be able to say why
            server, answer = None, f"!{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            stream.write(f"{answer}\n")
            stream.flush()
            stream.read()
        if server:
            server.stop(None)


def ask(state_dir: Path, request: str, timeout_seconds: float = 5) -> str:
    """Send one command to the daemon of `state_dir`; empty when none answers."""
    try:
        port = int((state_dir / "control").read_text().split()[0])
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds) as connection:
            connection.sendall(f"{request}\n".encode())
            return connection.makefile().readline().strip()
    except (OSError, ValueError, IndexError):
        return ""


def start(state_dir: Path) -> None:
    """Make sure that a daemon with today's code runs; returns when it is ready."""
    if ask(state_dir, "ping"):
        if (state_dir / "control").read_text().split()[1] == _code_version():
            return
        stop(state_dir)
    state_dir.mkdir(parents=True, exist_ok=True)
    log = state_dir / "daemon.log"
    command = [sys.executable, "-m", "localcloud", "serve", "--state", str(state_dir)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env={**_environment(), "PYTHONPATH": str(Path(__file__).parent.parent)},
        )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while not ask(state_dir, "ping"):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"local cloud did not start; {log} says:\n{log.read_text()}")
        time.sleep(0.05)


def _environment() -> dict[str, str]:
    """Without the caller's own AWS settings: botocore fails on a profile that it does not find."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def stop(state_dir: Path) -> None:
    """End the daemon, if one runs, and wait until it is gone."""
    ask(state_dir, "stop")
    with (state_dir / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def _code_version() -> str:
    """Changes whenever a source or data file of the stand-ins does."""
    files = [f for f in Path(__file__).parent.rglob("*.*") if f.suffix in (".py", ".yaml", ".json")]
    return str(max(f.stat().st_mtime_ns for f in files))
