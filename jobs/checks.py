"""What is checked: which commands or job scripts, which judge, and which suite. One row per check, no flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from judges.build import judge_build
from judges.finetune import judge_finetune
from judges.health import judge_node_report
from judges.inference import judge_inference
from judges.isolation import judge_isolation
from judges.nccl import judge_nccl
from judges.nodes import judge_nodes, judge_sinfo
from judges.pairwise import judge_pairs
from judges.pmix import judge_run
from judges.sanity import judge_sanity
from judges.storage import judge_storage
from judges.verdict import Verdict, combine


@dataclass(frozen=True, kw_only=True)
class Nodeset:
    """A nodeset as the contract has it (plan/contract.py), read from its JSON."""

    name: str
    partition: str
    instance_type: str
    nodes: int
    gpus_per_node: int
    gres: str
    efa_interfaces: int
    network_gbps: float = 0.0
    only: tuple[str, ...] = ()  # a part of its nodes

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.only or tuple(f"{self.name}-{index}" for index in range(self.nodes))


Texts = Mapping[str, str]  # {command or script: what it printed}
Judge = Callable[[Texts, Nodeset], Verdict]


_ON_LAB = "real Slurm lab"
_STAND_IN = f"{_ON_LAB}, with real MPI and PMIx under a stand-in for nccl-tests; rates and EFA need the GPUs"


@dataclass(frozen=True, kw_only=True)
class Check:
    """commands: {name: command} on the login node; scripts: job scripts by stem, one after another.

    proves: for people. after: checks that must have passed, or this one is skipped (a job on dead nodes waits for
    ever). judges_steps: the judge knows which steps failed, so that a failed step in a completed job is not the whole
    verdict. collective: the scripts run this benchmark, whose table is kept. seen: where the check itself has run so
    far, for people; its judge has been held against logs in every case.
    """

    name: str
    proves: str
    judge: Judge
    commands: Mapping[str, str] | None = None
    scripts: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    minimum_nodes: int = 1
    judges_steps: bool = False
    collective: str = ""
    seen: str = "nowhere yet: needs GPUs and the slurmd image"


def _nodes(texts: Texts, nodeset: Nodeset) -> Verdict:
    return combine(
        judge_nodes(texts["scontrol"], names=nodeset.node_names),
        judge_sinfo(texts["sinfo"], gres=nodeset.gres, names=nodeset.node_names),
    )


def _node(texts: Texts, nodeset: Nodeset) -> Verdict:
    return combine(judge_node_report(texts["node"], nodeset=nodeset), judge_run(texts["node"], ranks=2 * nodeset.nodes))


def checks(*, backend: str) -> tuple[Check, ...]:
    """All checks in the order in which they make sense. backend: what the sanity job must have used."""
    return (
        Check(
            name="nodes",
            proves="every node is registered, usable, and offers its GPUs to the scheduler",
            seen=_ON_LAB,
            commands={"sinfo": 'sinfo -N -o "%N %t %C %G"', "scontrol": "scontrol -o show node"},
            judge=_nodes,
        ),
        Check(
            name="node",
            proves="inside a job each node has its GPUs, EFA devices, limits, the shared folder and PMIx",
            seen=_ON_LAB + ", its GPUs pretended",
            scripts=("node",),
            after=("nodes",),
            judge=_node,
        ),
        Check(
            name="storage",
            proves="what one node writes on the shared folder another one reads, in time",
            seen=_ON_LAB + " (both nodes on one disk)",
            scripts=("storage",),
            after=("nodes",),
            judge=lambda texts, nodeset: judge_storage(texts["storage"], nodeset=nodeset),
        ),
        Check(
            name="sanity",
            proves="all GPUs compute one right sum, carried by EFA",
            seen=_ON_LAB + ", 8 ranks on CPU (gloo)",
            scripts=("sanity",),
            after=("nodes",),
            judge=lambda texts, nodeset: judge_sanity(texts["sanity"], nodeset=nodeset, backend=backend),
        ),
        Check(
            name="isolation",
            proves="a job reaches the GPUs that it asked for, and a job that asked for none reaches none",
            seen=_ON_LAB + ", where it fails as it must: there is no GPU to reach",
            scripts=("isolation-with", "isolation-without"),
            after=("nodes",),
            judge=lambda texts, _: judge_isolation(texts["isolation-with"], texts["isolation-without"]),
        ),
        Check(
            name="nccl-tests-build",
            proves="the image can build and link the benchmark against the system's MPI",
            scripts=("nccl-tests-build",),
            after=("nodes",),
            judge=lambda texts, _: judge_build(texts["nccl-tests-build"]),
        ),
        Check(
            name="nccl-allreduce",
            proves="all-reduce over all GPUs is right, on EFA and as fast as known for this hardware",
            seen=_STAND_IN,
            scripts=("nccl-allreduce",),
            collective="all_reduce",
            after=("nodes", "nccl-tests-build"),
            judge=lambda texts, nodeset: judge_nccl(texts["nccl-allreduce"], nodeset=nodeset, collective="all_reduce"),
        ),
        Check(
            name="nccl-allgather",
            proves="all-gather over all GPUs is right, on EFA and as fast as known for this hardware",
            scripts=("nccl-allgather",),
            collective="all_gather",
            after=("nodes", "nccl-tests-build"),
            judge=lambda texts, nodeset: judge_nccl(texts["nccl-allgather"], nodeset=nodeset, collective="all_gather"),
        ),
        Check(
            name="pairwise",
            proves="no single node or link is broken or slow; names the one that is",
            seen=_STAND_IN,
            scripts=("pairwise",),
            minimum_nodes=2,
            judges_steps=True,
            after=("nodes", "nccl-tests-build"),
            judge=lambda texts, nodeset: judge_pairs(texts["pairwise"], nodeset=nodeset),
        ),
        Check(
            name="finetune",
            proves="the training pipeline runs on all GPUs, learns, and leaves an adapter",
            scripts=("finetune",),
            after=("nodes", "sanity"),
            judge=lambda texts, nodeset: judge_finetune(
                texts["finetune"], world_size=nodeset.nodes * nodeset.gpus_per_node, nodeset=nodeset
            ),
        ),
        Check(
            name="inference",
            proves="the adapter of the fine-tune answers on one GPU",
            scripts=("inference",),
            after=("nodes", "finetune"),
            judge=lambda texts, _: judge_inference(texts["inference"]),
        ),
    )


_QUICK = ("nodes", "node", "sanity", "isolation")
_BENCHMARKS = ("nccl-tests-build", "nccl-allreduce", "nccl-allgather")
SUITES: Mapping[str, tuple[str, ...]] = {
    "quick": _QUICK,
    "full": (*_QUICK, *_BENCHMARKS),
    "training": (*_QUICK, *_BENCHMARKS, "finetune"),
    "health": ("nodes", "node", "storage", "sanity", "nccl-tests-build", "pairwise", "finetune", "inference"),
}
# How long a suite may take, in times of the quick one.
SUITE_TIMES: Mapping[str, int] = {"quick": 1, "full": 2, "training": 4, "health": 4}
HEALTH = "health"
