"""Results as the runner saves them, out of logs of our own making."""

from __future__ import annotations

import json
from typing import Any

from jobs.checks import Nodeset
from jobs.results import CheckResult, JobRecord, Report, measured
from judges.nccl import judge_nccl
from judges.sanity import judge_sanity
from judges.verdict import Verdict, failed, skipped
from tests.judges.logs import L4, Nodes, nccl, sanity, transport


def nodeset_of(nodes: Nodes = L4, *, network_gbps: float = 40.0) -> Nodeset:
    return Nodeset(
        name=nodes.name,
        partition=nodes.name,
        instance_type=nodes.instance_type,
        nodes=nodes.nodes,
        gpus_per_node=nodes.gpus_per_node,
        gres=nodes.gres,
        efa_interfaces=nodes.efa_interfaces,
        network_gbps=network_gbps,
    )


def result(
    check: str, verdict: Verdict, *, log: str = "", collective: str = "", nodeset: Nodeset | None = None
) -> CheckResult:
    nodeset = nodeset or nodeset_of()
    job = JobRecord(
        script=check,
        job_id=7,
        state="COMPLETED",
        nodes="slinky-[0-1]",
        log=f"/shared/logs/{check}-7.out",
        log_sha256="5e" * 32,
        versions={"torch": "2.9.0", "nccl": "2.27.7"},
        measurements=measured(log, collective, nodeset),
    )
    return CheckResult(
        nodeset=nodeset.name,
        check=check,
        verdict=verdict,
        started="2026-12-01T10:00:00Z",
        finished="2026-12-01T10:02:05Z",
        jobs=(job,) if log else (),
    )


def document(*results: CheckResult, nodeset: Nodeset | None = None, suite: str = "full") -> dict[str, Any]:
    """As it comes out of its file."""
    report = Report(
        cluster="slurm-dev",
        suite=suite,
        revision="0123456789ab",
        started="2026-12-01T10:00:00Z",
        finished="2026-12-01T10:20:00Z",
        nodesets=(nodeset or nodeset_of(),),
        results=list(results),
    )
    return json.loads(json.dumps(report.document()))


def benchmark(collective: str, nodes: Nodes = L4, *, peak: float = 4.11, nodeset: Nodeset | None = None) -> CheckResult:
    log = nccl(nodes, collective=collective, peak=peak)
    verdict = judge_nccl(log, nodeset=nodes, collective=collective)
    return result(f"nccl-{collective.replace('_', '')}", verdict, log=log, collective=collective, nodeset=nodeset)


def mixed() -> dict[str, Any]:
    """One of each: a good benchmark, one over TCP, a failure with HTML in its reason, and a skipped check."""
    socket = transport().replace("Using network AWS Libfabric", "Using network Socket")
    log = nccl(collective="all_gather", peak=4.3, carried=socket)
    return document(
        result("sanity", judge_sanity(sanity(), nodeset=L4), log=sanity()),
        benchmark("all_reduce"),
        result(
            "nccl-allgather",
            judge_nccl(log, nodeset=L4, collective="all_gather"),
            log=log,
            collective="all_gather",
        ),
        result("isolation", failed("gpus-missing", "no <GPU> & none", remedy='see "gres"')),
        result("finetune", skipped("depends-on", "not run, because sanity did not pass")),
    )
