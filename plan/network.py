"""The network that follows from the settings: zones, subnets sized for the nodes asked for, NAT, endpoints, tags.

The address layout is a function of the VPC range and the zone's own number (`usw2-az3` is number 3), never of what else
is in the stack: a nodeset or a zone that is added later moves nobody's subnet, and a moved subnet is a replaced
cluster. Of the VPC's eight eighths the first two hold the public and private subnets of zones 1 to 6, and each other
one is the room of one zone's GPU nodes. For a /16:

    10.0.0.0/21    public   /24 per zone   (load balancer, NAT gateway)
    10.0.8.0/21... private  /21 per zone   (control plane, core nodes, endpoints, mount targets): 2,043 addresses
    10.0.64.0/19.. gpu      /19 per zone   (GPU nodes and their pods): 8,187 addresses, 314 nodes (629 on a reservation)

The range is a /16 to a /20 (settings/rules_network.py). A zone that needs more takes its neighbour's eighth too, if
that is free (629 and 1,259 nodes). GPU nodes of one nodeset sit in one zone, because EFA does not cross zones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from math import ceil
from typing import Final, Literal, TypeAlias

from facts.zones import OFFERINGS, core_zones_of
from plan.tags import tags
from settings.models import GPU_NODES_FOR_LARGE, ExistingNetwork, Settings
from settings.problems import Problem, SettingsError

Kind: TypeAlias = Literal["public", "private", "gpu"]

MAX_ZONE_NUMBER: Final = 6  # us-east-1 has six, no region has more; the layout has room for these
AWS_RESERVED_ADDRESSES: Final = 5  # network, router, DNS, future use, broadcast (VPC user guide, "Subnet sizing")

# Addresses that the VPC CNI keeps on a node (its README, MINIMUM_IP_TARGET and WARM_IP_TARGET). Its default holds a
# whole spare interface, 30 to 100 addresses, on nodes that run about eight pods with an address of their own.
CNI_MINIMUM_IP_TARGET: Final = 10
CNI_WARM_IP_TARGET: Final = 2
ADDRESSES_PER_GPU_NODE: Final = 1 + CNI_MINIMUM_IP_TARGET + CNI_WARM_IP_TARGET  # `efa-only` interfaces take none
ADDRESSES_PER_CORE_NODE: Final = 30  # about 25 pods and what the CNI keeps warm

# What nodes and controllers call while they start, so that 128 nodes at once do not queue at the NAT gateway. Image
# layers themselves come through the S3 gateway endpoint. Left out because nothing in the cluster calls them often:
# logs, autoscaling, kms, secretsmanager, ssm.
INTERFACE_ENDPOINTS: Final = (
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticfilesystem",
    "elasticloadbalancing",
    "sts",
)
LOAD_BALANCER_ROLE: Final[Mapping[Kind, Mapping[str, str]]] = {
    "public": {"kubernetes.io/role/elb": "1"},
    "private": {"kubernetes.io/role/internal-elb": "1"},
    "gpu": {},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SubnetPlan:
    """One subnet. key: `<kind>-<zone id>`, the name by which other parts of the plan refer to it.

    cidr is None when the subnet is the user's own (`existing_id`). nat_zone_id: the zone whose NAT gateway it routes
    through (None for public subnets and in a network of the user's own).
    """

    key: str
    kind: Kind
    zone_id: str
    cidr: str | None
    existing_id: str | None
    nat_zone_id: str | None
    tags: Mapping[str, str]

    @property
    def addresses(self) -> int | None:
        """How many the subnet can hand out; None when the subnet is the user's own."""
        return None if self.cidr is None else usable_addresses(IPv4Network(self.cidr))


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkPlan:
    """existing_vpc_id excludes vpc_cidr. nat_zone_ids: zones that get a NAT gateway (in their public subnet).

    interface_endpoints: AWS service short names (`ecr.api`), served in the private subnets `endpoint_subnet_keys`.
    gateway_endpoints: `s3`. node_cidrs: ranges of the private and gpu subnets, allowed to reach the endpoints on 443.
    """

    region: str
    vpc_cidr: str | None
    existing_vpc_id: str | None
    subnets: tuple[SubnetPlan, ...]
    nat_zone_ids: tuple[str, ...]
    gateway_endpoints: tuple[str, ...]
    interface_endpoints: tuple[str, ...]
    endpoint_subnet_keys: tuple[str, ...]
    node_cidrs: tuple[str, ...]
    tags: Mapping[str, str]

    def keys_of(self, kind: Kind) -> tuple[str, ...]:
        return tuple(s.key for s in self.subnets if s.kind == kind)


def core_zones(settings: Settings) -> tuple[str, ...]:
    """The zones of control plane and core nodes: as given, or the first two of the region that EKS takes and that offer
    the core type; in a network of the user's own, those of its private subnets.

    GPU nodesets have no say: EKS never lets a cluster change its zones, so a nodeset added later must not change them.
    """
    usable = core_zones_of(settings.region)
    if settings.network.zone_ids is not None:
        return tuple(sorted(settings.network.zone_ids))
    if settings.network.existing is not None:
        return tuple(z for z in sorted(settings.network.existing.private_subnet_ids) if z in usable)
    offering = OFFERINGS[settings.region][settings.cluster.core.instance_type]
    return tuple(z for z in usable if z in offering)[:2]


def nodeset_zone(settings: Settings, name: str) -> str:
    """The one zone of a nodeset: as given, or the first that offers its type, a core zone before others (near the NAT
    gateway and slurmctld). Looks at no other nodeset, so that adding one never moves a running one."""
    nodeset, existing = settings.nodesets[name], settings.network.existing
    if nodeset.zone_id is not None:
        return nodeset.zone_id
    offering = OFFERINGS[settings.region][nodeset.instance_type]
    reachable = [z for z in offering if existing is None or z in existing.private_subnet_ids]
    near = [z for z in reachable if z in core_zones(settings)]
    return (near or reachable)[0]


def gpu_addresses_by_zone(settings: Settings) -> dict[str, int]:
    """Addresses that each zone's GPU nodes need with their pods and a mount target, in the order of the zones.

    Twice the nodes of a nodeset that has no reservation: when its nodegroup must be replaced, the new one is made
    before the old one goes. On a reservation there is no room for two generations anyway.
    """
    needs: dict[str, int] = {}
    for name, nodeset in settings.nodesets.items():
        generations = 2 if nodeset.capacity is None else 1
        zone = nodeset_zone(settings, name)
        needs[zone] = needs.get(zone, 1) + generations * nodeset.nodes * ADDRESSES_PER_GPU_NODE
    return dict(sorted(needs.items()))


def usable_addresses(network: IPv4Network) -> int:
    return network.num_addresses - AWS_RESERVED_ADDRESSES


def zone_number(zone_id: str) -> int:
    return int(zone_id.rpartition("-az")[2])


def subnet_range(vpc: IPv4Network, kind: Kind, zone_id: str) -> IPv4Network:
    """A zone's own place in the VPC (see the module's text)."""
    number = zone_number(zone_id)
    if kind == "public":
        return _nth(vpc, 8, number - 1)
    if kind == "private":
        return _nth(vpc, 5, number)  # block 0 is that of the public subnets
    return _nth(vpc, 3, number + 1)  # eighths 0 and 1 are those of the public and private subnets


def _nth(vpc: IPv4Network, bits: int, index: int) -> IPv4Network:
    prefix = vpc.prefixlen + bits
    return IPv4Network((int(vpc.network_address) + (index << (32 - prefix)), prefix))


def _neighbour(zone_id: str) -> str:
    """The zone whose eighth completes an aligned quarter: 1 and 2, 3 and 4, 5 and 6."""
    stem, _, number = zone_id.rpartition("-az")
    return f"{stem}-az{((int(number) - 1) ^ 1) + 1}"


def gpu_range(vpc: IPv4Network, zone_id: str, needs: Mapping[str, int]) -> IPv4Network:
    """The zone's eighth of the VPC, or the quarter around it when the nodes need that and the neighbour zone has
    none."""
    eighth = subnet_range(vpc, "gpu", zone_id)
    if needs[zone_id] <= usable_addresses(eighth) or _neighbour(zone_id) in needs:
        return eighth
    return eighth.supernet()


def _problems(
    settings: Settings, vpc: IPv4Network, zones: tuple[str, ...], gpu_needs: Mapping[str, int]
) -> list[Problem]:
    """What does not fit. Here and not among the settings' rules, because only the layout knows its own limits."""
    problems: list[Problem] = []

    def refuse(has: int, needs: int, why: str, remedy: str) -> None:
        if needs > has:
            problems.append(Problem(path="network.vpc_cidr", given=str(vpc), why=why, remedy=remedy))

    for zone, needs in gpu_needs.items():
        has = usable_addresses(gpu_range(vpc, zone, gpu_needs))
        why = f"{zone} has room for {has} addresses of GPU nodes, and those asked for need {needs}"
        refuse(has, needs, why, "take a wider range (up to /16), fewer nodes, or a nodeset in another zone")
    has, nodes = usable_addresses(subnet_range(vpc, "private", zones[0])), settings.cluster.core.nodes
    needs = ceil(nodes / len(zones)) * ADDRESSES_PER_CORE_NODE
    why = f"a private subnet has {has} addresses, and {nodes} core nodes in {len(zones)} zones need {needs} in each"
    refuse(has, needs, why, "take a wider range or fewer core nodes")
    return problems


def plan_network(settings: Settings) -> NetworkPlan:
    """Raises: SettingsError when the nodes do not fit into the VPC."""
    existing = settings.network.existing
    return _new_network(settings) if existing is None else _existing_network(settings, existing)


def _new_network(settings: Settings) -> NetworkPlan:
    vpc = IPv4Network(settings.network.vpc_cidr)
    zones, gpu_needs = core_zones(settings), gpu_addresses_by_zone(settings)
    problems = _problems(settings, vpc, zones, gpu_needs)
    if problems:
        raise SettingsError(problems)
    large = sum(nodeset.nodes for nodeset in settings.nodesets.values()) >= GPU_NODES_FOR_LARGE
    nat = settings.network.nat or ("per_zone" if large else "single")
    nat_zones = zones if nat == "per_zone" else zones[:1]

    def subnet(kind: Kind, zone: str) -> SubnetPlan:
        cidr = gpu_range(vpc, zone, gpu_needs) if kind == "gpu" else subnet_range(vpc, kind, zone)
        return SubnetPlan(
            key=f"{kind}-{zone}",
            kind=kind,
            zone_id=zone,
            cidr=str(cidr),
            existing_id=None,
            nat_zone_id=None if kind == "public" else zone if zone in nat_zones else nat_zones[0],
            tags=LOAD_BALANCER_ROLE[kind],
        )

    subnets = (
        *(subnet("public", zone) for zone in zones),
        *(subnet("private", zone) for zone in zones),
        *(subnet("gpu", zone) for zone in gpu_needs),
    )
    endpoints = large if settings.network.endpoints is None else settings.network.endpoints
    return NetworkPlan(
        region=settings.region,
        vpc_cidr=str(vpc),
        existing_vpc_id=None,
        subnets=subnets,
        nat_zone_ids=nat_zones,
        gateway_endpoints=("s3",),
        interface_endpoints=INTERFACE_ENDPOINTS if endpoints else (),
        endpoint_subnet_keys=tuple(f"private-{zone}" for zone in zones) if endpoints else (),
        node_cidrs=tuple(s.cidr for s in subnets if s.kind != "public" and s.cidr is not None),
        tags=tags(settings, component="Network"),
    )


def _existing_network(settings: Settings, existing: ExistingNetwork) -> NetworkPlan:
    """The user's subnets under our keys. Nothing is built in it: its owner decides about gateways and endpoints, and a
    second endpoint with private DNS for the same service would be refused."""

    def subnet(kind: Kind, zone: str, subnet_id: str) -> SubnetPlan:
        return SubnetPlan(
            key=f"{kind}-{zone}",
            kind=kind,
            zone_id=zone,
            cidr=None,
            existing_id=subnet_id,
            nat_zone_id=None,
            tags={},
        )

    private = existing.private_subnet_ids
    return NetworkPlan(
        region=settings.region,
        vpc_cidr=None,
        existing_vpc_id=existing.vpc_id,
        subnets=(
            *(subnet("public", zone, i) for zone, i in sorted(existing.public_subnet_ids.items())),
            *(subnet("private", zone, private[zone]) for zone in core_zones(settings)),
            *(subnet("gpu", zone, private[zone]) for zone in gpu_addresses_by_zone(settings)),
        ),
        nat_zone_ids=(),
        gateway_endpoints=(),
        interface_endpoints=(),
        endpoint_subnet_keys=(),
        node_cidrs=(),
        tags=tags(settings, component="Network"),
    )
