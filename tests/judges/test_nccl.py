"""nccl-tests: a good run passes, and a run spoilt in one place fails by the name of that place."""

from __future__ import annotations

import dataclasses
import re

import pytest

from judges.baselines import BASELINES, GIB, find_baseline
from judges.nccl import judge_nccl
from tests.judges import logs
from tests.judges.logs import H100, L4, nccl, transport


def _verdict(log: str, nodes: logs.Nodes = L4, collective: str = "all_reduce") -> tuple[str, str]:
    verdict = judge_nccl(log, nodeset=nodes, collective=collective)
    return verdict.status, verdict.cause


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather"])
def test_a_good_run_passes_and_tells_ranks_transport_and_bandwidth(collective: str) -> None:
    verdict = judge_nccl(nccl(collective=collective), nodeset=L4, collective=collective)
    assert verdict.status == "passed"
    assert "8 ranks on 2 nodes" in verdict.reason
    assert "efa on 8 of 8 ranks" in verdict.reason
    assert "at 1 GiB in-place, floor 3.5" in verdict.reason
    assert (verdict.value, verdict.limit, verdict.unit) == (pytest.approx(4.11, abs=0.01), 3.5, "GB/s")


def test_the_walkthroughs_figure_passes_and_what_is_much_slower_does_not() -> None:
    assert _verdict(nccl(peak=4.11)) == ("passed", "ok")
    assert _verdict(nccl(peak=3.2)) == ("failed", "below-floor")


def test_a_socket_run_fails_even_at_the_line_rate() -> None:
    """40 Gbit/s carry TCP as fast as EFA: the floor cannot tell them apart, the transport lines must."""
    sockets = re.sub(r"NET/OFI Selected provider.*", "NET/OFI No eligible providers were found", transport())
    sockets = sockets.replace("Using network AWS Libfabric", "Using network Socket")
    assert _verdict(nccl(peak=4.9, carried=sockets)) == ("failed", "socket-transport")


def test_a_number_without_a_reference_is_no_baseline_and_never_a_pass() -> None:
    other = dataclasses.replace(L4, instance_type="g6.24xlarge")
    verdict = judge_nccl(nccl(other, peak=5.2), nodeset=other, collective="all_reduce")
    assert (verdict.status, verdict.value) == ("no baseline", pytest.approx(5.2, abs=0.01))
    three = dataclasses.replace(L4, nodes=3)
    assert _verdict(nccl(three, sizes=(GIB,)), three)[0] == "no baseline"  # another node count is another case


def test_what_is_wrong_is_failed_even_without_a_reference() -> None:
    other = dataclasses.replace(L4, instance_type="g6.24xlarge")
    assert _verdict(nccl(other, carried=""), other) == ("failed", "transport-not-shown")


def test_gdr_hardware_is_held_against_its_own_floor() -> None:
    assert _verdict(nccl(H100, peak=440.0), H100) == ("passed", "ok")
    assert _verdict(nccl(H100, peak=92.0), H100) == ("failed", "below-floor")  # seen on misconfigured p5


@pytest.mark.parametrize(
    ("place", "replacement", "cause"),
    [
        (r"(?m)^( +1073741824 .*)0$", r"\g<1>3", "wrong-values"),
        (r"Out of bounds values : 0 OK", "Out of bounds values : 2 FAILED", "wrong-values"),
        (r"validation: 1", "validation: 0", "not-validated"),
        (r"(?m)^( +67108864 .*)0$", r"\1N/A", "not-validated"),
        (r"(?m)^# Out of bounds.*\n", "", "cut-log"),
        (r"(?m)^# Avg bus.*\n", "", "cut-log"),
        (r"(?m)^ +16777216 .*\n", "", "cut-log"),
        (r"(?m)^( +1073741824 +\d+ +float +sum +-1 +[\d.]+ +[\d.]+).*$", r"\1", "cut-log"),
        (r"(?m)^ +(16777216 .*)\n", r"  \1\n  \1\n", "cut-log"),
        (r"(?s)#  Rank  7.*?\n", "", "wrong-world-size"),
        (r"#  Rank  7 ", "#  Rank  6 ", "wrong-world-size"),
        (r"on   slinky-1 device  3 \[0000:3e", "on   slinky-1 device  2 [0000:3c", "wrong-placement"),
        (r"on   slinky-1 ", "on   slinky-0 ", "wrong-placement"),
        (r"NVIDIA L4$", "NVIDIA L40S", "wrong-gpu"),
        (r"all_reduce_perf", "reduce_scatter_perf", "wrong-collective"),
        (r"  sum ", " none ", "wrong-collective"),
        (r"bandwidth    : \S+", "bandwidth    : 9.9", "inconsistent"),
        (r"(?m)^( +1073741824 +\d+ +float +sum +-1 +)\S+", r"\g<1>9999.0", "inconsistent"),
        (r"(?m)^( +1048576 +\d+ +float +sum +-1 +)\S+", r"\g<1>0.00", "inconsistent"),
        (r"(?m)^(# Out of)", r"slurmstepd: error: Detected 1 oom_kill event in StepId=44.0\n\1", "oom-kill"),
    ],
)
def test_one_spoilt_place_fails_the_run_by_its_name(place: str, replacement: str, cause: str) -> None:
    spoilt, count = re.subn(place, replacement, nccl(), flags=re.MULTILINE if not place.startswith("(?") else 0)
    assert count, "nothing was spoilt"
    assert _verdict(spoilt) == ("failed", cause)


