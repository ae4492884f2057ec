"""How did the job end? From sacct, or where accounting is off from the controller's own record, or from slurmrestd.

An exit code proves nothing: it is 0:0 on jobs lost with their node, ended by time limit or cancelled, and COMPLETED
0:0 can hide a step that failed before the script's last command worked. So: the state's first word, the exit code,
the DerivedExitCode and each step. What is empty or unknown is never a pass.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import cast

from judges.verdict import Line, Verdict, blocks, error, failed, passed

_REMEDIES = {
    "FAILED": "the job's log says what failed",
    "CANCELLED": "see who or what cancelled it: scontrol show job, and the log's last lines",
    "TIMEOUT": "a longer --time; a log that ends after NCCL's `Init COMPLETE` is a P2P hang (NCCL_P2P_DISABLE=1)",
    "NODE_FAIL": "look at the node's Reason (scontrol show node) and its pod's events",
    "OUT_OF_MEMORY": "ask for more memory (--mem), or a smaller batch",
    "PREEMPTED": "run it at a higher priority, or let it requeue",
    "BOOT_FAIL": "the node did not come up: its Reason says why",
    "DEADLINE": "it could not end before its --deadline",
    "LAUNCH_FAILED": "the step could not be launched: slurmd's log on the node",
    "REVOKED": "another cluster of the federation took it",
}
_UNFINISHED = {
    "PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
    "RESIZING", "STOPPED", "STAGE_OUT", "SIGNALING", "SPECIAL_EXIT", "RESV_DEL_HOLD", "UPDATE_DB", "POWER_UP_NODE",
    "EXPEDITING", "RECONFIG_FAIL",
}  # fmt: skip
_JOB = re.compile(r"^JobId=", re.MULTILINE)
_HOPELESS = re.compile(
    r"DependencyNeverSatisfied|PartitionTimeLimit|PartitionNodeLimit|PartitionConfig|BadConstraints|JobHeld|launch.failed.requeued.held",
    re.IGNORECASE,
)
_ABBREVIATIONS = {  # squeue's compact form
    "CD": "COMPLETED", "F": "FAILED", "CA": "CANCELLED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY",
    "PR": "PREEMPTED", "BF": "BOOT_FAIL", "DL": "DEADLINE", "PD": "PENDING", "R": "RUNNING", "CG": "COMPLETING",
    "CF": "CONFIGURING", "S": "SUSPENDED",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Step:
    """name: `batch`, `extern` or the number."""

    name: str
    state: str
    exit_code: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a source says of one job. exit_code and derived as `code:signal`; derived None = the source does not tell.

    steps None = the source cannot tell of steps; () = it could, and does not. flags: states beside the base state
    (`COMPLETING`).
    """

    job_id: str
    name: str
    state: str
    exit_code: str
    derived: str | None
    reason: str
    nodes: str
    steps: tuple[Step, ...] | None
    flags: frozenset[str]
    line: Line

    @property
    def finished(self) -> bool:
        """Nothing about it will change any more (COMPLETED+COMPLETING still runs its epilog)."""
        return bool(self.state) and self.state not in _UNFINISHED and not self.flags & _UNFINISHED

    @property
    def hopeless(self) -> bool:
        """It waits for something that will not happen."""
        return self.state == "PENDING" and bool(_HOPELESS.search(self.reason))


def judge_job(job: Job) -> Verdict:
    """passed only for a job that completed, with every step that the source can tell of."""
    if not job.state:
        return error(
            "no-state", f"job {job.job_id} has no state", at=job.line, remedy="ask again; then the controller's log"
        )
    if job.state in _UNFINISHED:
        why = f" ({job.reason})" if job.reason not in ("", "None") else ""
        return error(
            "not-finished", f"job {job.job_id} is {job.state}{why}", at=job.line, remedy="scontrol show job: its Reason"
        )
    if job.state != "COMPLETED":
        if job.state not in _REMEDIES:
            return error(
                "unknown-state", f"job {job.job_id} is in state {job.state}, which these rules do not know", at=job.line
            )
        cause = job.state.lower().replace("_", "-")
        code = f" with exit code {job.exit_code}" if job.state == "FAILED" else ""
        return failed(cause, f"job {job.job_id} ended as {job.state}{code}", at=job.line, remedy=_REMEDIES[job.state])
    if job.exit_code != "0:0":
        return failed(
            "exit-code", f"job {job.job_id} completed with exit code {job.exit_code or 'unknown'}", at=job.line
        )
    bad = [step for step in job.steps or () if step.state != "COMPLETED" or step.exit_code not in ("0:0", "")]
    if bad:
        step = bad[0]
        return failed(
            "hidden-step",
            f"job {job.job_id} completed, but its step {step.name} ended as {step.state or 'unknown'} {step.exit_code}",
            at=job.line,
            remedy="`set -euo pipefail` in the script, so that a failed step fails the job",
        )
    if job.derived not in (None, "", "0:0"):
        return failed(
            "hidden-step",
            f"job {job.job_id} completed, but one of its steps ended with {job.derived} (DerivedExitCode)",
            at=job.line,
            remedy="`set -euo pipefail` in the script, so that a failed step fails the job",
        )
    if job.steps == () and not job.derived:
        return error(
            "steps-not-shown",
            f"job {job.job_id} completed, but nothing tells how its steps ended",
            at=job.line,
            remedy="ask sacct without -X, or scontrol -d show job",
        )
    steps = "all steps 0:0" if job.steps or job.derived else "of its steps this source does not tell"
    epilog = " (its epilog still runs)" if not job.finished else ""
    return passed(f"job {job.job_id} completed, {steps}{epilog}", at=job.line)


