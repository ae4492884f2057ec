"""Which nodes leave service after failed checks, and which of those may be tried again.

Pure: results and node states in, decisions out. Only nodes that a failed check names as the cause are drained, and only
few at once: when many fail, the cause is elsewhere and draining would take the cluster down. Only a Reason that begins
with our own prefix is ours to undo.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from judges.nodes import DRAIN_PREFIX, Node
from judges.verdict import Verdict, error

Standing: TypeAlias = Literal["free", "busy", "ours", "out"]
_REASON_LENGTH = 160
_IN_USE = {"ALLOCATED", "MIXED", "COMPLETING", "PLANNED"}  # planned: a user's job is about to start there
_KINDS = {"DYNAMIC_NORM", "DYNAMIC_FUTURE", "CLOUD"}
_OURS = re.compile(rf"{DRAIN_PREFIX}([\w-]+): ")


@dataclass(frozen=True, kw_only=True)
class Drain:
    """A node to take out of service, with the Reason for Slurm."""

    node: str
    reason: str


def standing(node: Node) -> Standing:
    """free: idle and in service. busy: of a user, drained or not. ours: idle, and drained by a health check. out: all
    others.
    """
    states = set(node.states) - _KINDS
    if states & _IN_USE:
        return "busy"
    if states == {"IDLE"}:
        return "free"
    return "ours" if states == {"IDLE", "DRAIN"} and drained_by(node) else "out"


def drained_by(node: Node) -> str:
    """The check that drained it; empty for a Reason of anyone else."""
    match = _OURS.match(node.reason)
    return match[1] if match and any(state.startswith("DRAIN") for state in node.states) else ""


def limit(members: int) -> int:
    """Nodes that may be drained by us at once: one, or a quarter of the partition."""
    return max(1, members // 4)


def drains(
    found: Iterable[tuple[str, Verdict]], nodes: Sequence[Node], *, members: Sequence[str]
) -> tuple[Drain, ...] | Verdict:
    """found: (check, verdict). The nodes to drain; none, and an error, when they would be too many.

    A node that is already out keeps its state and its Reason, whoever wrote it.
    """
    in_service = {node.name for node in nodes if node.name in members and standing(node) in ("free", "busy")}
    in_service -= {node.name for node in nodes if any(state.startswith(("DRAIN", "DOWN")) for state in node.states)}
    wanted: dict[str, Drain] = {}
    for check, verdict in found:
        if verdict.status == "failed":
            for name, why in verdict.blames:
                if name in in_service:
                    wanted.setdefault(name, Drain(node=name, reason=reason_of(check, why)))
    before = [node.name for node in nodes if node.name in members and drained_by(node)]
    allowed = limit(len(members))
    if wanted and len(before) + len(wanted) > allowed:
        drained = f" beside {', '.join(before)}, drained before" if before else ""
        return error(
            "common-cause",
            f"{', '.join(wanted)} failed{drained}: more than {allowed} of {len(members)} nodes have a common cause, "
            "none was drained",
            remedy="the shared folder, the fabric, the image or the driver; then the check itself",
        )
    return tuple(wanted.values())


def reason_of(check: str, why: str) -> str:
    """`health:<check>: <why>` on one line, as long as people read in sinfo."""
    return f"{DRAIN_PREFIX}{check}: {' '.join(why.split())}"[:_REASON_LENGTH]
