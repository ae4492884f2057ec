"""Node states -> verdict, from `sinfo`, `scontrol show node` and slurmd's own log.

The Gres column is not enough: a node whose GPUs slurmd does not see shows the configured Gres beside INVALID_REG. The
state word is not enough either: a node can be idle with Gres=(null), because a controller without GresTypes drops all
GRES silently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from judges.verdict import Line, Verdict, blocks, error, failed, find, passed, worst

DRAIN_PREFIX = "health:"  # what our own checks write as Reason; only such a node may be resumed by them
OPERATOR_REASON = "slurm-operator:"
_USABLE_SHORT = {"idle", "mix", "alloc", "comp", "plnd", "mixed", "allocated", "completing", "planned"}
_USABLE = {"IDLE", "MIXED", "ALLOCATED"}
_HARMLESS_FLAGS = {"DYNAMIC_NORM", "DYNAMIC_FUTURE", "CLOUD", "PLANNED", "COMPLETING", "BLOCKED", "PERFCTRS"}
_SUFFIXES = {
    "*": "does not respond",
    "~": "is powered down",
    "#": "is powering up",
    "!": "is to be powered down",
    "%": "is powering down",
    "$": "is in a maintenance reservation",
    "@": "waits for a reboot",
    "^": "reboots",
}
_NODE = re.compile(r"^NodeName=", re.MULTILINE)
_NULL_GRES_REMEDY = (
    "GresTypes=gpu in slurm.conf (controller.extraConfMap); restart slurmctld, then slurmd, then state=resume"
)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A block of `scontrol show node`."""

    name: str
    states: tuple[str, ...]
    gres: str
    reason: str
    line: Line


def judge_sinfo(text: str, *, gres: str, names: Sequence[str] = ()) -> Verdict:
    """`sinfo -N -o "%N %t %C %G"` (or with a header of other columns). names: nodes that must be there; empty = those
    listed.

    A node has a row per partition; every row counts.
    """
    rows = _sinfo_rows(text)
    if not rows:
        return error(
            "no-nodes", "sinfo lists no node", remedy="see that slurmctld answers (scontrol ping) and slurmd pods run"
        )
    wanted = set(names) or {name for name, *_ in rows}
    if missing := sorted(wanted - {name for name, *_ in rows}):
        return failed(
            "node-missing", f"not registered: {', '.join(missing)}", remedy="kubectl -n slurm get pods: its slurmd pod"
        )
    verdicts = [_sinfo_row(*row, wanted=gres) for row in rows if row[0] in wanted]
    whole = worst(verdicts)
    return passed(f"{len(wanted)} nodes usable with {gres}") if whole.status == "passed" else whole


def _sinfo_rows(text: str) -> list[tuple[str, str, str, Line]]:
    rows: list[tuple[str, str, str, Line]] = []
    columns = {"NODELIST": 0, "STATE": 1, "GRES": -1}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if len(words) < 2:
            continue
        if words[0] in ("NODELIST", "PARTITION") or "NODELIST" in words:
            columns = {word: index for index, word in enumerate(words)}
            continue
        if max(columns.get("STATE", 1), columns.get("GRES", 2)) < len(words) and "error:" not in line:
            gres = words[columns["GRES"]] if "GRES" in columns else ""
            rows.append(
                (
                    words[columns.get("NODELIST", 0)],
                    words[columns.get("STATE", 1)],
                    gres,
                    Line(number=number, text=line),
                )
            )
    return rows


def _sinfo_row(name: str, state: str, gres: str, line: Line, *, wanted: str) -> Verdict:
    base = re.split(r"[^a-z_]", state.lower())[0]
    suffix = state[len(base) :]
    if base in ("inval", "invalid_reg"):
        return failed(
            "invalid-reg",
            f"{name} registered with less than its configuration says",
            at=line,
            remedy="scontrol show node: its Reason; then the slurmd pod",
        )
    for mark, meaning in _SUFFIXES.items():
        if mark in suffix:
            return failed(
                "not-responding" if mark == "*" else "not-available",
                f"{name} {meaning} ({state})",
                at=line,
                remedy="its slurmd pod: kubectl -n slurm get pods",
            )
    if base not in _USABLE_SHORT:
        return failed(f"node-{base}", f"{name} is {state}", at=line, remedy=f"scontrol show node {name}: its Reason")
    return judge_gres(name, gres, wanted, line)


