"""What sbatch (or srun) answered -> verdict: each refusal has a cause that its text hides more or less well."""

from __future__ import annotations

import re

from judges.signs import Sign
from judges.verdict import Line, Verdict, error, failed, passed

_ACCEPTED = re.compile(r"^(?:Submitted batch job )?(\d+)(?:;\S+)?\s*$", re.MULTILINE)

# First match decides. Texts: SchedMD/slurm src/common/slurm_errno.c, 22.05 to 26.05.
_REFUSALS: tuple[Sign, ...] = (
    Sign(
        cause="gres-unknown",
        pattern=r"Invalid generic resource|gres.* specification",
        reason="the cluster knows no GRES of this name: GresTypes lacks it, and then Slurm drops all GRES "
        "without a word",
        remedy="GresTypes=gpu in slurm.conf (controller.extraConfMap); restart slurmctld, then slurmd, then "
        "resume the nodes",
    ),
    Sign(
        cause="node-configuration",
        pattern=r"Requested node configuration is not available",
        reason="no node offers what was asked for: an unknown GRES or GRES type, more GPUs than a node has, or "
        "GresTypes missing",
        remedy="compare --gres with `sinfo -N -o '%N %t %G'`: (null) means GresTypes is missing; the type must "
        "be spelt alike",
    ),
    Sign(
        cause="no-partition",
        pattern=r"No partition specified|[Ii]nvalid partition",
        reason="no such partition, or no default partition",
        remedy="name one with --partition, or give one partition Default=YES",
    ),
    Sign(
        cause="association",
        pattern=r"Invalid account|Invalid qos|Invalid user id",
        reason="accounting is enforced and this user has no association for the account, partition or QOS",
        remedy="sacctmgr add user ... account=...; or drop AccountingStorageEnforce",
    ),
    Sign(
        cause="memory",
        pattern=r"Memory (specification|required).*(can ?not be satisfied|not available)",
        reason="no node has the memory that was asked for",
        remedy="--mem below the node's RealMemory (scontrol show node), or --mem=0 for all of it",
    ),
    Sign(
        cause="cpus",
        pattern=r"CPU count.*can ?not be satisfied|More processors requested",
        reason="no node has that many CPUs",
        remedy="compare with CPUTot of the node",
    ),
    Sign(
        cause="time-limit",
        pattern=r"time limit|Requested time limit is invalid",
        reason="the time limit is beyond what the partition allows",
        remedy="--time below the partition's MaxTime",
    ),
    Sign(
        cause="nodes",
        pattern=r"[Nn]ode count specification invalid|More nodes requested than|violates node limit",
        reason="more nodes than the partition has or allows",
        remedy="compare --nodes with the partition",
    ),
    Sign(
        cause="node-not-available",
        pattern=r"Required node not available|[Nn]odes? .*(down|drained|reserved)",
        reason="the node is down, drained or reserved",
        remedy="scontrol show node: its Reason says why",
    ),
    Sign(
        cause="no-script",
        pattern=r"[Uu]nable to open (batch )?script|[Uu]nable to open file",
        reason="the job script was not found",
        remedy="submit from the scripts' folder",
    ),
    Sign(
        cause="no-controller",
        pattern=r"Unable to contact slurm controller|Communication connection failure|Connection refused"
        r"|Socket timed out|establish configuration source",
        reason="slurmctld does not answer",
        remedy="scontrol ping; the controller pod and its service",
    ),
    Sign(
        cause="authentication",
        pattern=r"Access/permission denied|Invalid (authentication )?credential|Protocol authentication error"
        r"|Munge (en|de)code failed",
        reason="the credential was refused",
        remedy="the same slurm.key on all pods, clocks in step",
    ),
    Sign(
        cause="pmix-missing",
        pattern=r"mpi/pmix|MPI plugin|MPI type",
        reason="the MPI plugin is missing",
        remedy="srun --mpi=list, and the libpmix of the image",
    ),
)


def judge_submission(answer: str) -> Verdict:
    """answer: standard output and error of one submission."""
    job = job_id(answer)
    if job and "error" not in answer:
        return passed(f"accepted as job {job}")
    lines = [Line(number=number, text=text) for number, text in enumerate(answer.splitlines(), 1)]
    for line in lines:
        for refusal in _REFUSALS:
            if re.search(refusal.pattern, line.text, re.IGNORECASE):
                return failed(refusal.cause, refusal.reason, at=line, remedy=refusal.remedy)
    for line in lines:
        if "error" in line.text:
            return failed("refused", "refused for a reason that these rules do not know", at=line)
    return error("no-answer", "sbatch gave neither a job id nor an error", remedy="submit by hand and look")


def job_id(answer: str) -> int | None:
    """The id out of `Submitted batch job 41` or of `--parsable`'s `41;cluster`."""
    match = _ACCEPTED.search(answer)
    return int(match[1]) if match else None
