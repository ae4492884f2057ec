"""EFA, placement group and bought capacity: two decision tables that hold every combination.

The three settings meet in one launch template, and AWS says no only after the VPC, the cluster and half an hour; the
tables say it before. Sources: EC2 user guide on placement groups and Capacity Blocks; aws-parallelcluster#6311 and
#7252, its validators for the same meeting; eksctl#7949, where a group of its own made a reservation of 16 yield 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from facts.hardware import InstanceType
from settings.models import Nodeset

Verdict: TypeAlias = Literal["accept", "warn", "refuse"]
Efa: TypeAlias = Literal["on", "off"]
Asked: TypeAlias = Literal["auto", "none", "named"]
Bought: TypeAlias = Literal["nothing", "reservation", "block"]
Count: TypeAlias = Literal["one", "several"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What a combination leads to. group: own = a cluster group is made, named = the user's is used."""

    verdict: Verdict
    group: Literal["own", "named", "none"] = "none"
    why: str
    remedy: str = ""


_BLOCK_REFUSED: Final = Decision(
    verdict="refuse",
    why="a group is a constraint from outside the block: starts fail for lack of capacity while the block has some",
    remedy="leave placement_group out, AWS places a block close together by itself",
)
_RESERVATION_DECIDES: Final = Decision(verdict="accept", why="the reservation decides where its instances are")
_BLOCK_DECIDES: Final = Decision(verdict="accept", why="AWS places a Capacity Block close together by itself")
_NO_FABRIC: Final = Decision(verdict="accept", why="without EFA there is nothing to bring close together")
_NAMED: Final = Decision(verdict="accept", group="named", why="the group is the user's own choice")
_NAMED_RESERVATION: Final = Decision(
    verdict="accept",
    group="named",
    why="the reservation was made inside this group (in another one no instance starts)",
)

PLACEMENT: Final[Mapping[tuple[Efa, Asked, Bought], Decision]] = MappingProxyType(
    {
        ("on", "auto", "nothing"): Decision(verdict="accept", group="own", why="EFA peers belong close together"),
        # A group of our own can leave part of a reservation unreachable, so there is none beside one.
        ("on", "auto", "reservation"): _RESERVATION_DECIDES,
        ("on", "auto", "block"): _BLOCK_DECIDES,
        ("on", "none", "nothing"): Decision(
            verdict="warn",
            why="without a cluster placement group EFA peers may be far apart in the zone, with more latency",
            remedy="leave placement_group out, or keep it to get capacity that a group cannot get",
        ),
        ("on", "none", "reservation"): _RESERVATION_DECIDES,
        ("on", "none", "block"): _BLOCK_DECIDES,
        ("on", "named", "nothing"): _NAMED,
        ("on", "named", "reservation"): _NAMED_RESERVATION,
        ("on", "named", "block"): _BLOCK_REFUSED,
        ("off", "auto", "nothing"): _NO_FABRIC,
        ("off", "auto", "reservation"): _RESERVATION_DECIDES,
        ("off", "auto", "block"): _BLOCK_DECIDES,
        ("off", "none", "nothing"): _NO_FABRIC,
        ("off", "none", "reservation"): _RESERVATION_DECIDES,
        ("off", "none", "block"): _BLOCK_DECIDES,
        ("off", "named", "nothing"): _NAMED,
        ("off", "named", "reservation"): _NAMED_RESERVATION,
        ("off", "named", "block"): _BLOCK_REFUSED,
    }
)

_FABRIC: Final = Decision(verdict="accept", why="NCCL uses EFA")
_ONE_NODE: Final = Decision(verdict="accept", why="a job on one node needs no fabric")
_ABSENT: Final = Decision(
    verdict="refuse",
    why="the type has no EFA interface",
    remedy="leave efa out, or take a size that has one",
)
_TCP: Final = Decision(
    verdict="warn",
    why="NCCL will use TCP between the nodes, at a fraction of what EFA gives",
    remedy="leave efa out, so that the type's EFA is used",
)
_NONE_TO_USE: Final = Decision(
    verdict="warn",
    why="the type has no EFA interface, so NCCL will use TCP between the nodes",
    remedy="take a size with EFA for jobs on several nodes",
)

# (the setting `efa`, whether the type has EFA, nodes of the nodeset)
EFA: Final[Mapping[tuple[bool | None, bool, Count], Decision]] = MappingProxyType(
    {
        (None, True, "one"): _FABRIC,
        (None, True, "several"): _FABRIC,
        (None, False, "one"): _ONE_NODE,
        (None, False, "several"): _NONE_TO_USE,
        (True, True, "one"): _FABRIC,
        (True, True, "several"): _FABRIC,
        (True, False, "one"): _ABSENT,
        (True, False, "several"): _ABSENT,
        (False, True, "one"): _ONE_NODE,
        (False, True, "several"): _TCP,
        (False, False, "one"): _ONE_NODE,
        (False, False, "several"): _NONE_TO_USE,
    }
)


def _count(nodeset: Nodeset) -> Count:
    return "several" if nodeset.nodes > 1 else "one"


def uses_efa(nodeset: Nodeset, hardware: InstanceType) -> bool:
    """The setting, or what the type has."""
    return hardware.efa_interfaces > 0 if nodeset.efa is None else nodeset.efa


def decide_efa(nodeset: Nodeset, hardware: InstanceType) -> Decision:
    return EFA[nodeset.efa, hardware.efa_interfaces > 0, _count(nodeset)]


def decide_placement(nodeset: Nodeset, hardware: InstanceType) -> Decision:
    """One node needs no peers nearby: what the table warns of is no matter then."""
    asked: Asked = "auto" if nodeset.placement_group == "auto" else "none"
    if nodeset.placement_group not in ("auto", "none"):
        asked = "named"
    bought: Bought = "nothing"
    if nodeset.capacity is not None:
        bought = "block" if nodeset.capacity.kind == "block" else "reservation"
    decision = PLACEMENT["on" if uses_efa(nodeset, hardware) else "off", asked, bought]
    return _ONE_NODE if decision.verdict == "warn" and nodeset.nodes == 1 else decision
