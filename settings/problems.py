"""What is wrong with the settings, and how it is said: path, what was given, why it cannot work, what to do instead.

Owns the wording and the rule that secrets never appear in it. Does not find anything (`settings/load.py`,
`settings/rules.py`). Everything found is reported at once: a deployment that fails five times for five typos costs an
afternoon.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

# A key of such a name anywhere in the path hides the value. Hiding too much is the cheaper mistake.
_SECRET_KEY: Final = re.compile(r"passw|pass$|token|secret|credential|(^|[_-])keys?($|[_\[-])", re.IGNORECASE)
_SECRET_VALUE: Final = re.compile(r"-----BEGIN |^(AKIA|ASIA)[A-Z0-9]{16}$|^gh[a-z]_|^eyJ[A-Za-z0-9_-]+\.")
_LONGEST_SHOWN: Final = 80
_MOST_SHOWN: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong. given: what stands there, already fit to be shown (`shown`).

    fatal False: it works but deserves a look; such problems become warnings of the plan and stop nothing.
    """

    path: str
    given: str
    why: str
    remedy: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"{self.path}: got {self.given}; {self.why}; {self.remedy}"


class SettingsError(Exception):
    """All problems of a stack's settings."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{count} in the settings:", *(f"  {problem}" for problem in self.problems)]))


def shown(value: object, path: str) -> str:
    """A value as a message may show it: type and length instead of text where it is or may be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if is_secret(value, path):
            return f"a text of {len(value)} characters (not shown)"
        return repr(value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}...")
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if not items:
            return "an empty list"
        return (
            f"a list of {len(items)}" if len(items) > _MOST_SHOWN else f"[{', '.join(shown(i, path) for i in items)}]"
        )
    return str(value)


def is_secret(value: str, path: str) -> bool:
    """By the names in its path or by its own look (a PEM block, an AWS key id, a token)."""
    return any(_SECRET_KEY.search(part) for part in path.split(".")) or _SECRET_VALUE.search(value) is not None


def listed(items: Iterable[str], last: str = "and") -> str:
    """`a, b and c`."""
    *head, tail = list(items) or ["none"]
    return f"{', '.join(head)} {last} {tail}" if head else tail


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant."""
    close = difflib.get_close_matches(given.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None
