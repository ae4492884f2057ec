"""Every pair of nodes on its own -> verdict that names the node: what is bad in all of its pairs is the node, not the
pair.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from statistics import median

from judges.nccl import judge_nccl, parse_rows
from judges.verdict import Line, Nodeset, Verdict, blocks, error, failed, passed

SLOW = 0.95  # of the median; other operators' rule for a slow pair (awslabs/agent-plugins: more than 5 % below)
_HEAD = re.compile(r"^pair (\S+) (\S+) exit (\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One pair's run. busbw in GB/s, None where it did not get that far."""

    nodes: tuple[str, str]
    busbw: float | None
    verdict: Verdict
    line: Line


@dataclass(frozen=True, kw_only=True)
class _TwoNodes:
    """The nodeset as a pair sees it."""

    instance_type: str
    gpus_per_node: int
    gres: str
    efa_interfaces: int
    node_names: tuple[str, ...]
    nodes: int = 2


def parse_pairs(log: str, nodeset: Nodeset) -> list[Pair]:
    """`pair a b exit 0` and that pair's output of nccl-tests, for each pair."""
    pairs: list[Pair] = []
    for head, text, number in blocks(log, _HEAD):
        both = _TwoNodes(
            instance_type=nodeset.instance_type,
            gpus_per_node=nodeset.gpus_per_node,
            gres=nodeset.gres,
            efa_interfaces=nodeset.efa_interfaces,
            node_names=(head[1], head[2]),
        )
        verdict = judge_nccl(text, nodeset=both, collective="all_reduce")
        if verdict.line:
            verdict = replace(verdict, line=number + verdict.line - 1)
        if head[3] != "0" and verdict.status != "failed":
            verdict = failed("exit-code", f"exit code {head[3]}", at=Line(number=number, text=head[0]))
        rows = parse_rows(text)[0]
        busbw = rows[-1].measurements[0].busbw if rows else None
        pairs.append(
            Pair(nodes=(head[1], head[2]), busbw=busbw, verdict=verdict, line=Line(number=number, text=head[0]))
        )
    return pairs


def judge_pairs(log: str, *, nodeset: Nodeset) -> Verdict:
    """Judged against the other pairs of the same run, so no baseline is needed beyond two nodes."""
    pairs = parse_pairs(log, nodeset)
    names = set(nodeset.node_names)
    wanted = len(names) * (len(names) - 1) // 2
    if not pairs:
        return error("no-pairs", "no pair reported")
    if {frozenset(pair.nodes) for pair in pairs} != {frozenset((a, b)) for a in names for b in names if a < b}:
        return failed(
            "pairs-missing",
            f"{len(pairs)} of {wanted} pairs of nodes ran",
            at=pairs[-1].line,
            remedy="see the job's state",
        )
    broken = [pair for pair in pairs if pair.verdict.status in ("failed", "error")]
    speeds = [pair.busbw for pair in pairs if pair.busbw is not None and pair not in broken]
    usual = median(speeds) if speeds else 0.0
    slow = [pair for pair in pairs if pair not in broken and pair.busbw is not None and pair.busbw < SLOW * usual]
    if not broken and not slow:
        return passed(f"all {wanted} pairs right, busbw {min(speeds):g} to {max(speeds):g} GB/s", at=pairs[0].line)
    return _blame(broken or slow, len(names), usual)


def _blame(bad: list[Pair], nodes: int, usual: float) -> Verdict:
    """The smallest guess that explains: one node in all bad pairs and in more than one of them."""
    counts = Counter(name for pair in bad for name in pair.nodes)
    name, often = counts.most_common(1)[0]
    first = bad[0]
    what = (
        first.verdict.reason
        if first.verdict.status in ("failed", "error")
        else f"busbw {first.busbw:g}, usual is {usual:g} GB/s"
    )
    cause = first.verdict.cause if first.verdict.status in ("failed", "error") else "slow-pair"
    if often > 1 and often == len(bad):
        share = "all" if often == nodes - 1 else f"{often} of {nodes - 1}"
        reason = f"{name} is bad in {share} of its pairs, no other node is: {what}"
        verdict = failed(
            "bad-node" if share == "all" else cause, reason, at=first.line, remedy=f"drain {name} and have it replaced"
        )
        return replace(verdict, blames=((name, reason),))
    who = ", ".join("-".join(pair.nodes) for pair in bad[:4])
    return failed(
        cause,
        f"{len(bad)} bad pairs ({who}), not all of one node: {what}",
        at=first.line,
        remedy="pair each with a node that is known to be good",
    )
