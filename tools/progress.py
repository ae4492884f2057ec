"""Run a command so that whoever watches sees it move.

Owns: one line per step (title, a sign of life, seconds taken) and the end of a command that takes too long.
Does not own: what to run. Standard library only, because the first steps install everything else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

LAST_LINES = 15
QUIET_SECONDS = 2  # a step that is over by then needs no sign of life
DOT_SECONDS = 5
POLL_SECONDS = 0.25


class CommandFailed(Exception):
    """A command that ended in failure or was ended; the text says which, and shows its last words."""


class Step:
    """One line on stderr: rewritten in a terminal, dots elsewhere, nothing at all for a step that was instant."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._dots = 0

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self.started

    def move(self, detail: str = "") -> None:
        seconds = self.elapsed_seconds
        if self._terminal:
            sys.stderr.write(f"\r\033[K{self.title} ... {seconds:.0f} s{detail and f', {detail}'}")
        elif seconds >= QUIET_SECONDS + self._dots * DOT_SECONDS:
            sys.stderr.write("." if self._dots else f"{self.title} ...")
            self._dots += 1
        sys.stderr.flush()

    def end(self, detail: str) -> None:
        if self._terminal:
            sys.stderr.write("\r\033[K")
        if self._dots or self.elapsed_seconds >= QUIET_SECONDS:
            start = "" if self._dots else f"{self.title} ..."
            sys.stderr.write(f"{start} {self.elapsed_seconds:.0f} s{detail and f', {detail}'}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def moving(title: str) -> Iterator[None]:
    """Show that the body is alive for as long as it takes; it should print nothing itself."""
    step, over = Step(title), threading.Event()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            step.move()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    done = False
    try:
        yield
        done = True
    finally:
        over.set()
        watcher.join()
        step.end("" if done else "failed")


def run(
    title: str,
    command: Sequence[str | Path],
    *,
    limit_seconds: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    lines_are: str = "",
) -> str:
    """Run `command` to its end and return what it printed; `lines_are` names what its lines count, for the watcher."""
    words = [str(word) for word in command]
    step = Step(title)
    with tempfile.TemporaryFile("w+", errors="replace") as log:

        def output() -> str:
            log.seek(0)
            return log.read()

        with _group(words, cwd, env, log.fileno()) as process:
            while process.poll() is None and step.elapsed_seconds < limit_seconds:
                step.move(f"{output().count(chr(10))} {lines_are}" if lines_are else "")
                time.sleep(0.05 if step.elapsed_seconds < QUIET_SECONDS else POLL_SECONDS)
            code = process.poll()
        step.end("" if code == 0 else "failed")
        if code == 0:
            return output()
        ending = f"exit {code}" if code is not None else f"ended after {limit_seconds:.0f} s"
        last = "\n".join(f"    {line}" for line in output().splitlines()[-LAST_LINES:])
        raise CommandFailed(f"{ending}: {' '.join(words)}\n{last}".rstrip())


@contextlib.contextmanager
def _group(
    words: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, log: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process group of its own, so that nothing of it is left when it is given up or interrupted."""
    try:
        process = subprocess.Popen(
            words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    except OSError as error:
        raise CommandFailed(f"{words[0]} cannot be started: {error.strerror}") from error
    try:
        yield process
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
