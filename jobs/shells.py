"""Where the runner's commands run: on a login node over SSH, as a user's would, or in a local shell.

Standard library only and Python 3.10: mounted into a pod of Slinky's login image.
"""

from __future__ import annotations

import io
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

_SSH_FAILED = 255  # ssh's own exit code; the remote command's otherwise


class Unreachable(Exception):
    """The shell itself failed, so nothing is known about what the command would have said."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return f"{self.out}{self.err}"


class Shell(Protocol):
    def run(self, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        """Raises: Unreachable when there is no shell, or no answer in time."""
        ...


class LocalShell:
    """For a Slurm on this very machine."""

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        return _run(["/bin/sh", "-c", command], stdin, timeout)


class SshShell:
    """root@host with a key and a list of known host keys; nothing of the caller's own SSH configuration counts."""

    def __init__(
        self, host: str, *, key: pathlib.Path, known_hosts: pathlib.Path, user: str = "root", port: int = 22
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ssh-")
        folder = pathlib.Path(self._folder.name)
        # A mounted Secret may be readable by others, and ssh then refuses the key.
        private = folder / "key"
        shutil.copyfile(key, private)
        private.chmod(0o600)
        options = {
            "Port": str(port),
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(known_hosts),
            "ConnectTimeout": "10",
            "ServerAliveInterval": "15",
            "LogLevel": "ERROR",
            "ControlMaster": "auto",  # one connection for many questions
            "ControlPath": str(folder / "c"),
            "ControlPersist": "120",
        }
        flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        self._prefix = ["ssh", "-F", "/dev/null", "-i", str(private), *flags, f"{user}@{host}", "--"]

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        answer = _run([*self._prefix, command], stdin, timeout)
        if answer.code == _SSH_FAILED:
            raise Unreachable(answer.err.strip() or "ssh failed without a word")
        return answer


def _run(argv: list[str], stdin: bytes, timeout: float) -> Answer:
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError as missing:
        raise Unreachable(f"{missing.filename} is not installed here") from missing
    except subprocess.TimeoutExpired as late:
        raise Unreachable(f"no answer within {timeout:g} s") from late
    return Answer(
        code=done.returncode,
        out=done.stdout.decode(errors="replace"),
        err=done.stderr.decode(errors="replace"),
    )


def archive(files: Mapping[str, str]) -> bytes:
    """A tar of the files, so that a folder of them takes one question."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in sorted(files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
