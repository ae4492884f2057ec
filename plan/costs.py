"""What the planned cluster costs per hour while it stands idle: list prices, dated, an estimate and never a bill.

Left out, because it depends on use: traffic (NAT, load balancer, between zones), EFS storage and throughput, logs,
backups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.prices import HOURS_PER_MONTH, INSTANCE_USD_PER_HOUR, PRICED_REGIONS, SERVICES
from plan.accounting import AccountingPlan
from plan.network import NetworkPlan
from plan.nodegroups import GpuNodegroupPlan

if TYPE_CHECKING:
    from plan import Plan

NOT_COUNTED: Final = "traffic, EFS by GiB stored and moved, volumes of pods, logs and backups"
GP3_IOPS, GP3_MIBPS = 3000, 125  # included in every gp3 volume


@dataclass(frozen=True, kw_only=True, slots=True)
class CostItem:
    """usd_per_hour for all of `count` together; None = no price known, and then the total is a lower bound."""

    name: str
    count: int
    usd_per_hour: float | None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CostPlan:
    """items in order of the parts they pay for."""

    items: tuple[CostItem, ...]

    @property
    def total_usd_per_hour(self) -> float:
        return sum(item.usd_per_hour or 0.0 for item in self.items)

    @property
    def unpriced(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.items if item.usd_per_hour is None)


def _volume_usd_per_hour(gib: int, iops: int = GP3_IOPS, mibps: int = GP3_MIBPS) -> float:
    month = (
        gib * SERVICES.gp3_gib_month
        + (iops - GP3_IOPS) * SERVICES.gp3_iops_month_above_3000
        + (mibps - GP3_MIBPS) * SERVICES.gp3_mibps_month_above_125
    )
    return month / HOURS_PER_MONTH


def _instances(what: str, instance_type: str, count: int, note: str = "") -> CostItem:
    price = INSTANCE_USD_PER_HOUR.get(instance_type)
    return CostItem(
        name=f"{what} {instance_type}",
        count=count,
        usd_per_hour=None if price is None else price * count,
        note=note if price is not None else "no On-Demand price in facts/prices.py",
    )


def _nodegroup(group: GpuNodegroupPlan) -> CostItem:
    if group.capacity.market_type == "capacity-block":
        return CostItem(
            name=f"{group.name} {group.instance_type}",
            count=group.nodes,
            usd_per_hour=None,
            note="a Capacity Block is paid for when it is bought",
        )
    note = "paid for as long as the reservation exists, used or not" if group.capacity.reservation_id else ""
    return _instances(group.name, group.instance_type, group.nodes, note)


def _network(network: NetworkPlan) -> list[CostItem]:
    gateways = len(network.nat_zone_ids)
    per_zone = len(network.interface_endpoints) * len(network.endpoint_subnet_keys)
    items: list[CostItem] = []
    if gateways:
        each = SERVICES.nat_gateway_per_hour + SERVICES.public_ipv4_per_hour
        items.append(
            CostItem(name="NAT gateway", count=gateways, usd_per_hour=gateways * each, note="with its address")
        )
    if per_zone:
        usd = per_zone * SERVICES.interface_endpoint_per_zone_hour
        items.append(CostItem(name="interface endpoint in a zone", count=per_zone, usd_per_hour=usd))
    return items


def _database(accounting: AccountingPlan) -> CostItem:
    instances = 2 if accounting.multi_az else 1
    price = SERVICES.rds_per_hour.get(accounting.instance_class)
    storage = accounting.storage_gib * SERVICES.rds_gp3_gib_month / HOURS_PER_MONTH
    return CostItem(
        name=f"RDS {accounting.instance_class}",
        count=instances,
        usd_per_hour=None if price is None else instances * (price + storage),
        note="with storage" if price is not None else "no price in facts/prices.py",
    )


def plan_costs(plan: Plan) -> CostPlan:
    core, zones = plan.cluster.core, len(plan.network.keys_of("public"))
    volumes = core.nodes * _volume_usd_per_hour(core.root_volume_gib) + sum(
        group.nodes
        * _volume_usd_per_hour(group.root_volume_gib, group.root_volume_iops, group.root_volume_throughput_mibps)
        for group in plan.nodegroups
    )
    nlb = SERVICES.network_load_balancer_per_hour + zones * SERVICES.public_ipv4_per_hour
    items = [
        CostItem(name="EKS control plane", count=1, usd_per_hour=SERVICES.eks_cluster_per_hour),
        _instances("core", core.instance_type, core.nodes),
        *(_nodegroup(group) for group in plan.nodegroups),
        CostItem(
            name="gp3 root volume",
            count=core.nodes + sum(group.nodes for group in plan.nodegroups),
            usd_per_hour=volumes,
        ),
        *_network(plan.network),
        CostItem(name="login load balancer", count=1, usd_per_hour=nlb, note=f"with an address in {zones} zones"),
    ]
    if plan.accounting is not None:
        items.append(_database(plan.accounting))
    if plan.network.region not in PRICED_REGIONS:
        items = [
            CostItem(name=i.name, count=i.count, usd_per_hour=None, note="no prices of this region") for i in items
        ]
    return CostPlan(items=tuple(items))
