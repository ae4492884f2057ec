"""Which nodes are drained after failed checks, and which are ours to try again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judges.health import judge_node_report
from judges.nodes import Node, parse_nodes
from judges.remedy import Drain, drained_by, drains, standing
from judges.verdict import Verdict, error, failed, skipped
from tests.judges.logs import L4

EIGHT = tuple(f"slinky-{index}" for index in range(8))


def nodes(count: int = 4, **others: str) -> list[Node]:
    """Idle ones, but for those named (`slinky_1="IDLE+DRAIN Reason=x"`)."""
    states = {f"slinky-{index}": "IDLE+DYNAMIC_NORM Reason=" for index in range(count)}
    states |= {name.replace("_", "-"): state for name, state in others.items()}
    return parse_nodes("".join(f"NodeName={name} State={state}\n" for name, state in states.items()))


def bad(*names: str) -> Verdict:
    verdict = failed("gpu-count", "one of many reasons")
    return replace(verdict, blames=tuple((name, f"{name} shows 3 of 4 GPUs") for name in names))


def chosen(verdict: Verdict, seen: list[Node]) -> tuple[Drain, ...] | str:
    told = drains([("node", verdict)], seen, members=[node.name for node in seen])
    return f"{told.status} {told.cause}" if isinstance(told, Verdict) else told


def test_a_node_that_a_failed_check_blames_is_drained_with_its_own_reason() -> None:
    assert chosen(bad("slinky-1"), nodes()) == (
        Drain(node="slinky-1", reason="health:node: slinky-1 shows 3 of 4 GPUs"),
    )


@pytest.mark.parametrize(
    "verdict", [error("x", "y"), skipped("x", "y"), Verdict(status="no baseline", cause="x", reason="y")]
)
def test_what_is_no_failure_drains_nobody_though_it_names_a_node(verdict: Verdict) -> None:
    assert chosen(replace(verdict, blames=(("slinky-1", "slow"),)), nodes()) == ()


def test_a_failure_that_blames_nobody_drains_nobody() -> None:
    assert chosen(failed("socket-transport", "all ranks"), nodes()) == ()


def test_at_most_one_node_or_a_quarter_of_the_partition_is_drained_at_once() -> None:
    assert chosen(bad("slinky-0", "slinky-1"), nodes(4)) == "error common-cause"
    assert [one.node for one in chosen(bad("slinky-0", "slinky-1"), nodes(8))] == ["slinky-0", "slinky-1"]  # type: ignore[union-attr]
    assert chosen(bad(*EIGHT[:3]), nodes(8)) == "error common-cause"


def test_those_drained_by_us_before_count_and_those_of_others_do_not() -> None:
    ours = nodes(4, slinky_2="IDLE+DRAIN Reason=health:fabric: slow")
    assert chosen(bad("slinky-1"), ours) == "error common-cause"
    others = nodes(4, slinky_2="IDLE+DRAIN Reason=kernel upgrade")
    assert [one.node for one in chosen(bad("slinky-1"), others)] == ["slinky-1"]  # type: ignore[union-attr]


@pytest.mark.parametrize("state", ["IDLE+DRAIN Reason=kernel upgrade", "DOWN Reason=x", "ALLOCATED+DRAIN Reason=x"])
def test_a_node_that_is_already_out_keeps_its_reason(state: str) -> None:
    assert chosen(bad("slinky-1"), nodes(4, slinky_1=state)) == ()


def test_a_node_in_use_is_drained_too_since_a_drain_lets_its_jobs_end() -> None:
    assert len(chosen(bad("slinky-1"), nodes(4, slinky_1="MIXED Reason="))) == 1


def test_nodes_of_other_partitions_are_not_touched() -> None:
    assert (
        drains([("node", bad("other-0"))], [*nodes(), *parse_nodes("NodeName=other-0 State=IDLE\n")], members=EIGHT)
        == ()
    )


def test_a_reason_is_one_line_and_never_looks_like_the_operators() -> None:
    verdict = replace(bad(), blames=(("slinky-1", "slurm-operator: two\nlines " + "x" * 400),))
    (drain,) = chosen(verdict, nodes())
    assert isinstance(drain, Drain)
    assert drain.reason.startswith("health:node: slurm-operator: two lines x")
    assert len(drain.reason) == 160


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("IDLE+DYNAMIC_NORM Reason=", "free"),
        ("MIXED Reason=", "busy"),
        ("ALLOCATED+DRAIN Reason=health:node: x", "busy"),
        ("IDLE+PLANNED Reason=", "busy"),
        ("IDLE+DRAIN+DYNAMIC_NORM Reason=health:node: x", "ours"),
        ("IDLE+DRAIN Reason=kernel upgrade", "out"),
        ("IDLE+DRAIN Reason=slurm-operator: health:node: x", "out"),
        ("DOWN+DRAIN Reason=health:node: x", "out"),
        ("IDLE+DRAIN+INVALID_REG Reason=health:node: x", "out"),
        ("IDLE* Reason=", "out"),
        ("IDLE+RESERVED Reason=", "out"),
    ],
)
def test_only_an_idle_node_is_free_and_only_an_idle_one_drained_by_a_check_is_ours(state: str, wanted: str) -> None:
    (node,) = nodes(0, slinky_0=state)
    assert standing(node) == wanted


def test_the_check_that_drained_a_node_is_known_from_its_reason() -> None:
    (node,) = nodes(0, slinky_0="IDLE+DRAIN Reason=health:node: slinky-0 shows 3 of 4 GPUs [root@2026-12-01T10:00:00]")
    assert drained_by(node) == "node"


def test_every_node_that_reports_a_fault_is_blamed_and_not_only_the_first() -> None:
    lines = "".join(f"node {name} memlock unlimited\nnode {name} shm_mib 9000\n" for name in L4.node_names)
    verdict = judge_node_report(lines, nodeset=L4)
    assert [name for name, _ in verdict.blames] == ["slinky-0", "slinky-1"]
    assert all(why.startswith(name) for name, why in verdict.blames)