def judge_gres(name: str, gres: str, wanted: str, line: Line) -> Verdict:
    """`gpu:nvidia_l4:4(S:0)` offers `gpu:nvidia_l4:4`; nothing and `(null)` offer nothing."""
    offered = {re.sub(r"\(.*?\)", "", part) for part in re.split(r",(?![^(]*\))", gres)}
    if not wanted or wanted in offered:
        return passed(f"{name} offers {wanted}", at=line)
    if gres in ("", "(null)"):
        return failed(
            "gres-null", f"{name} has no GRES: every GPU job will be refused", at=line, remedy=_NULL_GRES_REMEDY
        )
    return failed(
        "gres-differs",
        f"{name} offers {gres}, not {wanted}",
        at=line,
        remedy="Gres of the nodeset against `slurmd -C` in its pod",
    )


def parse_nodes(text: str) -> list[Node]:
    """`scontrol show node`, one line per node or many."""
    nodes: list[Node] = []
    for _, block, number in blocks(text, _NODE):
        state = re.search(r"\bState=(\S+)", block)
        gres = re.search(r"\bGres=(\S+)", block)
        reason = re.search(r"\bReason=(.*?)(?:\s*\[[^\]]*@[^\]]*\]|\s+(?:Comment|Extra|InstanceId)=|\n|$)", block)
        at = number + block.count("\n", 0, state.start()) if state else number
        nodes.append(
            Node(
                name=block.split(None, 1)[0].removeprefix("NodeName="),
                states=tuple(state[1].upper().split("+")) if state else (),
                gres=gres[1] if gres else "",
                reason=reason[1].strip() if reason else "",
                line=Line(
                    number=at, text=f"State={state[1] if state else ''} Reason={reason[1].strip() if reason else ''}"
                ),
            )
        )
    return nodes


def judge_nodes(text: str, *, gres: str = "", names: Sequence[str] = ()) -> Verdict:
    """`scontrol show node`. gres and names as in `judge_sinfo`; without gres only states are judged."""
    nodes = parse_nodes(text)
    if not nodes:
        return error("no-nodes", "scontrol shows no node", remedy="see that slurmctld answers (scontrol ping)")
    wanted = set(names) or {node.name for node in nodes}
    if missing := sorted(wanted - {node.name for node in nodes}):
        return failed(
            "node-missing", f"not registered: {', '.join(missing)}", remedy="kubectl -n slurm get pods: its slurmd pod"
        )
    whole = worst(judge_node(node, gres=gres) for node in nodes if node.name in wanted)
    return passed(f"{len(wanted)} nodes usable") if whole.status == "passed" else whole


