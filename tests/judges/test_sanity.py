"""The sanity job."""

from __future__ import annotations

import dataclasses

import pytest

from judges.sanity import judge_sanity
from tests.judges.logs import L4, Nodes, sanity

RESULT = "all_reduce OK: value 8.0 == world_size 8.0"


def _verdict(log: str, nodes: Nodes = L4, backend: str = "nccl") -> tuple[str, str]:
    verdict = judge_sanity(log, nodeset=nodes, backend=backend)
    return verdict.status, verdict.cause


@pytest.mark.parametrize("prefix", ["", "[default0]:", "0: ", "[rank0]:"])
def test_the_right_sum_over_efa_passes_behind_any_prefix(prefix: str) -> None:
    assert _verdict(sanity().replace(RESULT, prefix + RESULT)) == ("passed", "ok")


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        ("all_reduce OK: value 7.0 == world_size 8.0", "wrong-sum"),
        ("all_reduce WRONG: value 7.0 != world_size 8.0", "wrong-sum"),
        ("all_reduce OK: value nan == world_size 8.0", "wrong-sum"),
        ("all_reduce WRONG: value 8.0 != world_size 8.0", "wrong-sum"),
        ("all_reduce OK: value 4.0 == world_size 4.0", "wrong-world-size"),
        ("all_reduce OK: value inf == world_size inf", "wrong-world-size"),
        (f"{RESULT}\n{RESULT}", "several-worlds"),
        ("all_reduce OK", "no-result"),
        (f"{RESULT}\nslurmstepd: error: Detected 1 oom_kill event in StepId=44.batch.", "oom-kill"),
    ],
)
def test_a_result_is_judged_by_its_numbers_not_by_its_word(result: str, cause: str) -> None:
    assert _verdict(sanity().replace(RESULT, result)) == ("failed", cause)


def test_the_judges_own_finding_says_more_than_the_exit_of_a_task_and_a_task_that_failed_forbids_a_pass() -> None:
    task = "srun: error: slinky-0: task 0: Exited with exit code 3\n"
    wrong = sanity().replace(RESULT, "all_reduce WRONG: value 7.0 != world_size 8.0")
    assert _verdict(wrong + task) == ("failed", "wrong-sum")
    assert _verdict(sanity() + task) == ("failed", "step-failed")


def test_the_right_sum_over_sockets_or_over_an_unknown_transport_fails() -> None:
    assert _verdict(sanity().replace("network AWS Libfabric", "network Socket")) == ("failed", "socket-transport")
    assert _verdict(RESULT) == ("failed", "transport-not-shown")
    assert _verdict("\n")[0] == "error"


def test_a_sum_on_the_cpu_does_not_stand_for_the_gpus() -> None:
    gloo = f"backend gloo, 8 MiB per rank\n{RESULT}\n"
    assert _verdict(gloo) == ("failed", "wrong-backend")
    assert _verdict(gloo, backend="gloo") == ("passed", "ok")


def test_without_efa_the_log_must_at_least_say_that_nccl_computed() -> None:
    plain = dataclasses.replace(L4, efa_interfaces=0)
    assert _verdict(RESULT, plain) == ("failed", "backend-not-shown")
    assert _verdict(f"backend nccl, 256 MiB per rank\n{RESULT}\n", plain) == ("passed", "ok")


def test_warnings_of_a_healthy_torchrun_are_no_failure() -> None:
    warning = (
        "[W socket.cpp:663] [c10d] The IPv6 network addresses of (slinky-0, 29500) cannot be retrieved (gai: -9)\n"
    )
    assert _verdict(warning + sanity()) == ("passed", "ok")


def test_a_hang_names_the_last_line() -> None:
    verdict = judge_sanity(
        "slinky-0:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 8 - Init COMPLETE\n", nodeset=L4
    )
    assert (verdict.cause, verdict.line) == ("no-result", 1)
    assert "NCCL_P2P_DISABLE" in verdict.remedy
