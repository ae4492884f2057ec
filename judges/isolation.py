"""A pair of jobs -> verdict: with GRES a kernel runs on exactly the GPUs asked for, without it no GPU is there.

Slurm only sets CUDA_VISIBLE_DEVICES by itself, which any job may unset; ConstrainDevices takes the devices away.
"""

from __future__ import annotations

import re

from judges.signs import explain
from judges.verdict import Verdict, combine, error, failed, find, passed

_LINE = re.compile(
    r"^isolation asked (\d+) visible (\d+) kernels (\d+) unmasked (\d+) openable (\d+) present (\d+)", re.MULTILINE
)
_REMEDY = "ConstrainDevices=yes in cgroup.conf (CgroupPlugin=cgroup/v2), TaskPlugin=task/cgroup in slurm.conf"


def judge_isolation(with_gres: str, without_gres: str, *, asked: int = 1) -> Verdict:
    """The logs of the two jobs; asked: GPUs that the first one asked for."""
    return combine(_judge(with_gres, asked), _judge(without_gres, 0))


def _judge(log: str, asked: int) -> Verdict:
    told = _LINE.search(log)
    if told is None:
        return explain(log) or error(
            "no-report", f"the job with {asked} GPUs did not report", at=find(log, "torch did not")
        )
    at = find(log, "isolation asked")
    said, visible, kernels, unmasked, openable, _ = map(int, told.groups())
    if said != asked:
        return failed("wrong-job", f"this is the job that asked for {said} GPUs, not {asked}", at=at)
    if max(visible, unmasked, openable) > asked:
        return failed(
            "gpus-not-isolated",
            f"a job that asked for {asked} GPUs reaches {max(visible, unmasked, openable)}"
            + (" once it drops CUDA_VISIBLE_DEVICES" if visible <= asked < unmasked else ""),
            at=at,
            remedy=_REMEDY,
        )
    if min(visible, kernels, unmasked) < asked:
        return failed(
            "gpus-missing",
            f"a job that asked for {asked} GPUs sees {visible} and computes on {kernels}",
            at=at,
            remedy="nvidia-smi -L in the slurmd pod; gres.conf AutoDetect=nvidia; see that ConstrainDevices "
            "finds the devices",
        )
    return passed(f"asked for {asked}: {kernels} of {visible} visible GPUs compute, {openable} devices open", at=at)