def judge_node(node: Node, *, gres: str = "") -> Verdict:
    """One node. The order tells causes apart: a bad registration drains, a lost pod is down and drained too."""
    states = {state.rstrip("*~#!%$@^-") for state in node.states}
    marks = "".join(node.states)
    resume = f"scontrol update nodename={node.name} state=resume"
    operator = node.reason.startswith(OPERATOR_REASON)
    if not states:
        return error("no-state", f"{node.name} shows no state", at=node.line)
    if "INVALID_REG" in states:
        seen = re.search(r"\((\d+) < (\d+)\)", node.reason)
        what = (
            f"slurmd sees {seen[1]} of {seen[2]} GPUs"
            if seen and "gpu" in node.reason
            else node.reason or "no reason given"
        )
        return failed(
            "invalid-reg",
            f"{node.name} registered with less than its configuration says: {what}",
            at=node.line,
            remedy="GPUs, driver and Gres of the node, then delete its slurmd pod; resume is refused until it "
            f"registers well, then {resume}",
        )
    if "DRAIN" in states and states & {"DOWN", "NOT_RESPONDING"} and operator:
        return failed(
            "wedged-drain",
            f"{node.name} is drained and gone, and its pod does not come back (known in operator 1.2.1): {node.reason}",
            at=node.line,
            remedy=f"scontrol update nodename={node.name} state=undrain, and see that the operator makes a new pod",
        )
    if "NOT_RESPONDING" in states or "*" in marks:
        return failed(
            "not-responding",
            f"{node.name} does not respond: {node.reason or 'no reason given'}",
            at=node.line,
            remedy="its slurmd pod and the network between it and slurmctld",
        )
    if "DOWN" in states:
        if operator:
            return failed(
                "down-after-restart",
                f"{node.name} came back after its pod was replaced, but is still down",
                at=node.line,
                remedy=f"{resume}; ReturnToService=2 in slurm.conf does it by itself",
            )
        return failed(
            "node-down",
            f"{node.name} is down: {node.reason or 'no reason given'}",
            at=node.line,
            remedy=f"remove the cause, then {resume}",
        )
    if states & {"DRAIN", "DRAINING", "DRAINED"}:
        ours = " (by a health check of ours)" if node.reason.startswith(DRAIN_PREFIX) else ""
        return failed(
            "drained",
            f"{node.name} is drained{ours}: {node.reason or 'no reason given'}",
            at=node.line,
            remedy=f"see that the reason is gone (it outlives its cause), then {resume}",
        )
    if bad := sorted(states - _USABLE - _HARMLESS_FLAGS):
        return failed(
            "not-available", f"{node.name} is {'+'.join(bad)}", at=node.line, remedy=f"scontrol show node {node.name}"
        )
    if not states & _USABLE:
        return error(
            "unknown-state",
            f"{node.name} is in no state that these rules know: {'+'.join(sorted(states))}",
            at=node.line,
        )
    return judge_gres(node.name, node.gres, gres, node.line) if gres else passed(f"{node.name} is usable", at=node.line)


def judge_slurmd_log(log: str) -> Verdict:
    """What slurmd says about the GPUs that it found against those that it was told of."""
    if not log.strip():
        return error("empty-log", "slurmd's log is empty")
    if line := find(log, r"Discarding the following config-only GPU"):
        configured = re.findall(r"GRES\[gpu\] Type:(\S+) .*File:\(null\)", log)
        real = re.findall(r"GRES\[gpu\] Type:(\S+) .*File:/dev", log)
        types = (
            f"'{configured[0]}' is configured, '{real[0]}' is there"
            if configured and real
            else "no device belongs to it"
        )
        return failed(
            "gres-type-mismatch",
            f"the Gres type does not match the hardware: {types}",
            at=line,
            remedy="Gres of the nodeset as `slurmd -C` spells it (nvidia_l4)",
        )
    if line := find(log, r"autodetected GPUs are being ignored"):
        return failed(
            "gpus-ignored",
            "detected GPUs belong to no configured Gres record: Gres is missing, of another type, or too small",
            at=line,
            remedy="Gres of the nodeset as `slurmd -C` spells it, with the node's full count",
        )
    for pattern, cause, reason in (
        (r"count reported lower than configured", "invalid-reg", "slurmd sees fewer GPUs than Gres says"),
        (
            r"more configured than expected in slurm.conf. Ignoring extra GRES",
            "gres-type-mismatch",
            "gres.conf and slurm.conf name different GPU types",
        ),
        (r"unknown autodetect flag", "autodetect", "this Slurm does not know the AutoDetect value of gres.conf"),
        (
            r"configured with \w+ functionality, but that lib wasn't found",
            "autodetect",
            "AutoDetect wants a library that the image lacks",
        ),
        (
            r"not a valid character or block device|Waiting for gres.conf file|can't stat gres.conf file",
            "no-device",
            "a device of gres.conf is not there",
        ),
        (r"\bfatal:", "slurmd-died", "slurmd ended itself"),
    ):
        if line := find(log, pattern):
            return failed(
                cause,
                reason,
                at=line,
                remedy="gres.conf AutoDetect=nvidia, the pod's nvidia.com/gpu limit, the driver on the host",
            )
    if line := find(log, r"slurmd version \S+ started|slurmd started on|Gres Name=gpu"):
        return passed("slurmd started without a complaint about its GPUs", at=line)
    return error("unknown-log", "nothing in this text shows that slurmd started")
