"""The sanity job's log -> verdict: every GPU added its 1.0, the sum arrived, and EFA carried it."""

from __future__ import annotations

import re

from judges.signs import explain, judged_with_signs
from judges.transport import judge_transport
from judges.verdict import Line, Nodeset, Verdict, combine, error, failed, find, passed

# torchrun prefixes a line with `[default0]:`, `srun --label` with `0: `.
_RESULT = re.compile(r"^(?:\[\w+\]:|\s*\d+: )?\s*all_reduce (\w+): value (\S+) [=!]= world_size (\S+)", re.MULTILINE)
_BACKEND = re.compile(r"\bbackend (nccl|gloo|mpi)\b")


def judge_sanity(log: str, *, nodeset: Nodeset, backend: str = "nccl") -> Verdict:
    """backend: what must have done the all-reduce; anything but nccl proves no GPU and no fabric."""
    if not log.strip():
        return error("empty-log", "the log is empty", remedy="see whether the job started, and where its output went")
    return judged_with_signs(log, lambda: _judge_run(log, nodeset, backend))


def _judge_run(log: str, nodeset: Nodeset, backend: str) -> Verdict:
    world = nodeset.nodes * nodeset.gpus_per_node
    results = list(_RESULT.finditer(log))
    if not results:
        return explain(log) or failed(
            "no-result",
            "the all-reduce printed no result: it did not start or never came back",
            at=_last_line(log),
            remedy="see the job's state; a time-out after NCCL's `Init COMPLETE` is a P2P hang (NCCL_P2P_DISABLE=1)",
        )
    lines = [Line(number=log.count("\n", 0, result.start()) + 1, text=result[0]) for result in results]
    if len(results) > 1:
        return failed("several-worlds", f"{len(results)} results: the ranks did not form one world", at=lines[1])
    word, value, size = results[0].groups()
    if not _equal(size, world):
        return failed(
            "wrong-world-size",
            f"the world has {size} ranks, {world} were asked for",
            at=lines[0],
            remedy="see that every node of the job started its launcher and saw all its GPUs",
        )
    if not _equal(value, world) or word != "OK":
        return failed(
            "wrong-sum",
            f"the sum is {value}, not {world}",
            at=lines[0],
            remedy="the data is corrupt: find the GPU or link by the pairwise check",
        )
    return combine(passed(f"value {value} == world_size {size}", at=lines[0]), _judge_path(log, nodeset, backend))


def _judge_path(log: str, nodeset: Nodeset, backend: str) -> Verdict:
    used = _BACKEND.search(log)
    if used and used[1] != backend:
        return failed("wrong-backend", f"{used[1]} did the all-reduce, not {backend}", at=find(log, _BACKEND.pattern))
    if backend != "nccl":
        return passed(f"by {backend}: proves neither GPU nor fabric")
    transport = judge_transport(
        log,
        efa_interfaces=nodeset.efa_interfaces,
        nodes=nodeset.nodes,
        processes=nodeset.nodes * nodeset.gpus_per_node,
    )
    if transport.status == "skipped" and not used:
        return failed("backend-not-shown", "nothing in the log says that NCCL did the all-reduce")
    return transport


def _equal(text: str, number: int) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False


def _last_line(log: str) -> Line | None:
    lines = log.rstrip().split("\n")
    return Line(number=len(lines), text=lines[-1]) if lines[-1] else None
