"""How jobs ended: the rows of a real Slurm (22.05, by `sacct -P`), and what no source may turn into a pass."""

from __future__ import annotations

import json

import pytest

from judges.accounting import Job, judge_job, parse_rest, parse_sacct, parse_scontrol

HEADER = "JobID|JobName|State|ExitCode|DerivedExitCode|NodeList\n"


def _sacct(*rows: str) -> tuple[str, str]:
    (job,) = parse_sacct(HEADER + "\n".join(rows) + "\n")
    verdict = judge_job(job)
    return verdict.status, verdict.cause


def test_a_completed_job_with_all_steps_passes() -> None:
    assert _sacct(
        "3|sanity|COMPLETED|0:0|0:0|slinky-[0-1]",
        "3.batch|batch|COMPLETED|0:0||slinky-0",
        "3.extern|extern|COMPLETED|0:0||slinky-[0-1]",
        "3.0|bash|COMPLETED|0:0||slinky-[0-1]",
    ) == ("passed", "ok")


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ("8|failing|FAILED|3:0|3:0|slinky-0", "failed"),
        ("9|cancelled|CANCELLED by 0|0:0|0:0|slinky-0", "cancelled"),
        ("10|timeout|TIMEOUT|0:0|0:0|slinky-0", "timeout"),
        ("11|nodefail|NODE_FAIL|0:0|0:0|slinky-1", "node-fail"),
        ("12|oom|OUT_OF_MEMORY|0:125|0:0|slinky-1", "out-of-memory"),
        ("12|oom|OUT_OF_ME+|0:125|0:0|slinky-1", "out-of-memory"),
        ("13|preempted|PREEMPTED|0:0|0:0|slinky-1", "preempted"),
        ("14|boot|BOOT_FAIL|0:0|0:0|slinky-1", "boot-fail"),
    ],
)
def test_the_state_decides_not_the_exit_code(row: str, cause: str) -> None:
    assert _sacct(row) == ("failed", cause)


def test_a_failed_step_in_a_completed_job_is_found_by_its_row_or_by_the_derived_exit_code() -> None:
    batch = "7.batch|batch|COMPLETED|0:0||slinky-0"
    assert _sacct("7|hidden|COMPLETED|0:0|7:0|slinky-0", batch) == ("failed", "hidden-step")
    assert _sacct("7|hidden|COMPLETED|0:0||slinky-0", batch, "7.0|bash|FAILED|7:0||slinky-0") == (
        "failed",
        "hidden-step",
    )
    assert _sacct("7|hidden|COMPLETED|0:0||slinky-0", batch, "7.0|bash|CANCELLED|0:15||slinky-0")[1] == "hidden-step"
    assert (
        _sacct("7|hidden|COMPLETED|0:0|0:0|slinky-0", batch, "7.1|bash|OUT_OF_MEMORY|0:125||slinky-0")[1]
        == "hidden-step"
    )


@pytest.mark.parametrize(
    "row",
    [
        "7|x||0:0|0:0|slinky-0",
        "7|x|WONDERFUL|0:0|0:0|slinky-0",
        "7|x|RUNNING|0:0|0:0|slinky-0",
        "7|x|PENDING|0:0|0:0|None assigned",
        "7|x|REQUEUED|0:0|0:0|slinky-0",
        "7|x|COMPLETED|0:0||slinky-0",  # nothing tells of its steps
    ],
)
def test_empty_unknown_and_unfinished_are_errors_and_never_a_pass(row: str) -> None:
    assert _sacct(row)[0] == "error"


def test_no_state_and_a_state_that_no_rule_knows_are_told_apart() -> None:
    assert _sacct("7|x||0:0|0:0|slinky-0") == ("error", "no-state")
    assert _sacct("7|x|WONDERFUL|0:0|0:0|slinky-0") == ("error", "unknown-state")


