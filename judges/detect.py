"""Which judge a text is for, told by the text's own form; for people with a log and no wish to look for the right
function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from judges.accounting import Job, judge_job, parse_rest, parse_sacct, parse_scontrol
from judges.fabric import judge_fi_info
from judges.finetune import judge_finetune
from judges.nccl import judge_nccl
from judges.nodes import judge_nodes, judge_sinfo, judge_slurmd_log
from judges.pmix import judge_listing
from judges.sanity import judge_sanity
from judges.signs import explain
from judges.submission import judge_submission
from judges.verdict import Nodeset, Verdict, error

Judge = Callable[[str, Nodeset], "list[Verdict]"]


def _jobs(parse: Callable[[str], list[Job]]) -> Judge:
    def judge(text: str, _: Nodeset) -> list[Verdict]:
        return [judge_job(job) for job in parse(text)] or [error("no-jobs", "no job in this text")]

    return judge


def _collective(text: str) -> str:
    named = re.search(r"(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|sendrecv)", text)
    if named:
        return named[1]
    return "all_gather" if re.search(r"^\s*\d+\s+\d+\s+\w+\s+none\s", text, re.MULTILINE) else "all_reduce"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """pattern: what only such a text has. First match decides."""

    name: str
    pattern: str
    judge: Judge


KINDS: tuple[Kind, ...] = (
    Kind(name="slurmrestd jobs", pattern=r'"job_state"', judge=_jobs(parse_rest)),
    Kind(name="sacct", pattern=r"^(\w+\|)*JobID\|", judge=_jobs(parse_sacct)),
    Kind(name="scontrol show job", pattern=r"^JobId=\d+", judge=_jobs(parse_scontrol)),
    Kind(
        name="scontrol show node",
        pattern=r"^NodeName=",
        judge=lambda text, nodeset: [judge_nodes(text, gres=nodeset.gres)],
    ),
    Kind(
        name="sinfo",
        pattern=r"^(PARTITION|NODELIST)\b.*\bSTATE\b",
        judge=lambda text, nodeset: [judge_sinfo(text, gres=nodeset.gres)],
    ),
    Kind(name="MPI plugins", pattern=r"MPI plugin types are", judge=lambda text, _: [judge_listing(text)]),
    Kind(
        name="fi_info",
        pattern=r"^provider: |fi_getinfo",
        judge=lambda text, nodeset: [judge_fi_info(text, efa_interfaces=nodeset.efa_interfaces)],
    ),
    Kind(
        name="submission",
        pattern=r"^(sbatch|srun|salloc): error: (?!.*(task|Job step|Terminating))|^Submitted batch job",
        judge=lambda text, _: [judge_submission(line) for line in text.splitlines() if line.strip()],
    ),
    Kind(
        name="slurmd log",
        pattern=r"^(\[[\dT:.-]+\]\s*|slurmd: ).*(GRES|[Gg]res|slurmd version)",
        judge=lambda text, _: [judge_slurmd_log(text)],
    ),
    Kind(
        name="nccl-tests",
        pattern=r"^# nThread|# Using devices|# Out of bounds|Test NCCL failure",
        judge=lambda text, nodeset: [judge_nccl(text, nodeset=nodeset, collective=_collective(text))],
    ),
    Kind(
        name="fine-tune",
        pattern=r"'(train_)?loss'|LoRA|adapter",
        judge=lambda text, nodeset: [judge_finetune(text, world_size=nodeset.nodes * nodeset.gpus_per_node)],
    ),
    Kind(
        name="sanity",
        pattern=r"all_reduce \w+: value",
        judge=lambda text, nodeset: [judge_sanity(text, nodeset=nodeset)],
    ),
)


def judge_any(text: str, nodeset: Nodeset) -> tuple[str, list[Verdict]]:
    """(kind, verdicts). A log of no known form is judged by the known signs of failure alone, and so never passes."""
    for kind in KINDS:
        if re.search(kind.pattern, text, re.MULTILINE):
            return kind.name, kind.judge(text, nodeset)
    return "job log", [explain(text) or error("unknown-text", "no judge knows this text")]
