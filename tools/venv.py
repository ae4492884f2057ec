"""`python3 -m tools.venv`: the virtual environment in .venv, with what requirements-dev.txt pins.

Instant when it is up to date: the hash of the requirements and the interpreter's version are kept beside it.
Not for AWS users, who need requirements.txt alone and get it from `pulumi install`. Standard library only.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from tools.progress import CommandFailed, run

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements-dev.txt"
OLDEST_PYTHON = (3, 11)
INSTALL_LIMIT_SECONDS = 1800


def ensure() -> None:
    if sys.version_info < OLDEST_PYTHON:
        raise CommandFailed(
            f"python3: got {sys.version.split()[0]}; the program needs 3.11 or newer; install one and name it: "
            "make PYTHON=python3.11 ..."
        )
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    stamp = VENV / "requirements.sha256"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    run("making .venv", [sys.executable, "-m", "venv", "--clear", VENV], limit_seconds=300)
    # Hashes make the download exact. Bytecode for all of the AWS SDK would double the time; imports make what they use.
    run(
        "installing what requirements-dev.txt pins",
        [
            *(PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar=off"),
            *("--no-compile", "--require-hashes", "--requirement", REQUIREMENTS),
        ],
        limit_seconds=INSTALL_LIMIT_SECONDS,
        lines_are="lines of pip",
    )
    stamp.write_text(wanted)


if __name__ == "__main__":
    try:
        ensure()
    except CommandFailed as failure:
        print(f".venv: {failure}", file=sys.stderr)
        print(
            "what to do: have Python's venv and pip (`python3-venv`) and PyPI in reach, run it again", file=sys.stderr
        )
        sys.exit(2)
