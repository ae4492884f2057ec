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
import sys
import threading
from pathlib import Path

import grpc

from localcloud import control, provider
from localcloud.ledger import ledger_at

LONG_LIVED = 100_000  # objects between two looks for garbage


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
    gc.set_threshold(LONG_LIVED, 20, 100)
    gc.enable()
    listener = socket.create_server(("127.0.0.1", 0))
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: _end(state_dir))
    (state_dir / "control").write_text(f"{listener.getsockname()[1]} {control.code_version()}")
    print(f"local cloud ready: AWS at {amazon.cloud.endpoint}", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_attend, args=(connection, state_dir), daemon=True).start()


def _end(state_dir: Path) -> None:
    (state_dir / "control").unlink(missing_ok=True)
    os._exit(0)  # gRPC's threads would be waited for


def _attend(connection: socket.socket, state_dir: Path) -> None:
    """One launcher, or one command: what it asks for, then wait until it goes."""
    with connection, connection.makefile("rw") as stream:
        request, *words = stream.readline().rstrip("\n").split("\t")
        if request == "stop":
            _end(state_dir)
        server = None
        try:
            if request == "ping":
                answer = "ok"
            elif request == "settle":
                answer = json.dumps(_settle(state_dir, **json.loads(words[0])))
            else:
                server, answer = _serve(state_dir, request, *words)
        except Exception as error:  # the launcher must be able to say why
            answer = f"!{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            stream.write(f"{answer}\n")
            stream.flush()
            stream.read()
        if server:
            server.stop(None)


def _serve(state_dir: Path, package: str, directory: str, engine: str, kubeconfig: str) -> tuple[grpc.Server, str]:
    """The server of a package for one engine; `directory` is the program's, `kubeconfig` LOCALCLOUD_KUBECONFIG."""
    if package == "eks":
        from localcloud import eks

        return provider.serve(eks.Servicer(engine, kubeconfig))
    asked = _provider(package, state_dir)
    asked.directory = Path(directory)
    return provider.serve(provider.Servicer(asked))


def _provider(package: str, state_dir: Path) -> provider.Provider:
    if package not in control.PACKAGES:
        raise provider.ProviderError(f"no stand-in for package {package}; there are {', '.join(control.PACKAGES)}")
    return importlib.import_module(f"localcloud.{package}").Provider(state_dir)


def _settle(state_dir: Path, stack: str, recorded: list[list[str]]) -> list[str]:
    ledger, results = ledger_at(state_dir), list[str]()
    for made in ledger.unheard_of(stack, {(urn, id) for urn, id in recorded}):
        maker = _provider(made.package, state_dir)
        try:
            maker.configure(made.config)
            maker.delete(provider.Urn(made.urn), made.id, made.state)
        except provider.ProviderError as error:
            results.append(f"{made.urn} {made.id}: cannot be removed: {error}")
        else:
            ledger.settled(made.urn, made.id)
            results.append(f"{made.urn} {made.id}: removed")
    return results
