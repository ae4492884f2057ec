"""Availability zones by id, and which of them offer which instance type.

Zone ids (`usw2-az1`) and not letters: a letter means another building in every account, so offerings can only be known
before deployment by id. Source: EC2 DescribeInstanceTypeOfferings by zone id as moto 5.2.5 carries it, 2026-12
(`tools/facts_from_moto.py` writes facts/zones.json). An offering is not a promise of capacity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypedDict

DATA_FILE: Final = Path(__file__).with_name("zones.json")

# EKS puts no control plane interface there (EKS user guide, "VPC and subnet requirements", read 2026-12).
NO_CONTROL_PLANE_ZONES: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})


class _Region(TypedDict):
    """One region. zones: their numbers ("1 2 4"). offered: zone numbers -> the types that exactly those offer."""

    prefix: str
    zones: str
    offered: dict[str, str]


@cache
def _regions() -> Mapping[str, _Region]:
    return json.loads(DATA_FILE.read_text())


def _offerings(region: _Region) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType(
        {
            name: tuple(f"{region['prefix']}{number}" for number in numbers.split())
            for numbers, names in region["offered"].items()
            for name in names.split()
        }
    )


REGIONS: Final = tuple(_regions())
OFFERINGS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = MappingProxyType(
    {name: _offerings(region) for name, region in _regions().items()}
)


def zones_of(region: str) -> tuple[str, ...]:
    """All zone ids of a region in order; () for a region that offers none of our GPU types."""
    found = _regions().get(region)
    return tuple(f"{found['prefix']}{number}" for number in found["zones"].split()) if found else ()


def core_zones_of(region: str) -> tuple[str, ...]:
    """The zones where EKS takes the subnets of the control plane, and so where the core nodes can be."""
    return tuple(zone for zone in zones_of(region) if zone not in NO_CONTROL_PLANE_ZONES)


def regions_with(instance_type: str) -> tuple[str, ...]:
    return tuple(region for region, offered in OFFERINGS.items() if instance_type in offered)
