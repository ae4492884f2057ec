"""Bus bandwidths that benchmarks are held against: one row per instance type, node count, collective, message size
and placement.

Never an average against a peak: nccl-tests' `Avg bus bandwidth` is a mean over small messages too. A floor is below a
published result of the same case (so it can be reached) and above what TCP reaches on that hardware, unless the line
rate makes that impossible: then the transport lines alone tell TCP from EFA, and the row says so. Without a row there
is no verdict on the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

Placement = Literal["out-of-place", "in-place"]
MIB: Final = 1 << 20
GIB: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Bandwidths in GB/s. measured: the published result, None where only a relation to another one was published.

    floor: below it a run fails. tcp_separable: a run over TCP cannot reach the floor. source: who measured, how it
    was read.
    """

    instance_type: str
    nodes: int
    collective: str
    size_bytes: int
    placement: Placement
    measured: float | None
    floor: float
    tcp_separable: bool
    source: str


def _rows(
    instance_type: str,
    nodes: int,
    collective: str,
    size_bytes: int,
    *,
    measured: float | None,
    floor: float,
    source: str,
    tcp_separable: bool = True,
) -> tuple[Baseline, ...]:
    """Both placements: none of the sources tells them apart, and in-place is not slower."""
    return tuple(
        Baseline(
            instance_type=instance_type,
            nodes=nodes,
            collective=collective,
            size_bytes=size_bytes,
            placement=placement,
            measured=measured,
            floor=floor,
            tcp_separable=tcp_separable,
            source=source,
        )
        for placement in get_args(Placement)
    )


_WALKTHROUGH = "walkthrough: 2x g6.12xlarge (8x L4) over one 40 Gbit/s EFA"
_ADT = "awslabs/awsome-distributed-ai, micro-benchmarks/nccl-tests/README.md, read 2026-12"

BASELINES: Final[tuple[Baseline, ...]] = (
    # EFA and TCP end at the same 40 Gbit/s = 5 GB/s: no floor can separate them on this type.
    *_rows(
        "g6.12xlarge",
        2,
        "all_reduce",
        GIB,
        measured=4.11,
        floor=3.5,
        tcp_separable=False,
        source=f"{_WALKTHROUGH}, 4.11 GB/s, read as the largest message of the sweep; floor 85 % of it",
    ),
    *_rows(
        "g6.12xlarge",
        2,
        "all_gather",
        GIB,
        measured=None,
        floor=3.5,
        tcp_separable=False,
        source=f"{_WALKTHROUGH}, all-gather is above all-reduce (its figure is not in the text): the floor of "
        "all-reduce holds",
    ),
    # TCP on hosts of this class was seen at 3-4 GB/s (reports of runs without the plugin).
    *_rows(
        "p5.48xlarge",
        2,
        "all_reduce",
        128 * MIB,
        measured=289.0,
        floor=230.0,
        source=f"{_ADT}, 289 GB/s at 128 MiB; floor 80 % of it",
    ),
    *_rows(
        "p5.48xlarge",
        2,
        "all_reduce",
        GIB,
        measured=437.0,
        floor=350.0,
        source=f"{_ADT}, 437 GB/s at 1 GiB; floor 80 % of it (aws-parallelcluster's own test: above 250)",
    ),
    *_rows(
        "p4d.24xlarge",
        2,
        "all_reduce",
        GIB,
        measured=57.0,
        floor=45.0,
        source="NVIDIA/nccl#527, 57 GB/s at 1 GiB with an old stack; floor 80 % of it (aws-parallelcluster's own "
        "test: above 26)",
    ),
    *_rows(
        "p4de.24xlarge",
        2,
        "all_reduce",
        2 * GIB,
        measured=78.0,
        floor=62.0,
        source=f"{_ADT}, 78 GB/s at 2 GiB; floor 80 % of it",
    ),
)


def find_baseline(
    instance_type: str, nodes: int, collective: str, size_bytes: int, placement: Placement
) -> Baseline | None:
    """The row of exactly this case: a neighbouring size or node count is another case."""
    wanted = (instance_type, nodes, collective, size_bytes, placement)
    for row in BASELINES:
        if (row.instance_type, row.nodes, row.collective, row.size_bytes, row.placement) == wanted:
            return row
    return None
