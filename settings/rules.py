"""Rules across fields and against the facts: each a small function that yields what is wrong.

Owns the list of rules and their order in a report. Does not own what one value alone must look like
(`settings/shapes.py`) nor whether nodes fit into the address layout (`plan/network.py`, which alone knows its limits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from settings.models import Settings
from settings.partial import Unknown
from settings.problems import Problem
from settings.rules_network import NETWORK_RULES
from settings.rules_nodesets import NODESET_RULES, NODESETS_RULES
from settings.rules_platform import PLATFORM_RULES, chart_archives
from settings.rules_slurm import SLURM_RULES

Rule: TypeAlias = Callable[[Settings], Iterator[Problem]]

RULES: tuple[Rule, ...] = (*PLATFORM_RULES, *NETWORK_RULES, *NODESETS_RULES, *SLURM_RULES)


def _searches(settings: Settings, root: Path | None) -> Iterator[Iterator[Problem]]:
    if root is not None:
        yield chart_archives(settings, root)
    for rule in RULES:
        yield rule(settings)
    for name, nodeset in settings.nodesets.items():
        for nodeset_rule in NODESET_RULES:
            yield nodeset_rule(settings, name, nodeset)


def findings(settings: Settings, root: Path | None = None) -> list[Problem]:
    """Everything the rules find, fatal or not. root: the project's folder (None: no look at the folder of charts)."""
    return [problem for search in _searches(settings, root) for problem in search]


def findings_of_partial(settings: Settings, root: Path) -> list[Problem]:
    """The same for settings with `UNKNOWN` in them (settings/partial.py): a rule that meets one says nothing more.

    C code, such as `re`, cannot be stopped by `UNKNOWN` itself and complains that it is no text.
    """
    found: list[Problem] = []
    with suppress(Unknown):  # the nodesets as a whole can be unknown
        for search in _searches(settings, root):
            with suppress(Unknown, TypeError, ValueError):
                found.extend(search)
    return found


def warnings(settings: Settings) -> tuple[str, ...]:
    """What works and deserves a look: shown at preview, stops nothing."""
    return tuple(str(problem) for problem in findings(settings) if not problem.fatal)