def parse_sacct(text: str) -> list[Job]:
    """`sacct -P` with its header, and at least JobID, State and ExitCode in any order."""
    lines = [Line(number=n, text=line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines or "JobID" not in lines[0].text.split("|"):
        return []
    columns = lines[0].text.split("|")
    jobs: dict[str, dict[str, str]] = {}
    at: dict[str, Line] = {}
    steps: dict[str, list[Step]] = {}
    for line in lines[1:]:
        row = dict(zip(columns, line.text.split("|"), strict=False))
        identity, _, step = row["JobID"].partition(".")
        if step:
            steps.setdefault(identity, []).append(
                Step(name=step, state=_base(row.get("State", "")), exit_code=row.get("ExitCode", ""))
            )
        else:
            jobs[identity], at[identity] = row, line  # a requeued job has several: the last one counts
    return [
        Job(
            job_id=identity,
            name=row.get("JobName", ""),
            state=_base(row.get("State", "")),
            exit_code=row.get("ExitCode", ""),
            derived=row.get("DerivedExitCode"),
            reason=row.get("Reason", ""),
            nodes=row.get("NodeList", ""),
            steps=tuple(steps.get(identity, ())),
            flags=frozenset(),
            line=at[identity],
        )
        for identity, row in jobs.items()
    ]


def parse_scontrol(text: str) -> list[Job]:
    """`scontrol -d show job`, one line per job or many."""
    jobs: list[Job] = []
    for _, block, number in blocks(text, _JOB):
        values = dict(re.findall(r"(?:^|\s)([A-Za-z/:]+)=(\S*)", block))
        jobs.append(
            Job(
                job_id=values.get("JobId", ""),
                name=values.get("JobName", ""),
                state=_base(values.get("JobState", "")),
                exit_code=values.get("ExitCode", ""),
                derived=values.get("DerivedExitCode"),  # only with -d
                reason=values.get("Reason", ""),
                nodes="" if values.get("NodeList") in (None, "(null)") else values["NodeList"],
                steps=(),
                flags=frozenset(),
                line=Line(number=number, text=" ".join(block.split())[:300]),
            )
        )
    return jobs


def parse_rest(text: str) -> list[Job]:
    """slurmrestd's `/jobs`: job_state is a list of a base state and flags (a plain string before 23.11)."""
    start = text.find("{")
    try:
        document = cast("dict[str, list[dict[str, object]]]", json.loads(text[start:]) if start >= 0 else {})
    except json.JSONDecodeError:
        return []
    jobs: list[Job] = []
    for record in document.get("jobs", []):
        states = record.get("job_state") or ""
        words = [states] if isinstance(states, str) else [str(word) for word in cast("list[object]", states)]
        reason = str(record.get("state_reason", ""))
        jobs.append(
            Job(
                job_id=str(record.get("job_id", "")),
                name=str(record.get("name", "")),
                state=_base(words[0] if words else ""),
                exit_code=_rest_code(record.get("exit_code")),
                derived=_rest_code(record.get("derived_exit_code")) if "derived_exit_code" in record else None,
                reason=reason,
                nodes=str(record.get("nodes", "")),
                steps=None,
                flags=frozenset(words[1:]),
                line=Line(number=1, text=f"job_id {record.get('job_id')} job_state {words} reason {reason}"),
            )
        )
    return jobs


def _rest_code(value: object) -> str:
    """slurmrestd's exit code object as `code:signal`; nothing set is nothing known."""
    if isinstance(value, int):
        return f"{value >> 8}:{value & 0x7F}"
    if not isinstance(value, dict):
        return ""
    record = cast("dict[str, dict[str, object]]", value)
    code = record.get("return_code", {})
    signal = cast("dict[str, object]", record.get("signal", {}).get("id", {}))
    numbers = [cast(int, part.get("number", 0)) if part.get("set") else None for part in (code, signal)]
    return "" if numbers == [None, None] else f"{numbers[0] or 0}:{numbers[1] or 0}"


def _base(state: str) -> str:
    """`CANCELLED by 54321` -> CANCELLED; `OUT_OF_ME+` (a table cut to its column) -> OUT_OF_MEMORY."""
    word = state.split()[0].upper() if state.split() else ""
    word = _ABBREVIATIONS.get(word, word)
    if word.endswith("+"):
        fits = [known for known in (*_REMEDIES, *_UNFINISHED, "COMPLETED") if known.startswith(word[:-1])]
        return fits[0] if len(fits) == 1 else word
    return word
