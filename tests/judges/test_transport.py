"""Which transport carried the data, rank by rank."""

from __future__ import annotations

import re

import pytest

from judges.transport import judge_transport
from tests.judges.logs import H100, transport


def _verdict(log: str, processes: int = 8, efa: int = 1, nodes: int = 2) -> tuple[str, str]:
    verdict = judge_transport(log, efa_interfaces=efa, nodes=nodes, processes=processes)
    return verdict.status, verdict.cause


def test_efa_on_every_rank_passes_in_both_wordings_and_over_efa_direct() -> None:
    assert _verdict(transport()) == ("passed", "ok")
    assert _verdict(re.sub(r"Selected provider is efa,.*", "Selected Provider is efa", transport())) == ("passed", "ok")
    assert _verdict(transport().replace("fabric is efa ", "fabric is efa-direct ")) == ("passed", "ok")
    assert _verdict(transport(H100), processes=16) == ("passed", "ok")


def test_a_listing_of_sockets_before_efa_is_no_fallback() -> None:
    log = re.sub(r"(?m)^(.*) Bootstrap.*$", r"\1 NET/Socket : Using [0]eth0:10.0.64.21<0>", transport())
    assert _verdict(log) == ("passed", "ok")


def test_half_of_the_ranks_on_sockets_fails_though_the_other_half_is_on_efa() -> None:
    lines = transport().splitlines()
    half = [
        re.sub(r"NET/OFI Selected.*", "NET/Socket : Using [0]eth0", line) if "slinky-1" in line else line
        for line in lines
    ]
    quiet = [line for line in half if "slinky-0" in line or "Using network" not in line]
    assert _verdict("\n".join(quiet)) == ("failed", "transport-partial")
    verdict = judge_transport(
        "\n".join([*quiet, "h:1:1 [0] NCCL INFO NET/OFI No eligible providers were found"]),
        efa_interfaces=1,
        nodes=2,
        processes=8,
    )
    assert "found no EFA device" in verdict.reason
    loud = [line.replace("AWS Libfabric", "Socket") if "slinky-1" in line else line for line in half]
    assert _verdict("\n".join(loud)) == ("failed", "socket-transport")


def test_a_rank_that_prints_nothing_is_not_on_efa() -> None:
    log = "\n".join(line for line in transport().splitlines() if ":2107:" not in line)
    assert _verdict(log) == ("failed", "transport-partial")


def test_equal_pids_on_two_hosts_are_two_ranks() -> None:
    assert _verdict(re.sub(r":210([4-7]):", lambda m: f":{2096 + int(m[1])}:", transport())) == ("passed", "ok")


@pytest.mark.parametrize("provider", ["tcp;ofi_rxm", "sockets", "udp;ofi_rxd", "verbs", "efa2"])
def test_libfabric_over_anything_but_efa_fails(provider: str) -> None:
    log = transport().replace(
        "slinky-1:2107:2207 [3] NCCL INFO NET/OFI Selected provider is efa",
        f"slinky-1:2107:2207 [3] NCCL INFO NET/OFI Selected provider is {provider}",
    )
    assert _verdict(log) == ("failed", "provider-not-efa")


@pytest.mark.parametrize(
    "line",
    [
        "Using network Socket",
        "Initialized NET plugin Socket",
        "Assigned NET plugin Socket to comm",
        "Channel 00/0 : 3[3] -> 4[0] [send] via NET/Socket/0",
        "Using network IB",
    ],
)
def test_one_rank_that_ends_on_another_network_fails_even_after_selecting_efa(line: str) -> None:
    assert _verdict(f"{transport()}slinky-1:2107:2207 [3] NCCL INFO {line}\n") == ("failed", "socket-transport")


def test_two_ranks_in_one_torn_line_are_both_seen() -> None:
    lines = [line for line in transport().splitlines() if "Selected" in line]
    assert _verdict(" ".join(lines)) == ("passed", "ok")


def test_no_line_of_nccl_at_all_is_a_failure() -> None:
    assert _verdict("all_reduce OK: value 8.0 == world_size 8.0\n") == ("failed", "transport-not-shown")


def test_a_missing_plugin_is_named() -> None:
    lines = "".join(
        f"slinky-{rank // 4}:{2100 + rank}:2180 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), "
        "using internal implementation\n"
        for rank in range(8)
    )
    assert _verdict(lines) == ("failed", "plugin-not-found")


def test_more_ranks_than_asked_for_are_another_job() -> None:
    assert _verdict(transport(), processes=4) == ("failed", "too-many-ranks")


def test_one_node_or_no_efa_is_skipped_not_passed() -> None:
    assert _verdict(transport(), nodes=1)[0] == "skipped"
    assert _verdict(transport(), efa=0)[0] == "skipped"
