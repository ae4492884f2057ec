"""Known signs of failure in a job's log, with cause and remedy.

Many of these lines also stand in logs of healthy runs (torch warns about IPv6 lookups, NCCL lists its sockets), so
each sign has a weight: a `hint` explains a run that is known to have failed; a `symptom` shows that something failed
and says nothing of why, so that any judge knows better; a `cause` fails a run whatever its last line claims, and
explains it. Rows are ordered from root causes to what they bring about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from judges.verdict import Line, Verdict, failed, find_compiled


@dataclass(frozen=True, kw_only=True)
class Sign:
    """pattern is matched per line, whatever the case."""

    cause: str
    pattern: str
    reason: str
    remedy: str
    weight: Literal["hint", "symptom", "cause"] = "hint"


SIGNS: tuple[Sign, ...] = (
    Sign(
        cause="oom-kill",
        pattern=r"oom[-_]kill|have been OOM Killed|Out of memory: Killed process|exceeded (job )?memory limit",
        reason="processes of the job were killed for lack of memory; what was printed afterwards proves nothing",
        remedy="ask for more memory (--mem), or use fewer data workers or a smaller batch",
        weight="cause",
    ),
    Sign(
        cause="cuda-out-of-memory",
        pattern=r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError",
        reason="the GPU's memory did not suffice",
        remedy="a smaller batch or sequence; see whether another process holds the GPU (nvidia-smi)",
        weight="cause",
    ),
    Sign(
        cause="locked-memory-limit",
        pattern=r"\(4112\)|Failure to post internal receive buffers|Libfabric error: \(-12\)|RLIMIT_MEMLOCK",
        reason="locked-memory limit: EFA could not pin its receive buffers (ulimit -l is too low in the slurmd "
        "container)",
        remedy="PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, unlimited memlock in the container; then "
        "restart slurmd",
        weight="cause",
    ),
    Sign(
        cause="efa-handshake-blocked",
        pattern=r"(RC: |\()4126\b|EFA device but handshake failed|Unresponsive receiver",
        reason="EFA handshake blocked: the device is reached, its peer never answers",
        remedy="the EFA security group must allow all traffic from AND to itself; 0.0.0.0/0 egress is not enough",
        weight="cause",
    ),
    Sign(
        cause="shm-too-small",
        pattern=r"/dev/shm.*No space left|shared memory segment /dev/shm|out of shared memory"
        r"|insufficient shared memory",
        reason="/dev/shm too small for NCCL or for data workers",
        remedy="mount a Memory emptyDir on /dev/shm of the slurmd pods",
        weight="cause",
    ),
    Sign(
        cause="mpi-singletons",
        pattern=r"singletons will be started|No PMIx server was reachable",
        reason="MPI found no PMIx server: every rank runs alone in a world of one",
        remedy="srun --mpi=pmix, and an MPI that is linked to the libpmix.so.2 which Slurm's plugin opens",
        weight="cause",
    ),
    Sign(
        cause="pmix-missing",
        pattern=r"can ?not load PMIx library|not built with SLURM's PMI"
        r"|[Cc]ouldn't find the specified plugin name for mpi/pmix"
        r"|invalid MPI plugin|MPI plugin .*(not found|cannot be loaded)|Invalid MPI type",
        reason="Slurm's pmix plugin did not load, or MPI was built without support for it",
        remedy="the slurmd image must hold the libpmix that mpi_pmix opens; restart slurmd after changing it",
        weight="cause",
    ),
    Sign(
        cause="names-do-not-resolve",
        pattern=r"host list is empty|MASTER_ADDR( is empty|=\s*$)|does not resolve",
        reason="worker names do not resolve: the host list or MASTER_ADDR is empty",
        remedy="expand SLURM_JOB_NODELIST inside the batch script; worker pods need the headless service as "
        "search domain",
    ),
    Sign(
        cause="names-do-not-resolve",
        pattern=r"IPv4 network addresses of .* cannot be retrieved|Name or service not known"
        r"|Temporary failure in name resolution",
        reason="worker names do not resolve",
        remedy="worker pods need the headless service of the workers as DNS search domain; see that coredns runs",
    ),
    Sign(
        cause="rendezvous-timeout",
        pattern=r"RendezvousConnectionError|RendezvousTimeoutError|client socket has timed out"
        r"|connection to the C10d store has failed",
        reason="rendezvous: the peer is not reachable, the ranks never met",
        remedy="let the nodes reach each other on all ports, and see that every node started its launcher",
    ),
    Sign(
        cause="no-gpu",
        pattern=r"no CUDA-capable device|No CUDA GPUs are available|Invalid number of GPUs|NVIDIA-SMI has failed"
        r"|nvidia-smi: command not found",
        reason="the job saw no GPU or too few of them",
        remedy="ask for GPUs with --gres; compare `nvidia-smi -L` in the slurmd pod with the node's Gres",
    ),
    Sign(
        cause="cuda-driver",
        pattern=r"CUDA driver version is insufficient|forward compatibility was attempted|no kernel image is available",
        reason="the image's CUDA does not fit the host's driver or the GPU's architecture",
        remedy="a newer AMI (driver), or an image built for this GPU architecture",
    ),
    Sign(
        cause="gpu-fault",
        pattern=r"uncorrectable ECC|\bXid\b.*\b(48|63|64|74|79|94|95)\b|GPU has fallen off the bus",
        reason="a GPU reports a hardware fault",
        remedy="drain the node and have it replaced",
        weight="cause",
    ),
    Sign(
        cause="library-missing",
        pattern=r"error while loading shared libraries|cannot open shared object file|ModuleNotFoundError|ImportError",
        reason="a library is missing in the image",
        remedy="the image's build-time assertions should have caught it: rebuild the slurmd image",
    ),
    Sign(
        cause="download-failed",
        pattern=r"LocalEntryNotFoundError|GatedRepoError|RepositoryNotFoundError|couldn't connect to .https?://"
        r"|unable to access 'https?://"
        r"|Could not resolve host",
        reason="a download failed (source, model or data)",
        remedy="nodes need a way out (NAT), or HF_HOME filled beforehand",
    ),
    Sign(
        cause="time-limit",
        pattern=r"DUE TO TIME LIMIT",
        reason="ended by its time limit",
        remedy="where it hung after NCCL's `Init COMPLETE`, GPUs without NVLink need NCCL_P2P_DISABLE=1",
        weight="cause",
    ),
    Sign(
        cause="node-failure",
        pattern=r"DUE TO NODE FAILURE|error: Node failure on",
        reason="a node was lost during the run",
        remedy="look at the node's Reason (scontrol show node) and its pod's events",
        weight="cause",
    ),
    Sign(
        cause="collective-timeout",
        pattern=r"Watchdog caught collective operation timeout",
        reason="a collective hung until its watchdog ended it",
        remedy="GPUs without NVLink need NCCL_P2P_DISABLE=1; otherwise look for the rank that stopped first",
        weight="cause",
    ),
    Sign(
        cause="no-space",
        pattern=r"No space left on device|Disk quota exceeded",
        reason="a file system is full",
        remedy="free space where the line says",
        weight="cause",
    ),
    Sign(
        cause="nccl-error",
        pattern=r"Test NCCL failure|Test CUDA failure|ncclSystemError|ncclRemoteError|ncclInternalError"
        r"|unhandled (system|cuda) error",
        reason="NCCL gave up",
        remedy="NCCL's own WARN lines just before this one say why",
        weight="symptom",
    ),
    Sign(
        cause="crashed",
        pattern=r"Segmentation fault|\(core dumped\)|Traceback \(most recent call last\)",
        reason="a process of the job crashed",
        remedy="the lines around the evidence say where",
        weight="symptom",
    ),
    Sign(
        cause="cancelled",
        pattern=r"\*\*\* (JOB|STEP) .* CANCELLED",
        reason="the job or one of its steps was cancelled",
        remedy="see who or what did: scontrol show job",
        weight="symptom",
    ),
    Sign(
        cause="step-failed",
        pattern=r"srun: error: .*(Exited with exit code|Killed|Aborted|Terminated|Bus error)",
        reason="a task of a step ended with an error",
        remedy="the lines before the evidence say why",
        weight="symptom",
    ),
)
_COMPILED = tuple((sign, re.compile(sign.pattern, re.IGNORECASE | re.MULTILINE)) for sign in SIGNS)


def explain(log: str) -> Verdict | None:
    """The most fundamental known cause in the log of a run that is known to have failed."""
    text, numbers = _without_chatter(log)
    for sign, rule in _COMPILED:
        if line := find_compiled(text, rule):
            at = Line(number=numbers[line.number - 1], text=line.text)
            return failed(sign.cause, sign.reason, at=at, remedy=sign.remedy)
    return None


def judged_with_signs(log: str, judge: Callable[[], Verdict]) -> Verdict:
    """The judge's verdict on a log, unless a known cause explains more, or a symptom contradicts a pass."""
    text, _ = _without_chatter(log)
    shown = {sign.weight for sign, rule in _COMPILED if sign.weight != "hint" and rule.search(text)}
    if "cause" not in shown:
        verdict = judge()
        if "symptom" not in shown or verdict.status in ("failed", "error"):
            return verdict
    return explain(log) or judge()


def _without_chatter(log: str) -> tuple[str, list[int]]:
    """The log without NCCL's information, and the number of each line left: a thousand ranks tell a hundred lines each,
    and no sign is among them (NCCL's warnings are not left out)."""
    left = [(number, line) for number, line in enumerate(log.split("\n"), 1) if "NCCL INFO" not in line]
    return "\n".join(line for _, line in left), [number for number, _ in left]