def test_the_table_of_half_the_ranks_does_not_fit_the_number_of_ranks() -> None:
    half = dataclasses.replace(L4, gpus_per_node=2)
    rows_of_half = re.findall(r"(?m)^ +\d+ .*float.*$", nccl(half))
    log = nccl()
    for mine, theirs in zip(re.findall(r"(?m)^ +\d+ .*float.*$", log), rows_of_half, strict=True):
        log = log.replace(mine, theirs)
    assert _verdict(re.sub(r"bandwidth    : \S+", re.search(r"bandwidth    : \S+", nccl(half))[0], log)) == (  # type: ignore[index]
        "failed",
        "inconsistent",
    )


def test_eight_worlds_of_one_are_singletons_whatever_they_measure() -> None:
    one = dataclasses.replace(L4, nodes=1, gpus_per_node=1)
    assert _verdict(nccl(one, carried="") * 8) == ("failed", "mpi-singletons")


def test_one_world_of_one_is_not_eight_ranks() -> None:
    one = dataclasses.replace(L4, nodes=1, gpus_per_node=1)
    assert _verdict(nccl(one))[1] == "wrong-world-size"


def test_an_empty_log_and_a_log_of_something_else_never_pass() -> None:
    assert _verdict("")[0] == "error"
    assert _verdict("Submitted batch job 7\n") == ("failed", "no-benchmark")
    assert _verdict(re.sub(r"(?m)^ +\d+ .*float.*\n", "", nccl())) == ("failed", "cut-log")


def test_a_run_that_shrank_its_largest_message_is_complete_but_has_no_reference() -> None:
    shrunk = nccl(sizes=tuple(1 << power for power in range(20, 30))).replace(
        "maxBytes 536870912", "maxBytes 1073741824"
    )
    assert _verdict(shrunk) == ("failed", "cut-log")
    assert _verdict("# Reducing maxBytes to 536870912 due to memory limitation\n" + shrunk)[0] == "no baseline"


def test_sizes_that_a_collective_rounds_down_are_still_the_sweep() -> None:
    log = nccl(collective="all_gather")
    log = re.sub(r"(?m)^ +1048576 ", "     1048320 ", log)
    assert _verdict(log, collective="all_gather") == ("passed", "ok")


def test_columns_of_old_versions_without_root_are_read_too() -> None:
    assert _verdict(re.sub(r"(float +sum) +-1 ", r"\1 ", nccl())) == ("passed", "ok")


def test_a_log_through_torchruns_and_srun_prefixes_is_read_alike() -> None:
    log = re.sub(r"(?m)^(slinky-\d:)", r"[default0]:\1", nccl())
    assert _verdict(log) == ("passed", "ok")


def test_every_baseline_can_be_reached_fails_a_slow_run_and_names_its_source() -> None:
    tcp_reaches = {"g6.12xlarge": 5.0, "p4d.24xlarge": 4.0, "p4de.24xlarge": 4.0, "p5.48xlarge": 4.0}  # GB/s
    for row in BASELINES:
        assert row.measured is None or row.floor < row.measured
        assert row.tcp_separable == (row.floor > tcp_reaches[row.instance_type]), row
        assert row.source
        assert find_baseline(row.instance_type, row.nodes, row.collective, row.size_bytes, row.placement) is row