def test_a_completed_job_without_a_clean_exit_code_fails() -> None:
    assert _sacct("7|x|COMPLETED||0:0|slinky-0")[0] == "failed"
    assert _sacct("7|x|COMPLETED|0:9|0:0|slinky-0")[0] == "failed"


def test_the_last_row_of_a_requeued_job_counts() -> None:
    assert _sacct("7|x|NODE_FAIL|0:0|0:0|slinky-1", "7|x|COMPLETED|0:0|0:0|slinky-0") == ("passed", "ok")


def test_no_header_is_no_table() -> None:
    assert parse_sacct("3|sanity|COMPLETED|0:0|0:0|slinky-0\n") == []
    assert parse_sacct("") == []


CONTROLLER = (
    "JobId=3 JobName=sanity UserId=root(0) JobState={state} Reason={reason} Dependency=(null) ExitCode={code} "
    "DerivedExitCode={derived} RunTime=00:00:29 ReqNodeList=(null) ExcNodeList=(null) NodeList=slinky-[0-1] "
    "BatchHost=slinky-0\n"
)


def _controller(
    state: str, reason: str = "None", code: str = "0:0", derived: str = "0:0"
) -> tuple[Job, tuple[str, str]]:
    (job,) = parse_scontrol(CONTROLLER.format(state=state, reason=reason, code=code, derived=derived))
    verdict = judge_job(job)
    return job, (verdict.status, verdict.cause)


def test_the_controllers_record_is_judged_alike_where_accounting_is_off() -> None:
    job, verdict = _controller("COMPLETED")
    assert (verdict, job.nodes, job.finished) == (("passed", "ok"), "slinky-[0-1]", True)
    assert _controller("COMPLETED", derived="7:0")[1] == ("failed", "hidden-step")
    assert _controller("NODE_FAIL", "NodeDown")[1] == ("failed", "node-fail")
    assert _controller("TIMEOUT", "TimeLimit")[1] == ("failed", "timeout")
    assert _controller("RUNNING")[1] == ("error", "not-finished")


def test_a_record_without_the_steps_exit_code_is_no_pass() -> None:
    (job,) = parse_scontrol(
        CONTROLLER.format(state="COMPLETED", reason="None", code="0:0", derived="x").replace("DerivedExitCode=x ", "")
    )
    assert judge_job(job).cause == "steps-not-shown"


def test_a_job_that_waits_for_what_cannot_happen_is_hopeless() -> None:
    assert _controller("PENDING", "DependencyNeverSatisfied")[0].hopeless
    assert _controller("PENDING", "PartitionTimeLimit")[0].hopeless
    assert not _controller("PENDING", "Resources")[0].hopeless


def test_slurmrestd_tells_states_as_a_list_or_a_word() -> None:
    code = {"return_code": {"set": True, "number": 0}, "signal": {"id": {"set": False, "number": 0}}}
    jobs = [
        {"job_id": 1, "job_state": ["COMPLETED"], "exit_code": code},
        {"job_id": 2, "job_state": "COMPLETED", "exit_code": code},
        {
            "job_id": 3,
            "job_state": ["COMPLETED"],
            "exit_code": code,
            "derived_exit_code": {**code, "return_code": {"set": True, "number": 7}},
        },
        {"job_id": 4, "job_state": ["COMPLETED", "COMPLETING"], "exit_code": code},
        {"job_id": 5, "job_state": [], "exit_code": code},
        {"job_id": 6, "exit_code": code},
        {"job_id": 7, "job_state": "COMPLETED", "exit_code": 256},  # before 23.11: the wait status
        {"job_id": 8, "job_state": "COMPLETED"},
    ]
    found = parse_rest(json.dumps({"jobs": jobs}))
    assert [judge_job(job).status for job in found] == [
        *("passed", "passed", "failed", "passed", "error", "error", "failed", "failed"),
    ]
    assert [job.finished for job in found] == [True, True, True, False, False, False, True, True]
    assert parse_rest("503 Service Unavailable") == []
