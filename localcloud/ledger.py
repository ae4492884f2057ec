"""Creates that no engine may ever hear of: begun and not ended, or ended after whoever asked for them had died.

On AWS what they made stays until a person finds it behind the engine's list of pending creates. Here it goes by itself:
- An engine was killed: before its next command the driver says what the engine has on record; the rest is removed.
- This process was killed: what a create had done until then is undone when the stores are read back. They stamp what
  they write with `current()`; the cloud does not run such requests again, the API server drops such objects.
"""

from __future__ import annotations

import functools
import json
import secrets
import threading
from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_LAST_CREATES_SECONDS = 60
_current: ContextVar[str] = ContextVar("create", default="")


@dataclass(frozen=True)
class Made:
    """What it takes to remove what a create made."""

    urn: str
    id: str
    package: str
    config: dict[str, Any]
    state: dict[str, Any]


def current() -> str:
    """The create that this thread is at work on; empty for everything else."""
    return _current.get()


class Ledger:
    """One file of lines per state directory: what was begun, what came of it, and from when on it is of no interest."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "creates.jsonl"
        self._changed = threading.Condition()
        self._begun: dict[str, str] = {}  # create -> URN
        self._made: dict[str, Made] = {}
        written = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        for line in written:
            if line.endswith(b"\n"):  # a torn last one: the kill came first
                self._apply(json.loads(line))
        self.lost, self._begun = self._begun, {}
        self._compact()

    def create(self, urn: str, call: Callable[[], Made]) -> Made:
        """`call`, on record from its beginning."""
        create = secrets.token_hex(8)
        self._note({"create": create, "urn": urn})
        token = _current.set(create)
        try:
            made = call()
        except BaseException:
            self._note({"create": create})
            raise
        finally:
            _current.reset(token)
        self._note({"create": create, "made": asdict(made)})
        return made

    def settled(self, urn: str, id: str) -> None:
        """It is gone, by its own engine's wish or ours."""
        with self._changed:
            for create in [c for c, made in self._made.items() if (made.urn, made.id) == (urn, id)]:
                self._note({"create": create})

    def unheard_of(self, stack: str, recorded: Collection[tuple[str, str]]) -> list[Made]:
        """What was made for a stack, whose engine is at rest, and is not among its records; newest first."""
        with self._changed:
            # An engine that was just killed may have asked for more than is done by now.
            self._changed.wait_for(lambda: not any(_of(stack, u) for u in self._begun.values()), _LAST_CREATES_SECONDS)
            self._made = {c: m for c, m in self._made.items() if (m.urn, m.id) not in recorded}
            self._compact()
            return [made for made in reversed(self._made.values()) if _of(stack, made.urn)]

    def _note(self, note: dict[str, Any]) -> None:
        with self._changed:
            self._apply(note)
            self._file.write(json.dumps(note) + "\n")
            self._file.flush()
            self._changed.notify_all()

    def _apply(self, note: dict[str, Any]) -> None:
        create = note["create"]
        self._begun.pop(create, None)
        self._made.pop(create, None)
        if "urn" in note:
            self._begun[create] = note["urn"]
        elif "made" in note:
            self._made[create] = Made(**note["made"])

    def _compact(self) -> None:
        """Write the file anew, without what is of no interest any more. The lost stay: so do their requests."""
        notes = [{"create": create, "urn": urn} for create, urn in {**self.lost, **self._begun}.items()]
        notes += [{"create": create, "made": asdict(made)} for create, made in self._made.items()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".new")
        scratch.write_text("".join(json.dumps(note) + "\n" for note in notes))
        scratch.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")


@functools.cache
def ledger_at(state_dir: Path) -> Ledger:
    """The process's Ledger of a directory."""
    return Ledger(state_dir)


def _of(stack: str, urn: str) -> bool:
    return urn.startswith(f"{stack}::")
