"""Rules of region, network and core nodes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from facts.hardware import INSTANCE_TYPES
from facts.zones import NO_CONTROL_PLANE_ZONES, OFFERINGS, REGIONS, core_zones_of, zones_of
from settings.models import GPU_NODES_FOR_LARGE, Settings
from settings.problems import Problem, listed, nearest, shown
from settings.rules_nodesets import CPU_TYPES, refused_type

# Ranges that no VPC can have (VPC user guide, "VPC CIDR blocks").
FORBIDDEN_RANGES: Final = tuple(
    IPv4Network(text) for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
)
# RFC 1918 and RFC 6598: what never comes from, or goes to, the public internet. `IPv4Network.is_private` means more
# than that.
PRIVATE_RANGES: Final = tuple(
    IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)
WIDEST_PREFIX, NARROWEST_PREFIX = 16, 20  # the address layout of plan/network.py


def is_private(cidr: str) -> bool:
    return any(IPv4Network(cidr).subnet_of(private) for private in PRIVATE_RANGES)


def region_is_known(settings: Settings) -> Iterator[Problem]:
    if settings.region not in REGIONS:
        near = nearest(settings.region, REGIONS)
        yield Problem(
            path="aws:region",
            given=shown(settings.region, ""),
            why="it is no region that offers a GPU type of facts/hardware.py",
            remedy=f"did you mean {near}?" if near else f"use one of {listed(REGIONS)}",
        )


def vpc_range_is_usable(settings: Settings) -> Iterator[Problem]:
    if settings.network.existing is not None:
        return
    path, vpc = "network.vpc_cidr", IPv4Network(settings.network.vpc_cidr)
    if any(vpc.overlaps(forbidden) for forbidden in FORBIDDEN_RANGES):
        why = "AWS makes no VPC of loopback, link-local, multicast or reserved addresses"
        yield Problem(path=path, given=str(vpc), why=why, remedy="use a private range like 10.0.0.0/16")
    elif not is_private(str(vpc)):
        why = "these addresses belong to somebody on the internet, whom the cluster could then not reach"
        yield Problem(path=path, given=str(vpc), why=why, remedy="use a private range like 10.0.0.0/16", fatal=False)
    if not WIDEST_PREFIX <= vpc.prefixlen <= NARROWEST_PREFIX:
        wide = vpc.prefixlen < WIDEST_PREFIX
        why = "AWS makes no VPC wider than a /16" if wide else "its subnets would be smaller than AWS's smallest, a /28"
        near = WIDEST_PREFIX if wide else NARROWEST_PREFIX
        remedy = f"use a /{WIDEST_PREFIX} to /{NARROWEST_PREFIX}, such as {vpc.network_address}/{near}"
        if not wide:
            remedy = f"use a /{WIDEST_PREFIX} to /{NARROWEST_PREFIX}, such as {vpc.supernet(new_prefix=near)}"
        yield Problem(path=path, given=str(vpc), why=why, remedy=remedy)


def network_is_made_or_given(settings: Settings) -> Iterator[Problem]:
    if settings.network.existing is None:
        return
    settings_of_a_new_one = ("vpc_cidr", "zone_ids", "nat", "endpoints")
    for key in settings_of_a_new_one:
        if key in settings.network.model_fields_set:
            yield Problem(
                path=f"network.{key}",
                given=f"{shown(getattr(settings.network, key), key)} beside network.existing",
                why="it shapes a network that is made here, and with network.existing none is made",
                remedy="leave out one of the two",
            )


def zones_can_hold_the_control_plane(settings: Settings) -> Iterator[Problem]:
    network, usable = settings.network, core_zones_of(settings.region)
    if not usable:
        return
    if network.existing is not None:
        path, zones = "network.existing.private_subnet_ids", tuple(network.existing.private_subnet_ids)
        enough = [zone for zone in zones if zone in usable]
        if len(enough) < 2:
            yield Problem(
                path=path,
                given=listed(zones),
                why=f"EKS wants subnets in two zones that it takes, and takes {listed(usable)}",
                remedy="add a private subnet in another of them",
            )
        zones = tuple(zone for zone in zones if zone not in NO_CONTROL_PLANE_ZONES)
    elif network.zone_ids is not None:
        path, zones = "network.zone_ids", network.zone_ids
    else:
        return
    for zone in sorted(set(zones)):
        if zone in usable:
            continue
        known = zone in zones_of(settings.region)
        why = "EKS puts no control plane into it" if known else f"{settings.region} has no such zone"
        yield Problem(path=path, given=shown(zone, ""), why=why, remedy=f"use {listed(usable, 'or')}")
    for zone in sorted({zone for zone in zones if zones.count(zone) > 1}):
        why = "it stands there twice, and a zone counts once"
        yield Problem(path=path, given=shown(zone, ""), why=why, remedy="name each zone once")


def subnets_are_distinct(settings: Settings) -> Iterator[Problem]:
    existing = settings.network.existing
    if existing is None:
        return
    seen: dict[str, str] = {}
    for kind in ("private_subnet_ids", "public_subnet_ids"):
        for zone, subnet in getattr(existing, kind).items():
            here = f"{kind}.{zone}"
            if subnet in seen:
                yield Problem(
                    path=f"network.existing.{here}",
                    given=f"{subnet}, which is {seen[subnet]} too",
                    why="a subnet is in one zone and is private or public",
                    remedy="give each its own subnet",
                )
            seen.setdefault(subnet, here)


def core_type_is_usable(settings: Settings) -> Iterator[Problem]:
    given, path = settings.cluster.core.instance_type, "cluster.core.instance_type"
    hardware = INSTANCE_TYPES.get(given)
    if hardware is None:
        yield refused_type(path, given, CPU_TYPES, "m6i.2xlarge")
        return
    if hardware.gpus:
        why = "the core AMI has no NVIDIA driver, and GPUs beside slurmctld would serve no job"
        remedy = "use a type such as m6i.2xlarge, and nodesets for GPUs"
        yield Problem(path=path, given=shown(given, path), why=why, remedy=remedy)
        return
    if settings.region not in OFFERINGS:
        return
    offered = OFFERINGS[settings.region].get(given, ())
    existing, zone_ids = settings.network.existing, settings.network.zone_ids
    wanted = zone_ids if existing is None else tuple(existing.private_subnet_ids)
    usable = core_zones_of(settings.region)
    missing = [zone for zone in wanted or () if zone in usable and zone not in offered]
    if missing or len(set(usable) & set(offered)) < 2:
        yield Problem(
            path=path,
            given=shown(given, path),
            why=f"{listed(missing)} does not offer it" if missing else f"{settings.region} offers it in no two zones",
            remedy="take another type or other zones" + (f" (it is offered in {listed(offered)})" if offered else ""),
        )


def core_nodes_cover_the_zones(settings: Settings) -> Iterator[Problem]:
    existing, nodes = settings.network.existing, settings.cluster.core.nodes
    zones = settings.network.zone_ids if existing is None else tuple(existing.private_subnet_ids)
    if zones is not None and nodes < len(zones):
        yield Problem(
            path="cluster.core.nodes",
            given=f"{nodes} for {len(zones)} zones",
            why="slurmctld's state is on a volume of one zone, and in a zone without a core node it can run nowhere",
            remedy=f"give {len(zones)} or more, or name fewer zones",
        )


def large_clusters_have_ways_out(settings: Settings) -> Iterator[Problem]:
    nodes = sum(nodeset.nodes for nodeset in settings.nodesets.values())
    if nodes < GPU_NODES_FOR_LARGE or settings.network.existing is not None:
        return
    if settings.network.nat == "single":
        yield Problem(
            path="network.nat",
            given=f"'single' for {nodes} GPU nodes",
            why="when the zone of the one NAT gateway fails, no node anywhere gets out",
            remedy="use per_zone, or leave it out",
            fatal=False,
        )
    if settings.network.endpoints is False:
        yield Problem(
            path="network.endpoints",
            given=f"false for {nodes} GPU nodes",
            why="registry and AWS APIs are then called through the NAT gateway, by all nodes at once when they start",
            remedy="leave it out",
            fatal=False,
        )


NETWORK_RULES: Final = (
    region_is_known,
    vpc_range_is_usable,
    network_is_made_or_given,
    zones_can_hold_the_control_plane,
    subnets_are_distinct,
    core_type_is_usable,
    core_nodes_cover_the_zones,
    large_clusters_have_ways_out,
)
