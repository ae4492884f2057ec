"""The local cloud seen from outside: start and stop its process, tell it something, lay its launchers.

Standard library only, because every command of a person goes through here. What runs inside is in `daemon`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib.metadata import version as installed_version
from pathlib import Path

from localcloud import launcher

PACKAGES = ("aws", "kubernetes", "docker", "random", "tls", "eks")
START_SECONDS = 60
_ROOT = Path(__file__).parent.parent


class Unavailable(Exception):
    """The local cloud does not start, or does not answer as it should."""


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
        if (state_dir / "control").read_text().split()[1] == code_version():
            return
        stop(state_dir)
    state_dir.mkdir(parents=True, exist_ok=True)
    log = state_dir / "daemon.log"
    command = [sys.executable, "-m", "localcloud", "serve", "--state", str(state_dir)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while not ask(state_dir, "ping"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Unavailable(f"the local cloud did not start; {log} says:\n{log.read_text()}")
        time.sleep(0.05)


def stop(state_dir: Path) -> None:
    """End the daemon, if one runs, and wait until it is gone."""
    ask(state_dir, "stop")
    with (state_dir / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def settle(state_dir: Path, stack: str, recorded: Iterable[tuple[str, str]]) -> list[str]:
    """Tell the daemon what the engine has on record for `stack` (URN, id) while no engine is at work on it.

    What else was made for the stack is removed; returns what, each with what came of it.
    """
    words = json.dumps({"stack": stack, "recorded": [*recorded]})
    answer = ask(state_dir, f"settle\t{words}", timeout_seconds=120)
    if not answer.startswith("["):
        raise Unavailable(f"the local cloud of {state_dir} cannot settle {stack}: {answer or 'it went away'}")
    return json.loads(answer)


def install(pulumi_home: Path, state_dir: Path) -> list[str]:
    """Lay one launcher per package, for exactly the version that the installed SDK asks for; returns what was laid."""
    plugins, laid = pulumi_home / "plugins", list[str]()
    for package in PACKAGES:
        for old in plugins.glob(f"resource-{package}-v*"):
            shutil.rmtree(old)
        if package == "kubernetes" and os.environ.get("LOCALCLOUD_KUBECONFIG"):
            continue  # the real provider on PATH serves a real API server
        directory = plugins / f"resource-{package}-v{package_version(package)}"
        directory.mkdir(parents=True)
        executable = directory / f"pulumi-resource-{package}"
        # A shell line first: a "#!" line holds neither long paths nor paths with spaces. It counts as a docstring.
        source = f"#!/bin/sh\n''''exec {_shell_quoted(sys.executable)} -IS \"$0\" \"$@\" #'''\n"
        source += Path(launcher.__file__).read_text().replace("from __future__ import annotations\n", "")
        for name, value in {"PYTHON": sys.executable, "STATE": str(state_dir)}.items():
            source = re.sub(f'^{name} = ""$', lambda _, n=name, v=value: f"{n} = {v!r}", source, flags=re.MULTILINE)
        executable.write_text(source)
        executable.chmod(0o755)
        laid.append(directory.name)
    return laid


def package_version(package: str) -> str:
    """The version that the SDK asks the engine for, so that a launcher of exactly this version is found."""
    return installed_version(f"pulumi_{package}")


def code_version() -> str:
    """Changes whenever a source or data file of the stand-ins does."""
    files = [f for f in Path(__file__).parent.rglob("*.*") if f.suffix in (".py", ".yaml", ".json")]
    return str(max(f.stat().st_mtime_ns for f in files))


def _shell_quoted(path: str) -> str:
    return '"' + re.sub(r'(["\\$`])', r"\\\1", path) + '"'
