"""The storage job's log -> verdict: what one node wrote another one read, byte for byte, in time and with room left."""

from __future__ import annotations

from collections.abc import Mapping

from judges.health import parse_reports
from judges.signs import judged_with_signs
from judges.verdict import Line, Nodeset, Verdict, failed, passed, worst_of_nodes

WRITE_SECONDS, STAT_SECONDS, FREE_PERCENT = 10.0, 1.0, 10.0
_REMEDY = "the EFS mount target of the node's zone, port 2049, and the mount's options in the slurmd pod"


def judge_storage(log: str, *, nodeset: Nodeset) -> Verdict:
    """Every node has written and read."""
    return judged_with_signs(log, lambda: _judge_reports(log, nodeset))


def _judge_reports(log: str, nodeset: Nodeset) -> Verdict:
    reports = parse_reports(log)
    if missing := sorted(set(nodeset.node_names) - set(reports)):
        return failed("node-silent", f"no report from {', '.join(missing)}", remedy=_REMEDY)
    whole = worst_of_nodes({name: _judge_node(name, reports[name]) for name in nodeset.node_names})
    if whole.status != "passed":
        return whole
    slowest = max(_number(reports[name], "write_seconds") or 0 for name in nodeset.node_names)
    return passed(
        f"{nodeset.nodes} nodes read what their neighbours wrote; slowest write {slowest:g} s",
        at=reports[nodeset.node_names[0]]["read"][0],
    )


def _judge_node(name: str, report: Mapping[str, list[Line]]) -> Verdict:
    read = report.get("read", [])
    if not read or read[0].text != "same":
        return failed(
            "shared-folder",
            f"{name} did not read what its neighbour wrote",
            at=read[0] if read else None,
            remedy=_REMEDY,
        )
    write, stat, free = (_number(report, key) for key in ("write_seconds", "stat_seconds", "free_percent"))
    if write is None or stat is None or free is None:
        return failed("node-silent", f"{name} did not report its times", at=read[0])
    if write > WRITE_SECONDS or stat > STAT_SECONDS:
        return failed(
            "shared-slow",
            f"{name}: write {write:g} s, stat {stat:g} s",
            at=report["write_seconds"][0],
            remedy="throughput of the file system (elastic), and PercentIOLimit",
        )
    if free < FREE_PERCENT:
        return failed(
            "no-space",
            f"{name}: {free:g} % of the shared folder are free",
            at=report["free_percent"][0],
            remedy="remove what is not needed",
        )
    return passed(f"{name}: write {write:g} s")


def _number(report: Mapping[str, list[Line]], key: str) -> float | None:
    lines = report.get(key)
    try:
        return float(lines[0].text) if lines else None
    except ValueError:
        return None
